/* A folder of files that are named by the digest of their bytes, and so never change.
 *
 * The files of a transaction are written, all of them are then synced, and the folder once. Only after that a row may name
 * them; what a power cut leaves behind before is a file that no row names, whole or not, and goes with the next opening.
 * Written first and synced together they cost a journal of the file system one commit, where a sync, a rename and another
 * sync a file cost it one each (ext4). What the disk damages, files_check and files_load notice.
 *
 * Who writes knows the names that stand there from a list in memory, so that a transaction reads the folder never.
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
#include "store/spares.h"

enum { MAX_UNSYNCED = 4 /* files of a transaction */ };

struct file_entry {
  struct digest name;
  uint64_t n_bytes;
  bool is_claimed;
};

struct files {
  int dir_fd; /* −1: not open */
  const struct digest_fn *digest;
  struct file_entry *entries; /* in the order of their names */
  size_t n_entries, capacity;
  bool is_listed;
  int unsynced[MAX_UNSYNCED]; /* descriptors of what was put and not synced yet */
  size_t n_unsynced;
  struct spares spares;
};

/* Opens the folder `files` inside state_fd; created 0700 when asked for. Keeps digest. */
MUST_USE enum err files_open(struct files *f, int state_fd, bool create, const struct digest_fn *digest);
void files_close(struct files *f);

/* Reads the folder once: what the calls for writers below go by. What has no digest's name is removed. ERR_NO_MEMORY, or why
 * the folder cannot be read; nothing is listed then, and so nothing swept. */
MUST_USE enum err files_list(struct files *f);
uint64_t files_bytes(const struct files *f); /* of all files that are listed, and of spares */

/* Whether the bytes are what a file of that name holds, by the digest of today or one before it. */
bool files_is_name(const struct files *f, const struct digest *name, const uint8_t *bytes, size_t n_bytes);

/* Stores bytes under their digest, which is the caller's to know; a file of the same name and whole is left as it is. At most
 * MAX_UNSYNCED before files_sync or files_forget. ERR_LIMIT: more than a digest may be of. */
MUST_USE enum err files_put(struct files *f, const struct digest *name, const uint8_t *bytes, size_t n_bytes);

/* Makes all files put before durable, and their names; none was put: nothing is done. */
MUST_USE enum err files_sync(struct files *f);

/* Lets go of files that were put and will not be synced: nothing names them. */
void files_forget(struct files *f);

/* The caller closes the descriptor. ERR_NOT_FOUND. */
MUST_USE enum err files_get(const struct files *f, const struct digest *name, int *out_fd, uint64_t *out_n_bytes);

/* The whole file, its digest checked; the caller frees. ERR_CORRUPT, ERR_LIMIT, ERR_NOT_FOUND, ERR_NO_MEMORY. */
MUST_USE enum err files_load(const struct files *f, const struct digest *name, size_t max_bytes, uint8_t **out_bytes,
                             size_t *out_n_bytes);

/* Reads it through: ERR_CORRUPT when it is missing, unreadable or not what its name says. */
MUST_USE enum err files_check(const struct files *f, const struct digest *name);

/* Whether the folder holds any file under a digest's name. */
bool files_any(const struct files *f);

/* Takes away every listed file that was not claimed since the sweep before. What cannot be removed now is found again by the
 * next sweep. */
void files_claim(struct files *f, const struct digest *name);
void files_sweep(struct files *f);

/* Removes what is kept only to be written over. */
void files_drop_spares(struct files *f);

/* err_from_errno, with "larger than this process may write" as no space. */
enum err files_errno(int errno_value);

#endif
