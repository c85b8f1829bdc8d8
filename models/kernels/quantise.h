/* Floats as small whole multiples of a common scale, rounded at random so that the mean is right (Alistarh et al. 2017, QSGD,
 * with the largest magnitude of a block instead of its norm).
 *
 *   scale = max |x| / limit,   q_i = ⌊x_i / scale + u_i⌋,   −limit ≤ q_i ≤ limit,   E[scale · q_i] = x_i to 2^−16 of a scale
 *
 * u_i in [0, 1) is a hash of (seed, place of the value), so a block has the same bits whichever kernel makes it and however
 * often. A block with max |x| / limit below FLT_MIN becomes zeros with scale 0: what is lost is below what the decoder could
 * say exactly. All kernels are one body compiled for several instruction sets. Pure; inputs are finite. */
#ifndef MODELS_KERNELS_QUANTISE_H
#define MODELS_KERNELS_QUANTISE_H

#include <stddef.h>
#include <stdint.h>

#include "models/kernels/cpu.h"

enum { QUANTISE_BLOCK = 256 }; /* values with a common scale */

struct quantise_kernel {
  const char *name;
  struct cpu needs;
  /* x, out_q [n], n ≤ QUANTISE_BLOCK, 1 ≤ limit ≤ 127; `place` of x[0] among all values. Returns the scale. */
  float (*quantise)(const float *x, size_t n, int limit, uint64_t seed, uint32_t place, int8_t *out_q);
  /* out_x[i] = scale · q[i]. */
  void (*restore)(const int8_t *q, size_t n, float scale, float *out_x);
};

/* All kernels of this build, the plainest first, whether this CPU has them or not. */
const struct quantise_kernel *quantise_kernels(size_t *out_n);

const struct quantise_kernel *quantise_fastest(void);

#endif
