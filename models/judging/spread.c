#include "models/judging/spread.h"

#include <math.h>
#include <stdlib.h>

struct spread spread_of(const double *values, size_t n) {
  double sum = 0, squares = 0;
  for (size_t i = 0; i < n; i++)
    sum += values[i];
  double mean = n > 0 ? sum / (double)n : (double)NAN;
  for (size_t i = 0; i < n; i++)
    squares += (values[i] - mean) * (values[i] - mean);
  return (struct spread){mean, n > 1 ? sqrt(squares / (double)(n - 1)) : (double)NAN};
}

double weighted_mean(const double *values, const double *weights, size_t n) {
  double sum = 0, weight = 0;
  for (size_t i = 0; i < n; i++) {
    sum += weights[i] * values[i];
    weight += weights[i];
  }
  return weight > 0 ? sum / weight : (double)NAN;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double worst_decile(double *values, size_t n) {
  size_t n_worst = (n + 9) / 10;
  qsort(values, n, sizeof *values, by_value);
  return spread_of(values, n_worst).mean;
}
