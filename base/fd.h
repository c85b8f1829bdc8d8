/* Whole reads and writes: what read(2) and write(2) may do in pieces or be interrupted in. Blocking descriptors; any thread.
 * Errors are err_from_errno's, and errno is still that of the call that failed. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <stddef.h>

#include "base/err.h"

/* Reads until n bytes are there or the file ends. */
MUST_USE enum err fd_read_full(int fd, void *out_bytes, size_t n, size_t *out_n_read);

MUST_USE enum err fd_write_all(int fd, const void *bytes, size_t n);

#endif
