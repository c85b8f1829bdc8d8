#include "agent/core/deadline.h"

#include <stdlib.h>

#include "base/array.h"

void deadline_init(struct deadline *d, uint64_t min_ms, uint64_t max_ms) {
  *d = (struct deadline){.min_ms = min_ms, .max_ms = max_ms};
}

void deadline_done(struct deadline *d) {
  free(d->arrivals_ms);
  *d = (struct deadline){0};
}

static uint32_t arrival_of(uint64_t ms) {
  return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

uint64_t deadline_sample(struct deadline *d, uint64_t arrival_ms) {
  size_t at = d->n_arrivals % DEADLINE_SAMPLES;
  uint32_t *arrivals_ms = array_grown(d->arrivals_ms, &d->capacity, at, sizeof *arrivals_ms, DEADLINE_SAMPLES);
  if (!arrivals_ms)
    return UINT64_MAX;
  d->arrivals_ms = arrivals_ms;
  d->arrivals_ms[at] = arrival_of(arrival_ms);
  return d->n_arrivals++;
}

void deadline_correct(struct deadline *d, uint64_t number, uint64_t arrival_ms) {
  if (number < d->n_arrivals && d->n_arrivals - number <= DEADLINE_SAMPLES)
    d->arrivals_ms[number % DEADLINE_SAMPLES] = arrival_of(arrival_ms);
}

static uint64_t clamp(uint64_t v, uint64_t low, uint64_t high) {
  return v < low ? low : v > high ? high : v;
}

/* Nearest-rank 95th percentile; the ring is small, so it is sorted by insertion. */
static uint64_t percentile_95(const uint32_t *values, size_t n) {
  uint32_t sorted[DEADLINE_SAMPLES] = {0};
  for (size_t i = 0; i < n; i++) {
    size_t at = i;
    for (; at > 0 && sorted[at - 1] > values[i]; at--)
      sorted[at] = sorted[at - 1];
    sorted[at] = values[i];
  }
  return sorted[(n * 95 + 99) / 100 - 1];
}

uint64_t deadline_ms(const struct deadline *d, uint64_t last_training_ms) {
  size_t n = d->n_arrivals < DEADLINE_SAMPLES ? (size_t)d->n_arrivals : DEADLINE_SAMPLES;
  if (n < DEADLINE_ENOUGH)
    return clamp(5000 + 3 * last_training_ms, d->min_ms, d->max_ms);
  return clamp(percentile_95(d->arrivals_ms, n) * 3 / 2, d->min_ms, d->max_ms);
}
