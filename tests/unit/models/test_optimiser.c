/* Optimisers against their formulas in double, written out again here; kernels against each other. */
#include "models/net/optimiser.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum { LENGTH = 43, STEPS = 12 };

static const struct optimiser_config configs[] = {
    {.kind = OPTIMISER_SGD},
    {.kind = OPTIMISER_SGD, .momentum = 0.9, .weight_decay = 0.01},
    {.kind = OPTIMISER_SGD, .momentum = 0.8, .nesterov = true, .weight_decay = 0.02},
    {.kind = OPTIMISER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
    {.kind = OPTIMISER_ADAM, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1},
    {.kind = OPTIMISER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.1},
};
enum { N_CONFIGS = sizeof configs / sizeof *configs };

/* One value through one step, as torch.optim writes it. */
static void twin_step(const struct optimiser_config *c, double rate, double t, double *x, double gradient, double *m,
                      double *v) {
  double g = gradient + (c->kind == OPTIMISER_ADAMW ? 0 : c->weight_decay * *x);
  if (c->kind == OPTIMISER_SGD) {
    *m = c->momentum * *m + g;
    *x -= rate * (c->nesterov ? g + c->momentum * *m : *m);
    return;
  }
  if (c->kind == OPTIMISER_ADAMW)
    *x *= 1 - rate * c->weight_decay;
  *m = c->beta1 * *m + (1 - c->beta1) * g;
  *v = c->beta2 * *v + (1 - c->beta2) * g * g;
  double first = *m / (1 - pow(c->beta1, t)), second = *v / (1 - pow(c->beta2, t));
  *x -= rate * first / (sqrt(second) + c->epsilon);
}

struct run {
  float x[LENGTH], m[LENGTH], v[LENGTH];
};

static void start(struct run *r) {
  struct rng rng;
  rng_init(&rng, 3);
  memset(r, 0, sizeof *r);
  for (size_t i = 0; i < LENGTH; i++)
    r->x[i] = (float)toy_normal(&rng);
}

/* The gradient of step t, the same for all. */
static void gradient_of(uint64_t t, float out_g[LENGTH]) {
  struct rng rng;
  rng_init(&rng, t);
  for (size_t i = 0; i < LENGTH; i++)
    out_g[i] = (float)(pow(10, (double)(i % 5) - 2) * toy_normal(&rng));
}

START_TEST(steps_are_the_twins) {
  for (size_t c = 0; c < N_CONFIGS; c++) {
    static struct run r;
    double x[LENGTH], m[LENGTH] = {0}, v[LENGTH] = {0};
    start(&r);
    for (size_t i = 0; i < LENGTH; i++)
      x[i] = (double)r.x[i];
    for (uint64_t t = 1; t <= STEPS; t++) {
      float g[LENGTH];
      gradient_of(t, g);
      const struct optimiser_step step = {.rate = 0.05, .scale = 0.5, .t = t};
      optimiser_apply(&configs[c], &step, r.x, g, (float *const[]){r.m, r.v}, LENGTH);
      for (size_t i = 0; i < LENGTH; i++)
        twin_step(&configs[c], 0.05, (double)t, &x[i], 0.5 * (double)g[i], &m[i], &v[i]);
    }
    for (size_t i = 0; i < LENGTH; i++)
      ck_assert_msg(fabs((double)r.x[i] - x[i]) < 1e-5 * (1 + fabs(x[i])), "config %zu, value %zu: %.9g, twin %.9g", c,
                    i, (double)r.x[i], x[i]);
  }
}
END_TEST

START_TEST(kernels_have_equal_bits) {
  for (size_t c = 0; c < N_CONFIGS; c++)
    for (size_t kernel = 1; kernel < optimiser_kernels(); kernel++) {
      static struct run plain, other;
      start(&plain);
      start(&other);
      for (uint64_t t = 1; t <= STEPS; t++) {
        float g[LENGTH];
        gradient_of(t, g);
        const struct optimiser_step step = {.rate = 0.05, .scale = 0.7, .t = t};
        optimiser_apply_by(0, &configs[c], &step, plain.x, g, (float *const[]){plain.m, plain.v}, LENGTH);
        optimiser_apply_by(kernel, &configs[c], &step, other.x, g, (float *const[]){other.m, other.v}, LENGTH);
      }
      ck_assert_mem_eq(&plain, &other, sizeof plain);
    }
}
END_TEST

/* The first step of Adam is ±η whatever the gradient's size. */
START_TEST(adam_begins_with_the_rate) {
  float x[3] = {0}, m[3] = {0}, v[3] = {0};
  const float g[] = {1e-3f, -1, 1e3f};
  const struct optimiser_config c = {.kind = OPTIMISER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-12};
  optimiser_apply(&c, &(struct optimiser_step){.rate = 0.1, .scale = 1, .t = 1}, x, g, (float *const[]){m, v}, 3);
  ck_assert_float_eq_tol(x[0], -0.1f, 1e-6f);
  ck_assert_float_eq_tol(x[1], 0.1f, 1e-6f);
  ck_assert_float_eq_tol(x[2], -0.1f, 1e-6f);
}
END_TEST

START_TEST(padding_stays_zero) {
  for (size_t c = 0; c < N_CONFIGS; c++) {
    float x[8] = {0}, m[8] = {0}, v[8] = {0}, zero[8] = {0};
    for (uint64_t t = 1; t <= 3; t++)
      optimiser_apply(&configs[c], &(struct optimiser_step){.rate = 0.1, .scale = 1, .t = t}, x, zero,
                      (float *const[]){m, v}, 8);
    for (size_t i = 0; i < 8; i++)
      ck_assert(x[i] == 0 && m[i] == 0 && v[i] == 0);
  }
}
END_TEST

START_TEST(clipping) {
  struct optimiser_config c = {.clip_norm = 2};
  ck_assert_double_eq(optimiser_clip(&c, 3.9), 1);
  ck_assert_double_eq_tol(optimiser_clip(&c, 16), 0.5, 1e-6);
  ck_assert(optimiser_clip(&c, 16) < 0.5); /* as torch.nn.utils.clip_grad_norm_, by 1e-6 */
  c.clip_norm = 0;
  ck_assert_double_eq(optimiser_clip(&c, 1e30), 1);
}
END_TEST

START_TEST(what_folds_and_what_is_kept) {
  ck_assert(optimiser_folds(&configs[0]) && optimiser_folds(&configs[1]));
  ck_assert(!optimiser_folds(&configs[2]) && !optimiser_folds(&configs[3]));
  ck_assert(!optimiser_folds(&(struct optimiser_config){.momentum = 0.9, .clip_norm = 1}));
  ck_assert_uint_eq(optimiser_states(OPTIMISER_SGD), 1);
  ck_assert_uint_eq(optimiser_states(OPTIMISER_ADAMW), 2);
  ck_assert_str_eq(optimiser_name(OPTIMISER_ADAMW), "adamw");
}
END_TEST

START_TEST(bad_numbers_are_refused) {
  const struct optimiser_config good = {.kind = OPTIMISER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
  struct optimiser_config bad[] = {
      good, good, good, good, good, good, {.momentum = 1}, {.nesterov = true}, {.momentum = NAN}};
  bad[0].beta1 = 1;
  bad[1].beta2 = NAN;
  bad[2].epsilon = 0;
  bad[3].weight_decay = INFINITY;
  bad[4].clip_norm = -1;
  bad[5].kind = N_OPTIMISERS;
  ck_assert(optimiser_fits(&good) && optimiser_fits(&configs[0]) && optimiser_fits(&configs[2]));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    ck_assert_msg(!optimiser_fits(&bad[i]), "case %zu", i);
}
END_TEST

START_TEST(descent) {
  enum { N_VALUES = 37 };
  float x[N_VALUES], m[N_VALUES];
  for (int i = 0; i < N_VALUES; i++) {
    x[i] = (float)i;
    m[i] = 1;
  }
  optimiser_descend(x, m, N_VALUES, 0.25, 0);
  for (int i = 0; i < N_VALUES; i++)
    ck_assert_float_eq(x[i], (float)i - 0.25f);
  for (int i = 0; i < N_VALUES; i++)
    x[i] = (float)i;
  optimiser_descend(x, m, N_VALUES, 0.25, 0.5);
  for (int i = 0; i < N_VALUES; i++) {
    ck_assert_float_eq(m[i], 1 + 0.5f * (float)i);
    ck_assert_float_eq(x[i], (float)i - 0.25f * m[i]);
  }
}
END_TEST

int main(void) {
  return SUITE_RUN("optimiser", descent, steps_are_the_twins, kernels_have_equal_bits, adam_begins_with_the_rate,
                   padding_stays_zero, clipping, what_folds_and_what_is_kept, bad_numbers_are_refused);
}
