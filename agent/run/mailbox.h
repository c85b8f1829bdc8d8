/* A bounded mailbox between two threads: a ring of pointers under a mutex. What is put is moved.
 *
 * The receiving end is either a thread that blocks in mailbox_take, or the loop, which polls mailbox_fd (an eventfd that
 * is readable while something waits) and takes without blocking. */
#ifndef AGENT_RUN_MAILBOX_H
#define AGENT_RUN_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct mailbox;

MUST_USE enum err mailbox_new(size_t capacity, struct mailbox **out_mailbox);

/* Whatever still waits must have been taken before. */
void mailbox_free(struct mailbox *m);

/* Moves an item in; the ring must have room (its capacity is the protocol's own bound, so a full one is our bug). */
void mailbox_put(struct mailbox *m, void *item);

/* Oldest item; blocks until there is one. */
void *mailbox_take(struct mailbox *m);

/* Oldest item, or NULL. */
void *mailbox_poll(struct mailbox *m);

/* Whether something waits: a glance between batches. */
bool mailbox_has(struct mailbox *m);

/* Readable while something waits. */
int mailbox_fd(const struct mailbox *m);

#endif
