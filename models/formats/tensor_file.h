/* Files of named tensors: models as other programs keep them. One table of formats (tensor_file.c):
 *
 *   .safetensors   8-byte length, JSON head, values without gaps; f16, bf16, f32, f64, bool, integers (safetensors.h)
 *   .npz           an archive of NumPy arrays (npy.h)
 *
 * PyTorch's own files (.pt, .pth, .ckpt, .bin) are pickled programs and Keras' (.h5, .keras) need HDF5: both are refused, and
 * tensor_file_recipe converts them. Nothing is allocated by a declared size that the file has not been held against.
 *
 * Values are read, not mapped: each is turned into a float and put into its place in the model anyway, so a map saves nothing,
 * and a mapped file that shrinks ends the process. A file that shrinks here is a short read.
 * One thread at a time; the reader of a file is its owner's until tensor_file_close. */
#ifndef MODELS_FORMATS_TENSOR_FILE_H
#define MODELS_FORMATS_TENSOR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/formats/array.h"
#include "models/formats/data_file.h"

enum { TENSOR_NAME_BYTES = 256, MAX_STORED_TENSORS = 2 * MAX_TENSORS, MAX_NOTES = 64 };

struct stored_tensor {
  char name[TENSOR_NAME_BYTES];
  struct array array;
  uint64_t offset; /* safetensors: of its first byte in the file */
};

/* A line of metadata. */
struct tensor_note {
  const char *key;
  const char *text;
};

struct tensor_file;

/* Two lines of Python that turn a file of this name into one that can be read; NULL: there is no need, or no recipe. */
const char *tensor_file_recipe(const char *path);

/* ERR_UNSUPPORTED: another format; ERR_SYNTAX, ERR_CORRUPT (overlap, gap, a length that does not fit the
 * shape), ERR_TRUNCATED, ERR_TRAILING, ERR_LIMIT, ERR_EXISTS (a name twice); those of archive_open and data_open. */
MUST_USE enum err tensor_file_open(const char *path, struct tensor_file **out_file, struct data_place *why);
void tensor_file_close(struct tensor_file *f);

size_t tensor_file_n(const struct tensor_file *f);
const struct stored_tensor *tensor_file_tensor(const struct tensor_file *f, size_t i); /* in the file's order */

/* Whether that order is the one in which they were written; else only their names say anything. */
bool tensor_file_keeps_order(const struct tensor_file *f);

/* The text of a line of its metadata; NULL: there is none. */
const char *tensor_file_note(const struct tensor_file *f, const char *key);

/* The values of tensor i as floats in C order: out [array.n_values], at most MAX_PARAMETERS. ERR_NON_FINITE: NaN, infinite
 * or too large for a float; ERR_TRUNCATED, ERR_CORRUPT, ERR_IO, ERR_NO_MEMORY. */
MUST_USE enum err tensor_file_read(struct tensor_file *f, size_t i, float *out_values, struct data_place *why);

/* ---- writing ---- */

struct tensor_out {
  const char *name;
  uint32_t rank;
  uint64_t size[ARRAY_MAX_RANK];
  const float *values; /* C order; borrowed for the call */
};

enum tensor_format { TENSORS_SAFETENSORS, TENSORS_NPZ, N_TENSOR_FORMATS };

/* Writes the file, which must not be there yet, whole and synced before it has its name. Notes are
 * safetensors' metadata (npz has none). ERR_EXISTS, ERR_NO_SPACE, ERR_PERMISSION, ERR_IO … */
MUST_USE enum err tensor_file_write(const char *path, enum tensor_format format, const struct tensor_out *tensors,
                                    size_t n, const struct tensor_note *notes, size_t n_notes);

#endif
