/* Squared distances between all pairs of a few arrays, for rules that judge whom to believe (Blanchard et al. 2017, Krum).
 *
 * In tiles that stay near, so memory is read once however many pairs there are. Within a tile a pair's sum runs in 32 floats, of the
 * indices equal modulo 32, tiles are summed in double: within 2^−17 of itself. All kernels have the same bits.
 * Pure. */
#ifndef MODELS_KERNELS_DISTANCE_H
#define MODELS_KERNELS_DISTANCE_H

#include <stddef.h>

#include "models/kernels/cpu.h"

struct distance_kernel {
  const char *name;
  struct cpu needs;
  /* Σ (a − b)² of one tile, n ≤ DISTANCE_TILE. */
  double (*tile)(const float *a, const float *b, size_t n);
};

enum { DISTANCE_TILE = 1024 };

/* out [n][n] = ‖x_i − x_j‖²: symmetric, zeros on the diagonal. */
void distance_pairs(const struct distance_kernel *k, const float *const *x, size_t n, size_t n_values, double *out);

/* All kernels of this build, the plainest first, whether this CPU has them or not. */
const struct distance_kernel *distance_kernels(size_t *out_n);

const struct distance_kernel *distance_fastest(void);

#endif
