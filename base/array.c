#include "base/array.h"

#include <stdlib.h>

void *array_grown(void *array, size_t *capacity, size_t n, size_t size, size_t max) {
  if (n < *capacity)
    return array;
  if (n >= max)
    return NULL;
  size_t wider = *capacity > 0 ? 2 * *capacity : 1;
  wider = wider < max ? wider : max;
  void *grown = reallocarray(array, wider, size);
  if (grown)
    *capacity = wider;
  return grown;
}
