#include "models/formats/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/new_name.h"

static enum err sync_file(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return err_from_errno(errno);
  enum err e = fsync(fd) == 0 ? ERR_OK : err_from_errno(errno);
  close(fd);
  return e;
}

enum err new_file_write(const char *path, enum err (*write)(const void *context, const char *path),
                        const void *context) {
  char part[MAX_PATH_BYTES + 32];
  if (access(path, F_OK) == 0)
    return ERR_EXISTS;
  if (snprintf(part, sizeof part, "%s.%ld.part", path, (long)getpid()) >= (int)sizeof part)
    return ERR_LIMIT;
  unlink(part); /* of a killed process that had our number */
  enum err e = write(context, part);
  if (e == ERR_OK)
    e = sync_file(part);
  if (e == ERR_OK && new_name_give(part, path) != 0) /* never over another's that came meanwhile */
    e = err_from_errno(errno);
  unlink(part);
  return e;
}
