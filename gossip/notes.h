/* Words for the log, at most one a minute for each (peer, reason), so that a peer with a wrong key cannot fill a disk.
 * The oldest waiting note makes room for a new one. Pure; the loop thread. */
#ifndef GOSSIP_NOTES_H
#define GOSSIP_NOTES_H

#include "gossip/gossip.h"

enum { MAX_NOTES = 64, NOTE_EVERY_MS = 60 * 1000 };

struct notes {
  struct gossip_note *waiting; /* [n], oldest first, at most MAX_NOTES */
  size_t n, capacity;
  struct note_pause { /* pairs that have spoken: each (peer, reason) once at most */
    size_t peer;
    enum err reason;
    uint64_t until_ms;
  } * pauses;
  size_t n_pauses, pause_capacity;
  size_t n_peers;
};

/* Nothing is allocated before the first note. Without memory a note is lost. */
void notes_init(struct notes *notes, size_t n_peers);
void notes_done(struct notes *notes);

/* peer SIZE_MAX: a stranger. */
void notes_put(struct notes *notes, uint64_t now_ms, size_t peer, enum err reason, const char *text);
bool notes_take(struct notes *notes, struct gossip_note *out_note);

#endif
