/* F(2×2, 3×3): a tile of 2×2 outputs sees 4×4 inputs d. With the matrices of Lavin & Gray 2016
 *
 *   Y = Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A       Bᵀ = 1  0 −1  0     G = 1    0    0      Aᵀ = 1 1  1  0
 *                                           0  1  1  0         ½    ½    ½           0 1 −1 −1
 *                                           0 −1  1  0         ½   −½    ½
 *                                           0  1  0 −1         0    0    1
 *
 * ⊙ being, over channels, one matrix product for each of the 16 places. Backwards goes through the transposes: with
 * M = A dY Aᵀ the gradient of the transformed kernel is V ⊙ M and that of the transformed inputs U ⊙ M. */
#include <cblas.h>
#include <stdint.h>
#include <string.h>

#include "models/floats.h"
#include "models/kernels/conv.h"

#if defined __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { PLACES = 16, SIDE = 4, TILES_TOGETHER = 64 };

static const size_t NOWHERE = SIZE_MAX; /* a value of a tile that reaches over the border */

static bool winograd_fits(const struct conv_shape *s) {
  return s->kernel_height == 3 && s->kernel_width == 3 && s->stride == 1;
}

/* The tiles of a batch are worked on TILES_TOGETHER at a time, so that scratch does not grow with it. */
struct tiling {
  const struct conv_shape *s;
  size_t high, wide; /* tiles of a sample */
  float *u;          /* [16][c_out][c_in]: kernels */
  float *du;         /* the same of their gradient */
  float *v;          /* [16][TILES_TOGETHER][c_in]: inputs, or their gradient */
  float *m;          /* [16][TILES_TOGETHER][c_out]: outputs, or their gradient */
  float *dv;         /* as v */
  float *patch;      /* [16][channels] of one tile */
};

static size_t winograd_scratch(const struct conv_shape *s, size_t n) {
  (void)n;
  return PLACES * (2 * s->c_in * s->c_out + TILES_TOGETHER * (2 * s->c_in + s->c_out) + s->c_in + s->c_out);
}

// NOLINTNEXTLINE(readability-non-const-parameter): it is written through the tiling
static struct tiling tiling_of(const struct conv_shape *s, float *scratch) {
  struct tiling t = {.s = s, .high = (s->out_height + 1) / 2, .wide = (s->out_width + 1) / 2, .u = scratch};
  t.du = t.u + PLACES * s->c_in * s->c_out;
  t.v = t.du + PLACES * s->c_in * s->c_out;
  t.dv = t.v + (size_t)PLACES * TILES_TOGETHER * s->c_in;
  t.m = t.dv + (size_t)PLACES * TILES_TOGETHER * s->c_in;
  t.patch = t.m + (size_t)PLACES * TILES_TOGETHER * s->c_out;
  return t;
}

/* Where tile k of a batch is: its sample, and the first of its outputs. */
struct place {
  size_t sample, row, column;
};

static struct place tile_place(const struct tiling *t, size_t k) {
  size_t in_sample = k % (t->high * t->wide);
  return (struct place){k / (t->high * t->wide), in_sample / t->wide * 2, in_sample % t->wide * 2};
}

/* ---- one channel's transforms, in and out as rows of 4 × 4, 3 × 3 or 2 × 2 */

static inline void inputs_transform(float d[SIDE][SIDE], float out[SIDE][SIDE]) {
  float t[SIDE][SIDE];
  for (size_t j = 0; j < SIDE; j++) {
    t[0][j] = d[0][j] - d[2][j];
    t[1][j] = d[1][j] + d[2][j];
    t[2][j] = d[2][j] - d[1][j];
    t[3][j] = d[1][j] - d[3][j];
  }
  for (size_t i = 0; i < SIDE; i++) {
    out[i][0] = t[i][0] - t[i][2];
    out[i][1] = t[i][1] + t[i][2];
    out[i][2] = t[i][2] - t[i][1];
    out[i][3] = t[i][1] - t[i][3];
  }
}

static inline void inputs_transpose(float v[SIDE][SIDE], float out[SIDE][SIDE]) {
  float t[SIDE][SIDE];
  for (size_t j = 0; j < SIDE; j++) {
    t[0][j] = v[0][j];
    t[1][j] = v[1][j] - v[2][j] + v[3][j];
    t[2][j] = v[1][j] + v[2][j] - v[0][j];
    t[3][j] = -v[3][j];
  }
  for (size_t i = 0; i < SIDE; i++) {
    out[i][0] = t[i][0];
    out[i][1] = t[i][1] - t[i][2] + t[i][3];
    out[i][2] = t[i][1] + t[i][2] - t[i][0];
    out[i][3] = -t[i][3];
  }
}

static inline void outputs_transform(float m[SIDE][SIDE], float out[2][2]) {
  float t[2][SIDE];
  for (size_t j = 0; j < SIDE; j++) {
    t[0][j] = m[0][j] + m[1][j] + m[2][j];
    t[1][j] = m[1][j] - m[2][j] - m[3][j];
  }
  for (size_t i = 0; i < 2; i++) {
    out[i][0] = t[i][0] + t[i][1] + t[i][2];
    out[i][1] = t[i][1] - t[i][2] - t[i][3];
  }
}

static inline void outputs_transpose(float y[2][2], float out[SIDE][SIDE]) {
  float t[SIDE][2];
  for (size_t j = 0; j < 2; j++) {
    t[0][j] = y[0][j];
    t[1][j] = y[0][j] + y[1][j];
    t[2][j] = y[0][j] - y[1][j];
    t[3][j] = -y[1][j];
  }
  for (size_t i = 0; i < SIDE; i++) {
    out[i][0] = t[i][0];
    out[i][1] = t[i][0] + t[i][1];
    out[i][2] = t[i][0] - t[i][1];
    out[i][3] = -t[i][1];
  }
}

static inline void kernel_transform(float g[3][3], float out[SIDE][SIDE]) {
  float t[SIDE][3];
  for (size_t j = 0; j < 3; j++) {
    t[0][j] = g[0][j];
    t[1][j] = 0.5f * (g[0][j] + g[1][j] + g[2][j]);
    t[2][j] = 0.5f * (g[0][j] - g[1][j] + g[2][j]);
    t[3][j] = g[2][j];
  }
  for (size_t i = 0; i < SIDE; i++) {
    out[i][0] = t[i][0];
    out[i][1] = 0.5f * (t[i][0] + t[i][1] + t[i][2]);
    out[i][2] = 0.5f * (t[i][0] - t[i][1] + t[i][2]);
    out[i][3] = t[i][2];
  }
}

static inline void kernel_transpose(float u[SIDE][SIDE], float out[3][3]) {
  float t[3][SIDE];
  for (size_t j = 0; j < SIDE; j++) {
    t[0][j] = u[0][j] + 0.5f * (u[1][j] + u[2][j]);
    t[1][j] = 0.5f * (u[1][j] - u[2][j]);
    t[2][j] = 0.5f * (u[1][j] + u[2][j]) + u[3][j];
  }
  for (size_t i = 0; i < 3; i++) {
    out[i][0] = t[i][0] + 0.5f * (t[i][1] + t[i][2]);
    out[i][1] = 0.5f * (t[i][1] - t[i][2]);
    out[i][2] = 0.5f * (t[i][1] + t[i][2]) + t[i][3];
  }
}

/* ---- over channels: a tile's 4×4 inputs or 2×2 outputs pass through `patch`, so that the inner loops are over channels
 * side by side and know no border */

/* Where value (i, j) of the tile at p begins. */
static size_t input_place(const struct conv_shape *s, struct place p, size_t i, size_t j) {
  size_t row = p.row + i - s->pad_height, column = p.column + j - s->pad_width; /* huge when negative */
  return row < s->height && column < s->width ? ((p.sample * s->height + row) * s->width + column) * s->c_in : NOWHERE;
}

static size_t output_place(const struct conv_shape *s, struct place p, size_t i, size_t j) {
  size_t row = p.row + i, column = p.column + j;
  return row < s->out_height && column < s->out_width
             ? ((p.sample * s->out_height + row) * s->out_width + column) * s->c_out
             : NOWHERE;
}

static void inputs_channels(const float *restrict patch, size_t n, float *restrict v, size_t v_size) {
  for (size_t c = 0; c < n; c++) {
    float d[SIDE][SIDE], out[SIDE][SIDE];
    UNROLL for (size_t i = 0; i < PLACES; i++) d[i / SIDE][i % SIDE] = patch[i * n + c];
    inputs_transform(d, out);
    UNROLL for (size_t i = 0; i < PLACES; i++) v[i * v_size + c] = out[i / SIDE][i % SIDE];
  }
}

static void inputs_channels_back(const float *restrict v, size_t v_size, size_t n, float *restrict patch) {
  for (size_t c = 0; c < n; c++) {
    float d[SIDE][SIDE], out[SIDE][SIDE];
    UNROLL for (size_t i = 0; i < PLACES; i++) d[i / SIDE][i % SIDE] = v[i * v_size + c];
    inputs_transpose(d, out);
    UNROLL for (size_t i = 0; i < PLACES; i++) patch[i * n + c] = out[i / SIDE][i % SIDE];
  }
}

static void outputs_channels(const float *restrict m, size_t m_size, size_t n, float *restrict patch) {
  for (size_t c = 0; c < n; c++) {
    float d[SIDE][SIDE], out[2][2];
    UNROLL for (size_t i = 0; i < PLACES; i++) d[i / SIDE][i % SIDE] = m[i * m_size + c];
    outputs_transform(d, out);
    UNROLL for (size_t i = 0; i < 4; i++) patch[i * n + c] = out[i / 2][i % 2];
  }
}

static void outputs_channels_back(const float *restrict patch, size_t n, float *restrict m, size_t m_size) {
  for (size_t c = 0; c < n; c++) {
    float d[2][2], out[SIDE][SIDE];
    UNROLL for (size_t i = 0; i < 4; i++) d[i / 2][i % 2] = patch[i * n + c];
    outputs_transpose(d, out);
    UNROLL for (size_t i = 0; i < PLACES; i++) m[i * m_size + c] = out[i / SIDE][i % SIDE];
  }
}

static void inputs_spread(const struct tiling *t, const float *x, size_t first, size_t n) {
  size_t c_in = t->s->c_in;
  for (size_t k = 0; k < n; k++) {
    struct place p = tile_place(t, first + k);
    for (size_t i = 0; i < PLACES; i++) {
      size_t at = input_place(t->s, p, i / SIDE, i % SIDE);
      if (at == NOWHERE)
        memset(t->patch + i * c_in, 0, c_in * sizeof *x);
      else
        memcpy(t->patch + i * c_in, x + at, c_in * sizeof *x);
    }
    inputs_channels(t->patch, c_in, t->v + k * c_in, TILES_TOGETHER * c_in);
  }
}

static void inputs_collect(const struct tiling *t, float *dx, size_t first, size_t n) {
  size_t c_in = t->s->c_in;
  for (size_t k = 0; k < n; k++) {
    struct place p = tile_place(t, first + k);
    inputs_channels_back(t->dv + k * c_in, TILES_TOGETHER * c_in, c_in, t->patch);
    for (size_t i = 0; i < PLACES; i++) {
      size_t at = input_place(t->s, p, i / SIDE, i % SIDE);
      for (size_t c = 0; at != NOWHERE && c < c_in; c++)
        dx[at + c] += t->patch[i * c_in + c];
    }
  }
}

static void outputs_collect(const struct tiling *t, const float *bias, bool relu, float *y, size_t first, size_t n) {
  size_t c_out = t->s->c_out;
  for (size_t k = 0; k < n; k++) {
    struct place p = tile_place(t, first + k);
    outputs_channels(t->m + k * c_out, TILES_TOGETHER * c_out, c_out, t->patch);
    for (size_t i = 0; i < 4; i++) {
      size_t at = output_place(t->s, p, i / 2, i % 2);
      for (size_t c = 0; at != NOWHERE && c < c_out; c++) {
        float value = t->patch[i * c_out + c] + bias[c];
        y[at + c] = relu && value < 0 ? 0 : value;
      }
    }
  }
}

/* M = A dz Aᵀ of n tiles, dz = dy where y > 0; and the biases' gradient. */
static void outputs_spread(const struct tiling *t, const float *dy, const float *y, float *g_bias, size_t first,
                           size_t n) {
  size_t c_out = t->s->c_out;
  for (size_t k = 0; k < n; k++) {
    struct place p = tile_place(t, first + k);
    for (size_t i = 0; i < 4; i++) {
      size_t at = output_place(t->s, p, i / 2, i % 2);
      for (size_t c = 0; c < c_out; c++) {
        float d = at == NOWHERE || (y && !(y[at + c] > 0)) ? 0 : dy[at + c];
        t->patch[i * c_out + c] = d;
        g_bias[c] += d;
      }
    }
    outputs_channels_back(t->patch, c_out, t->m + k * c_out, TILES_TOGETHER * c_out);
  }
}

/* ---- kernels, which are few */

static void kernels_spread(const struct tiling *t, const float *w) {
  size_t c_in = t->s->c_in, size = c_in * t->s->c_out;
  for (size_t o = 0; o < t->s->c_out; o++)
    for (size_t c = 0; c < c_in; c++) {
      float g[3][3], out[SIDE][SIDE];
      for (size_t i = 0; i < 9; i++)
        g[i / 3][i % 3] = w[(o * 9 + i) * c_in + c];
      kernel_transform(g, out);
      for (size_t i = 0; i < PLACES; i++)
        t->u[i * size + o * c_in + c] = out[i / SIDE][i % SIDE];
    }
}

static void kernels_collect(const struct tiling *t, float *g) {
  size_t c_in = t->s->c_in, size = c_in * t->s->c_out;
  for (size_t o = 0; o < t->s->c_out; o++)
    for (size_t c = 0; c < c_in; c++) {
      float u[SIDE][SIDE], out[3][3];
      for (size_t i = 0; i < PLACES; i++)
        u[i / SIDE][i % SIDE] = t->du[i * size + o * c_in + c];
      kernel_transpose(u, out);
      for (size_t i = 0; i < 9; i++)
        g[(o * 9 + i) * c_in + c] += out[i / 3][i % 3];
    }
}

/* ---- the kernel */

static size_t n_tiles(const struct tiling *t, size_t n) {
  return n * t->high * t->wide;
}

static size_t next_tiles(size_t left) {
  return left < TILES_TOGETHER ? left : TILES_TOGETHER;
}

static void winograd_forward(const struct conv_shape *s, const struct conv_batch *b) {
  struct tiling t = tiling_of(s, b->scratch);
  blasint c_in = (blasint)s->c_in, c_out = (blasint)s->c_out;
  kernels_spread(&t, b->w);
  for (size_t first = 0, n; first < n_tiles(&t, b->n); first += n) {
    n = next_tiles(n_tiles(&t, b->n) - first);
    inputs_spread(&t, b->x, first, n);
    for (size_t i = 0; i < PLACES; i++)
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, c_out, c_in, 1,
                  t.v + i * TILES_TOGETHER * s->c_in, c_in, t.u + i * s->c_in * s->c_out, c_in, 0,
                  t.m + i * TILES_TOGETHER * s->c_out, c_out);
    outputs_collect(&t, b->w + conv_taps(s) * s->c_out, b->relu, b->y, first, n);
  }
}

static void winograd_backward(const struct conv_shape *s, const struct conv_batch *b, const struct conv_gradient *d) {
  struct tiling t = tiling_of(s, b->scratch);
  blasint c_in = (blasint)s->c_in, c_out = (blasint)s->c_out;
  floats_scale(d->g, (conv_taps(s) + 1) * s->c_out, d->momentum);
  kernels_spread(&t, b->w);
  memset(t.du, 0, PLACES * s->c_in * s->c_out * sizeof *t.du);
  if (d->dx)
    memset(d->dx, 0, b->n * s->height * s->width * s->c_in * sizeof *d->dx);
  for (size_t first = 0, n; first < n_tiles(&t, b->n); first += n) {
    n = next_tiles(n_tiles(&t, b->n) - first);
    inputs_spread(&t, b->x, first, n);
    outputs_spread(&t, d->dy, b->relu ? b->y : NULL, d->g + conv_taps(s) * s->c_out, first, n);
    for (size_t i = 0; i < PLACES; i++) {
      const float *m = t.m + i * TILES_TOGETHER * s->c_out;
      cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, c_out, c_in, (blasint)n, 1, m, c_out,
                  t.v + i * TILES_TOGETHER * s->c_in, c_in, 1, t.du + i * s->c_in * s->c_out, c_in);
      if (d->dx)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)n, c_in, c_out, 1, m, c_out,
                    t.u + i * s->c_in * s->c_out, c_in, 0, t.dv + i * TILES_TOGETHER * s->c_in, c_in);
    }
    if (d->dx)
      inputs_collect(&t, d->dx, first, n);
  }
  kernels_collect(&t, d->g);
}

const struct conv_kernel conv_winograd = {.name = "winograd",
                                          .fits = winograd_fits,
                                          .scratch = winograd_scratch,
                                          .forward = winograd_forward,
                                          .backward = winograd_backward};
