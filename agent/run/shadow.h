/* The shadow: the same model trained on this site alone, so that `starling compare` can say what the swarm is worth here.
 *
 * A second learner without copies of peers: same first weights, same data, as many steps in the same order, never merged.
 * A training of the site leaves a debt; the trainer pays it after it has handed out the site's own payload, so that the
 * time lies beside the waiting for peers. Its state is stored with each commit and goes on after a restart.
 *
 * auto: there is one while training, evaluating and storing it take less than SHADOW_MAX_SHARE of the time from one training
 * to the next (median of the last SHADOW_WINDOW rounds, judged from SHADOW_DECIDE on), and peers to compare with. Both are
 * wall time: what else a busy host does makes the one longer as the other, and storing waits for the disk. Once it was given up, or where
 * the site began without one, auto does not begin another: it would have missed trainings.
 *
 * Memory: 4·P floats. Thread: the trainer thread. Owner: the trainer. Time is an argument except for what its own training
 * takes. */
#ifndef AGENT_RUN_SHADOW_H
#define AGENT_RUN_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/config.h"
#include "agent/core/work.h"
#include "base/err.h"
#include "models/learner.h"

enum { SHADOW_WINDOW = 8, SHADOW_DECIDE = 4, SHADOW_TRAILER_BYTES = 16 };
#define SHADOW_MAX_SHARE 0.1

/* Shares of rounds that the shadow took, newest in place of the oldest. */
struct shadow_cost {
  double shares[SHADOW_WINDOW];
  uint32_t n, next;
};

void shadow_cost_put(struct shadow_cost *c, double shadow_s, double round_s);

/* The median; 0 before the first. */
double shadow_cost_share(const struct shadow_cost *c);

struct shadow {
  enum shadow_mode mode;
  enum metric metric;
  struct learner *learner;           /* NULL: there is none */
  const struct at_rest_key *at_rest; /* borrowed from shadow_start */
  struct shadow_cost cost;
  bool owes; /* the training of this label */
  struct round_label owed;
  double owed_rate_scale;
  uint32_t owed_steps;           /* 0: as the job file says */
  double round_started_s;        /* 0: no training yet */
  double written_s, stored_s;    /* what its last snapshot took here, and the store */
  struct shadow_figures figures; /* of its last training */
  char note[MAX_REASON_BYTES];   /* what is worth a line in the log; whoever passes it on empties it */
};

struct shadow_start {
  enum shadow_mode mode;
  const struct learner_config *learner; /* the site's own; copies are not taken over */
  const struct dataset *train;
  const struct dataset *const *tests; /* [N_TEST_SETS] */
  const struct buffer *stored;        /* what shadow_write wrote; empty: nothing */
  bool is_first;                      /* the site has not trained before */
  const struct learner *first;        /* whose weights it starts from then: they may come from another job's model */
  enum metric metric;
  const struct at_rest_key
      *at_rest; /* what continual learning keeps is sealed by, as in the site's own half; outlives the shadow */
};

/* Opens one where the mode asks for it; a stored one that cannot be read is a note. ERR_NO_MEMORY and what learner_open and
 * learner_attach say. */
MUST_USE enum err shadow_open(struct shadow *s, const struct shadow_start *start);
void shadow_close(struct shadow *s);

/* The sets of the site are others from now on; a shadow that cannot take them ends with a note. */
void shadow_reattach(struct shadow *s, const struct dataset *train, const struct dataset *const *tests);

/* A training of the site begins: judges what the round before it cost, and gives up when that is too much. */
void shadow_round(struct shadow *s, double now_s);

/* How long the store took for its snapshot of the round before; told before shadow_round. */
void shadow_stored(struct shadow *s, double seconds);

/* The site's training of a label succeeded; steps as in its JOB_TRAIN. */
void shadow_owe(struct shadow *s, struct round_label label, double rate_scale, uint32_t steps);

/* Trains what is owed and evaluates on the local test set. A training that fails ends the shadow with a note; stopped, it is
 * of no use any more and must not be written. */
void shadow_pay(struct shadow *s, const struct work_hook *hook);

/* The learner's half and how often and how long it was trained; empty without a shadow. ERR_NO_MEMORY. */
MUST_USE enum err shadow_write(struct shadow *s, struct buffer *out);

/* Splits what shadow_write wrote: the learner's half, borrowed, without what is sealed behind it, and the counts. ERR_CORRUPT. */
MUST_USE enum err shadow_split(const struct buffer *stored, struct buffer *out_half, uint64_t *out_n_trainings,
                               uint64_t *out_n_steps);

#endif
