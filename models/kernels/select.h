/* The largest of many values without sorting them: a histogram of the upper 16 bits of their magnitudes says above which
 * bound as many as wanted lie, and a second pass finds those. Two reads, whatever the number wanted. Pure. */
#ifndef MODELS_KERNELS_SELECT_H
#define MODELS_KERNELS_SELECT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "models/kernels/cpu.h"

enum { SELECT_SHIFT = 15, SELECT_BINS = 1 << 16, SELECT_BLOCK = 512 };

/* |x| as bits: they order as the magnitudes do. Those of one bin, bits >> SELECT_SHIFT, differ by less than 2^−8 of
 * themselves. */
static inline uint32_t select_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits & 0x7fffffff;
}

/* Counts n more values. */
void select_count(const float *x, size_t n, uint32_t histogram[SELECT_BINS]);

/* From which bin on the values are wanted when the largest `wanted` are, and of how many of that bin itself. Bin 0, in which
 * zero lies, is never wanted; *out_of_bin is the whole bin's count when fewer than `wanted` lie above it. */
void select_bound(const uint32_t histogram[SELECT_BINS], uint32_t wanted, uint32_t *out_bin, uint32_t *out_of_bin);

struct select_kernel {
  const char *name;
  struct cpu needs;
  /* The places i < n ≤ SELECT_BLOCK with select_bits(x[i]) ≥ least ≥ 1, ascending. out_places has room for n + 1. Returns their
   * number. */
  size_t (*find)(const float *x, size_t n, uint32_t least, uint16_t *out_places);
};

/* All kernels of this build, the plainest first, whether this CPU has them or not. */
const struct select_kernel *select_kernels(size_t *out_n);

const struct select_kernel *select_fastest(void);

#endif
