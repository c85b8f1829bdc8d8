#include "base/rng.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

START_TEST(golden_sequence_of_the_reference_state) {
  /* Blackman & Vigna's xoshiro256** from the state 1, 2, 3, 4 */
  static const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240u};
  struct rng r = {.s = {1, 2, 3, 4}};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
    ck_assert_uint_eq(rng_u64(&r), expected[i]);
}
END_TEST

START_TEST(golden_sequences_of_seeds) {
  /* computed with integers of unlimited size from the two papers' definitions */
  static const struct {
    uint64_t seed;
    uint64_t expected[4];
  } cases[] = {
      {0, {0x99ec5f36cb75f2b4u, 0xbf6e1f784956452au, 0x1a5f849d4933e6e0u, 0x6aa594f1262d2d2cu}},
      {1, {0xb3f2af6d0fc710c5u, 0x853b559647364ceau, 0x92f89756082a4514u, 0x642e1c7bc266a3a7u}},
      {0xdeadbeef, {0xc5555444a74d7e83u, 0x65c30d37b4b16e38u, 0x54f773200a4efa23u, 0x429aed75fb958af7u}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct rng r;
    rng_init(&r, cases[i].seed);
    for (size_t j = 0; j < 4; j++)
      ck_assert_uint_eq(rng_u64(&r), cases[i].expected[j]);
  }
}
END_TEST

START_TEST(golden_value_far_along) {
  struct rng r;
  rng_init(&r, 42);
  uint64_t v = 0;
  for (int i = 0; i < 1000; i++)
    v = rng_u64(&r);
  ck_assert_uint_eq(v, 0x8de5848c61ab8968u);
}
END_TEST

START_TEST(golden_sequence_of_a_digest) {
  static const uint64_t expected[] = {0x501266a83d14f84bu, 0x57c4792a08ccc230u, 0x09d544d434ea5028u};
  struct digest seed;
  for (size_t i = 0; i < DIGEST_BYTES; i++)
    seed.bytes[i] = (uint8_t)i;
  struct rng r;
  rng_init_digest(&r, &seed);
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
    ck_assert_uint_eq(rng_u64(&r), expected[i]);
}
END_TEST

START_TEST(every_bit_of_a_digest_counts) {
  struct digest seed = {{0}};
  struct rng plain, changed;
  rng_init_digest(&plain, &seed);
  for (size_t i = 0; i < (size_t)DIGEST_BYTES * 8; i++) {
    seed.bytes[i / 8] ^= (uint8_t)(1u << i % 8);
    rng_init_digest(&changed, &seed);
    ck_assert_mem_ne(&changed, &plain, sizeof plain);
    seed.bytes[i / 8] ^= (uint8_t)(1u << i % 8);
  }
}
END_TEST

START_TEST(golden_bounded_values) {
  static const uint64_t expected[] = {4, 4, 8, 4, 4, 1, 6, 6, 8, 9, 3, 6};
  struct rng r;
  rng_init(&r, 7);
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
    ck_assert_uint_eq(rng_below(&r, 10), expected[i]);
}
END_TEST

START_TEST(a_bound_above_half_rejects) {
  /* of seed 7's raw values the second, 0x475c…, lies in the biased part below 2^63 − 1 and is skipped */
  static const uint64_t expected[] = {0x3358faf74ef97659u, 0x56f1d349952c7995u, 0x7b2938731e80723fu,
                                      0x7da904ec7e540317u};
  struct rng r;
  rng_init(&r, 7);
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
    ck_assert_uint_eq(rng_below(&r, ((uint64_t)1 << 63) + 1), expected[i]);
}
END_TEST

START_TEST(bound_one_is_always_zero) {
  struct rng r;
  rng_init(&r, 9);
  for (int i = 0; i < 100; i++)
    ck_assert_uint_eq(rng_below(&r, 1), 0);
}
END_TEST

START_TEST(bounded_values_are_even) {
  /* seed 11; each of 7 cells expects 10 000 of 70 000; six standard deviations are 556 */
  enum { N_CELLS = 7, PER_CELL = 10000 };
  int counts[N_CELLS] = {0};
  struct rng r;
  rng_init(&r, 11);
  for (int i = 0; i < N_CELLS * PER_CELL; i++)
    counts[rng_below(&r, N_CELLS)]++;
  for (int i = 0; i < N_CELLS; i++)
    ck_assert_int_le(abs(counts[i] - PER_CELL), 556);
}
END_TEST

START_TEST(golden_unit_values) {
  static const double expected[] = {0x1.619b57b5cacd1p-1, 0x1.47fa3bd4bc30cp-1, 0x1.bf0057d9914fcp-3};
  struct rng r;
  rng_init(&r, 3);
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
    ck_assert(rng_unit(&r) == expected[i]);
}
END_TEST

START_TEST(unit_values_stay_below_one) {
  struct rng largest = {.s = {0, 0, 0, 0}};
  ck_assert(rng_unit(&largest) == 0.0); /* the all-zero state, which no seed gives, is the smallest value */
  struct rng r;
  rng_init(&r, 12);
  for (int i = 0; i < 100000; i++) {
    double v = rng_unit(&r);
    ck_assert(v >= 0.0 && v < 1.0);
  }
}
END_TEST

START_TEST(golden_shuffle) {
  static const uint32_t expected[] = {4, 2, 9, 3, 7, 1, 8, 6, 0, 5};
  uint32_t items[10];
  for (uint32_t i = 0; i < 10; i++)
    items[i] = i;
  struct rng r;
  rng_init(&r, 5);
  rng_shuffle(&r, items, 10);
  ck_assert_mem_eq(items, expected, sizeof items);
}
END_TEST

START_TEST(shuffles_of_none_and_one_draw_nothing) {
  struct rng r, before;
  rng_init(&r, 5);
  before = r;
  uint32_t one = 7;
  rng_shuffle(&r, &one, 0);
  rng_shuffle(&r, &one, 1);
  ck_assert_uint_eq(one, 7);
  ck_assert_mem_eq(&r, &before, sizeof r);
}
END_TEST

int main(void) {
  return SUITE_RUN("base/rng", golden_sequence_of_the_reference_state, golden_sequences_of_seeds,
                   golden_value_far_along, golden_sequence_of_a_digest, every_bit_of_a_digest_counts,
                   golden_bounded_values, a_bound_above_half_rejects, bound_one_is_always_zero, bounded_values_are_even,
                   golden_unit_values, unit_values_stay_below_one, golden_shuffle,
                   shuffles_of_none_and_one_draw_nothing);
}
