/* Frames that one peer sends to another over us (relay.c), from when they came until the other's connection takes them.
 * Bounded: in bytes for each pair and in all, in time, and by the receive memory that payloads share (struct fetch_budget), where
 * own payloads come first; what does not fit is refused and what has waited too long removed, which for the sealed session inside
 * is a lost frame. Of several pairs that send to one peer each has
 * its turn. Nothing is allocated before the first frame, nothing kept after the last. Pure; the loop thread. */
#ifndef GOSSIP_RELAY_QUEUE_H
#define GOSSIP_RELAY_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gossip/fetch.h"

enum {
  MAX_RELAY_PAIR_BYTES = 9 * 256 * 1024, /* a window of chunks (fetch.h) and what is said beside it */
  MAX_RELAY_BYTES = 8 * 1024 * 1024,
  MAX_RELAY_PAIRS = 64,   /* with something waiting */
  RELAY_ITEM_BYTES = 128, /* that an item counts beside its bytes */
  RELAY_KEEP_MS = 10 * 1000,
};

struct relay_item {
  struct relay_item *next;
  uint64_t until_ms;
  size_t n;
  uint8_t bytes[];
};

struct relay_pair {
  size_t from, to; /* peers */
  struct relay_item *first, *last;
  size_t n_bytes;
};

struct relay_queue {
  struct relay_pair *pairs; /* [n_pairs], each with an item; who had its turn goes to the end */
  size_t n_pairs, capacity;
  size_t n_bytes;
  struct fetch_budget *budget;
};

void relay_queue_init(struct relay_queue *q, struct fetch_budget *budget);
void relay_queue_done(struct relay_queue *q);

/* An item of n bytes, to be filled, at the end of the pair's. ERR_BACKLOG: it does not fit; ERR_NO_MEMORY. */
MUST_USE enum err relay_queue_put(struct relay_queue *q, size_t from, size_t to, size_t n, uint64_t now_ms,
                                  uint8_t **out_bytes);

/* What is to be sent to the peer next, NULL: nothing; removes it. */
const struct relay_item *relay_queue_first(const struct relay_queue *q, size_t to);
void relay_queue_drop(struct relay_queue *q, size_t to);

/* Removes what has waited for RELAY_KEEP_MS. Returns when there is more to remove; UINT64_MAX: nothing waits. */
uint64_t relay_queue_tick(struct relay_queue *q, uint64_t now_ms);

/* Removes as much as the budget needs to have room for n bytes, each pair's oldest in turn. */
void relay_queue_yield(struct relay_queue *q, uint64_t n);

/* Removes all that comes from or goes to the peer. */
void relay_queue_forget(struct relay_queue *q, size_t peer);

#endif
