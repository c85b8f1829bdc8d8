/* Paths, and small files that people write, whole. Any thread. */
#ifndef AGENT_FILE_H
#define AGENT_FILE_H

#include <stddef.h>

#include "base/err.h"
#include "base/limits.h"

/* The folder that a file lies in; "." when the path has none. */
void path_folder(const char *path, char out_folder[MAX_PATH_BYTES]);

/* Joins a path to a folder; an absolute one stays, and so it does in "" and ".". ERR_LIMIT. */
MUST_USE enum err path_join(const char *folder, const char *path, char out_path[MAX_PATH_BYTES]);

/* Reads a regular file of at most max_bytes (links are followed); NUL-terminated, the caller frees. Never blocks on a
 * FIFO. ERR_NOT_FOUND, ERR_PERMISSION, ERR_UNSUPPORTED (no regular file), ERR_LIMIT, ERR_NO_MEMORY, ERR_IO. */
MUST_USE enum err file_read(const char *path, size_t max_bytes, char **out_bytes, size_t *out_n_bytes);

/* Writes a new file whole and durable: temporary file, fsync, its name (base/new_name.h), fsync of the folder. Of the mode the
 * umask takes its part. ERR_EXISTS: never overwrites; else an error of the file system. */
MUST_USE enum err file_create(const char *path, unsigned mode, const char *text);

/* The same in place of what stands there: renamed to it, so that a reader finds the old file or the new one, whole. */
MUST_USE enum err file_replace(const char *path, unsigned mode, const char *text);

#endif
