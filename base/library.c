#include "base/library.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

bool library_load(const char *file, size_t n, const char *const names[], void *out_functions) {
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; library && i < n; i++) {
    void *function = dlsym(library, names[i]); /* POSIX: may be read as a pointer to a function */
    if (!function)
      return false;
    memcpy((uint8_t *)out_functions + i * sizeof function, &function, sizeof function);
  }
  return library != NULL;
}
