/* Training data that arrive: a CSV file that grows, or a folder of CSV files, looked at before each training (data.watch).
 *
 * What is taken ends with a line's end in every file, so that a line that is still being written waits for the next look. A folder's
 * files stand in the order of their names; each begins with the same line of columns, which is taken once. Files whose names begin with
 * a dot, and what is no regular file, are left out. Files are read, never mapped: one that is cut off meanwhile is an error and no
 * signal. Bounds: MAX_STREAM_FILES, MAX_STREAM_BYTES, MAX_STREAM_HEAD_BYTES. Any thread; the caller owns all. */
#ifndef AGENT_STREAM_H
#define AGENT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "models/formats/data_file.h"

enum { MAX_STREAM_FILES = 65536, MAX_STREAM_HEAD_BYTES = 4 << 20 /* of the line of columns */ };
#define MAX_STREAM_BYTES ((uint64_t)1 << 40)

/* What stood there at a look. */
struct stream_look {
  struct stream_file *files; /* [n] by name */
  size_t n;
  bool is_folder;
};

/* ERR_NOT_FOUND, ERR_PERMISSION, ERR_LIMIT, ERR_IO …, with the place. */
MUST_USE enum err stream_look(const char *path, struct stream_look *out_look, struct data_place *out_why);
void stream_look_done(struct stream_look *look);

/* Whether a file is there that was not, or one has another length, was written or was replaced. out_lost: "" or a sentence about the
 * first that has lost something: gone, shorter, or another file under its name. Of one that is written over without becoming
 * shorter nobody knows what is lost. */
bool stream_differs(const struct stream_look *before, const struct stream_look *now, char out_lost[MAX_REASON_BYTES]);

/* All of it as one CSV file without a name, to be read by way of out_path ("/proc/self/fd/7") until the descriptor is closed.
 * ERR_SYNTAX: no line of columns, or another than the first file's; ERR_TRUNCATED: one was cut off while it was read; else as
 * stream_look. */
enum { STREAM_PATH_BYTES = 32 };
MUST_USE enum err stream_open(const char *path, const struct stream_look *look, int *out_fd,
                              char out_path[STREAM_PATH_BYTES], struct data_place *out_why);

#endif
