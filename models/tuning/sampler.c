#include "models/tuning/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/must.h"
#include "base/rng.h"

/* Squared: kernels differ by multiples, more than any size or split does, so each is to be seen once for each operation. */
static const double variants_apart = 15;

struct sampler_point {
  double z[COST_VALUES]; /* standardised */
  double representative;
  double nearest; /* to what is measured; INFINITY: nothing is */
  bool taken;
};

struct sampler {
  const struct cost_point *points;
  struct sampler_weights weights;
  uint64_t seed;
  size_t n;
  struct sampler_point of[];
};

static void standardise(struct sampler *s, size_t value) {
  double mean = 0, square = 0;
  for (size_t i = 0; i < s->n; i++)
    mean += s->points[i].values[value] / (double)s->n;
  for (size_t i = 0; i < s->n; i++) {
    double d = s->of[i].z[value] = s->points[i].values[value] - mean;
    square += d * d / (double)s->n;
  }
  for (size_t i = 0; i < s->n && square > 0; i++)
    s->of[i].z[value] /= sqrt(square);
}

static double distance_squared(const struct sampler *s, size_t i, size_t j) {
  double sum = s->points[i].variant == s->points[j].variant ? 0 : variants_apart;
  for (size_t k = 0; k < COST_VALUES; k++) {
    double d = s->of[i].z[k] - s->of[j].z[k];
    sum += d * d;
  }
  return sum;
}

static void weigh(struct sampler *s) {
  double mean = 0, n = (double)s->n;
  for (size_t i = 0; i < s->n; i++)
    for (size_t j = 0; j < s->n; j++)
      mean += distance_squared(s, i, j) / (n * n);
  for (size_t i = 0; i < s->n && mean > 0; i++)
    for (size_t j = 0; j < s->n; j++)
      s->of[i].representative += exp(-distance_squared(s, i, j) / mean) / n; /* 2h² = mean */
}

enum err sampler_new(const struct cost_point *points, size_t n, struct sampler_weights weights, uint64_t seed,
                     struct sampler **out_sampler) {
  MUST(n >= 1);
  struct sampler *s = calloc(1, sizeof *s + n * sizeof *s->of);
  if (!s)
    return ERR_NO_MEMORY;
  s->points = points;
  s->weights = weights;
  s->seed = seed;
  s->n = n;
  for (size_t i = 0; i < COST_VALUES; i++)
    standardise(s, i);
  weigh(s);
  for (size_t i = 0; i < n; i++)
    s->of[i].nearest = INFINITY;
  *out_sampler = s;
  return ERR_OK;
}

void sampler_free(struct sampler *s) {
  free(s);
}

void sampler_take(struct sampler *s, size_t taken) {
  MUST(taken < s->n);
  s->of[taken].taken = true;
  for (size_t i = 0; i < s->n; i++)
    s->of[i].nearest = fmin(s->of[i].nearest, sqrt(distance_squared(s, i, taken)));
}

/* The largest of each kind over the points that are left, at least so much that it can be divided by. */
struct largest {
  double representative, nearest, spread;
};

static struct largest largest_of(const struct sampler *s, const double *spread) {
  struct largest l = {1e-300, 1e-300, 1e-300};
  for (size_t i = 0; i < s->n; i++) {
    if (s->of[i].taken)
      continue;
    l.representative = fmax(l.representative, s->of[i].representative);
    l.nearest = isfinite(s->of[i].nearest) ? fmax(l.nearest, s->of[i].nearest) : l.nearest;
    l.spread = spread ? fmax(l.spread, spread[i]) : l.spread;
  }
  return l;
}

static double score_of(const struct sampler *s, size_t i, const struct largest *l, const double *spread) {
  const struct sampler_point *p = &s->of[i];
  double score = s->weights.representative * p->representative / l->representative;
  if (isfinite(p->nearest))
    score += s->weights.diverse * p->nearest / l->nearest;
  if (spread)
    score += s->weights.uncertain * spread[i] / l->spread;
  return score;
}

size_t sampler_pick(const struct sampler *s, const double *spread) {
  struct largest l = largest_of(s, spread);
  size_t best = s->n;
  double best_score = 0;
  for (size_t i = 0; i < s->n; i++) {
    if (s->of[i].taken)
      continue;
    double score = score_of(s, i, &l, spread);
    bool wins = best == s->n || score > best_score;
    if (!wins && score >= best_score)
      wins = rng_mix(s->seed + i) > rng_mix(s->seed + best);
    if (wins) {
      best = i;
      best_score = score;
    }
  }
  return best;
}
