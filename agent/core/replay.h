/* A round machine made again from records (record.h): it is told what the recorded one was told, and what it does must be what that
 * one did, byte for byte. Trainer, scribe, signature and peers are the records': nothing is computed, signed or sent.
 *
 * Records may be foreign. Their bounds are checked before anything is allocated, and the machine is told only what its jobs and
 * requests allow: a result without a job for it is ERR_SYNTAX. Pure; one thread. */
#ifndef AGENT_CORE_REPLAY_H
#define AGENT_CORE_REPLAY_H

#include "agent/core/record.h"

struct replay;

/* Of the bytes behind a file's first line, borrowed until replay_free. The machine is that of the first checkpoint.
 * ERR_SYNTAX, ERR_TRUNCATED, ERR_NO_MEMORY. */
MUST_USE enum err replay_new(const uint8_t *bytes, size_t n_bytes, struct replay **out_replay);
void replay_free(struct replay *r); /* NULL is allowed */

/* The next event: an input with what came of it, or a checkpoint, which must be the machine's where nothing is missing before it,
 * and else makes a new one. *out_has false: there is none, or the last one differed.
 * ERR_TRUNCATED: it ends in the middle of a record. ERR_SYNTAX: a record that no agent writes. ERR_NO_MEMORY. */
MUST_USE enum err replay_next(struct replay *r, bool *out_has);

/* Of the event that was last; words of people. recorded, now: of a difference, else "". */
struct replay_event {
  uint64_t n; /* counted from 1 */
  uint64_t at_ms;
  const char *peer; /* "": none */
  char text[MAX_REASON_BYTES];
  bool differs;
  char recorded[MAX_REASON_BYTES], now[MAX_REASON_BYTES];
};

const struct replay_event *replay_event(const struct replay *r);

/* So many checkpoints had something missing before them. */
uint64_t replay_gaps(const struct replay *r);

/* As it is after that event; borrowed. */
const struct round_machine *replay_machine(const struct replay *r);

#endif
