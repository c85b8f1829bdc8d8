#include "gossip/allowance.h"

#include "gossip/message.h"

enum {
  TOKEN = 1000,
  UNIT_BYTES = 512,
  ASK_UNITS = 8,
  MANIFEST_UNITS = 16,
  NEWS_UNIT_BYTES = 8,
  NEWS_UNITS = 16,                                          /* of an object: the least that one has by its bytes */
  COMPARING_UNITS = MAX_MEMBERS * LISTED_BYTES / UNIT_BYTES /* of the longest answer */
};
static const uint64_t full = (uint64_t)ALLOWANCE_BURST * TOKEN;

void allowance_init(struct allowance *a, uint64_t now_ms) {
  *a = (struct allowance){.tokens = full, .filled_ms = now_ms, .empty_since_ms = UINT64_MAX};
}

uint64_t allowance_cost(uint8_t type, size_t n_frame) {
  static const uint8_t work[MESSAGE_END] = {[MESSAGE_ASK] = ASK_UNITS,
                                            [MESSAGE_MANIFEST] = MANIFEST_UNITS,
                                            [MESSAGE_SKETCH] = MANIFEST_UNITS,
                                            [MESSAGE_SYNC] = COMPARING_UNITS,
                                            [MESSAGE_LIST] = COMPARING_UNITS};
  uint64_t units = 1 + n_frame / UNIT_BYTES;
  if (type < MESSAGE_END)
    units += work[type];
  if (type == MESSAGE_NEWS)
    units += n_frame / NEWS_UNIT_BYTES; /* a signature in each item */
  return units;
}

uint64_t allowance_news_rest(size_t n, size_t n_bytes) {
  uint64_t paid = n_bytes / NEWS_UNIT_BYTES, owed = n * NEWS_UNITS;
  return paid > owed ? paid - owed : 0;
}

static void add(struct allowance *a, uint64_t tokens) {
  a->tokens = tokens < full - a->tokens ? a->tokens + tokens : full;
  if (a->tokens >= full / 2)
    a->empty_since_ms = UINT64_MAX;
}

static void fill(struct allowance *a, uint64_t now_ms) {
  uint64_t passed_ms = now_ms - a->filled_ms;
  a->filled_ms = now_ms;
  add(a, passed_ms > full / ALLOWANCE_UNITS_S ? full : passed_ms * ALLOWANCE_UNITS_S);
}

bool allowance_try(struct allowance *a, uint64_t units, uint64_t now_ms) {
  fill(a, now_ms);
  if (a->tokens < units * TOKEN)
    return false;
  a->tokens -= units * TOKEN;
  return true;
}

bool allowance_spend(struct allowance *a, uint64_t units, uint64_t now_ms) {
  if (allowance_try(a, units, now_ms))
    return true;
  a->tokens = 0;
  if (a->empty_since_ms == UINT64_MAX)
    a->empty_since_ms = now_ms;
  return now_ms - a->empty_since_ms < ALLOWANCE_PATIENCE_MS;
}

void allowance_return(struct allowance *a, uint64_t units) {
  add(a, units * TOKEN);
}
