/* Words for the log, at most one a minute for each (peer, reason), so that a peer with a wrong key cannot fill a disk.
 * The oldest waiting note makes room for a new one. Pure; the loop thread. */
#ifndef GOSSIP_NOTES_H
#define GOSSIP_NOTES_H

#include "gossip/gossip.h"

enum { MAX_NOTES = 64, NOTE_EVERY_MS = 60 * 1000 };

struct notes {
  struct gossip_note ring[MAX_NOTES];
  size_t first, n;
  size_t n_peers;
  uint64_t *next_ms; /* [n_peers + 1, ERR_COUNT]: when this pair may speak again; the last row is the strangers' */
};

MUST_USE enum err notes_init(struct notes *notes, size_t n_peers);
void notes_done(struct notes *notes);

/* peer SIZE_MAX: a stranger. */
void notes_put(struct notes *notes, uint64_t now_ms, size_t peer, enum err reason, const char *text);
bool notes_take(struct notes *notes, struct gossip_note *out_note);

#endif
