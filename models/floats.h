/* Arrays of floats: making them and judging them. */
#ifndef MODELS_FLOATS_H
#define MODELS_FLOATS_H

#include <stdbool.h>
#include <stddef.h>

/* n zeros on a cache line's boundary, for free(); NULL: no memory, or n above what memory can hold. */
float *floats_new(size_t n);

/* No NaN and no infinity. */
bool floats_finite(const float *x, size_t n);

/* sqrt(Σ (a − b)²) in double: eight sums, of the indices equal modulo 8, then those in order. */
double floats_distance(const float *a, const float *b, size_t n);

#endif
