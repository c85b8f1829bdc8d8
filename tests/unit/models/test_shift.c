#include "models/clustering/shift.h"

#include "tests/unit/suite.h"

START_TEST(what_stays_is_no_shift) {
  static const uint32_t a[] = {10, 20, 30}, twice[] = {20, 40, 60};
  ck_assert(shift_share(a, a, 3) == 0);
  ck_assert(shift_share(a, twice, 3) == 0);
}
END_TEST

START_TEST(the_share_that_would_have_to_move) {
  static const uint32_t a[] = {50, 50, 0}, b[] = {50, 25, 25}, c[] = {0, 0, 7};
  ck_assert(shift_share(a, b, 3) == 0.25);
  ck_assert(shift_share(b, a, 3) == 0.25);
  ck_assert(shift_share(a, c, 3) == 1);
}
END_TEST

START_TEST(classes_that_change_places_are_a_shift) {
  static const uint32_t a[] = {90, 10}, b[] = {10, 90};
  ck_assert(shift_share(a, b, 2) == 0.8);
}
END_TEST

START_TEST(many_samples_do_not_overflow) {
  static const uint32_t a[] = {1u << 27, 0}, b[] = {0, 1u << 27}, none[] = {0, 0};
  ck_assert(shift_share(a, b, 2) == 1);
  ck_assert(shift_share(a, none, 2) == 1);
  ck_assert(shift_share(none, b, 2) == 1);
  ck_assert(shift_share(none, none, 2) == 0);
}
END_TEST

int main(void) {
  return SUITE_RUN("shift", what_stays_is_no_shift, the_share_that_would_have_to_move,
                   classes_that_change_places_are_a_shift, many_samples_do_not_overflow);
}
