#include "models/continual/drift.h"

#include <math.h>
#include <stdio.h>

#include "tests/size.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum { N_CLASSES = 4, N_INPUTS = 20 };

/* Samples of a site: errors, labels and inputs, each of which may be of another kind. */
struct source {
  double error, class_zero, input;
};

static const struct source usual = {.error = 0.3, .class_zero = 0.25, .input = 0};

static void draw(struct rng *rng, const struct source *s, size_t n, struct drift_sample *out) {
  for (size_t i = 0; i < n; i++) {
    float x[N_INPUTS];
    for (size_t k = 0; k < N_INPUTS; k++)
      x[k] = (float)(toy_normal(rng) + (k < N_INPUTS / 2 ? s->input : 0));
    double u = rng_unit(rng);
    moments_put(&out->loss, fmin(1, fmax(0, s->error + 0.2 * toy_normal(rng))));
    out->labels[u < s->class_zero ? 0 : 1 + (size_t)((u - s->class_zero) / (1 - s->class_zero) * 3) % 3]++;
    for (size_t k = 0; k < DRIFT_PROJECTIONS; k++)
      moments_put(&out->inputs[k], drift_project(x, N_INPUTS, k));
  }
}

struct room {
  struct drift_sample before, now;
  uint64_t labels[2][N_CLASSES];
};

static void room_init(struct room *r) {
  *r = (struct room){0};
  r->before = (struct drift_sample){.labels = r->labels[0], .n_classes = N_CLASSES};
  r->now = (struct drift_sample){.labels = r->labels[1], .n_classes = N_CLASSES};
}

/* ---- formulas */

START_TEST(the_tail_of_chi_square_is_that_of_tables) {
  ck_assert_double_eq_tol(chi_square_tail(3.841458820694124, 1), 0.05, 1e-10);
  ck_assert_double_eq_tol(chi_square_tail(6.6348966010212145, 1), 0.01, 1e-10);
  ck_assert_double_eq_tol(chi_square_tail(18.307038053275146, 10), 0.05, 1e-10);
  ck_assert_double_eq_tol(chi_square_tail(2, 2), exp(-1), 1e-12);
  ck_assert_double_eq_tol(chi_square_tail(100, 2) / exp(-50), 1, 1e-9);
  ck_assert_double_eq(chi_square_tail(0, 3), 1);
}
END_TEST

START_TEST(moments_that_are_joined_are_those_of_all) {
  const double x[] = {1, 4, -2, 8, 3.5};
  struct moments a = {0}, b = {0}, all = {0};
  for (size_t i = 0; i < 5; i++) {
    moments_put(i < 2 ? &a : &b, x[i]);
    moments_put(&all, x[i]);
  }
  moments_add(&a, &b);
  ck_assert_double_eq(a.n, 5);
  ck_assert_double_eq_tol(a.mean, all.mean, 1e-12);
  ck_assert_double_eq_tol(a.squares, all.squares, 1e-12);
}
END_TEST

/* 40 and 60 of two classes against 60 and 40: χ² = 8 with one degree, p = 0.0047. */
START_TEST(two_rows_of_counts) {
  struct room r;
  double p;
  room_init(&r);
  for (size_t i = 0; i < 100; i++) {
    moments_put(&r.before.loss, 0.5);
    moments_put(&r.now.loss, 0.5);
    r.labels[0][i < 40]++;
    r.labels[1][i < 60]++;
  }
  ck_assert_int_eq(drift_judge(&r.before, &r.now, 0.03, &p), DRIFT_LABELS);
  ck_assert_double_eq_tol(p, 0.004677734981047, 1e-9);
  ck_assert_int_eq(drift_judge(&r.before, &r.now, 0.01, &p), DRIFT_NONE);
}
END_TEST

START_TEST(few_samples_answer_nothing) {
  struct room r;
  struct rng rng;
  double p;
  room_init(&r);
  rng_init(&rng, 1);
  draw(&rng, &usual, 500, &r.before);
  draw(&rng, &(struct source){.error = 1, .class_zero = 1, .input = 3}, DRIFT_LEAST - 1, &r.now);
  ck_assert_int_eq(drift_judge(&r.before, &r.now, 0.01, &p), DRIFT_NONE);
}
END_TEST

/* ---- rates */

/* How often an alarm is raised in so many streams of 20 questions, each of 100 new samples against all before. */
static size_t alarms(const struct source *later, double alpha, size_t n_streams, size_t n_questions, size_t counts[4]) {
  size_t n = 0;
  for (uint64_t seed = 1; seed <= n_streams; seed++) {
    struct room r;
    struct rng rng;
    room_init(&r);
    rng_init(&rng, seed);
    draw(&rng, &usual, 100, &r.before);
    for (size_t q = 0; q < n_questions; q++) {
      double p;
      drift_sample_clear(&r.now);
      draw(&rng, later, 100, &r.now);
      enum drift_test found = drift_judge(&r.before, &r.now, alpha, &p);
      counts[found]++;
      n += found != DRIFT_NONE;
      drift_sample_add(&r.before, &r.now);
    }
  }
  return n;
}

/* At α = 0.05 so that there is something to count: 200 streams of 20 questions are 4 000, of which 200 may be wrong; 3σ more. */
START_TEST(false_alarms_are_as_rare_as_was_asked_for) {
  size_t counts[4] = {0}, n_streams = least_or(2, sized(20, 200, 2000)),
         n = alarms(&usual, 0.05, n_streams, 20, counts);
  double most = 0.05 * 20 * (double)n_streams;
  printf("false alarms: %zu of %zu questions (loss %zu, labels %zu, inputs %zu), at most %.0f are asked for\n", n,
         20 * n_streams, counts[DRIFT_LOSS], counts[DRIFT_LABELS], counts[DRIFT_INPUTS], most);
  ck_assert_double_le((double)n, most + 3 * sqrt(most));
  ck_assert(n > 0 || size_is_small()); /* tests that never alarm are none */
}
END_TEST

START_TEST(what_moves_is_found_by_its_test) {
  const struct {
    struct source later;
    enum drift_test is;
  } cases[] = {{{.error = 0.7, .class_zero = 0.25}, DRIFT_LOSS},
               {{.error = 0.3, .class_zero = 0.7}, DRIFT_LABELS},
               {{.error = 0.3, .class_zero = 0.25, .input = 1.5}, DRIFT_INPUTS}};
  size_t n_streams = least_or(2, sized(20, 200, 1000));
  for (size_t i = 0; i < 3; i++) {
    size_t counts[4] = {0};
    (void)alarms(&cases[i].later, 0.001, n_streams, 1, counts);
    ck_assert_uint_ge(100 * counts[cases[i].is], 99 * n_streams);
  }
}
END_TEST

START_TEST(a_loss_that_falls_is_no_drift) {
  size_t counts[4] = {0};
  const struct source better = {.error = 0.05, .class_zero = 0.25};
  (void)alarms(&better, 0.01, 50, 1, counts);
  ck_assert_uint_eq(counts[DRIFT_LOSS], 0);
}
END_TEST

int main(void) {
  return SUITE_RUN_WITHIN("drift", SUITE_LIMIT_S, the_tail_of_chi_square_is_that_of_tables,
                          moments_that_are_joined_are_those_of_all, two_rows_of_counts, few_samples_answer_nothing,
                          false_alarms_are_as_rare_as_was_asked_for, what_moves_is_found_by_its_test,
                          a_loss_that_falls_is_no_drift);
}
