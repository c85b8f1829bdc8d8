#include "gossip/allowance.h"

#include "crypto/frame.h"
#include "gossip/message.h"
#include "tests/unit/suite.h"

static struct allowance a;
static const uint64_t rate = ALLOWANCE_UNITS_S, burst = ALLOWANCE_BURST, patience_ms = ALLOWANCE_PATIENCE_MS;

/* `n` frames of one unit in each of `ms` milliseconds; how many were allowed before it floods. */
static uint64_t spend(uint64_t from_ms, uint64_t ms, uint64_t n) {
  uint64_t n_allowed = 0;
  for (uint64_t now_ms = from_ms; now_ms < from_ms + ms; now_ms++)
    for (uint64_t i = 0; i < n; i++, n_allowed++)
      if (!allowance_spend(&a, 1, now_ms))
        return n_allowed;
  return n_allowed;
}

START_TEST(a_rate_may_last_for_ever) {
  allowance_init(&a, 5);
  ck_assert_uint_eq(spend(5, 60000, rate / 1000), 60 * rate);
}
END_TEST

START_TEST(a_burst_of_any_size_is_no_flood) {
  allowance_init(&a, 5);
  ck_assert_uint_eq(spend(5, 1, 1000000), 1000000);
  ck_assert_uint_eq(spend(1005, 60000, rate / 1000), 60 * rate);
}
END_TEST

START_TEST(who_keeps_it_empty_floods) {
  allowance_init(&a, 5);
  uint64_t n = 10 * rate / 1000, n_allowed = spend(5, 10000, n);
  ck_assert_uint_ge(n_allowed, burst + patience_ms * n);
  ck_assert_uint_le(n_allowed, 2 * burst + patience_ms * n);
}
END_TEST

START_TEST(chunks_that_were_wanted_are_free) {
  uint64_t units = allowance_cost(MESSAGE_CHUNK, CHUNK_BYTES);
  ck_assert_uint_eq(units, 1 + CHUNK_BYTES / 512);
  allowance_init(&a, 0);
  uint64_t n_allowed = 0;
  for (uint64_t i = 0; i < 1000000; i++) { /* a ck_assert each would take seconds */
    n_allowed += allowance_spend(&a, units, i / 100);
    allowance_return(&a, units);
  }
  ck_assert_uint_eq(n_allowed, 1000000);
}
END_TEST

/* All that a joiner is told, at once, with the longest names and addresses. */
START_TEST(a_whole_swarm_is_no_flood) {
  enum { OBJECT_BYTES = 3 + STATEMENT_MAX_BYTES };
  size_t n = frame_bytes(1 + MAX_NEWS * OBJECT_BYTES);
  uint64_t units = 0;
  allowance_init(&a, 5);
  for (size_t i = 0; i < MAX_MEMBERS / MAX_NEWS; i++) {
    units += allowance_cost(MESSAGE_NEWS, n) + allowance_cost(MESSAGE_SYNC, frame_bytes(MEMBERS_HASH_BYTES));
    units -= allowance_news_rest(MAX_NEWS, MAX_NEWS * (size_t)STATEMENT_MAX_BYTES);
  }
  ck_assert_uint_lt(units, burst);
  ck_assert_uint_eq(allowance_news_rest(1, 128), 0);
  ck_assert_uint_eq(allowance_news_rest(2, 100), 0);
}
END_TEST

START_TEST(what_makes_work_costs_more) {
  ck_assert_uint_eq(allowance_cost(MESSAGE_STATE, 100), 1);
  ck_assert_uint_gt(allowance_cost(MESSAGE_ASK, 100), allowance_cost(MESSAGE_STATE, 100));
  ck_assert_uint_gt(allowance_cost(MESSAGE_MANIFEST, 100), allowance_cost(MESSAGE_ASK, 100));
  uint64_t list = allowance_cost(MESSAGE_STATE, (size_t)MAX_MEMBERS * LISTED_BYTES);
  ck_assert_uint_ge(allowance_cost(MESSAGE_SYNC, 100), list);
  ck_assert_uint_ge(allowance_cost(MESSAGE_LIST, 100), list);
  ck_assert_uint_eq(allowance_cost(MESSAGE_END, 100), 1);
}
END_TEST

int main(void) {
  return SUITE_RUN("allowance", a_rate_may_last_for_ever, a_burst_of_any_size_is_no_flood, who_keeps_it_empty_floods,
                   chunks_that_were_wanted_are_free, a_whole_swarm_is_no_flood, what_makes_work_costs_more);
}
