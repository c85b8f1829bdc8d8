/* Is this file system fit for a store? WAL needs shared memory and locks that hold between processes, which network and
 * pass-through file systems do not promise; overlay and tmpfs work but do not outlive their container or host. */
#ifndef STORE_FILESYSTEM_H
#define STORE_FILESYSTEM_H

#include "base/err.h"
#include "base/limits.h"

/* ERR_UNSUPPORTED with a sentence, or ERR_OK with out_warning "" or one sentence. `magic` as in statfs(2). */
MUST_USE enum err filesystem_judge(unsigned long magic, const char *path, char out_warning[MAX_REASON_BYTES],
                                   char out_why[MAX_REASON_BYTES]);

/* The same for the file system that holds an open directory. */
MUST_USE enum err filesystem_check(int dir_fd, const char *path, char out_warning[MAX_REASON_BYTES],
                                   char out_why[MAX_REASON_BYTES]);

#endif
