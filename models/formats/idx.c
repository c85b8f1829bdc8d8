#include "models/formats/idx.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { IDX_UNSIGNED_BYTE = 8, IDX_BUFFER_BYTES = 64 * 1024, DEFLATE_MAX_RATIO = 1032 };

struct idx_file {
  gzFile gz;
  char path[MAX_PATH_BYTES];
  struct idx_shape shape;
  size_t item_bytes;
  uint64_t offset;
};

struct data_place *idx_place(const struct idx_file *f, struct data_place *why) {
  memcpy(why->path, f->path, sizeof why->path);
  return why;
}

/* Why fewer bytes came than were asked for. */
static enum err short_read(struct idx_file *f, int code, struct data_place *why) {
  switch (code) {
  case Z_OK:
  case Z_BUF_ERROR:
    return data_fault(idx_place(f, why), ERR_TRUNCATED,
                      "it ends at byte %" PRIu64 ", before its declared end; fetch the file again", f->offset);
  case Z_ERRNO:
    return data_fault(idx_place(f, why), ERR_IO, "reading failed after byte %" PRIu64, f->offset);
  default:
    return data_fault(idx_place(f, why), ERR_CORRUPT,
                      "gzip data is damaged after byte %" PRIu64 "; fetch the file again", f->offset);
  }
}

static int error_code(const struct idx_file *f) {
  int code;
  gzerror(f->gz, &code);
  return code;
}

static enum err read_bytes(struct idx_file *f, uint8_t *out, size_t n, struct data_place *why) {
  int got = gzread(f->gz, out, (unsigned)n);
  if (got > 0)
    f->offset += (uint64_t)got;
  return got >= 0 && (size_t)got == n ? ERR_OK : short_read(f, error_code(f), why);
}

static uint32_t big_endian_u32(const uint8_t b[4]) {
  return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static enum err read_magic(struct idx_file *f, struct data_place *why) {
  uint8_t magic[4];
  enum err e = read_bytes(f, magic, sizeof magic, why);
  if (e != ERR_OK)
    return e;
  if (magic[0] != 0 || magic[1] != 0)
    return data_fault(idx_place(f, why), ERR_SYNTAX,
                      "it does not begin as an IDX file (0 0, found %u %u); name an IDX file", magic[0], magic[1]);
  if (magic[2] != IDX_UNSIGNED_BYTE)
    return data_fault(idx_place(f, why), ERR_UNSUPPORTED,
                      "its values have IDX type %u; only type 8, unsigned bytes, is read", magic[2]);
  if (magic[3] < 1 || magic[3] > IDX_MAX_RANK)
    return data_fault(idx_place(f, why), ERR_UNSUPPORTED, "it has %u dimensions; 1 to %d are read", magic[3],
                      IDX_MAX_RANK);
  f->shape.rank = magic[3];
  return ERR_OK;
}

static enum err read_sizes(struct idx_file *f, struct data_place *why) {
  f->item_bytes = 1;
  for (uint32_t i = 0; i < f->shape.rank; i++) {
    uint8_t bytes[4];
    enum err e = read_bytes(f, bytes, sizeof bytes, why);
    if (e != ERR_OK)
      return e;
    uint32_t size = f->shape.size[i] = big_endian_u32(bytes);
    size_t most = i == 0 ? MAX_SAMPLES : MAX_FEATURES / f->item_bytes;
    if (size == 0)
      return data_fault(idx_place(f, why), ERR_RANGE, "it holds nothing: size %" PRIu32 " is 0", i);
    if (size > most)
      return data_fault(idx_place(f, why), ERR_LIMIT,
                        "it declares size %" PRIu32 " as %" PRIu32 "; at most %zu are read", i, size, most);
    if (i > 0)
      f->item_bytes *= size;
  }
  return ERR_OK;
}

/* Before anything is allocated by the declared sizes: can the file hold them? */
static enum err check_length(struct idx_file *f, uint64_t file_bytes, struct data_place *why) {
  uint64_t declared = f->offset + (uint64_t)f->shape.size[0] * f->item_bytes; /* ≤ 2^27 · 2^20 and a head */
  bool plain = gzdirect(f->gz) == 1;
  if (declared > (plain ? file_bytes : file_bytes * DEFLATE_MAX_RATIO))
    return data_fault(idx_place(f, why), ERR_TRUNCATED,
                      "it declares %" PRIu32 " items, %" PRIu64 " bytes, but has only %" PRIu64
                      " bytes; fetch the file again",
                      f->shape.size[0], declared, file_bytes);
  if (plain && declared < file_bytes)
    return data_fault(idx_place(f, why), ERR_TRAILING, "%" PRIu64 " bytes follow its declared end at byte %" PRIu64,
                      file_bytes - declared, declared);
  return ERR_OK;
}

enum err idx_open(const char *path, struct idx_file **out_file, struct data_place *why) {
  int fd;
  uint64_t file_bytes;
  enum err e = data_open(path, why, &fd, &file_bytes);
  if (e != ERR_OK)
    return e;
  if (file_bytes == 0) {
    close(fd);
    return data_fault(why, ERR_TRUNCATED, "it is empty; fetch the file again");
  }
  struct idx_file *f = calloc(1, sizeof *f);
  gzFile gz = gzdopen(fd, "rb"); /* the descriptor is now gz's */
  if (f == NULL || gz == NULL || gzbuffer(gz, IDX_BUFFER_BYTES) != 0) {
    e = data_fault(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
    goto out;
  }
  memcpy(f->path, why->path, sizeof f->path);
  f->gz = gz;
  e = read_magic(f, why);
  if (e == ERR_OK)
    e = read_sizes(f, why);
  if (e == ERR_OK)
    e = check_length(f, file_bytes, why);
  if (e == ERR_OK) {
    *out_file = f;
    return ERR_OK;
  }
out:
  if (gz != NULL)
    gzclose_r(gz);
  else
    close(fd);
  free(f);
  return e;
}

void idx_close(struct idx_file *f) {
  if (f == NULL)
    return;
  gzclose_r(f->gz);
  free(f);
}

void idx_item_extents(const struct idx_shape *s, bool one_row_wanted, uint32_t out_extents[3]) {
  bool is_series = s->rank == 3 && one_row_wanted && s->size[1] > 1;
  out_extents[0] = is_series ? 1 : s->size[1];
  out_extents[1] = is_series ? s->size[1] : s->size[2];
  out_extents[2] = is_series ? s->size[2] : s->rank == 4 ? s->size[3] : 1;
}

const struct idx_shape *idx_shape(const struct idx_file *f) {
  return &f->shape;
}

size_t idx_item_bytes(const struct idx_file *f) {
  return f->item_bytes;
}

uint64_t idx_offset(const struct idx_file *f) {
  return f->offset;
}

enum err idx_next(struct idx_file *f, uint8_t *out_item, struct data_place *why) {
  return read_bytes(f, out_item, f->item_bytes, why);
}

enum err idx_end(struct idx_file *f, struct data_place *why) {
  uint8_t extra;
  int got = gzread(f->gz, &extra, 1);
  if (got > 0)
    return data_fault(idx_place(f, why), ERR_TRAILING, "bytes follow its declared end at byte %" PRIu64, f->offset);
  int code = error_code(f); /* a missing gzip trailer is no bytes and Z_BUF_ERROR */
  return code == Z_OK || code == Z_STREAM_END ? ERR_OK : short_read(f, code, why);
}
