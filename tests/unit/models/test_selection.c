#include "models/kernels/selection.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/suite.h"

static struct selection s; /* too large for a stack */

START_TEST(a_key_says_layer_extent_and_batch) {
  char key[MAX_SELECTION_KEY_BYTES];
  selection_key("conv 5x5x8 pad 1", 28, 27, 3, 32, key);
  ck_assert_str_eq(key, "conv 5x5x8 pad 1 of 28x27x3 batch 32");
}
END_TEST

START_TEST(a_long_key_finds_itself) {
  char text[4096], key[MAX_SELECTION_KEY_BYTES];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  selection_key(text, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, key);
  ck_assert_ptr_nonnull(strstr(key, " of 4294967295x4294967295x4294967295 batch 4294967295"));
  ck_assert_int_eq(selection_put(&s, key, "plain"), ERR_OK);
  ck_assert_str_eq(selection_find(&s, key), "plain");
}
END_TEST

START_TEST(entries_are_found_and_changed) {
  s = (struct selection){0};
  ck_assert_ptr_null(selection_find(NULL, "a"));
  ck_assert_ptr_null(selection_find(&s, "a"));
  ck_assert_int_eq(selection_put(&s, "a", "plain"), ERR_OK);
  ck_assert_int_eq(selection_put(&s, "b", "packed"), ERR_OK);
  ck_assert_int_eq(selection_put(&s, "a", "direct"), ERR_OK);
  ck_assert_uint_eq(s.n, 2);
  ck_assert_str_eq(selection_find(&s, "a"), "direct");
  ck_assert_str_eq(selection_find(&s, "b"), "packed");
}
END_TEST

START_TEST(what_does_not_fit_is_refused) {
  s = (struct selection){0};
  char text[4096];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  ck_assert_int_eq(selection_put(&s, text, "plain"), ERR_LIMIT);
  ck_assert_int_eq(selection_put(&s, "a", text), ERR_LIMIT);
  ck_assert_uint_eq(s.n, 0);
  for (unsigned i = 0; i < MAX_SELECTION; i++) {
    snprintf(text, sizeof text, "%u", i);
    ck_assert_int_eq(selection_put(&s, text, "plain"), ERR_OK);
  }
  ck_assert_int_eq(selection_put(&s, "one more", "plain"), ERR_LIMIT);
  ck_assert_int_eq(selection_put(&s, "0", "direct"), ERR_OK);
  ck_assert_str_eq(selection_find(&s, "0"), "direct");
}
END_TEST

int main(void) {
  return SUITE_RUN("models/selection", a_key_says_layer_extent_and_batch, a_long_key_finds_itself,
                   entries_are_found_and_changed, what_does_not_fit_is_refused);
}
