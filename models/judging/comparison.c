#include "models/judging/comparison.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/rng.h"
#include "models/floats.h"

enum {
  EXACT_BELOW = 25,         /* pairs that differ */
  RESAMPLES = 2000,         /* at most … */
  MIN_RESAMPLES = 200,      /* … and at least */
  MAX_DRAWS = 400 * 1000000 /* resamples · samples, about */
};

static const double z_975 = 1.959963984540054, z_80 = 0.8416212335729143, two_points = 0.02, alpha = 0.05;

static double normal_below(double z) {
  return 0.5 * erfc(-z / sqrt(2));
}

/* ---- accuracy ----------------------------------------------------------------------------------------------------- */

/* min(1, 2 · P(X ≤ min(b, c))), X ~ Binomial(b + c, ½). */
static double binomial_p_value(uint64_t b, uint64_t c) {
  uint64_t n = b + c, least = b < c ? b : c;
  double term = ldexp(1, -(int)n), sum = term; /* n < EXACT_BELOW */
  for (uint64_t k = 1; k <= least; k++) {
    term *= (double)(n - k + 1) / (double)k;
    sum += term;
  }
  return fmin(1, 2 * sum);
}

double mcnemar_p_value(uint64_t b, uint64_t c) {
  if (b + c < EXACT_BELOW)
    return binomial_p_value(b, c);
  double z = ((double)b - (double)c) / sqrt((double)b + (double)c);
  return erfc(fabs(z) / sqrt(2));
}

/* T(Δ) = (b − c − nΔ) / √(n(2q + Δ(1 − Δ))), q the likeliest P(only first) were the difference Δ: the positive root of
 * 2n q² + (−b − c + (2n − b + c)Δ) q − cΔ(1 − Δ) = 0. It falls from +∞ to −∞ between −1 and 1. */
static double tango_score(double b, double c, double n, double delta) {
  double a2 = 2 * n, a1 = -b - c + (2 * n - b + c) * delta, a0 = -c * delta * (1 - delta);
  double q = (sqrt(fmax(0, a1 * a1 - 4 * a2 * a0)) - a1) / (2 * a2);
  double variance = n * (2 * q + delta * (1 - delta)), over = b - c - n * delta;
  if (variance <= 0)
    return over > 0 ? INFINITY : over < 0 ? -INFINITY : 0;
  return over / sqrt(variance);
}

/* Where T(Δ) = z, by halving. */
static double tango_limit(double b, double c, double n, double z) {
  double lo = -1, hi = 1;
  for (int i = 0; i < 60; i++) {
    double middle = (lo + hi) / 2;
    if (tango_score(b, c, n, middle) > z)
      lo = middle;
    else
      hi = middle;
  }
  return (lo + hi) / 2;
}

void tango_interval(uint64_t b, uint64_t c, uint64_t n, double *out_lo, double *out_hi) {
  MUST(n > 0 && b <= n && c <= n - b);
  *out_lo = tango_limit((double)b, (double)c, (double)n, z_975);
  *out_hi = tango_limit((double)b, (double)c, (double)n, -z_975);
}

double connor_samples(double discordance, double difference) {
  double psi = fmax(discordance, difference); /* fewer cannot make that difference */
  double root = z_975 * sqrt(psi) + z_80 * sqrt(psi - difference * difference);
  return ceil(root * root / (difference * difference));
}

static void compare_answers(const struct outcomes *first, const struct outcomes *second, struct comparison *r) {
  for (size_t i = 0; i < r->n; i++) {
    bool is_first = first->rows[i].said == first->rows[i].is, is_second = second->rows[i].said == second->rows[i].is;
    r->only_first += is_first && !is_second;
    r->only_second += is_second && !is_first;
  }
  tango_interval(r->only_second, r->only_first, r->n, &r->lo, &r->hi);
  r->p_value = mcnemar_p_value(r->only_second, r->only_first);
  r->needed = connor_samples((double)(r->only_first + r->only_second) / (double)r->n, two_points);
}

/* ---- others: the bootstrap ---------------------------------------------------------------------------------------- */

/* The t quantile that belongs to z (Abramowitz & Stegun 26.7.5). */
static double t_of_z(double z, double freedom) {
  double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * freedom * freedom * freedom);
}

/* Between the two order statistics that the share falls between. */
static double quantile(const double *sorted, size_t n, double share) {
  double at = share * (double)(n - 1);
  size_t below = (size_t)at;
  return below + 1 < n ? sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]) : sorted[n - 1];
}

static double deviation(const double *values, size_t n) {
  double mean = 0, m2 = 0;
  for (size_t i = 0; i < n; i++) {
    double delta = values[i] - mean;
    mean += delta / (double)(i + 1);
    m2 += delta * (values[i] - mean);
  }
  return sqrt(m2 / (double)(n - 1));
}

static void draw(struct rng *rng, uint32_t *counts, size_t n) {
  memset(counts, 0, n * sizeof *counts);
  for (size_t i = 0; i < n; i++)
    counts[rng_below(rng, n)]++;
}

/* Differences over resamples; those that cannot tell models apart (one class only) are left out. */
static size_t resample(struct tally tallies[2], enum figure figure, uint64_t seed, uint32_t *counts, size_t n_draws,
                       double *out_differences) {
  size_t n = tallies[0].outcomes->n, n_kept = 0;
  struct rng rng;
  rng_init(&rng, seed);
  for (size_t i = 0; i < n_draws; i++) {
    draw(&rng, counts, n);
    double difference = tally_figure(&tallies[1], figure, counts) - tally_figure(&tallies[0], figure, counts);
    if (isfinite(difference))
      out_differences[n_kept++] = difference;
  }
  return n_kept;
}

static void judge_resamples(struct comparison *r, double *differences, size_t n_kept) {
  double n = (double)r->n, scale = (z_975 + z_80) * deviation(differences, n_kept) / two_points;
  double share = normal_below(-sqrt(n / (n - 1)) * t_of_z(z_975, n - 1));
  doubles_sort(differences, n_kept);
  r->lo = quantile(differences, n_kept, share);
  r->hi = quantile(differences, n_kept, 1 - share);
  r->needed = ceil(n * scale * scale);
}

static enum err compare_resamples(struct tally tallies[2], uint64_t seed, struct comparison *r) {
  size_t n_draws = MAX_DRAWS / r->n;
  n_draws = n_draws > RESAMPLES ? RESAMPLES : n_draws < MIN_RESAMPLES ? MIN_RESAMPLES : n_draws;
  uint32_t *counts = calloc(r->n, sizeof *counts);
  double *differences = calloc(n_draws, sizeof *differences);
  enum err e = counts != NULL && differences != NULL ? ERR_OK : ERR_NO_MEMORY;
  if (e == ERR_OK && r->n > 2) {
    size_t n_kept = resample(tallies, r->figure, seed, counts, n_draws, differences);
    if (n_kept >= MIN_RESAMPLES / 2)
      judge_resamples(r, differences, n_kept);
  }
  free(counts);
  free(differences);
  return e;
}

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

static bool are_same_samples(const struct outcomes *a, const struct outcomes *b) {
  if (a->task != b->task || a->n_classes != b->n_classes || a->n != b->n)
    return false;
  for (size_t i = 0; i < a->n; i++)
    if (a->rows[i].is != b->rows[i].is || a->rows[i].target != b->rows[i].target)
      return false;
  for (size_t i = 0; a->marks != NULL && i < a->n * a->n_classes; i++)
    if (a->marks[i].is != b->marks[i].is)
      return false;
  return true;
}

/* NaN limits and a NaN p fail every comparison. */
static enum verdict verdict_of(const struct comparison *r) {
  if (r->figure == FIGURE_ACCURACY && !(r->p_value < alpha))
    return VERDICT_NO_EVIDENCE;
  return r->lo > 0 ? VERDICT_HELPS : r->hi < 0 ? VERDICT_WORSE : VERDICT_NO_EVIDENCE;
}

enum err comparison_make(const struct outcomes *first, const struct outcomes *second, enum figure figure, uint64_t seed,
                         struct comparison *out_comparison) {
  struct tally tallies[2] = {0};
  struct comparison r = {
      .figure = figure, .n = first->n, .lo = NAN, .hi = NAN, .p_value = NAN, .needed = NAN, .difference = NAN};
  if (!are_same_samples(first, second))
    return ERR_CONTRACT;
  enum err e = tally_init(&tallies[0], first);
  if (e == ERR_OK)
    e = tally_init(&tallies[1], second);
  if (e != ERR_OK)
    goto out;
  r.first = tally_figure(&tallies[0], figure, NULL);
  r.second = tally_figure(&tallies[1], figure, NULL);
  r.difference = r.second - r.first;
  if (isnan(r.difference))
    goto out;
  if (figure == FIGURE_ACCURACY)
    compare_answers(first, second, &r);
  else
    e = compare_resamples(tallies, seed, &r);
out:
  tally_done(&tallies[0]);
  tally_done(&tallies[1]);
  r.verdict = verdict_of(&r);
  if (e == ERR_OK)
    *out_comparison = r;
  return e;
}
