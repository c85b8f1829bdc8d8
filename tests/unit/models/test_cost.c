#include "models/tuning/cost.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tests/unit/suite.h"

enum { N_VARIANTS = 3, N = 400, PROCESSORS = 7 /* which of the values */ };

static struct rng rng;

static struct cost_point random_point(double processors) {
  struct cost_point p = {.log_work = 10 + 5 * rng_unit(&rng), .variant = (uint32_t)rng_below(&rng, N_VARIANTS)};
  for (size_t i = 0; i < PROCESSORS; i++)
    p.values[i] = 6 * rng_unit(&rng);
  p.values[PROCESSORS] = log(processors);
  return p;
}

/* A surface that the terms can say exactly. */
static double truth(const struct cost_point *p) {
  static const double own[N_VARIANTS] = {0, -1.5, -2};
  const double *x = p->values;
  return p->log_work - 20 + own[p->variant] + 0.3 * x[0] - 0.2 * x[1] + 0.03 * x[0] * x[2] - 0.02 * x[3] * x[3] -
         0.1 * p->variant * x[1] - 0.8 * x[PROCESSORS];
}

static void sample(struct cost_sample *out, size_t n, double processors) {
  for (size_t i = 0; i < n; i++) {
    out[i].at = random_point(processors);
    out[i].log_seconds = truth(&out[i].at);
  }
}

/* The mean distance from the truth over n new points. */
static double error_of(const struct cost_model *m, size_t n, double processors) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    struct cost_point p = random_point(processors);
    sum += fabs(cost_predict(m, &p, NULL) - truth(&p));
  }
  return sum / (double)n;
}

static struct cost_model *new_model(void) {
  struct cost_model *m;
  ck_assert_int_eq(cost_new(N_VARIANTS, &m), ERR_OK);
  return m;
}

START_TEST(it_learns_a_quadratic_surface) {
  static struct cost_sample samples[N];
  struct cost_model *m = new_model();
  rng_init(&rng, 1);
  ck_assert_double_gt(error_of(m, 100, 1), 15); /* it knows nothing */
  sample(samples, N, 1);
  struct cost_lesson lesson = {.samples = samples, .n_samples = 30, .seed = 1};
  ck_assert_int_eq(cost_fit(m, &lesson), ERR_OK);
  double of_few = error_of(m, 100, 1);
  lesson.n_samples = N;
  ck_assert_int_eq(cost_fit(m, &lesson), ERR_OK);
  double of_many = error_of(m, 100, 1);
  ck_assert_double_lt(of_few, 0.6); /* 0.32 with this seed */
  ck_assert_double_lt(of_many, 0.02);
  cost_free(m);
}
END_TEST

START_TEST(it_is_less_sure_of_what_it_has_not_seen) {
  static struct cost_sample samples[60];
  struct cost_model *m = new_model();
  rng_init(&rng, 2);
  sample(samples, 60, 1);
  for (size_t i = 0; i < 60; i++) {
    samples[i].at.variant %= 2;
    samples[i].log_seconds = truth(&samples[i].at);
  }
  const struct cost_lesson lesson = {.samples = samples, .n_samples = 60, .seed = 1};
  ck_assert_int_eq(cost_fit(m, &lesson), ERR_OK);
  double seen = 0, unseen = 0, spread;
  for (size_t i = 0; i < 60; i++) {
    struct cost_point p = samples[i].at;
    cost_predict(m, &p, &spread);
    seen += spread;
    p.variant = 2;
    cost_predict(m, &p, &spread);
    unseen += spread;
  }
  ck_assert_double_gt(unseen, 3 * seen);
  cost_free(m);
}
END_TEST

/* The host's share of the processor falls to 0.4, and there are 12 measurements of it. */
START_TEST(what_it_knew_is_kept) {
  static struct cost_sample samples[N], few[12];
  static struct cost_point pool[N];
  struct cost_model *old = new_model(), *kept = new_model(), *forgetful = new_model();
  rng_init(&rng, 3);
  sample(samples, N, 1);
  sample(few, 12, 0.4);
  for (size_t i = 0; i < N; i++)
    pool[i] = random_point(1);
  struct cost_lesson lesson = {.samples = samples, .n_samples = N, .seed = 1};
  ck_assert_int_eq(cost_fit(old, &lesson), ERR_OK);
  lesson = (struct cost_lesson){
      .samples = few, .n_samples = 12, .old = old, .pool = pool, .n_pool = N, .keep = 0.5, .seed = 1};
  ck_assert_int_eq(cost_fit(kept, &lesson), ERR_OK);
  lesson.keep = 0;
  ck_assert_int_eq(cost_fit(forgetful, &lesson), ERR_OK);
  ck_assert_double_lt(error_of(kept, 200, 1), 0.05);
  ck_assert_double_lt(error_of(kept, 200, 0.4), 0.2); /* 12 measurements would not say that alone: */
  ck_assert_double_gt(error_of(forgetful, 200, 0.4), 0.3);
  ck_assert_double_gt(error_of(forgetful, 200, 1), 0.3);
  cost_free(old);
  cost_free(kept);
  cost_free(forgetful);
}
END_TEST

START_TEST(the_same_lesson_gives_the_same_bits) {
  static struct cost_sample samples[40];
  struct cost_model *a = new_model(), *b = new_model();
  rng_init(&rng, 4);
  sample(samples, 40, 1);
  struct cost_lesson lesson = {.samples = samples, .n_samples = 40, .seed = 7};
  ck_assert_int_eq(cost_fit(a, &lesson), ERR_OK);
  ck_assert_int_eq(cost_fit(b, &lesson), ERR_OK);
  size_t n_bytes = COST_MEMBERS * cost_terms(N_VARIANTS) * sizeof(double);
  ck_assert_mem_eq(cost_weights(a), cost_weights(b), n_bytes);
  lesson.seed = 8;
  ck_assert_int_eq(cost_fit(b, &lesson), ERR_OK);
  ck_assert_mem_ne(cost_weights(a), cost_weights(b), n_bytes);
  ck_assert_int_eq(cost_take(b, cost_weights(a)), ERR_OK);
  ck_assert_mem_eq(cost_weights(a), cost_weights(b), n_bytes);
  cost_free(a);
  cost_free(b);
}
END_TEST

START_TEST(what_is_not_finite_changes_nothing) {
  static struct cost_sample samples[10];
  struct cost_model *m = new_model();
  double before[COST_MEMBERS * 128];
  size_t n = COST_MEMBERS * cost_terms(N_VARIANTS);
  rng_init(&rng, 5);
  sample(samples, 10, 1);
  struct cost_lesson lesson = {.samples = samples, .n_samples = 10, .seed = 1};
  ck_assert_int_eq(cost_fit(m, &lesson), ERR_OK);
  memcpy(before, cost_weights(m), n * sizeof *before);
  samples[3].log_seconds = NAN;
  ck_assert_int_eq(cost_fit(m, &lesson), ERR_NON_FINITE);
  samples[3].log_seconds = INFINITY;
  ck_assert_int_eq(cost_fit(m, &lesson), ERR_NON_FINITE);
  ck_assert_mem_eq(cost_weights(m), before, n * sizeof *before);
  before[n - 1] = NAN;
  ck_assert_int_eq(cost_take(m, before), ERR_NON_FINITE);
  ck_assert(isfinite(cost_weights(m)[n - 1]));
  cost_free(m);
}
END_TEST

int main(void) {
  return SUITE_RUN("models/cost", it_learns_a_quadratic_surface, it_is_less_sure_of_what_it_has_not_seen,
                   what_it_knew_is_kept, the_same_lesson_gives_the_same_bits, what_is_not_finite_changes_nothing);
}
