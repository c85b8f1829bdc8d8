/* Which of n things is due first: a tournament of their times, each inner place the earlier of two. A change costs log n,
 * a look at the first one comparison, the next one that is due log n. UINT64_MAX: never. Pure; one thread at a time. */
#ifndef BASE_DUE_H
#define BASE_DUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DUE_NEVER UINT64_MAX

struct due {
  uint64_t *at; /* [2 · width]: at[1] is the earliest of all, at[width + i] is thing i's */
  size_t width; /* a power of two, ≥ n */
};

/* n things that are never due. ERR_NO_MEMORY. */
MUST_USE enum err due_init(struct due *d, size_t n);

/* Takes zeros, too. */
void due_done(struct due *d);

void due_set(struct due *d, size_t i, uint64_t at);

static inline uint64_t due_get(const struct due *d, size_t i) {
  return d->at[d->width + i];
}

static inline uint64_t due_first(const struct due *d) {
  return d->at[1];
}

/* The first thing from `from` on, in the order of their numbers, whose time is at most `now`; SIZE_MAX: none. */
size_t due_next(const struct due *d, size_t from, uint64_t now);

#endif
