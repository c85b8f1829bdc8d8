/* Pools over NHWC arrays, eight channels at a time: the largest value or the mean of each window.
 *
 * Windows lie inside the input. `which` [n][out_height][out_width][channels] is the place in its window, row by row, of the
 * largest value: the first of equal ones, and NaN before all others. Pure. */
#ifndef MODELS_KERNELS_POOL_H
#define MODELS_KERNELS_POOL_H

#include <stddef.h>

#include "models/kernels/cpu.h"

struct pool_shape {
  size_t height, width, channels;
  size_t window_height, window_width, stride;
  size_t out_height, out_width;
};

struct pool_kernel {
  struct cpu needs;
  void (*largest)(const struct pool_shape *s, size_t n, const float *x, float *y, float *which);
  void (*largest_back)(const struct pool_shape *s, size_t n, const float *dy, const float *which, float *dx);
  void (*mean)(const struct pool_shape *s, size_t n, const float *x, float *y);
  void (*mean_back)(const struct pool_shape *s, size_t n, const float *dy, float *dx);
};

extern const struct pool_kernel pool_lanes;
#if defined __x86_64__
extern const struct pool_kernel pool_avx2, pool_avx512;
#endif

#endif
