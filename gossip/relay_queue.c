#include "gossip/relay_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/must.h"

void relay_queue_init(struct relay_queue *q, struct fetch_budget *budget) {
  *q = (struct relay_queue){.budget = budget};
}

static size_t cost_of(size_t n) {
  return n + RELAY_ITEM_BYTES;
}

static void item_free(struct relay_queue *q, struct relay_pair *pair) {
  struct relay_item *item = pair->first;
  size_t cost = cost_of(item->n);
  pair->first = item->next;
  pair->n_bytes -= cost;
  q->n_bytes -= cost;
  q->budget->used -= cost;
  free(item);
}

static void pair_remove(struct relay_queue *q, size_t i) {
  memmove(q->pairs + i, q->pairs + i + 1, (--q->n_pairs - i) * sizeof *q->pairs);
  if (q->n_pairs > 0)
    return;
  free(q->pairs);
  q->pairs = NULL;
  q->capacity = 0;
}

static void pair_clear(struct relay_queue *q, size_t i) {
  while (q->pairs[i].first)
    item_free(q, &q->pairs[i]);
  pair_remove(q, i);
}

void relay_queue_done(struct relay_queue *q) {
  while (q->n_pairs > 0)
    pair_clear(q, q->n_pairs - 1);
}

static size_t pair_find(const struct relay_queue *q, size_t from, size_t to) {
  size_t i = 0;
  while (i < q->n_pairs && (q->pairs[i].from != from || q->pairs[i].to != to))
    i++;
  return i;
}

/* The i-th, or one more; NULL: no memory. */
static struct relay_pair *pair_place(struct relay_queue *q, size_t i, size_t from, size_t to) {
  if (i < q->n_pairs)
    return &q->pairs[i];
  struct relay_pair *pairs = array_grown(q->pairs, &q->capacity, i, sizeof *pairs, MAX_RELAY_PAIRS);
  if (!pairs)
    return NULL;
  q->pairs = pairs;
  q->pairs[q->n_pairs] = (struct relay_pair){.from = from, .to = to};
  return &q->pairs[q->n_pairs++];
}

enum err relay_queue_put(struct relay_queue *q, size_t from, size_t to, size_t n, uint64_t now_ms,
                         uint8_t **out_bytes) {
  size_t i = pair_find(q, from, to), cost = cost_of(n), held = i < q->n_pairs ? q->pairs[i].n_bytes : 0;
  if (cost > MAX_RELAY_PAIR_BYTES - held || cost > MAX_RELAY_BYTES - q->n_bytes ||
      cost > q->budget->limit - q->budget->used || i == MAX_RELAY_PAIRS)
    return ERR_BACKLOG;
  struct relay_item *item = malloc(sizeof *item + n);
  struct relay_pair *pair = item ? pair_place(q, i, from, to) : NULL;
  if (!pair) {
    free(item);
    return ERR_NO_MEMORY;
  }
  *item = (struct relay_item){.n = n, .until_ms = now_ms + RELAY_KEEP_MS};
  if (pair->first)
    pair->last->next = item;
  else
    pair->first = item;
  pair->last = item;
  pair->n_bytes += cost;
  q->n_bytes += cost;
  q->budget->used += cost;
  *out_bytes = item->bytes;
  return ERR_OK;
}

static size_t next_to(const struct relay_queue *q, size_t to) {
  size_t i = 0;
  while (i < q->n_pairs && q->pairs[i].to != to)
    i++;
  return i;
}

const struct relay_item *relay_queue_first(const struct relay_queue *q, size_t to) {
  size_t i = next_to(q, to);
  return i < q->n_pairs ? q->pairs[i].first : NULL;
}

/* The first of the i-th pair, which has had its turn. */
static void pair_drop(struct relay_queue *q, size_t i) {
  item_free(q, &q->pairs[i]);
  struct relay_pair pair = q->pairs[i];
  if (!pair.first) {
    pair_remove(q, i);
    return;
  }
  memmove(q->pairs + i, q->pairs + i + 1, (q->n_pairs - 1 - i) * sizeof *q->pairs);
  q->pairs[q->n_pairs - 1] = pair;
}

void relay_queue_drop(struct relay_queue *q, size_t to) {
  size_t i = next_to(q, to);
  MUST(i < q->n_pairs);
  pair_drop(q, i);
}

uint64_t relay_queue_tick(struct relay_queue *q, uint64_t now_ms) {
  uint64_t due_ms = UINT64_MAX;
  for (size_t i = q->n_pairs; i-- > 0;) {
    struct relay_pair *pair = &q->pairs[i];
    while (pair->first && pair->first->until_ms <= now_ms)
      item_free(q, pair);
    if (!pair->first)
      pair_remove(q, i);
    else if (pair->first->until_ms < due_ms)
      due_ms = pair->first->until_ms;
  }
  return due_ms;
}

void relay_queue_yield(struct relay_queue *q, uint64_t n) {
  while (q->n_pairs > 0 && q->budget->limit - q->budget->used < n)
    pair_drop(q, 0);
}

void relay_queue_forget(struct relay_queue *q, size_t peer) {
  for (size_t i = q->n_pairs; i-- > 0;)
    if (q->pairs[i].from == peer || q->pairs[i].to == peer)
      pair_clear(q, i);
}
