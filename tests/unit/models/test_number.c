#include "models/formats/number.h"

#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/rng.h"
#include "tests/unit/suite.h"

START_TEST(reads_decimals) {
  static const struct {
    const char *text;
    double value;
  } table[] = {{"0", 0},      {"-0", 0},      {"21.5", 21.5}, {"+3", 3},     {".5", 0.5},        {"7.", 7},
               {"1e3", 1000}, {"1E-2", 0.01}, {"007", 7},     {"1e-400", 0}, {"-1.25e+2", -125}, {"0.1", 0.1}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    double value = NAN;
    ck_assert_msg(number_read(table[i].text, strlen(table[i].text), &value) == ERR_OK, "%s", table[i].text);
    ck_assert_msg(value == table[i].value, "%s", table[i].text);
  }
}
END_TEST

START_TEST(refuses_everything_else) {
  static const char *const table[] = {"",  " 1", "1 ",  "1,5",   "nan", "inf", "-inf", "0x10",  "1e", "1e+",
                                      ".", "-",  "+-1", "1.2.3", "1f",  "e5",  "--1",  "1_000", "١"};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    double value = 42;
    ck_assert_msg(number_read(table[i], strlen(table[i]), &value) == ERR_SYNTAX, "%s", table[i]);
    ck_assert(value == 42);
  }
  double value = 42;
  ck_assert_int_eq(number_read("1\0002", 3, &value), ERR_SYNTAX);
  ck_assert_int_eq(number_read("1e999", 5, &value), ERR_RANGE);
  ck_assert_int_eq(number_read("-1e999", 6, &value), ERR_RANGE);
  char digits[MAX_NUMBER_BYTES + 1];
  memset(digits, '0', sizeof digits);
  ck_assert_int_eq(number_read(digits, sizeof digits, &value), ERR_LIMIT);
  ck_assert(value == 42);
  ck_assert_int_eq(number_read(digits, MAX_NUMBER_BYTES, &value), ERR_OK);
}
END_TEST

START_TEST(reads_only_the_bytes_it_is_given) {
  double value;
  ck_assert_int_eq(number_read("12345", 2, &value), ERR_OK);
  ck_assert(value == 12);
}
END_TEST

START_TEST(written_numbers_read_back_to_the_bit) {
  struct rng r;
  rng_init(&r, 1);
  for (int i = 0; i < 20000; i++) {
    uint64_t bits = rng_u64(&r);
    double value, back;
    memcpy(&value, &bits, sizeof value);
    if (!isfinite(value))
      continue;
    char text[NUMBER_TEXT_BYTES];
    number_write(value, text);
    ck_assert_int_eq(number_read(text, strlen(text), &back), ERR_OK);
    uint64_t bits_back;
    memcpy(&bits_back, &back, sizeof back);
    ck_assert_msg(bits == bits_back, "%s", text);
  }
  char text[NUMBER_TEXT_BYTES];
  number_write(14.2, text);
  ck_assert_str_eq(text, "14.2");
  number_write(0.1 + 0.2, text);
  ck_assert_str_eq(text, "0.30000000000000004");
}
END_TEST

START_TEST(the_locale_does_not_matter) {
  static const char *const comma[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"};
  for (size_t i = 0; i < sizeof comma / sizeof comma[0]; i++)
    if (setlocale(LC_ALL, comma[i]) != NULL)
      break; /* where none is installed the test shows nothing new */
  char text[NUMBER_TEXT_BYTES];
  double value;
  number_write(2.5, text);
  ck_assert_str_eq(text, "2.5");
  ck_assert_int_eq(number_read("2.5", 3, &value), ERR_OK);
  ck_assert(value == 2.5);
  ck_assert_int_eq(number_read("2,5", 3, &value), ERR_SYNTAX);
  setlocale(LC_ALL, "C");
}
END_TEST

int main(void) {
  return SUITE_RUN("models/number", reads_decimals, refuses_everything_else, reads_only_the_bytes_it_is_given,
                   written_numbers_read_back_to_the_bit, the_locale_does_not_matter);
}
