#include "crypto/key_text.h"

#include <sodium.h>
#include <string.h>

#include "base/must.h"

enum {
  BASE = 32,
  N_DIGITS = 52,                         /* ⌈256 / 5⌉ */
  RUN = 13,                              /* digits before each check digit */
  N_SYMBOLS = N_DIGITS + N_DIGITS / RUN, /* 56 */
  GROUP = 4,
  PAD_BITS = N_DIGITS * 5 - 256,
  BASE64_CHARS = 44,
};

static const char alphabet[BASE + 1] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/* The digit that makes the Luhn sum of the run, it included, divisible by BASE; every other digit counts double. */
static uint8_t luhn_check(const uint8_t *digits) {
  unsigned sum = 0;
  for (unsigned i = 0; i < RUN; i++) {
    unsigned addend = digits[i] * (i % 2 == 0 ? 2u : 1u);
    sum += addend / BASE + addend % BASE;
  }
  return (uint8_t)((BASE - sum % BASE) % BASE);
}

/* 256 bits as digits of five, most significant first, a check digit after each run. */
static void symbols_from_key(const struct identity_key *key, uint8_t out_symbols[N_SYMBOLS]) {
  uint8_t *at = out_symbols;
  for (unsigned digit = 0; digit < N_DIGITS; digit++) {
    unsigned bit = digit * 5;
    unsigned high = key->bytes[bit / 8];
    unsigned low = bit / 8 + 1 < sizeof key->bytes ? key->bytes[bit / 8 + 1] : 0;
    *at++ = (uint8_t)(((high << 8 | low) >> (11 - bit % 8)) % BASE);
    if ((digit + 1) % RUN == 0) {
      *at = luhn_check(at - RUN);
      at++;
    }
  }
}

/* ERR_CORRUPT: a check digit differs, or a padding bit is set. */
static enum err key_from_symbols(const uint8_t symbols[N_SYMBOLS], struct identity_key *out_key) {
  struct identity_key key;
  uint32_t bits = 0;
  unsigned n_bits = 0, n_bytes = 0;
  for (unsigned run = 0; run < N_SYMBOLS; run += RUN + 1) {
    if (luhn_check(symbols + run) != symbols[run + RUN])
      return ERR_CORRUPT;
    for (unsigned i = run; i < run + RUN; i++) {
      bits = bits << 5 | symbols[i];
      n_bits += 5;
      if (n_bits >= 8) {
        n_bits -= 8;
        key.bytes[n_bytes++] = (uint8_t)(bits >> n_bits);
      }
    }
  }
  MUST(n_bytes == sizeof key.bytes && n_bits == PAD_BITS);
  if (bits & ((1u << PAD_BITS) - 1))
    return ERR_CORRUPT;
  *out_key = key;
  return ERR_OK;
}

/* The value of a digit as people write it, −1 for none. */
static int digit_value(char c) {
  if (c >= 'a' && c <= 'z')
    c = (char)(c - 'a' + 'A');
  if (c == 'O')
    c = '0';
  if (c == 'I' || c == 'L')
    c = '1';
  const char *found = c == '\0' ? NULL : strchr(alphabet, c);
  return found ? (int)(found - alphabet) : -1;
}

static enum err read_base32(const char *text, struct identity_key *out_key) {
  uint8_t symbols[N_SYMBOLS];
  unsigned n = 0;
  for (; *text; text++) {
    if (*text == '-' || *text == ' ')
      continue;
    int value = digit_value(*text);
    if (value < 0 || n == N_SYMBOLS)
      return ERR_SYNTAX;
    symbols[n++] = (uint8_t)value;
  }
  return n == N_SYMBOLS ? key_from_symbols(symbols, out_key) : ERR_SYNTAX;
}

static enum err read_base64(const char *text, struct identity_key *out_key) {
  struct identity_key key;
  size_t n = 0;
  if (sodium_base642bin(key.bytes, sizeof key.bytes, text, BASE64_CHARS, NULL, &n, NULL,
                        sodium_base64_VARIANT_ORIGINAL) != 0 ||
      n != sizeof key.bytes)
    return ERR_SYNTAX;
  *out_key = key;
  return ERR_OK;
}

/* The first n_groups groups, with dashes and a NUL: n_groups · (GROUP + 1) bytes. */
static void groups_write(const struct identity_key *key, unsigned n_groups, char *out_text) {
  uint8_t symbols[N_SYMBOLS];
  symbols_from_key(key, symbols);
  for (unsigned i = 0; i < n_groups * GROUP; i++) {
    *out_text++ = alphabet[symbols[i]];
    if (i % GROUP == GROUP - 1)
      *out_text++ = '-';
  }
  out_text[-1] = '\0';
}

void key_text_write(const struct identity_key *key, char out_text[KEY_TEXT_BYTES]) {
  groups_write(key, KEY_TEXT_BYTES / (GROUP + 1), out_text);
}

void key_text_short(const struct identity_key *key, char out_text[KEY_SHORT_BYTES]) {
  groups_write(key, KEY_SHORT_BYTES / (GROUP + 1), out_text);
}

enum err key_text_read(const char *text, struct identity_key *out_key) {
  struct identity_key key;
  size_t n = strnlen(text, BASE64_CHARS + 1);
  bool is_base64 = n == BASE64_CHARS && text[n - 1] == '=';
  enum err e = is_base64 ? read_base64(text, &key) : read_base32(text, &key);
  if (e == ERR_OK)
    e = identity_key_check(&key);
  if (e == ERR_OK)
    *out_key = key;
  return e;
}
