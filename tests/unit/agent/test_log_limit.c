#include "agent/run/log_limit.h"
#include "tests/unit/suite.h"

#include <stdio.h>

static uint32_t n_taken(struct log_limit *l, const char *event, const char *peer, uint64_t now_ms, uint32_t n) {
  uint32_t n_taken = 0, left_out;
  while (n-- > 0)
    n_taken += log_limit_take(l, event, peer, now_ms, &left_out);
  return n_taken;
}

START_TEST(a_burst_then_one_a_minute) {
  static struct log_limit l;
  const uint64_t start = 5000000;
  ck_assert_uint_eq(n_taken(&l, "refused", "mec-03", start, 10), LOG_LIMIT_BURST);
  ck_assert_uint_eq(n_taken(&l, "refused", "mec-03", start + LOG_LIMIT_MS - 1, 5), 0);
  uint32_t left_out = 0;
  ck_assert(log_limit_take(&l, "refused", "mec-03", start + LOG_LIMIT_MS, &left_out));
  ck_assert_uint_eq(left_out, 12);
  ck_assert(!log_limit_take(&l, "refused", "mec-03", start + LOG_LIMIT_MS, &left_out));
}
END_TEST

START_TEST(a_steady_stream_of_an_hour_is_bounded) {
  static struct log_limit l;
  uint32_t n = 0;
  for (uint64_t ms = 0; ms < 3600000; ms += 100)
    n += n_taken(&l, "session-up", "mec-03", ms, 1);
  ck_assert_uint_eq(n, LOG_LIMIT_BURST + 59);
}
END_TEST

START_TEST(pairs_are_apart) {
  static struct log_limit l;
  ck_assert_uint_eq(n_taken(&l, "refused", "mec-03", 1, 10), LOG_LIMIT_BURST);
  ck_assert_uint_eq(n_taken(&l, "refused", "mec-04", 1, 10), LOG_LIMIT_BURST);
  ck_assert_uint_eq(n_taken(&l, "session-up", "mec-03", 1, 10), LOG_LIMIT_BURST);
  ck_assert_uint_eq(n_taken(&l, "refusedm", "ec-03", 1, 10), LOG_LIMIT_BURST);
}
END_TEST

START_TEST(a_quiet_time_gives_the_burst_back_but_no_more) {
  static struct log_limit l;
  ck_assert_uint_eq(n_taken(&l, "refused", "mec-03", 1, 10), LOG_LIMIT_BURST);
  ck_assert_uint_eq(n_taken(&l, "refused", "mec-03", (uint64_t)100 * LOG_LIMIT_MS, 10), LOG_LIMIT_BURST);
}
END_TEST

START_TEST(many_pairs_push_out_the_oldest_only) {
  static struct log_limit l;
  char peer[32];
  for (int i = 0; i < 20000; i++) {
    snprintf(peer, sizeof peer, "10.0.%d.%d", i / 256, i % 256);
    ck_assert_uint_eq(n_taken(&l, "unknown-key", peer, 1000 + (uint64_t)i, 4), LOG_LIMIT_BURST);
  }
  ck_assert_uint_eq(n_taken(&l, "unknown-key", peer, 21000, 1), 0);
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/log_limit", a_burst_then_one_a_minute, a_steady_stream_of_an_hour_is_bounded, pairs_are_apart,
                   a_quiet_time_gives_the_burst_back_but_no_more, many_pairs_push_out_the_oldest_only);
}
