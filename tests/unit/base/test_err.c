#include "base/err.h"
#include "tests/unit/suite.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

START_TEST(ok_is_zero) {
  ck_assert_int_eq(ERR_OK, 0);
  ck_assert_str_eq(err_name(ERR_OK), "ok");
}
END_TEST

START_TEST(names_are_unique_and_stable_words) {
  for (int i = 0; i < ERR_COUNT; i++) {
    const char *name = err_name((enum err)i);
    ck_assert_uint_gt(strlen(name), 0);
    for (const char *c = name; *c; c++)
      ck_assert_msg(islower((unsigned char)*c) || *c == '-', "'%s' is not in lower case and hyphens", name);
    for (int j = 0; j < i; j++)
      ck_assert_str_ne(name, err_name((enum err)j));
  }
}
END_TEST

START_TEST(sentences_stand_after_a_place) {
  for (int i = 0; i < ERR_COUNT; i++) {
    const char *sentence = err_sentence((enum err)i);
    size_t n = strlen(sentence);
    ck_assert_uint_gt(n, 5);
    ck_assert_msg(islower((unsigned char)sentence[0]) && sentence[n - 1] != '.', "'%s'", sentence);
  }
}
END_TEST

START_TEST(outside_the_list) {
  static const int outside[] = {-1, ERR_COUNT, ERR_COUNT + 1, 1 << 20};
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
    ck_assert_str_eq(err_name((enum err)outside[i]), "unknown");
    ck_assert_str_eq(err_sentence((enum err)outside[i]), "an error outside the list");
    ck_assert_int_eq(err_drop_index((enum err)outside[i]), -1);
  }
}
END_TEST

START_TEST(drops_are_numbered_without_gaps) {
  for (int i = 0; i < ERR_FIRST_DROP; i++)
    ck_assert_int_eq(err_drop_index((enum err)i), -1);
  for (int i = ERR_FIRST_DROP; i < ERR_COUNT; i++)
    ck_assert_int_eq(err_drop_index((enum err)i), i - ERR_FIRST_DROP);
  ck_assert_int_eq(err_drop_index(ERR_NO_SESSION), 0);
  ck_assert_int_eq(err_drop_index((enum err)(ERR_COUNT - 1)), N_DROPS - 1);
}
END_TEST

START_TEST(errno_values_become_the_closest_error) {
  static const struct {
    int value;
    enum err expected;
  } cases[] = {
      {ENOMEM, ERR_NO_MEMORY}, {ENOSPC, ERR_NO_SPACE},
      {EDQUOT, ERR_NO_SPACE},  {EROFS, ERR_READ_ONLY},
      {ENOENT, ERR_NOT_FOUND}, {ENOTDIR, ERR_NOT_FOUND},
      {EEXIST, ERR_EXISTS},    {EACCES, ERR_PERMISSION},
      {EPERM, ERR_PERMISSION}, {ELOOP, ERR_PERMISSION},
      {EISDIR, ERR_EXISTS},    {ENAMETOOLONG, ERR_LIMIT},
      {EAGAIN, ERR_BUSY},      {EIO, ERR_IO},
      {EBADF, ERR_IO},         {0, ERR_IO},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    ck_assert_int_eq(err_from_errno(cases[i].value), cases[i].expected);
}
END_TEST

int main(void) {
  return SUITE_RUN("base/err", ok_is_zero, names_are_unique_and_stable_words, sentences_stand_after_a_place,
                   outside_the_list, drops_are_numbered_without_gaps, errno_values_become_the_closest_error);
}
