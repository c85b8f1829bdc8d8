/* Arrays that grow by doubling up to a bound, so that what could hold much takes little as long as it holds little. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stddef.h>

/* The array of n things of `size` bytes with room for one more: itself, or a longer one in its place (NULL: none yet).
 * NULL: it holds `max` already, or there is no memory; then nothing has changed. */
void *array_grown(void *array, size_t *capacity, size_t n, size_t size, size_t max);

#endif
