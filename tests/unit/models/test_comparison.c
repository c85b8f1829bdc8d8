#include "models/judging/comparison.h"

#include <math.h>

#include "base/rng.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

/* Rows of tests/ref/comparison_twin.py. Published too:
 *   {6, 16, 161}  Cavo et al. 2012 in Fagerland, Lydersen, Laake, Statistical Analysis of Contingency Tables: −0.1240 … −0.0054
 *   {1, 7, 21}    Bentur et al. 2009, there too: −0.517 … −0.026, exact p 0.0703
 *   {12, 2, 50}   Armitage & Berry 1994, p. 127: exact p 0.0129 */
static const struct {
  uint64_t b, c, n;
  double p, lo, hi;
} table[] = {
    {6, 16, 161, 0.0524787903, -0.1240234, -0.0054334}, {12, 2, 50, 0.0129394531, 0.0611124, 0.3447087},
    {1, 7, 21, 0.0703125000, -0.5172323, -0.0260030},   {40, 20, 160, 0.0098232745, 0.0308645, 0.2180642},
    {0, 0, 50, 1.0000000000, -0.0713476, 0.0713476},    {31, 16, 312, 0.0286714327, 0.0051958, 0.0928958},
    {5, 0, 5, 0.0625000000, 0.1310351, 1.0000000},
};

START_TEST(published_tables) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    double lo, hi;
    tango_interval(table[i].b, table[i].c, table[i].n, &lo, &hi);
    ck_assert_double_eq_tol(mcnemar_p_value(table[i].b, table[i].c), table[i].p, 1e-9);
    ck_assert_double_eq_tol(lo, table[i].lo, 2e-7);
    ck_assert_double_eq_tol(hi, table[i].hi, 2e-7);
    tango_interval(table[i].c, table[i].b, table[i].n, &lo, &hi); /* the other way round */
    ck_assert_double_eq_tol(hi, -table[i].lo, 2e-7);
  }
}
END_TEST

START_TEST(samples_to_see_two_points) {
  ck_assert_double_eq(connor_samples(0.15, 0.02), 2941);
  ck_assert_double_eq(connor_samples(0.3, 0.02), 5885);
  ck_assert_double_eq(connor_samples(0, 0.02), 391); /* that few differ, the difference itself needs them */
}
END_TEST

/* Outcomes of n samples of two classes in turn: wrong where `wrong` says so. */
static struct outcomes answers(size_t n, bool (*is_wrong)(size_t i)) {
  struct outcomes o;
  ck_assert_int_eq(outcomes_init(&o, TASK_CLASSIFY, 2, n), ERR_OK);
  for (size_t i = 0; i < n; i++) {
    uint16_t is = i % 2, said = is_wrong(i) ? 1 - is : is;
    outcomes_add(&o, said ? (const float[]){0, 1} : (const float[]){1, 0}, &(struct answers){.labels = &is}, 1, 2);
  }
  return o;
}

static bool first_is_wrong(size_t i) {
  return i < 31 || (i >= 100 && i < 130);
}

static bool second_is_wrong(size_t i) {
  return i >= 31 && (i < 47 || (i >= 100 && i < 130));
}

START_TEST(accuracy_of_pairs) {
  struct outcomes a = answers(312, first_is_wrong), b = answers(312, second_is_wrong);
  struct comparison r;
  ck_assert_int_eq(comparison_make(&a, &b, FIGURE_ACCURACY, 1, &r), ERR_OK);
  ck_assert_uint_eq(r.only_first, 16);
  ck_assert_uint_eq(r.only_second, 31);
  ck_assert_double_eq_tol(r.difference, 15.0 / 312, 1e-12);
  ck_assert_double_eq_tol(r.lo, 0.0051958, 2e-7);
  ck_assert_double_eq_tol(r.p_value, 0.0286714327, 1e-9);
  ck_assert_int_eq(r.verdict, VERDICT_HELPS);
  ck_assert_int_eq(comparison_make(&b, &a, FIGURE_ACCURACY, 1, &r), ERR_OK);
  ck_assert_int_eq(r.verdict, VERDICT_WORSE);
  ck_assert_int_eq(comparison_make(&a, &a, FIGURE_ACCURACY, 1, &r), ERR_OK);
  ck_assert_int_eq(r.verdict, VERDICT_NO_EVIDENCE);
  outcomes_done(&a);
  outcomes_done(&b);
}
END_TEST

static bool is_among_first_five(size_t i) {
  return i < 5;
}

static bool never(size_t i) {
  (void)i;
  return false;
}

/* 5 of 5 pairs: Tango's interval lies above 0, but by the exact test it may be chance (p = 1/16). */
START_TEST(both_must_agree) {
  struct outcomes a = answers(5, is_among_first_five), b = answers(5, never);
  struct comparison r;
  ck_assert_int_eq(comparison_make(&a, &b, FIGURE_ACCURACY, 1, &r), ERR_OK);
  ck_assert(r.lo > 0 && r.p_value > 0.05);
  ck_assert_int_eq(r.verdict, VERDICT_NO_EVIDENCE);
  outcomes_done(&a);
  outcomes_done(&b);
}
END_TEST

START_TEST(other_samples_are_refused) {
  struct outcomes a = answers(20, never), b = answers(22, never), c = answers(20, never);
  struct comparison r;
  ck_assert_int_eq(comparison_make(&a, &b, FIGURE_ACCURACY, 1, &r), ERR_CONTRACT);
  c.rows[3].is = 1 - c.rows[3].is;
  ck_assert_int_eq(comparison_make(&a, &c, FIGURE_ACCURACY, 1, &r), ERR_CONTRACT);
  outcomes_done(&a);
  outcomes_done(&b);
  outcomes_done(&c);
}
END_TEST

START_TEST(one_class_cannot_be_compared) {
  struct outcomes a = answers(20, never), b = answers(20, first_is_wrong);
  struct comparison r;
  for (size_t i = 0; i < 20; i++)
    a.rows[i].is = b.rows[i].is = 0;
  for (enum figure f = FIGURE_ACCURACY; f <= FIGURE_AUC; f++) {
    ck_assert_int_eq(comparison_make(&a, &b, f, 1, &r), ERR_OK);
    ck_assert(isnan(r.difference) && isnan(r.lo) && r.verdict == VERDICT_NO_EVIDENCE);
  }
  outcomes_done(&a);
  outcomes_done(&b);
}
END_TEST

/* Predictions of y with noise of sd `noise`. */
static struct outcomes guesses(uint64_t seed, size_t n, double noise) {
  struct outcomes o;
  struct rng targets, errors;
  rng_init(&targets, 77);
  rng_init(&errors, seed);
  ck_assert_int_eq(outcomes_init(&o, TASK_REGRESS, 0, n), ERR_OK);
  for (size_t i = 0; i < n; i++) {
    float y = (float)toy_normal(&targets), guess = y + (float)(noise * toy_normal(&errors));
    outcomes_add(&o, &guess, &(struct answers){.targets = &y}, 1, 1);
  }
  return o;
}

/* R² = 1 − sd² here, and the difference of two independent guessers has se² ≈ 2(s₁⁴ + s₂⁴)/n. */
START_TEST(bootstrap_of_r2) {
  struct outcomes a = guesses(1, 2000, 0.5), b = guesses(2, 2000, 0.4);
  struct comparison r, again;
  ck_assert_int_eq(comparison_make(&a, &b, FIGURE_R2, 9, &r), ERR_OK);
  double se = sqrt(2 * (pow(0.5, 4) + pow(0.4, 4)) / 2000);
  ck_assert_double_eq_tol(r.difference, 0.25 - 0.16, 4 * se);
  ck_assert_double_eq_tol((r.hi - r.lo) / (2 * 1.96), se, 0.12 * se);
  ck_assert_double_eq_tol(r.needed, 2000 * pow(2.8016 * se / 0.02, 2), 0.25 * r.needed);
  ck_assert_int_eq(r.verdict, VERDICT_HELPS);
  ck_assert_int_eq(comparison_make(&a, &b, FIGURE_R2, 9, &again), ERR_OK);
  ck_assert(again.lo == r.lo && again.hi == r.hi);
  ck_assert_int_eq(comparison_make(&a, &b, FIGURE_R2, 10, &again), ERR_OK);
  ck_assert(again.lo != r.lo);
  outcomes_done(&a);
  outcomes_done(&b);
}
END_TEST

START_TEST(too_few_for_an_interval) {
  struct outcomes a = guesses(1, 2, 0.5), b = guesses(2, 2, 0.1);
  struct comparison r;
  ck_assert_int_eq(comparison_make(&a, &b, FIGURE_R2, 9, &r), ERR_OK);
  ck_assert(isfinite(r.difference) && isnan(r.lo) && r.verdict == VERDICT_NO_EVIDENCE);
  outcomes_done(&a);
  outcomes_done(&b);
}
END_TEST

int main(void) {
  return SUITE_RUN("models/comparison", published_tables, samples_to_see_two_points, accuracy_of_pairs, both_must_agree,
                   other_samples_are_refused, one_class_cannot_be_compared, bootstrap_of_r2, too_few_for_an_interval);
}
