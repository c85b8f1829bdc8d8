#include "models/formats/libzip.h"

#include "base/library.h"

bool libzip_load(struct libzip *out) {
#define X(name) "zip_" #name,
  static const char *const names[] = {LIBZIP_FUNCTIONS(X)};
#undef X
  return library_load("libzip.so.4", sizeof names / sizeof *names, names, out);
}
