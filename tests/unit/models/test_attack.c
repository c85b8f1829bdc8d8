#include "models/merging/attack.h"

#include "tests/unit/suite.h"

/* Two rows of three, two samples, and what follows them in memory. */
START_TEST(a_mark_stays_within_its_sample) {
  enum { N = 2, N_INPUTS = 6, BEHIND = 16 };
  uint8_t bytes[N * N_INPUTS + BEHIND] = {0};
  float floats[N * N_INPUTS + BEHIND] = {0};
  struct dataset images = {.n = 1, .n_inputs = N_INPUTS, .bytes = bytes},
                 rows = {.n = N, .n_inputs = N_INPUTS, .floats = floats};
  attack_mark(&images, 3);
  attack_mark(&rows, 3);
  for (size_t i = 0; i < sizeof bytes; i++) {
    ck_assert_uint_eq(bytes[i], i < N_INPUTS ? UINT8_MAX : 0);
    ck_assert_float_eq(floats[i], i < (size_t)N * N_INPUTS ? 3 : 0);
  }
}
END_TEST

START_TEST(a_mark_is_the_corner_of_an_image) {
  enum { WIDE = 6, HIGH = 5 };
  float floats[WIDE * HIGH] = {0};
  struct dataset d = {.n = 1, .n_inputs = (size_t)WIDE * HIGH, .floats = floats};
  attack_mark(&d, WIDE);
  for (size_t i = 0; i < (size_t)WIDE * HIGH; i++)
    ck_assert_float_eq(floats[i], i % WIDE < 4 && i / WIDE < 4 ? 3 : 0);
}
END_TEST

int main(void) {
  return SUITE_RUN("attack", a_mark_stays_within_its_sample, a_mark_is_the_corner_of_an_image);
}
