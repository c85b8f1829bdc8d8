/* How much a test tries: STARLING_TEST_SIZE is `small` under sanitisers and valgrind, `long` in
 * `tests/run --long`, else it is the plain size. */
#ifndef TESTS_SIZE_H
#define TESTS_SIZE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool size_is(const char *name) {
  const char *size = getenv("STARLING_TEST_SIZE");
  return size != NULL && strcmp(size, name) == 0;
}

static inline size_t sized(size_t small, size_t plain, size_t large) {
  return size_is("small") ? small : size_is("long") ? large : plain;
}

enum { SUITE_LIMIT_S = 240 }; /* of those that take longer than Check expects */

#endif
