#include "agent/stream.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/file.h"

struct stream_file {
  char *name; /* in the folder; the file's own path where there is none */
  uint64_t inode, n_bytes;
};

void stream_look_done(struct stream_look *look) {
  for (size_t i = 0; i < look->n; i++)
    free(look->files[i].name);
  free(look->files);
  *look = (struct stream_look){0};
}

static enum err add(struct stream_look *look, const char *name, const struct stat *st) {
  struct stream_file *grown = realloc(look->files, (look->n + 1) * sizeof *grown);
  if (grown == NULL)
    return ERR_NO_MEMORY;
  look->files = grown;
  char *copy = strdup(name);
  if (copy == NULL)
    return ERR_NO_MEMORY;
  struct stream_file *file = &look->files[look->n++];
  file->name = copy;
  file->inode = (uint64_t)st->st_ino;
  file->n_bytes = (uint64_t)st->st_size;
  return ERR_OK;
}

static int not_hidden(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

/* A file that is gone since the folder was read is none. */
static enum err add_entry(struct stream_look *look, const char *folder, const char *name) {
  char path[MAX_PATH_BYTES];
  struct stat st;
  enum err e = path_join(folder, name, path);
  if (e != ERR_OK || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
    return e;
  return add(look, name, &st);
}

static enum err look_at_folder(const char *path, struct stream_look *look) {
  struct dirent **entries = NULL;
  int n = scandir(path, &entries, not_hidden, by_name);
  enum err e = n < 0 ? err_from_errno(errno) : n > MAX_STREAM_FILES ? ERR_LIMIT : ERR_OK;
  look->is_folder = true;
  for (int i = 0; i < n; i++) {
    if (e == ERR_OK)
      e = add_entry(look, path, entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
  return e;
}

enum err stream_look(const char *path, struct stream_look *out_look, struct data_place *out_why) {
  struct stream_look look = {0};
  struct stat st;
  enum err e = data_place_init(out_why, path);
  if (e != ERR_OK)
    return e;
  if (stat(path, &st) != 0)
    e = err_from_errno(errno);
  else if (S_ISDIR(st.st_mode))
    e = look_at_folder(path, &look);
  else
    e = S_ISREG(st.st_mode) ? add(&look, path, &st) : ERR_UNSUPPORTED;
  if (e != ERR_OK) {
    stream_look_done(&look);
    return data_fault(out_why, e, "%s; data.watch takes a CSV file or a folder of them", err_sentence(e));
  }
  *out_look = look;
  return ERR_OK;
}

static const struct stream_file *find(const struct stream_look *look, const char *name) {
  size_t low = 0, high = look->n;
  while (low < high) {
    size_t middle = (low + high) / 2;
    int order = strcmp(look->files[middle].name, name);
    if (order == 0)
      return &look->files[middle];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

bool stream_differs(const struct stream_look *before, const struct stream_look *now, char out_lost[MAX_REASON_BYTES]) {
  bool differs = before->n != now->n;
  out_lost[0] = '\0';
  for (size_t i = 0; i < before->n; i++) {
    const struct stream_file *old = &before->files[i], *new = find(now, old->name);
    const char *what = new == NULL                   ? "is gone"
                       : new->inode != old->inode    ? "is another file now"
                       : new->n_bytes < old->n_bytes ? "has become shorter"
                                                     : NULL;
    differs = differs || what != NULL || new->n_bytes != old->n_bytes;
    if (what != NULL && out_lost[0] == '\0')
      snprintf(out_lost, MAX_REASON_BYTES, "%.150s %s: its samples of before are no longer trained on", old->name,
               what);
  }
  return differs;
}

/* ---- one file of all ---- */

struct sink {
  int fd;
  char *head; /* the line of columns, its end included; NULL: none yet */
  size_t n_head;
  uint64_t n_bytes;
};

static enum err write_all(struct sink *s, const char *bytes, size_t n) {
  while (n > 0) {
    ssize_t written = write(s->fd, bytes, n);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return err_from_errno(errno);
    bytes += written;
    n -= (size_t)written;
    s->n_bytes += (size_t)written;
  }
  return ERR_OK;
}

/* The whole lines of a file, of which the first is the columns. */
static enum err take_lines(struct sink *s, const char *bytes, size_t n, struct data_place *why) {
  const char *last = n > 0 ? memrchr(bytes, '\n', n) : NULL;
  if (last == NULL)
    return ERR_OK; /* nothing whole yet */
  n = (size_t)(last - bytes) + 1;
  size_t n_head = (size_t)((const char *)memchr(bytes, '\n', n) - bytes) + 1;
  if (s->head == NULL) {
    if ((s->head = malloc(n_head)) == NULL)
      return ERR_NO_MEMORY;
    memcpy(s->head, bytes, n_head);
    s->n_head = n_head;
    return write_all(s, bytes, n);
  }
  if (n_head != s->n_head || memcmp(bytes, s->head, n_head) != 0)
    return data_fault(why, ERR_SYNTAX, "its first line is not that of the first file; every file has the same columns");
  return write_all(s, bytes + n_head, n - n_head);
}

static enum err take_file(struct sink *s, const char *path, uint64_t n_bytes, struct data_place *why) {
  int fd = -1;
  uint64_t n_now = 0;
  enum err e = data_open(path, why, &fd, &n_now);
  if (e != ERR_OK)
    return e;
  size_t n = (size_t)(n_bytes < n_now ? n_bytes : n_now); /* what came since is for the next look */
  void *map = n > 0 ? mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
  if (map == MAP_FAILED)
    e = err_from_errno(errno);
  else if (s->n_bytes + n > MAX_STREAM_BYTES)
    e = ERR_LIMIT;
  else if (n > 0)
    e = take_lines(s, map, n, why);
  if (map != NULL && map != MAP_FAILED)
    munmap(map, n);
  close(fd);
  return e == ERR_OK || why->sentence[0] ? e : data_fault(why, e, "%s", err_sentence(e));
}

enum err stream_open(const char *path, const struct stream_look *look, int *out_fd, char out_path[STREAM_PATH_BYTES],
                     struct data_place *out_why) {
  struct sink s = {.fd = memfd_create("starling-stream", MFD_CLOEXEC)};
  enum err e = data_place_init(out_why, path);
  if (e == ERR_OK && s.fd < 0)
    e = err_from_errno(errno);
  for (size_t i = 0; i < look->n && e == ERR_OK; i++) {
    char file[MAX_PATH_BYTES];
    e = look->is_folder ? path_join(path, look->files[i].name, file) : ERR_OK;
    if (e == ERR_OK)
      e = take_file(&s, look->is_folder ? file : path, look->files[i].n_bytes, out_why);
  }
  if (e == ERR_OK && s.head == NULL)
    e = data_fault(out_why, ERR_SYNTAX, "there is no line of columns yet; the first file begins with one");
  else if (e != ERR_OK && out_why->sentence[0] == '\0')
    e = data_fault(out_why, e, "%s", err_sentence(e));
  free(s.head);
  if (e != ERR_OK) {
    if (s.fd >= 0)
      close(s.fd);
    return e;
  }
  snprintf(out_path, STREAM_PATH_BYTES, "/proc/self/fd/%d", s.fd);
  *out_fd = s.fd;
  return ERR_OK;
}
