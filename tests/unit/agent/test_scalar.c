#include "agent/scalar.h"
#include "base/edit_distance.h"
#include "tests/unit/suite.h"

#include <string.h>

static const struct {
  const char *text;
  enum err e;
  const char *phrase;
} bad_integers[] = {
    {"5s", ERR_SYNTAX, "write 5, units stand in the key's name"},
    {"1_000", ERR_SYNTAX, "digits only"},
    {"", ERR_SYNTAX, "digits only"},
    {"-1", ERR_SYNTAX, "digits only"},
    {"+1", ERR_SYNTAX, "digits only"},
    {" 1", ERR_SYNTAX, "digits only"},
    {"1.0", ERR_SYNTAX, "digits only"},
    {"1,000", ERR_SYNTAX, "digits only"},
    {"0x10", ERR_SYNTAX, "digits only"},
    {"010", ERR_SYNTAX, "begins with 0"},
    {"1e3", ERR_SYNTAX, "digits only"} /* 1 is another number */,
    {"1", ERR_RANGE, "write 2 to 1000"},
    {"1001", ERR_RANGE, "write 2 to 1000"},
    {"18446744073709551616", ERR_RANGE, "write 2 to 1000"},
    {"99999999999999999999999999999999999999999999999999", ERR_RANGE, "write 2 to 1000"},
};

START_TEST(a_bad_integer_is_refused) {
  char why[MAX_REASON_BYTES];
  uint64_t value = 77;
  ck_assert_int_eq(scalar_integer(bad_integers[_i].text, 2, 1000, &value, why), bad_integers[_i].e);
  ck_assert_msg(strstr(why, bad_integers[_i].phrase) != NULL, "%s", why);
  ck_assert_uint_eq(value, 77);
}
END_TEST

START_TEST(integers_are_read_to_the_bounds) {
  char why[MAX_REASON_BYTES];
  uint64_t value;
  ck_assert_int_eq(scalar_integer("0", 0, 5, &value, why), ERR_OK);
  ck_assert_uint_eq(value, 0);
  ck_assert_int_eq(scalar_integer("18446744073709551615", 0, UINT64_MAX, &value, why), ERR_OK);
  ck_assert_uint_eq(value, UINT64_MAX);
}
END_TEST

static const struct {
  const char *text;
  enum err e;
  const char *phrase;
} bad_numbers[] = {
    {"0,5", ERR_SYNTAX, "write 0.5"},   {"nan", ERR_SYNTAX, "not a number"},    {"inf", ERR_SYNTAX, "not a number"},
    {"", ERR_SYNTAX, "not a number"},   {"1 ", ERR_SYNTAX, "not a number"},     {"0x1p3", ERR_SYNTAX, "not a number"},
    {"5s", ERR_SYNTAX, "such as 0.5"},  {"1e999", ERR_RANGE, "write 0.1 to 2"}, {"0.05", ERR_RANGE, "write 0.1 to 2"},
    {"2.1", ERR_RANGE, "out of range"}, {"1,2,3", ERR_SYNTAX, "not a number"},
};

START_TEST(a_bad_number_is_refused) {
  char why[MAX_REASON_BYTES];
  double value = 77;
  ck_assert_int_eq(scalar_number(bad_numbers[_i].text, 0.1, 2, &value, why), bad_numbers[_i].e);
  ck_assert_msg(strstr(why, bad_numbers[_i].phrase) != NULL, "%s", why);
  ck_assert(value == 77);
}
END_TEST

START_TEST(words_are_known_or_listed) {
  static const char *const words[] = {"info", "debug", "error", NULL};
  char why[MAX_REASON_BYTES];
  size_t index = 9;
  ck_assert_int_eq(scalar_word("debug", words, &index, why), ERR_OK);
  ck_assert_uint_eq(index, 1);
  ck_assert_int_eq(scalar_word("Debug", words, &index, why), ERR_SYNTAX);
  ck_assert_str_eq(why, "\"Debug\" is not known here; write info, debug or error");
}
END_TEST

START_TEST(labels_can_name_files) {
  char why[MAX_REASON_BYTES], longest[MAX_NAME_BYTES + 1];
  memset(longest, 'a', sizeof longest);
  longest[MAX_NAME_BYTES - 1] = '\0';
  ck_assert_int_eq(scalar_label(longest, why), ERR_OK);
  longest[MAX_NAME_BYTES - 1] = 'a';
  longest[MAX_NAME_BYTES] = '\0';
  ck_assert_int_eq(scalar_label(longest, why), ERR_LIMIT);
  ck_assert_int_eq(scalar_label("mec-07_b.c", why), ERR_OK);
  static const char *const bad[] = {"", ".hidden", "-n", "a/b", "a b", "..", "m\xc3\xa9", "a\nb"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    ck_assert_int_eq(scalar_label(bad[i], why), ERR_SYNTAX);
}
END_TEST

static const struct {
  const char *text;
  enum err listen, dial;
} addresses[] = {
    {"tcp://[::]:7411", ERR_OK, ERR_OK},
    {"tcp://127.0.0.1:1", ERR_OK, ERR_OK},
    {"tcp://[2001:db8::1]:65535", ERR_OK, ERR_OK},
    {"ipc:///run/starling.sock", ERR_OK, ERR_OK},
    {"tcp://mec-03.example:7411", ERR_SYNTAX, ERR_OK},
    {"tcp://localhost:7411", ERR_SYNTAX, ERR_OK},
    {"tcp://*:*", ERR_SYNTAX, ERR_SYNTAX},
    {"tcp://*:7411", ERR_SYNTAX, ERR_SYNTAX},
    {"tcp://10.0.0.3", ERR_SYNTAX, ERR_SYNTAX},
    {"tcp://10.0.0.3:", ERR_SYNTAX, ERR_SYNTAX},
    {"tcp://10.0.0.3:0", ERR_RANGE, ERR_RANGE},
    {"tcp://10.0.0.3:65536", ERR_RANGE, ERR_RANGE},
    {"tcp://10.0.0.3:7411x", ERR_SYNTAX, ERR_SYNTAX},
    {"tcp://10.0.0.3:99999999999999999999999", ERR_RANGE, ERR_RANGE},
    {"tcp://10.0.0.256:7411", ERR_SYNTAX, ERR_SYNTAX},
    {"tcp://[::1:7411", ERR_SYNTAX, ERR_SYNTAX},
    {"tcp://[::1]", ERR_SYNTAX, ERR_SYNTAX},
    {"tcp://::1:7411", ERR_SYNTAX, ERR_SYNTAX},
    {"tcp://:7411", ERR_SYNTAX, ERR_SYNTAX},
    {"tcp://a;b:7411", ERR_SYNTAX, ERR_SYNTAX},
    {"tcp://[::%eth0]:7411", ERR_SYNTAX, ERR_SYNTAX},
    {"ipc://relative", ERR_SYNTAX, ERR_SYNTAX},
    {"ipc://*", ERR_SYNTAX, ERR_SYNTAX},
    {"http://10.0.0.3:7411", ERR_SYNTAX, ERR_SYNTAX},
    {"10.0.0.3:7411", ERR_SYNTAX, ERR_SYNTAX},
};

START_TEST(addresses_are_judged) {
  char why[MAX_REASON_BYTES];
  ck_assert_int_eq(scalar_address(addresses[_i].text, ADDRESS_LISTEN, why), addresses[_i].listen);
  ck_assert_int_eq(scalar_address(addresses[_i].text, ADDRESS_DIAL, why), addresses[_i].dial);
}
END_TEST

START_TEST(shapes_and_ranges_are_read) {
  char why[MAX_REASON_BYTES];
  uint32_t shape[3] = {9, 9, 9};
  double lo, hi;
  ck_assert_int_eq(scalar_shape("28x27x3", shape, why), ERR_OK);
  ck_assert(shape[0] == 28 && shape[1] == 27 && shape[2] == 3);
  char text[SHAPE_TEXT_BYTES];
  scalar_shape_write(shape, text);
  ck_assert_str_eq(text, "28x27x3");
  ck_assert_int_eq(scalar_shape("128x9", shape, why), ERR_OK);
  ck_assert(shape[0] == 1 && shape[1] == 128 && shape[2] == 9);
  scalar_shape_write(shape, text);
  ck_assert_str_eq(text, "128x9");
  ck_assert_int_eq(scalar_shape("28x27x3", shape, why), ERR_OK);
  static const char *const bad[] = {"",         "28",    "28x",    "x28",    "28x28x1x1",
                                    "28x28x1 ", "x28x1", "28x28x", "-1x2x3", "28 x 28 x 1"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    ck_assert_int_eq(scalar_shape(bad[i], shape, why), ERR_SYNTAX);
  ck_assert_int_eq(scalar_shape("0x28x1", shape, why), ERR_RANGE);
  ck_assert_int_eq(scalar_shape("28x28x99999999999", shape, why), ERR_RANGE);
  ck_assert_uint_eq(shape[0], 28);
  ck_assert_int_eq(scalar_range("-40..85.5", &lo, &hi, why), ERR_OK);
  ck_assert(lo == -40 && hi == 85.5);
  ck_assert_int_eq(scalar_range("5..5", &lo, &hi, why), ERR_RANGE);
  ck_assert_int_eq(scalar_range("0-255", &lo, &hi, why), ERR_SYNTAX);
  ck_assert_int_eq(scalar_range("0..", &lo, &hi, why), ERR_SYNTAX);
}
END_TEST

START_TEST(distances_are_levenshtein) {
  ck_assert_uint_eq(edit_distance("", "abc"), 3);
  ck_assert_uint_eq(edit_distance("kitten", "sitting"), 3);
  ck_assert_uint_eq(edit_distance("same", "same"), 0);
  ck_assert(is_near("min_peer", "min_peers"));
  ck_assert(!is_near("banana", "min_peers"));
}
END_TEST

START_TEST(quantities_have_a_unit) {
  static const struct scalar_unit units[] = {{"ms", 1e-3}, {"s", 1}, {"min", 60}, {NULL, 0}};
  char why[MAX_REASON_BYTES];
  double x = 0;
  ck_assert(scalar_quantity("250ms", units, 0.001, 3600, &x, why) == ERR_OK && x == 0.25);
  ck_assert(scalar_quantity("2s", units, 0.001, 3600, &x, why) == ERR_OK && x == 2);
  ck_assert(scalar_quantity("1.5min", units, 0.001, 3600, &x, why) == ERR_OK && x == 90);
  ck_assert(scalar_quantity("2h", units, 0.001, 3600, &x, why) == ERR_SYNTAX);
  ck_assert_str_eq(why, "\"2h\" has no unit that is known here; write a number and one of ms, s, min");
  ck_assert(scalar_quantity("2", units, 0.001, 3600, &x, why) == ERR_SYNTAX);
  ck_assert(scalar_quantity("s", units, 0.001, 3600, &x, why) == ERR_SYNTAX);
  ck_assert(scalar_quantity("2 s", units, 0.001, 3600, &x, why) == ERR_SYNTAX);
  ck_assert(scalar_quantity("61min", units, 0.001, 3600, &x, why) == ERR_RANGE);
  ck_assert_ptr_nonnull(strstr(why, "write 1.66666666667e-05min to 60min"));
  ck_assert(scalar_quantity("1e999s", units, 0.001, 3600, &x, why) == ERR_RANGE);
  ck_assert(x == 90);
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("agent/scalar");
  tcase_add_loop_test(tcase, a_bad_integer_is_refused, 0, sizeof bad_integers / sizeof *bad_integers);
  tcase_add_loop_test(tcase, a_bad_number_is_refused, 0, sizeof bad_numbers / sizeof *bad_numbers);
  tcase_add_loop_test(tcase, addresses_are_judged, 0, sizeof addresses / sizeof *addresses);
  tcase_add_test(tcase, integers_are_read_to_the_bounds);
  tcase_add_test(tcase, words_are_known_or_listed);
  tcase_add_test(tcase, labels_can_name_files);
  tcase_add_test(tcase, shapes_and_ranges_are_read);
  tcase_add_test(tcase, quantities_have_a_unit);
  tcase_add_test(tcase, distances_are_levenshtein);
  return suite_run_case("agent/scalar", tcase);
}
