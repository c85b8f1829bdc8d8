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

/* At every length, so in whole vectors and in what is left of them; wherever the one stands. */
START_TEST(what_is_not_finite_is_found) {
  enum { N = 67 };
  float a[N] = {0}, b[N] = {0}, out[N];
  for (size_t n = 0; n <= N; n++) {
    for (size_t i = 0; i < n; i++) {
      a[i] = 1.5f + (float)i;
      b[i] = -0.25f * (float)i;
    }
    ck_assert(floats_finite(a, n) && floats_add(a, b, n, out));
    for (size_t i = 0; i < n; i++)
      ck_assert(out[i] == 1.5f + (float)i - 0.25f * (float)i);
    ck_assert(floats_add(a, b, n, b)); /* onto itself */
    ck_assert_mem_eq(b, out, n * sizeof *b);
    for (size_t at = 0; at < n; at++) {
      static const float endless[] = {NAN, INFINITY, -INFINITY};
      float held = a[at];
      a[at] = endless[at % 3];
      ck_assert(!floats_finite(a, n) && !floats_add(a, b, n, out) && !isfinite(floats_distance(a, b, n)));
      a[at] = held;
    }
  }
  a[0] = b[0] = 3e38f;
  ck_assert(!floats_add(a, b, 1, out) && isinf(out[0])); /* of two that are */
}
END_TEST

int main(void) {
  return SUITE_RUN("models/floats", a_median_is_in_the_middle, a_scale_of_zero_clears_what_is_not_finite,
                   what_is_not_finite_is_found);
}
