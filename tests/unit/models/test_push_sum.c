#include <float.h>
#include <math.h>

#include "models/merging/push_sum.h"
#include "tests/unit/suite.h"

enum { N = 4 };
static const float Z[N] = {1, -2, 0.1F, 1e-3F}, SUM[N] = {100, 7, -3, 0};

START_TEST(what_is_given_and_what_stays_is_what_was) {
  const struct push p = {.mass = 1.5, .amount = 0.5, .rest = 0.5, .n_told = 2};
  float z[N], grown[N];
  memcpy(z, Z, sizeof z);
  ck_assert_int_eq(push_sum_push(&p, z, SUM, N, grown), ERR_OK);
  for (size_t i = 0; i < N; i++) {
    double given = 2 * ((double)grown[i] - (double)SUM[i]);
    ck_assert_double_eq_tol(given + 0.5 * (double)z[i], 1.5 * (double)Z[i], 1e-7 * fabs((double)Z[i]));
  }
  ck_assert_float_ne(z[2], Z[2]); /* -3 has no room for a tenth's digits: what rounding takes from the sum stays in z */
  push_sum_take_back(&p, z, SUM, grown, N);
  for (size_t i = 0; i < N; i++)
    ck_assert_float_eq_tol(z[i], Z[i], 1e-6F * fabsf(Z[i]));
}
END_TEST

START_TEST(told_nobody_nothing_changes) {
  const struct push p = {.mass = 0.7, .rest = 0.7};
  float z[N], grown[N];
  memcpy(z, Z, sizeof z);
  ck_assert_int_eq(push_sum_push(&p, z, SUM, N, grown), ERR_OK);
  push_sum_take_back(&p, z, SUM, grown, N);
  ck_assert_mem_eq(z, Z, sizeof z);
  ck_assert_mem_eq(grown, SUM, sizeof grown);
}
END_TEST

START_TEST(a_sum_is_taken_by_what_it_grew) {
  static const float grown[N] = {102, 8, -3, 4};
  float copy[N], z[N];
  double u[N];
  memcpy(copy, SUM, sizeof copy);
  push_sum_begin(2, Z, N, u);
  push_sum_take(1, grown, copy, N, u);
  push_sum_take(1, grown, copy, N, u); /* once more: nothing */
  ck_assert_mem_eq(copy, grown, sizeof copy);
  ck_assert_int_eq(push_sum_end(4, u, N, z), ERR_OK);
  for (size_t i = 0; i < N; i++)
    ck_assert_float_eq(z[i], (float)((2 * (double)Z[i] + ((double)grown[i] - (double)SUM[i])) / 4));
  memcpy(copy, SUM, sizeof copy);
  push_sum_begin(2, Z, N, u);
  push_sum_take(0.25, grown, copy, N, u);
  ck_assert_double_eq(u[0], 2 + 0.25 * 2);
}
END_TEST

START_TEST(what_is_no_float_is_refused) {
  const struct push p = {.mass = 10, .amount = 5, .rest = 5, .n_told = 1};
  float z[1] = {FLT_MAX}, sum[1] = {0};
  ck_assert_int_eq(push_sum_push(&p, z, sum, 1, sum), ERR_NON_FINITE);
  ck_assert_float_eq(z[0], FLT_MAX);
  ck_assert_int_eq(push_sum_end(1e-3, (const double[]){1e38}, 1, z), ERR_NON_FINITE);
}
END_TEST

int main(void) {
  return SUITE_RUN("push-sum", what_is_given_and_what_stays_is_what_was, told_nobody_nothing_changes,
                   a_sum_is_taken_by_what_it_grew, what_is_no_float_is_refused);
}
