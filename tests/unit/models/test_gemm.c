/* Every gemm kernel that this CPU has, against the twin, over a sweep of shapes. Values are uniform in ±1, so a sum of n
 * products is about √n, and errors are measured against that. */
#include "models/kernels/gemm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/ref/gemm_twin.h"
#include "tests/unit/suite.h"

#define TOLERANCE 1e-5

/* n, n_in, n_out: rows of every tile, one panel and two, tails of each. */
static const size_t shapes[][3] = {
    {1, 1, 1},     {2, 1, 3},    {3, 5, 7},    {4, 2, 16},   {5, 17, 15},   {6, 13, 17},  {7, 31, 10},
    {8, 3, 32},    {9, 9, 33},   {10, 11, 31}, {11, 63, 48}, {12, 23, 49},  {13, 37, 47}, {14, 14, 64},
    {15, 16, 65},  {16, 29, 16}, {17, 43, 5},  {23, 61, 1},  {29, 7, 70},   {31, 69, 33}, {32, 784, 128},
    {32, 128, 10}, {33, 64, 64}, {41, 25, 9},  {48, 32, 32}, {65, 70, 12},  {70, 69, 67}, {1, 512, 512},
    {1, 16, 1},    {3, 48, 10},  {5, 1040, 3}, {17, 80, 16}, {32, 528, 10},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static float *values(size_t n, struct rng *rng) {
  float *x = malloc((n + 1) * sizeof *x);
  ck_assert_ptr_nonnull(x);
  for (size_t i = 0; i < n; i++)
    x[i] = (float)(2 * rng_unit(rng) - 1);
  return x;
}

static double *doubles(const float *x, size_t n) {
  double *d = calloc(n + 1, sizeof *d);
  ck_assert_ptr_nonnull(d);
  for (size_t i = 0; x && i < n; i++)
    d[i] = (double)x[i];
  return d;
}

/* One problem; what is packed has its padding in place. */
struct problem {
  struct gemm_shape s;
  size_t n_w, n_packed, n_x, n_y, n_padded;
  float *x, *w, *g, *bias, *packed, *dy, *y;
};

static void problem_init(struct problem *p, const size_t shape[3], size_t gap, struct rng *rng) {
  p->s = (struct gemm_shape){shape[0], shape[1], shape[2], shape[1] + gap, shape[2] + gap};
  p->n_w = p->s.n_in * p->s.n_out;
  p->n_packed = gemm_packed(p->s.n_out, p->s.n_in);
  p->n_padded = gemm_padded(p->s.n_out);
  p->n_x = p->s.n * p->s.x_stride;
  p->n_y = p->s.n * p->s.y_stride;
  p->x = values(p->n_x, rng);
  p->w = values(p->n_w, rng);
  p->g = values(p->n_w, rng);
  p->bias = values(p->n_padded, rng);
  p->packed = values(p->n_packed, rng);
  p->dy = values(p->n_y, rng);
  p->y = values(p->n_y, rng);
  gemm_pack(p->s.n_out, p->s.n_in, p->w, p->packed);
}

static void problem_done(struct problem *p) {
  float *arrays[] = {p->x, p->w, p->g, p->bias, p->packed, p->dy, p->y};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    free(arrays[i]);
}

/* Rows of `used` values at a stride are near the twin's; what lies between the rows is as it was. */
static void check_rows(const char *what, const struct gemm *k, const struct gemm_shape *s, const float *got,
                       const double *want, size_t stride, size_t used, double scale) {
  for (size_t i = 0; i < s->n * stride; i++) {
    double error = fabs((double)got[i] - want[i]);
    if (!(error <= (i % stride < used ? TOLERANCE * scale : 0)))
      ck_abort_msg("%s %s %zux%zux%zu [%zu][%zu]: off by %g", k->name, what, s->n, s->n_in, s->n_out, i / stride,
                   i % stride, error);
  }
}

static void check_forward(const struct problem *p, const struct gemm *k, bool relu) {
  float *y = malloc(p->n_y * sizeof *y);
  ck_assert_ptr_nonnull(y);
  memcpy(y, p->y, p->n_y * sizeof *y);
  double *want = doubles(p->y, p->n_y);
  k->forward(&p->s, p->x, p->packed, p->bias, relu, y);
  gemm_twin_forward(&p->s, p->x, p->w, p->bias, relu, want);
  check_rows(relu ? "forward+relu" : "forward", k, &p->s, y, want, p->s.y_stride, p->s.n_out,
             sqrt((double)p->s.n_in) + 1);
  free(y);
  free(want);
}

static struct gemm_delta delta_new(const struct problem *p, bool masked) {
  size_t n_batch = gemm_padded(p->s.n);
  struct gemm_delta d = {malloc(p->s.n * p->n_padded * sizeof(float)), malloc(p->n_padded * n_batch * sizeof(float))};
  ck_assert(d.panels && d.columns);
  memset(d.panels, 0xff, p->s.n * p->n_padded * sizeof(float));
  memset(d.columns, 0xff, p->n_padded * n_batch * sizeof(float));
  gemm_prepare(&p->s, p->dy, masked ? p->y : NULL, &d);
  return d;
}

static void delta_done(struct gemm_delta *d) {
  free(d->panels);
  free(d->columns);
}

static void check_back_inputs(const struct problem *p, const struct gemm *k, bool masked) {
  struct gemm_delta d = delta_new(p, masked);
  float *dx = malloc(p->n_x * sizeof *dx), *room = malloc(p->s.n_in * GEMM_ROOM * sizeof *room);
  ck_assert(dx && room);
  memcpy(dx, p->x, p->n_x * sizeof *dx);
  double *want = doubles(p->x, p->n_x);
  k->back_inputs(&p->s, &d, p->packed, room, dx);
  gemm_twin_back_inputs(&p->s, p->dy, masked ? p->y : NULL, p->w, want);
  check_rows("back_inputs", k, &p->s, dx, want, p->s.x_stride, p->s.n_in, sqrt((double)p->s.n_out) + 1);
  free(dx);
  free(room);
  free(want);
  delta_done(&d);
}

static void check_packed(const char *what, const struct problem *p, const struct gemm *k, const float *packed,
                         const double *want) {
  float *got = malloc(p->n_w * sizeof *got), *again = malloc(p->n_packed * sizeof *again);
  ck_assert(got && again);
  gemm_unpack(p->s.n_out, p->s.n_in, packed, got);
  for (size_t i = 0; i < p->n_w; i++) {
    double error = fabs((double)got[i] - want[i]);
    if (!(error <= TOLERANCE * (sqrt((double)p->s.n) + 1)))
      ck_abort_msg("%s %s %zux%zux%zu [%zu]: off by %g", k->name, what, p->s.n, p->s.n_in, p->s.n_out, i, error);
  }
  gemm_pack(p->s.n_out, p->s.n_in, got, again);
  ck_assert_msg(memcmp(again, packed, p->n_packed * sizeof *again) == 0, "%s %s: padding is not zero", k->name, what);
  free(got);
  free(again);
}

static void check_back_weights(const struct problem *p, const struct gemm *k, bool masked,
                               const struct gemm_update *rule, bool folded) {
  struct gemm_delta d = delta_new(p, masked);
  float *g = malloc(p->n_packed * sizeof *g), *w = malloc(p->n_packed * sizeof *w);
  ck_assert(g && w);
  gemm_pack(p->s.n_out, p->s.n_in, p->g, g);
  memcpy(w, p->packed, p->n_packed * sizeof *w);
  double *want_g = doubles(p->g, p->n_w), *want_w = doubles(p->w, p->n_w);
  struct gemm_update update = *rule;
  update.g = g;
  update.w = folded ? w : NULL;
  k->back_weights(&p->s, &d, p->x, &update);
  gemm_twin_back_weights(&p->s, p->dy, masked ? p->y : NULL, p->x, rule, want_g, folded ? want_w : NULL);
  check_packed("back_weights g", p, k, g, want_g);
  check_packed("back_weights w", p, k, w, want_w);
  free(g);
  free(w);
  free(want_g);
  free(want_w);
  delta_done(&d);
}

/* The bias is the weight of an input that is always one. */
static void check_back_bias(const struct problem *p, const struct gemm *k, const struct gemm_update *rule) {
  struct gemm_delta d = delta_new(p, true);
  struct gemm_shape ones = {p->s.n, 1, p->s.n_out, 1, p->s.y_stride};
  float *one = malloc(p->s.n * sizeof *one), *g = calloc(p->n_padded, sizeof *g), *w = calloc(p->n_padded, sizeof *w);
  ck_assert(one && g && w);
  for (size_t i = 0; i < p->s.n; i++)
    one[i] = 1;
  memcpy(g, p->g, p->s.n_out * sizeof *g);
  memcpy(w, p->w, p->s.n_out * sizeof *w);
  double *want_g = doubles(g, p->n_padded), *want_w = doubles(w, p->n_padded);
  struct gemm_update update = *rule;
  update.g = g;
  update.w = w;
  k->back_bias(&p->s, &d, &update);
  gemm_twin_back_weights(&ones, p->dy, p->y, one, rule, want_g, want_w);
  for (size_t o = 0; o < p->n_padded; o++)
    ck_assert_msg(fabs((double)g[o] - want_g[o]) + fabs((double)w[o] - want_w[o]) <=
                      (o < p->s.n_out ? TOLERANCE * (double)p->s.n : 0),
                  "%s back_bias %zu of %zu", k->name, o, p->s.n_out);
  free(one);
  free(g);
  free(w);
  free(want_g);
  free(want_w);
  delta_done(&d);
}

/* Of few outputs, whose weights stay as they are. */
static void check_few_forward(const struct problem *p, const struct gemm *k, bool relu) {
  float *y = malloc(p->n_y * sizeof *y), *room = malloc(p->s.n * p->s.n_out * GEMM_PANEL * sizeof *room);
  ck_assert(y && room);
  memcpy(y, p->y, p->n_y * sizeof *y);
  memset(room, 0xff, p->s.n * p->s.n_out * GEMM_PANEL * sizeof *room);
  double *want = doubles(p->y, p->n_y);
  k->few_forward(&p->s, p->x, p->w, p->bias, relu, room, y);
  gemm_twin_forward(&p->s, p->x, p->w, p->bias, relu, want);
  check_rows(relu ? "few_forward+relu" : "few_forward", k, &p->s, y, want, p->s.y_stride, p->s.n_out,
             sqrt((double)p->s.n_in) + 1);
  free(y);
  free(room);
  free(want);
}

static void check_near(const char *what, const struct problem *p, const struct gemm *k, const float *got,
                       const double *want) {
  for (size_t i = 0; i < p->n_w; i++)
    ck_assert_msg(fabs((double)got[i] - want[i]) <= TOLERANCE * (sqrt((double)p->s.n) + 1),
                  "%s %s %zux%zux%zu [%zu]: off by %g", k->name, what, p->s.n, p->s.n_in, p->s.n_out, i,
                  fabs((double)got[i] - want[i]));
}

/* ∂L/∂x beside x, or in its place and 0 where x was not positive. */
static void check_few_backward(const struct problem *p, const struct gemm *k, const struct gemm_update *rule,
                               bool folded, bool gated) {
  struct gemm_shape s = p->s;
  s.y_stride = s.n_out;
  float *x = malloc(p->n_x * sizeof *x), *dx = gated ? x : malloc(p->n_x * sizeof *dx);
  float *g = malloc(p->n_w * sizeof *g), *w = malloc(p->n_w * sizeof *w);
  ck_assert(x && dx && g && w);
  memcpy(x, p->x, p->n_x * sizeof *x);
  memcpy(dx, p->x, p->n_x * sizeof *dx);
  memcpy(g, p->g, p->n_w * sizeof *g);
  memcpy(w, p->w, p->n_w * sizeof *w);
  double *want_x = doubles(p->x, p->n_x), *want_g = doubles(p->g, p->n_w), *want_w = doubles(p->w, p->n_w);
  struct gemm_update update = *rule;
  update.g = g;
  update.w = folded ? w : NULL;
  gemm_twin_back_inputs(&s, p->dy, NULL, p->w, want_x);
  gemm_twin_back_weights(&s, p->dy, NULL, p->x, rule, want_g, folded ? want_w : NULL);
  for (size_t i = 0; gated && i < p->n_x; i++)
    if (i % s.x_stride < s.n_in && !(p->x[i] > 0))
      want_x[i] = 0;
  k->few_backward(&s, p->dy, x, w, &update, gated, dx);
  check_rows(gated ? "few_backward, gated" : "few_backward", k, &s, dx, want_x, s.x_stride, s.n_in,
             sqrt((double)s.n_out) + 1);
  check_near("few_backward g", p, k, g, want_g);
  check_near("few_backward w", p, k, w, want_w);
  if (!gated)
    free(dx);
  free(x), free(g), free(w), free(want_x), free(want_g), free(want_w);
}

static void check_few(const struct problem *p, const struct gemm *k) {
  const struct gemm_update plain = {0}, step = {.momentum = 0.9F, .rate = 0.05F, .decay = 0.01F}, bare = {.rate = 0.1F};
  if (p->s.n_in % GEMM_PANEL != 0 || p->s.n_out > GEMM_PANEL)
    return;
  check_few_forward(p, k, false);
  check_few_forward(p, k, true);
  check_few_backward(p, k, &plain, false, false);
  check_few_backward(p, k, &step, true, false);
  check_few_backward(p, k, &step, true, true);
  check_few_backward(p, k, &bare, true, true);
}

static void check_problem(const struct problem *p, const struct gemm *k) {
  const struct gemm_update plain = {0}, momentum = {.momentum = 0.9F},
                           step = {.momentum = 0.9F, .rate = 0.05F, .decay = 0.01F}, bare = {.rate = 0.1F};
  check_forward(p, k, false);
  check_forward(p, k, true);
  check_back_inputs(p, k, false);
  check_back_inputs(p, k, true);
  check_back_weights(p, k, false, &plain, false);
  check_back_weights(p, k, true, &momentum, false);
  check_back_weights(p, k, true, &step, true);
  check_back_weights(p, k, false, &bare, true);
  check_back_bias(p, k, &step);
  check_few(p, k);
}

START_TEST(every_kernel_equals_the_twin) {
  struct cpu cpu = cpu_detect();
  const struct gemm *k;
  for (size_t i = 0; i < N_SHAPES; i++) {
    struct rng rng;
    rng_init(&rng, i);
    struct problem p;
    problem_init(&p, shapes[i], i % 3, &rng);
    for (size_t which = 0; (k = gemm_kernel(which)); which++)
      if (cpu_has(&cpu, &k->needs))
        check_problem(&p, k);
    problem_done(&p);
  }
}
END_TEST

START_TEST(relu_passes_nan) {
  struct cpu cpu = cpu_detect();
  const struct gemm *k;
  const struct gemm_shape s = {2, 1, 1, 1, 1};
  const float x[2] = {NAN, -1};
  const struct gemm_shape wide = {2, GEMM_PANEL, 1, GEMM_PANEL, 1};
  const float wide_x[2 * GEMM_PANEL] = {NAN, [GEMM_PANEL] = -1};
  float w[GEMM_PANEL] = {1}, bias[GEMM_PANEL] = {0}, room[2 * GEMM_PANEL];
  for (size_t which = 0; (k = gemm_kernel(which)); which++)
    if (cpu_has(&cpu, &k->needs)) {
      float y[2] = {5, 5};
      k->forward(&s, x, w, bias, true, y);
      ck_assert_msg(isnan(y[0]) && y[1] == 0, "%s: %g %g", k->name, (double)y[0], (double)y[1]);
      k->few_forward(&wide, wide_x, w, bias, true, room, y);
      ck_assert_msg(isnan(y[0]) && y[1] == 0, "%s: %g %g", k->name, (double)y[0], (double)y[1]);
    }
}
END_TEST

START_TEST(the_fastest_is_the_last_that_runs) {
  const struct cpu none = {0}, all = {true, true, true, true};
  size_t n_kernels = 0;
  while (gemm_kernel(n_kernels))
    n_kernels++;
  ck_assert_ptr_eq(gemm_fastest(&none), gemm_kernel(0));
  ck_assert_ptr_eq(gemm_fastest(&all), gemm_kernel(n_kernels - 1));
}
END_TEST

int main(void) {
  return SUITE_RUN("gemm", every_kernel_equals_the_twin, relu_passes_nan, the_fastest_is_the_last_that_runs);
}
