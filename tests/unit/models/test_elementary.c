/* exp and its kin against libm in double, over arguments of every size and sign. */
#include "models/kernels/elementary.h"

#include <math.h>
#include <stdbool.h>

#include "tests/unit/suite.h"

#define STEP 65521u /* a prime: every exponent comes up with many mantissas */

/* Every STEP-th bit pattern that is a finite number between lo and hi. */
static bool next_argument(uint32_t *bits, float lo, float hi, float *out_x) {
  while (*bits < UINT32_MAX - STEP) {
    *bits += STEP;
    memcpy(out_x, bits, sizeof *out_x);
    if (*out_x >= lo && *out_x <= hi)
      return true;
  }
  return false;
}

/* |got − expected|, relative where the true value is above `floor`. */
static void hold(const char *what, float x, double got, double expected, double floor, double tolerance) {
  double error = fabs(got - expected) / fmax(fabs(expected), floor);
  ck_assert_msg(error <= tolerance, "%s(%.9g) = %.9g, truly %.9g", what, (double)x, got, expected);
}

START_TEST(close_to_the_truth) {
  const double least = 0x1p-126, tolerance = 2e-7;
  float x, density;
  for (uint32_t bits = 0; next_argument(&bits, -86, 87.5f, &x);) {
    hold("exp", x, fast_exp(x), exp((double)x), least, tolerance);
    hold("expm1", x, fast_expm1(x), expm1((double)x), least, tolerance);
  }
  for (uint32_t bits = 0; next_argument(&bits, -1e30f, 1e30f, &x);) {
    double wide = x;
    hold("tanh", x, fast_tanh(x), tanh(wide), least, tolerance);
    hold("sigmoid", x, fast_sigmoid(x), 1 / (1 + exp(-wide)), 1, tolerance);
    hold("softplus", x, fast_softplus(x), fmax(wide, 0) + log1p(exp(-fabs(wide))), 1, tolerance);
    hold("normal", x, fast_normal(x, &density), 0.5 * erfc(-wide / sqrt(2)), 1, 1.5 * tolerance);
    hold("density", x, density, exp(-wide * wide / 2) / sqrt(2 * acos(-1)), 1, tolerance);
  }
}
END_TEST

START_TEST(ends_and_nan) {
  float density;
  ck_assert_float_finite(fast_exp(INFINITY));
  ck_assert_float_ge(fast_exp(-INFINITY), 0);
  ck_assert_float_eq(fast_tanh(-INFINITY), -1);
  ck_assert_float_eq(fast_sigmoid(INFINITY), 1);
  ck_assert_float_eq(fast_normal(-INFINITY, &density), 0);
  ck_assert_float_eq(fast_tanh(0), 0);
  ck_assert_float_nan(fast_exp(NAN));
  ck_assert_float_nan(fast_expm1(NAN));
  ck_assert_float_nan(fast_tanh(NAN));
  ck_assert_float_nan(fast_sigmoid(NAN));
  ck_assert_float_nan(fast_softplus(NAN));
  ck_assert_float_nan(fast_normal(NAN, &density));
}
END_TEST

int main(void) {
  return SUITE_RUN("elementary", close_to_the_truth, ends_and_nan);
}
