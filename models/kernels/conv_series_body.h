/* Winograd's F(6, 3) along series for one instruction set: included by conv_winograd_series.c for each, with these macros.
 *
 *   KERNEL(name)   the function's name in this kernel
 *   TARGET         function attribute
 *   VEC, WIDTH     a vector of floats and how many it holds; it has +, −
 *   take(p), give(p, v), same(x) in all lanes, fma(a, b, c) = a·b + c, largest(a, b) = b when one is NaN
 *   where_positive(a, v)   v where a > 0, else 0
 *   GEMM           the row of models/kernels/gemm.h
 *
 * No include guard, on purpose. */

/* ---- WIDTH channels of a tile */

INLINE TARGET static void KERNEL(inputs_transform)(const VEC d[PLACES], VEC v[PLACES]) {
  VEC even = fma(same(-4.25f), d[4], d[2] + d[6]), odd = fma(same(-4.25f), d[3], d[1] + d[5]);
  v[0] = fma(same(5.25f), d[4] - d[2], d[0] - d[6]);
  v[1] = even + odd;
  v[2] = even - odd;
  even = fma(same(0.25f), d[2], fma(same(-1.25f), d[4], d[6]));
  odd = fma(same(0.5f), d[1], fma(same(-2.5f), d[3], d[5] + d[5]));
  v[3] = even + odd;
  v[4] = even - odd;
  even = fma(same(4), d[2], fma(same(-5), d[4], d[6]));
  odd = fma(same(0.5f), d[5], fma(same(-2.5f), d[3], d[1] + d[1]));
  v[5] = even + odd;
  v[6] = even - odd;
  v[7] = fma(same(5.25f), d[3] - d[5], d[7] - d[1]);
}

INLINE TARGET static void KERNEL(outputs_transform)(const VEC m[PLACES], VEC y[OUTPUTS]) {
  VEC sum = m[1] + m[2], sum_2 = m[3] + m[4], sum_half = m[5] + m[6];
  VEC odd = m[1] - m[2], odd_2 = m[3] - m[4], odd_half = m[5] - m[6];
  y[0] = (m[0] + sum) + (sum_2 + sum_half);
  y[1] = fma(same(2), odd_2, fma(same(0.5f), odd_half, odd));
  y[2] = fma(same(4), sum_2, fma(same(0.25f), sum_half, sum));
  y[3] = fma(same(8), odd_2, fma(same(0.125f), odd_half, odd));
  y[4] = fma(same(16), sum_2, fma(same(0.0625f), sum_half, sum));
  y[5] = fma(same(32), odd_2, fma(same(0.03125f), odd_half, odd + m[7]));
}

INLINE TARGET static void KERNEL(outputs_transpose)(const VEC y[OUTPUTS], VEC m[PLACES]) {
  VEC even = y[0] + (y[2] + y[4]), odd = y[1] + (y[3] + y[5]);
  m[0] = y[0];
  m[1] = even + odd;
  m[2] = even - odd;
  even = fma(same(16), y[4], fma(same(4), y[2], y[0]));
  odd = fma(same(32), y[5], fma(same(8), y[3], y[1] + y[1]));
  m[3] = even + odd;
  m[4] = even - odd;
  even = fma(same(0.0625f), y[4], fma(same(0.25f), y[2], y[0]));
  odd = fma(same(0.03125f), y[5], fma(same(0.125f), y[3], fma(same(0.5f), y[1], same(0))));
  m[5] = even + odd;
  m[6] = even - odd;
  m[7] = y[5];
}

INLINE TARGET static void KERNEL(kernel_transform)(const VEC g[TAPS], VEC u[PLACES]) {
  VEC ends = fma(same(-2 / 9.0f), g[0] + g[2], same(0)),
      by_2 = fma(same(1 / 90.0f), g[0], fma(same(4 / 90.0f), g[2], same(0)));
  VEC by_half = fma(same(32 / 45.0f), g[0], fma(same(8 / 45.0f), g[2], same(0)));
  u[0] = g[0];
  u[1] = fma(same(-2 / 9.0f), g[1], ends);
  u[2] = fma(same(2 / 9.0f), g[1], ends);
  u[3] = fma(same(1 / 45.0f), g[1], by_2);
  u[4] = fma(same(-1 / 45.0f), g[1], by_2);
  u[5] = fma(same(16 / 45.0f), g[1], by_half);
  u[6] = fma(same(-16 / 45.0f), g[1], by_half);
  u[7] = g[2];
}

/* Added to g. */
INLINE TARGET static void KERNEL(kernel_transpose)(const VEC u[PLACES], VEC g[TAPS]) {
  VEC sum = u[1] + u[2], sum_2 = u[3] + u[4], sum_half = u[5] + u[6];
  g[0] = fma(same(-2 / 9.0f), sum, fma(same(1 / 90.0f), sum_2, fma(same(32 / 45.0f), sum_half, g[0] + u[0])));
  g[1] = fma(same(2 / 9.0f), u[2] - u[1], fma(same(1 / 45.0f), u[3] - u[4], fma(same(16 / 45.0f), u[5] - u[6], g[1])));
  g[2] = fma(same(-2 / 9.0f), sum, fma(same(4 / 90.0f), sum_2, fma(same(8 / 45.0f), sum_half, g[2] + u[7])));
}

/* ---- tiles, counted over all series */

/* n steps from `step` on, of WIDTH channels; 0 outside, and where the mask is not positive. */
INLINE TARGET static void KERNEL(tile_read)(const struct series *s, size_t series, ptrdiff_t step, size_t n, size_t c,
                                            bool masked, VEC *out) {
  const size_t at = series * s->n_steps * s->channels + c;
  const float *x = s->x + at, *mask = masked ? s->mask + at : NULL;
  bool inside = step >= 0 && step + (ptrdiff_t)n <= (ptrdiff_t)s->n_steps;
  UNROLL for (size_t i = 0; i < n; i++) {
    size_t from = ((size_t)step + i) * s->channels;
    out[i] = same(0);
    if (inside || (size_t)step + i < s->n_steps)
      out[i] = masked ? where_positive(take(mask + from), take(x + from)) : take(x + from);
  }
}

/* v [8][n][channels] of tiles first … first + n − 1. */
INLINE TARGET static void KERNEL(spread)(const struct series *s, size_t first, size_t n, bool masked, float *v) {
  for (size_t k = 0; k < n; k++) {
    size_t series = (first + k) / s->n_tiles;
    ptrdiff_t step = (ptrdiff_t)((first + k) % s->n_tiles * OUTPUTS) - (ptrdiff_t)s->pad;
    const size_t ahead = (series * s->n_steps + (size_t)step + AHEAD) * s->channels;
    for (size_t i = 0; i < OUTPUTS * s->channels; i += 16) {
      __builtin_prefetch(s->x + ahead + i);
      if (masked)
        __builtin_prefetch(s->mask + ahead + i);
    }
    for (size_t c = 0; c < s->channels; c += WIDTH) {
      VEC d[PLACES], out[PLACES];
      KERNEL(tile_read)(s, series, step, PLACES, c, masked, d);
      KERNEL(inputs_transform)(d, out);
      UNROLL for (size_t i = 0; i < PLACES; i++) give(v + (i * n + k) * s->channels + c, out[i]);
    }
  }
}

TARGET static void KERNEL(inputs_spread)(const struct series *s, size_t first, size_t n, float *v) {
  if (s->mask)
    KERNEL(spread)(s, first, n, true, v);
  else
    KERNEL(spread)(s, first, n, false, v);
}

/* m [8][channels/16][n][16] of the same tiles of ∂L/∂z, `s` being z's; the biases' gradient is added to. */
INLINE TARGET static void KERNEL(spread_outputs)(const struct series *s, size_t first, size_t n, bool masked, float *m,
                                                 float *g_bias) {
  for (size_t c = 0; c < s->channels; c += WIDTH) {
    VEC bias = take(g_bias + c);
    float *to = m + c / GEMM_PANEL * GEMM_PANEL * n + c % GEMM_PANEL;
    for (size_t k = 0; k < n; k++, to += GEMM_PANEL) {
      VEC dz[OUTPUTS], out[PLACES];
      KERNEL(tile_read)
      (s, (first + k) / s->n_tiles, (ptrdiff_t)((first + k) % s->n_tiles * OUTPUTS), OUTPUTS, c, masked, dz);
      bias = bias + (((dz[0] + dz[1]) + (dz[2] + dz[3])) + (dz[4] + dz[5]));
      KERNEL(outputs_transpose)(dz, out);
      UNROLL for (size_t i = 0; i < PLACES; i++) give(to + i * s->channels * n, out[i]);
    }
    give(g_bias + c, bias);
  }
}

TARGET static void KERNEL(outputs_spread)(const struct series *s, size_t first, size_t n, float *m, float *g_bias) {
  if (s->mask)
    KERNEL(spread_outputs)(s, first, n, true, m, g_bias);
  else
    KERNEL(spread_outputs)(s, first, n, false, m, g_bias);
}

/* m [8][n][n_columns] → the n_columns outputs from channel c0 on. */
TARGET static void KERNEL(outputs_collect)(const struct series *s, const struct result *r, size_t first, size_t n,
                                           size_t c0, size_t n_columns, const float *m) {
  const VEC lowest = same(r->relu ? 0 : -INFINITY);
  for (size_t k = 0; k < n; k++) {
    size_t step = (first + k) % s->n_tiles * OUTPUTS, left = s->n_out - step;
    float *to = r->y + ((first + k) / s->n_tiles * s->n_out + step) * r->channels + c0;
    for (size_t c = 0; c < n_columns; c += WIDTH) {
      VEC in[PLACES], out[OUTPUTS], bias = r->bias ? take(r->bias + c0 + c) : same(0);
      UNROLL for (size_t i = 0; i < PLACES; i++) in[i] = take(m + (i * n + k) * n_columns + c);
      KERNEL(outputs_transform)(in, out);
      UNROLL for (size_t i = 0; i < OUTPUTS; i++) if (i < left) {
        float *at = to + i * r->channels + c;
        VEC value = largest(lowest, out[i] + bias);
        give(at, r->gated ? where_positive(take(at), value) : value);
      }
    }
  }
}

/* ---- kernels */

/* w [3][n] → u [8][n], the layouts being the same. */
TARGET static void KERNEL(kernels_spread)(size_t n, const float *w, float *u) {
  for (size_t at = 0; at < n; at += WIDTH) {
    VEC g[TAPS], out[PLACES];
    UNROLL for (size_t t = 0; t < TAPS; t++) g[t] = take(w + t * n + at);
    KERNEL(kernel_transform)(g, out);
    UNROLL for (size_t i = 0; i < PLACES; i++) give(u + i * n + at, out[i]);
  }
}

TARGET static void KERNEL(kernels_collect)(size_t n, const float *du, float *g) {
  for (size_t at = 0; at < n; at += WIDTH) {
    VEC u[PLACES], taps[TAPS];
    UNROLL for (size_t i = 0; i < PLACES; i++) u[i] = take(du + i * n + at);
    UNROLL for (size_t t = 0; t < TAPS; t++) taps[t] = take(g + t * n + at);
    KERNEL(kernel_transpose)(u, taps);
    UNROLL for (size_t t = 0; t < TAPS; t++) give(g + t * n + at, taps[t]);
  }
}

/* ---- the kernel */

TARGET static void KERNEL(gather)(const struct series *s, const float *u, const struct room *room,
                                  const struct result *r) {
  const struct gemm *gemm = gemm_kernel(GEMM);
  size_t n_tiles = s->n * s->n_tiles;
  for (size_t first = 0, n; first < n_tiles; first += n) {
    n = next_tiles(n_tiles - first, TILES);
    KERNEL(inputs_spread)(s, first, n, room->v);
    for (size_t c = 0, n_columns; c < r->channels; c += n_columns) {
      n_columns = r->channels - c < COLUMNS ? r->channels - c : COLUMNS;
      const struct gemm_shape product = {n, s->channels, n_columns, s->channels, n_columns};
      for (size_t i = 0; i < PLACES; i++)
        gemm->forward(&product, room->v + i * n * s->channels, u + (i * r->channels + c) * s->channels, room->zeros,
                      false, room->m + i * n * n_columns);
      KERNEL(outputs_collect)(s, r, first, n, c, n_columns, room->m);
    }
  }
}

static void KERNEL(forward)(const struct conv_shape *s, const struct conv_batch *b) {
  struct room room = room_of(s, b->scratch);
  struct series x = series_of(b->n, s->width, s->c_in, s->pad_width, s->out_width);
  x.x = b->x;
  KERNEL(kernels_spread)(s->c_in * s->c_out, b->w, room.u);
  KERNEL(gather)
  (&x, room.u, &room,
   &(struct result){.y = b->y, .channels = s->c_out, .bias = b->w + conv_taps(s) * s->c_out, .relu = b->relu});
}

static void KERNEL(back_weights)(const struct series *x, const struct series *dz, const struct room *room,
                                 float *g_bias) {
  const struct gemm *gemm = gemm_kernel(GEMM);
  size_t n_tiles = x->n * x->n_tiles;
  for (size_t first = 0, n; first < n_tiles; first += n) {
    n = next_tiles(n_tiles - first, TILES_BACK);
    KERNEL(inputs_spread)(x, first, n, room->v);
    KERNEL(outputs_spread)(dz, first, n, room->m, g_bias);
    const struct gemm_shape product = {n, x->channels, dz->channels, x->channels, dz->channels};
    for (size_t i = 0; i < PLACES; i++)
      gemm->back_weights(&product, &(struct gemm_delta){room->m + i * n * dz->channels, NULL},
                         room->v + i * n * x->channels,
                         &(struct gemm_update){.g = room->du + i * x->channels * dz->channels, .momentum = 1});
  }
}

/* A few series at a time, so that ∂L/∂z is near when it is read again. */
static void KERNEL(backward)(const struct conv_shape *s, const struct conv_batch *b, const struct conv_gradient *d) {
  struct room room = room_of(s, b->scratch);
  size_t n_pairs = s->c_in * s->c_out, size = s->width * s->c_in, out_size = s->out_width * s->c_out;
  floats_scale(d->g, series_weights(s), d->momentum);
  if (d->dx) {
    kernels_mirror(s, b->w, room.du);
    KERNEL(kernels_spread)(n_pairs, room.du, room.u);
  }
  memset(room.du, 0, PLACES * n_pairs * sizeof *room.du);
  for (size_t at = 0, n; at < b->n; at += n) {
    n = b->n - at < SAMPLES ? b->n - at : SAMPLES;
    struct series x = series_of(n, s->width, s->c_in, s->pad_width, s->out_width);
    struct series dz = series_of(n, s->out_width, s->c_out, 0, s->out_width);
    x.x = b->x + at * size;
    dz.x = d->dy + at * out_size;
    dz.mask = b->relu ? b->y + at * out_size : NULL;
    KERNEL(back_weights)(&x, &dz, &room, d->g + TAPS * n_pairs);
    if (!d->dx)
      continue;
    struct series to_x = series_of(n, s->out_width, s->c_out, TAPS - 1 - s->pad_width, s->width);
    to_x.x = dz.x;
    to_x.mask = dz.mask;
    KERNEL(gather)
    (&to_x, room.u, &room, &(struct result){.y = d->dx + at * size, .channels = s->c_in, .gated = d->gated});
  }
  KERNEL(kernels_collect)(n_pairs, room.du, d->g);
}

#undef KERNEL
#undef TARGET
#undef VEC
#undef WIDTH
#undef take
#undef give
#undef same
#undef fma
#undef largest
#undef where_positive
#undef GEMM
