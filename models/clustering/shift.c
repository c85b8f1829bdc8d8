#include "models/clustering/shift.h"

static uint64_t sum(const uint32_t *counts, size_t n) {
  uint64_t all = 0;
  for (size_t i = 0; i < n; i++)
    all += counts[i];
  return all;
}

/* Of at most 2^27 samples the products are exact. */
double shift_share(const uint32_t *remembered, const uint32_t *present, size_t n_classes) {
  uint64_t before = sum(remembered, n_classes), now = sum(present, n_classes), moved = 0;
  if (before == 0 || now == 0)
    return before == now ? 0 : 1;
  for (size_t i = 0; i < n_classes; i++) {
    uint64_t was = remembered[i] * now, is = present[i] * before;
    moved += was > is ? was - is : 0;
  }
  return (double)moved / ((double)before * (double)now);
}
