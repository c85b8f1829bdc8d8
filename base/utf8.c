#include "base/utf8.h"

#include <stdint.h>

size_t utf8_character_bytes(const char *at) {
  const uint8_t *u = (const uint8_t *)at;
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
