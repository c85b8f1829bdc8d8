#include "models/data/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/must.h"

struct scratch {
  int fd;
  size_t row_bytes;
  size_t n_buffered; /* bytes not written yet */
  size_t capacity;   /* of the buffer: whole rows */
  uint8_t *buffer;
};

size_t scratch_row_bytes(const struct scratch *s) {
  return s->row_bytes;
}

size_t scratch_buffer_bytes(size_t row_bytes) {
  return row_bytes > SCRATCH_BUFFER_BYTES ? row_bytes : SCRATCH_BUFFER_BYTES / row_bytes * row_bytes;
}

enum err scratch_open(const char *folder, size_t row_bytes, struct scratch **out_scratch) {
  char path[MAX_PATH_BYTES];
  int n = snprintf(path, sizeof path, "%s/.samples-XXXXXX", folder);
  if (n < 0 || (size_t)n >= sizeof path)
    return ERR_LIMIT;
  struct scratch *s = calloc(1, sizeof *s);
  if (s == NULL)
    return ERR_NO_MEMORY;
  *s = (struct scratch){.fd = -1, .row_bytes = row_bytes, .capacity = scratch_buffer_bytes(row_bytes)};
  s->buffer = malloc(s->capacity);
  enum err e = s->buffer == NULL ? ERR_NO_MEMORY : ERR_OK;
  if (e == ERR_OK && (s->fd = mkostemp(path, O_CLOEXEC)) < 0)
    e = err_from_errno(errno);
  if (e == ERR_OK && unlink(path) != 0)
    e = err_from_errno(errno);
  if (e == ERR_OK) {
    (void)posix_fadvise(s->fd, 0, 0, POSIX_FADV_RANDOM); /* what is read ahead is said, not guessed */
    *out_scratch = s;
    s = NULL;
  }
  scratch_close(s);
  return e;
}

void scratch_close(struct scratch *s) {
  if (s == NULL)
    return;
  if (s->fd >= 0)
    close(s->fd);
  free(s->buffer);
  free(s);
}

enum err scratch_end(struct scratch *s) {
  enum err e = fd_write_all(s->fd, s->buffer, s->n_buffered);
  s->n_buffered = 0;
  return e;
}

enum err scratch_put(struct scratch *s, const void *row) {
  enum err e = s->n_buffered == s->capacity ? scratch_end(s) : ERR_OK;
  if (e != ERR_OK)
    return e;
  memcpy(s->buffer + s->n_buffered, row, s->row_bytes);
  s->n_buffered += s->row_bytes;
  return ERR_OK;
}

/* Products below are offsets in a file that was written, so they fit. */
void scratch_expect(const struct scratch *s, size_t first, size_t n) {
  (void)posix_fadvise(s->fd, (off_t)(first * s->row_bytes), (off_t)(n * s->row_bytes), POSIX_FADV_WILLNEED);
}

/* What the page cache has of it, where it tells. */
// NOLINTNEXTLINE(readability-non-const-parameter): it is written through the vector
static size_t read_cached(const struct scratch *s, size_t offset, uint8_t *out_bytes, size_t n_bytes) {
  const struct iovec all = {out_bytes, n_bytes};
  ssize_t got = preadv2(s->fd, &all, 1, (off_t)offset, RWF_NOWAIT);
  return got > 0 ? (size_t)got : 0;
}

static enum err read_from(const struct scratch *s, size_t offset, uint8_t *out_bytes, size_t n_bytes) {
  for (size_t at = 0; at < n_bytes;) {
    ssize_t got = pread(s->fd, out_bytes + at, n_bytes - at, (off_t)(offset + at));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return got < 0 ? err_from_errno(errno) : ERR_IO;
    at += (size_t)got;
  }
  return ERR_OK;
}

static enum err look(const struct scratch *s, size_t first, size_t n, uint8_t *out_bytes, bool *out_was_cached) {
  size_t offset = first * s->row_bytes, n_bytes = n * s->row_bytes, at = read_cached(s, offset, out_bytes, n_bytes);
  *out_was_cached = at == n_bytes;
  return read_from(s, offset + at, out_bytes + at, n_bytes - at);
}

enum err scratch_read(struct scratch *s, size_t first, size_t n, const void **out_rows, size_t *out_n) {
  size_t most = s->capacity / s->row_bytes;
  *out_n = n < most ? n : most;
  *out_rows = s->buffer;
  return read_from(s, first * s->row_bytes, s->buffer, *out_n * s->row_bytes);
}

enum err scratch_look(struct scratch *s, size_t first, size_t n, const void **out_rows, bool *out_was_cached) {
  MUST(n <= s->capacity / s->row_bytes);
  *out_rows = s->buffer;
  return look(s, first, n, s->buffer, out_was_cached);
}

enum err scratch_look_at(struct scratch *s, size_t row, void *out_row, bool *out_was_cached) {
  return look(s, row, 1, out_row, out_was_cached);
}
