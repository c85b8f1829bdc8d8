/* One gemm kernel, written once for all instruction sets: included by gemm.c for each, with these macros defined.
 *
 *   KERNEL(name)   the function's name in this kernel
 *   TARGET         function attribute
 *   VEC, WIDTH     a vector of floats and how many it holds
 *   load(p), store(p, v), store_part(p, v, n), broadcast(p), fma(a, b, c) = a·b + c, zero(), max(a, b) = b when one is NaN
 *   total(v)       the sum of its values
 *   where_positive(a, v)   v where a > 0, else 0
 *   ROWS, PANELS   rows of the largest tile, and panels side by side in it
 *   LATE           whether a tile has so many stores that w had better follow later
 *   EACH_ROWS(DO, …)  DO(1, …) … DO(ROWS, …)
 *
 * No include guard, on purpose. */

enum {
  KERNEL(per_panel) = GEMM_PANEL / WIDTH, /* vectors */
  KERNEL(wide) = PANELS * GEMM_PANEL,     /* values of a row of the largest tile … */
  KERNEL(columns) = KERNEL(wide) / WIDTH, /* … and vectors */
};

/* One tile's function is compiled for each number of rows, and of panels 1 or PANELS, so that its sums are registers. */
#define ONE_TILE(n, tile, panels, ...)                                                                                 \
  case n:                                                                                                              \
    if ((panels) == PANELS)                                                                                            \
      tile(n, PANELS, __VA_ARGS__);                                                                                    \
    else                                                                                                               \
      tile(n, 1, __VA_ARGS__);                                                                                         \
    break;
#define TILE(tile, rows, panels, ...)                                                                                  \
  switch (rows) { EACH_ROWS(ONE_TILE, tile, panels, __VA_ARGS__) }

/* sum[i][v] += Σ_r a[i·a_row + r·a_step] · b[panel of v · b_panel + r·b_step + place of v in it], r < n_steps */
INLINE TARGET static void KERNEL(multiply)(size_t rows, size_t panels, VEC sum[ROWS][KERNEL(columns)], size_t n_steps,
                                           const float *a, size_t a_row, size_t a_step, const float *b, size_t b_panel,
                                           size_t b_step) {
  for (size_t r = 0; r < n_steps; r++, a += a_step, b += b_step) {
    VEC column[KERNEL(columns)];
    EACH (v, panels * KERNEL(per_panel))
      column[v] = load(b + v / KERNEL(per_panel) * b_panel + v % KERNEL(per_panel) * WIDTH);
    EACH (i, rows) {
      VEC row = broadcast(a + i * a_row);
      EACH (v, panels * KERNEL(per_panel))
        sum[i][v] = fma(row, column[v], sum[i][v]);
    }
  }
}

/* ---- forward: a tile is samples × outputs */

INLINE TARGET static void KERNEL(forward_tile)(size_t rows, size_t panels, const struct gemm_shape *s, const float *x,
                                               const float *packed, const float *bias, bool relu, float *y,
                                               size_t n_columns) {
  VEC sum[ROWS][KERNEL(columns)];
  EACH (i, rows)
    EACH (v, panels * KERNEL(per_panel))
      sum[i][v] = load(bias + v * WIDTH);
  KERNEL(multiply)(rows, panels, sum, s->n_in, x, s->x_stride, 1, packed, s->n_in * GEMM_PANEL, GEMM_PANEL);
  if (relu)
    EACH (i, rows)
      EACH (v, panels * KERNEL(per_panel))
        sum[i][v] = max(zero(), sum[i][v]);
  EACH (i, rows)
    EACH (v, panels * KERNEL(per_panel)) {
      float *to = y + i * s->y_stride + v * WIDTH;
      if ((v + 1) * WIDTH <= n_columns)
        store(to, sum[i][v]);
      else if (v * WIDTH < n_columns)
        store_part(to, sum[i][v], n_columns - v * WIDTH);
    }
}

TARGET static void KERNEL(forward)(const struct gemm_shape *s, const float *x, const float *packed, const float *bias,
                                   bool relu, float *y) {
  for (size_t o = 0; o < s->n_out; o += KERNEL(wide)) {
    size_t n_columns = min_size(KERNEL(wide), s->n_out - o), panels = gemm_padded(n_columns) / GEMM_PANEL;
    for (size_t i = 0, rows; i < s->n; i += rows) {
      rows = next_rows(s->n, i, ROWS);
      TILE(KERNEL(forward_tile), rows, panels, s, x + i * s->x_stride, packed + o * s->n_in, bias + o, relu,
           y + i * s->y_stride + o, n_columns)
    }
  }
}

/* ---- backward, to the inputs: a tile is inputs × samples */

INLINE TARGET static void KERNEL(inputs_tile)(size_t rows, size_t panels, const struct gemm_shape *s,
                                              const float *columns, const float *packed, float *dx) {
  size_t n_padded = gemm_padded(s->n);
  VEC sum[ROWS][KERNEL(columns)] = {{zero()}};
  for (size_t o = 0; o < s->n_out; o += GEMM_PANEL)
    KERNEL(multiply)
  (rows, panels, sum, GEMM_PANEL, packed + o * s->n_in, GEMM_PANEL, 1, columns + o * n_padded, GEMM_PANEL, n_padded);
  EACH (i, rows)
    EACH (v, panels * KERNEL(per_panel))
      store(dx + i * GEMM_ROOM + v * WIDTH, sum[i][v]);
}

TARGET static void KERNEL(back_inputs)(const struct gemm_shape *s, const struct gemm_delta *delta, const float *packed,
                                       float *room, float *dx) {
  size_t n_padded = gemm_padded(s->n);
  for (size_t n = 0; n < n_padded; n += KERNEL(wide)) {
    size_t panels = min_size(PANELS, (n_padded - n) / GEMM_PANEL);
    for (size_t i = 0, rows; i < s->n_in; i += rows) {
      rows = next_rows(s->n_in, i, ROWS);
      TILE(KERNEL(inputs_tile), rows, panels, s, delta->columns + n, packed + i * GEMM_PANEL, room + i * GEMM_ROOM)
    }
    gemm_transpose(s->n_in, min_size(KERNEL(wide), s->n - n), room, GEMM_ROOM, dx + n * s->x_stride, s->x_stride);
  }
}

/* ---- backward, to the weights: a tile is inputs × outputs
 *
 * A batch is narrow, so a tile's stores come close together. Of g and w in one piece they fill the queue of stores, and the
 * units that multiply wait: so a large tile's w follow row by row while the next tile is summed. */

/* rows × panels values of the packed arrays. */
struct KERNEL(tile) {
  size_t at, panel_stride, rows;
};

/* The place of vector v of row i. */
INLINE static size_t KERNEL(place)(const struct KERNEL(tile) * t, size_t i, size_t v) {
  return t->at + v / KERNEL(per_panel) * t->panel_stride + i * GEMM_PANEL + v % KERNEL(per_panel) * WIDTH;
}

/* w ← w − rate·g, of row i of a tile. */
INLINE TARGET static void KERNEL(step_row)(size_t panels, const struct gemm_update *u, const struct KERNEL(tile) * t,
                                           size_t i) {
  const float minus_rate = -u->rate;
  EACH (v, panels * KERNEL(per_panel)) {
    size_t at = KERNEL(place)(t, i, v);
    store(u->w + at, fma(broadcast(&minus_rate), load(u->g + at), load(u->w + at)));
  }
}

/* g and w of tile t; LATE: g of tile t, and w of the tile before it. */
INLINE TARGET static void KERNEL(weights_tile)(size_t rows, size_t panels, const struct gemm_shape *s, const float *dy,
                                               const float *x, const struct gemm_update *update,
                                               const struct KERNEL(tile) * tile, const struct KERNEL(tile) * before) {
  const struct gemm_update u = *update; /* these no store can change */
  const struct KERNEL(tile) t = *tile, last = *before;
  VEC sum[ROWS][KERNEL(columns)] = {{zero()}};
  if (u.momentum != 0)
    EACH (v, panels * KERNEL(per_panel))
      EACH (i, rows)
        sum[i][v] = fma(broadcast(&u.momentum), load(u.g + KERNEL(place)(&t, i, v)), zero());
  if (u.w && u.decay != 0)
    EACH (v, panels * KERNEL(per_panel))
      EACH (i, rows)
        sum[i][v] = fma(broadcast(&u.decay), load(u.w + KERNEL(place)(&t, i, v)), sum[i][v]);
  size_t first = min_size(LATE ? last.rows : rows, s->n);
  for (size_t r = 0; r < first; r++, x += s->x_stride, dy += GEMM_PANEL) {
    EACH (panel, panels) {
      __builtin_prefetch(u.g + KERNEL(place)(&t, rows + r, panel * KERNEL(per_panel)));
      __builtin_prefetch((u.w ? u.w : u.g) + KERNEL(place)(&t, r, panel * KERNEL(per_panel)));
    }
    if (LATE)
      KERNEL(step_row)(panels, &u, &last, r);
    KERNEL(multiply)(rows, panels, sum, 1, x, 1, 0, dy, s->n * GEMM_PANEL, 0);
  }
  KERNEL(multiply)(rows, panels, sum, s->n - first, x, 1, s->x_stride, dy, s->n * GEMM_PANEL, GEMM_PANEL);
  for (size_t r = first; r < last.rows; r++)
    KERNEL(step_row)(panels, &u, &last, r);
  const float minus_rate = -u.rate;
  if (!LATE && u.w)
    EACH (v, panels * KERNEL(per_panel))
      EACH (i, rows) {
        size_t at = KERNEL(place)(&t, i, v);
        store(u.w + at, fma(broadcast(&minus_rate), sum[i][v], load(u.w + at)));
        store(u.g + at, sum[i][v]);
      }
  else
    EACH (v, panels * KERNEL(per_panel))
      EACH (i, rows)
        store(u.g + KERNEL(place)(&t, i, v), sum[i][v]);
}

/* One panel, or PANELS side by side, from output o on. */
INLINE TARGET static void KERNEL(weights_panels)(size_t panels, const struct gemm_shape *s, const float *dy,
                                                 const float *x, const struct gemm_update *u, size_t o) {
  struct KERNEL(tile) last = {.rows = 0};
  for (size_t i = 0, rows; i < s->n_in; i += rows) {
    rows = next_rows(s->n_in, i, ROWS);
    const struct KERNEL(tile) t = {o * s->n_in + i * GEMM_PANEL, s->n_in * GEMM_PANEL, LATE && u->w ? rows : 0};
    TILE(KERNEL(weights_tile), rows, panels, s, dy, x + i, u, &t, &last)
    last = t;
  }
  for (size_t r = 0; r < last.rows; r++)
    KERNEL(step_row)(panels, u, &last, r);
}

TARGET static void KERNEL(back_weights)(const struct gemm_shape *s, const struct gemm_delta *delta, const float *x,
                                        const struct gemm_update *update) {
  for (size_t o = 0; o < s->n_out; o += KERNEL(wide)) {
    const float *dy = delta->panels + o * s->n;
    if (gemm_padded(s->n_out - o) >= KERNEL(wide))
      KERNEL(weights_panels)(PANELS, s, dy, x, update, o);
    else
      KERNEL(weights_panels)(1, s, dy, x, update, o);
  }
}

TARGET static void KERNEL(back_bias)(const struct gemm_shape *s, const struct gemm_delta *delta,
                                     const struct gemm_update *update) {
  const float one = 1, minus_rate = -update->rate;
  for (size_t o = 0; o < gemm_padded(s->n_out); o += WIDTH) {
    const float *dy = delta->panels + o / GEMM_PANEL * GEMM_PANEL * s->n + o % GEMM_PANEL;
    VEC sum = update->momentum != 0 ? fma(broadcast(&update->momentum), load(update->g + o), zero()) : zero();
    if (update->w && update->decay != 0)
      sum = fma(broadcast(&update->decay), load(update->w + o), sum);
    for (size_t i = 0; i < s->n; i++)
      sum = fma(broadcast(&one), load(dy + i * GEMM_PANEL), sum);
    if (update->w)
      store(update->w + o, fma(broadcast(&minus_rate), sum, load(update->w + o)));
    store(update->g + o, sum);
  }
}

/* ---- few outputs: W is [n_out][n_in], and vectors lie along the inputs, which are whole panels */

/* sums[v][i] += Σ_k w[i][k]·x[v][k], lane by lane, of n_steps inputs; `fresh`: = instead. A tile is outputs × samples. */
INLINE TARGET static void KERNEL(dots_tile)(size_t rows, size_t samples, bool fresh, size_t n_steps,
                                            const float *const *x, const float *w, size_t w_stride,
                                            float *const *sums) {
  VEC sum[ROWS][KERNEL(columns)] = {{zero()}};
  if (!fresh)
    EACH (i, rows)
      EACH (v, samples * KERNEL(per_panel))
        sum[i][v] = load(sums[v] + i * WIDTH);
  for (size_t k = 0; k < n_steps; k += WIDTH) {
    VEC inputs[KERNEL(columns)];
    EACH (v, samples * KERNEL(per_panel))
      inputs[v] = load(x[v] + k);
    EACH (i, rows) {
      VEC weights = load(w + i * w_stride + k);
      EACH (v, samples * KERNEL(per_panel))
        sum[i][v] = fma(weights, inputs[v], sum[i][v]);
    }
  }
  EACH (i, rows)
    EACH (v, samples * KERNEL(per_panel))
      store(sums[v] + i * WIDTH, sum[i][v]);
}

/* The dots of the inputs from `first` on; `room` [n][n_out][WIDTH]. */
TARGET static void KERNEL(dots)(const struct gemm_shape *s, size_t first, const float *x, const float *w, float *room) {
  size_t n_steps = min_size(STRIP, s->n_in - first);
  for (size_t i = 0; i < s->n; i += KERNEL(columns))
    for (size_t o = 0, rows; o < s->n_out; o += rows) {
      const float *inputs[KERNEL(columns)];
      float *sums[KERNEL(columns)];
      for (size_t v = 0; v < KERNEL(columns); v++) { /* what is missing of a tile: the last sample once more */
        size_t sample = min_size(i + v, s->n - 1);
        inputs[v] = x + sample * s->x_stride + first;
        sums[v] = room + (sample * s->n_out + o) * WIDTH;
      }
      rows = next_rows(s->n_out, o, ROWS);
      TILE(KERNEL(dots_tile), rows, PANELS, first == 0, n_steps, inputs, w + o * s->n_in + first, s->n_in, sums)
    }
}

TARGET static void KERNEL(few_forward)(const struct gemm_shape *s, const float *x, const float *w, const float *bias,
                                       bool relu, float *room, float *y) {
  for (size_t first = 0; first < s->n_in; first += STRIP)
    KERNEL(dots)(s, first, x, w, room);
  const float lowest = relu ? 0 : -INFINITY;
  for (size_t i = 0; i < s->n; i++)
    for (size_t o = 0; o < s->n_out; o++, room += WIDTH) {
      float value = bias[o] + total(load(room));
      y[i * s->y_stride + o] = lowest > value ? lowest : value;
    }
}

/* A tile is samples × inputs. */
INLINE TARGET static void KERNEL(few_inputs_tile)(size_t rows, size_t panels, const struct gemm_shape *s,
                                                  const float *dy, const float *w, const float *gate, float *dx) {
  VEC sum[ROWS][KERNEL(columns)] = {{zero()}};
  KERNEL(multiply)(rows, panels, sum, s->n_out, dy, s->n_out, 1, w, GEMM_PANEL, s->n_in);
  if (gate)
    EACH (i, rows)
      EACH (v, panels * KERNEL(per_panel))
        sum[i][v] = where_positive(load(gate + i * s->x_stride + v * WIDTH), sum[i][v]);
  EACH (i, rows)
    EACH (v, panels * KERNEL(per_panel))
      store(dx + i * s->x_stride + v * WIDTH, sum[i][v]);
}

/* g ← βg + ∇ + decay·w; a tile is outputs × inputs. */
INLINE TARGET static void KERNEL(few_weights_tile)(size_t rows, size_t panels, const struct gemm_shape *s,
                                                   const float *dy, const float *x, const struct gemm_update *u,
                                                   size_t at) {
  const size_t n_in = s->n_in;
  float *g = u->g + at;
  VEC sum[ROWS][KERNEL(columns)] = {{zero()}};
  if (u->momentum != 0)
    EACH (i, rows)
      EACH (v, panels * KERNEL(per_panel))
        sum[i][v] = fma(broadcast(&u->momentum), load(g + i * n_in + v * WIDTH), zero());
  if (u->w && u->decay != 0)
    EACH (i, rows)
      EACH (v, panels * KERNEL(per_panel))
        sum[i][v] = fma(broadcast(&u->decay), load(u->w + at + i * n_in + v * WIDTH), sum[i][v]);
  KERNEL(multiply)(rows, panels, sum, s->n, dy, 1, s->n_out, x, GEMM_PANEL, s->x_stride);
  EACH (i, rows)
    EACH (v, panels * KERNEL(per_panel))
      store(g + i * n_in + v * WIDTH, sum[i][v]);
}

/* w ← w − rate·g, of the inputs that g was just made for. */
TARGET static void KERNEL(few_step)(const struct gemm_shape *s, const struct gemm_update *u, size_t k, size_t n) {
  const VEC minus_rate = broadcast(&(float){-u->rate});
  for (size_t o = 0; o < s->n_out; o++)
    for (size_t i = o * s->n_in + k; i < o * s->n_in + k + n; i += WIDTH)
      store(u->w + i, fma(minus_rate, load(u->g + i), load(u->w + i)));
}

/* Asks for the inputs and weights behind input k, which lie far apart. */
INLINE static void KERNEL(few_expect)(const struct gemm_shape *s, const float *x, const float *w, const float *g,
                                      size_t k) {
  for (size_t v = 0; v < KERNEL(wide); v += GEMM_PANEL) {
    for (size_t i = 0; i < s->n; i++)
      __builtin_prefetch(x + i * s->x_stride + k + v);
    for (size_t o = 0; o < s->n_out; o++) {
      __builtin_prefetch(w + o * s->n_in + k + v);
      __builtin_prefetch(g + o * s->n_in + k + v);
    }
  }
}

TARGET static void KERNEL(few_backward)(const struct gemm_shape *s, const float *dy, const float *x, const float *w,
                                        const struct gemm_update *u, bool gated, float *dx) {
  for (size_t k = 0, wide; k < s->n_in; k += wide) {
    size_t panels = min_size(PANELS, (s->n_in - k) / GEMM_PANEL);
    wide = panels * GEMM_PANEL;
    KERNEL(few_expect)(s, x, w, u->g, k + wide);
    for (size_t o = 0, rows; o < s->n_out; o += rows) {
      rows = next_rows(s->n_out, o, ROWS);
      TILE(KERNEL(few_weights_tile), rows, panels, s, dy + o, x + k, u, o * s->n_in + k)
    }
    for (size_t i = 0, rows; dx && i < s->n; i += rows) {
      size_t at = i * s->x_stride + k;
      rows = next_rows(s->n, i, ROWS);
      TILE(KERNEL(few_inputs_tile), rows, panels, s, dy + i * s->n_out, w + k, gated ? x + at : NULL, dx + at)
    }
    if (u->w)
      KERNEL(few_step)(s, u, k, wide);
  }
}

#undef ONE_TILE
#undef TILE
#undef KERNEL
#undef TARGET
#undef VEC
#undef WIDTH
#undef load
#undef store
#undef store_part
#undef broadcast
#undef fma
#undef zero
#undef max
#undef total
#undef where_positive
#undef ROWS
#undef LATE
#undef PANELS
#undef EACH_ROWS
