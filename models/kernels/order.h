/* Order statistics by coordinate over a few arrays of equal length: the median and the trimmed mean of what peers send
 * (Yin et al. 2018).
 *
 *   median   out[i] = the middle of x_0[i] … x_{n−1}[i], for an even n the mean of the two middle ones
 *   trimmed  out[i] = the mean of what is left of them without the f smallest and the f largest
 *
 * Up to ORDER_NETWORK_MAX arrays are sorted by Batcher's merge exchange (Knuth 5.2.2, algorithm M): min and max of whole
 * vectors in registers, no branch, and no memory beside inputs and output. More than that are sorted one coordinate at a
 * time. All kernels have the same bits, but for the sign of a zero; sums run in double, from the smallest to the largest.
 *
 * Inputs are finite by contract: copies are checked when they are decoded. A NaN does not vanish in a network, for every
 * exchange swaps two values or leaves them (on arm64 both become NaN); but the order at its coordinate is lost, so that what
 * comes out there is any of the values or NaN. Other coordinates do not notice.
 *
 * Pure; out overlaps no input. */
#ifndef MODELS_KERNELS_ORDER_H
#define MODELS_KERNELS_ORDER_H

#include <stddef.h>

#include "models/kernels/cpu.h"

enum { ORDER_NETWORK_MAX = 16 };

struct order_kernel {
  const char *name;
  struct cpu needs;
  /* x [n][n_values], 1 ≤ n ≤ MAX_PEERS + 1. */
  void (*median)(const float *const *x, size_t n, size_t n_values, float *out);
  void (*trimmed)(const float *const *x, size_t n, size_t n_values, size_t f, float *out); /* 2f < n */
};

/* All kernels of this build, the plainest first, whether this CPU has them or not. */
const struct order_kernel *order_kernels(size_t *out_n);

const struct order_kernel *order_fastest(void);

#endif
