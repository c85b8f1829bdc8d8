#include "models/formats/zip_file.h"

#include <errno.h>
#include <inttypes.h>
#include <minizip/unzip.h>
#include <minizip/zip.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { METHOD_STORED = 0, METHOD_DEFLATE = 8, FLAG_ENCRYPTED = 1 };

/* minizip's stream over our descriptor. */
struct stream {
  int fd;
  uint64_t at, n_bytes;
  bool has_failed;
};

struct zip_file {
  struct stream stream;
  unzFile unzip;
  char path[MAX_PATH_BYTES];
  struct zip_member *members;
  unz64_file_pos *places; /* [n] */
  size_t n, capacity;

  /* the member that is read */
  const struct zip_member *member;
  uint64_t n_out;
};

/* ---- minizip's calls for bytes ---- */

static voidpf ZCALLBACK stream_open(voidpf opaque, const void *path, int mode) {
  (void)path;
  (void)mode;
  return opaque;
}

static uLong ZCALLBACK stream_read(voidpf opaque, voidpf of, void *out, uLong n) {
  struct stream *s = opaque;
  (void)of;
  uLong done = 0;
  while (done < n) {
    ssize_t got = pread(s->fd, (uint8_t *)out + done, n - done, (off_t)s->at);
    if (got < 0 && errno == EINTR)
      continue;
    s->has_failed = s->has_failed || got < 0;
    if (got <= 0)
      break;
    done += (uLong)got;
    s->at += (uint64_t)got;
  }
  return done;
}

static ZPOS64_T ZCALLBACK stream_tell(voidpf opaque, voidpf of) {
  (void)of;
  return ((struct stream *)opaque)->at;
}

static long ZCALLBACK stream_seek(voidpf opaque, voidpf of, ZPOS64_T offset, int origin) {
  struct stream *s = opaque;
  (void)of;
  uint64_t from = origin == ZLIB_FILEFUNC_SEEK_CUR ? s->at : origin == ZLIB_FILEFUNC_SEEK_END ? s->n_bytes : 0, to;
  if (__builtin_add_overflow(from, (uint64_t)offset, &to) || to > s->n_bytes)
    return -1;
  s->at = to;
  return 0;
}

static int ZCALLBACK stream_close(voidpf opaque, voidpf of) {
  (void)opaque;
  (void)of;
  return 0;
}

static int ZCALLBACK stream_error(voidpf opaque, voidpf of) {
  (void)of;
  return ((struct stream *)opaque)->has_failed;
}

/* ---- opening ---- */

static struct data_place *place(const struct zip_file *z, struct data_place *why) {
  memcpy(why->path, z->path, sizeof why->path);
  return why;
}

/* The name as it may be shown: control characters are question marks. */
static void show(const char *name, char out_text[ZIP_NAME_BYTES]) {
  size_t i = 0;
  for (; name[i] != '\0' && i + 1 < ZIP_NAME_BYTES; i++)
    out_text[i] = (char)(name[i] < ' ' || name[i] > '~' ? '?' : name[i]);
  out_text[i] = '\0';
}

/* One segment between slashes after the other: neither empty nor `..`, no backslash, printable. */
static bool name_is_plain(const char *name) {
  if (name[0] == '\0' || name[strlen(name) - 1] == '/')
    return false;
  for (const char *at = name; *at != '\0'; at++)
    if (*at == '\\' || (uint8_t)*at < ' ' || *at == 0x7f)
      return false;
  for (const char *at = name;; at++) {
    size_t n = strcspn(at, "/");
    if (n == 0 || (n == 2 && memcmp(at, "..", 2) == 0))
      return false;
    at += n;
    if (*at == '\0')
      return true;
  }
}

static bool expands_too_far(uint64_t n_bytes, uint64_t n_packed) {
  return n_bytes > ZIP_FREE_BYTES && n_bytes - ZIP_FREE_BYTES > ZIP_MAX_RATIO * n_packed; /* n_packed ≤ the file's */
}

static enum err expansion(const struct zip_file *z, const struct zip_member *m, uint64_t n_bytes, uint64_t n_packed,
                          struct data_place *why) {
  char name[ZIP_NAME_BYTES];
  show(m->name, name);
  return data_fault(place(z, why), ERR_LIMIT,
                    "its member %.64s makes %" PRIu64 " bytes of %" PRIu64
                    ", more than %d-fold; write it without compression",
                    name, n_bytes, n_packed, ZIP_MAX_RATIO);
}

static enum err judge_member(const struct zip_file *z, const struct zip_member *m, const unz_file_info64 *info,
                             struct data_place *why) {
  char name[ZIP_NAME_BYTES];
  show(m->name, name);
  if (info->size_filename >= ZIP_NAME_BYTES || strlen(m->name) != info->size_filename || !name_is_plain(m->name))
    return data_fault(place(z, why), ERR_SYNTAX,
                      "its member \"%.64s\" has a name that no array can have; write the file by numpy.savez", name);
  if ((info->flag & FLAG_ENCRYPTED) != 0)
    return data_fault(place(z, why), ERR_UNSUPPORTED, "its member %.64s is encrypted; write it without", name);
  if (info->compression_method != METHOD_STORED && info->compression_method != METHOD_DEFLATE)
    return data_fault(place(z, why), ERR_UNSUPPORTED,
                      "its member %.64s is packed by method %lu; only stored and deflate are read", name,
                      info->compression_method);
  if (m->n_packed > z->stream.n_bytes)
    return data_fault(place(z, why), ERR_TRUNCATED,
                      "its member %.64s declares %" PRIu64 " bytes, the file has %" PRIu64 "; fetch it again", name,
                      m->n_packed, z->stream.n_bytes);
  if (expands_too_far(m->n_bytes, m->n_packed))
    return expansion(z, m, m->n_bytes, m->n_packed, why);
  if (info->compression_method == METHOD_STORED && m->n_bytes != m->n_packed)
    return data_fault(place(z, why), ERR_CORRUPT, "its stored member %.64s has two lengths; fetch the file again",
                      name);
  return ERR_OK;
}

static enum err grow(struct zip_file *z) {
  size_t capacity = z->capacity == 0 ? 16 : 2 * z->capacity;
  struct zip_member *members = realloc(z->members, capacity * sizeof *members);
  if (members != NULL)
    z->members = members;
  unz64_file_pos *places = realloc(z->places, capacity * sizeof *places);
  if (places != NULL)
    z->places = places;
  if (members == NULL || places == NULL)
    return ERR_NO_MEMORY;
  z->capacity = capacity;
  return ERR_OK;
}

static enum err damaged(const struct zip_file *z, struct data_place *why) {
  return data_fault(place(z, why), z->stream.has_failed ? ERR_IO : ERR_CORRUPT,
                    z->stream.has_failed ? "reading failed" : "its directory of members is damaged; fetch it again");
}

static enum err add_member(struct zip_file *z, struct data_place *why) {
  unz_file_info64 info;
  if (z->n == ZIP_MAX_MEMBERS)
    return data_fault(place(z, why), ERR_LIMIT, "it has more than %d members", ZIP_MAX_MEMBERS);
  if (z->n == z->capacity && grow(z) != ERR_OK)
    return data_fault(place(z, why), ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  struct zip_member *m = &z->members[z->n];
  *m = (struct zip_member){0};
  if (unzGetCurrentFileInfo64(z->unzip, &info, m->name, sizeof m->name - 1, NULL, 0, NULL, 0) != UNZ_OK ||
      unzGetFilePos64(z->unzip, &z->places[z->n]) != UNZ_OK)
    return damaged(z, why);
  m->n_bytes = info.uncompressed_size;
  m->n_packed = info.compressed_size;
  z->n++;
  return judge_member(z, m, &info, why);
}

static int compare_members(const void *a, const void *b) {
  return strcmp(((const struct zip_member *)a)->name, ((const struct zip_member *)b)->name);
}

/* Members share no bytes, and no name. */
static enum err judge_all(const struct zip_file *z, struct data_place *why) {
  uint64_t n_packed = 0;
  enum err e = ERR_OK;
  struct zip_member *sorted = malloc((z->n + 1) * sizeof *sorted);
  if (sorted == NULL)
    return data_fault(place(z, why), ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  for (size_t i = 0; e == ERR_OK && i < z->n; i++) {
    sorted[i] = z->members[i];
    n_packed += z->members[i].n_packed; /* each ≤ the file's length */
    if (n_packed > z->stream.n_bytes)
      e = data_fault(place(z, why), ERR_CORRUPT, "its members overlap; fetch the file again");
  }
  if (e == ERR_OK)
    qsort(sorted, z->n, sizeof *sorted, compare_members);
  for (size_t i = 1; e == ERR_OK && i < z->n; i++)
    if (strcmp(sorted[i - 1].name, sorted[i].name) == 0)
      e = data_fault(place(z, why), ERR_EXISTS, "its member %.64s stands there twice; write the file again",
                     sorted[i].name);
  free(sorted);
  return e;
}

static enum err read_directory(struct zip_file *z, struct data_place *why) {
  unz_global_info64 all;
  if (unzGetGlobalInfo64(z->unzip, &all) != UNZ_OK)
    return damaged(z, why);
  if (all.number_entry == 0)
    return data_fault(place(z, why), ERR_RANGE, "it has no arrays");
  int code = unzGoToFirstFile(z->unzip);
  for (; code == UNZ_OK; code = unzGoToNextFile(z->unzip)) {
    enum err e = add_member(z, why);
    if (e != ERR_OK)
      return e;
  }
  return code == UNZ_END_OF_LIST_OF_FILE && z->n == all.number_entry ? judge_all(z, why) : damaged(z, why);
}

enum err zip_open(const char *path, struct zip_file **out_zip, struct data_place *why) {
  int fd;
  uint64_t n_bytes;
  enum err e = data_open(path, why, &fd, &n_bytes);
  if (e != ERR_OK)
    return e;
  struct zip_file *z = calloc(1, sizeof *z);
  if (z == NULL) {
    close(fd);
    return data_fault(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  }
  memcpy(z->path, why->path, sizeof z->path);
  z->stream = (struct stream){.fd = fd, .n_bytes = n_bytes};
  zlib_filefunc64_def calls = {stream_open, stream_read,  NULL,         stream_tell,
                               stream_seek, stream_close, stream_error, &z->stream};
  z->unzip = unzOpen2_64(path, &calls);
  e = z->unzip != NULL
          ? read_directory(z, why)
          : data_fault(why, ERR_SYNTAX, "it is no whole zip archive; write it by numpy.savez, or fetch it again");
  if (e != ERR_OK) {
    zip_close(z);
    return e;
  }
  *out_zip = z;
  return ERR_OK;
}

void zip_close(struct zip_file *z) {
  if (z == NULL)
    return;
  if (z->unzip != NULL)
    unzClose(z->unzip);
  close(z->stream.fd);
  free(z->members);
  free(z->places);
  free(z);
}

size_t zip_members(const struct zip_file *z) {
  return z->n;
}

const struct zip_member *zip_member(const struct zip_file *z, size_t i) {
  return &z->members[i];
}

/* ---- reading a member ---- */

static enum err member_fault(const struct zip_file *z, enum err e, struct data_place *why) {
  char name[ZIP_NAME_BYTES];
  show(z->member->name, name);
  return data_fault(place(z, why), e, "its member %.64s is damaged after byte %" PRIu64 "; fetch the file again", name,
                    z->n_out);
}

enum err zip_enter(struct zip_file *z, size_t i, struct data_place *why) {
  z->member = &z->members[i];
  z->n_out = 0;
  if (unzGoToFilePos64(z->unzip, &z->places[i]) == UNZ_OK) {
    int code = unzOpenCurrentFile(z->unzip); /* closes the one before */
    if (code == UNZ_OK)
      return ERR_OK;
    if (code == UNZ_INTERNALERROR)
      return data_fault(place(z, why), ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  }
  return member_fault(z, z->stream.has_failed ? ERR_IO : ERR_CORRUPT, why);
}

enum err zip_read(struct zip_file *z, void *out_bytes, size_t n, struct data_place *why) {
  enum { AT_ONCE = 1 << 20 };
  for (size_t done = 0; done < n;) {
    unsigned now = (unsigned)(n - done < AT_ONCE ? n - done : AT_ONCE);
    int got = unzReadCurrentFile(z->unzip, (uint8_t *)out_bytes + done, now);
    if (got == 0)
      return member_fault(z, ERR_TRUNCATED, why);
    if (got < 0)
      return member_fault(z, z->stream.has_failed ? ERR_IO : ERR_CORRUPT, why);
    done += (size_t)got;
    z->n_out += (uint64_t)got;
    if (expands_too_far(z->n_out, z->member->n_packed))
      return expansion(z, z->member, z->n_out, z->member->n_packed, why);
  }
  return ERR_OK;
}

enum err zip_leave(struct zip_file *z, struct data_place *why) {
  uint8_t extra;
  int got = unzReadCurrentFile(z->unzip, &extra, 1);
  if (got > 0)
    return data_fault(place(z, why), ERR_TRAILING, "bytes follow the array in its member %.64s", z->member->name);
  int code = unzCloseCurrentFile(z->unzip);
  return got == 0 && code == UNZ_OK ? ERR_OK : member_fault(z, ERR_CORRUPT, why);
}

/* ---- writing ---- */

struct zip_writer {
  zipFile zip;
};

enum err zip_create(const char *path, struct zip_writer **out_writer) {
  struct zip_writer *w = calloc(1, sizeof *w);
  if (w == NULL)
    return ERR_NO_MEMORY;
  w->zip = zipOpen64(path, APPEND_STATUS_CREATE);
  if (w->zip == NULL) {
    free(w);
    return err_from_errno(errno);
  }
  *out_writer = w;
  return ERR_OK;
}

enum err zip_begin(struct zip_writer *w, const char *name) {
  static const zip_fileinfo fixed = {.tmz_date = {.tm_mday = 1, .tm_year = 1980}};
  int code = zipOpenNewFileInZip64(w->zip, name, &fixed, NULL, 0, NULL, 0, NULL, METHOD_STORED, 0, 0);
  return code == ZIP_OK ? ERR_OK : ERR_IO;
}

enum err zip_write(struct zip_writer *w, const void *bytes, size_t n) {
  enum { AT_ONCE = 1 << 20 };
  for (size_t done = 0; done < n;) {
    unsigned now = (unsigned)(n - done < AT_ONCE ? n - done : AT_ONCE);
    if (zipWriteInFileInZip(w->zip, (const uint8_t *)bytes + done, now) != ZIP_OK)
      return ERR_IO;
    done += now;
  }
  return ERR_OK;
}

enum err zip_end(struct zip_writer *w) {
  return zipCloseFileInZip(w->zip) == ZIP_OK ? ERR_OK : ERR_IO;
}

enum err zip_finish(struct zip_writer *w) {
  int code = zipClose(w->zip, NULL);
  free(w);
  return code == ZIP_OK ? ERR_OK : ERR_IO;
}
