#include "models/continual/matrix.h"

#include <math.h>

#include "tests/unit/suite.h"

enum { N_TURNS = 3 };

START_TEST(the_three_figures_of_a_matrix) {
  const double r[] = {0.9, 0.1, 0.0, 0.5, 0.8, 0.2, 0.6, 0.4, 0.7};
  const size_t trained[] = {0, 1, 2};
  struct continual_summary s = matrix_summary(r, trained, 3, N_TURNS);
  ck_assert_double_eq_tol(s.acc, (0.6 + 0.4 + 0.7) / 3, 1e-12);
  ck_assert_double_eq_tol(s.bwt, ((0.6 - 0.9) + (0.4 - 0.8)) / 2, 1e-12);
  ck_assert_double_eq_tol(s.forgetting, ((0.9 - 0.6) + (0.8 - 0.4)) / 2, 1e-12);
}
END_TEST

/* A task that others taught before its own turn has its best then. */
START_TEST(a_site_with_another_order_has_the_same_figures_of_its_own) {
  const double r[] = {0.2, 0.9, 0.1, 0.8, 0.5, 0.3};
  const size_t trained[] = {1, 0};
  struct continual_summary s = matrix_summary(r, trained, 2, N_TURNS);
  ck_assert_double_eq_tol(s.acc, (0.8 + 0.5) / 2, 1e-12); /* task 2 has not been trained */
  ck_assert_double_eq_tol(s.bwt, 0.5 - 0.9, 1e-12);
  ck_assert_double_eq_tol(s.forgetting, 0.9 - 0.5, 1e-12);
}
END_TEST

/* Chaudhry et al. 2018: the best before the last training; the last row's own best would make it 0. */
START_TEST(what_the_last_task_taught_better_is_forgotten_by_less_than_nothing) {
  const double r[] = {0.6, 0.1, 0.7, 0.9};
  const size_t trained[] = {0, 1};
  struct continual_summary s = matrix_summary(r, trained, 2, 2);
  ck_assert_double_eq_tol(s.forgetting, 0.6 - 0.7, 1e-12);
}
END_TEST

START_TEST(before_a_second_task_nothing_is_forgotten) {
  const double r[] = {0.9, 0.1, 0.0};
  const size_t trained[] = {0};
  struct continual_summary s = matrix_summary(r, trained, 1, N_TURNS), none = matrix_summary(r, trained, 0, N_TURNS);
  ck_assert_double_eq(s.acc, 0.9);
  ck_assert(isnan(s.bwt) && isnan(s.forgetting));
  ck_assert(isnan(none.acc) && isnan(none.bwt) && isnan(none.forgetting));
}
END_TEST

START_TEST(what_was_not_measured_is_left_out) {
  const double r[] = {NAN, 0.1, 0.0, 0.5, 0.8, 0.2, 0.6, 0.4, 0.7};
  const size_t trained[] = {0, 1, 2};
  struct continual_summary s = matrix_summary(r, trained, 3, N_TURNS);
  ck_assert_double_eq_tol(s.bwt, 0.4 - 0.8, 1e-12);
  ck_assert_double_eq_tol(s.forgetting, 0.8 - 0.4, 1e-12);
}
END_TEST

int main(void) {
  return SUITE_RUN("matrix", the_three_figures_of_a_matrix, a_site_with_another_order_has_the_same_figures_of_its_own,
                   what_the_last_task_taught_better_is_forgotten_by_less_than_nothing,
                   before_a_second_task_nothing_is_forgotten, what_was_not_measured_is_left_out);
}
