#include "agent/core/deadline.h"
#include "tests/unit/suite.h"

START_TEST(few_samples_wait_for_trainings_within_the_bounds) {
  struct deadline d;
  deadline_init(&d, 1000, 120000);
  ck_assert_uint_eq(deadline_ms(&d, 0), 5000);
  ck_assert_uint_eq(deadline_ms(&d, 2000), 11000);
  ck_assert_uint_eq(deadline_ms(&d, 60000), 120000);
  for (size_t i = 0; i + 1 < DEADLINE_ENOUGH; i++)
    deadline_sample(&d, 10);
  ck_assert_uint_eq(deadline_ms(&d, 2000), 11000);
  deadline_sample(&d, 10);
  ck_assert_uint_eq(deadline_ms(&d, 2000), 1000);
  deadline_done(&d);
  deadline_init(&d, 60000, 120000);
  ck_assert_uint_eq(deadline_ms(&d, 0), 60000);
  deadline_done(&d);
}
END_TEST

START_TEST(enough_samples_give_one_and_a_half_times_their_95th_percentile) {
  struct deadline d;
  deadline_init(&d, 1, 1000000);
  for (uint64_t i = 1; i <= 8; i++)
    deadline_sample(&d, 1000 * (9 - i));
  ck_assert_uint_eq(deadline_ms(&d, 0), 12000); /* of 8 the greatest */
  for (uint64_t i = 9; i <= DEADLINE_SAMPLES; i++)
    deadline_sample(&d, 100);
  ck_assert_uint_eq(deadline_ms(&d, 0), 10500); /* of 32 the 31st: 7000 */
  deadline_done(&d);
}
END_TEST

START_TEST(the_ring_forgets_the_oldest) {
  struct deadline d;
  deadline_init(&d, 1, 1000000);
  for (size_t i = 0; i < DEADLINE_SAMPLES; i++)
    deadline_sample(&d, 50000);
  for (size_t i = 0; i < DEADLINE_SAMPLES - 2; i++)
    deadline_sample(&d, 200);
  ck_assert_uint_eq(deadline_ms(&d, 0), 75000);
  deadline_sample(&d, 200);
  ck_assert_uint_eq(deadline_ms(&d, 0), 300);
  deadline_done(&d);
}
END_TEST

START_TEST(a_missing_sample_is_corrected_while_it_is_remembered) {
  struct deadline d;
  deadline_init(&d, 1, 1000000);
  for (size_t i = 0; i < DEADLINE_ENOUGH - 1; i++)
    deadline_sample(&d, 100);
  uint64_t missing = deadline_sample(&d, 20000);
  ck_assert_uint_eq(deadline_ms(&d, 0), 30000);
  deadline_correct(&d, missing, 12000);
  ck_assert_uint_eq(deadline_ms(&d, 0), 18000);
  for (size_t i = 0; i < DEADLINE_SAMPLES; i++)
    deadline_sample(&d, 100);
  deadline_correct(&d, missing, 99999); /* its place belongs to another by now */
  deadline_correct(&d, d.n_arrivals, 99999);
  ck_assert_uint_eq(deadline_ms(&d, 0), 150);
  deadline_done(&d);
}
END_TEST

int main(void) {
  return SUITE_RUN("deadline", few_samples_wait_for_trainings_within_the_bounds,
                   enough_samples_give_one_and_a_half_times_their_95th_percentile, the_ring_forgets_the_oldest,
                   a_missing_sample_is_corrected_while_it_is_remembered);
}
