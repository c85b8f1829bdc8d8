/* What a peer may make us do: a bucket of units that fills with time and is emptied by its frames. A frame costs one unit
 * and one more for each 512 bytes, an ASK 8 and a MANIFEST 16 more (a signature is checked), NEWS 1 more for 8 bytes (several
 * are) until it is read and then 16 for each object, so that a whole swarm's fit whatever their texts are, SYNC and LIST 90 more (the answer may be a list of all members); chunks that were asked for cost nothing. An honest
 * peer with thousand rounds a second stays below it. Emptying the bucket is no crime; who empties it again and again for
 * ALLOWANCE_PATIENCE_MS, before it was half full once, floods. Pure; the loop thread. */
#ifndef GOSSIP_ALLOWANCE_H
#define GOSSIP_ALLOWANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ALLOWANCE_UNITS_S = 30000, ALLOWANCE_BURST = ALLOWANCE_UNITS_S, ALLOWANCE_PATIENCE_MS = 100 };

struct allowance {
  uint64_t tokens; /* thousandths of a unit */
  uint64_t filled_ms;
  uint64_t empty_since_ms; /* UINT64_MAX: it is not */
};

void allowance_init(struct allowance *a, uint64_t now_ms);

/* Units of a frame by its type and its length. */
uint64_t allowance_cost(uint8_t type, size_t n_frame);

/* Takes what is there; false: the peer floods. */
bool allowance_spend(struct allowance *a, uint64_t units, uint64_t now_ms);

/* Takes all of it or, when it is not there, nothing: for what is then left undone. */
bool allowance_try(struct allowance *a, uint64_t units, uint64_t now_ms);

/* The frame was wanted. */
void allowance_return(struct allowance *a, uint64_t units);

/* What NEWS of n objects, n_bytes in all, has cost too much. */
uint64_t allowance_news_rest(size_t n, size_t n_bytes);

#endif
