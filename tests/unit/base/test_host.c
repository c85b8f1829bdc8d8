#include "base/host.h"

#include <string.h>

#include "tests/unit/suite.h"

START_TEST(numbers_are_told_from_names) {
  static const struct {
    const char *host;
    bool is_number;
  } cases[] = {
      {"10.20.0.3", true},   {"[::1]", true},   {"[fe80::1]", true},   {"::1", false},
      {"[10.0.0.1]", false}, {"10.0.0", false}, {"10.0.0.256", false}, {"site-3.example.org", false},
      {"[]", false},         {"", false},       {"[::1", false},       {"localhost", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    ck_assert_msg(host_is_number(cases[i].host, strlen(cases[i].host)) == cases[i].is_number, "%s", cases[i].host);
  ck_assert(host_is_number("10.0.0.1:7411", 8));
  char longest[80];
  memset(longest, '1', sizeof longest);
  ck_assert(!host_is_number(longest, sizeof longest));
}
END_TEST

int main(void) {
  return SUITE_RUN("host", numbers_are_told_from_names);
}
