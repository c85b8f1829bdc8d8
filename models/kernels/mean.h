/* The weighted sum of a merge: out = x + Σ_j w_j (y_j − own), in double, value by value, in the order of the terms.
 *
 * All kernels have the same bits: a subtraction, a product and a sum for each term, none of them fused. Memory is read once
 * and written once, whatever the number of terms. Pure. */
#ifndef MODELS_KERNELS_MEAN_H
#define MODELS_KERNELS_MEAN_H

#include <stdbool.h>
#include <stddef.h>

#include "models/kernels/cpu.h"

struct mean_term {
  const float *values; /* y_j [n_values] */
  double weight;       /* w_j */
};

struct mean_kernel {
  const char *name;
  struct cpu needs;
  /* out overlaps nothing else, or is x. Returns whether all of it is finite. */
  bool (*sum)(const float *x, const float *own, const struct mean_term *terms, size_t n_terms, size_t n_values,
              float *out);
};

/* All kernels of this build, the plainest first, whether this CPU has them or not. */
const struct mean_kernel *mean_kernels(size_t *out_n);

const struct mean_kernel *mean_fastest(void);

#endif
