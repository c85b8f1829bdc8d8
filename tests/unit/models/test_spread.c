#include "models/judging/spread.h"

#include <math.h>
#include <stdbool.h>

#include "tests/unit/suite.h"

static bool is_near(double a, double b) {
  return fabs(a - b) < 1e-12;
}

START_TEST(means_and_deviations_are_those_of_the_book) {
  const double values[] = {2, 4, 4, 4, 5, 5, 7, 9}; /* Σ(x − 5)² = 32 */
  struct spread s = spread_of(values, 8);
  ck_assert(is_near(s.mean, 5) && is_near(s.sd, sqrt(32.0 / 7)));
  s = spread_of(values, 1);
  ck_assert(is_near(s.mean, 2) && isnan(s.sd));
  ck_assert(isnan(spread_of(values, 0).mean));
}
END_TEST

START_TEST(weights_count) {
  const double values[] = {1, 4}, weights[] = {3, 1}, none[] = {0, 0};
  ck_assert(is_near(weighted_mean(values, weights, 2), 7.0 / 4));
  ck_assert(isnan(weighted_mean(values, none, 2)));
}
END_TEST

START_TEST(the_worst_decile_is_a_tenth_rounded_up) {
  double values[21];
  for (int i = 0; i < 21; i++)
    values[i] = 20 - i;                            /* 20 … 0 */
  ck_assert(is_near(worst_decile(values, 21), 1)); /* of 0, 1, 2 */
  ck_assert(is_near(worst_decile(values, 10), 0));
  ck_assert(is_near(worst_decile(values, 1), 0));
  ck_assert(isnan(worst_decile(values, 0)));
}
END_TEST

int main(void) {
  return SUITE_RUN("models/spread", means_and_deviations_are_those_of_the_book, weights_count,
                   the_worst_decile_is_a_tenth_rounded_up);
}
