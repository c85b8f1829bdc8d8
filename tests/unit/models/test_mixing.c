#include <math.h>

#include "base/limits.h"
#include "models/merging/mixing.h"
#include "tests/unit/suite.h"

START_TEST(metropolis_is_symmetric_and_takes_the_greater_degree) {
  for (uint32_t a = 0; a < 6; a++)
    for (uint32_t b = 0; b < 6; b++) {
      ck_assert(mixing_metropolis(a, b) == mixing_metropolis(b, a));
      ck_assert(mixing_metropolis(a, b) == 1.0 / (1 + (a > b ? a : b)));
    }
  ck_assert(mixing_metropolis(4, UINT16_MAX) == 1.0 / 65536);
}
END_TEST

START_TEST(by_samples_is_a_share_of_what_is_known) {
  static const uint32_t counts[] = {100, 200, 0, 300, 400};
  ck_assert_double_eq(mixing_by_samples(counts, 5, 1, 0.5), 0.2);
  ck_assert_double_eq(mixing_by_samples(counts, 5, 2, 0.5), 0);
  ck_assert_double_eq(mixing_by_samples(counts, 5, 3, 0.5), 0.3);
  ck_assert_double_eq(mixing_by_samples(counts, 5, 4, 0.5), 0.4);
  ck_assert_double_eq(mixing_by_samples(counts, 5, 4, 0.25), 0.25);
}
END_TEST

START_TEST(a_claim_counts_at_most_five_medians) {
  static const uint32_t counts[] = {100, 100, 100, MAX_SAMPLES};
  ck_assert_double_eq(mixing_by_samples(counts, 4, 3, 0.9), 500.0 / 800);
  ck_assert_double_eq(mixing_by_samples(counts, 4, 1, 0.9), 100.0 / 800);
  static const uint32_t two[] = {100, 1000000}; /* the median of an even number is the mean of the middle two */
  ck_assert_double_eq(mixing_by_samples(two, 2, 1, 1), 1000000.0 / 1000100);
}
END_TEST

START_TEST(shares_never_sum_to_more_than_one) {
  uint32_t counts[MAX_PEERS + 1];
  for (size_t n = 2; n <= MAX_PEERS + 1; n += 17) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
      counts[i] = (uint32_t)(i * 7919 % 1000);
    for (size_t i = 1; i < n; i++)
      sum += mixing_by_samples(counts, n, i, 0.5);
    ck_assert(sum <= 1 + 1e-12);
  }
}
END_TEST

START_TEST(nothing_known_weighs_nothing) {
  static const uint32_t counts[] = {0, 0, 0};
  ck_assert_double_eq(mixing_by_samples(counts, 3, 1, 0.5), 0);
}
END_TEST

START_TEST(lag_weighs_by_its_root) {
  ck_assert_double_eq(mixing_stale(0.25, 0), 0.25);
  ck_assert_double_eq(mixing_stale(0.25, 3), 0.125);
  ck_assert_double_eq(mixing_stale(1, 1), 1 / sqrt(2));
}
END_TEST

int main(void) {
  return SUITE_RUN("mixing", metropolis_is_symmetric_and_takes_the_greater_degree,
                   by_samples_is_a_share_of_what_is_known, a_claim_counts_at_most_five_medians,
                   shares_never_sum_to_more_than_one, nothing_known_weighs_nothing, lag_weighs_by_its_root);
}
