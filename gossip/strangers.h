/* Who knocks: handshakes and refused connections by source address, the most recent ones, and the token bucket that
 * bounds how often an address may cost us a handshake (20 a second after a burst of 5; 200 a second in all).
 * Pure; the loop thread. */
#ifndef GOSSIP_STRANGERS_H
#define GOSSIP_STRANGERS_H

#include "gossip/gossip.h"

enum { MAX_STRANGERS = 64 };

struct bucket {
  uint64_t tokens; /* thousandths */
  uint64_t filled_ms;
};

struct strangers {
  struct stranger_row {
    char *address; /* own */
    uint64_t n_unknown_key, n_handshake, n_gate, last_ms;
    struct bucket bucket;
  } * rows; /* [n_rows], at most MAX_STRANGERS */
  size_t n_rows, capacity;
  struct bucket total;
  uint64_t *drops; /* own, [N_DROPS]; NULL: none yet; of all addresses, also of those whose row was taken */
};

void strangers_init(struct strangers *s, uint64_t now_ms);
void strangers_done(struct strangers *s);

/* Forgets the rows when none of them has anything to tell. */
void strangers_tidy(struct strangers *s, uint64_t now_ms);

/* Takes a token; false: this handshake is one too many, or there is no memory to tell. */
bool strangers_allow(struct strangers *s, const char *address, uint64_t now_ms);

/* Counts ERR_UNKNOWN_KEY, ERR_GATE, or anything else as a failed handshake. */
void strangers_count(struct strangers *s, const char *address, enum err reason, uint64_t now_ms);

/* Rows that have counted something; at most `capacity`. */
size_t strangers_list(const struct strangers *s, struct gossip_stranger *out_rows, size_t capacity);

#endif
