/* The tuner: finds which kernels and which split of a batch are fastest on this host, and measures a tenth of what there is.
 *
 * The grid is operation × variant × split (lanes, threads, block): its cells. The time of a split is the sum over the
 * operations of their fastest variant under it. The tuner names the next cell to be measured, the caller measures it
 * (rooms below have no clock) and tells the seconds, and so on until the tuner has enough or the caller has no more time:
 *
 *   half of the budget   cells by representativeness, diversity, uncertainty (models/tuning/sampler.h)
 *   the rest             cells without which the split that looks best cannot be believed: by the lower bound ŷ − σ
 *
 * What was measured counts as measured, all else as the cost model (models/tuning/cost.h) says; the choice is made with the
 * upper bound ŷ + 0.3 σ, so that what nobody measured must be better by more than its doubt. With a model of another host the
 * tuner starts from what that one knew. Pure; one thread at a time; same measurements, same choice. */
#ifndef MODELS_TUNING_TUNER_H
#define MODELS_TUNING_TUNER_H

#include <stdbool.h>

#include "models/tuning/sampler.h"

enum { MAX_TUNER_OPERATIONS = 32, MAX_TUNER_VARIANTS = 16, MAX_TUNER_SPLITS = 256 };

/* What is done once a batch: 2 · pixels · depth · channels floating-point operations forwards, for each sample. */
struct tuner_operation {
  double pixels;   /* of the output: places at which the same weights are used; a dense layer has 1 */
  double depth;    /* products a value of the output */
  double channels; /* values of the output at one place */
  double count;    /* how many layers of the net are this operation */
  uint32_t n_variants;
  uint32_t variants[MAX_TUNER_VARIANTS]; /* as the cost model numbers them */
};

struct tuner_split {
  uint32_t lanes, threads, block; /* as in struct selection */
};

struct tuner_host {
  double processors; /* worth of time that it gives: 0.4 … */
  double machine; /* a number for it, 0 for the first; of two machines nothing is known to be alike but by measuring */
};

struct tuner_config {
  const struct tuner_operation *operations; /* borrowed, as splits and old are */
  size_t n_operations;
  const struct tuner_split *splits;
  size_t n_splits;
  uint32_t batch;
  struct tuner_host host;
  uint32_t n_variants;   /* of the cost model */
  double share;          /* of the grid that may be measured, 0.1 */
  double explored;       /* of those measurements, so many are the sampler's */
  size_t n_measurements; /* at most; 0: as `share` says */
  struct sampler_weights weights;
  const struct cost_model *old; /* NULL: nothing is known */
  struct tuner_host old_host;   /* that it knew */
  double keep;                  /* λ */
  uint64_t seed;
};

/* Weights, shares and λ that the figures of tests/bench were made with. */
struct tuner_config tuner_defaults(void);

/* The host has changed: few measurements, most of which are spent on what the old model thinks best. */
void tuner_learn_again(struct tuner_config *config, const struct cost_model *old, struct tuner_host old_host);

struct tuner;

struct tuner_cell {
  size_t operation, split;
  uint32_t variant; /* index in the operation's */
};

/* ERR_RANGE: nothing to choose from, or more than the limits above; ERR_NO_MEMORY. */
MUST_USE enum err tuner_new(const struct tuner_config *config, struct tuner **out_tuner);
void tuner_free(struct tuner *t);

size_t tuner_cells(const struct tuner *t);
size_t tuner_measured(const struct tuner *t);

/* The next cell to be measured; false: enough is known. ERR_NO_MEMORY and ERR_NON_FINITE as cost_fit, tuner_next ends then. */
MUST_USE enum err tuner_next(struct tuner *t, struct tuner_cell *out_cell, bool *out_has);
/* What was measured: seconds > 0 of the cell, forwards and backwards over the batch. */
void tuner_put(struct tuner *t, const struct tuner_cell *cell, double seconds);

struct tuner_choice {
  size_t split;
  uint32_t variants[MAX_TUNER_OPERATIONS]; /* of each operation: index in its own */
  double seconds;                          /* as believed */
  bool measured;                           /* every part of it was */
};

/* The best of what is known. Errors as cost_fit. */
MUST_USE enum err tuner_choose(struct tuner *t, struct tuner_choice *out_choice);

/* Seconds that it believes a cell to take, and whether they were measured. After tuner_choose. */
double tuner_believes(const struct tuner *t, const struct tuner_cell *cell, bool *out_measured);

/* The model as it is after tuner_choose; the tuner's. */
const struct cost_model *tuner_model(const struct tuner *t);

#endif
