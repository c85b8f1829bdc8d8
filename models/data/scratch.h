/* Rows of one size in a file without a name, for samples that do not fit into memory.
 *
 * The file is unlinked as soon as it is open: nobody else can name it, and it is gone when the agent ends, however that
 * happens. Rows are written once, in order, and then read in any order. What is wanted soon is told to the kernel
 * (POSIX_FADV_WILLNEED), whose page cache takes memory that nobody else wants and gives it back by itself; who knows the order
 * reads by it (read_ahead.h). A file that is mapped would save copies, and end the agent where the disk fails. Rows are in this
 * host's byte order.
 *
 * Room-internal; one thread at a time. */
#ifndef MODELS_DATA_SCRATCH_H
#define MODELS_DATA_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { SCRATCH_BUFFER_BYTES = 1 << 18 /* of one file, or a row where that is more */ };

struct scratch;

/* ERR_NOT_FOUND, ERR_PERMISSION, ERR_READ_ONLY, ERR_NO_SPACE, ERR_LIMIT, ERR_IO: the folder; ERR_NO_MEMORY. */
MUST_USE enum err scratch_open(const char *folder, size_t row_bytes, struct scratch **out_scratch);
void scratch_close(struct scratch *s); /* NULL is allowed */

/* Appends one row; after the last one scratch_end. ERR_NO_SPACE, ERR_IO. */
MUST_USE enum err scratch_put(struct scratch *s, const void *row);
MUST_USE enum err scratch_end(struct scratch *s);

size_t scratch_row_bytes(const struct scratch *s);

/* What the buffer takes in memory, for a row of that size. */
size_t scratch_buffer_bytes(size_t row_bytes);

/* Rows first … first + n − 1 will be read soon. */
void scratch_expect(const struct scratch *s, size_t first, size_t n);

/* Reads rows from `first` on, at least one and at most n of them, *out_n, at most as many as the buffer holds: valid until the
 * next call. ERR_IO, also where the file has become shorter. */
MUST_USE enum err scratch_read(struct scratch *s, size_t first, size_t n, const void **out_rows, size_t *out_n);

/* The same, and one row into out_row, saying whether all of it was in the page cache; false where the file system does not tell
 * (RWF_NOWAIT). */
MUST_USE enum err scratch_look(struct scratch *s, size_t first, size_t n, const void **out_rows, bool *out_was_cached);
MUST_USE enum err scratch_look_at(struct scratch *s, size_t row, void *out_row, bool *out_was_cached);

#endif
