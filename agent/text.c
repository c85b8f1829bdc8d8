#include "agent/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A well-formed character that is no control, or 0. */
static size_t utf8_bytes(const uint8_t *u) {
  static const struct {
    uint8_t first_lo, first_hi, second_lo, second_hi;
    uint8_t n;
  } table[] = {
      {0x20, 0x7e, 0, 0, 1},       {0xc2, 0xc2, 0xa0, 0xbf, 2}, /* without the controls U+0080 … U+009F */
      {0xc3, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
      {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
      {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (u[0] < table[i].first_lo || u[0] > table[i].first_hi)
      continue;
    if (table[i].n >= 2 && (u[1] < table[i].second_lo || u[1] > table[i].second_hi))
      return 0;
    for (size_t k = 2; k < table[i].n; k++)
      if (u[k] < 0x80 || u[k] > 0xbf)
        return 0;
    return table[i].n;
  }
  return 0;
}

static bool is_steering(const uint8_t *u) {
  return u[0] == 0xe2 &&
         ((u[1] == 0x80 && u[2] >= 0xa8 && u[2] <= 0xae) || (u[1] == 0x81 && u[2] >= 0xa6 && u[2] <= 0xa9));
}

size_t text_character_bytes(const char *at) {
  const uint8_t *u = (const uint8_t *)at;
  size_t n = utf8_bytes(u);
  return n == 3 && is_steering(u) ? 0 : n;
}

bool text_is_clean(const char *text) {
  while (*text != '\0') {
    size_t n = text_character_bytes(text);
    if (n == 0)
      return false;
    text += n;
  }
  return true;
}

void text_escape(const char *text, char *out_text, size_t capacity) {
  enum { ESCAPE_BYTES = 4 };
  size_t at = 0;
  while (*text != '\0') {
    size_t n = text_character_bytes(text), needed = n > 0 ? n : ESCAPE_BYTES;
    if (at + needed >= capacity)
      break;
    if (n > 0)
      memcpy(out_text + at, text, n);
    else
      snprintf(out_text + at, ESCAPE_BYTES + 1, "\\x%02x", (unsigned char)*text);
    at += needed;
    text += n > 0 ? n : 1;
  }
  out_text[at] = '\0';
}

char *text_copy(const char *bytes, size_t n) {
  char *copy = malloc(n + 1);
  if (!copy)
    return NULL;
  memcpy(copy, bytes, n);
  copy[n] = '\0';
  return copy;
}
