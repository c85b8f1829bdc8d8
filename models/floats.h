/* Arrays of floats and doubles: making, judging and ordering them. */
#ifndef MODELS_FLOATS_H
#define MODELS_FLOATS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rng.h"

/* n zeros on a cache line's boundary, for free(); NULL: no memory, or n above what memory can hold. */
float *floats_new(size_t n);

/* Uniform in ±bound. */
void floats_draw(float *out_x, size_t n, double bound, struct rng *rng);

/* No NaN and no infinity. */
bool floats_finite(const float *x, size_t n);

/* out ← a + b, and whether all of it is finite; out overlaps nothing else, or is one of them. */
bool floats_add(const float *a, const float *b, size_t n, float *out);

/* x ← factor·x; with factor 0 all is 0, whatever it was, NaN too. */
void floats_scale(float *x, size_t n, float factor);

/* Σ x² in double, as floats_distance adds. */
double floats_square_sum(const float *x, size_t n);

/* sqrt(Σ (a − b)²) in double: eight sums, of the indices equal modulo 8, then those in order. */
double floats_distance(const float *a, const float *b, size_t n);

/* Ascending, in place; none is NaN. */
void doubles_sort(double *x, size_t n);

/* The mean of the two middle ones where n is even, 0 where there are none; sorts x on the way. */
double doubles_median(double *x, size_t n);

#endif
