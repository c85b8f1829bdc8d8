#include "crypto/key_text.h"
#include "crypto/random.h"
#include "tests/unit/suite.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

static struct identity_key key_of(uint8_t fill) {
  uint8_t seed[IDENTITY_SEED_BYTES];
  struct identity *id = NULL;
  memset(seed, fill, sizeof seed);
  ck_assert_int_eq(identity_from_seed(seed, &id), ERR_OK);
  struct identity_key key = *identity_public(id);
  identity_free(id);
  return key;
}

static void assert_reads(const char *text, const struct identity_key *expected) {
  struct identity_key key;
  ck_assert_msg(key_text_read(text, &key) == ERR_OK, "%s", text);
  ck_assert(identity_key_equal(&key, expected));
}

static void assert_refused(const char *text, enum err expected) {
  struct identity_key key = {{0xa5}}, untouched = key;
  enum err e = key_text_read(text, &key);
  ck_assert_msg(e == expected, "%s: %s", text, err_name(e));
  ck_assert(identity_key_equal(&key, &untouched));
}

START_TEST(written_and_read_back) {
  for (unsigned fill = 0; fill < 256; fill++) {
    struct identity_key key = key_of((uint8_t)fill);
    char text[KEY_TEXT_BYTES];
    key_text_write(&key, text);
    ck_assert_uint_eq(strlen(text), KEY_TEXT_BYTES - 1);
    for (size_t i = 0; text[i]; i++)
      ck_assert(i % 5 == 4 ? text[i] == '-' : strchr(alphabet, text[i]) != NULL);
    assert_reads(text, &key);
  }
}
END_TEST

START_TEST(the_short_form_is_the_beginning) {
  struct identity_key key = key_of(1);
  char text[KEY_TEXT_BYTES], brief[KEY_SHORT_BYTES];
  key_text_write(&key, text);
  key_text_short(&key, brief);
  ck_assert_uint_eq(strlen(brief), 9);
  ck_assert_int_eq(strncmp(text, brief, 9), 0);
}
END_TEST

START_TEST(case_dashes_spaces_and_lookalikes_do_not_matter) {
  struct identity_key key = key_of(1);
  char text[KEY_TEXT_BYTES], variant[2 * KEY_TEXT_BYTES];
  key_text_write(&key, text);

  size_t n = 0;
  for (size_t i = 0; text[i]; i++)
    if (text[i] != '-')
      variant[n++] = (char)tolower((unsigned char)text[i]);
  variant[n] = '\0';
  assert_reads(variant, &key);

  snprintf(variant, sizeof variant, "  %s -", text);
  assert_reads(variant, &key);

  for (unsigned fill = 0, seen = 0; seen < 3; fill++) {
    key = key_of((uint8_t)fill);
    key_text_write(&key, text);
    char *one = strchr(text, '1'), *zero = strchr(text, '0');
    if (!one || !zero)
      continue;
    *one = "lIi"[seen++];
    *zero = 'o';
    assert_reads(text, &key);
  }
}
END_TEST

START_TEST(base64_is_read_too) {
  struct identity_key key;
  static const char text[] = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="; /* RFC 8032, test 1 */
  ck_assert_int_eq(key_text_read(text, &key), ERR_OK);
  ck_assert_uint_eq(key.bytes[0], 0xd7);
  ck_assert_uint_eq(key.bytes[31], 0x1a);
  assert_refused("11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHUR==", ERR_SYNTAX);
  assert_refused("11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcH*Ro=", ERR_SYNTAX);
}
END_TEST

START_TEST(wrong_lengths_and_characters_are_syntax) {
  struct identity_key key = key_of(1);
  char text[KEY_TEXT_BYTES], variant[2 * KEY_TEXT_BYTES];
  key_text_write(&key, text);
  for (size_t n = 0; n < KEY_TEXT_BYTES - 1; n++) {
    snprintf(variant, sizeof variant, "%.*s", (int)n, text);
    assert_refused(variant, ERR_SYNTAX);
  }
  snprintf(variant, sizeof variant, "%s0", text);
  assert_refused(variant, ERR_SYNTAX);
  for (int c = 1; c < 256; c++) {
    if (isalnum(c) && toupper(c) != 'U')
      continue;
    if (c == '-' || c == ' ')
      continue;
    memcpy(variant, text, sizeof text);
    variant[0] = (char)c;
    assert_refused(variant, ERR_SYNTAX);
  }
}
END_TEST

START_TEST(every_substitution_is_noticed) {
  struct identity_key key = key_of(1);
  char text[KEY_TEXT_BYTES];
  key_text_write(&key, text);
  for (size_t i = 0; text[i]; i++) {
    char was = text[i];
    for (size_t a = 0; was != '-' && alphabet[a]; a++) {
      text[i] = alphabet[a];
      if (alphabet[a] != was)
        assert_refused(text, ERR_CORRUPT);
    }
    text[i] = was;
  }
}
END_TEST

/* Of all pairs of different neighbours only 0 and Z may change places unnoticed. */
START_TEST(transpositions_are_noticed) {
  unsigned n_tried = 0, n_missed = 0;
  for (unsigned fill = 0; fill < 200; fill++) {
    struct identity_key key = key_of((uint8_t)fill), other;
    char text[KEY_TEXT_BYTES];
    key_text_write(&key, text);
    for (size_t i = 0; text[i + 1]; i++) {
      size_t j = text[i + 1] == '-' ? i + 2 : i + 1;
      if (text[i] == '-' || text[i] == text[j])
        continue;
      char a = text[i], b = text[j];
      text[i] = b;
      text[j] = a;
      bool noticed = key_text_read(text, &other) == ERR_CORRUPT;
      bool is_known_gap = (a == '0' && b == 'Z') || (a == 'Z' && b == '0');
      ck_assert_msg(noticed || is_known_gap, "%c and %c", a, b);
      n_tried++;
      n_missed += !noticed;
      text[i] = a;
      text[j] = b;
    }
  }
  printf("transpositions: %u of %u not noticed\n", n_missed, n_tried);
  ck_assert_uint_gt(n_tried, 9000);
}
END_TEST

START_TEST(unusable_keys_are_refused) {
  struct identity_key neutral = {{1}};
  char text[KEY_TEXT_BYTES];
  key_text_write(&neutral, text);
  assert_refused(text, ERR_RANGE);
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  return SUITE_RUN("crypto/key_text", written_and_read_back, the_short_form_is_the_beginning,
                   case_dashes_spaces_and_lookalikes_do_not_matter, base64_is_read_too,
                   wrong_lengths_and_characters_are_syntax, every_substitution_is_noticed, transpositions_are_noticed,
                   unusable_keys_are_refused);
}
