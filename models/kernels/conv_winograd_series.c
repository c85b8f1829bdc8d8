/* F(4, 3) along a series: a tile of 4 outputs sees 6 inputs d. With the matrices of Lavin & Gray 2016
 *
 *   Y = Aᵀ[(G g) ⊙ (Bᵀ d)]     Bᵀ = 4  0 −5  0  1  0     G = 1/4     0    0     A = 1  0  0  0
 *                                   0 −4 −4  1  1  0        −1/6 −1/6 −1/6         1  1  1  1
 *                                   0  4 −4 −1  1  0        −1/6  1/6 −1/6         1 −1  1 −1
 *                                   0 −2 −1  2  1  0        1/24 1/12  1/6         1  2  4  8
 *                                   0  2 −1 −2  1  0        1/24 −1/12 1/6         1 −2  4 −8
 *                                   0  4  0 −5  0  1           0    0    1         0  0  0  1
 *
 * ⊙ being, over channels, one product of matrices for each of the 6 places (models/kernels/gemm.h). ∂L/∂x is the same sum over
 * the mirrored kernel; the gradient of the transformed kernel is (Bᵀ d) ⊙ (A dY), and that of the kernel Gᵀ times it. */
#include "models/kernels/conv.h"
#include "models/kernels/gemm.h"
#include "models/kernels/lanes.h"

#if defined __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* Forwards the tiles of a step, and what is made of them, are to fit into the first cache; their number is a tile of gemm. */
enum {
  TAPS = 3,
  OUTPUTS = 4,
  PLACES = 6,
  TILES = 14,
  TILES_BACK = 64,
  COLUMNS = 2 * GEMM_PANEL,
  SAMPLES = 4,
  BLOCK_TAPS = TAPS * LANES /* of eight outputs and one input */
};

static bool series_fits(const struct conv_shape *s) {
  return s->height == 1 && s->kernel_height == 1 && s->kernel_width == TAPS && s->stride == 1 && s->pad_height == 0 &&
         s->pad_width < TAPS && s->c_in % GEMM_PANEL == 0 && s->c_out % GEMM_PANEL == 0;
}

/* n series that a sum goes over: x forwards; backwards ∂L/∂z, which is ∂L/∂y where y > 0. */
struct series {
  size_t n, n_steps, channels, pad; /* [n][n_steps][channels], zero outside */
  const float *x, *mask;            /* counts where the mask is > 0; NULL: everywhere */
  size_t n_out, n_tiles;            /* outputs of a series, and their tiles */
};

static struct series series_of(size_t n, size_t n_steps, size_t channels, size_t pad, size_t n_out) {
  return (struct series){.n = n,
                         .n_steps = n_steps,
                         .channels = channels,
                         .pad = pad,
                         .n_out = n_out,
                         .n_tiles = (n_out + OUTPUTS - 1) / OUTPUTS};
}

struct room {
  float *u;     /* [6] of c_out × c_in, or backwards of c_in × c_out, as gemm packs them */
  float *du;    /* [6] of c_out × c_in */
  float *v, *m; /* [6][TILES_BACK][channels] */
  float *zeros; /* [COLUMNS] */
};

static size_t most_channels(const struct conv_shape *s) {
  return s->c_in > s->c_out ? s->c_in : s->c_out;
}

static size_t series_scratch(const struct conv_shape *s, size_t n) {
  (void)n;
  return PLACES * (2 * s->c_in * s->c_out + 2 * most_channels(s) * TILES_BACK) + COLUMNS;
}

static struct room room_of(const struct conv_shape *s, float *scratch) {
  size_t n_u = PLACES * s->c_in * s->c_out, n_v = PLACES * most_channels(s) * TILES_BACK;
  struct room r;
  r.u = scratch;
  r.du = r.u + n_u;
  r.v = r.du + n_u;
  r.m = r.v + n_v;
  r.zeros = r.m + n_v;
  memset(r.zeros, 0, COLUMNS * sizeof *r.zeros);
  return r;
}

/* ---- eight channels of a tile */

static INLINE void inputs_transform(const lanes d[PLACES], lanes v[PLACES]) {
  lanes even = d[4] - 4 * d[2], odd = d[3] - 4 * d[1], low = d[4] - d[2], twice = 2 * (d[3] - d[1]);
  v[0] = 4 * d[0] - 5 * d[2] + d[4];
  v[1] = even + odd;
  v[2] = even - odd;
  v[3] = low + twice;
  v[4] = low - twice;
  v[5] = 4 * d[1] - 5 * d[3] + d[5];
}

static INLINE void outputs_transform(const lanes m[PLACES], lanes y[OUTPUTS]) {
  lanes sum = m[1] + m[2], difference = m[1] - m[2], sum_2 = m[3] + m[4], difference_2 = m[3] - m[4];
  y[0] = m[0] + sum + sum_2;
  y[1] = difference + 2 * difference_2;
  y[2] = sum + 4 * sum_2;
  y[3] = difference + 8 * difference_2 + m[5];
}

static INLINE void outputs_transpose(const lanes y[OUTPUTS], lanes m[PLACES]) {
  lanes even = y[0] + y[2], odd = y[1] + y[3], even_2 = y[0] + 4 * y[2], odd_2 = 2 * y[1] + 8 * y[3];
  m[0] = y[0];
  m[1] = even + odd;
  m[2] = even - odd;
  m[3] = even_2 + odd_2;
  m[4] = even_2 - odd_2;
  m[5] = y[3];
}

/* What is at `at`, or 0 where the mask is not positive. */
static INLINE void read_masked(const struct series *s, size_t at, lanes *out) {
  lanes_read(s->x + at, LANES, out);
  if (!s->mask)
    return;
  lanes mask, zero = {0};
  lanes_read(s->mask + at, LANES, &mask);
  lane_mask off = ~(mask > zero);
  lanes_choose(&off, &zero, out);
}

/* ---- tiles, counted over all series */

/* n steps from `step` on. */
static INLINE void tile_read(const struct series *s, size_t series, ptrdiff_t step, size_t n, size_t c, lanes *out) {
  bool inside = step >= 0 && step + (ptrdiff_t)n <= (ptrdiff_t)s->n_steps;
  size_t at = (series * s->n_steps + (size_t)step) * s->channels + c; /* modulo 2^64 */
  UNROLL for (size_t i = 0; i < n; i++, at += s->channels) {
    if (inside || (size_t)(step + (ptrdiff_t)i) < s->n_steps)
      read_masked(s, at, &out[i]);
    else
      out[i] = (lanes){0};
  }
}

/* v [6][n][channels] of tiles first … first + n − 1. */
static INLINE void inputs_spread(const struct series *s, size_t first, size_t n, float *v) {
  for (size_t k = 0; k < n; k++) {
    size_t series = (first + k) / s->n_tiles;
    ptrdiff_t step = (ptrdiff_t)((first + k) % s->n_tiles * OUTPUTS) - (ptrdiff_t)s->pad;
    for (size_t c = 0; c < s->channels; c += LANES) {
      lanes d[PLACES], out[PLACES];
      tile_read(s, series, step, PLACES, c, d);
      inputs_transform(d, out);
      UNROLL for (size_t i = 0; i < PLACES; i++) lanes_write(v + (i * n + k) * s->channels + c, LANES, &out[i]);
    }
  }
}

/* m [6][channels/16][n][16] of the same tiles of ∂L/∂z, `s` being z's; the biases' gradient is added to. */
static INLINE void outputs_spread(const struct series *s, size_t first, size_t n, float *m, float *g_bias) {
  for (size_t c = 0; c < s->channels; c += LANES) {
    lanes bias;
    lanes_read(g_bias + c, LANES, &bias);
    for (size_t k = 0; k < n; k++) {
      lanes dz[OUTPUTS], out[PLACES];
      tile_read(s, (first + k) / s->n_tiles, (ptrdiff_t)((first + k) % s->n_tiles * OUTPUTS), OUTPUTS, c, dz);
      bias = bias + ((dz[0] + dz[1]) + (dz[2] + dz[3]));
      outputs_transpose(dz, out);
      UNROLL for (size_t i = 0; i < PLACES; i++) lanes_write(
          m + ((i * s->channels + c / GEMM_PANEL * GEMM_PANEL) * n) + k * GEMM_PANEL + c % GEMM_PANEL, LANES, &out[i]);
    }
    lanes_write(g_bias + c, LANES, &bias);
  }
}

struct result {
  float *y; /* [n][n_out][channels] */
  size_t channels;
  const float *bias; /* NULL: 0 */
  bool relu;
};

/* m [6][n][n_columns] → the n_columns outputs from channel c on. */
static INLINE void outputs_collect(const struct series *s, const struct result *r, size_t first, size_t n, size_t c0,
                                   size_t n_columns, const float *m) {
  for (size_t k = 0; k < n; k++) {
    size_t step = (first + k) % s->n_tiles * OUTPUTS, left = s->n_out - step;
    float *to = r->y + ((first + k) / s->n_tiles * s->n_out + step) * r->channels + c0;
    for (size_t c = 0; c < n_columns; c += LANES) {
      lanes in[PLACES], out[OUTPUTS], bias = {0}, zero = {0};
      UNROLL for (size_t i = 0; i < PLACES; i++) lanes_read(m + (i * n + k) * n_columns + c, LANES, &in[i]);
      outputs_transform(in, out);
      if (r->bias)
        lanes_read(r->bias + c0 + c, LANES, &bias);
      UNROLL for (size_t i = 0; i < OUTPUTS && i < left; i++) {
        lanes value = out[i] + bias;
        lane_mask below = value < zero;
        if (r->relu)
          lanes_choose(&below, &zero, &value);
        lanes_write(to + i * r->channels + c, LANES, &value);
      }
    }
  }
}

/* How many of `left` tiles come next: about equal steps. */
static size_t next_tiles(size_t left, size_t most) {
  size_t n_steps = (left + most - 1) / most;
  return (left + n_steps - 1) / n_steps;
}

/* ---- kernels: W is [c_out][3][c_in], what is made of it packed */

static INLINE void kernel_transform(const lanes *first, const lanes *middle, const lanes *last, lanes u[PLACES]) {
  lanes ends = (*first + *last) * (-1.0f / 6), centre = *middle * (1.0f / 6);
  lanes near = *first * (1.0f / 24) + *last * (1.0f / 6), half = *middle * (1.0f / 12);
  u[0] = *first * 0.25f;
  u[1] = ends - centre;
  u[2] = ends + centre;
  u[3] = near + half;
  u[4] = near - half;
  u[5] = *last;
}

static INLINE void kernel_transpose(const lanes u[PLACES], lanes g[TAPS]) {
  lanes sum = (u[1] + u[2]) * (1.0f / 6), sum_2 = u[3] + u[4];
  g[0] = u[0] * 0.25f - sum + sum_2 * (1.0f / 24);
  g[1] = (u[2] - u[1]) * (1.0f / 6) + (u[3] - u[4]) * (1.0f / 12);
  g[2] = sum_2 * (1.0f / 6) - sum + u[5];
}

/* Where the weight from one to the other is. */
static INLINE size_t packed_at(size_t output, size_t input, size_t n_in) {
  return (output / GEMM_PANEL * n_in + input) * GEMM_PANEL + output % GEMM_PANEL;
}

static INLINE void kernels_spread(const struct conv_shape *s, const float *w, float *u) {
  for (size_t o = 0; o < s->c_out; o += LANES)
    for (size_t c = 0; c < s->c_in; c++) {
      float g[TAPS][LANES];
      for (size_t k = 0; k < BLOCK_TAPS; k++)
        g[k % TAPS][k / TAPS] = w[(o * TAPS + k) * s->c_in + c];
      lanes taps[TAPS], out[PLACES];
      memcpy(taps, g, sizeof taps);
      kernel_transform(&taps[0], &taps[1], &taps[2], out);
      UNROLL for (size_t i = 0; i < PLACES; i++)
          lanes_write(u + i * s->c_in * s->c_out + packed_at(o, c, s->c_in), LANES, &out[i]);
    }
}

/* From outputs to inputs, the taps in reverse. */
static INLINE void kernels_mirror(const struct conv_shape *s, const float *w, float *mirrored) {
  for (size_t c = 0; c < s->c_in; c += LANES)
    for (size_t o = 0; o < s->c_out; o++) {
      lanes taps[TAPS], out[PLACES];
      UNROLL for (size_t t = 0; t < TAPS; t++) lanes_read(w + (o * TAPS + t) * s->c_in + c, LANES, &taps[t]);
      kernel_transform(&taps[2], &taps[1], &taps[0], out);
      UNROLL for (size_t i = 0; i < PLACES; i++)
          lanes_write(mirrored + i * s->c_in * s->c_out + packed_at(c, o, s->c_out), LANES, &out[i]);
    }
}

static INLINE void kernels_collect(const struct conv_shape *s, const float *du, float *g) {
  for (size_t o = 0; o < s->c_out; o += LANES)
    for (size_t c = 0; c < s->c_in; c++) {
      lanes u[PLACES], taps[TAPS];
      UNROLL for (size_t i = 0; i < PLACES; i++)
          lanes_read(du + i * s->c_in * s->c_out + packed_at(o, c, s->c_in), LANES, &u[i]);
      kernel_transpose(u, taps);
      float out[TAPS][LANES];
      memcpy(out, taps, sizeof out);
      for (size_t k = 0; k < BLOCK_TAPS; k++)
        g[(o * TAPS + k) * s->c_in + c] += out[k % TAPS][k / TAPS];
    }
}

/* ---- the kernel */

static INLINE void gather(const struct gemm *gemm, const struct series *s, const float *u, const struct room *room,
                          const struct result *r) {
  size_t n_tiles = s->n * s->n_tiles;
  for (size_t first = 0, n; first < n_tiles; first += n) {
    n = next_tiles(n_tiles - first, TILES);
    inputs_spread(s, first, n, room->v);
    for (size_t c = 0, n_columns; c < r->channels; c += n_columns) {
      n_columns = r->channels - c < COLUMNS ? r->channels - c : COLUMNS;
      const struct gemm_shape product = {n, s->channels, n_columns, s->channels, n_columns};
      for (size_t i = 0; i < PLACES; i++)
        gemm->forward(&product, room->v + i * n * s->channels, u + (i * r->channels + c) * s->channels, room->zeros,
                      false, room->m + i * n * n_columns);
      outputs_collect(s, r, first, n, c, n_columns, room->m);
    }
  }
}

static INLINE void forward_all(const struct gemm *gemm, const struct conv_shape *s, const struct conv_batch *b) {
  struct room room = room_of(s, b->scratch);
  struct series x = series_of(b->n, s->width, s->c_in, s->pad_width, s->out_width);
  x.x = b->x;
  kernels_spread(s, b->w, room.u);
  gather(gemm, &x, room.u, &room, &(struct result){b->y, s->c_out, b->w + conv_taps(s) * s->c_out, b->relu});
}

static INLINE void back_weights(const struct gemm *gemm, const struct series *x, const struct series *dz,
                                const struct room *room, float *g_bias) {
  size_t n_tiles = x->n * x->n_tiles;
  for (size_t first = 0, n; first < n_tiles; first += n) {
    n = next_tiles(n_tiles - first, TILES_BACK);
    inputs_spread(x, first, n, room->v);
    outputs_spread(dz, first, n, room->m, g_bias);
    const struct gemm_shape product = {n, x->channels, dz->channels, x->channels, dz->channels};
    for (size_t i = 0; i < PLACES; i++)
      gemm->back_weights(&product, &(struct gemm_delta){room->m + i * n * dz->channels, NULL},
                         room->v + i * n * x->channels,
                         &(struct gemm_update){.g = room->du + i * x->channels * dz->channels, .momentum = 1});
  }
}

/* A few series at a time, so that ∂L/∂z is near when it is read again. */
static INLINE void backward_all(const struct gemm *gemm, const struct conv_shape *s, const struct conv_batch *b,
                                const struct conv_gradient *d) {
  struct room room = room_of(s, b->scratch);
  size_t n_weights = conv_taps(s) * s->c_out, size = s->width * s->c_in, out_size = s->out_width * s->c_out;
  for (size_t i = 0; i < n_weights + s->c_out; i++)
    d->g[i] = d->momentum == 0 ? 0 : d->g[i] * d->momentum;
  if (d->dx)
    kernels_mirror(s, b->w, room.u);
  memset(room.du, 0, PLACES * s->c_in * s->c_out * sizeof *room.du);
  for (size_t at = 0, n; at < b->n; at += n) {
    n = b->n - at < SAMPLES ? b->n - at : SAMPLES;
    struct series x = series_of(n, s->width, s->c_in, s->pad_width, s->out_width);
    struct series dz = series_of(n, s->out_width, s->c_out, 0, s->out_width);
    x.x = b->x + at * size;
    dz.x = d->dy + at * out_size;
    dz.mask = b->relu ? b->y + at * out_size : NULL;
    back_weights(gemm, &x, &dz, &room, d->g + n_weights);
    if (!d->dx)
      continue;
    struct series to_x = series_of(n, s->out_width, s->c_out, TAPS - 1 - s->pad_width, s->width);
    to_x.x = dz.x;
    to_x.mask = dz.mask;
    gather(gemm, &to_x, room.u, &room, &(struct result){.y = d->dx + at * size, .channels = s->c_in});
  }
  kernels_collect(s, room.du, d->g);
}

#define INSTANCE(row, text, isa, target, ...)                                                                          \
  target static void row##_forward(const struct conv_shape *s, const struct conv_batch *b) {                           \
    forward_all(gemm_kernel(isa), s, b);                                                                               \
  }                                                                                                                    \
  target static void row##_backward(const struct conv_shape *s, const struct conv_batch *b,                            \
                                    const struct conv_gradient *d) {                                                   \
    backward_all(gemm_kernel(isa), s, b, d);                                                                           \
  }                                                                                                                    \
  const struct conv_kernel conv_##row = {.name = text,                                                                 \
                                         .needs = {__VA_ARGS__},                                                       \
                                         .fits = series_fits,                                                          \
                                         .scratch = series_scratch,                                                    \
                                         .forward = row##_forward,                                                     \
                                         .backward = row##_backward};

#if defined __aarch64__
INSTANCE(series, "winograd-series", GEMM_NEON, , .neon = true)
#else
INSTANCE(series, "winograd-series", GEMM_PORTABLE, , 0)
#endif
#if defined __x86_64__
INSTANCE(series_avx2, "winograd-series-avx2", GEMM_AVX2, __attribute__((target("avx2,fma"))), .avx2 = true)
INSTANCE(series_avx512, "winograd-series-avx512", GEMM_AVX512,
         __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), .avx2 = true, .avx512 = true)
#endif
