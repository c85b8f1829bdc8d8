#include "models/tuning/cost.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/rng.h"

/* Curvature and what is particular to a variant are believed in later than the rest. */
static const double ridge_mean = 1e-4, ridge_slope = 0.01, ridge_curve = 0.2, ridge_variant = 0.1;

/* σ: how far a measurement is from what the terms can say. */
static const double noise = 0.1;

/* Logarithms of sizes span about ten; products of scaled ones stay near 1. */
static const double value_scale = 0.25;

enum { N_SQUARES = COST_VALUES * (COST_VALUES + 1) / 2, N_COMMON = 1 + COST_VALUES + N_SQUARES };

struct cost_model {
  uint32_t n_variants;
  size_t n_terms;
  double weights[]; /* [COST_MEMBERS][n_terms] */
};

size_t cost_terms(uint32_t n_variants) {
  return N_COMMON + (size_t)n_variants * (1 + COST_VALUES);
}

enum err cost_new(uint32_t n_variants, struct cost_model **out_model) {
  MUST(n_variants >= 1 && n_variants <= MAX_COST_VARIANTS);
  size_t n_terms = cost_terms(n_variants);
  struct cost_model *m = calloc(1, sizeof *m + COST_MEMBERS * n_terms * sizeof *m->weights);
  if (!m)
    return ERR_NO_MEMORY;
  m->n_variants = n_variants;
  m->n_terms = n_terms;
  *out_model = m;
  return ERR_OK;
}

void cost_free(struct cost_model *m) {
  free(m);
}

/* ---- terms */

/* The terms of a point that are not 0: which, and their values. */
struct terms {
  size_t at[N_COMMON + 1 + COST_VALUES];
  double value[N_COMMON + 1 + COST_VALUES];
  size_t n;
};

static void put(struct terms *t, size_t at, double value) {
  t->at[t->n] = at;
  t->value[t->n++] = value;
}

static struct terms terms_of(const struct cost_model *m, const struct cost_point *p) {
  struct terms t = {.n = 0};
  double x[COST_VALUES];
  size_t at = 1 + COST_VALUES, own = N_COMMON + (size_t)p->variant * (1 + COST_VALUES);
  MUST(p->variant < m->n_variants);
  put(&t, 0, 1);
  for (size_t i = 0; i < COST_VALUES; i++)
    put(&t, 1 + i, x[i] = value_scale * p->values[i]);
  for (size_t i = 0; i < COST_VALUES; i++)
    for (size_t j = i; j < COST_VALUES; j++)
      put(&t, at++, x[i] * x[j]);
  put(&t, own, 1);
  for (size_t i = 0; i < COST_VALUES; i++)
    put(&t, own + 1 + i, x[i]);
  return t;
}

static double ridge_of(size_t term) {
  return term == 0 ? ridge_mean : term <= COST_VALUES ? ridge_slope : term < N_COMMON ? ridge_curve : ridge_variant;
}

/* f of one member. */
static double value_of(const double *w, const struct terms *t) {
  double sum = 0;
  for (size_t i = 0; i < t->n; i++)
    sum += w[t->at[i]] * t->value[i];
  return sum;
}

static const double *member(const struct cost_model *m, size_t b) {
  return m->weights + b * m->n_terms;
}

double cost_predict(const struct cost_model *m, const struct cost_point *at, double *out_spread) {
  struct terms t = terms_of(m, at);
  double of[COST_MEMBERS], mean = 0, square = 0;
  for (size_t b = 1; b < COST_MEMBERS; b++)
    mean += (of[b] = value_of(member(m, b), &t)) / (COST_MEMBERS - 1);
  for (size_t b = 1; b < COST_MEMBERS; b++)
    square += (of[b] - mean) * (of[b] - mean) / (COST_MEMBERS - 1);
  if (out_spread)
    *out_spread = sqrt(square);
  return at->log_work + value_of(member(m, 0), &t);
}

/* ---- the normal equations A·w = r, A [n][n] of which only the lower half is used */

struct equations {
  size_t n;
  double *a, *r;
};

static void add(struct equations *e, const struct terms *t, double weight, double y) {
  for (size_t i = 0; i < t->n; i++) {
    double scaled = weight * t->value[i];
    e->r[t->at[i]] += scaled * y;
    for (size_t j = 0; j <= i; j++) /* at[] ascends */
      e->a[t->at[i] * e->n + t->at[j]] += scaled * t->value[j];
  }
}

/* a·b: four sums, since one would wait for each addition. */
static double dot(const double *a, const double *b, size_t n) {
  double sums[4] = {0}, rest = 0;
  size_t whole = n - n % 4;
  for (size_t k = 0; k < whole; k += 4)
    for (size_t i = 0; i < 4; i++)
      sums[i] += a[k + i] * b[k + i];
  for (size_t k = whole; k < n; k++)
    rest += a[k] * b[k];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest;
}

/* A = LLᵀ in place, then L·z = r and Lᵀ·w = z; the solution is left in r. */
static bool solve(struct equations *e) {
  size_t n = e->n;
  for (size_t i = 0; i < n; i++) {
    double *row = e->a + i * n;
    for (size_t j = 0; j <= i; j++) {
      const double *other = e->a + j * n;
      double sum = row[j] - dot(row, other, j);
      if (j < i)
        row[j] = sum / other[j];
      else if (sum > 0)
        row[i] = sqrt(sum);
      else
        return false;
    }
    for (size_t k = 0; k < i; k++)
      e->r[i] -= row[k] * e->r[k];
    e->r[i] /= row[i];
  }
  for (size_t i = n; i-- > 0;) {
    e->r[i] /= e->a[i * n + i];
    for (size_t k = 0; k < i; k++)
      e->r[k] -= e->a[i * n + k] * e->r[i];
  }
  return true;
}

/* How often sample i stands in the bootstrap of member b: Poisson of mean 1, cut at 4 (Oza & Russell 2001). The first
 * member has every sample once. */
static double bootstrap(uint64_t seed, size_t b, size_t i) {
  static const double below[] = {0.36788, 0.73576, 0.91970, 0.98101};
  double u = (double)(rng_mix(rng_mix(seed + b) + i) >> 11) * 0x1p-53;
  size_t count = 0;
  while (count < sizeof below / sizeof *below && u >= below[count])
    count++;
  return b == 0 ? 1 : (double)count;
}

/* What a member believes of a term that nothing was measured of (Osband et al. 2018): about normal with variance σ²/ridge,
 * a sum of four uniform numbers; the first member believes nothing. */
static double prior(uint64_t seed, size_t b, size_t term) {
  uint64_t h = rng_mix(rng_mix(seed ^ b) + term + 1);
  double sum = -2;
  for (size_t i = 0; i < 4; i++)
    sum += (double)(h >> 16 * i & 0xffff) / 0x1p16;
  return b == 0 ? 0 : noise * sqrt(3) * sum / sqrt(ridge_of(term));
}

static void set_up(struct equations *e, const struct cost_model *m, const struct cost_lesson *lesson, size_t b) {
  memset(e->a, 0, e->n * e->n * sizeof *e->a);
  for (size_t i = 0; i < e->n; i++) {
    e->a[i * e->n + i] = ridge_of(i);
    e->r[i] = ridge_of(i) * prior(lesson->seed, b, i);
  }
  double keep = lesson->old ? lesson->keep : 0;
  for (size_t i = 0; i < lesson->n_samples; i++) {
    const struct cost_sample *s = &lesson->samples[i];
    struct terms t = terms_of(m, &s->at);
    add(e, &t, (1 - keep) * bootstrap(lesson->seed, b, i), s->log_seconds - s->at.log_work);
  }
  for (size_t i = 0; keep > 0 && i < lesson->n_pool; i++) {
    struct terms t = terms_of(m, &lesson->pool[i]);
    add(e, &t, keep, value_of(member(lesson->old, b), &t));
  }
}

static bool is_finite(const double *x, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!isfinite(x[i]))
      return false;
  return true;
}

enum err cost_fit(struct cost_model *m, const struct cost_lesson *lesson) {
  size_t n = m->n_terms;
  MUST(!lesson->old || lesson->old->n_variants == m->n_variants);
  MUST(lesson->keep >= 0 && lesson->keep <= 1);
  double *fitted = calloc(COST_MEMBERS * n, sizeof *fitted);
  struct equations e = {.n = n, .a = calloc(n * n, sizeof(double)), .r = calloc(n, sizeof(double))};
  enum err result = fitted && e.a && e.r ? ERR_OK : ERR_NO_MEMORY;
  for (size_t b = 0; b < COST_MEMBERS && !result; b++) {
    set_up(&e, m, lesson, b);
    if (solve(&e) && is_finite(e.r, n))
      memcpy(fitted + b * n, e.r, n * sizeof *e.r);
    else
      result = ERR_NON_FINITE;
  }
  if (!result)
    memcpy(m->weights, fitted, COST_MEMBERS * n * sizeof *fitted);
  free(fitted);
  free(e.a);
  free(e.r);
  return result;
}

const double *cost_weights(const struct cost_model *m) {
  return m->weights;
}

enum err cost_take(struct cost_model *m, const double *weights) {
  size_t n = COST_MEMBERS * m->n_terms;
  if (!is_finite(weights, n))
    return ERR_NON_FINITE;
  memcpy(m->weights, weights, n * sizeof *weights);
  return ERR_OK;
}
