#include "models/formats/archive.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/formats/libzip.h"

struct archive {
  struct libzip lib;
  zip_t *zip;
  uint64_t n_file; /* bytes */
  char path[MAX_PATH_BYTES];
  struct archive_member *members; /* [n] */
  size_t n;

  /* the member that is read */
  zip_file_t *open;
  const struct archive_member *member;
  uint64_t n_out;
};

/* ---- opening ---- */

static struct data_place *place(const struct archive *z, struct data_place *why) {
  memcpy(why->path, z->path, sizeof why->path);
  return why;
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
  return n_bytes > ARCHIVE_FREE_BYTES &&
         n_bytes - ARCHIVE_FREE_BYTES > ARCHIVE_MAX_RATIO * n_packed; /* n_packed ≤ the file's */
}

static enum err expansion(const struct archive *z, const struct archive_member *m, uint64_t n_bytes, uint64_t n_packed,
                          struct data_place *why) {
  return data_fault(place(z, why), ERR_LIMIT,
                    "its member %.64s makes %" PRIu64 " bytes of %" PRIu64
                    ", more than %d-fold; write it without compression",
                    m->name, n_bytes, n_packed, ARCHIVE_MAX_RATIO);
}

static enum err judge_member(const struct archive *z, const struct archive_member *m, const zip_stat_t *st,
                             struct data_place *why) {
  if (strlen(st->name) >= ARCHIVE_NAME_BYTES || !name_is_plain(m->name))
    return data_fault(place(z, why), ERR_SYNTAX,
                      "its member \"%.64s\" has a name that no array can have; write the file by numpy.savez", m->name);
  if (st->encryption_method != ZIP_EM_NONE)
    return data_fault(place(z, why), ERR_UNSUPPORTED, "its member %.64s is encrypted; write it without", m->name);
  if (st->comp_method != ZIP_CM_STORE && st->comp_method != ZIP_CM_DEFLATE)
    return data_fault(place(z, why), ERR_UNSUPPORTED,
                      "its member %.64s is packed by method %u; only stored and deflate are read", m->name,
                      st->comp_method);
  if (m->n_packed > z->n_file)
    return data_fault(place(z, why), ERR_TRUNCATED,
                      "its member %.64s declares %" PRIu64 " bytes, the file has %" PRIu64 "; fetch it again", m->name,
                      m->n_packed, z->n_file);
  if (expands_too_far(m->n_bytes, m->n_packed))
    return expansion(z, m, m->n_bytes, m->n_packed, why);
  if (st->comp_method == ZIP_CM_STORE && m->n_bytes != m->n_packed)
    return data_fault(place(z, why), ERR_CORRUPT, "its stored member %.64s has two lengths; fetch the file again",
                      m->name);
  return ERR_OK;
}

static size_t array_name_bytes(const char *name) {
  static const char ending[] = ".npy";
  size_t n = strlen(name), n_ending = sizeof ending - 1;
  return n > n_ending && strcmp(name + n - n_ending, ending) == 0 ? n - n_ending : n;
}

static enum err add_member(struct archive *z, size_t i, struct data_place *why) {
  const zip_uint64_t wanted = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
  struct archive_member *m = &z->members[i];
  zip_stat_t st;
  if (z->lib.stat_index(z->zip, i, ZIP_FL_ENC_GUESS, &st) != 0 || (st.valid & wanted) != wanted)
    return data_fault(place(z, why), ERR_CORRUPT, "its directory of members is damaged; fetch it again");
  *m = (struct archive_member){.n_bytes = st.size, .n_packed = st.comp_size};
  snprintf(m->name, sizeof m->name, "%s", st.name);
  m->n_name = array_name_bytes(m->name);
  return judge_member(z, m, &st, why);
}

static int compare_members(const void *a, const void *b) {
  return strcmp(((const struct archive_member *)a)->name, ((const struct archive_member *)b)->name);
}

/* Members have no more bytes together than the file, so that sharing them gains nothing, and no array's name in common. */
static enum err judge_all(const struct archive *z, struct data_place *why) {
  uint64_t n_packed = 0;
  enum err e = ERR_OK;
  struct archive_member *sorted = malloc((z->n + 1) * sizeof *sorted);
  if (sorted == NULL)
    return data_fault(place(z, why), ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  for (size_t i = 0; e == ERR_OK && i < z->n; i++) {
    sorted[i] = z->members[i];
    sorted[i].name[sorted[i].n_name] = '\0';
    n_packed += z->members[i].n_packed; /* each ≤ the file's length */
    if (n_packed > z->n_file)
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

static enum err read_directory(struct archive *z, struct data_place *why) {
  zip_int64_t n = z->lib.get_num_entries(z->zip, 0); /* held against the directory's length by libzip */
  enum err e = ERR_OK;
  if (n <= 0)
    return data_fault(place(z, why), ERR_RANGE, "it has no arrays");
  if (n > ARCHIVE_MAX_MEMBERS)
    return data_fault(place(z, why), ERR_LIMIT, "it has more than %d members", ARCHIVE_MAX_MEMBERS);
  z->n = (size_t)n;
  z->members = calloc(z->n, sizeof *z->members);
  if (z->members == NULL)
    return data_fault(place(z, why), ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  for (size_t i = 0; e == ERR_OK && i < z->n; i++)
    e = add_member(z, i, why);
  return e == ERR_OK ? judge_all(z, why) : e;
}

static enum err refuse_open(int code, struct data_place *why) {
  if (code == ZIP_ER_MEMORY)
    return data_fault(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  if (code == ZIP_ER_READ || code == ZIP_ER_SEEK)
    return data_fault(why, ERR_IO, "reading failed");
  return data_fault(why, ERR_SYNTAX, "it is no whole zip archive; write it by numpy.savez, or fetch it again");
}

enum err archive_open(const char *path, struct archive **out_archive, struct data_place *why) {
  int fd, code = 0;
  uint64_t n_bytes;
  struct libzip lib;
  enum err e = data_open(path, why, &fd, &n_bytes);
  if (e != ERR_OK)
    return e;
  if (!libzip_load(&lib)) {
    close(fd);
    return data_fault(why, ERR_UNSUPPORTED, "archives need libzip.so.4; install the package libzip4");
  }
  struct archive *z = calloc(1, sizeof *z);
  if (z != NULL)
    *z = (struct archive){.lib = lib,
                          .zip = n_bytes > 0 ? lib.fdopen(fd, 0, &code) : NULL}; /* the descriptor is then libzip's */
  if (z == NULL || z->zip == NULL) {
    close(fd);
    e = refuse_open(z == NULL ? ZIP_ER_MEMORY : code, why);
    free(z);
    return e;
  }
  memcpy(z->path, why->path, sizeof z->path);
  z->n_file = n_bytes;
  if ((e = read_directory(z, why)) != ERR_OK) {
    archive_close(z);
    return e;
  }
  *out_archive = z;
  return ERR_OK;
}

static void leave(struct archive *z) {
  if (z->open != NULL)
    z->lib.fclose(z->open);
  z->open = NULL;
}

void archive_close(struct archive *z) {
  if (z == NULL)
    return;
  leave(z);
  z->lib.discard(z->zip);
  free(z->members);
  free(z);
}

size_t archive_members(const struct archive *z) {
  return z->n;
}

const struct archive_member *archive_member(const struct archive *z, size_t i) {
  return &z->members[i];
}

/* ---- reading a member ---- */

static enum err member_fault(const struct archive *z, enum err e, struct data_place *why) {
  return data_fault(place(z, why), e, "its member %.64s is damaged after byte %" PRIu64 "; fetch the file again",
                    z->member->name, z->n_out);
}

static enum err read_fault(const struct archive *z, struct data_place *why) {
  if (z->lib.error_code_zip(z->lib.file_get_error(z->open)) != ZIP_ER_READ)
    return member_fault(z, ERR_CORRUPT, why);
  return data_fault(place(z, why), ERR_IO, "reading failed; is its disk in order?");
}

enum err archive_enter(struct archive *z, size_t i, struct data_place *why) {
  leave(z);
  z->member = &z->members[i];
  z->n_out = 0;
  z->open = z->lib.fopen_index(z->zip, i, 0);
  if (z->open != NULL)
    return ERR_OK;
  if (z->lib.error_code_zip(z->lib.get_error(z->zip)) == ZIP_ER_MEMORY)
    return data_fault(place(z, why), ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  return member_fault(z, ERR_CORRUPT, why);
}

enum err archive_read(struct archive *z, void *out_bytes, size_t n, struct data_place *why) {
  enum { AT_ONCE = 1 << 20 };
  for (size_t done = 0; done < n;) {
    zip_int64_t got = z->lib.fread(z->open, (uint8_t *)out_bytes + done, n - done < AT_ONCE ? n - done : AT_ONCE);
    if (got <= 0)
      return got == 0 ? member_fault(z, ERR_TRUNCATED, why) : read_fault(z, why);
    done += (size_t)got;
    z->n_out += (uint64_t)got;
    if (expands_too_far(z->n_out, z->member->n_packed))
      return expansion(z, z->member, z->n_out, z->member->n_packed, why);
  }
  return ERR_OK;
}

enum err archive_leave(struct archive *z, struct data_place *why) {
  uint8_t extra;
  zip_int64_t got = z->lib.fread(z->open, &extra, 1); /* at the end the checksum is judged */
  enum err e = got < 0 ? read_fault(z, why) : ERR_OK;
  leave(z);
  if (got <= 0)
    return e;
  return data_fault(place(z, why), ERR_TRAILING, "bytes follow the array in its member %.64s; fetch the file again",
                    z->member->name);
}

/* ---- writing ---- */

struct archive_writer {
  struct libzip lib;
  zip_t *zip;
};

/* What the system said where libzip only passed it on. */
static enum err write_fault(const struct archive_writer *w, zip_error_t *error) {
  int system = w->lib.error_code_system(error);
  if (w->lib.error_code_zip(error) == ZIP_ER_MEMORY)
    return ERR_NO_MEMORY;
  if (w->lib.error_code_zip(error) == ZIP_ER_EXISTS)
    return ERR_EXISTS;
  return system > 0 ? err_from_errno(system) : ERR_IO;
}

enum err archive_create(const char *path, struct archive_writer **out_writer) {
  int code = 0;
  struct libzip lib;
  if (!libzip_load(&lib))
    return ERR_UNSUPPORTED;
  struct archive_writer *w = calloc(1, sizeof *w);
  if (w == NULL)
    return ERR_NO_MEMORY;
  w->lib = lib;
  w->zip = w->lib.open(path, ZIP_CREATE | ZIP_EXCL, &code);
  if (w->zip == NULL) {
    zip_error_t error;
    w->lib.error_init_with_code(&error, code); /* takes errno along */
    enum err e = write_fault(w, &error);
    w->lib.error_fini(&error);
    free(w);
    return e;
  }
  *out_writer = w;
  return ERR_OK;
}

enum err archive_add(struct archive_writer *w, const char *name, const void *bytes, size_t n) {
  enum { DATE_1980_01_01 = 0x21 };
  zip_source_t *source = w->lib.source_buffer(w->zip, bytes, n, 0);
  if (source == NULL)
    return ERR_NO_MEMORY;
  zip_int64_t i = w->lib.file_add(w->zip, name, source, ZIP_FL_ENC_UTF_8);
  if (i < 0) {
    w->lib.source_free(source);
    return ERR_IO;
  }
  bool is_set = w->lib.set_file_compression(w->zip, (zip_uint64_t)i, ZIP_CM_STORE, 0) == 0 &&
                w->lib.file_set_dostime(w->zip, (zip_uint64_t)i, 0, DATE_1980_01_01, 0) == 0;
  return is_set ? ERR_OK : ERR_IO;
}

enum err archive_finish(struct archive_writer *w) {
  enum err e = ERR_OK;
  if (w->lib.close(w->zip) != 0) {
    e = write_fault(w, w->lib.get_error(w->zip));
    w->lib.discard(w->zip);
  }
  free(w);
  return e;
}
