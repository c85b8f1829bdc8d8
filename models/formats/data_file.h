/* Files of data: which they are, how they are opened, and where something is wrong in one. Any thread. */
#ifndef MODELS_FORMATS_DATA_FILE_H
#define MODELS_FORMATS_DATA_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"

/* Labelled samples; path NULL: none. NumPy files (x.npy with labels y.npy, or data.npz: models/data/array_pair.h) are known
 * by their names; of other files those with labels are IDX images with their IDX labels, those without CSV. */
struct data_file {
  const char *path;
  const char *labels;
};

enum data_format { DATA_CSV, DATA_IDX, DATA_ARRAYS };

enum data_format data_format_of(const struct data_file *file);

/* Where something is wrong, and in `sentence` what, with the remedy. */
struct data_place {
  char path[MAX_PATH_BYTES];
  uint64_t line;   /* from 1; 0: about the whole file, or a binary one (the sentence then has the byte offset) */
  uint64_t column; /* the field's number in its row, from 1; 0: about the line */
  char sentence[MAX_REASON_BYTES];
};

/* "path:line:column: sentence", "path:line: sentence" or "path: sentence", cut to the capacity. */
void data_place_text(const struct data_place *place, char *out_text, size_t capacity);

/* Sets the sentence and returns `e`, so that a reader's failure is one statement. The other fields stand already. */
MUST_USE enum err data_fault(struct data_place *why, enum err e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Makes `why` be about the whole file. ERR_LIMIT: the path is too long. */
MUST_USE enum err data_place_init(struct data_place *why, const char *path);

/* data_place_init, and opens it for reading; only regular files, since they are read twice.
 * The descriptor is the caller's. ERR_NOT_FOUND, ERR_PERMISSION, ERR_IO, ERR_LIMIT; ERR_UNSUPPORTED: a folder, a pipe … */
MUST_USE enum err data_open(const char *path, struct data_place *why, int *out_fd, uint64_t *out_n_bytes);

#endif
