#include "agent/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/new_name.h"

void path_folder(const char *path, char out_folder[MAX_PATH_BYTES]) {
  const char *slash = strrchr(path, '/');
  if (slash)
    snprintf(out_folder, MAX_PATH_BYTES, "%.*s", slash == path ? 1 : (int)(slash - path), path);
  else
    snprintf(out_folder, MAX_PATH_BYTES, ".");
}

enum err path_join(const char *folder, const char *path, char out_path[MAX_PATH_BYTES]) {
  bool stays = path[0] == '/' || folder[0] == '\0' || strcmp(folder, ".") == 0;
  int n = snprintf(out_path, MAX_PATH_BYTES, "%s%s%s", stays ? "" : folder, stays ? "" : "/", path);
  return n < MAX_PATH_BYTES ? ERR_OK : ERR_LIMIT;
}

static enum err read_all(int fd, size_t max_bytes, char *bytes, size_t *out_n_bytes) {
  size_t n = 0;
  enum err e = fd_read_full(fd, bytes, max_bytes + 1, &n);
  if (e != ERR_OK)
    return e;
  if (n > max_bytes)
    return ERR_LIMIT;
  bytes[n] = '\0';
  *out_n_bytes = n;
  return ERR_OK;
}

enum err file_read(const char *path, size_t max_bytes, char **out_bytes, size_t *out_n_bytes) {
  enum err e = ERR_OK;
  char *bytes = NULL;
  struct stat status;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return err_from_errno(errno);
  if (fstat(fd, &status) != 0)
    e = err_from_errno(errno);
  else if (!S_ISREG(status.st_mode))
    e = ERR_UNSUPPORTED;
  else if (!(bytes = malloc(max_bytes + 1)))
    e = ERR_NO_MEMORY;
  else
    e = read_all(fd, max_bytes, bytes, out_n_bytes);
  close(fd);
  if (e)
    free(bytes);
  else
    *out_bytes = bytes;
  return e;
}

static enum err folder_sync(const char *path) {
  char folder[MAX_PATH_BYTES];
  path_folder(path, folder);
  int fd = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (fd < 0)
    return err_from_errno(errno);
  enum err e = fsync(fd) == 0 ? ERR_OK : err_from_errno(errno);
  close(fd);
  return e;
}

static enum err write_durably(int fd, const char *text) {
  enum err e = fd_write_all(fd, text, strlen(text));
  return e != ERR_OK || fsync(fd) == 0 ? e : err_from_errno(errno);
}

/* Writes a temporary file beside the path and gives it that name by `name`. */
static enum err put_file(const char *path, unsigned mode, const char *text,
                         int (*name)(const char *temporary, const char *path)) {
  char temporary[MAX_PATH_BYTES];
  if (snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid()) >= (int)sizeof temporary)
    return ERR_LIMIT;
  unlink(temporary); /* of a killed process that had our number: in a container that is always the same */
  int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)mode);
  if (fd < 0)
    return err_from_errno(errno);
  enum err e = write_durably(fd, text);
  if (close(fd) != 0 && !e)
    e = err_from_errno(errno);
  if (!e && name(temporary, path) != 0)
    e = err_from_errno(errno);
  unlink(temporary);
  return e ? e : folder_sync(path);
}

enum err file_create(const char *path, unsigned mode, const char *text) {
  return put_file(path, mode, text, new_name_give);
}

enum err file_replace(const char *path, unsigned mode, const char *text) {
  return put_file(path, mode, text, rename);
}
