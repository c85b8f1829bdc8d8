/* Means and deviations of figures that repeated runs have given. Pure. */
#ifndef MODELS_JUDGING_SPREAD_H
#define MODELS_JUDGING_SPREAD_H

#include <stddef.h>

struct spread {
  double mean; /* NaN: of none */
  double sd;   /* √(Σ (x − mean)² / (n − 1)); NaN: of fewer than two */
};

struct spread spread_of(const double *values, size_t n);

/* Σ w x / Σ w; NaN where Σ w is 0. */
double weighted_mean(const double *values, const double *weights, size_t n);

/* Mean of the ⌈n/10⌉ smallest; NaN: of none. Sorts the values. */
double worst_decile(double *values, size_t n);

#endif
