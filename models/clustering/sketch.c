#include "models/clustering/sketch.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

/* Eight bytes of the seed are enough: nobody gains by guessing it. */
static uint64_t seed_word(const struct digest *seed) {
  uint64_t word = 0;
  for (size_t i = 0; i < sizeof word; i++)
    word |= (uint64_t)seed->bytes[i] << (8 * i);
  return word;
}

static void fold(const float *from, const float *to, size_t n, uint64_t seed, uint64_t first, double *sums) {
  for (size_t i = 0; i < n; i++) {
    uint64_t h = rng_mix(seed ^ rng_mix(first + i));
    double change = (double)to[i] - (double)from[i];
    sums[h % SKETCH_CELLS] += h >> 63 ? -change : change;
  }
}

enum err sketch_of(const struct schema *schema, const float *from, const float *to, const struct digest *seed,
                   struct sketch *out_sketch) {
  double sums[SKETCH_CELLS] = {0}, most = 0;
  uint64_t word = seed_word(seed), n_before = 0;
  for (size_t t = 0; t < schema_tensors(schema); t++) {
    const struct tensor *tensor = schema_tensor(schema, t);
    if (tensor->role != ROLE_SHARED)
      continue;
    fold(from + tensor->offset, to + tensor->offset, tensor->n_values, word, n_before, sums);
    n_before += tensor->n_values;
  }
  for (size_t i = 0; i < SKETCH_CELLS; i++) {
    if (!isfinite(sums[i]))
      return ERR_NON_FINITE;
    most = fmax(most, fabs(sums[i]));
  }
  if (most <= 0)
    return ERR_RANGE;
  for (size_t i = 0; i < SKETCH_CELLS; i++)
    out_sketch->cells[i] = (int16_t)nearbyint(sums[i] / most * SKETCH_MOST);
  return ERR_OK;
}

bool sketch_is_canonical(const struct sketch *s) {
  int most = 0;
  for (size_t i = 0; i < SKETCH_CELLS; i++) {
    int magnitude = s->cells[i] < 0 ? -s->cells[i] : s->cells[i];
    most = magnitude > most ? magnitude : most;
  }
  return most == SKETCH_MOST;
}

/* Below 2^38 in magnitude. */
static int64_t product(const struct sketch *a, const struct sketch *b) {
  int64_t sum = 0;
  for (size_t i = 0; i < SKETCH_CELLS; i++) {
    int32_t cell = (int32_t)a->cells[i] * b->cells[i];
    sum += cell;
  }
  return sum;
}

double sketch_cosine(const struct sketch *a, const struct sketch *b) {
  double squares = (double)product(a, a) * (double)product(b, b);
  double cosine = (double)product(a, b) / sqrt(squares);
  return cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
}
