#include "base/new_name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static int error_of_link; /* 0: none */
static char folder[64], from[96], to[96];

/* In place of libc's. */
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
int link(const char *old, const char *new) {
  errno = error_of_link;
  return error_of_link ? -1 : linkat(AT_FDCWD, old, AT_FDCWD, new, 0);
}

static void write_file(const char *path, char byte) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(write(fd, &byte, 1), 1);
  close(fd);
}

static char content_of(const char *path) {
  char byte = 0;
  int fd = open(path, O_RDONLY);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(read(fd, &byte, 1), 1);
  close(fd);
  return byte;
}

static void begin(void) {
  snprintf(folder, sizeof folder, "/tmp/starling-name-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(from, sizeof from, "%s/from", folder);
  snprintf(to, sizeof to, "%s/to", folder);
  write_file(from, 'a');
}

static void end(void) {
  unlink(from);
  unlink(to);
  ck_assert_int_eq(rmdir(folder), 0);
}

/* A file system with hard links, and three that say in their own way that they have none. */
static const int without[] = {0, EPERM, EOPNOTSUPP, ENOSYS};

START_TEST(a_file_gets_its_name) {
  error_of_link = without[_i];
  ck_assert_int_eq(new_name_give(from, to), 0);
  ck_assert_int_eq(content_of(to), 'a');
}
END_TEST

START_TEST(never_over_another) {
  write_file(to, 'b');
  error_of_link = without[_i];
  ck_assert_int_eq(new_name_give(from, to), -1);
  ck_assert_int_eq(errno, EEXIST);
  ck_assert_int_eq(content_of(to), 'b');
  ck_assert_int_eq(content_of(from), 'a');
}
END_TEST

START_TEST(other_errors_are_told) {
  struct stat unused;
  error_of_link = ENOSPC;
  ck_assert_int_eq(new_name_give(from, to), -1);
  ck_assert_int_eq(errno, ENOSPC);
  ck_assert_int_ne(stat(to, &unused), 0);
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("new_name");
  tcase_add_checked_fixture(tcase, begin, end);
  tcase_add_loop_test(tcase, a_file_gets_its_name, 0, sizeof without / sizeof *without);
  tcase_add_loop_test(tcase, never_over_another, 0, sizeof without / sizeof *without);
  tcase_add_test(tcase, other_errors_are_told);
  return suite_run_case("new_name", tcase);
}
