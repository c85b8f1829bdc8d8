#include "models/text.h"

#include <stdarg.h>
#include <stdio.h>

void text_line(struct writer *w, const char *format, ...) {
  char line[TEXT_LINE_BYTES];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (n < 0 || (size_t)n >= sizeof line) {
    w->failed = true;
    return;
  }
  line[n] = '\n';
  writer_bytes(w, line, (size_t)n + 1);
}

enum err text_end(struct writer *w, size_t *out_n_bytes) {
  writer_u8(w, 0);
  enum err e = writer_end(w);
  if (e == ERR_OK)
    *out_n_bytes = w->n_bytes - 1;
  return e;
}
