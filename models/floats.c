#include "models/floats.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { LINE_BYTES = 64 };

float *floats_new(size_t n) {
  size_t n_bytes;
  if (!size_mul(n, sizeof(float), &n_bytes) || !size_add(n_bytes, LINE_BYTES, &n_bytes))
    return NULL;
  n_bytes -= n_bytes % LINE_BYTES;
  float *x = aligned_alloc(LINE_BYTES, n_bytes);
  if (x)
    memset(x, 0, n_bytes);
  return x;
}

bool floats_finite(const float *x, size_t n) {
  bool finite = true;
  for (size_t i = 0; i < n; i++)
    finite &= isfinite(x[i]) != 0;
  return finite;
}

double floats_distance(const float *a, const float *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    double d = (double)a[i] - (double)b[i];
    sum += d * d;
  }
  return sqrt(sum);
}
