/* The outbox: the newest own publications that peers can still fetch.
 *
 * It holds manifests and descriptors, never a payload: chunks are read from the store's files straight into the outgoing
 * frame, so a publication costs the same memory whoever fetches it; from the page cache a chunk takes 1.2 µs, from memory
 * 0.8, and sealing it 40. A descriptor keeps its file readable after the store has forgotten it. Loop thread only. */
#ifndef AGENT_RUN_OUTBOX_H
#define AGENT_RUN_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/work.h"
#include "base/err.h"
#include "base/limits.h"
#include "crypto/manifest.h"
#include "store/store.h"

/* Bytes of a file that are served under a root. */
struct served {
  struct manifest manifest;
  uint8_t bytes[MANIFEST_BYTES];
  int fd; /* −1: nothing to serve (kind none, or no copy) */
  uint64_t offset;
};

/* What peers hold of us after an update. Few of them are ever asked for, so its root is reckoned and its manifest signed when
 * one is: until then `of` holds neither. */
struct full_copy {
  struct served of;
  uint64_t n_bytes;
  bool is_under_way, is_signed;
};

struct publication {
  struct served update; /* link, chain start, or kind none */
  struct full_copy copy;
};

struct outbox {
  struct publication entries[KEEP_PAYLOADS]; /* oldest first */
  size_t n_entries;
  struct publication pending; /* being written by the scribe */
};

void outbox_init(struct outbox *o);
void outbox_done(struct outbox *o);

/* Takes up what a former run published. Files that are gone leave an entry without a descriptor. */
MUST_USE enum err outbox_load(struct outbox *o, struct store *store, const struct digest *job);

/* Remembers what is handed to the scribe, and makes it servable once it is durable: takes the result's descriptors. */
void outbox_prepare(struct outbox *o, const struct scribe_job *job);
void outbox_publish(struct outbox *o, struct scribe_result *result);

/* Closes the full copies but the newest one: their files are the largest, and while they are open the disk has them. */
void outbox_shrink(struct outbox *o);

/* As find_manifest of struct gossip_events says: the i-th link from `first` on; the newest full copy that is not of a later
 * round, or else the newest. ERR_NOT_YET with a sequence that is not 0: that publication's is not signed yet. */
enum err outbox_find_link(const struct outbox *o, uint64_t first, size_t i, uint8_t out_bytes[MANIFEST_BYTES]);
enum err outbox_find_full(const struct outbox *o, uint64_t round, uint8_t out_bytes[MANIFEST_BYTES],
                          uint64_t *out_sequence);

/* The publication with this sequence; NULL: it is no longer served. */
struct publication *outbox_find(struct outbox *o, uint64_t sequence);

/* Its full copy is no longer served: it cannot be read, or is not what was published. */
void publication_drop_copy(struct publication *p);

enum err outbox_read(const struct outbox *o, const struct digest *root, uint64_t offset, uint8_t *out, size_t n);

#endif
