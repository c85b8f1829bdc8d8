#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "store/room.h"

static uint64_t bytes_of(int dir_fd, const char *name) {
  struct stat status;
  return fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) ? (uint64_t)status.st_size
                                                                                             : 0;
}

/* What grows under its name. */
static const char *const growing[] = {"state.db", "state.db-wal", "state.db-shm"};

enum { N_GROWING = sizeof growing / sizeof *growing };

static bool is_growing(const char *name) {
  bool is = false;
  for (size_t i = 0; i < N_GROWING; i++)
    is = is || strcmp(growing[i], name) == 0;
  return is;
}

/* Of the regular files in a folder that do not grow. What comes and goes meanwhile may count or not. */
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
    sum += is_growing(entry->d_name) ? 0 : bytes_of(dir_fd, entry->d_name);
  closedir(entries);
  *out_bytes = sum;
  return ERR_OK;
}

/* The same of the state directory, which is read again when a name has come or gone: its time says so from a second on. */
static enum err resting_bytes(struct store *s, uint64_t *out_bytes) {
  struct resting *r = &s->resting;
  struct stat status;
  if (fstat(s->state_fd, &status) != 0)
    return err_from_errno(errno);
  bool is_known = r->is_known && r->since.tv_sec == status.st_mtim.tv_sec && r->since.tv_nsec == status.st_mtim.tv_nsec;
  if (!is_known) {
    enum err e = folder_bytes(s->state_fd, &r->n_bytes);
    if (e != ERR_OK)
      return e;
    r->since = status.st_mtim;
    r->is_known = time(NULL) > status.st_mtim.tv_sec + 1;
  }
  *out_bytes = r->n_bytes;
  return ERR_OK;
}

enum err store_measure(struct store *s, struct store_room *out_room) {
  struct statvfs fs;
  uint64_t n_files = 0, n_bytes = 0;
  enum err e;
  if (fstatvfs(s->state_fd, &fs) != 0)
    return err_from_errno(errno);
  e = s->files.is_listed ? ERR_OK : folder_bytes(s->files.dir_fd, &n_files);
  if (e != ERR_OK || (e = resting_bytes(s, &n_bytes)) != ERR_OK)
    return e;
  for (size_t i = 0; i < N_GROWING; i++)
    n_bytes += bytes_of(s->state_fd, growing[i]);
  n_bytes += n_files + files_bytes(&s->files);
  *out_room = (struct store_room){.free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize, .used_bytes = n_bytes};
  return ERR_OK;
}

static enum err admit(struct store *s, uint64_t n_bytes) {
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
