/* The three matrix products of a layer whose weights stay packed between steps.
 *
 *   forward        y  = x·Wᵀ + b           and max(·, 0) where relu follows
 *   back_inputs    dx = dy·W
 *   back_weights   g  ← β·g + dyᵀ·x        or the whole step of SGD while the tile is in the nearest cache
 *
 * W [n_out][n_in] is kept as panels of 16 outputs, [⌈n_out/16⌉][n_in][16], the missing outputs zero: forward reads a panel
 * as a stream, back_weights updates it as one, and back_inputs broadcasts from it (dxᵀ = Wᵀ·dyᵀ), so nothing is ever
 * packed again. The layout is the same for every kernel. A tile of the result is held in registers over the whole inner
 * sum: 14×32 with AVX-512, 6×16 with AVX2 and NEON, after Goto & van de Geijn 2008 and BLIS (Van Zee & van de Geijn 2015),
 * without their blocking for caches: a batch is narrow, and the weights are read once for a few rows of it.
 *
 * All kernels of a build equal each other but for rounding: sums are over float, in the order of the inner index. Pure, no
 * allocation; arrays need no alignment but are fastest on cache lines. Padding that is written is written as zero. */
#ifndef MODELS_KERNELS_GEMM_H
#define MODELS_KERNELS_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "models/kernels/cpu.h"

enum { GEMM_PANEL = 16, GEMM_ROOM = 2 * GEMM_PANEL };

/* n samples; a row of x begins x_stride ≥ n_in values after the one before it, a row of y y_stride ≥ n_out. */
struct gemm_shape {
  size_t n, n_in, n_out;
  size_t x_stride, y_stride;
};

/* Rows of n values rounded up to whole panels. */
size_t gemm_padded(size_t n);

/* Values of W packed; the bias beside it is [gemm_padded(n_out)]. */
size_t gemm_packed(size_t n_out, size_t n_in);
void gemm_pack(size_t n_out, size_t n_in, const float *w, float *out_packed);
void gemm_unpack(size_t n_out, size_t n_in, const float *packed, float *out_w);

/* out [columns][rows] = aᵀ, a [rows][columns]; a row begins a stride behind the one before it. */
void gemm_transpose(size_t rows, size_t columns, const float *a, size_t a_stride, float *out, size_t out_stride);

/* What back_weights does with the product ∇ = dyᵀ·x. */
struct gemm_update {
  float *g;       /* packed: g ← momentum·g + ∇ */
  float momentum; /* 0: g is not read */
  float *w;       /* packed: w ← w − rate·g after it; NULL: not touched */
  float rate;
  float decay; /* with w: g ← momentum·g + ∇ + decay·w */
};

/* dy as the two backward products read it, made by gemm_prepare: */
struct gemm_delta {
  float *panels;  /* [⌈n_out/16⌉][n][16] */
  float *columns; /* [gemm_padded(n_out)][gemm_padded(n)], or NULL when dx is not wanted */
};

/* dy [n][n_out] at y_stride, zero wherever y ≤ 0 unless y is NULL (the gradient of a relu that forward applied), padded
 * with zeros. */
void gemm_prepare(const struct gemm_shape *s, const float *dy, const float *y, const struct gemm_delta *out_delta);

struct gemm {
  const char *name;
  struct cpu needs;
  /* y [n][n_out]; bias [gemm_padded(n_out)]. NaN passes relu. */
  void (*forward)(const struct gemm_shape *s, const float *x, const float *packed, const float *bias, bool relu,
                  float *y);
  /* dx [n][n_in] at x_stride, with room [n_in][GEMM_ROOM] for the transpose of a part of it. */
  void (*back_inputs)(const struct gemm_shape *s, const struct gemm_delta *delta, const float *packed, float *room,
                      float *dx);
  void (*back_weights)(const struct gemm_shape *s, const struct gemm_delta *delta, const float *x,
                       const struct gemm_update *update);
  /* The same of the bias, the arrays of `update` being [gemm_padded(n_out)]. */
  void (*back_bias)(const struct gemm_shape *s, const struct gemm_delta *delta, const struct gemm_update *update);

  /* Few outputs: W, and the arrays of `update`, are [n_out][n_in], n_in a multiple of GEMM_PANEL, bias [n_out]. Sums over
   * inputs are made lane by lane. */
  void (*few_forward)(const struct gemm_shape *s, const float *x, const float *w, const float *bias, bool relu,
                      float *room, float *y);
  /* dy [n][n_out]; dx, made of w before the step, may be NULL: not wanted. gated: dx is x, and becomes 0 where x ≤ 0. */
  void (*few_backward)(const struct gemm_shape *s, const float *dy, const float *x, const float *w,
                       const struct gemm_update *update, bool gated, float *dx);
};

/* All kernels of this build, in this order, whether this CPU has what they need or not. */
enum {
  GEMM_PORTABLE,
#if defined __x86_64__
  GEMM_AVX2,
  GEMM_AVX512,
#elif defined __aarch64__
  GEMM_NEON,
#endif
};
const struct gemm *gemm_kernel(size_t i); /* NULL behind the last */

/* The last of them that `cpu` can run. */
const struct gemm *gemm_fastest(const struct cpu *cpu);

#endif
