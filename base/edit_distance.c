#include "base/edit_distance.h"

#include <string.h>

#include "base/limits.h"

static size_t least(size_t a, size_t b, size_t c) {
  size_t ab = a < b ? a : b;
  return ab < c ? ab : c;
}

size_t edit_distance(const char *a, const char *b) {
  size_t row[MAX_NAME_BYTES]; /* row[j] = distance of the first i bytes of a and the first j of b */
  size_t n_a = strnlen(a, MAX_NAME_BYTES - 1), n_b = strnlen(b, MAX_NAME_BYTES - 1);
  for (size_t j = 0; j <= n_b; j++)
    row[j] = j;
  for (size_t i = 1; i <= n_a; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= n_b; j++) {
      size_t above = row[j];
      row[j] = least(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
      diagonal = above;
    }
  }
  return row[n_b];
}
