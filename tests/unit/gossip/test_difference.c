#include "gossip/difference.h"

#include <string.h>

#include "tests/unit/suite.h"

static struct text of(const char *s) {
  return (struct text){s, strlen(s)};
}

static const struct {
  const char *ours, *theirs, *words;
} rows[] = {
    {"contract: 1\nclass 2: \"dent\"\n", "contract: 1\nclass 2: \"scratch\"\n",
     "class 2 is \"dent\" here, \"scratch\" there"},
    {"a: 1\n", "a: 1\nfeature 7: temp_C\n", "feature 7 is missing here, temp_C there"},
    {"a: 1\nb: 2\n", "a: 1\n", "b is 2 here, missing there"},
    {"unit 3: N\n", "feature 4: x\n", "a line is unit 3: N here, feature 4: x there"},
    {"free text\n", "other text\n", "a line is free text here, other text there"},
    {"", "a: 1\n", "a is missing here, 1 there"},
    {"a: 1", "a: 1\n\n", "a line is missing here,  there"},
    {"a: \xc3\xb6\n", "a: \xff\xc3\n", "a is \xc3\xb6 here, ?? there"},
    {"a: 1\n", "a: \x1b[31m\n", "a is 1 here, ?[31m there"},
    {"a: 1\n", "a: \xed\xa0\x80\n", "a is 1 here, ??? there"}, /* a surrogate */
    {"a: 1\n", "a: \xc0\x80\n", "a is 1 here, ?? there"},      /* an overlong NUL */
};

START_TEST(the_first_difference_is_said_in_words) {
  char words[MAX_REASON_BYTES];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ck_assert(difference_find(of(rows[i].ours), of(rows[i].theirs), words));
    ck_assert_str_eq(words, rows[i].words);
  }
}
END_TEST

START_TEST(equal_texts_have_none) {
  char words[MAX_REASON_BYTES] = "x";
  ck_assert(!difference_find(of("a: 1\nb: 2\n"), of("a: 1\nb: 2\n"), words));
  ck_assert_str_eq(words, "");
  ck_assert(!difference_find(of(""), of(""), words));
}
END_TEST

START_TEST(long_lines_are_cut_at_a_whole_character) {
  char ours[1000] = "class 1: ", words[MAX_REASON_BYTES];
  for (int i = 0; i < 200; i++)
    memcpy(ours + strlen(ours), "\xc3\xb6", 3);
  ck_assert(difference_find(of(ours), of("class 1: b\n"), words));
  ck_assert_uint_lt(strlen(words), MAX_REASON_BYTES);
  ck_assert_ptr_nonnull(strstr(words, "\xc3\xb6 here, b there"));
}
END_TEST

START_TEST(a_long_text_is_cut_at_a_whole_line) {
  static const char text[] = "one: 1\ntwo: 2\nthree: 3\n";
  ck_assert_uint_eq(text_whole_lines(text, 100).n, sizeof text - 1);
  ck_assert_uint_eq(text_whole_lines(text, 15).n, 14);
  ck_assert_uint_eq(text_whole_lines(text, 14).n, 14);
  ck_assert_uint_eq(text_whole_lines(text, 13).n, 7);
  ck_assert_uint_eq(text_whole_lines(text, 5).n, 0);
}
END_TEST

int main(void) {
  return SUITE_RUN("difference", the_first_difference_is_said_in_words, equal_texts_have_none,
                   long_lines_are_cut_at_a_whole_character, a_long_text_is_cut_at_a_whole_line);
}
