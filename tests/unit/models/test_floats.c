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

int main(void) {
  return SUITE_RUN("models/floats", a_median_is_in_the_middle);
}
