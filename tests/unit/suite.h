/* What every Check program's main does: run one suite and turn its failures into the exit status. */
#ifndef TESTS_UNIT_SUITE_H
#define TESTS_UNIT_SUITE_H

#include <check.h>
#include <stddef.h>

/* The suite of one case, whose fixture, limit and loops the caller has set. */
static inline int suite_run_case(const char *name, TCase *tcase) {
  Suite *suite = suite_create(name);
  suite_add_tcase(suite, tcase);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}

/* `limit_s`: for tests that take longer than Check expects; 0: as Check has it. set_up, tear_down: around each test, or NULL. */
static inline int suite_run(const char *name, double limit_s, SFun set_up, SFun tear_down, const TTest *const *tests,
                            size_t n_tests) {
  TCase *tcase = tcase_create(name);
  if (limit_s > 0)
    tcase_set_timeout(tcase, limit_s);
  tcase_add_checked_fixture(tcase, set_up, tear_down);
  for (size_t i = 0; i < n_tests; i++)
    tcase_add_test(tcase, tests[i]);
  return suite_run_case(name, tcase);
}

#define SUITE_RUN_AROUND(name, limit_s, set_up, tear_down, ...)                                                        \
  suite_run(name, limit_s, set_up, tear_down, (const TTest *const[]){__VA_ARGS__},                                     \
            sizeof(const TTest *const[]){__VA_ARGS__} / sizeof(TTest *))
#define SUITE_RUN_WITHIN(name, limit_s, ...) SUITE_RUN_AROUND(name, limit_s, NULL, NULL, __VA_ARGS__)
#define SUITE_RUN(name, ...) SUITE_RUN_WITHIN(name, 0, __VA_ARGS__)

#endif
