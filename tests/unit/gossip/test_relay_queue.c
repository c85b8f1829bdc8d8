#include "gossip/relay_queue.h"

#include <string.h>

#include "tests/unit/suite.h"

enum { BIG = 256 * 1024 };

static struct fetch_budget budget;
static struct relay_queue queue;

static void begin(uint64_t limit) {
  budget = (struct fetch_budget){.limit = limit};
  relay_queue_init(&queue, &budget);
}

static enum err put(size_t from, size_t to, size_t n, uint8_t word) {
  uint8_t *bytes = NULL;
  enum err e = relay_queue_put(&queue, from, to, n, &bytes);
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

int main(void) {
  return SUITE_RUN("relay_queue", what_comes_first_leaves_first_and_pairs_take_turns, a_pair_has_its_bound,
                   all_together_have_theirs, the_budget_is_kept, what_concerns_a_peer_is_forgotten);
}
