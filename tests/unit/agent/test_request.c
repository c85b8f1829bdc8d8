/* What a request over the control socket may have: each member with what it may be and what it may not. */
#include "agent/run/request.h"
#include "tests/unit/suite.h"

static enum err judge(const char *text, char why[MAX_REASON_BYTES]) {
  json_t *request = json_loads(text, 0, NULL);
  ck_assert_msg(request != NULL, "%s", text);
  enum err e = request_judge(request, why);
  json_decref(request);
  return e;
}

START_TEST(what_the_verbs_say_is_taken) {
  static const char *const good[] = {
      "{}",
      "{\"ask\":\"status\",\"job\":\"points@1\",\"unless\":0}",
      "{\"ask\":\"events\",\"wait\":true,\"last\":20,\"after\":9223372036854775807}",
      "{\"ask\":\"roll-back\",\"round\":380,\"sub\":4294967295,\"note\":\"\",\"mode\":\"best\"}",
      "{\"ask\":\"rounds\",\"from\":3,\"last\":4294967295}",
      "{\"ask\":\"job-propose\",\"text\":\"job: a\",\"check\":false}",
      "{\"ask\":\"job-file\",\"peer\":\"b\"}",
  };
  char why[MAX_REASON_BYTES];
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    ck_assert_msg(judge(good[i], why) == ERR_OK, "%s", good[i]);
}
END_TEST

START_TEST(another_type_is_refused_with_the_member) {
  static const struct {
    const char *text, *why;
  } bad[] = {
      {"{\"ask\":3}", "ask: write text"},
      {"{\"ask\":null}", "ask: write text"},
      {"{\"ask\":\"status\",\"job\":[\"points\"]}", "job: write text"},
      {"{\"ask\":\"events\",\"wait\":1}", "wait: write true or false"},
      {"{\"ask\":\"roll-back\",\"round\":\"12\"}", "round: write a whole number from 0 to 9223372036854775807"},
      {"{\"ask\":\"roll-back\",\"round\":12.0}", "round: write a whole number from 0 to 9223372036854775807"},
      {"{\"ask\":\"roll-back\",\"round\":-1}", "round: write a whole number from 0 to 9223372036854775807"},
      {"{\"ask\":\"pin\",\"round\":1,\"sub\":4294967296}", "sub: write a whole number from 0 to 4294967295"},
      {"{\"ask\":\"events\",\"last\":4294967296}", "last: write a whole number from 0 to 4294967295"},
      {"{\"ask\":\"pin\",\"ruond\":1}", "\"ruond\": a request has no such member"},
  };
  char why[MAX_REASON_BYTES];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    ck_assert_msg(judge(bad[i].text, why) == ERR_RANGE, "%s", bad[i].text);
    ck_assert_str_eq(why, bad[i].why);
  }
}
END_TEST

START_TEST(a_name_of_any_length_fits_the_sentence) {
  char text[1024] = "{\"", why[MAX_REASON_BYTES];
  memset(text + 2, 'x', 900);
  memcpy(text + 902, "\":1}", 5);
  ck_assert_int_eq(judge(text, why), ERR_RANGE);
  ck_assert_uint_lt(strlen(why), sizeof why);
}
END_TEST

int main(void) {
  return SUITE_RUN("request", what_the_verbs_say_is_taken, another_type_is_refused_with_the_member,
                   a_name_of_any_length_fits_the_sentence);
}
