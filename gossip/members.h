/* Who belongs to the swarm, as far as this agent knows: its peers, and whom they told it of.
 *
 * Membership says what is the case; it admits nobody. Who may have a session stands in the configuration, and a member that is
 * no peer is only listed. A row changes by four things:
 *
 *   a statement   signed by the member (crypto/statement.h); a newer incarnation replaces everything said of the one before
 *   an accusation signed by another member: this incarnation does not answer. One makes it `suspect`; two of different
 *                 accusers, or an own failed probe, start the suspicion, after which it is `dead`
 *   a session     with it: it is alive, whatever others say
 *   the time      that a suspicion takes
 *
 * `dead` is each agent's own conclusion and never travels; what travels are signed statements and accusations, each once over
 * each session and in each direction (`members_news`). A lost one is found by comparing hashes of the tables (`hash`,
 * `members_list`). An agent that hears itself accused refutes with its next incarnation (SWIM: Das, Gupta, Motivala 2002).
 *
 * What others can make this hold is bounded: MAX_MEMBERS rows, of which MAX_INTRODUCED by one peer, MAX_ACCUSERS accusations of an
 * incarnation, a few statements a member and second; an accuser that is remembered is heard again about one member after
 * ACCUSE_AGAIN_MS. Who is gone makes room, for a peer that has used its share somebody whom it introduced itself. One that made
 * room and is told of again comes back together with its accusations, and is dead again a suspicion later. Memory goes with what
 * is known.
 *
 * What this does not keep off. Keys cost nothing, so one peer's site can be any two accusers: an accusation is no vote but a
 * question to the accused, who answers with its next incarnation. A false death needs that the answer comes later than the
 * suspicion ends, lasts until it comes, and is a line of a table: no session ends and nobody is kept out by it. And a peer
 * may let MAX_INTRODUCED invented members speak, each once a second, which everybody passes on: a bucket for all whom one peer
 * introduced would let it silence the true ones among them, whose refutations are what matters; allowance.h bounds what it
 * costs. Peers are enrolled by hand, and `peer revoke` ends it.
 *
 * Pure: time is an argument, signing a table of functions. The loop thread. */
#ifndef GOSSIP_MEMBERS_H
#define GOSSIP_MEMBERS_H

#include "crypto/statement.h"
#include "gossip/gossip.h"

enum {
  MAX_ACCUSERS = 4,
  ACCUSE_AGAIN_MS = 50 * 1000, /* the accuser itself waits longer (probe.h) */
  REFUTE_EVERY_MS = 2000,
  STATEMENT_BURST = 4, /* of one member; one a second is saved up */
  SUSPECT_MIN_BEATS = 3,
  SUSPECT_TENTHS = 6, /* of a beat for each doubling of the swarm, if that is more: two beats a power of ten */
  MEMBERS_HASH_BYTES = 16,
  LISTED_BYTES = 32 + 8 + 4 + 1,
  MAX_NEWS = 32, /* in one message */
};

#define MEMBERS_NEVER UINT64_MAX

/* How a table signs and checks. */
struct members_seal {
  void *context;
  void (*sign_statement)(void *context, struct statement *s);
  void (*sign_accusation)(void *context, struct accusation *a);
  enum err (*verify_statement)(void *context, const struct statement *s);
  enum err (*verify_accusation)(void *context, const struct accusation *a);
};

/* With the identity's key. */
struct members_seal members_seal_of(const struct identity *id);

struct members_config {
  struct identity_key key; /* own */
  struct swarm_id swarm;
  uint64_t boot_epoch;
  const char *name, *addresses;     /* copied: what the own statement says */
  const struct identity_key *peers; /* ascending; copied */
  size_t n_peers;
  size_t max;       /* rows; at least peers and oneself */
  uint64_t beat_ms; /* the measure of a suspicion */
  struct members_seal seal;
};

struct member_accuser {
  struct identity_key key;
  uint64_t at_ms;
  bool is_current; /* of the incarnation that is in the row */
  uint64_t change;
  uint32_t from;
  uint8_t bytes[ACCUSATION_BYTES];
};

#define MEMBER_NOBODY UINT32_MAX

struct member {
  struct identity_key key;
  struct incarnation incarnation; /* epoch 0: there is no statement */
  enum member_state state;
  bool is_peer, is_here; /* here: there is a session */
  bool is_missed;        /* the own probe failed */
  bool leaves;
  uint8_t credit; /* statements */
  uint8_t n_accusers;
  uint16_t n_statement;
  uint32_t from, introducer; /* peers; MEMBER_NOBODY: it was known from the start */
  uint64_t since_ms;         /* of the state */
  uint64_t stated_ms;        /* when the credit was counted */
  uint64_t dead_at_ms;       /* the end of the suspicion; MEMBERS_NEVER */
  uint64_t change;
  uint8_t *statement;              /* n_statement canonical bytes */
  struct member_accuser *accusers; /* [n_accusers] */
};

struct members {
  struct members_config config;
  struct identity_key *peers;
  struct statement own;
  struct member *rows; /* ascending by key, oneself among them */
  size_t n, capacity;
  uint64_t change; /* the number of the newest one */
  uint8_t hash[MEMBERS_HASH_BYTES];
  bool is_refuting;
  uint64_t refute_at_ms;
};

/* ERR_NO_MEMORY. */
MUST_USE enum err members_init(struct members *m, const struct members_config *config, uint64_t now_ms);
void members_done(struct members *m);

/* The k-th address of the member's own statement, round and round; false: it names none. Whoever dials it takes numbers only: a name
 * that others choose would be resolved in the thread that carries all connections. */
bool members_address(const struct member *row, size_t k, char out_address[MAX_ADDRESS_BYTES]);

/* NULL: not known. */
const struct member *members_find(const struct members *m, const struct identity_key *key);

/* ---- what changes it ---- */

/* What peer number `from` sent. ERR_OK, also for what is not news. Else why it does not count: ERR_MESSAGE, ERR_SWARM,
 * ERR_SIGNATURE, ERR_BUDGET: no room, ERR_CLONE: somebody lives with our key; ERR_NO_MEMORY. */
MUST_USE enum err members_take_statement(struct members *m, uint32_t from, const void *bytes, size_t n,
                                         uint64_t now_ms);
MUST_USE enum err members_take_accusation(struct members *m, uint32_t from, const void *bytes, size_t n,
                                          uint64_t now_ms);

/* A session with the peer begins or has ended. */
void members_session(struct members *m, size_t peer, bool is_up, uint64_t now_ms);

/* The own probe of a peer has failed. Others are told of it, unless there is nobody who could have been asked: then it may
 * be us. Nothing happens while there is a session or when the peer has left. */
void members_miss(struct members *m, size_t peer, bool is_told, uint64_t now_ms);

/* The own statement is a new one: of a new epoch, or the last one. */
void members_restart(struct members *m, uint64_t boot_epoch, uint64_t now_ms);
void members_leave(struct members *m, uint64_t now_ms);

/* Suspicions end, refutations are due. When to be called again; MEMBERS_NEVER. */
uint64_t members_tick(struct members *m, uint64_t now_ms);

/* How long a suspicion takes now. */
uint64_t members_suspicion_ms(const struct members *m);

/* ---- what travels ---- */

enum news_kind { NEWS_STATEMENT = 1, NEWS_ACCUSATION = 2 };

struct news {
  enum news_kind kind;
  const uint8_t *bytes; /* borrowed until the next change */
  uint16_t n;
};

/* Up to `capacity` (≤ MAX_NEWS) changes after number *told that did not come from peer `to`; *told becomes the last one's number.
 * Call again until *told is m->change. */
size_t members_news(const struct members *m, uint32_t to, uint64_t *told, struct news *out_items, size_t capacity);

/* A row as another agent lists it, in LISTED_BYTES: key · boot epoch u64 · refutation u32 · accusers u8. */
struct listed {
  struct identity_key key;
  struct incarnation incarnation; /* epoch ≥ 1 */
  uint8_t n_accusers;             /* 0, 1, 2: or more */
};

enum { LISTED_MAX_ACCUSERS = 2 };

struct listed listed_read(const uint8_t bytes[LISTED_BYTES]);

/* The rows that have a statement, ascending by key; their number. */
size_t members_list(const struct members *m, uint8_t out_rows[][LISTED_BYTES], size_t capacity);

/* What whoever lists these rows (ascending) lacks: at most `capacity` items, whether there are more in *out_is_more, and in
 * *out_is_behind whether it has something that we lack. */
size_t members_lacking(const struct members *m, const uint8_t rows[][LISTED_BYTES], size_t n_rows,
                       struct news *out_items, size_t capacity, bool *out_is_more, bool *out_is_behind);

#endif
