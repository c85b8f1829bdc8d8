#include "models/formats/libzip.h"

#include <dlfcn.h>
#include <string.h>

/* POSIX: what dlsym gives may be read as a pointer to a function. */
static bool find(void *library, const char *name, void *out_function) {
  void *found = dlsym(library, name);
  memcpy(out_function, &found, sizeof found);
  return found != NULL;
}

bool libzip_load(struct libzip *out) {
  void *library = dlopen("libzip.so.4", RTLD_NOW | RTLD_LOCAL);
#define X(name) &&find(library, "zip_" #name, &out->name)
  return library != NULL LIBZIP_FUNCTIONS(X);
#undef X
}
