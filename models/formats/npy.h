/* NumPy arrays: `.npy` files of versions 1 to 3, and members of `.npz` archives (archive.h).
 *
 * A file is magic, version, the length of a head, the head and the values. The head is a Python dict literal with exactly the
 * keys descr, fortran_order and shape, read by a small strict parser: nothing is evaluated. Types are bool, integers and
 * floats of up to 8 bytes in either byte order; objects, which are pickled code, and records are refused. The length of the
 * file is held against the shape before anything is allocated. One thread at a time.
 * Source: NEP 1 and numpy.lib.format. */
#ifndef MODELS_FORMATS_NPY_H
#define MODELS_FORMATS_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/formats/archive.h"
#include "models/formats/array.h"
#include "models/formats/data_file.h"

enum { NPY_MAX_HEAD_BYTES = 10000 /* as NumPy itself */, NPY_LEAD_BYTES = 12 };

/* Takes a head [n] apart. On failure a sentence with the remedy: ERR_SYNTAX; ERR_UNSUPPORTED: type, rank; ERR_LIMIT: sizes. */
MUST_USE enum err npy_head_read(const char *head, size_t n, struct array *out_array, char why[MAX_REASON_BYTES]);

/* The beginning of a version 1 file with these little-endian C-order values, a multiple of 64 bytes: [NPY_MAX_HEAD_BYTES]. */
size_t npy_head_write(const struct array *a, uint8_t *out_bytes);

struct npy_file;

/* Whether the name is one of an archive: FILE.npz or FILE.npz:ARRAY. */
bool npy_is_archive(const char *path);

/* FILE.npz of such a name, which is shorter than MAX_PATH_BYTES; false for any other. */
bool npy_archive_part(const char *path, char out_archive[MAX_PATH_BYTES]);

/* Opens FILE.npy, or the array of FILE.npz:ARRAY, or `otherwise` of FILE.npz, and reads the head. ERR_NOT_FOUND: no such
 * file or array (the sentence says which there are); those of npy_head_read, archive_open and data_open; ERR_TRUNCATED and
 * ERR_TRAILING: the file has not the length that its shape says. */
MUST_USE enum err npy_open(const char *path, const char *otherwise, struct npy_file **out_file, struct data_place *why);
void npy_close(struct npy_file *f);

const struct array *npy_array(const struct npy_file *f);

/* Makes `why` be about this file, and returns it. */
struct data_place *npy_place(const struct npy_file *f, struct data_place *why);

/* The next n bytes of the values, n ≤ what is left. ERR_TRUNCATED, ERR_CORRUPT, ERR_LIMIT, ERR_IO. */
MUST_USE enum err npy_read(struct npy_file *f, uint8_t *out_bytes, size_t n, struct data_place *why);

/* After the last value: nothing follows, and the checksum of an archive's member is right. ERR_TRAILING, ERR_CORRUPT. */
MUST_USE enum err npy_end(struct npy_file *f, struct data_place *why);

/* The same of a member that was entered by archive_enter: reads the head. */
MUST_USE enum err npy_head_enter(struct archive *z, const struct archive_member *m, struct array *out_array,
                                 struct data_place *why);

#endif
