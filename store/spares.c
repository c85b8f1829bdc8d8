#include "store/spares.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct spare_name {
  char chars[24];
};

static struct spare_name name_of(const struct spare *spare) {
  struct spare_name name;
  snprintf(name.chars, sizeof name.chars, "spare-%u", spare->number);
  return name;
}

static struct spare spare_remove(struct spares *s, size_t i) {
  struct spare spare = s->of[i];
  s->n--;
  memmove(&s->of[i], &s->of[i + 1], (s->n - i) * sizeof *s->of);
  return spare;
}

int spares_put(struct spares *s, int dir_fd, const char *name, uint64_t n_bytes) {
  if (n_bytes < SPARE_MIN_BYTES || n_bytes > SPARE_MAX_BYTES)
    return unlinkat(dir_fd, name, 0);
  struct spare spare = {.n_bytes = n_bytes, .number = s->next_number++};
  if (renameat(dir_fd, name, dir_fd, name_of(&spare).chars) != 0)
    return unlinkat(dir_fd, name, 0);
  if (s->n == MAX_SPARES) {
    struct spare oldest = spare_remove(s, 0);
    unlinkat(dir_fd, name_of(&oldest).chars, 0);
  }
  s->of[s->n++] = spare;
  return 0;
}

/* A lease to write is only given on a file that nobody else has open; by its present name nobody can open it. */
static bool is_ours_alone(int fd) {
  return fcntl(fd, F_SETLEASE, F_WRLCK) == 0 && fcntl(fd, F_SETLEASE, F_UNLCK) == 0;
}

static int spare_open(const struct spare *spare, int dir_fd, const char *name) {
  const struct spare_name own = name_of(spare);
  int fd = openat(dir_fd, own.chars, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd >= 0 && is_ours_alone(fd) && renameat(dir_fd, own.chars, dir_fd, name) == 0)
    return fd;
  if (fd >= 0)
    close(fd);
  unlinkat(dir_fd, own.chars, 0);
  return -1;
}

int spares_take(struct spares *s, int dir_fd, const char *name, uint64_t n_bytes) {
  for (size_t i = 0; i < s->n; i++) {
    if (s->of[i].n_bytes != n_bytes)
      continue;
    struct spare spare = spare_remove(s, i);
    return spare_open(&spare, dir_fd, name);
  }
  return -1;
}

uint64_t spares_bytes(const struct spares *s) {
  uint64_t sum = 0;
  for (size_t i = 0; i < s->n; i++)
    sum += s->of[i].n_bytes;
  return sum;
}

void spares_drop(struct spares *s, int dir_fd) {
  while (s->n > 0) {
    struct spare spare = spare_remove(s, 0);
    unlinkat(dir_fd, name_of(&spare).chars, 0);
  }
}
