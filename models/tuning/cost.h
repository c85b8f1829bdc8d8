/* The cost model: how long a piece of work takes, learnt from few measurements.
 *
 * A point is what is known of the work beforehand: the logarithm of the floating-point operations that must be done one after
 * the other, `values` (logarithms of sizes, lanes, threads, block, the share of the processor; which machine) and the
 * variant that does it. The model is an ensemble of ridge regressions on
 *
 *   y = log(seconds) − log(work)        φ = 1, x_i, x_i·x_j (i ≤ j), [v], [v]·x_i
 *
 * the first fitted to all measurements, and it predicts; the others each to a bootstrap of them and to random beliefs of
 * what was not measured, so that their spread says how sure it is. When the host changes, the new model is fitted to few new
 * measurements and to what the old one says of a pool of points, which needs no old measurement:
 *
 *   minimise  (1 − λ) Σ_new (f(x) − y)²  +  λ Σ_pool (f(x) − f_old(x))²  +  ridge
 *
 * Sources: Hoerl & Kennard 1970, Breiman 1996 (bagging), Hinton et al. 2015 and Shen et al. 2026 (distillation for tuners).
 * The normal equations are solved by Cholesky's method in double. Pure: no clock, no threads; same input, same bits. */
#ifndef MODELS_TUNING_COST_H
#define MODELS_TUNING_COST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { COST_VALUES = 9, COST_MEMBERS = 8, MAX_COST_VARIANTS = 64 };

struct cost_point {
  double log_work;
  double values[COST_VALUES]; /* of about the size of natural logarithms; 0 where there is nothing to say */
  uint32_t variant;
};

struct cost_sample {
  struct cost_point at;
  double log_seconds;
};

struct cost_model;

/* A model that knows nothing: every prediction is log_work, without spread. n_variants ≤ MAX_COST_VARIANTS. ERR_NO_MEMORY. */
MUST_USE enum err cost_new(uint32_t n_variants, struct cost_model **out_model);
void cost_free(struct cost_model *m);

/* What to fit to. */
struct cost_lesson {
  const struct cost_sample *samples;
  size_t n_samples;
  const struct cost_model *old; /* of as many variants; NULL: nothing is kept of it */
  const struct cost_point *pool;
  size_t n_pool;
  double keep;   /* λ, 0 … 1: how much the old model counts */
  uint64_t seed; /* of the bootstraps: sample i has the same weight in a longer lesson */
};

/* Replaces what m knows. ERR_NO_MEMORY; ERR_NON_FINITE: a sample is not finite, or the equations have no solution in double;
 * m is unchanged after an error. */
MUST_USE enum err cost_fit(struct cost_model *m, const struct cost_lesson *lesson);

/* log(seconds), and the standard deviation of the members other than the first, or NULL. */
double cost_predict(const struct cost_model *m, const struct cost_point *at, double *out_spread);

/* What it knows, as COST_MEMBERS rows of cost_terms values, to be stored and taken back. ERR_NON_FINITE. */
size_t cost_terms(uint32_t n_variants);
const double *cost_weights(const struct cost_model *m);
MUST_USE enum err cost_take(struct cost_model *m, const double *weights);

#endif
