/* A bounded mailbox between two threads: a ring of pointers under a mutex. What is put is moved.
 *
 * The receiving end is either a thread that blocks in mailbox_take, or the loop, which polls mailbox_fd (an eventfd that
 * is readable while something waits) and takes without blocking. */
#ifndef AGENT_RUN_MAILBOX_H
#define AGENT_RUN_MAILBOX_H

#include <stddef.h>

#include "base/err.h"

struct mailbox;

/* capacity ≥ 1. ERR_NO_MEMORY, or why there is no eventfd. */
MUST_USE enum err mailbox_new(size_t capacity, struct mailbox **out_mailbox);

/* Whatever still waits must have been taken before. NULL is allowed. */
void mailbox_free(struct mailbox *m);

/* Moves an item in, not NULL; the ring must have room (its capacity is the protocol's own bound, so a full one is our bug). */
void mailbox_put(struct mailbox *m, void *item);

/* Oldest item; blocks until there is one. */
void *mailbox_take(struct mailbox *m);

/* Oldest item, or NULL. */
void *mailbox_poll(struct mailbox *m);

/* Readable while something waits. */
int mailbox_fd(const struct mailbox *m);

#endif
