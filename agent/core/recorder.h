/* The flight recorder of a round machine: the last so many bytes of what it was told and what it did, as records (record.h), in
 * memory, from which replay.h makes the same machine again.
 *
 * Two halves are written in turns, each from a checkpoint on, so that what is left when the other is overwritten can still be
 * replayed. A checkpoint can be taken only of a machine that is quiet, which it is once a round: a half is given up for the other
 * at the first such moment after three quarters of it are full. One that is full before stays as it is, and what comes until the next
 * quiet moment is missing; the checkpoint then says so. A checkpoint that has no room in a half leaves the other as it is.
 *
 * Nothing is allocated after recorder_new, nothing is copied but what is recorded. Pure; thread: the machine's. */
#ifndef AGENT_CORE_RECORDER_H
#define AGENT_CORE_RECORDER_H

#include "agent/core/round.h"

enum { RECORDER_MIN_BYTES = 64 << 10 };

struct recorder;

/* n_bytes: of both halves, at least RECORDER_MIN_BYTES. ERR_NO_MEMORY. */
MUST_USE enum err recorder_new(size_t n_bytes, struct recorder **out_recorder);
void recorder_free(struct recorder *r); /* NULL is allowed; after the machine */

/* Stands between a new machine, not started yet, and its ports. */
void recorder_attach(struct recorder *r, struct round_machine *m);

/* The records that there are, oldest first, as a file has them behind its first line; and how many bytes they are. 0: not even a
 * checkpoint has room. */
size_t recorder_bytes(const struct recorder *r);
void recorder_copy(const struct recorder *r, uint8_t *out_bytes);

#endif
