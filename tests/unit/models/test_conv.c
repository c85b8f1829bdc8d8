/* Every way of computing a convolution against the naive twin, over shapes that have every kind of remainder. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "models/kernels/conv.h"
#include "models/kernels/pool.h"
#include "tests/ref/conv_twin.h"
#include "tests/size.h"
#include "tests/unit/suite.h"

/* Exactly n floats, so that sanitisers see what is read or written beside them. */
static float *floats(size_t n) {
  float *x = malloc((n ? n : 1) * sizeof *x);
  ck_assert_ptr_nonnull(x);
  return x;
}

static double *doubles(size_t n) {
  double *x = malloc(n * sizeof *x);
  ck_assert_ptr_nonnull(x);
  return x;
}

static float *random_floats(struct rng *rng, size_t n) {
  float *x = floats(n);
  for (size_t i = 0; i < n; i++)
    x[i] = (float)(2 * rng_unit(rng) - 1);
  return x;
}

static struct conv_shape shape_of(size_t height, size_t width, size_t c_in, size_t kernel_height, size_t kernel_width,
                                  size_t stride, size_t pad_height, size_t pad_width, size_t c_out) {
  return (struct conv_shape){.height = height,
                             .width = width,
                             .c_in = c_in,
                             .kernel_height = kernel_height,
                             .kernel_width = kernel_width,
                             .stride = stride,
                             .pad_height = pad_height,
                             .pad_width = pad_width,
                             .out_height = (height + 2 * pad_height - kernel_height) / stride + 1,
                             .out_width = (width + 2 * pad_width - kernel_width) / stride + 1,
                             .c_out = c_out};
}

/* To 1e-4 of a value's size, or of the usual size of the others where it is smaller. */
static void assert_close(const struct conv_kernel *k, const struct conv_shape *s, size_t n_samples, const char *what,
                         const float *x, const double *twin, size_t n) {
  double squares = 0;
  for (size_t i = 0; i < n; i++)
    squares += twin[i] * twin[i];
  double usual = sqrt(squares / (double)n);
  for (size_t i = 0; i < n; i++)
    if (!(fabs(x[i] - twin[i]) <= 1e-4 * fmax(fabs(twin[i]), usual)))
      ck_abort_msg("%s of %s, %zu × %zux%zux%zu, kernel %zux%zux%zu, stride %zu, pad %zu %zu: [%zu] is %g, not %g",
                   what, k->name, n_samples, s->height, s->width, s->c_in, s->kernel_height, s->kernel_width, s->c_out,
                   s->stride, s->pad_height, s->pad_width, i, (double)x[i], twin[i]);
}

/* One batch and what the twin says of it. */
struct sample {
  const struct conv_shape *s;
  size_t n, n_x, n_w, n_y;
  bool relu;
  float *x, *w, *dy, *old_g;
  double *y, *dz, *g, *dx; /* the last two are of dz once it is known */
  bool has_gradient;
};

static size_t own_size(const struct conv_kernel *k, const struct sample *t) {
  return k->weights ? k->weights(t->s) : t->n_w;
}

static float *own_of(const struct conv_kernel *k, const struct sample *t, const float *w) {
  float *own = floats(own_size(k, t));
  if (k->load)
    k->load(t->s, w, own);
  else
    memcpy(own, w, t->n_w * sizeof *w);
  return own;
}

static float *back_from(const struct conv_kernel *k, const struct sample *t, const float *own) {
  float *w = floats(t->n_w);
  if (k->store)
    k->store(t->s, own, w);
  else
    memcpy(w, own, t->n_w * sizeof *w);
  return w;
}

static size_t nonzero(const float *x, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++)
    count += x[i] != 0;
  return count;
}

/* ∂L/∂x in the place of x, 0 where that was not positive; the gradient of the weights is as if it had been elsewhere. */
static void check_gated(const struct conv_kernel *k, const struct sample *t, const struct conv_batch *apart) {
  float *x = floats(t->n_x), *g = floats(own_size(k, t));
  double *dx = doubles(t->n_x);
  memcpy(x, t->x, t->n_x * sizeof *x);
  for (size_t i = 0; i < t->n_x; i++)
    dx[i] = x[i] > 0 ? t->dx[i] : 0;
  struct conv_batch b = *apart;
  b.x = x;
  k->backward(t->s, &b, &(struct conv_gradient){.dy = t->dy, .dx = x, .gated = true, .g = g});
  float *g_back = back_from(k, t, g);
  assert_close(k, t->s, t->n, "gated gradient of the inputs", x, dx, t->n_x);
  assert_close(k, t->s, t->n, "gradient of the weights, gated", g_back, t->g, t->n_w);
  free(x), free(g), free(dx), free(g_back);
}

static void check_kernel(const struct conv_kernel *k, struct sample *t) {
  size_t n_own = own_size(k, t), n_scratch = k->scratch ? k->scratch(t->s, t->n) : 0;
  float *own = own_of(k, t, t->w), *same = back_from(k, t, own);
  ck_assert_mem_eq(same, t->w, t->n_w * sizeof *same);
  float *scratch = floats(n_scratch), *y = floats(t->n_y), *dx = floats(t->n_x);
  memset(scratch, 0xff, n_scratch * sizeof *scratch); /* NaN: nothing may be taken from it */
  memset(y, 0xff, t->n_y * sizeof *y);
  memset(dx, 0xff, t->n_x * sizeof *dx);
  struct conv_batch b = {.n = t->n, .x = t->x, .w = own, .relu = t->relu, .scratch = scratch, .y = y};
  k->forward(t->s, &b);
  assert_close(k, t->s, t->n, "output", y, t->y, t->n_y);

  /* where y is, not where the twin says: a value next to 0 may be on either side */
  for (size_t i = 0; i < t->n_y; i++) {
    double dz = !t->relu || y[i] > 0 ? t->dy[i] : 0;
    t->has_gradient = t->has_gradient && t->dz[i] == dz;
    t->dz[i] = dz;
  }
  if (!t->has_gradient)
    conv_twin_backward(t->s, t->n, t->x, t->w, t->dz, t->g, t->dx);
  t->has_gradient = true;
  double *added = doubles(t->n_w);
  for (size_t i = 0; i < t->n_w; i++)
    added[i] = t->g[i] + 0.5 * t->old_g[i];
  float *g = own_of(k, t, t->old_g);
  memset(scratch, 0xff, n_scratch * sizeof *scratch);
  k->backward(t->s, &b, &(struct conv_gradient){.dy = t->dy, .dx = dx, .momentum = 0.5f, .g = g});
  float *g_back = back_from(k, t, g);
  assert_close(k, t->s, t->n, "gradient of the inputs", dx, t->dx, t->n_x);
  assert_close(k, t->s, t->n, "gradient of the weights", g_back, added, t->n_w);
  ck_assert_uint_eq(nonzero(g, n_own), nonzero(g_back, t->n_w)); /* padding stays zero */

  /* without dx, and with β = 0: what g was does not matter */
  memset(g, 0xff, n_own * sizeof *g);
  memset(scratch, 0xff, n_scratch * sizeof *scratch);
  k->backward(t->s, &b, &(struct conv_gradient){.dy = t->dy, .momentum = 0, .g = g});
  float *g_new = back_from(k, t, g);
  assert_close(k, t->s, t->n, "gradient of the weights alone", g_new, t->g, t->n_w);
  if (k->gates)
    check_gated(k, t, &b);
  free(own), free(same), free(scratch), free(y), free(dx), free(g), free(g_back), free(g_new), free(added);
}

/* A pool of 2×2 behind it, done by the kernel or after it. */
static void check_pooled(const struct conv_kernel *k, const struct sample *t) {
  const struct conv_shape *s = t->s;
  const struct pool_shape pool = {.height = s->out_height,
                                  .width = s->out_width,
                                  .channels = s->c_out,
                                  .window_height = 2,
                                  .window_width = 2,
                                  .stride = 2,
                                  .out_height = s->out_height / 2,
                                  .out_width = s->out_width / 2};
  size_t n_own = own_size(k, t), n_scratch = k->scratch(s, t->n),
         n_pooled = t->n * (s->out_height / 2) * (s->out_width / 2) * s->c_out;
  float *own = own_of(k, t, t->w), *scratch = floats(n_scratch), *y = floats(t->n_y), *dy = floats(t->n_y);
  float *apart_y = floats(n_pooled), *apart_which = floats(n_pooled), *apart_dx = floats(t->n_x),
        *apart_g = floats(n_own);
  float *pooled_y = floats(n_pooled), *pooled_which = floats(n_pooled), *dx = floats(t->n_x), *g = floats(n_own);
  memset(scratch, 0xff, n_scratch * sizeof *scratch);
  struct conv_batch apart = {.n = t->n, .x = t->x, .w = own, .relu = t->relu, .scratch = scratch, .y = y};
  k->forward(s, &apart);
  pool_lanes.largest(&pool, t->n, y, apart_y, apart_which);
  pool_lanes.largest_back(&pool, t->n, t->dy, apart_which, dy);
  k->backward(s, &apart, &(struct conv_gradient){.dy = dy, .dx = apart_dx, .g = apart_g});
  memset(scratch, 0xff, n_scratch * sizeof *scratch);
  struct conv_batch pooled = {
      .n = t->n, .x = t->x, .w = own, .relu = t->relu, .which = pooled_which, .scratch = scratch, .y = pooled_y};
  k->forward(s, &pooled);
  k->backward(s, &pooled, &(struct conv_gradient){.dy = t->dy, .dx = dx, .g = g});
  ck_assert_mem_eq(pooled_y, apart_y, n_pooled * sizeof *y);
  ck_assert_mem_eq(pooled_which, apart_which, n_pooled * sizeof *y);
  for (size_t i = 0; i < t->n_x; i++)
    ck_assert_msg(dx[i] == apart_dx[i], "%s: dx[%zu] is %g, not %g", k->name, i, (double)dx[i], (double)apart_dx[i]);
  for (size_t i = 0; i < n_own; i++)
    ck_assert_msg(g[i] == apart_g[i], "%s: g[%zu] is %g, not %g", k->name, i, (double)g[i], (double)apart_g[i]);
  float *arrays[] = {own, scratch, y, dy, apart_y, apart_which, apart_dx, apart_g, pooled_y, pooled_which, dx, g};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    free(arrays[i]);
}

static void check_shape(const struct conv_shape *s, size_t n, bool relu) {
  struct rng rng;
  rng_init(&rng, s->c_in * 1000 + s->c_out);
  struct cpu cpu = cpu_detect();
  struct sample t = {.s = s,
                     .n = n,
                     .n_x = n * s->height * s->width * s->c_in,
                     .n_w = (conv_taps(s) + 1) * s->c_out,
                     .n_y = n * conv_sites(s) * s->c_out,
                     .relu = relu};
  t.x = random_floats(&rng, t.n_x), t.w = random_floats(&rng, t.n_w), t.dy = random_floats(&rng, t.n_y);
  t.old_g = random_floats(&rng, t.n_w);
  t.y = doubles(t.n_y), t.dz = doubles(t.n_y), t.g = doubles(t.n_w), t.dx = doubles(t.n_x);
  conv_twin_forward(s, n, t.x, t.w, relu, t.y);
  size_t n_kernels;
  const struct conv_kernel *const *kernels = conv_kernels(&n_kernels);
  for (size_t i = 0; i < n_kernels; i++)
    if ((!kernels[i]->fits || kernels[i]->fits(s)) && cpu_has(&cpu, &kernels[i]->needs)) {
      check_kernel(kernels[i], &t);
      if (kernels[i]->pools && s->out_height >= 2 && s->out_width >= 2)
        check_pooled(kernels[i], &t);
    }
  free(t.x), free(t.w), free(t.dy), free(t.old_g), free(t.y), free(t.dz), free(t.g), free(t.dx);
}

/* Pairs of channels, with and without relu in turn; those of many are left to the first test of all. */
static void check_channels(size_t n, size_t height, size_t width, size_t kernel_height, size_t kernel_width,
                           size_t stride, size_t pad_height, size_t pad_width) {
  static const size_t channels[] = {1, 3, 8, 9, 16, 17, 33, 64};
  enum { N = sizeof channels / sizeof *channels, N_PAIRS = N * N };
  for (size_t i = 0; i < N_PAIRS; i += sized(9, 1, 1)) {
    if (channels[i / N] * channels[i % N] > 600 && pad_height * stride != 1)
      continue;
    struct conv_shape s = shape_of(height, width, channels[i / N], kernel_height, kernel_width, stride, pad_height,
                                   pad_width, channels[i % N]);
    check_shape(&s, n, i % 2);
  }
}

START_TEST(three_by_three_with_a_border) {
  check_channels(3, 7, 6, 3, 3, 1, 1, 1);
}
END_TEST

START_TEST(three_by_three_without) {
  check_channels(2, 6, 7, 3, 3, 1, 0, 0);
}
END_TEST

START_TEST(three_by_three_with_a_wide_border) {
  check_channels(1, 3, 4, 3, 3, 1, 2, 2);
}
END_TEST

START_TEST(five_by_five) {
  check_channels(2, 8, 7, 5, 5, 1, 0, 0);
}
END_TEST

START_TEST(two_steps_at_a_time) {
  check_channels(3, 8, 7, 3, 3, 2, 1, 1);
}
END_TEST

START_TEST(more_steps_than_taps) {
  check_channels(2, 8, 7, 2, 1, 3, 0, 0);
}
END_TEST

START_TEST(uneven_sides) {
  check_channels(2, 5, 9, 2, 4, 2, 1, 3);
}
END_TEST

START_TEST(one_by_one) {
  check_channels(3, 4, 5, 1, 1, 1, 0, 0);
}
END_TEST

START_TEST(series) {
  check_channels(3, 1, 19, 1, 5, 1, 0, 2);
  check_channels(2, 1, 19, 1, 3, 2, 0, 0);
}
END_TEST

START_TEST(batches_of_every_size) {
  for (size_t n = 1; n <= 35; n += n < 9 ? sized(4, 1, 1) : 13) {
    struct conv_shape first = shape_of(12, 12, 1, 5, 5, 1, 0, 0, 8), second = shape_of(6, 6, 8, 3, 3, 1, 1, 1, 16);
    check_shape(&first, n, true);
    check_shape(&second, n, false);
  }
}
END_TEST

/* Every way of a border, of what is left of a tile of outputs, and of tiles of several series. */
START_TEST(series_with_three_taps) {
  static const size_t channels[][2] = {{16, 16}, {16, 64}, {48, 16}, {64, 48}};
  for (size_t i = 0; i < sizeof channels / sizeof *channels; i++)
    for (size_t pad = 0; pad <= 2; pad++)
      for (size_t steps = 3; steps <= 70; steps += steps < 10 ? sized(3, 1, 1) : 59) {
        struct conv_shape s = shape_of(1, steps, channels[i][0], 1, 3, 1, 0, pad, channels[i][1]);
        check_shape(&s, 1 + steps % 6, pad != 1);
      }
}
END_TEST

/* A sample of 66 000 values: fewer samples are worked on together. */
START_TEST(large_samples) {
  struct conv_shape s = shape_of(64, 128, 8, 3, 3, 1, 1, 1, 8);
  check_shape(&s, least_or(1, sized(2, 5, 5)), true);
}
END_TEST

static void check_nan(const struct conv_shape *s) {
  struct cpu cpu = cpu_detect();
  struct sample t = {.s = s, .n_w = (conv_taps(s) + 1) * s->c_out};
  size_t n_kernels, n_x = s->height * s->width * s->c_in, n_y = conv_sites(s) * s->c_out;
  float *x = calloc(n_x, sizeof *x), *w = calloc(t.n_w, sizeof *w), *y = floats(n_y);
  ck_assert(x && w);
  x[0] = NAN;
  const struct conv_kernel *const *kernels = conv_kernels(&n_kernels);
  for (size_t i = 0; i < n_kernels; i++) {
    const struct conv_kernel *k = kernels[i];
    if ((k->fits && !k->fits(s)) || !cpu_has(&cpu, &k->needs))
      continue;
    float *own = own_of(k, &t, w), *scratch = floats(k->scratch(s, 1));
    memset(y, 0, n_y * sizeof *y);
    k->forward(s, &(struct conv_batch){.n = 1, .x = x, .w = own, .relu = true, .scratch = scratch, .y = y});
    ck_assert_msg(isnan(y[0]) && isnan(y[s->c_out - 1]), "%s", k->name);
    free(own), free(scratch);
  }
  free(x), free(w), free(y);
}

START_TEST(nan_passes_relu) {
  struct conv_shape image = shape_of(4, 4, 2, 3, 3, 1, 1, 1, 3), of_series = shape_of(1, 8, 16, 1, 3, 1, 0, 1, 16);
  check_nan(&image);
  check_nan(&of_series);
}
END_TEST

int main(void) {
  return SUITE_RUN("models/conv", three_by_three_with_a_border, three_by_three_without,
                   three_by_three_with_a_wide_border, five_by_five, two_steps_at_a_time, more_steps_than_taps,
                   uneven_sides, one_by_one, series, batches_of_every_size, series_with_three_taps, large_samples,
                   nan_passes_relu);
}
