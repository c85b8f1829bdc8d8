#include <math.h>

#include "models/floats.h"
#include "tests/unit/suite.h"

START_TEST(a_median_is_in_the_middle) {
  double none[1] = {7}, one[] = {3}, even[] = {4, -1, 10, 2}, odd[] = {5, 5, -2, 8, 1};
  ck_assert(doubles_median(none, 0) == 0 && none[0] == 7);
  ck_assert(doubles_median(one, 1) == 3);
  ck_assert(doubles_median(even, 4) == 3);
  ck_assert(even[0] == -1 && even[1] == 2 && even[2] == 4 && even[3] == 10);
  ck_assert(doubles_median(odd, 5) == 5);
}
END_TEST

START_TEST(a_scale_of_zero_clears_what_is_not_finite) {
  float x[] = {1, -2, NAN, INFINITY};
  floats_scale(x, 2, 0.5f);
  ck_assert(x[0] == 0.5f && x[1] == -1 && isnan(x[2]));
  floats_scale(x, 4, 0);
  ck_assert(x[0] == 0 && x[1] == 0 && x[2] == 0 && x[3] == 0);
}
END_TEST

int main(void) {
  return SUITE_RUN("models/floats", a_median_is_in_the_middle, a_scale_of_zero_clears_what_is_not_finite);
}
