#include "agent/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static bool is_steering(const uint8_t *u) {
  return u[0] == 0xe2 &&
         ((u[1] == 0x80 && u[2] >= 0xa8 && u[2] <= 0xae) || (u[1] == 0x81 && u[2] >= 0xa6 && u[2] <= 0xa9));
}

size_t text_character_bytes(const char *at) {
  const uint8_t *u = (const uint8_t *)at;
  size_t n = utf8_character_bytes(at);
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
