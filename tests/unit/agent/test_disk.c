#include "agent/core/disk.h"
#include "tests/unit/suite.h"

static const uint64_t MIB = 1 << 20;

/* A round writes 10 MiB; three models are kept. */
static struct disk ladder(uint64_t max_mib) {
  struct disk d = {.max_bytes = max_mib * MIB, .n_kept = 3};
  disk_expect(&d, 6 * MIB, 4 * MIB);
  return d;
}

static bool measure(struct disk *d, uint64_t free_mib, uint64_t used_mib) {
  return disk_measured(d, &(struct store_room){free_mib * MIB, used_mib * MIB}, 5000);
}

START_TEST(a_filling_disk_goes_down_the_ladder_and_up_again) {
  static const struct {
    uint64_t free_mib;
    enum disk_state state;
    uint64_t left;
  } steps[] = {
      {100, DISK_OK, 9}, {31, DISK_OK, 3},   {30, DISK_LOW, 2},  {60, DISK_LOW, 5},   {70, DISK_LOW, 6},
      {71, DISK_OK, 7},  {30, DISK_LOW, 2},  {11, DISK_LOW, 1},  {10, DISK_TIGHT, 0}, {20, DISK_TIGHT, 1},
      {21, DISK_LOW, 2}, {0, DISK_TIGHT, 0}, {500, DISK_OK, 49}, {10, DISK_TIGHT, 0},
  };
  struct disk d = ladder(0);
  enum disk_state before = DISK_OK;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    ck_assert_int_eq(measure(&d, steps[i].free_mib, 0), steps[i].state != before);
    ck_assert_msg(disk_state(&d) == steps[i].state, "step %zu: %s", i, disk_state_name(disk_state(&d)));
    ck_assert_uint_eq(disk_rounds_left(&d), steps[i].left);
    before = steps[i].state;
  }
}
END_TEST

START_TEST(the_cap_counts_what_is_used) {
  struct disk d = ladder(100);
  ck_assert(!measure(&d, 1000, 40));
  ck_assert_uint_eq(disk_free_bytes(&d), 60 * MIB);
  ck_assert(measure(&d, 1000, 75));
  ck_assert_int_eq(disk_state(&d), DISK_LOW);
  ck_assert(measure(&d, 1000, 200)); /* it was larger before the cap was set */
  ck_assert_uint_eq(disk_free_bytes(&d), 0);
  ck_assert_int_eq(disk_state(&d), DISK_TIGHT);
  ck_assert(!measure(&d, 5, 10)); /* whichever is less */
  ck_assert_uint_eq(disk_free_bytes(&d), 5 * MIB);
}
END_TEST

START_TEST(halted_is_above_all_and_measured_for) {
  struct disk d = ladder(0);
  ck_assert_uint_eq(disk_due_ms(&d), 0); /* at once: nothing is known */
  ck_assert(!measure(&d, 100, 0));
  ck_assert_uint_eq(disk_due_ms(&d), UINT64_MAX);
  ck_assert(disk_set_halted(&d, true));
  ck_assert(!disk_set_halted(&d, true));
  ck_assert_int_eq(disk_state(&d), DISK_HALTED);
  ck_assert_uint_eq(disk_due_ms(&d), 5000 + DISK_MEASURE_MS);
  ck_assert(!measure(&d, 5, 0));
  ck_assert_int_eq(disk_state(&d), DISK_HALTED);
  ck_assert(disk_set_halted(&d, false));
  ck_assert_int_eq(disk_state(&d), DISK_TIGHT);
  ck_assert_str_eq(disk_state_name(disk_state(&d)), "tight");
}
END_TEST

START_TEST(the_largest_round_counts) {
  struct disk d = {0};
  uint64_t publish, commit;
  disk_forecast(100, 1000, 3, &publish, &commit);
  disk_expect(&d, publish, commit);
  ck_assert_uint_eq(disk_round_bytes(&d), 100 + 3 * 1000 + 1000);
  disk_expect(&d, 50, 9000);
  ck_assert_uint_eq(disk_round_bytes(&d), 100 + 3 * 1000 + 9000);
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/disk", a_filling_disk_goes_down_the_ladder_and_up_again, the_cap_counts_what_is_used,
                   halted_is_above_all_and_measured_for, the_largest_round_counts);
}
