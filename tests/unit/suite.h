/* What every Check program's main does: run one suite and turn its failures into the exit status. */
#ifndef TESTS_UNIT_SUITE_H
#define TESTS_UNIT_SUITE_H

#include <check.h>
#include <stddef.h>

static inline int suite_run(const char *name, const TTest *const *tests, size_t n_tests) {
  Suite *suite = suite_create(name);
  TCase *tcase = tcase_create(name);
  for (size_t i = 0; i < n_tests; i++)
    tcase_add_test(tcase, tests[i]);
  suite_add_tcase(suite, tcase);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}

#define SUITE_RUN(name, ...)                                                                                           \
  suite_run(name, (const TTest *const[]){__VA_ARGS__}, sizeof(const TTest *const[]){__VA_ARGS__} / sizeof(TTest *))

#endif
