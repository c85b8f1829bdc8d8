#include "agent/run/log_limit.h"

/* FNV-1a, 64 bits, over both strings with their NULs. */
static uint64_t hash_add(uint64_t hash, const char *text) {
  const uint64_t prime = 0x100000001b3u;
  do
    hash = (hash ^ (uint8_t)*text) * prime;
  while (*text++ != '\0');
  return hash;
}

static uint64_t pair_hash(const char *event, const char *peer) {
  const uint64_t basis = 0xcbf29ce484222325u;
  uint64_t hash = hash_add(hash_add(basis, event), peer);
  return hash != 0 ? hash : 1;
}

/* Free ones have last_ms 0, so they are the oldest. */
static struct log_limit_pair *find(struct log_limit *l, uint64_t hash, uint64_t now_ms) {
  struct log_limit_pair *set = l->pairs[hash % LOG_LIMIT_SETS], *oldest = set;
  for (int i = 0; i < LOG_LIMIT_WAYS; i++) {
    if (set[i].hash == hash)
      return &set[i];
    if (set[i].last_ms < oldest->last_ms)
      oldest = &set[i];
  }
  *oldest = (struct log_limit_pair){.hash = hash, .last_ms = now_ms, .credit_ms = LOG_LIMIT_BURST * LOG_LIMIT_MS};
  return oldest;
}

bool log_limit_take(struct log_limit *l, const char *event, const char *peer, uint64_t now_ms,
                    uint32_t *out_n_left_out) {
  const uint32_t full = LOG_LIMIT_BURST * LOG_LIMIT_MS;
  struct log_limit_pair *p = find(l, pair_hash(event, peer), now_ms);
  uint64_t earned = now_ms - p->last_ms;
  p->credit_ms = earned >= full - p->credit_ms ? full : p->credit_ms + (uint32_t)earned;
  p->last_ms = now_ms;
  if (p->credit_ms < LOG_LIMIT_MS) {
    p->n_left_out++;
    return false;
  }
  p->credit_ms -= LOG_LIMIT_MS;
  *out_n_left_out = p->n_left_out;
  p->n_left_out = 0;
  return true;
}
