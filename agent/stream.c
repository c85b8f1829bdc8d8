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
#include "base/fd.h"

struct stream_file {
  char *name; /* in the folder; the file's own path where there is none */
  uint64_t device, inode, n_bytes;
  struct timespec written;
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
  file->device = (uint64_t)st->st_dev;
  file->inode = (uint64_t)st->st_ino;
  file->n_bytes = (uint64_t)st->st_size;
  file->written = st->st_mtim;
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

static bool is_same_file(const struct stream_file *a, const struct stream_file *b) {
  return a->device == b->device && a->inode == b->inode;
}

static bool is_written(const struct stream_file *a, const struct stream_file *b) {
  return a->n_bytes != b->n_bytes || a->written.tv_sec != b->written.tv_sec || a->written.tv_nsec != b->written.tv_nsec;
}

bool stream_differs(const struct stream_look *before, const struct stream_look *now, char out_lost[MAX_REASON_BYTES]) {
  bool differs = before->n != now->n;
  out_lost[0] = '\0';
  for (size_t i = 0; i < before->n; i++) {
    const struct stream_file *old = &before->files[i], *new = find(now, old->name);
    const char *what = new == NULL                   ? "is gone"
                       : !is_same_file(old, new)     ? "is another file now"
                       : new->n_bytes < old->n_bytes ? "has become shorter"
                                                     : NULL;
    differs = differs || what != NULL || is_written(old, new);
    if (what != NULL && out_lost[0] == '\0')
      snprintf(out_lost, MAX_REASON_BYTES, "%.150s %s: its samples of before are no longer trained on", old->name,
               what);
  }
  return differs;
}

/* ---- one file of all ---- */

enum { BLOCK_BYTES = MAX_STREAM_HEAD_BYTES };

struct sink {
  int fd;
  char *block; /* [BLOCK_BYTES] */
  char *head;  /* the line of columns, its end included; NULL: none yet */
  size_t n_head;
  uint64_t n_bytes;
};

/* Into s->block, the bytes [at, at + n) of a file, n ≤ BLOCK_BYTES. */
static enum err read_block(const struct sink *s, int fd, uint64_t at, size_t n) {
  for (size_t done = 0; done < n;) {
    ssize_t got = pread(fd, s->block + done, n - done, (off_t)(at + done));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return err_from_errno(errno);
    if (got == 0)
      return ERR_TRUNCATED;
    done += (size_t)got;
  }
  return ERR_OK;
}

/* How many of n bytes are whole lines. */
static enum err measure_lines(const struct sink *s, int fd, uint64_t n, uint64_t *out_n) {
  *out_n = 0;
  while (n > 0) {
    size_t n_block = n < BLOCK_BYTES ? (size_t)n : BLOCK_BYTES;
    enum err e = read_block(s, fd, n - n_block, n_block);
    if (e != ERR_OK)
      return e;
    const char *last = memrchr(s->block, '\n', n_block);
    if (last != NULL) {
      *out_n = n - n_block + (size_t)(last - s->block) + 1;
      return ERR_OK;
    }
    n -= n_block;
  }
  return ERR_OK;
}

/* Its first line is the columns, which are those of all. */
static enum err take_head(struct sink *s, int fd, uint64_t n_lines, struct data_place *why) {
  size_t n = n_lines < BLOCK_BYTES ? (size_t)n_lines : BLOCK_BYTES;
  enum err e = read_block(s, fd, 0, n);
  if (e != ERR_OK)
    return e;
  const char *end = memchr(s->block, '\n', n);
  size_t n_head = end != NULL ? (size_t)(end - s->block) + 1 : 0;
  if (end == NULL)
    return data_fault(why, ERR_LIMIT, "its first line, of columns, has more than %d bytes", MAX_STREAM_HEAD_BYTES);
  if (s->head != NULL && (n_head != s->n_head || memcmp(s->block, s->head, n_head) != 0))
    return data_fault(why, ERR_SYNTAX, "its first line is not that of the first file; every file has the same columns");
  if (s->head != NULL)
    return ERR_OK;
  if ((s->head = malloc(n_head)) == NULL)
    return ERR_NO_MEMORY;
  memcpy(s->head, s->block, n_head);
  s->n_head = n_head;
  s->n_bytes += n_head;
  return fd_write_all(s->fd, s->head, n_head);
}

/* The lines behind the columns. */
static enum err take_lines(struct sink *s, int fd, uint64_t n_lines) {
  bool ends_whole = true;
  for (uint64_t at = s->n_head; at < n_lines;) {
    size_t n = n_lines - at < BLOCK_BYTES ? (size_t)(n_lines - at) : BLOCK_BYTES;
    enum err e = read_block(s, fd, at, n);
    if (e == ERR_OK)
      e = fd_write_all(s->fd, s->block, n);
    if (e != ERR_OK)
      return e;
    ends_whole = s->block[n - 1] == '\n';
    at += n;
    s->n_bytes += n;
  }
  return ends_whole ? ERR_OK : ERR_TRUNCATED; /* written over */
}

static enum err take_open_file(struct sink *s, int fd, uint64_t n_bytes, struct data_place *why) {
  uint64_t n_lines;
  if (s->n_bytes + n_bytes > MAX_STREAM_BYTES)
    return ERR_LIMIT;
  enum err e = measure_lines(s, fd, n_bytes, &n_lines);
  if (e == ERR_OK && n_lines > 0 && (e = take_head(s, fd, n_lines, why)) == ERR_OK) /* else nothing is whole yet */
    e = take_lines(s, fd, n_lines);
  return e;
}

static enum err take_file(struct sink *s, const char *path, uint64_t n_bytes, struct data_place *why) {
  int fd = -1;
  uint64_t n_now = 0;
  enum err e = data_open(path, why, &fd, &n_now);
  if (e != ERR_OK)
    return e;
  if (n_now < n_bytes)
    e = ERR_TRUNCATED;
  else
    e = take_open_file(s, fd, n_bytes, why); /* what came since is for the next look */
  close(fd);
  if (e == ERR_TRUNCATED)
    return data_fault(why, e, "it was cut off or written over while it was read");
  return e == ERR_OK || why->sentence[0] ? e : data_fault(why, e, "%s", err_sentence(e));
}

enum err stream_open(const char *path, const struct stream_look *look, int *out_fd, char out_path[STREAM_PATH_BYTES],
                     struct data_place *out_why) {
  struct sink s = {.fd = memfd_create("starling-stream", MFD_CLOEXEC)};
  enum err e = s.fd < 0 ? err_from_errno(errno) : ERR_OK, of_path = data_place_init(out_why, path);
  if (e == ERR_OK)
    e = of_path;
  if (e == ERR_OK && (s.block = malloc(BLOCK_BYTES)) == NULL)
    e = ERR_NO_MEMORY;
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
  free(s.block);
  if (e != ERR_OK) {
    if (s.fd >= 0)
      close(s.fd);
    return e;
  }
  snprintf(out_path, STREAM_PATH_BYTES, "/proc/self/fd/%d", s.fd);
  *out_fd = s.fd;
  return ERR_OK;
}
