/* What a peer has asked us for: ranges of chunks, held as references, never as bytes. Pure; the loop thread. */
#ifndef GOSSIP_SERVE_H
#define GOSSIP_SERVE_H

#include "gossip/message.h"

enum { MAX_SERVES = 32 };

struct serve {
  size_t job;
  struct digest root;
  uint64_t n_payload;
  uint32_t next, end; /* chunks still to be sent */
};

struct serves {
  struct serve *ranges; /* [n], at most MAX_SERVES, in the order of asking */
  size_t n, capacity;
};

/* Adds a range; one that is waiting already is not added again. ERR_BACKLOG: too many; ERR_NO_MEMORY. */
MUST_USE enum err serves_add(struct serves *s, size_t job, const struct message_get *get);

/* The range to serve next, NULL when there is none; after its chunk `next` was sent, serves_advance. */
const struct serve *serves_first(const struct serves *s);
void serves_advance(struct serves *s);

/* Forgets all; takes zeros, too. */
void serves_clear(struct serves *s);

/* Forgets every range of the payload. */
void serves_drop(struct serves *s, const struct digest *root);

/* Offset and length of a range's next chunk. */
uint64_t serve_offset(const struct serve *r);
size_t serve_bytes(const struct serve *r);

#endif
