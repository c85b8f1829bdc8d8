/* With X [sites][taps] the windows as rows and W [c_out][taps]:   Y = X·Wᵀ + b,   ∂W = dYᵀ·X,   ∂X = dY·W. */
#include <cblas.h>
#include <stdint.h>
#include <string.h>

#include "models/floats.h"
#include "models/kernels/conv.h"

static const size_t NOWHERE = SIZE_MAX; /* outside the input */

/* Where in a sample the input begins that output (p, q) meets with tap (i, j). */
static size_t input_place(const struct conv_shape *s, size_t p, size_t q, size_t i, size_t j) {
  size_t row = p * s->stride + i - s->pad_height, column = q * s->stride + j - s->pad_width; /* huge when negative */
  return row < s->height && column < s->width ? (row * s->width + column) * s->c_in : NOWHERE;
}

/* The windows of one sample, [sites][taps]. */
static void windows_read(const struct conv_shape *s, const float *x, float *rows) {
  for (size_t p = 0; p < s->out_height; p++)
    for (size_t q = 0; q < s->out_width; q++)
      for (size_t i = 0; i < s->kernel_height; i++)
        for (size_t j = 0; j < s->kernel_width; j++, rows += s->c_in) {
          size_t at = input_place(s, p, q, i, j);
          if (at != NOWHERE)
            memcpy(rows, x + at, s->c_in * sizeof *rows);
          else
            memset(rows, 0, s->c_in * sizeof *rows);
        }
}

/* The way back: x ← Σ of the windows. */
static void windows_add(const struct conv_shape *s, const float *rows, float *x) {
  memset(x, 0, s->height * s->width * s->c_in * sizeof *x);
  for (size_t p = 0; p < s->out_height; p++)
    for (size_t q = 0; q < s->out_width; q++)
      for (size_t i = 0; i < s->kernel_height; i++)
        for (size_t j = 0; j < s->kernel_width; j++, rows += s->c_in) {
          size_t at = input_place(s, p, q, i, j);
          for (size_t c = 0; at != NOWHERE && c < s->c_in; c++)
            x[at + c] += rows[c];
        }
}

/* ---- the three products over m rows */

static void rows_forward(const struct conv_shape *s, size_t m, const float *rows, const struct conv_batch *b,
                         float *y) {
  const float *bias = b->w + conv_taps(s) * s->c_out;
  for (size_t i = 0; i < m; i++)
    memcpy(y + i * s->c_out, bias, s->c_out * sizeof *y);
  blasint n = (blasint)s->c_out, k = (blasint)conv_taps(s);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)m, n, k, 1, rows, k, b->w, k, 1, y, n);
  if (b->relu)
    for (size_t i = 0; i < m * s->c_out; i++)
      y[i] = y[i] < 0 ? 0 : y[i];
}

/* dz is d_y where no relu follows, else d_y where y > 0, written to `room`. */
static const float *rows_delta(const struct conv_shape *s, size_t m, const float *dy, const float *y, float *room) {
  if (!y)
    return dy;
  for (size_t i = 0; i < m * s->c_out; i++) {
    float d = dy[i]; /* loaded in any case, so that there is no branch */
    room[i] = y[i] > 0 ? d : 0;
  }
  return room;
}

static void rows_back_weights(const struct conv_shape *s, size_t m, const float *rows, const float *dz, float beta,
                              float *g) {
  blasint n = (blasint)s->c_out, k = (blasint)conv_taps(s);
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n, k, (blasint)m, 1, dz, n, rows, k, beta, g, k);
  float *bias = g + conv_taps(s) * s->c_out;
  floats_scale(bias, s->c_out, beta);
  for (size_t i = 0; i < m; i++)
    for (size_t c = 0; c < s->c_out; c++)
      bias[c] += dz[i * s->c_out + c];
}

static void rows_back_inputs(const struct conv_shape *s, size_t m, const float *dz, const float *w, float *rows) {
  blasint n = (blasint)s->c_out, k = (blasint)conv_taps(s);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)m, k, n, 1, dz, n, w, k, 0, rows, k);
}

/* ---- im2col of `together` samples at once */

static size_t im2col_scratch(const struct conv_shape *s, size_t together) {
  return together * conv_sites(s) * (conv_taps(s) + s->c_out);
}

static void im2col_forward(const struct conv_shape *s, const struct conv_batch *b, size_t together) {
  size_t size = s->height * s->width * s->c_in, n_sites = conv_sites(s), n_taps = conv_taps(s);
  for (size_t at = 0; at < b->n; at += together) {
    for (size_t i = 0; i < together; i++)
      windows_read(s, b->x + (at + i) * size, b->scratch + i * n_sites * n_taps);
    rows_forward(s, together * n_sites, b->scratch, b, b->y + at * n_sites * s->c_out);
  }
}

static void im2col_backward(const struct conv_shape *s, const struct conv_batch *b, const struct conv_gradient *d,
                            size_t together) {
  size_t size = s->height * s->width * s->c_in, n_sites = conv_sites(s), n_taps = conv_taps(s), m = together * n_sites;
  float *rows = b->scratch, *room = b->scratch + m * n_taps;
  for (size_t at = 0; at < b->n; at += together) {
    for (size_t i = 0; i < together; i++)
      windows_read(s, b->x + (at + i) * size, rows + i * n_sites * n_taps);
    size_t out = at * n_sites * s->c_out;
    const float *dz = rows_delta(s, m, d->dy + out, b->relu ? b->y + out : NULL, room);
    rows_back_weights(s, m, rows, dz, at ? 1 : d->momentum, d->g);
    if (!d->dx)
      continue;
    rows_back_inputs(s, m, dz, b->w, rows);
    for (size_t i = 0; i < together; i++)
      windows_add(s, rows + i * n_sites * n_taps, d->dx + (at + i) * size);
  }
}

static size_t one_scratch(const struct conv_shape *s, size_t n) {
  (void)n;
  return im2col_scratch(s, 1);
}

static void one_forward(const struct conv_shape *s, const struct conv_batch *b) {
  im2col_forward(s, b, 1);
}

static void one_backward(const struct conv_shape *s, const struct conv_batch *b, const struct conv_gradient *d) {
  im2col_backward(s, b, d, 1);
}

const struct conv_kernel conv_im2col = {
    .name = "im2col", .scratch = one_scratch, .forward = one_forward, .backward = one_backward};

static void all_forward(const struct conv_shape *s, const struct conv_batch *b) {
  im2col_forward(s, b, b->n);
}

static void all_backward(const struct conv_shape *s, const struct conv_batch *b, const struct conv_gradient *d) {
  im2col_backward(s, b, d, b->n);
}

const struct conv_kernel conv_im2col_batch = {
    .name = "im2col-batch", .scratch = im2col_scratch, .forward = all_forward, .backward = all_backward};

/* ---- 1×1: the rows are the input */

static bool matmul_fits(const struct conv_shape *s) {
  return s->kernel_height == 1 && s->kernel_width == 1 && s->stride == 1 && !s->pad_height && !s->pad_width;
}

static size_t matmul_scratch(const struct conv_shape *s, size_t n) {
  return n * conv_sites(s) * s->c_out;
}

static void matmul_forward(const struct conv_shape *s, const struct conv_batch *b) {
  rows_forward(s, b->n * conv_sites(s), b->x, b, b->y);
}

static void matmul_backward(const struct conv_shape *s, const struct conv_batch *b, const struct conv_gradient *d) {
  size_t m = b->n * conv_sites(s);
  const float *dz = rows_delta(s, m, d->dy, b->relu ? b->y : NULL, b->scratch);
  rows_back_weights(s, m, b->x, dz, d->momentum, d->g);
  if (d->dx)
    rows_back_inputs(s, m, dz, b->w, d->dx);
}

const struct conv_kernel conv_matmul = {.name = "matmul",
                                        .fits = matmul_fits,
                                        .scratch = matmul_scratch,
                                        .forward = matmul_forward,
                                        .backward = matmul_backward};
