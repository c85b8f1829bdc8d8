/* Shared libraries that are loaded when they are first needed, so that an agent that never needs them does not spend their memory.
 * Any thread. */
#ifndef BASE_LIBRARY_H
#define BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* Loads `file` ("libzip.so.4") and writes the addresses of n functions to `out_functions`, a struct of n pointers to functions
 * and nothing else, in the order of `names`. false: it is not installed, or has not all of them; out_functions is void. It stays
 * loaded until the program ends. */
bool library_load(const char *file, size_t n, const char *const names[], void *out_functions);

#endif
