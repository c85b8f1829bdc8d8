#include "store/spares.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct spare spare_remove(struct spares *s, size_t i) {
  struct spare spare = s->of[i];
  s->n--;
  memmove(&s->of[i], &s->of[i + 1], (s->n - i) * sizeof *s->of);
  return spare;
}

int spares_put(struct spares *s, int dir_fd, const char *name, uint64_t n_bytes) {
  if (n_bytes < SPARE_MIN_BYTES || n_bytes > SPARE_MAX_BYTES)
    return unlinkat(dir_fd, name, 0);
  if (s->n == MAX_SPARES)
    unlinkat(dir_fd, spare_remove(s, 0).name, 0);
  struct spare *spare = &s->of[s->n++];
  spare->n_bytes = n_bytes;
  snprintf(spare->name, sizeof spare->name, "%s", name);
  return 0;
}

/* A lease to write is only given on a file that nobody else has open. */
static bool is_ours_alone(int fd) {
  return fcntl(fd, F_SETLEASE, F_WRLCK) == 0 && fcntl(fd, F_SETLEASE, F_UNLCK) == 0;
}

/* The new name is nobody's yet, so whoever could have it open has opened it before. */
static int spare_open(const struct spare *spare, int dir_fd, const char *name) {
  int fd = openat(dir_fd, spare->name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  bool is_renamed = fd >= 0 && renameat(dir_fd, spare->name, dir_fd, name) == 0;
  if (is_renamed && is_ours_alone(fd))
    return fd;
  if (fd >= 0)
    close(fd);
  unlinkat(dir_fd, is_renamed ? name : spare->name, 0);
  return -1;
}

/* The one of that name before any other, which would take its place. */
static size_t spare_find(const struct spares *s, const char *name, uint64_t n_bytes) {
  size_t found = s->n;
  for (size_t i = s->n; i > 0; i--) {
    if (strcmp(s->of[i - 1].name, name) == 0)
      return i - 1;
    found = s->of[i - 1].n_bytes == n_bytes ? i - 1 : found;
  }
  return found;
}

int spares_take(struct spares *s, int dir_fd, const char *name, uint64_t n_bytes) {
  size_t i = spare_find(s, name, n_bytes);
  if (i == s->n)
    return -1;
  struct spare spare = spare_remove(s, i);
  if (spare.n_bytes == n_bytes)
    return spare_open(&spare, dir_fd, name);
  unlinkat(dir_fd, spare.name, 0);
  return -1;
}

uint64_t spares_bytes(const struct spares *s) {
  uint64_t sum = 0;
  for (size_t i = 0; i < s->n; i++)
    sum += s->of[i].n_bytes;
  return sum;
}

void spares_drop(struct spares *s, int dir_fd) {
  while (s->n > 0)
    unlinkat(dir_fd, spare_remove(s, 0).name, 0);
}
