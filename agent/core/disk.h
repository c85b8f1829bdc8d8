/* The disk ladder: how many more rounds fit into the state directory, and what is done about it.
 *
 *   ok ─> low    under 3 rounds' need: models beyond the newest are let go (pinned ones stay), one warning
 *      ─> tight  under 1 round's need: trains and merges, publishes that it has no update
 *      ─> halted a write failed: nothing goes on, the write is tried again each few seconds
 *
 * Each is left by itself when there is room again, a little later than it was entered, so that what was let go does not
 * bring it straight back. Room is what the file system has left, or store.max_mib less what the state directory takes,
 * whichever is less; a reserve stands above it for the database. A round's need is the most that one has written, of any job.
 *
 * Pure: what was measured comes in, time is an argument. One for an agent. Thread: the loop's. */
#ifndef AGENT_CORE_DISK_H
#define AGENT_CORE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

enum disk_state { DISK_OK, DISK_LOW, DISK_TIGHT, DISK_HALTED, N_DISK_STATES };

enum {
  DISK_MEASURE_MS = 2000,      /* between two measurements while there is little room */
  DISK_RESERVE_BYTES = 1 << 20 /* the database and its log */
};

struct disk {
  uint64_t max_bytes;                   /* store.max_mib; 0: the file system is the only bound */
  uint32_t n_kept;                      /* models that are let go when it gets low and kept again afterwards */
  uint64_t publish_bytes, commit_bytes; /* the most that one of a round has written; first a forecast */
  bool is_known, is_halted;
  struct store_room room; /* last measured */
  enum disk_state state;  /* never DISK_HALTED: disk_state says that */
  uint64_t measured_at_ms;
};

/* What the two transactions of a round write, from the sizes of a difference and of a full copy, of which a half has so many
 * (learner_half_arrays). */
void disk_forecast(uint64_t link_bytes, uint64_t full_bytes, uint64_t half_arrays, uint64_t *out_publish,
                   uint64_t *out_commit);

/* A round of some job writes so much. */
void disk_expect(struct disk *d, uint64_t publish_bytes, uint64_t commit_bytes);

/* What was measured. Returns whether the state has changed. */
bool disk_measured(struct disk *d, const struct store_room *room, uint64_t now_ms);

/* A write was refused, or goes again. Returns whether the state has changed. */
bool disk_set_halted(struct disk *d, bool is_halted);

enum disk_state disk_state(const struct disk *d);
const char *disk_state_name(enum disk_state state); /* "low" */

/* When to measure again; UINT64_MAX: after the next transaction only. */
uint64_t disk_due_ms(const struct disk *d);

uint64_t disk_free_bytes(const struct disk *d);
uint64_t disk_round_bytes(const struct disk *d);
uint64_t disk_rounds_left(const struct disk *d);

#endif
