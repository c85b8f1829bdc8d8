/* Zip archives of arrays (.npz), read member by member and written. The door for minizip, which is zlib's own.
 *
 * minizip allocates nothing by a size that the file declares; on top of it, opening refuses whatever no writer of arrays
 * makes: names that are absolute, climb by `..`, have control characters or stand twice, encryption, other methods than
 * stored and deflate, members that overlap, and expansion beyond ZIP_FREE_BYTES + ZIP_MAX_RATIO × the packed bytes, by what
 * is declared and again by what really comes out. CRCs are checked. Zip64 is read. One thread at a time. */
#ifndef MODELS_FORMATS_ZIP_FILE_H
#define MODELS_FORMATS_ZIP_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/formats/data_file.h"

enum { ZIP_NAME_BYTES = 256, ZIP_MAX_MEMBERS = 2 * MAX_TENSORS, ZIP_FREE_BYTES = 64 << 20, ZIP_MAX_RATIO = 100 };

struct zip_member {
  char name[ZIP_NAME_BYTES];
  uint64_t n_bytes, n_packed; /* declared */
};

struct zip_file;

/* ERR_SYNTAX: no zip archive, or an odd name; ERR_EXISTS: a name twice; ERR_LIMIT: ZIP_MAX_MEMBERS, the expansion;
 * ERR_CORRUPT: members overlap or their heads are damaged; ERR_UNSUPPORTED: encrypted, another method; those of data_open. */
MUST_USE enum err zip_open(const char *path, struct zip_file **out_zip, struct data_place *why);
void zip_close(struct zip_file *z);

size_t zip_members(const struct zip_file *z);
const struct zip_member *zip_member(const struct zip_file *z, size_t i);

/* Begins member i, and forgets the one before wherever it stood. ERR_CORRUPT, ERR_NO_MEMORY. */
MUST_USE enum err zip_enter(struct zip_file *z, size_t i, struct data_place *why);

/* Exactly n bytes of the member. ERR_TRUNCATED, ERR_CORRUPT, ERR_LIMIT, ERR_IO. */
MUST_USE enum err zip_read(struct zip_file *z, void *out_bytes, size_t n, struct data_place *why);

/* The member ends here, and its CRC is right. ERR_TRAILING, ERR_CORRUPT. */
MUST_USE enum err zip_leave(struct zip_file *z, struct data_place *why);

/* ---- writing: stored, with a fixed date, so that equal members make equal files ---- */

struct zip_writer;

/* Over whatever is there. ERR_IO, ERR_NO_MEMORY. */
MUST_USE enum err zip_create(const char *path, struct zip_writer **out_writer);
MUST_USE enum err zip_begin(struct zip_writer *w, const char *name);
MUST_USE enum err zip_write(struct zip_writer *w, const void *bytes, size_t n);
MUST_USE enum err zip_end(struct zip_writer *w);

/* Writes the directory of the archive and frees the writer, also after an error. */
MUST_USE enum err zip_finish(struct zip_writer *w);

#endif
