/* How much a property test tries: STARLING_TEST_SIZE is `small` under sanitisers and valgrind, `long` in
 * `tests/run --long`, else it is the plain size. */
#ifndef TESTS_PROPERTY_SIZE_H
#define TESTS_PROPERTY_SIZE_H

#include <check.h>
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

enum { SUITE_LIMIT_S = 240 };

/* As suite_run, for tests that take longer than Check expects. */
static inline int long_suite_run(const char *name, const TTest *const *tests, size_t n_tests) {
  Suite *suite = suite_create(name);
  TCase *tcase = tcase_create(name);
  tcase_set_timeout(tcase, SUITE_LIMIT_S);
  for (size_t i = 0; i < n_tests; i++)
    tcase_add_test(tcase, tests[i]);
  suite_add_tcase(suite, tcase);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}

#define LONG_SUITE_RUN(name, ...)                                                                                      \
  long_suite_run(name, (const TTest *const[]){__VA_ARGS__}, sizeof(const TTest *const[]){__VA_ARGS__} / sizeof(TTest *))

#endif
