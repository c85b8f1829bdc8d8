/* Rows of a scratch file in an order that is known before: read ahead, a window at a time.
 *
 * Training visits samples in a random order, and a row of a few hundred bytes costs more to ask for than to copy. So the rows
 * of a window, the next ones of the order, are read in the order in which they stand in the file: rows near each other are
 * one read, of which only they are kept. There are two windows: while the rows of one are taken, the other is filled, a
 * part with every batch. Where the page cache does not have what is wanted, the kernel is told of it before (scratch.h), so that the disk
 * works while the batches in between are computed.
 *
 *   wanted soon:   order[at] …                       in the file:   1 2 3 5 · 17 18 · 40
 *   window:        5 17 1 40 3 18 2    sorted  ->    reads:         [1 … 5] [17 18] [40]
 *
 * What comes out is the rows in the order that was planned, whatever the size of the windows. Memory is allocated in
 * read_ahead_new. Room-internal; one thread at a time. */
#ifndef MODELS_DATA_READ_AHEAD_H
#define MODELS_DATA_READ_AHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct scratch;
struct read_ahead;

/* Windows for n_rows in all, which take as many times read_ahead_row_bytes. `s` is borrowed. ERR_NO_MEMORY. */
MUST_USE enum err read_ahead_new(struct scratch *s, size_t n_rows, struct read_ahead **out_ahead);
void read_ahead_free(struct read_ahead *a); /* NULL is allowed */

/* What a row of a window takes in memory. */
size_t read_ahead_row_bytes(size_t row_bytes);

/* From now on rows order[0 … n − 1] are taken, in this order; borrowed until another plan. n = 0: none. */
void read_ahead_plan(struct read_ahead *a, const uint32_t *order, size_t n);

/* Whether index[0] is where the plan stands, in the very array that was planned. */
bool read_ahead_is_at(const struct read_ahead *a, const uint32_t *index);

/* The next rows of the plan, of which there are some: at least one and at most n of them, *out_n, valid until the next call.
 * ERR_IO, as scratch_read. */
MUST_USE enum err read_ahead_take(struct read_ahead *a, size_t n, const void **out_rows, size_t *out_n);

#endif
