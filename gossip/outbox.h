/* Control messages that wait for one peer, as plaintext: they are sealed when the connection takes them, under the keys
 * of that moment. Bounded in bytes; what does not fit is dropped and counted by the caller. Pure; the loop thread. */
#ifndef GOSSIP_OUTBOX_H
#define GOSSIP_OUTBOX_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { MAX_OUTBOX_BYTES = 128 * 1024 };

struct outbox_item {
  struct outbox_item *next;
  uint8_t type;
  size_t n;
  uint8_t bytes[];
};

struct outbox {
  struct outbox_item *first, *last;
  size_t n_bytes;
};

/* ERR_BACKLOG, ERR_NO_MEMORY. */
MUST_USE enum err outbox_put(struct outbox *box, uint8_t type, const uint8_t *bytes, size_t n);

/* Removes the first. */
void outbox_drop(struct outbox *box);
void outbox_clear(struct outbox *box);

#endif
