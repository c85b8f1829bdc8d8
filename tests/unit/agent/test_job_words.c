/* How people name a job. */
#include "agent/job_words.h"

#include <string.h>

#include "tests/unit/suite.h"

static const struct {
  const char *text, *name;
  uint32_t version;
} good[] = {
    {"inspection", "inspection", 0}, {"inspection@2", "inspection", 2}, {"a.b_c-1@1000000", "a.b_c-1", 1000000}};

START_TEST(a_name_with_or_without_a_version) {
  struct job_words words;
  char why[MAX_REASON_BYTES];
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    ck_assert_int_eq(job_words_read(good[i].text, &words, why), ERR_OK);
    ck_assert_str_eq(words.name, good[i].name);
    ck_assert_uint_eq(words.version, good[i].version);
  }
}
END_TEST

static const struct {
  const char *text;
  enum err e;
} bad[] = {{"", ERR_SYNTAX},    {"@2", ERR_SYNTAX},    {"a@", ERR_SYNTAX},
           {"a@x", ERR_SYNTAX}, {"a@0", ERR_RANGE},    {"a@1000001", ERR_RANGE},
           {"a b", ERR_SYNTAX}, {"a@2@3", ERR_SYNTAX}, {"-a", ERR_SYNTAX}};

START_TEST(anything_else_is_refused_with_a_reason) {
  char why[MAX_REASON_BYTES], name[2 * MAX_NAME_BYTES];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct job_words words = {.version = 77};
    why[0] = '\0';
    ck_assert_int_eq(job_words_read(bad[i].text, &words, why), bad[i].e);
    ck_assert_str_ne(why, "");
    ck_assert_uint_eq(words.version, 77);
  }
  struct job_words words;
  memset(name, 'a', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  ck_assert_int_eq(job_words_read(name, &words, why), ERR_SYNTAX);
}
END_TEST

START_TEST(a_version_that_is_not_said_fits_all) {
  struct job_words any = {.name = "a"}, second = {.name = "a", .version = 2};
  char text[JOB_WORDS_BYTES];
  ck_assert(job_words_fit(&any, "a", 7) && job_words_fit(&second, "a", 2));
  ck_assert(!job_words_fit(&second, "a", 1) && !job_words_fit(&any, "b", 7));
  job_words_write("a", 2, text);
  ck_assert_str_eq(text, "a@2");
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/job_words", a_name_with_or_without_a_version, anything_else_is_refused_with_a_reason,
                   a_version_that_is_not_said_fits_all);
}
