/* The inbox: for one peer, what of its chain of updates is applied, what waits, and what to ask for next.
 *
 * Three positions on the peer's chain move forward, each at most as far as the next:
 *
 *   copy    applied in the learner: what a merge uses
 *   held    the end of the links that wait here, checked against the chain, still encoded
 *   newest  what the peer says it has published (HELLO, STATE, MANIFEST)
 *
 * The gap between held and newest is closed by one request at a time: the missing links, or the full copy where that is
 * fewer bytes, where a link is gone, at first contact and after a broken payload. Everything is pulled and every answer may
 * be lost, so a request is repeated when nothing came of it. Kind none moves held by its sequence and nothing else.
 *
 * Pure: time is an argument, what to send goes through struct inbox_ports. */
#ifndef AGENT_CORE_INBOX_H
#define AGENT_CORE_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/work.h"
#include "base/limits.h"
#include "crypto/manifest.h"
#include "gossip/gossip.h"

/* A position without its hash: what is later than what. */
struct chain_mark {
  uint64_t boot_epoch, sequence;
};

static inline struct chain_mark chain_mark(const struct position *p) {
  return (struct chain_mark){p->boot_epoch, p->sequence};
}

static inline bool chain_is_past(struct chain_mark a, struct chain_mark b) {
  return a.boot_epoch != b.boot_epoch ? a.boot_epoch > b.boot_epoch : a.sequence > b.sequence;
}

/* A place on a peer's chain and what the manifest there said. */
struct chain_place {
  struct position position;
  uint64_t round;
  uint32_t sub;
  uint32_t samples;
  uint16_t degree;
};

/* Each port acts at once and never calls back into the inbox. */
struct inbox_ports {
  void (*ask)(void *context, size_t peer, enum manifest_kind kind, uint64_t first, size_t n);
  enum err (*fetch)(void *context, size_t peer, const struct manifest *m);
  void (*cancel)(void *context, size_t peer);
};

enum {
  N_REMEMBERED = 2 * KEEP_PAYLOADS,
  ANSWER_MS = 5000, /* a question without an answer is asked again */
  RETRY_MS = 1000,  /* after a request that failed */
  PUMP_MS = 500,    /* how often one that lacks something is looked after while nothing keeps it from asking */
};

struct inbox {
  size_t peer;
  size_t link_bytes, full_bytes; /* of one difference at most, of a full copy */
  bool takes_sums;               /* each update is a whole one: in place of all links between, and of a full copy */

  struct position newest;
  struct chain_place held, copy;
  uint64_t none_round; /* newest round for which the peer said that there is no update */

  struct link_in *queue; /* at most KEEP_PAYLOADS, ascending; a full copy stands first */
  size_t n_queue, queue_capacity;
  struct manifest *offers; /* at most KEEP_PAYLOADS, ascending; verified, not fetched yet */
  size_t n_offers, offer_capacity;

  bool needs_full;         /* the next thing to get is a full copy */
  bool is_fetching;        /* something is … */
  uint64_t fetching_bytes; /* … of so many bytes */
  uint64_t not_before_ms;  /* of the next request */
  uint32_t n_broken;       /* payloads in a row that failed when they were applied */

  struct remembered { /* what was published at which position: two roots at one are an equivocation */
    uint64_t boot_epoch, sequence;
    enum manifest_kind kind;
    struct digest root;
  } * remembered; /* at most N_REMEMBERED, the newest ones */
  size_t n_remembered, remembered_capacity, next_forgotten;
};

void inbox_init(struct inbox *in, size_t peer, size_t link_bytes, size_t full_bytes);

/* Frees what waits. */
void inbox_done(struct inbox *in);

/* The peer says how far it is. */
void inbox_newest(struct inbox *in, const struct position *newest);

/* A verified manifest. ERR_OK: welcome, or already known (a resend); ERR_REPLAY: an old difference below what is held;
 * ERR_EQUIVOCATION: another root at a known position; ERR_ENCODING: a sum where there are none, or anything else where there are;
 * ERR_CHAIN: it does not continue what is held (a full copy will); ERR_NO_MEMORY: it can be asked for again. */
MUST_USE enum err inbox_manifest(struct inbox *in, const struct manifest *m);

/* The fetched payload, moved in; without memory for its place it is as if it had not come. */
void inbox_payload(struct inbox *in, const struct manifest *m, uint8_t *payload);

/* A fetch or a question came to nothing. */
void inbox_failed(struct inbox *in, enum err reason, uint64_t now_ms);

/* The session ended: what was under way is forgotten, what waits stays. */
void inbox_disconnected(struct inbox *in);

/* Get a full copy next, whatever is held (a jump, a joiner). */
void inbox_want_full(struct inbox *in);

/* Sends the next request, if one is due and room is left for what it brings; a full copy also has the room of what waits, which it
 * makes needless and which is given up for it where there is not enough for both. */
void inbox_pump(struct inbox *in, const struct inbox_ports *ports, void *context, uint64_t now_ms, uint64_t room_bytes);

/* When one that lacks something is to be pumped again at the latest; UINT64_MAX: when what it fetches has come or failed. */
uint64_t inbox_due_ms(const struct inbox *in, uint64_t now_ms);

/* Bytes that wait or are being fetched. */
uint64_t inbox_bytes(const struct inbox *in);

/* Moves out what a merge of round r applies: a full copy whatever its round, then links with round ≤ r. The array is the
 * caller's to free; NULL when there is nothing. */
struct link_in *inbox_take(struct inbox *in, uint64_t round, size_t *out_n);

/* What became of the links taken: the place after the applied ones becomes the copy's; a failure breaks the copy, and a
 * full one is got next. */
void inbox_applied(struct inbox *in, const struct chain_place *place, size_t n_applied, enum err reason);

/* The place on the chain that a link leads to. */
struct chain_place link_place(const struct manifest *m);

/* Nothing of what the peer says it has is left to fetch. */
bool inbox_is_current(const struct inbox *in);

/* A copy, perhaps with links after it, is held or applied. */
bool inbox_has_copy(const struct inbox *in);

int position_compare(const struct position *a, const struct position *b);

#endif
