/* How a round is trained: its work, the rate by a schedule, and the seeds of its randomness. Pure. */
#ifndef MODELS_TRAIN_H
#define MODELS_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"
#include "models/net/loss.h"
#include "models/net/optimiser.h"
#include "models/personal.h"

enum schedule { SCHEDULE_CONSTANT, SCHEDULE_STEP, SCHEDULE_COSINE };

struct train_config {
  uint32_t epochs; /* passes over the local training set a round; used when steps is 0 */
  uint32_t steps;  /* SGD steps a round; 0 = by epochs */
  uint32_t batch;  /* samples a step, 1 … MAX_BATCH; the last batch of an epoch has what is left */
  double learning_rate;
  struct optimiser_config optimiser; /* its state is kept between rounds */
  enum schedule schedule;
  uint32_t step_rounds; /* SCHEDULE_STEP: every so many rounds the rate is multiplied by step_factor */
  double step_factor;
  uint64_t total_rounds; /* SCHEDULE_COSINE: rate · ½(1 + cos(π · (round−1)/total_rounds)), 0 from then on */

  /* Of the loss in training (models/net/loss.h); models are judged by the plain one. */
  double label_smoothing; /* cross-entropy: 0 … <1 */
  double huber_delta;     /* huber: > 0 */
  struct class_weights {
    enum class_weighting rule; /* BALANCED: by the training samples of this site */
    float *values;             /* [n] GIVEN: one of each class, at least 0; borrowed */
    size_t n;
  } class_weights;

  bool
      momentum_reset; /* the optimiser begins anew each round, for what it knows points to where this site alone would go */
  struct personal_config personal;
  bool control_variates; /* models/drift/control.c; of plain sgd */
  double proximal;       /* μ ≥ 0 of FedProx (models/drift/proximal.c); 0: none */
};

/* ERR_RANGE: a number outside what the comments above allow, not finite, or no work at all. */
MUST_USE enum err train_config_check(const struct train_config *c);

/* η(r) of a round; rounds count from 1. */
double train_rate(const struct train_config *c, uint64_t round);

/* What a stream of random numbers is for. The values are part of the promise that a round can be repeated. */
enum stream { STREAM_ORDER = 1, STREAM_DROPOUT = 2, STREAM_ROUNDING = 3, STREAM_REPLAY = 8, STREAM_FISHER = 9 };

/* The generator of one stream of one round: seeded by h ← rng_mix(h + v) over v = stream, train_seed, part, round, sub
 * with h = 0 before, so each of the five changes all bits. */
void train_stream(struct rng *out_rng, enum stream stream, uint64_t train_seed, uint32_t part, uint64_t round,
                  uint32_t sub);

#endif
