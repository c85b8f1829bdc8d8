/* A swarm in lockstep, some of whose members are bad: learners as they are deployed, what they send set as whole copies, no wire.
 *
 * All train, then the bad ones replace what they send by an attack that knows what all good ones send in the round, then all
 * merge by the rule. The last n_bad of n are bad; they learn and merge as the others, so that they have a step to reverse. */
#ifndef TESTS_PROPERTY_BAD_SWARM_H
#define TESTS_PROPERTY_BAD_SWARM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/data/dataset.h"
#include "models/merging/attack.h"
#include "models/merging/rule.h"
#include "models/net/optimiser.h"
#include "models/schema.h"

enum { BAD_SWARM_MOST = 32 };

struct bad_swarm {
  const struct schema *schema;
  struct dataset *train[BAD_SWARM_MOST]; /* [n], changed by attacks on data */
  const struct dataset *test;            /* of all */
  size_t row_inputs;                     /* of a row of an image; 0: no image */
  size_t n, n_bad;
  bool edges[BAD_SWARM_MOST][BAD_SWARM_MOST];
  enum attack attack;
  struct rule_setting rule;
  uint32_t rounds, steps, batch;
  double learning_rate, momentum;
  uint64_t seed;
};

/* Edges. */
void bad_swarm_full(struct bad_swarm *s);
/* About `degree` a member, at random; of no good member's neighbours more than a third are bad. */
void bad_swarm_random(struct bad_swarm *s, size_t degree);
/* Two full halves and one edge between them. */
void bad_swarm_dumbbell(struct bad_swarm *s);
/* The good ones in a ring, and each with two bad ones. */
void bad_swarm_ring(struct bad_swarm *s);

struct bad_swarm_result {
  double mean, worst; /* accuracy of good members on the common test set */
  double of_mean;     /* and of the mean of their models */
  size_t n_bad_kept, n_bad, n_good_left_out,
      n_good; /* contributions of bad and good ones to good ones, over all rounds */
};

void bad_swarm_run(const struct bad_swarm *s, struct bad_swarm_result *out_result);

#endif
