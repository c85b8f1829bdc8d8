#include "store/reason.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_PATH_BYTES = 80 };

void reason_set(char out_reason[MAX_REASON_BYTES], const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(out_reason, MAX_REASON_BYTES, format, arguments); // NOLINT(clang-analyzer-valist.Uninitialized)
  va_end(arguments);
}

const char *reason_path(const char *path) {
  size_t n = strlen(path);
  return n > SHOWN_PATH_BYTES ? path + n - SHOWN_PATH_BYTES : path;
}
