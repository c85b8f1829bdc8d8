/* A folder of files that are named by the digest of their bytes, and so never change.
 *
 * A file is written under a temporary name, synced and renamed; files_sync then makes the names durable, once for all
 * files of a transaction. A name that stands in the folder therefore always has its bytes behind it, unless the disk
 * damaged them, which files_check and files_load notice.
 *
 * Errors of writing: ERR_NO_SPACE and ERR_READ_ONLY leave the folder as it was; after ERR_IO what the disk holds is not
 * known. One writer. */
#ifndef STORE_FILES_H
#define STORE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"

struct files {
  int dir_fd; /* −1: not open */
  const struct digest_fn *digest;
};

/* Opens the folder `files` inside state_fd; created 0700 when asked for. Keeps digest. */
MUST_USE enum err files_open(struct files *f, int state_fd, bool create, const struct digest_fn *digest);
void files_close(struct files *f);

/* Stores bytes; a file of the same name and whole is left as it is. */
MUST_USE enum err files_put(struct files *f, const uint8_t *bytes, size_t n_bytes, struct digest *out_name);

/* Makes the names of all files put before durable. */
MUST_USE enum err files_sync(struct files *f);

/* The caller closes the descriptor. ERR_NOT_FOUND. */
MUST_USE enum err files_get(const struct files *f, const struct digest *name, int *out_fd, uint64_t *out_n_bytes);

/* The whole file, its digest checked; the caller frees. ERR_CORRUPT, ERR_LIMIT, ERR_NOT_FOUND, ERR_NO_MEMORY. */
MUST_USE enum err files_load(const struct files *f, const struct digest *name, size_t max_bytes, uint8_t **out_bytes,
                             size_t *out_n_bytes);

/* Reads it through: ERR_CORRUPT when it is missing, unreadable or not what its name says. */
MUST_USE enum err files_check(const struct files *f, const struct digest *name);

/* Whether the folder holds any file under a digest's name. */
bool files_any(const struct files *f);

/* Removes every file that `is_named` does not claim, temporary ones included. What cannot be removed now is found again
 * by the next sweep. */
void files_sweep(struct files *f, bool (*is_named)(void *context, const struct digest *name), void *context);

/* err_from_errno, with "larger than this process may write" as no space. */
enum err files_errno(int errno_value);

#endif
