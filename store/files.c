#include "store/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/must.h"

enum {
  NAME_CHARS = 2 * DIGEST_BYTES,
  READ_BYTES = 64 * 1024,
  FIRST_ENTRIES = 32,
  MAX_OPEN_TRIES = 500,
  OPEN_RETRY_NS = 10 * 1000 * 1000
};

static const uint64_t MAX_FILE_BYTES = (uint64_t)MAX_CHUNKS * CHUNK_BYTES;

static const char folder_name[] = "files";

struct name_text {
  char chars[DIGEST_TEXT_BYTES];
};

static struct name_text name_write(const struct digest *name) {
  struct name_text text = {""};
  digest_hex(name, text.chars);
  return text;
}

static int hex_value(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool name_read(const char *text, struct digest *out_name) {
  struct digest name;
  for (size_t i = 0; i < DIGEST_BYTES; i++) {
    int high = hex_value(text[2 * i]);
    int low = high < 0 ? -1 : hex_value(text[2 * i + 1]);
    if (low < 0)
      return false;
    name.bytes[i] = (uint8_t)(high << 4 | low);
  }
  if (text[NAME_CHARS] != '\0')
    return false;
  *out_name = name;
  return true;
}

enum err files_errno(int errno_value) {
  return errno_value == EFBIG ? ERR_NO_SPACE : err_from_errno(errno_value);
}

/* openat; a descriptor that strangers have taken is waited for: the connection gate sends them away within seconds. */
static int patient_open(int dir_fd, const char *name, int flags) {
  const struct timespec retry = {0, OPEN_RETRY_NS};
  int fd = openat(dir_fd, name, flags | O_CLOEXEC, 0600);
  for (int i = 0; fd < 0 && (errno == EMFILE || errno == ENFILE) && i < MAX_OPEN_TRIES; i++) {
    nanosleep(&retry, NULL);
    fd = openat(dir_fd, name, flags | O_CLOEXEC, 0600);
  }
  return fd;
}

enum err files_open(struct files *f, int state_fd, bool create, const struct digest_fn *digest) {
  if (create && mkdirat(state_fd, folder_name, 0700) != 0 && errno != EEXIST)
    return files_errno(errno);
  int fd = openat(state_fd, folder_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return files_errno(errno);
  *f = (struct files){.dir_fd = fd, .digest = digest};
  return ERR_OK;
}

/* ---- the list: what stands in the folder, in the order of the names ----------------------------------------------- */

/* Where the name stands, or would. */
static size_t place_of(const struct files *f, const struct digest *name, bool *out_is_there) {
  size_t low = 0, high = f->n_entries;
  *out_is_there = false;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = memcmp(f->entries[middle].name.bytes, name->bytes, DIGEST_BYTES);
    *out_is_there = *out_is_there || order == 0;
    low = order < 0 ? middle + 1 : low;
    high = order < 0 ? high : middle;
  }
  return low;
}

static struct file_entry *entry_find(struct files *f, const struct digest *name) {
  bool is_there;
  size_t at = place_of(f, name, &is_there);
  return is_there ? &f->entries[at] : NULL;
}

/* Room for one more. */
static enum err entries_grow(struct files *f) {
  if (f->n_entries < f->capacity)
    return ERR_OK;
  size_t capacity = f->capacity > 0 ? 2 * f->capacity : FIRST_ENTRIES;
  struct file_entry *entries = reallocarray(f->entries, capacity, sizeof *entries);
  if (entries == NULL)
    return ERR_NO_MEMORY;
  f->entries = entries;
  f->capacity = capacity;
  return ERR_OK;
}

/* Into the room that there is. */
static void entry_add(struct files *f, const struct digest *name, uint64_t n_bytes) {
  bool is_there;
  size_t at = place_of(f, name, &is_there);
  if (!is_there) {
    memmove(&f->entries[at + 1], &f->entries[at], (f->n_entries - at) * sizeof *f->entries);
    f->n_entries++;
  }
  f->entries[at] = (struct file_entry){.name = *name, .n_bytes = n_bytes};
}

static void entries_forget(struct files *f) {
  free(f->entries);
  f->entries = NULL;
  f->n_entries = f->capacity = 0;
  f->is_listed = false;
  f->spares = (struct spares){0}; /* reading the folder lists them like any other */
}

/* A stream of the folder's entries with a descriptor of its own; NULL when there is none to have. */
static DIR *entries_open(const struct files *f) {
  int fd = patient_open(f->dir_fd, ".", O_RDONLY | O_DIRECTORY);
  if (fd < 0)
    return NULL;
  DIR *entries = fdopendir(fd);
  if (entries == NULL)
    close(fd);
  return entries;
}

/* What has no digest's name does not belong there. */
static enum err entry_take(struct files *f, const char *text) {
  struct digest name;
  struct stat status;
  if (text[0] == '.')
    return ERR_OK;
  if (!name_read(text, &name)) {
    unlinkat(f->dir_fd, text, 0);
    return ERR_OK;
  }
  enum err e = entries_grow(f);
  if (e == ERR_OK)
    entry_add(f, &name, fstatat(f->dir_fd, text, &status, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)status.st_size : 0);
  return e;
}

enum err files_list(struct files *f) {
  entries_forget(f);
  DIR *entries = entries_open(f);
  if (entries == NULL)
    return files_errno(errno);
  enum err e = ERR_OK;
  for (struct dirent *entry; e == ERR_OK && (entry = readdir(entries)) != NULL;)
    e = entry_take(f, entry->d_name);
  closedir(entries);
  f->is_listed = e == ERR_OK;
  return e;
}

uint64_t files_bytes(const struct files *f) {
  uint64_t sum = spares_bytes(&f->spares);
  for (size_t i = 0; i < f->n_entries; i++)
    sum += f->entries[i].n_bytes;
  return sum;
}

void files_claim(struct files *f, const struct digest *name) {
  struct file_entry *entry = entry_find(f, name);
  if (entry != NULL)
    entry->is_claimed = true;
}

void files_sweep(struct files *f) {
  size_t n = 0;
  for (size_t i = 0; i < f->n_entries; i++) {
    struct file_entry *entry = &f->entries[i];
    bool is_gone =
        !entry->is_claimed &&
        (spares_put(&f->spares, f->dir_fd, name_write(&entry->name).chars, entry->n_bytes) == 0 || errno == ENOENT);
    entry->is_claimed = false;
    if (!is_gone)
      f->entries[n++] = *entry;
  }
  f->n_entries = n;
}

void files_drop_spares(struct files *f) {
  spares_drop(&f->spares, f->dir_fd);
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

static void unsynced_close(struct files *f) {
  for (size_t i = 0; i < f->n_unsynced; i++)
    close(f->unsynced[i]);
  f->n_unsynced = 0;
}

void files_close(struct files *f) {
  unsynced_close(f);
  entries_forget(f);
  if (f->dir_fd >= 0)
    close(f->dir_fd);
  f->dir_fd = -1;
}

/* The kernel begins to write the file before to the disk, so that all files of a transaction are on the way at the first sync,
 * which then is the only one that waits. */
static void write_back(const struct files *f) {
  if (f->n_unsynced > 0)
    (void)sync_file_range(f->unsynced[f->n_unsynced - 1], 0, 0, SYNC_FILE_RANGE_WRITE);
}

static enum err file_write(struct files *f, const char *name, const uint8_t *bytes, size_t n_bytes) {
  MUST(f->n_unsynced < MAX_UNSYNCED);
  write_back(f);
  int fd = spares_take(&f->spares, f->dir_fd, name, n_bytes);
  if (fd < 0)
    fd = patient_open(f->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
  if (fd < 0)
    return files_errno(errno);
  FAULT_POINT("file-opened");
  enum err e = fd_write_all(fd, bytes, n_bytes) == ERR_OK ? ERR_OK : files_errno(errno);
  if (e != ERR_OK) {
    unlinkat(f->dir_fd, name, 0);
    close(fd);
    return e;
  }
  FAULT_POINT("file-written");
  f->unsynced[f->n_unsynced++] = fd; /* now files_sync's */
  return ERR_OK;
}

static bool is_whole(struct files *f, const struct digest *name) {
  return entry_find(f, name) != NULL && files_check(f, name) == ERR_OK;
}

enum err files_put(struct files *f, const struct digest *name, const uint8_t *bytes, size_t n_bytes) {
  if (n_bytes > MAX_FILE_BYTES)
    return ERR_LIMIT;
  if (is_whole(f, name))
    return ERR_OK;
  enum err e = entries_grow(f);
  if (e == ERR_OK)
    e = file_write(f, name_write(name).chars, bytes, n_bytes);
  if (e == ERR_OK)
    entry_add(f, name, n_bytes);
  return e;
}

enum err files_sync(struct files *f) {
  enum err e = ERR_OK;
  if (f->n_unsynced == 0)
    return ERR_OK;
  for (size_t i = f->n_unsynced; e == ERR_OK && i > 0; i--)
    e = fdatasync(f->unsynced[i - 1]) == 0 ? ERR_OK
                                           : ERR_IO; /* whatever errno says: the kernel may have dropped the pages */
  unsynced_close(f);
  FAULT_POINT("files-synced");
  if (e == ERR_OK)
    e = fsync(f->dir_fd) == 0 ? ERR_OK : ERR_IO;
  FAULT_POINT("folder-synced");
  return e;
}

void files_forget(struct files *f) {
  unsynced_close(f);
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

bool files_is_name(const struct files *f, const struct digest *name, const uint8_t *bytes, size_t n_bytes) {
  for (const struct digest_fn *fn = f->digest; fn != NULL; fn = fn->before) {
    struct digest actual = digest_of(fn, bytes, n_bytes);
    if (digest_equal(&actual, name))
      return true;
  }
  return false;
}

enum err files_get(const struct files *f, const struct digest *name, int *out_fd, uint64_t *out_n_bytes) {
  int fd = patient_open(f->dir_fd, name_write(name).chars, O_RDONLY | O_NOFOLLOW);
  if (fd < 0)
    return files_errno(errno);
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(fd);
    return ERR_IO;
  }
  *out_fd = fd;
  *out_n_bytes = (uint64_t)status.st_size;
  return ERR_OK;
}

static enum err load_open_file(const struct files *f, int fd, size_t n_bytes, const struct digest *name,
                               uint8_t **out_bytes) {
  size_t n_read = 0;
  uint8_t *bytes = malloc(n_bytes > 0 ? n_bytes : 1);
  if (bytes == NULL)
    return ERR_NO_MEMORY;
  enum err e = fd_read_full(fd, bytes, n_bytes, &n_read);
  if (e == ERR_OK) {
    e = n_read == n_bytes && files_is_name(f, name, bytes, n_bytes) ? ERR_OK : ERR_CORRUPT;
  }
  if (e != ERR_OK) {
    free(bytes);
    return e;
  }
  *out_bytes = bytes;
  return ERR_OK;
}

enum err files_load(const struct files *f, const struct digest *name, size_t max_bytes, uint8_t **out_bytes,
                    size_t *out_n_bytes) {
  int fd = -1;
  uint64_t n_bytes = 0;
  enum err e = files_get(f, name, &fd, &n_bytes);
  if (e != ERR_OK)
    return e;
  e = n_bytes > max_bytes ? ERR_LIMIT : load_open_file(f, fd, (size_t)n_bytes, name, out_bytes);
  if (e == ERR_OK)
    *out_n_bytes = (size_t)n_bytes;
  close(fd);
  return e;
}

static enum err digest_open_file(const struct digest_fn *fn, int fd, uint64_t n_bytes, struct digest *out_digest) {
  struct digest_state state;
  uint8_t bytes[READ_BYTES];
  uint64_t done = 0;
  size_t n = READ_BYTES;
  if (lseek(fd, 0, SEEK_SET) != 0)
    return err_from_errno(errno);
  fn->init(&state);
  for (; n > 0 && done < n_bytes; done += n) {
    enum err e = fd_read_full(fd, bytes, n_bytes - done < READ_BYTES ? (size_t)(n_bytes - done) : READ_BYTES, &n);
    if (e != ERR_OK)
      return e;
    fn->add(&state, bytes, n);
  }
  fn->end(&state, out_digest);
  return ERR_OK;
}

static enum err check_open_file(const struct files *f, int fd, uint64_t n_bytes, const struct digest *name) {
  struct digest actual;
  if (n_bytes > MAX_FILE_BYTES)
    return ERR_CORRUPT;
  for (const struct digest_fn *fn = f->digest; fn != NULL; fn = fn->before) {
    enum err e = digest_open_file(fn, fd, n_bytes, &actual);
    if (e != ERR_OK || digest_equal(&actual, name))
      return e;
  }
  return ERR_CORRUPT;
}

enum err files_check(const struct files *f, const struct digest *name) {
  int fd = -1;
  uint64_t n_bytes = 0;
  enum err e = files_get(f, name, &fd, &n_bytes);
  if (e == ERR_OK) {
    e = check_open_file(f, fd, n_bytes, name);
    close(fd);
  }
  return e == ERR_NOT_FOUND || e == ERR_IO ? ERR_CORRUPT : e;
}

bool files_any(const struct files *f) {
  struct digest name;
  bool any = false;
  DIR *entries = entries_open(f);
  if (entries == NULL)
    return false;
  for (struct dirent *entry; !any && (entry = readdir(entries)) != NULL;)
    any = name_read(entry->d_name, &name);
  closedir(entries);
  return any;
}
