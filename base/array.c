#include "base/array.h"

#include <stdlib.h>

#include "base/checked.h"

void *array_grown(void *array, size_t *capacity, size_t n, size_t size, size_t max) {
  if (n < *capacity)
    return array;
  if (n >= max)
    return NULL;
  size_t wider = *capacity > 0 ? 2 * *capacity : 1;
  wider = wider < max ? wider : max;
  size_t n_bytes;
  void *grown = size_mul(wider, size, &n_bytes) ? realloc(array, n_bytes) : NULL;
  if (grown)
    *capacity = wider;
  return grown;
}
