#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "store/room.h"

static uint64_t bytes_of(int dir_fd, const char *name) {
  struct stat status;
  return fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) ? (uint64_t)status.st_size
                                                                                             : 0;
}

/* Of the regular files in a folder. What comes and goes meanwhile may count or not. */
static enum err folder_bytes(int dir_fd, uint64_t *out_bytes) {
  int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
  if (entries == NULL) {
    enum err e = err_from_errno(errno);
    if (fd >= 0)
      close(fd);
    return e;
  }
  uint64_t sum = 0;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
    sum += bytes_of(dir_fd, entry->d_name);
  closedir(entries);
  *out_bytes = sum;
  return ERR_OK;
}

enum err store_measure(const struct store *s, struct store_room *out_room) {
  struct statvfs fs;
  uint64_t n_files = 0, n_bytes = 0;
  enum err e;
  if (fstatvfs(s->state_fd, &fs) != 0)
    return err_from_errno(errno);
  e = s->files.is_listed ? ERR_OK : folder_bytes(s->files.dir_fd, &n_files);
  if (e != ERR_OK || (e = folder_bytes(s->state_fd, &n_bytes)) != ERR_OK)
    return e;
  n_bytes += n_files + files_bytes(&s->files);
  *out_room = (struct store_room){.free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize, .used_bytes = n_bytes};
  return ERR_OK;
}

static enum err admit(const struct store *s, uint64_t n_bytes) {
  struct store_room room = {0};
  enum err e = store_measure(s, &room);
  if (e != ERR_OK)
    return e;
  return room.used_bytes <= s->max_bytes && n_bytes <= s->max_bytes - room.used_bytes ? ERR_OK : ERR_NO_SPACE;
}

enum err room_admit(struct store *s, uint64_t n_bytes) {
  enum err e = s->max_bytes > 0 ? admit(s, n_bytes) : ERR_OK;
  if (e != ERR_NO_SPACE)
    return e;
  files_drop_spares(&s->files);
  return admit(s, n_bytes);
}

static enum err keep_body(struct store *s, const void *argument) {
  enum { MOST = 256 };
  struct digest jobs[MOST];
  size_t n = 0;
  (void)argument;
  enum err e = store_jobs(s, jobs, MOST, &n);
  for (size_t i = 0; e == ERR_OK && i < n; i++) {
    uint64_t id;
    if ((e = room_job_find(s, &jobs[i], &id)) == ERR_OK && (e = room_keep_publications(s, id)) == ERR_OK)
      e = room_keep_models(s, id);
  }
  return e;
}

enum err store_keep_few(struct store *s, bool few) {
  s->keeps_few = few;
  return few ? room_transaction(s, keep_body, NULL) : ERR_OK;
}
