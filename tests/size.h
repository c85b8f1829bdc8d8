/* How much a test tries, by STARLING_TEST_SIZE: `small` under sanitisers, `least` under valgrind, which takes thirty times as
 * long and has to see each path once, `long` in `tests/run --long`, else the plain size. */
#ifndef TESTS_SIZE_H
#define TESTS_SIZE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool size_is(const char *name) {
  const char *size = getenv("STARLING_TEST_SIZE");
  return size != NULL && strcmp(size, name) == 0;
}

/* `least` is small, too. */
static inline bool size_is_small(void) {
  return size_is("small") || size_is("least");
}

static inline size_t sized(size_t small, size_t plain, size_t large) {
  return size_is_small() ? small : size_is("long") ? large : plain;
}

static inline size_t least_or(size_t least, size_t other) {
  return size_is("least") ? least : other;
}

enum { SUITE_LIMIT_S = 240 }; /* of those that take longer than Check expects */

#endif
