#include "gossip/relay_queue.h"

#include <string.h>

#include "tests/unit/suite.h"

enum { BIG = 256 * 1024 };

static struct fetch_budget budget;
static struct relay_queue queue;
static uint64_t now_ms;

static void begin(uint64_t limit) {
  budget = (struct fetch_budget){.limit = limit};
  relay_queue_init(&queue, &budget);
}

static enum err put(size_t from, size_t to, size_t n, uint8_t word) {
  uint8_t *bytes = NULL;
  enum err e = relay_queue_put(&queue, from, to, n, now_ms, &bytes);
  if (e == ERR_OK)
    memset(bytes, word, n);
  return e;
}

static uint8_t take(size_t to) {
  const struct relay_item *item = relay_queue_first(&queue, to);
  ck_assert_ptr_nonnull(item);
  uint8_t word = item->bytes[0];
  relay_queue_drop(&queue, to);
  return word;
}

static void assert_empty(void) {
  ck_assert_uint_eq(queue.n_pairs, 0);
  ck_assert_uint_eq(queue.n_bytes, 0);
  ck_assert_uint_eq(budget.used, 0);
  ck_assert_ptr_null(queue.pairs);
}

START_TEST(what_comes_first_leaves_first_and_pairs_take_turns) {
  begin(UINT64_MAX);
  for (uint8_t i = 1; i <= 3; i++)
    ck_assert_int_eq(put(0, 2, 100, i), ERR_OK);
  ck_assert_int_eq(put(1, 2, 100, 11), ERR_OK);
  ck_assert_int_eq(put(0, 3, 100, 21), ERR_OK);
  ck_assert_uint_eq(budget.used, (uint64_t)5 * (100 + RELAY_ITEM_BYTES));
  ck_assert_uint_eq(take(2), 1);
  ck_assert_uint_eq(take(2), 11);
  ck_assert_uint_eq(take(2), 2);
  ck_assert_uint_eq(take(2), 3);
  ck_assert_ptr_null(relay_queue_first(&queue, 2));
  ck_assert_uint_eq(take(3), 21);
  assert_empty();
}
END_TEST

START_TEST(a_pair_has_its_bound) {
  begin(UINT64_MAX);
  size_t n = 0;
  while (put(0, 1, BIG, 1) == ERR_OK)
    n++;
  ck_assert_uint_eq(n, MAX_RELAY_PAIR_BYTES / (BIG + RELAY_ITEM_BYTES));
  ck_assert_int_eq(put(0, 1, BIG, 1), ERR_BACKLOG);
  ck_assert_int_eq(put(2, 1, BIG, 1), ERR_OK); /* another pair */
  take(1);
  ck_assert_int_eq(put(0, 1, BIG, 1), ERR_OK);
  relay_queue_done(&queue);
  assert_empty();
}
END_TEST

START_TEST(all_together_have_theirs) {
  begin(UINT64_MAX);
  size_t n = 0;
  for (size_t from = 0; from < 40; from++)
    while (put(from, 50, BIG, 1) == ERR_OK)
      n++;
  ck_assert_uint_eq(n, MAX_RELAY_BYTES / (BIG + RELAY_ITEM_BYTES));
  ck_assert_uint_le(queue.n_bytes, MAX_RELAY_BYTES);
  relay_queue_done(&queue);
  assert_empty();
  for (size_t i = 0; i < MAX_RELAY_PAIRS; i++)
    ck_assert_int_eq(put(i, 100, 1, 1), ERR_OK);
  ck_assert_int_eq(put(99, 100, 1, 1), ERR_BACKLOG);
  ck_assert_int_eq(put(MAX_RELAY_PAIRS - 1, 100, 1, 1), ERR_OK);
  relay_queue_done(&queue);
  assert_empty();
}
END_TEST

/* Payloads and what is relayed share one sum of memory. */
START_TEST(the_budget_is_kept) {
  begin((uint64_t)3 * BIG);
  budget.used = BIG;
  ck_assert_int_eq(put(0, 1, BIG, 1), ERR_OK);
  ck_assert_int_eq(put(0, 1, BIG, 1), ERR_BACKLOG);
  take(1);
  ck_assert_uint_eq(budget.used, BIG);
}
END_TEST

START_TEST(what_concerns_a_peer_is_forgotten) {
  begin(UINT64_MAX);
  ck_assert_int_eq(put(0, 1, 10, 1), ERR_OK);
  ck_assert_int_eq(put(1, 2, 10, 2), ERR_OK);
  ck_assert_int_eq(put(0, 2, 10, 3), ERR_OK);
  relay_queue_forget(&queue, 1);
  ck_assert_uint_eq(take(2), 3);
  assert_empty();
}
END_TEST

START_TEST(what_has_waited_too_long_is_removed) {
  begin(UINT64_MAX);
  now_ms = 1000;
  ck_assert_int_eq(put(0, 1, 10, 1), ERR_OK);
  now_ms = 6000;
  ck_assert_int_eq(put(0, 1, 10, 2), ERR_OK);
  ck_assert_int_eq(put(2, 1, 10, 3), ERR_OK);
  ck_assert_uint_eq(relay_queue_tick(&queue, 999 + RELAY_KEEP_MS), 1000 + RELAY_KEEP_MS);
  ck_assert_uint_eq(budget.used, (uint64_t)3 * (10 + RELAY_ITEM_BYTES));
  ck_assert_uint_eq(relay_queue_tick(&queue, 1000 + RELAY_KEEP_MS), 6000 + RELAY_KEEP_MS);
  ck_assert_uint_eq(budget.used, (uint64_t)2 * (10 + RELAY_ITEM_BYTES));
  ck_assert_uint_eq(take(1), 2);
  ck_assert_uint_eq(relay_queue_tick(&queue, 6000 + RELAY_KEEP_MS), UINT64_MAX);
  assert_empty();
}
END_TEST

START_TEST(who_needs_the_memory_gets_it_from_the_oldest_of_each) {
  begin((uint64_t)4 * (BIG + RELAY_ITEM_BYTES));
  for (uint8_t i = 1; i <= 2; i++) {
    ck_assert_int_eq(put(0, 1, BIG, i), ERR_OK);
    ck_assert_int_eq(put(2, 3, BIG, (uint8_t)(10 + i)), ERR_OK);
  }
  relay_queue_yield(&queue, (uint64_t)2 * BIG);
  ck_assert_uint_eq(budget.used, (uint64_t)2 * (BIG + RELAY_ITEM_BYTES));
  ck_assert_uint_eq(take(1), 2);
  ck_assert_uint_eq(take(3), 12);
  assert_empty();
  ck_assert_int_eq(put(0, 1, BIG, 1), ERR_OK);
  relay_queue_yield(&queue, UINT64_MAX); /* more than there is */
  assert_empty();
}
END_TEST

int main(void) {
  return SUITE_RUN("relay_queue", what_comes_first_leaves_first_and_pairs_take_turns, a_pair_has_its_bound,
                   all_together_have_theirs, the_budget_is_kept, what_concerns_a_peer_is_forgotten,
                   what_has_waited_too_long_is_removed, who_needs_the_memory_gets_it_from_the_oldest_of_each);
}
