#include "base/checked.h"
#include "tests/unit/suite.h"

START_TEST(sums_that_fit) {
  size_t out = 0;
  ck_assert(size_add(SIZE_MAX - 1, 1, &out));
  ck_assert_uint_eq(out, SIZE_MAX);
  ck_assert(size_add(0, 0, &out));
  ck_assert_uint_eq(out, 0);
}
END_TEST

START_TEST(sums_that_wrap_leave_the_output) {
  size_t out = 77;
  ck_assert(!size_add(SIZE_MAX, 1, &out));
  ck_assert(!size_add(SIZE_MAX / 2 + 1, SIZE_MAX / 2 + 1, &out));
  ck_assert_uint_eq(out, 77);
}
END_TEST

START_TEST(products_that_fit) {
  size_t out = 77;
  ck_assert(size_mul(0, SIZE_MAX, &out));
  ck_assert_uint_eq(out, 0);
  ck_assert(size_mul(SIZE_MAX / 3, 3, &out));
  ck_assert_uint_eq(out, SIZE_MAX / 3 * 3);
}
END_TEST

START_TEST(products_that_wrap_leave_the_output) {
  size_t out = 77;
  ck_assert(!size_mul(SIZE_MAX / 3 + 1, 3, &out));
  ck_assert(!size_mul((size_t)1 << 32, (size_t)1 << 32, &out));
  ck_assert_uint_eq(out, 77);
}
END_TEST

START_TEST(the_output_may_be_an_operand) {
  size_t total = 5;
  ck_assert(size_add(total, 6, &total));
  ck_assert(size_mul(total, 2, &total));
  ck_assert_uint_eq(total, 22);
}
END_TEST

int main(void) {
  return SUITE_RUN("base/checked", sums_that_fit, sums_that_wrap_leave_the_output, products_that_fit,
                   products_that_wrap_leave_the_output, the_output_may_be_an_operand);
}
