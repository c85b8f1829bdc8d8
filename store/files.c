#include "store/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

enum { NAME_CHARS = 2 * DIGEST_BYTES, READ_BYTES = 64 * 1024, MAX_OPEN_TRIES = 500, OPEN_RETRY_NS = 10 * 1000 * 1000 };

static const char folder_name[] = "files";
static const char temporary_name[] = "new";

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

void files_close(struct files *f) {
  if (f->dir_fd >= 0)
    close(f->dir_fd);
  f->dir_fd = -1;
}

static enum err temporary_write(struct files *f, const uint8_t *bytes, size_t n_bytes) {
  int fd = patient_open(f->dir_fd, temporary_name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
  if (fd < 0)
    return files_errno(errno);
  enum err e = fd_write_all(fd, bytes, n_bytes) == ERR_OK ? ERR_OK : files_errno(errno);
  if (e == ERR_OK && fsync(fd) != 0)
    e = ERR_IO; /* whatever errno says: the kernel may have dropped the pages */
  close(fd);
  return e;
}

enum err files_put(struct files *f, const uint8_t *bytes, size_t n_bytes, struct digest *out_name) {
  struct digest name = digest_of(f->digest, bytes, n_bytes);
  enum err e = files_check(f, &name);
  if (e == ERR_CORRUPT) {
    e = temporary_write(f, bytes, n_bytes);
    if (e == ERR_OK && renameat(f->dir_fd, temporary_name, f->dir_fd, name_write(&name).chars) != 0)
      e = files_errno(errno);
    if (e != ERR_OK)
      unlinkat(f->dir_fd, temporary_name, 0);
  }
  if (e == ERR_OK)
    *out_name = name;
  return e;
}

enum err files_sync(struct files *f) {
  return fsync(f->dir_fd) == 0 ? ERR_OK : ERR_IO;
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
    struct digest actual = digest_of(f->digest, bytes, n_read);
    if (!digest_equal(&actual, name))
      e = ERR_CORRUPT;
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

static enum err digest_open_file(const struct files *f, int fd, struct digest *out_digest) {
  struct digest_state state;
  uint8_t bytes[READ_BYTES];
  size_t n = 0;
  f->digest->init(&state);
  do {
    enum err e = fd_read_full(fd, bytes, sizeof bytes, &n);
    if (e != ERR_OK)
      return e;
    f->digest->add(&state, bytes, n);
  } while (n == sizeof bytes);
  f->digest->end(&state, out_digest);
  return ERR_OK;
}

enum err files_check(const struct files *f, const struct digest *name) {
  int fd = -1;
  uint64_t n_bytes;
  struct digest actual;
  enum err e = files_get(f, name, &fd, &n_bytes);
  if (e == ERR_OK) {
    e = digest_open_file(f, fd, &actual);
    close(fd);
  }
  if (e == ERR_OK)
    return digest_equal(&actual, name) ? ERR_OK : ERR_CORRUPT;
  return e == ERR_NOT_FOUND || e == ERR_IO ? ERR_CORRUPT : e;
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

void files_sweep(struct files *f, bool (*is_named)(void *context, const struct digest *name), void *context) {
  struct digest name;
  DIR *entries = entries_open(f);
  if (entries == NULL)
    return;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] != '.' && !(name_read(entry->d_name, &name) && is_named(context, &name)))
      unlinkat(f->dir_fd, entry->d_name, 0);
  }
  closedir(entries);
}
