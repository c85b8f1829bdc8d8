#include "agent/text.h"

#include <string.h>

#include "tests/unit/suite.h"

static const struct {
  const char *text, *escaped;
} samples[] = {
    {"", ""},
    {"bad sens\xc3\xb6r", "bad sens\xc3\xb6r"},
    {"a\nb", "a\\x0ab"},
    {"\x1b[2J", "\\x1b[2J"},
    {"\xff\xfe", "\\xff\\xfe"},
    {"\xc2\x9b", "\\xc2\\x9b"},                  /* a control character of two bytes */
    {"\xe2\x80\xae txt", "\\xe2\\x80\\xae txt"}, // NOLINT(misc-misleading-bidirectional): right to left
    {"cut \xe2\x82", "cut \\xe2\\x82"},          /* half a character */
};

START_TEST(what_steers_a_terminal_is_escaped) {
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
    char out[64];
    text_escape(samples[i].text, out, sizeof out);
    ck_assert_str_eq(out, samples[i].escaped);
    ck_assert_int_eq(text_is_clean(samples[i].text), strcmp(samples[i].text, samples[i].escaped) == 0);
    ck_assert(text_is_clean(out));
  }
}
END_TEST

START_TEST(what_does_not_fit_is_cut_between_characters) {
  char out[8];
  text_escape("sens\xc3\xb6r", out, 6); /* four bytes, then two of which one would fit */
  ck_assert_str_eq(out, "sens");
  text_escape("abcd\x01", out, sizeof out);
  ck_assert_str_eq(out, "abcd");
  text_escape("abc\x01", out, sizeof out);
  ck_assert_str_eq(out, "abc\\x01");
  text_escape("x", out, 1);
  ck_assert_str_eq(out, "");
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/text", what_steers_a_terminal_is_escaped, what_does_not_fit_is_cut_between_characters);
}
