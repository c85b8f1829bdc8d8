/* No kernel touches a byte beside its arrays: each of them begins, or ends, at a page that nobody may touch. The shapes have
 * every kind of remainder; that the values are right is for the kernels' own tests. */
#include <stdbool.h>
#include <sys/wait.h>

#include "models/kernels/conv.h"
#include "models/kernels/cpu.h"
#include "models/kernels/depthwise.h"
#include "models/kernels/distance.h"
#include "models/kernels/gemm.h"
#include "models/kernels/half.h"
#include "models/kernels/mean.h"
#include "models/kernels/order.h"
#include "models/kernels/pool.h"
#include "models/kernels/quantise.h"
#include "models/kernels/select.h"
#include "models/kernels/standardise.h"
#include "tests/size.h"
#include "tests/unit/models/guarded.h"
#include "tests/unit/suite.h"

static bool runs(const struct cpu *needs) {
  struct cpu cpu = cpu_detect();
  return cpu_has(&cpu, needs);
}

/* What follows is done with arrays that begin, and with arrays that end at such a page. */
#define EACH_EDGE for (struct guarded g = {0}, *once = &g; once; once = g.at_start ? NULL : &g, g.at_start = true)

/* ---- windows */

static const size_t channels[] = {1, 3, 8, 9, 16, 17, 33, 48};
enum { N_CHANNELS = sizeof channels / sizeof *channels };

static const struct window {
  size_t n, height, width, kernel_height, kernel_width, stride, pad_height, pad_width;
} windows[] = {
    {3, 7, 6, 3, 3, 1, 1, 1}, {1, 6, 15, 3, 3, 1, 0, 0}, {2, 5, 17, 5, 5, 1, 2, 2}, {1, 8, 7, 3, 3, 2, 1, 1},
    {2, 7, 7, 2, 2, 3, 0, 0}, {3, 4, 5, 1, 1, 1, 0, 0},  {1, 1, 19, 1, 3, 1, 0, 1}, {3, 1, 19, 1, 5, 1, 0, 0},
};
enum { N_WINDOWS = sizeof windows / sizeof *windows, N_CASES = N_WINDOWS * N_CHANNELS };

static struct conv_shape shape_of(const struct window *w, size_t c_in, size_t c_out) {
  return (struct conv_shape){.height = w->height,
                             .width = w->width,
                             .c_in = c_in,
                             .kernel_height = w->kernel_height,
                             .kernel_width = w->kernel_width,
                             .stride = w->stride,
                             .pad_height = w->pad_height,
                             .pad_width = w->pad_width,
                             .out_height = (w->height + 2 * w->pad_height - w->kernel_height) / w->stride + 1,
                             .out_width = (w->width + 2 * w->pad_width - w->kernel_width) / w->stride + 1,
                             .c_out = c_out};
}

static void try_conv(struct guarded *g, const struct conv_kernel *k, const struct conv_shape *s, size_t n,
                     bool pooled) {
  GUARDED_TRY("conv %s, %zu × %zux%zux%zu, kernel %zux%zux%zu, stride %zu%s", k->name, n, s->height, s->width, s->c_in,
              s->kernel_height, s->kernel_width, s->c_out, s->stride, pooled ? ", pooled" : "");
  size_t n_x = n * s->height * s->width * s->c_in, n_w = (conv_taps(s) + 1) * s->c_out,
         n_own = k->weights ? k->weights(s) : n_w,
         n_y = n * (pooled ? s->out_height / 2 * (s->out_width / 2) : conv_sites(s)) * s->c_out;
  float *w = guarded_floats(g, n_w, 0.5f), *own = guarded_floats(g, n_own, 0.5f);
  if (k->load)
    k->load(s, w, own);
  struct conv_batch b = {.n = n,
                         .x = guarded_floats(g, n_x, 0.5f),
                         .w = own,
                         .relu = true,
                         .which = pooled ? guarded_floats(g, n_y, 0) : NULL,
                         .scratch = guarded_floats(g, k->scratch ? k->scratch(s, n) : 0, 0.5f),
                         .y = guarded_floats(g, n_y, 0)};
  struct conv_gradient d = {.dy = guarded_floats(g, n_y, 0.5f),
                            .dx = guarded_floats(g, n_x, 0),
                            .momentum = 0.5f,
                            .g = guarded_floats(g, n_own, 0.5f)};
  k->forward(s, &b);
  k->backward(s, &b, &d);
  if (k->gates) {
    d.dx = guarded_floats(g, n_x, 0.5f);
    d.gated = true;
    k->backward(s, &(struct conv_batch){.n = n, .x = d.dx, .w = own, .relu = true, .scratch = b.scratch, .y = b.y}, &d);
  }
  d.dx = NULL;
  b.relu = false;
  k->forward(s, &b);
  k->backward(s, &b, &d);
  if (k->store)
    k->store(s, own, w);
  g->n = 0;
}

static void try_conv_kernels(struct guarded *g, const struct conv_shape *s, size_t n) {
  size_t n_kernels;
  const struct conv_kernel *const *kernels = conv_kernels(&n_kernels);
  for (size_t i = 0; i < n_kernels; i++) {
    if (!runs(&kernels[i]->needs) || (kernels[i]->fits && !kernels[i]->fits(s)))
      continue;
    try_conv(g, kernels[i], s, n, false);
    if (kernels[i]->pools && s->out_height >= 2 && s->out_width >= 2)
      try_conv(g, kernels[i], s, n, true);
  }
}

START_TEST(conv) {
  const size_t step = least_or(29, sized(9, 1, 1));
  EACH_EDGE
  for (size_t at = 0; at < N_CASES; at++)
    for (size_t k = at % step; k < N_CHANNELS; k += step) {
      struct conv_shape s = shape_of(&windows[at / N_CHANNELS], channels[at % N_CHANNELS], channels[k]);
      try_conv_kernels(&g, &s, windows[at / N_CHANNELS].n);
    }
}
END_TEST

static void try_depthwise(struct guarded *g, const struct depthwise_kernel *k, const struct conv_shape *s, size_t n) {
  size_t n_x = n * s->height * s->width * s->c_in, n_y = n * conv_sites(s) * s->c_in, n_own = depthwise_weights(s);
  float *w = guarded_floats(g, (s->kernel_height * s->kernel_width + 1) * s->c_in, 0.5f),
        *own = guarded_floats(g, n_own, 0);
  depthwise_load(s, w, own);
  struct conv_batch b = {.n = n, .x = guarded_floats(g, n_x, 0.5f), .w = own, .y = guarded_floats(g, n_y, 0)};
  k->forward(s, &b);
  k->backward(s, &b,
              &(struct conv_gradient){.dy = guarded_floats(g, n_y, 0.5f),
                                      .dx = guarded_floats(g, n_x, 0),
                                      .momentum = 0.5f,
                                      .g = guarded_floats(g, n_own, 0.5f)});
  depthwise_store(s, own, w);
  g->n = 0;
}

static const struct depthwise_kernel *const depthwise_kernels[] = {&depthwise_lanes,
#if defined __x86_64__
                                                                   &depthwise_avx2,
#endif
                                                                   NULL};

START_TEST(depthwise) {
  EACH_EDGE
  for (size_t at = 0; at < N_CASES; at++) {
    const struct window *w = &windows[at / N_CHANNELS];
    struct conv_shape s = shape_of(w, channels[at % N_CHANNELS], channels[at % N_CHANNELS]);
    for (size_t i = 0; depthwise_kernels[i]; i++) {
      GUARDED_TRY("depthwise %zu, window %zu, %zu channels", i, at / N_CHANNELS, s.c_in);
      if (runs(&depthwise_kernels[i]->needs))
        try_depthwise(&g, depthwise_kernels[i], &s, w->n);
    }
  }
}
END_TEST

static const struct pool_kernel *const pool_kernels[] = {&pool_lanes,
#if defined __x86_64__
                                                         &pool_avx2,
#endif
                                                         NULL};

static void try_pool(struct guarded *g, const struct pool_kernel *k, const struct pool_shape *s, size_t n) {
  size_t n_x = n * s->height * s->width * s->channels, n_y = n * s->out_height * s->out_width * s->channels;
  const float *x = guarded_floats(g, n_x, 0.5f), *dy = guarded_floats(g, n_y, 0.5f);
  float *y = guarded_floats(g, n_y, 0), *which = guarded_floats(g, n_y, 0), *dx = guarded_floats(g, n_x, 0);
  k->largest(s, n, x, y, which);
  k->largest_back(s, n, dy, which, dx);
  k->mean(s, n, x, y);
  k->mean_back(s, n, dy, dx);
  g->n = 0;
}

START_TEST(pool) {
  EACH_EDGE
  for (size_t at = 0; at < N_CASES; at++) {
    struct window w = windows[at / N_CHANNELS];
    w.pad_height = w.pad_width = 0;
    struct conv_shape s = shape_of(&w, channels[at % N_CHANNELS], channels[at % N_CHANNELS]);
    const struct pool_shape pool_shape = {s.height,       s.width,  s.c_in,       s.kernel_height,
                                          s.kernel_width, s.stride, s.out_height, s.out_width};
    for (size_t i = 0; pool_kernels[i]; i++) {
      GUARDED_TRY("pool %zu, window %zu, %zu channels", i, at / N_CHANNELS, s.c_in);
      if (runs(&pool_kernels[i]->needs))
        try_pool(&g, pool_kernels[i], &pool_shape, w.n);
    }
  }
}
END_TEST

/* ---- products; the last row of x and y has no gap behind it */

static void try_gemm(struct guarded *g, const struct gemm *k, const struct gemm_shape *s) {
  size_t n_w = s->n_in * s->n_out, n_packed = gemm_packed(s->n_out, s->n_in), n_padded = gemm_padded(s->n_out);
  size_t n_x = (s->n - 1) * s->x_stride + s->n_in, n_y = (s->n - 1) * s->y_stride + s->n_out;
  float *w = guarded_floats(g, n_w, 0.5f), *packed = guarded_floats(g, n_packed, 0);
  float *x = guarded_floats(g, n_x, 0.5f), *y = guarded_floats(g, n_y, 0.5f);
  const float *bias = guarded_floats(g, n_padded, 0.5f), *dy = guarded_floats(g, n_y, 0.5f);
  struct gemm_delta delta = {guarded_floats(g, s->n * n_padded, 0), guarded_floats(g, n_padded * gemm_padded(s->n), 0)};
  float *room = guarded_floats(g, s->n_in * GEMM_ROOM, 0);
  struct gemm_update weights = {guarded_floats(g, n_packed, 0.5f), 0.9f, packed, 0.1f, 0.01f},
                     biases = {guarded_floats(g, n_padded, 0.5f), 0.9f, guarded_floats(g, n_padded, 0.5f), 0.1f, 0.01f};
  gemm_pack(s->n_out, s->n_in, w, packed);
  k->forward(s, x, packed, bias, true, y);
  gemm_prepare(s, dy, y, &delta);
  k->back_inputs(s, &delta, packed, room, x);
  k->back_weights(s, &delta, x, &weights);
  k->back_bias(s, &delta, &biases);
  weights.w = NULL;
  k->back_weights(s, &delta, x, &weights);
  gemm_unpack(s->n_out, s->n_in, packed, w);
  g->n = 0;
}

/* Few outputs; dy has no gaps. */
static void try_few(struct guarded *g, const struct gemm *k, const struct gemm_shape *s) {
  size_t n_w = s->n_in * s->n_out, n_x = (s->n - 1) * s->x_stride + s->n_in, n_y = (s->n - 1) * s->y_stride + s->n_out;
  float *w = guarded_floats(g, n_w, 0.5f), *x = guarded_floats(g, n_x, 0.5f), *dx = guarded_floats(g, n_x, 0);
  const float *bias = guarded_floats(g, s->n_out, 0.5f), *dy = guarded_floats(g, s->n * s->n_out, 0.5f);
  struct gemm_update update = {guarded_floats(g, n_w, 0.5f), 0.9f, w, 0.1f, 0.01f};
  k->few_forward(s, x, w, bias, true, guarded_floats(g, s->n * s->n_out * GEMM_PANEL, 0), guarded_floats(g, n_y, 0));
  k->few_backward(s, dy, x, w, &update, false, dx);
  k->few_backward(s, dy, x, w, &update, true, x);
  update.w = NULL;
  k->few_backward(s, dy, x, w, &update, false, NULL);
  g->n = 0;
}

START_TEST(gemm) {
  static const size_t lengths[] = {1, 2, 3, 5, 7, 13, 15, 16, 17, 31, 33, 48, 49};
  enum { N = sizeof lengths / sizeof *lengths, N_PAIRS = N * N, N_SHAPES = N * N_PAIRS };
  EACH_EDGE
  for (size_t at = 0; at < N_SHAPES; at += sized(11, 1, 1)) {
    size_t n = lengths[at / N_PAIRS], n_in = lengths[at / N % N], n_out = lengths[at % N], gap = at % 3;
    const struct gemm_shape s = {n, n_in, n_out, n_in + gap, n_out + gap};
    const struct gemm *k;
    for (size_t i = 0; (k = gemm_kernel(i)); i++) {
      GUARDED_TRY("gemm %s, %zu × %zu → %zu", k->name, n, n_in, n_out);
      if (runs(&k->needs))
        try_gemm(&g, k, &s);
      if (runs(&k->needs) && n_in % GEMM_PANEL == 0)
        try_few(&g, k, &s);
    }
  }
}
END_TEST

/* ---- rows of values, of every length up to a few vectors and one that has tiles */

enum { LONGEST = 132, TILED = 2 * DISTANCE_TILE + 37, MOST_ARRAYS = ORDER_NETWORK_MAX + 1 };

static size_t next_length(size_t n) {
  return n < LONGEST ? n + sized(3, 1, 1) : n < TILED ? TILED : TILED + 1;
}

/* `arrays` of n values each. */
static void arrays_of(struct guarded *g, size_t arrays, size_t n, const float *out_x[MOST_ARRAYS]) {
  for (size_t i = 0; i < arrays; i++)
    out_x[i] = guarded_floats(g, n, (float)(i * 7 % 5));
}

START_TEST(order) {
  size_t n_kernels;
  const struct order_kernel *k = order_kernels(&n_kernels);
  EACH_EDGE
  for (size_t n = 0; n <= TILED; n = next_length(n))
    for (size_t i = 0; i < n_kernels; i++)
      for (size_t arrays = 1; arrays <= MOST_ARRAYS && runs(&k[i].needs); arrays += 1 + arrays / 6) {
        GUARDED_TRY("order %s, %zu × %zu", k[i].name, arrays, n);
        const float *x[MOST_ARRAYS];
        arrays_of(&g, arrays, n, x);
        float *out = guarded_floats(&g, n, 0);
        k[i].median(x, arrays, n, out);
        k[i].trimmed(x, arrays, n, (arrays - 1) / 2, out);
        g.n = 0;
      }
}
END_TEST

START_TEST(mean) {
  size_t n_kernels;
  const struct mean_kernel *k = mean_kernels(&n_kernels);
  EACH_EDGE
  for (size_t n = 0; n <= TILED; n = next_length(n))
    for (size_t i = 0; i < n_kernels; i++) {
      GUARDED_TRY("mean %s, %zu", k[i].name, n);
      const float *x[MOST_ARRAYS];
      arrays_of(&g, 4, n, x);
      const struct mean_term terms[] = {{x[2], 0.5}, {x[3], 0.25}};
      ck_assert(!runs(&k[i].needs) || k[i].sum(x[0], x[1], terms, 2, n, guarded_floats(&g, n, 0)));
      g.n = 0;
    }
}
END_TEST

START_TEST(distance) {
  size_t n_kernels;
  const struct distance_kernel *k = distance_kernels(&n_kernels);
  EACH_EDGE
  for (size_t n = 0; n <= TILED; n = next_length(n))
    for (size_t i = 0; i < n_kernels; i++) {
      GUARDED_TRY("distance %s, %zu", k[i].name, n);
      const float *x[MOST_ARRAYS];
      arrays_of(&g, 3, n, x);
      if (runs(&k[i].needs))
        distance_pairs(&k[i], x, 3, n, guarded_bytes(&g, 9 * sizeof(double)));
      g.n = 0;
    }
}
END_TEST

START_TEST(half) {
  size_t n_kernels;
  const struct half_kernel *k = half_kernels(&n_kernels);
  EACH_EDGE
  for (size_t n = 0; n <= TILED; n = next_length(n))
    for (size_t i = 0; i < n_kernels; i++) {
      GUARDED_TRY("half %s, %zu", k[i].name, n);
      float *x = guarded_floats(&g, n, 0.5f);
      uint16_t *halves = guarded_bytes(&g, n * sizeof *halves);
      if (runs(&k[i].needs)) {
        k[i].from_floats(x, n, halves);
        k[i].to_floats(halves, n, x);
      }
      g.n = 0;
    }
}
END_TEST

START_TEST(quantise) {
  size_t n_kernels;
  const struct quantise_kernel *k = quantise_kernels(&n_kernels);
  EACH_EDGE
  for (size_t n = 0; n <= QUANTISE_BLOCK; n += sized(5, 1, 1))
    for (size_t i = 0; i < n_kernels; i++) {
      GUARDED_TRY("quantise %s, %zu", k[i].name, n);
      float *x = guarded_floats(&g, n, 0.5f);
      int8_t *q = guarded_bytes(&g, n);
      if (runs(&k[i].needs))
        k[i].restore(q, n, k[i].quantise(x, n, 127, 1, 2, q), x);
      g.n = 0;
    }
}
END_TEST

/* All are found, and none. */
START_TEST(select_the_largest) {
  size_t n_kernels;
  const struct select_kernel *k = select_kernels(&n_kernels);
  EACH_EDGE
  for (size_t n = 0; n <= SELECT_BLOCK; n += n < LONGEST ? sized(3, 1, 1) : 19)
    for (size_t i = 0; i < n_kernels; i++) {
      GUARDED_TRY("select %s, %zu", k[i].name, n);
      const float *x = guarded_floats(&g, n, 0.5f);
      uint16_t *places = guarded_bytes(&g, (n + 1) * sizeof *places);
      if (runs(&k[i].needs)) {
        ck_assert_uint_eq(k[i].find(x, n, 1, places), n);
        ck_assert_uint_eq(k[i].find(x, n, select_bits(1.0f), places), 0);
      }
      g.n = 0;
    }
}
END_TEST

START_TEST(standardise) {
  size_t n_kernels;
  const struct standardise *k = standardise_kernels(&n_kernels);
  EACH_EDGE
  for (size_t n = 0; n <= TILED; n = next_length(n))
    for (size_t i = 0; i < n_kernels; i++) {
      GUARDED_TRY("standardise %s, %zu", k[i].name, n);
      const uint8_t *bytes = guarded_bytes(&g, n);
      const double *shift = guarded_bytes(&g, n * sizeof *shift), *gain = guarded_bytes(&g, n * sizeof *gain);
      if (runs(&k[i].needs))
        k[i].bytes(bytes, n, shift, gain, guarded_floats(&g, n, 0));
      g.n = 0;
    }
}
END_TEST

/* The test itself: a float beside an array is a fault, on either side. */
START_TEST(beside_is_a_fault) {
  EACH_EDGE {
    volatile float *x = guarded_floats(&g, 3, 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
      GUARDED_TRY("a write behind three floats, on purpose,");
      x[g.at_start ? -1 : 3] = 1;
      _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    g.n = 0;
  }
}
END_TEST

int main(void) {
  return SUITE_RUN("models/kernels, bounds", conv, depthwise, pool, gemm, order, mean, distance, half, quantise,
                   select_the_largest, standardise, beside_is_a_fault);
}
