/* Zip archives of arrays (.npz), read member by member and written. Through libzip: minizip,
 * which would be smaller, misreads zip64 directories on 64-bit hosts.
 *
 * libzip takes memory by members that the directory has room for, never by a size that it declares; on top of it, opening refuses whatever no writer of arrays
 * makes: names that are absolute, climb by `..`, have control characters or stand twice, with or without .npy, encryption, other methods than
 * stored and deflate, members that together have more bytes than the file, and expansion beyond ARCHIVE_FREE_BYTES + ARCHIVE_MAX_RATIO × the packed bytes, by what
 * is declared and again by what really comes out. CRCs are checked. Zip64 is read. One thread at a time. */
#ifndef MODELS_FORMATS_ARCHIVE_H
#define MODELS_FORMATS_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/formats/data_file.h"

enum {
  ARCHIVE_NAME_BYTES = 256,
  ARCHIVE_MAX_MEMBERS = 2 * MAX_TENSORS,
  ARCHIVE_FREE_BYTES = 64 << 20,
  ARCHIVE_MAX_RATIO = 100
};

struct archive_member {
  char name[ARCHIVE_NAME_BYTES]; /* UTF-8: what is none is taken for code page 437, as zip says */
  size_t n_name;                 /* of it without .npy: what NumPy calls the array */
  uint64_t n_bytes, n_packed;    /* declared */
};

struct archive;

/* ERR_SYNTAX: no zip archive, or an odd name; ERR_EXISTS: a name twice; ERR_LIMIT: ARCHIVE_MAX_MEMBERS, the expansion;
 * ERR_CORRUPT: members overlap so, or their heads are damaged; ERR_UNSUPPORTED: encrypted, another method; those of data_open. */
MUST_USE enum err archive_open(const char *path, struct archive **out_zip, struct data_place *why);
void archive_close(struct archive *z);

size_t archive_members(const struct archive *z);
const struct archive_member *archive_member(const struct archive *z, size_t i);

/* Begins member i, and forgets the one before wherever it stood. ERR_CORRUPT, ERR_NO_MEMORY. */
MUST_USE enum err archive_enter(struct archive *z, size_t i, struct data_place *why);

/* Exactly n bytes of the member. ERR_TRUNCATED, ERR_CORRUPT, ERR_LIMIT, ERR_IO. */
MUST_USE enum err archive_read(struct archive *z, void *out_bytes, size_t n, struct data_place *why);

/* The member ends here, and its CRC is right. ERR_TRAILING, ERR_CORRUPT. */
MUST_USE enum err archive_leave(struct archive *z, struct data_place *why);

/* ---- writing: stored, with a fixed date, so that equal members make equal files ---- */

struct archive_writer;

/* A new one. ERR_EXISTS; others of err_from_errno; ERR_NO_MEMORY; ERR_UNSUPPORTED without libzip. */
MUST_USE enum err archive_create(const char *path, struct archive_writer **out_writer);

/* One more member; its bytes are borrowed until archive_finish, which writes them. */
MUST_USE enum err archive_add(struct archive_writer *w, const char *name, const void *bytes, size_t n);

/* Writes all and frees the writer, also after an error. Errors as archive_create. */
MUST_USE enum err archive_finish(struct archive_writer *w);

#endif
