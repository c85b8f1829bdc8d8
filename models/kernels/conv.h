/* Ways of computing a convolution and its two gradients, on arrays.
 *
 *   y[o, p, q] = b[o] + Σ_{i,j,c} W[o, i, j, c] · x[p·s + i − pad_h, q·s + j − pad_w, c]      and max(·, 0) where relu follows
 *
 * (a cross-correlation, as every library calls it; x is zero outside). A sample is NHWC, [height][width][c]; a series of T
 * steps is 1×T with kernels of height 1. Weights are [c_out][kernel height][kernel width][c_in], biases [c_out] behind them.
 *
 *   direct           each value of y is summed in a register; lanes are output channels, a tile is sites × channels. Sites
 *                    (of all samples) whose windows are cut by the border alike share a tile, so no padding is multiplied;
 *                    and ∂L/∂x is the same sum over the mirrored kernel (Zlateski & Seung 2017; Georganas et al. 2018)
 *   paired           the same with two samples interleaved, so that 8 channels fill a vector of 16 lanes
 *   im2col           the windows of a sample as rows of a matrix, then one matrix product (Chellapilla et al. 2006)
 *   im2col-batch     the same with the windows of the whole batch
 *   matmul           1×1 with stride 1: the input is that matrix already
 *   winograd         F(2×2, 3×3) for 3×3 with stride 1: 16 products instead of 36 (Lavin & Gray 2016)
 *   winograd-series  F(6, 3) for series, 3 taps with stride 1, channels in sixteens: 8 products instead of 18, on packed
 *                    weights; its tiles do not leave the first cache, nor is a relu's gradient written anywhere
 *
 * All equal each other to 1e-4 relative. Pure, no allocation. Arrays need no alignment but are fastest on cache lines. */
#ifndef MODELS_KERNELS_CONV_H
#define MODELS_KERNELS_CONV_H

#include <stdbool.h>
#include <stddef.h>

#include "models/kernels/cpu.h"

struct conv_shape {
  size_t height, width, c_in;         /* of a sample */
  size_t kernel_height, kernel_width; /* not above the padded input's */
  size_t stride;
  size_t pad_height, pad_width;
  size_t out_height, out_width, c_out; /* (height + 2·pad − kernel)/stride + 1, rounded down */
};

struct conv_batch {
  size_t n;
  const float *x; /* [n][height][width][c_in] */
  const float *w; /* as the kernel lays them out, biases included */
  bool relu;
  float *
      which; /* where the kernel pools: a pool of 2×2 follows, and this is its `which` (models/kernels/pool.h); else NULL */
  float *scratch; /* any contents */
  float *y;       /* [n][out_height][out_width][c_out], or half of both where pooled; backward reads it where relu */
};

struct conv_gradient {
  const float *dy; /* ∂L/∂y, after the relu and the pool where there are such */
  float *dx;       /* ∂L/∂x, to be written; NULL: not wanted */
  bool gated;      /* where the kernel gates: dx is x, and becomes 0 where x ≤ 0 */
  float momentum;
  float *g; /* as w is laid out: g ← momentum·g + ∂L/∂w, with 0 from any contents; the gradient of padding is zero */
};

struct conv_kernel {
  const char *name;
  struct cpu needs;
  bool pools; /* does a pool of 2×2 with stride 2, the largest value, that follows; for outputs with 2 rows at least */
  bool gates; /* does conv_gradient.gated */

  bool (*fits)(const struct conv_shape *s); /* NULL: any shape */

  /* Its own layout: the length, and the ways there and back; they move values and pad with zeros. NULL: as above. */
  size_t (*weights)(const struct conv_shape *s);
  void (*load)(const struct conv_shape *s, const float *w, float *out_own);
  void (*store)(const struct conv_shape *s, const float *own, float *out_w);

  size_t (*scratch)(const struct conv_shape *s, size_t n); /* floats for a batch of n, forwards or backwards */

  void (*forward)(const struct conv_shape *s, const struct conv_batch *b);
  void (*backward)(const struct conv_shape *s, const struct conv_batch *b, const struct conv_gradient *d);
};

/* Values of W without biases. */
static inline size_t conv_taps(const struct conv_shape *s) {
  return s->kernel_height * s->kernel_width * s->c_in;
}
static inline size_t conv_sites(const struct conv_shape *s) {
  return s->out_height * s->out_width;
}

extern const struct conv_kernel conv_im2col, conv_im2col_batch, conv_matmul, conv_winograd, conv_direct, conv_series;
#if defined __x86_64__
extern const struct conv_kernel conv_direct_avx2, conv_direct_avx512, conv_paired_avx512, conv_series_avx2,
    conv_series_avx512;
#endif

/* All of them, whether this CPU has what they need or not; models/net/conv.c says which is better. */
const struct conv_kernel *const *conv_kernels(size_t *out_n);

#endif
