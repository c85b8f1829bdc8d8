#include "base/must.h"
#include "tests/unit/suite.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(a_true_condition_is_evaluated_once) {
  int n = 0;
  MUST(++n == 1);
  ck_assert_int_eq(n, 1);
}
END_TEST

START_TEST(a_false_condition_aborts_with_its_place) {
  int ends[2];
  ck_assert_int_eq(pipe(ends), 0);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    MUST(1 + 1 == 3);
    _exit(0);
  }
  close(ends[1]);
  char text[256] = {0};
  ck_assert_int_gt(read(ends[0], text, sizeof text - 1), 0);
  close(ends[0]);
  int status = 0;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  ck_assert_ptr_nonnull(strstr(text, "bug at "));
  ck_assert_ptr_nonnull(strstr(text, "test_must.c:"));
  ck_assert_ptr_nonnull(strstr(text, "1 + 1 == 3 does not hold\n"));
}
END_TEST

int main(void) {
  return SUITE_RUN("base/must", a_true_condition_is_evaluated_once, a_false_condition_aborts_with_its_place);
}
