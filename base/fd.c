#include "base/fd.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

enum err fd_read_full(int fd, void *out_bytes, size_t n, size_t *out_n_read) {
  uint8_t *at = out_bytes;
  size_t n_read = 0;
  while (n_read < n) {
    ssize_t got = read(fd, at + n_read, n - n_read);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return err_from_errno(errno);
    if (got == 0)
      break;
    n_read += (size_t)got;
  }
  *out_n_read = n_read;
  return ERR_OK;
}

enum err fd_write_all(int fd, const void *bytes, size_t n) {
  const uint8_t *at = bytes;
  while (n > 0) {
    ssize_t put = write(fd, at, n);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return err_from_errno(errno);
    at += put;
    n -= (size_t)put;
  }
  return ERR_OK;
}
