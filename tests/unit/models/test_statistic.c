#include "models/merging/statistic.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/unit/suite.h"

/* weight [2], mean and variance of two channels, bias [1], a variance without a mean [1] */
enum { P = 8 };

static struct schema *schema;
static struct statistics statistics;

static void open_all(void) {
  const struct tensor tensors[] = {
      {.name = "a.weight", .role = ROLE_SHARED, .rank = 1, .shape = {2}},
      {.name = "a.running_mean", .role = ROLE_STATISTIC, .rank = 1, .shape = {2}},
      {.name = "a.running_var", .role = ROLE_STATISTIC, .rank = 1, .shape = {2}},
      {.name = "a.bias", .role = ROLE_SHARED, .rank = 1, .shape = {1}},
      {.name = "b.running_var", .role = ROLE_STATISTIC, .rank = 1, .shape = {1}},
  };
  ck_assert_int_eq(schema_new(tensors, sizeof tensors / sizeof *tensors, &schema), ERR_OK);
  ck_assert_int_eq(statistics_open(schema, &statistics), ERR_OK);
}

static void close_all(void) {
  statistics_done(&statistics);
  schema_free(schema);
}

/*                              weight  mean    variance bias  other variance */
static const float own[P] = {0, 0, 1, -2, 4, 1, 0, 2};
static const float first[P] = {9, 9, 3, 2, 8, 3, 9, 6};
static const float second[P] = {9, 9, 5, -2, 0, 1, 9, 10};

/* What is expected of the whole model; -7 stands where nothing is written. */
static void expect(enum statistic_policy policy, const float expected[P]) {
  const struct mean_term terms[] = {{first, 0.25}, {second, 0.25}};
  float x[P];
  for (size_t i = 0; i < P; i++)
    x[i] = -7;
  open_all();
  ck_assert_int_eq(statistics_merge(&statistics, policy, own, own, terms, 2, x), ERR_OK);
  for (size_t i = 0; i < P; i++)
    ck_assert_float_eq(x[i], expected[i]);
  close_all();
}

START_TEST(opened_by_names_and_roles) {
  open_all();
  ck_assert_uint_eq(statistics.n, 3);
  ck_assert(!statistics.list[0].is_variance && statistics.list[1].is_variance && statistics.list[2].is_variance);
  ck_assert(statistics.list[1].has_mean && !statistics.list[2].has_mean);
  ck_assert_uint_eq(statistics.list[1].mean_offset, 2);
  close_all();
}
END_TEST

/* ½·1 + ¼·3 + ¼·5 = 2.5, ½·(−2) + ¼·2 − ¼·2 = −1; ½·4 + ¼·8 = 4, ½ + ¾ + ¼ = 1.5; ½·2 + ¼·6 + ¼·10 = 5 */
START_TEST(mean_averages) {
  expect(STATISTIC_MEAN, (const float[P]){-7, -7, 2.5f, -1, 4, 1.5f, -7, 5});
}
END_TEST

START_TEST(local_keeps) {
  expect(STATISTIC_LOCAL, (const float[P]){-7, -7, 1, -2, 4, 1, -7, 2});
}
END_TEST

/* The means as above. Var[m] = ½·1.5² + ¼·0.5² + ¼·2.5² = 2.75, and ½·1² + ¼·3² + ¼·1² = 3; the last has no mean. */
START_TEST(pooled_adds_the_variance_of_the_means) {
  expect(STATISTIC_POOLED, (const float[P]){-7, -7, 2.5f, -1, 6.75f, 4.5f, -7, 5});
}
END_TEST

/* Pooling equals the moments of all samples of both sites together: {1, 3} and {5, 9}, each with its own mean. */
START_TEST(pooled_is_of_all_samples) {
  const float here[P] = {0, 0, 2, 0, 1, 0, 0, 0}, there[P] = {0, 0, 7, 0, 4, 0, 0, 0};
  const struct mean_term term = {there, 0.5};
  float x[P] = {0};
  open_all();
  ck_assert_int_eq(statistics_merge(&statistics, STATISTIC_POOLED, here, here, &term, 1, x), ERR_OK);
  ck_assert_float_eq(x[2], 4.5f); /* (1 + 3 + 5 + 9)/4 */
  ck_assert_float_eq(x[4], (3.5f * 3.5f + 1.5f * 1.5f + 0.25f + 4.5f * 4.5f) / 4);
  close_all();
}
END_TEST

/* Peers' copies below 0, as a coarse codec or a liar leaves them, and a difference that goes further down than x is. */
START_TEST(variance_is_never_negative) {
  const float low[P] = {0, 0, 0, 0, -100, -3, 0, -1};
  const struct mean_term term = {low, 0.5};
  float x[P] = {0};
  open_all();
  for (int policy = STATISTIC_MEAN; policy <= STATISTIC_POOLED; policy++) {
    ck_assert_int_eq(statistics_merge(&statistics, (enum statistic_policy)policy, own, own, &term, 1, x), ERR_OK);
    ck_assert(x[4] >= 0 && x[5] >= 0 && x[7] >= 0);
  }
  memcpy(x, low, sizeof x);
  statistics_floor(&statistics, x);
  ck_assert(x[4] == 0 && x[5] == 0 && x[7] == 0);
  close_all();
}
END_TEST

/* Weights whose sum rounds above 1 leave no negative share; without terms nothing moves. */
START_TEST(ends_of_the_own_share) {
  const struct mean_term terms[] = {{first, 0.7}, {second, 0.3 + 0x1p-50}};
  float x[P];
  open_all();
  memcpy(x, own, sizeof x);
  ck_assert_int_eq(statistics_merge(&statistics, STATISTIC_POOLED, own, own, NULL, 0, x), ERR_OK);
  ck_assert_mem_eq(x, own, sizeof x);
  ck_assert_int_eq(statistics_merge(&statistics, STATISTIC_POOLED, own, own, terms, 2, x), ERR_OK);
  ck_assert_float_eq_tol(x[2], 3.6f, 1e-6f);
  ck_assert_float_eq_tol(x[4], 0.7f * 8.36f + 0.3f * 1.96f, 1e-5f);
  close_all();
}
END_TEST

START_TEST(non_finite_is_refused) {
  const float far[P] = {0, 0, FLT_MAX, 0, 0, 0, 0, 0};
  const struct mean_term term = {far, 0.5};
  float x[P] = {0};
  open_all();
  ck_assert_int_eq(statistics_merge(&statistics, STATISTIC_MEAN, own, own, &term, 1, x), ERR_OK);
  ck_assert_int_eq(statistics_merge(&statistics, STATISTIC_POOLED, own, own, &term, 1, x), ERR_MERGE_REFUSED);
  ck_assert_int_eq(statistics_merge(&statistics, STATISTIC_LOCAL, own, own, &term, 1, x), ERR_OK);
  close_all();
}
END_TEST

START_TEST(distances_are_of_what_is_learnt) {
  const float far[P] = {3, 0, 1e9f, 1e9f, 1e9f, 1e9f, 4, 1e9f};
  open_all();
  ck_assert_double_eq_tol(learnt_distance(&statistics, own, far, P), 5, 1e-12);
  ck_assert_double_eq(learnt_distance(&(struct statistics){0}, own, far, 2), 3);
  close_all();
}
END_TEST

START_TEST(cosines_are_of_what_is_learnt) {
  const float origin[P] = {1, 1, 0, 0, 0, 0, 0, 0};
  const float a[P] = {4, 1, 1e9f, 1e9f, 1e9f, 1e9f, 4, 1e9f}, b[P] = {1, 2, 5, 5, 5, 5, 0, 5};
  const float back[P] = {-2, 1, 7, 7, 7, 7, -4, 7}, gone[P] = {INFINITY, 0, 0, 0, 0, 0, 0, 0};
  open_all();
  ck_assert_double_eq(learnt_cosine(&statistics, origin, a, a, P), 1);
  ck_assert_double_eq(learnt_cosine(&statistics, origin, a, b, P), 0);
  ck_assert_double_eq(learnt_cosine(&statistics, origin, a, back, P), -1);
  ck_assert_double_eq(learnt_cosine(&statistics, origin, a, origin, P), 0);
  ck_assert_double_eq(learnt_cosine(&statistics, origin, a, gone, P), 0);
  close_all();
}
END_TEST

int main(void) {
  return SUITE_RUN("merging/statistic", opened_by_names_and_roles, mean_averages, local_keeps,
                   pooled_adds_the_variance_of_the_means, pooled_is_of_all_samples, variance_is_never_negative,
                   ends_of_the_own_share, non_finite_is_refused, distances_are_of_what_is_learnt,
                   cosines_are_of_what_is_learnt);
}
