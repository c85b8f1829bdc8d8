#include "models/formats/data_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/formats/npy.h"

static bool ends_in(const char *path, const char *ending) {
  size_t n = strlen(path), n_ending = strlen(ending);
  return n >= n_ending && strcasecmp(path + n - n_ending, ending) == 0;
}

enum data_format data_format_of(const struct data_file *file) {
  if (ends_in(file->path, ".npy") || npy_is_archive(file->path))
    return DATA_ARRAYS;
  return file->labels != NULL ? DATA_IDX : DATA_CSV;
}

void data_place_text(const struct data_place *place, char *out_text, size_t capacity) {
  if (place->line == 0)
    snprintf(out_text, capacity, "%s: %s", place->path, place->sentence);
  else if (place->column == 0)
    snprintf(out_text, capacity, "%s:%" PRIu64 ": %s", place->path, place->line, place->sentence);
  else
    snprintf(out_text, capacity, "%s:%" PRIu64 ":%" PRIu64 ": %s", place->path, place->line, place->column,
             place->sentence);
}

enum err data_fault(struct data_place *why, enum err e, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(why->sentence, sizeof why->sentence, format, args);
  va_end(args);
  return e;
}

enum err data_place_init(struct data_place *why, const char *path) {
  *why = (struct data_place){0};
  size_t n = strlen(path);
  if (n >= sizeof why->path) {
    memcpy(why->path, path, sizeof why->path - 1);
    return data_fault(why, ERR_LIMIT, "the path is longer than %d bytes", MAX_PATH_BYTES - 1);
  }
  memcpy(why->path, path, n);
  return ERR_OK;
}

enum err data_open(const char *path, struct data_place *why, int *out_fd, uint64_t *out_n_bytes) {
  enum err e = data_place_init(why, path);
  if (e != ERR_OK)
    return e;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block before it is refused */
  struct stat st;
  if (fd < 0 || fstat(fd, &st) != 0) {
    e = err_from_errno(errno);
    e = data_fault(why, e, "%s; correct the path", err_sentence(e));
  } else if (!S_ISREG(st.st_mode)) {
    e = data_fault(why, ERR_UNSUPPORTED, "it is not a regular file; name the data file itself");
  } else {
    *out_n_bytes = (uint64_t)st.st_size;
    *out_fd = fd;
    return ERR_OK;
  }
  if (fd >= 0)
    close(fd);
  return e;
}
