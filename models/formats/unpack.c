#include "models/formats/unpack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

enum { PIECE_BYTES = 1 << 16 };

static enum err copy(gzFile in, FILE *out, unsigned char *piece) {
  int n;
  while ((n = gzread(in, piece, PIECE_BYTES)) > 0)
    if (fwrite(piece, 1, (size_t)n, out) != (size_t)n)
      return err_from_errno(errno);
  if (n == 0)
    return gzeof(in) ? ERR_OK : ERR_CORRUPT;
  int code;
  (void)gzerror(in, &code);
  return code == Z_ERRNO ? ERR_IO : ERR_CORRUPT;
}

enum err unpack(const char *from, const char *to) {
  unsigned char *piece = malloc(PIECE_BYTES);
  gzFile in = piece ? gzopen(from, "rbe") : NULL;
  if (!in) {
    enum err e = piece ? err_from_errno(errno) : ERR_NO_MEMORY;
    free(piece);
    return e;
  }
  FILE *out = fopen(to, "wxe");
  enum err e = out ? copy(in, out, piece) : err_from_errno(errno);
  if (out && fclose(out) != 0 && e == ERR_OK)
    e = err_from_errno(errno);
  if (out && e != ERR_OK)
    unlink(to);
  /* a stream that ends too early is found out here */
  if (gzclose_r(in) != Z_OK && e == ERR_OK) {
    unlink(to);
    e = ERR_CORRUPT;
  }
  free(piece);
  return e;
}
