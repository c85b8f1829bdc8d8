/* One direct convolution, written once for all instruction sets: included by conv_direct.c for each, with these macros
 * defined.
 *
 *   KERNEL(name)        the function's name in this kernel
 *   TARGET              function attribute
 *   VEC, WIDTH, GROUP   a vector of floats, how many it holds, and how many samples are interleaved in it
 *   take(p), take_weights(p)   WIDTH floats; WIDTH/GROUP floats, each GROUP times
 *   broadcast(p)        GROUP floats, over and over
 *   fma(a, b, c) = a·b + c, zero(), rectify(v) = max(v, 0) that passes NaN
 *   put(p, next, v, n, both)   the first n channels of v to p, and of the second sample to p + next if there are both
 *   add(p, v)           p[channel] += the sum of v's samples
 *   where_equal(a, x, v)  the lanes of v at which a is x, else 0
 *   LARGEST             pool_kernel.largest of this CPU
 *   EACH_SITES(make, v) make(1, v) … make(most, v), most being SITES(v)
 *   EACH_TILE(make)     make(rows, taps, vectors, slides) of the tiles of ∂L/∂w, each with less registers than there are
 *
 * Clears them but SITES and EACH_…, which instruction sets share. No include guard, on purpose. */
/* NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result, bugprone-macro-parentheses, misc-redundant-expression,
 * clang-analyzer-deadcode.DeadStores, readability-non-const-parameter): what a macro makes the same for one set differs
 * for another. */

enum { KERNEL(channels) = WIDTH / GROUP };

static size_t KERNEL(padded)(size_t c) {
  return (c + KERNEL(channels) - 1) / KERNEL(channels) * KERNEL(channels);
}

/* ---- own layout: [vector of outputs][kernel height][kernel width][c_in][channels], biases behind */

static size_t KERNEL(weights)(const struct conv_shape *s) {
  return KERNEL(padded)(s->c_out) * (conv_taps(s) + 1);
}

static void KERNEL(load)(const struct conv_shape *s, const float *w, float *out_own) {
  size_t n_taps = conv_taps(s), n_padded = KERNEL(padded)(s->c_out);
  for (size_t o = 0; o < n_padded; o++) {
    float *own = out_own + o / KERNEL(channels) * n_taps * KERNEL(channels) + o % KERNEL(channels);
    for (size_t t = 0; t < n_taps; t++)
      own[t * KERNEL(channels)] = o < s->c_out ? w[o * n_taps + t] : 0;
    out_own[n_padded * n_taps + o] = o < s->c_out ? w[s->c_out * n_taps + o] : 0;
  }
}

static void KERNEL(store)(const struct conv_shape *s, const float *own, float *out_w) {
  size_t n_taps = conv_taps(s), n_padded = KERNEL(padded)(s->c_out);
  for (size_t o = 0; o < s->c_out; o++) {
    const float *from = own + o / KERNEL(channels) * n_taps * KERNEL(channels) + o % KERNEL(channels);
    for (size_t t = 0; t < n_taps; t++)
      out_w[o * n_taps + t] = from[t * KERNEL(channels)];
    out_w[s->c_out * n_taps + o] = own[n_padded * n_taps + o];
  }
}

/* ---- the sum over windows: forwards, and backwards to the inputs */

INLINE TARGET static void KERNEL(sites)(const struct gather *g, const struct span *s, size_t v0, size_t at,
                                        size_t sites, size_t vectors) {
  const float *x[SITES(1)];
  float *out[SITES(1)];
  bool both[SITES(1)];
  VEC acc[SITES(1)][2];
  size_t group = at / s->n_columns, column = at % s->n_columns;
  UNROLL for (size_t i = 0; i < sites; i++) {
    x[i] = s->x + group * g->x_group + column * s->x_step;
    out[i] = s->out + group * GROUP * g->out_image + column * g->out_pixel + v0 * KERNEL(channels);
    both[i] = group * GROUP + 1 < g->n;
    bool next = ++column == s->n_columns;
    group += next;
    column = next ? 0 : column;
  }
  UNROLL for (size_t v = 0; v < vectors; v++) {
    VEC bias = g->bias ? take_weights(g->bias + (v0 + v) * KERNEL(channels)) : zero();
    UNROLL for (size_t i = 0; i < sites; i++) acc[i][v] = bias;
  }
  const float *w_row = s->w + v0 * g->w_vector;
  for (size_t h = 0; h < s->n_rows; h++, w_row += g->w_row) {
    const float *w = w_row;
    for (size_t r = 0; r < s->run; r += GROUP, w += KERNEL(channels)) {
      VEC weights[2];
      UNROLL for (size_t v = 0; v < vectors; v++) weights[v] = take_weights(w + v * g->w_vector);
      UNROLL for (size_t i = 0; i < sites; i++) {
        VEC value = broadcast(x[i] + r);
        UNROLL for (size_t v = 0; v < vectors; v++) acc[i][v] = fma(value, weights[v], acc[i][v]);
      }
    }
    UNROLL for (size_t i = 0; i < sites; i++) x[i] += g->x_row;
  }
  UNROLL for (size_t v = 0; v < vectors; v++) {
    size_t n = g->n_channels - (v0 + v) * KERNEL(channels);
    UNROLL for (size_t i = 0; i < sites; i++) {
      VEC value = g->relu ? rectify(acc[i][v]) : acc[i][v];
      put(out[i] + v * KERNEL(channels), g->out_image, value, n, both[i]);
    }
  }
}

/* Not inlined into each other, so that each tile has the registers for itself. */
#define DO(n, n_vectors)                                                                                               \
  TARGET static void KERNEL(sites_##n##_##n_vectors)(const struct gather *g, const struct span *s, size_t v,           \
                                                     size_t at) {                                                      \
    KERNEL(sites)(g, s, v, at, n, n_vectors);                                                                          \
  }
EACH_SITES(DO, 1)
EACH_SITES(DO, 2)
#undef DO

static void (*const KERNEL(site_tiles)[2][SITES(1) + 1])(const struct gather *, const struct span *, size_t, size_t) = {
#define DO(n, n_vectors) [n_vectors - 1][n] = KERNEL(sites_##n##_##n_vectors),
    EACH_SITES(DO, 1) EACH_SITES(DO, 2)
#undef DO
};

/* One channel comes in: neighbours in a row share all but one of their inputs, so each input is read once for all its
 * taps. */
INLINE TARGET static void KERNEL(row)(const struct gather *g, const struct span *s, size_t v, size_t group,
                                      size_t column, size_t taps) {
  enum { SITES_IN_ROW = SITES(1) };
  VEC acc[SITES_IN_ROW], bias = g->bias ? take_weights(g->bias + v * KERNEL(channels)) : zero();
  UNROLL for (size_t i = 0; i < SITES_IN_ROW; i++) acc[i] = bias;
  const float *x = s->x + group * g->x_group + column * GROUP, *w = s->w + v * g->w_vector;
  for (size_t h = 0; h < s->n_rows; h++, w += g->w_row, x += g->x_row) {
    VEC weights[MAX_ROW_TAPS];
    UNROLL for (size_t t = 0; t < taps; t++) weights[t] = take_weights(w + t * KERNEL(channels));
    UNROLL for (size_t q = 0; q < SITES_IN_ROW + taps - 1; q++) {
      VEC value = broadcast(x + q * GROUP);
      UNROLL for (size_t t = 0; t < taps; t++) if (q >= t && q - t < SITES_IN_ROW) acc[q - t] =
          fma(value, weights[t], acc[q - t]);
    }
  }
  float *out = s->out + group * GROUP * g->out_image + column * g->out_pixel + v * KERNEL(channels);
  UNROLL for (size_t i = 0; i < SITES_IN_ROW; i++) {
    VEC value = g->relu ? rectify(acc[i]) : acc[i];
    put(out + i * g->out_pixel, g->out_image, value, g->n_channels - v * KERNEL(channels), group * GROUP + 1 < g->n);
  }
}

TARGET static void KERNEL(row_3)(const struct gather *g, const struct span *s, size_t v, size_t group, size_t column) {
  KERNEL(row)(g, s, v, group, column, 3);
}

TARGET static void KERNEL(row_5)(const struct gather *g, const struct span *s, size_t v, size_t group, size_t column) {
  KERNEL(row)(g, s, v, group, column, 5);
}

static void KERNEL(span_by_rows)(const struct gather *g, const struct span *s, size_t n_groups, size_t n_vectors) {
  for (size_t group = 0; group < n_groups; group++)
    for (size_t v = 0; v < n_vectors; v++)
      for (size_t column = 0; column < s->n_columns; column += SITES(1)) /* the last tile may do some once more */
        (s->run == 3 * GROUP ? KERNEL(row_3) : KERNEL(row_5))(g, s, v, group,
                                                              min_size(column, s->n_columns - SITES(1)));
}

static void KERNEL(span_by_sites)(const struct gather *g, const struct span *s, size_t n_groups, size_t n_vectors) {
  size_t n_sites = s->n_columns * n_groups;
  for (size_t v = 0, vectors; v < n_vectors; v += vectors) {
    vectors = n_vectors - v > 1 ? 2 : 1;
    size_t most = vectors == 1 ? SITES(1) : SITES(2);
    for (size_t at = 0, sites; at < n_sites; at += sites) {
      sites = next_tile(n_sites - at, most);
      KERNEL(site_tiles)[vectors - 1][sites](g, s, v, at);
    }
  }
}

static void KERNEL(gather)(const struct gather *g) {
  size_t n_vectors = KERNEL(padded)(g->n_channels) / KERNEL(channels), n_groups = (g->n + GROUP - 1) / GROUP;
  for (size_t i = 0; i < g->high.n_out; i++)
    for (size_t j = 0, n; j < g->wide.n_out; j += n) {
      n = axis_alike(&g->wide, j);
      struct span s = span_of(g, i, j, n);
      bool by_rows = s.x_step == GROUP && s.n_columns >= SITES(1) && (s.run == 3 * GROUP || s.run == 5 * GROUP);
      (by_rows ? KERNEL(span_by_rows) : KERNEL(span_by_sites))(g, &s, n_groups, n_vectors);
    }
}

/* ---- the gradient of the weights: a tile of taps × outputs is summed over all sites of a group of samples */

/* One step adds site j of a row or, where `two`, j and j + 1: with one channel and stride 1 tap t + 1 sees of j what tap t
 * sees of j + 1. */
INLINE TARGET static void KERNEL(taps_step)(const float *const x[MAX_TILE_ROWS], const float *dz, size_t dz_pixel,
                                            size_t rows, size_t taps, size_t vectors, bool two,
                                            VEC acc[MAX_TILE_TAPS][2]) {
  VEC d[2], next[2];
  UNROLL for (size_t v = 0; v < vectors; v++) {
    d[v] = take(dz + v * WIDTH);
    if (two)
      next[v] = take(dz + dz_pixel + v * WIDTH);
  }
  UNROLL for (size_t r = 0; r < rows; r++) UNROLL for (size_t t = 0; t < taps + two; t++) {
    VEC value = broadcast(x[r] + t * GROUP);
    UNROLL for (size_t v = 0; v < vectors; v++) {
      if (t < taps)
        acc[r * taps + t][v] = fma(value, d[v], acc[r * taps + t][v]);
      if (two && t > 0)
        acc[r * taps + t - 1][v] = fma(value, next[v], acc[r * taps + t - 1][v]);
    }
  }
}

INLINE TARGET static void KERNEL(taps)(const struct taps *s, size_t v0, size_t row, size_t tap, size_t rows,
                                       size_t taps, size_t vectors, bool slides) {
  VEC acc[MAX_TILE_TAPS][2];
  UNROLL for (size_t t = 0; t < rows * taps; t++) UNROLL for (size_t v = 0; v < vectors; v++) acc[t][v] = zero();
  const float *first = s->x + row * s->x_row + tap * GROUP, *dz = s->dz + v0 * WIDTH;
  for (size_t i = 0; i < s->out_height; i++, first += s->x_down) {
    const float *x[MAX_TILE_ROWS];
    UNROLL for (size_t r = 0; r < rows; r++) x[r] = first + r * s->x_row;
    size_t j = 0;
    for (; slides && j + 2 <= s->out_width; j += 2, dz += 2 * s->dz_pixel) {
      UNROLL for (size_t r = 0; r < rows; r++) IN_REGISTER(x[r]);
      KERNEL(taps_step)(x, dz, s->dz_pixel, rows, taps, vectors, true, acc);
      UNROLL for (size_t r = 0; r < rows; r++) x[r] += 2 * GROUP;
    }
    for (; j < s->out_width; j++, dz += s->dz_pixel) {
      UNROLL for (size_t r = 0; r < rows; r++) IN_REGISTER(x[r]);
      KERNEL(taps_step)(x, dz, s->dz_pixel, rows, taps, vectors, false, acc);
      UNROLL for (size_t r = 0; r < rows; r++) x[r] += s->x_right;
    }
  }
  UNROLL for (size_t r = 0; r < rows; r++) UNROLL for (size_t t = 0; t < taps; t++) {
    if (row + r < s->row_done || tap + t < s->tap_done)
      continue;
    UNROLL for (size_t v = 0; v < vectors; v++) if (v0 + v >= s->vector_done)
        add(s->g + ((v0 + v) * s->n_taps + (row + r) * s->run + tap + t) * KERNEL(channels), acc[r * taps + t][v]);
  }
}

#define NAME(rows, taps, vectors, slides) KERNEL(taps_##rows##_##taps##_##vectors##_##slides)
#define DO(n_rows, n_taps, n_vectors, slides)                                                                          \
  TARGET static void NAME(n_rows, n_taps, n_vectors, slides)(const struct taps *s, size_t v, size_t row, size_t tap) { \
    KERNEL(taps)(s, v, row, tap, n_rows, n_taps, n_vectors, slides);                                                   \
  }
EACH_TILE(DO)
#undef DO

static const struct tap_tile KERNEL(tap_tiles)[] = {
#define DO(rows, taps, vectors, slides) {rows, taps, vectors, slides, NAME(rows, taps, vectors, slides)},
    EACH_TILE(DO)
#undef DO
#undef NAME
};

TARGET static void KERNEL(sum)(const float *dz, size_t n_sites, size_t n_vectors, float *g) {
  for (size_t v = 0; v < n_vectors; v++) {
    VEC acc[4] = {zero(), zero(), zero(), zero()};
    const float *from = dz + v * WIDTH;
    size_t i = 0, step = n_vectors * WIDTH;
    for (; i + 4 <= n_sites; i += 4, from += 4 * step)
      UNROLL for (size_t k = 0; k < 4; k++) acc[k] = acc[k] + take(from + k * step);
    for (; i < n_sites; i++, from += step)
      acc[0] = acc[0] + take(from);
    add(g + v * KERNEL(channels), (acc[0] + acc[1]) + (acc[2] + acc[3]));
  }
}

/* ---- groups of samples as the loops above read them: [height][width][c][GROUP] with borders and further channels of zero */

/* n values of each sample; where masked, only those at which y > 0. */
TARGET static void KERNEL(weave_run)(const float *const x[GROUP], const float *const y[GROUP], size_t at, size_t n,
                                     float *restrict out) {
  const float *a = x[0] + at, *b = x[GROUP - 1] + at;
  if (!y) {
    for (size_t i = 0; i < n; i++) {
      out[i * GROUP] = a[i];
      if (GROUP > 1)
        out[i * GROUP + 1] = b[i];
    }
    return;
  }
  const float *mask_a = y[0] + at, *mask_b = y[GROUP - 1] + at;
  for (size_t i = 0; i < n; i++) {
    float value_a = a[i], value_b = b[i]; /* loaded in any case, so that there is no branch */
    out[i * GROUP] = mask_a[i] > 0 ? value_a : 0;
    if (GROUP > 1)
      out[i * GROUP + 1] = mask_b[i] > 0 ? value_b : 0;
  }
}

TARGET static void KERNEL(weave)(const struct weave *w, const float *const x[GROUP], const float *const y[GROUP],
                                 float *out) {
  size_t out_width = w->width + 2 * w->pad_width, out_pixel = w->c_padded * GROUP;
  bool flat = w->c == w->c_padded;
  if (!flat || w->pad_width || w->pad_height)
    memset(out, 0, (w->height + 2 * w->pad_height) * out_width * out_pixel * sizeof *out);
  size_t n_runs = flat ? 1 : w->width, n = flat ? w->width * w->c : w->c;
  if (flat && !w->pad_width) {
    KERNEL(weave_run)(x, y, 0, w->height * n, out + w->pad_height * out_width * out_pixel);
    return;
  }
  for (size_t i = 0; i < w->height; i++) {
    float *to = out + ((i + w->pad_height) * out_width + w->pad_width) * out_pixel;
    for (size_t k = 0; k < n_runs; k++, to += out_pixel)
      KERNEL(weave_run)(x, y, (i * n_runs + k) * n, n, to);
  }
}

/* The samples of group k of values of `size` a sample; what is missing in the last group is the first one again. */
static void KERNEL(group)(const float *x, size_t size, size_t k, size_t n, const float *out_x[GROUP]) {
  for (size_t m = 0; m < GROUP; m++)
    out_x[m] = x + (k * GROUP + (k * GROUP + m < n ? m : 0)) * size;
}

static void KERNEL(weave_all)(const struct weave *w, size_t n, const float *x, const float *y, float *out) {
  size_t size = w->height * w->width * w->c, out_size = weave_size(w) * GROUP, n_groups = (n + GROUP - 1) / GROUP;
  const float *xs[GROUP], *ys[GROUP];
  for (size_t k = 0; k < n_groups; k++) {
    KERNEL(group)(x, size, k, n, xs);
    if (y)
      KERNEL(group)(y, size, k, n, ys);
    KERNEL(weave)(w, xs, y ? ys : NULL, out + k * out_size);
  }
}

/* ∂L/∂z of one group from that of the pooled rows: each goes to the one of four places that was the largest. `room` is two
 * pooled rows. */
TARGET static void KERNEL(unpool)(const struct weave *w, const float *const dy[GROUP], const float *const which[GROUP],
                                  const float *const y[GROUP], float *room, float *out) {
  size_t height = w->height / 2, width = w->width / 2, pixel = w->c_padded * GROUP, row = w->width * pixel;
  struct weave one_row = {1, width, w->c, w->c_padded, 0, 0};
  float *d_row = room, *which_row = room + whole_lines(width * pixel);
  if (w->height % 2 || w->width % 2)
    memset(out, 0, w->height * row * sizeof *out);
  for (size_t i = 0; i < height; i++) {
    const float *d_at[GROUP], *which_at[GROUP], *y_at[GROUP];
    for (size_t m = 0; m < GROUP; m++) {
      d_at[m] = dy[m] + i * width * w->c;
      which_at[m] = which[m] + i * width * w->c;
      y_at[m] = y ? y[m] + i * width * w->c : NULL;
    }
    KERNEL(weave)(&one_row, d_at, y ? y_at : NULL, d_row);
    KERNEL(weave)(&one_row, which_at, NULL, which_row);
    for (size_t j = 0; j < width; j++)
      for (size_t v = 0; v < pixel; v += WIDTH) {
        VEC d = take(d_row + j * pixel + v), place = take(which_row + j * pixel + v);
        float *to = out + 2 * i * row + 2 * j * pixel + v;
        give(to, where_equal(place, 0.0f, d));
        give(to + pixel, where_equal(place, 1.0f, d));
        give(to + row, where_equal(place, 2.0f, d));
        give(to + row + pixel, where_equal(place, 3.0f, d));
      }
  }
}

static void KERNEL(unpool_all)(const struct weave *w, size_t n, const float *dy, const float *which, const float *y,
                               float *room, float *out) {
  size_t size = w->height / 2 * (w->width / 2) * w->c, out_size = weave_size(w) * GROUP;
  const float *dys[GROUP], *whiches[GROUP], *ys[GROUP];
  for (size_t k = 0; k < (n + GROUP - 1) / GROUP; k++) {
    KERNEL(group)(dy, size, k, n, dys);
    KERNEL(group)(which, size, k, n, whiches);
    if (y)
      KERNEL(group)(y, size, k, n, ys);
    KERNEL(unpool)(w, dys, whiches, y ? ys : NULL, room, out + k * out_size);
  }
}

/* ---- the kernel */

/* Forwards a copy is needed only to interleave; the gradient of the weights also needs the borders. */
static bool KERNEL(copies_x)(const struct conv_shape *s) {
  return GROUP > 1 || s->pad_height || s->pad_width;
}

static struct weave KERNEL(weave_x)(const struct conv_shape *s) {
  return (struct weave){s->height, s->width, s->c_in, s->c_in, s->pad_height, s->pad_width};
}

static struct weave KERNEL(weave_dz)(const struct conv_shape *s) {
  return (struct weave){s->out_height, s->out_width, s->c_out, KERNEL(padded)(s->c_out), 0, 0};
}

static size_t KERNEL(mirrored)(const struct conv_shape *s) {
  return whole_lines(s->kernel_height * s->kernel_width * KERNEL(padded)(s->c_out) * KERNEL(padded)(s->c_in));
}

/* Two rows of outputs of some samples, before they are pooled. */
static size_t KERNEL(band)(const struct conv_shape *s) {
  return 2 * s->out_width * s->c_out;
}

static size_t KERNEL(pooled_rows)(const struct conv_shape *s) {
  return 2 * whole_lines(s->out_width / 2 * KERNEL(padded)(s->c_out) * GROUP);
}

static size_t KERNEL(scratch)(const struct conv_shape *s, size_t n) {
  struct weave x = KERNEL(weave_x)(s), dz = KERNEL(weave_dz)(s);
  size_t size = s->height * s->width * s->c_in;
  size_t forward = (GROUP > 1 ? whole_lines(chunk_of(n, size) * size) : 0) + BAND_SAMPLES * KERNEL(band)(s);
  size_t backward = whole_lines(weave_size(&x) * GROUP) + KERNEL(pooled_rows)(s) +
                    chunk_of(n, weave_size(&dz)) * weave_size(&dz) + KERNEL(mirrored)(s);
  return forward > backward ? forward : backward;
}

/* The outputs of a chunk, two rows at a time, and the largest of each 2×2 of them to y. */
static void KERNEL(gather_pooled)(const struct conv_shape *s, struct gather g, float *band, float *y, float *which) {
  size_t width = s->out_width / 2, size = s->out_height / 2 * width * s->c_out;
  const struct pool_shape pool = {2, s->out_width, s->c_out, 2, 2, 2, 1, width};
  const float *x = g.x;
  size_t n = g.n;
  g.high.n_out = 2;
  g.out = band;
  g.out_image = KERNEL(band)(s);
  for (size_t at = 0; at < n; at += g.n) {
    g.n = min_size(BAND_SAMPLES, n - at);
    g.x = x + at / GROUP * g.x_group;
    for (size_t i = 0; i < s->out_height / 2; i++) {
      g.high.origin = (ptrdiff_t)(2 * i * s->stride) - (ptrdiff_t)s->pad_height;
      KERNEL(gather)(&g);
      for (size_t k = 0; k < g.n; k++) {
        size_t out = (at + k) * size + i * width * s->c_out;
        LARGEST(&pool, 1, band + k * g.out_image, y + out, which + out);
      }
    }
  }
}

static void KERNEL(forward)(const struct conv_shape *s, const struct conv_batch *b) {
  size_t size = s->height * s->width * s->c_in, out_size = conv_sites(s) * s->c_out,
         n_padded = KERNEL(padded)(s->c_out);
  size_t chunk = GROUP > 1 ? chunk_of(b->n, size) : b->n;
  struct gather g = {.high = axis_forward(s->height, s->kernel_height, s->stride, s->pad_height, s->out_height),
                     .wide = axis_forward(s->width, s->kernel_width, s->stride, s->pad_width, s->out_width),
                     .x_pixel = s->c_in * GROUP,
                     .x_row = s->width * s->c_in * GROUP,
                     .x_group = size * GROUP,
                     .w = b->w,
                     .w_tap = s->c_in * KERNEL(channels),
                     .w_row = s->kernel_width * s->c_in * KERNEL(channels),
                     .w_vector = conv_taps(s) * KERNEL(channels),
                     .bias = b->w + conv_taps(s) * n_padded,
                     .relu = b->relu,
                     .n_channels = s->c_out,
                     .out_pixel = s->c_out,
                     .out_row = s->out_width * s->c_out,
                     .out_image = out_size};
  struct weave plain = {s->height, s->width, s->c_in, s->c_in, 0, 0};
  float *band = b->scratch + (GROUP > 1 ? whole_lines(chunk * size) : 0);
  size_t pooled_size = (s->out_height / 2) * (s->out_width / 2) * s->c_out;
  for (size_t at = 0; at < b->n; at += g.n) {
    g.n = min_size(chunk, b->n - at);
    g.x = b->x + at * size;
    g.out = b->y + at * out_size;
    if (GROUP > 1) {
      KERNEL(weave_all)(&plain, g.n, g.x, NULL, b->scratch);
      g.x = b->scratch;
    }
    if (b->which)
      KERNEL(gather_pooled)(s, g, band, b->y + at * pooled_size, b->which + at * pooled_size);
    else
      KERNEL(gather)(&g);
  }
}

/* The kernel as the inputs of one phase see it: [vector of inputs][taps down][taps right][c_out][channels], mirrored. */
static void KERNEL(mirror)(const struct conv_shape *s, const struct phase *high, const struct phase *wide,
                           const float *w, float *out) {
  size_t n_padded = KERNEL(padded)(s->c_out), n_taps = conv_taps(s);
  for (size_t c0 = 0; c0 < s->c_in; c0 += KERNEL(channels))
    for (size_t i = high->n_taps; i-- > 0;)
      for (size_t j = wide->n_taps; j-- > 0;) {
        size_t tap = ((high->first + i * s->stride) * s->kernel_width + wide->first + j * s->stride) * s->c_in + c0;
        size_t n = min_size(KERNEL(channels), s->c_in - c0);
        for (size_t o = 0; o < n_padded; o++, out += KERNEL(channels)) {
          const float *from = w + (o / KERNEL(channels) * n_taps + tap) * KERNEL(channels) + o % KERNEL(channels);
          for (size_t c = 0; c < KERNEL(channels); c++)
            out[c] = c < n ? from[c * KERNEL(channels)] : 0;
        }
      }
}

static size_t KERNEL(mirrored_phase)(const struct conv_shape *s, const struct phase *high, const struct phase *wide) {
  return high->n_taps * wide->n_taps * KERNEL(padded)(s->c_out) * KERNEL(padded)(s->c_in);
}

/* The inputs are taken by phases, their places modulo the stride: those of one phase see the outputs side by side. */
#define EACH_PHASE(work)                                                                                               \
  for (size_t p = 0; p < s->stride && p < s->height; p++)                                                              \
    for (size_t q = 0; q < s->stride && q < s->width; q++) {                                                           \
      struct phase high = phase_of(s->height, s->kernel_height, s->stride, s->pad_height, s->out_height, p);           \
      struct phase wide = phase_of(s->width, s->kernel_width, s->stride, s->pad_width, s->out_width, q);               \
      work;                                                                                                            \
      mirrored += KERNEL(mirrored_phase)(s, &high, &wide);                                                             \
    }

static void KERNEL(mirror_all)(const struct conv_shape *s, const float *w, float *mirrored) {
  EACH_PHASE(KERNEL(mirror)(s, &high, &wide, w, mirrored))
}

static void KERNEL(back_phase)(const struct conv_shape *s, size_t n, const float *dz, const struct phase *high,
                               const struct phase *wide, const float *mirrored, float *dx) {
  size_t n_padded = KERNEL(padded)(s->c_out);
  const struct gather g = {.n = n,
                           .high = high->axis,
                           .wide = wide->axis,
                           .x = dz,
                           .x_pixel = n_padded * GROUP,
                           .x_row = s->out_width * n_padded * GROUP,
                           .x_group = conv_sites(s) * n_padded * GROUP,
                           .w = mirrored,
                           .w_tap = n_padded * KERNEL(channels),
                           .w_row = wide->n_taps * n_padded * KERNEL(channels),
                           .w_vector = high->n_taps * wide->n_taps * n_padded * KERNEL(channels),
                           .n_channels = s->c_in,
                           .out = dx,
                           .out_pixel = s->stride * s->c_in,
                           .out_row = s->stride * s->width * s->c_in,
                           .out_image = s->height * s->width * s->c_in};
  KERNEL(gather)(&g);
}

/* ∂L/∂x of n samples. */
static void KERNEL(back_inputs)(const struct conv_shape *s, size_t n, const float *dz, const float *mirrored,
                                float *dx) {
  EACH_PHASE(KERNEL(back_phase)(s, n, dz, &high, &wide, mirrored, dx + (p * s->width + q) * s->c_in))
}
#undef EACH_PHASE

static void KERNEL(back_weights)(const struct conv_shape *s, const float *x, size_t x_width, const float *dz,
                                 float *g) {
  size_t n_vectors = KERNEL(padded)(s->c_out) / KERNEL(channels), run = s->kernel_width * s->c_in;
  const struct tap_tile *tile = tap_tile_of(KERNEL(tap_tiles), sizeof KERNEL(tap_tiles) / sizeof *KERNEL(tap_tiles),
                                            s->kernel_height, run, n_vectors, s->stride * s->c_in == 1);
  struct taps t = {.x = x,
                   .x_row = x_width * s->c_in * GROUP,
                   .x_down = s->stride * x_width * s->c_in * GROUP,
                   .x_right = s->stride * s->c_in * GROUP,
                   .out_height = s->out_height,
                   .out_width = s->out_width,
                   .dz = dz,
                   .dz_pixel = n_vectors * WIDTH,
                   .g = g,
                   .run = run,
                   .n_taps = conv_taps(s)};
  for (t.vector_done = 0; t.vector_done < n_vectors; t.vector_done += tile->vectors)
    for (t.row_done = 0; t.row_done < s->kernel_height; t.row_done += tile->rows)
      for (t.tap_done = 0; t.tap_done < run; t.tap_done += tile->taps)
        tile->run(&t, min_size(t.vector_done, n_vectors - tile->vectors),
                  min_size(t.row_done, s->kernel_height - tile->rows), min_size(t.tap_done, run - tile->taps));
  KERNEL(sum)(dz, conv_sites(s), n_vectors, g + conv_taps(s) * n_vectors * KERNEL(channels));
}

/* ∂L/∂z of n samples from the at-th on, as the loops read it. */
static const float *KERNEL(delta)(const struct conv_shape *s, const struct conv_batch *b, const float *dy, size_t at,
                                  size_t n, float *room, float *copy) {
  struct weave w = KERNEL(weave_dz)(s);
  size_t size = b->which ? (s->out_height / 2) * (s->out_width / 2) * s->c_out : conv_sites(s) * s->c_out;
  const float *y = b->relu ? b->y + at * size : NULL;
  if (GROUP == 1 && !b->which && !b->relu && w.c == w.c_padded)
    return dy + at * size;
  if (b->which)
    KERNEL(unpool_all)(&w, n, dy + at * size, b->which + at * size, y, room, copy);
  else
    KERNEL(weave_all)(&w, n, dy + at * size, y, copy);
  for (size_t i = 1; n % GROUP && i < weave_size(&w) * GROUP; i += GROUP)
    copy[n / GROUP * weave_size(&w) * GROUP + i] = 0;
  return copy;
}

static void KERNEL(backward)(const struct conv_shape *s, const struct conv_batch *b, const struct conv_gradient *d) {
  struct weave woven_x = KERNEL(weave_x)(s), woven_dz = KERNEL(weave_dz)(s);
  size_t size = s->height * s->width * s->c_in, dz_size = weave_size(&woven_dz);
  bool copies_x = KERNEL(copies_x)(s);
  size_t x_width = copies_x ? s->width + 2 * s->pad_width : s->width;
  size_t chunk = d->dx ? chunk_of(b->n, dz_size) : GROUP;
  float *mirrored = b->scratch, *x_copy = mirrored + KERNEL(mirrored)(s),
        *pooled_rows = x_copy + whole_lines(weave_size(&woven_x) * GROUP),
        *dz_copy = pooled_rows + KERNEL(pooled_rows)(s);
  floats_scale(d->g, KERNEL(weights)(s), d->momentum);
  if (d->dx)
    KERNEL(mirror_all)(s, b->w, mirrored);
  for (size_t at = 0, n; at < b->n; at += n) {
    n = min_size(chunk, b->n - at);
    const float *x = b->x + at * size, *dz = KERNEL(delta)(s, b, d->dy, at, n, pooled_rows, dz_copy);
    for (size_t k = 0; k < (n + GROUP - 1) / GROUP; k++) {
      const float *group[GROUP];
      KERNEL(group)(x, size, k, n, group);
      if (copies_x)
        KERNEL(weave)(&woven_x, group, NULL, x_copy);
      KERNEL(back_weights)(s, copies_x ? x_copy : group[0], x_width, dz + k * dz_size * GROUP, d->g);
    }
    if (d->dx)
      KERNEL(back_inputs)(s, n, dz, mirrored, d->dx + at * size);
  }
}

#undef KERNEL
#undef TARGET
#undef VEC
#undef WIDTH
#undef GROUP
#undef take
#undef take_weights
#undef broadcast
#undef zero
#undef rectify
#undef put
#undef add
#undef give
#undef where_equal
#undef LARGEST
#undef fma
/* NOLINTEND */
