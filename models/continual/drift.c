#include "models/continual/drift.h"

#include <math.h>
#include <string.h>

#include "base/must.h"
#include "base/rng.h"

void moments_put(struct moments *m, double x) {
  double off = x - m->mean;
  m->n += 1;
  m->mean += off / m->n;
  m->squares += off * (x - m->mean);
}

void moments_add(struct moments *m, const struct moments *other) {
  double n = m->n + other->n, off = other->mean - m->mean;
  if (n <= 0)
    return;
  m->squares += other->squares + off * off * m->n * other->n / n;
  m->mean += off * other->n / n;
  m->n = n;
}

void drift_sample_add(struct drift_sample *s, const struct drift_sample *other) {
  moments_add(&s->loss, &other->loss);
  for (size_t k = 0; k < DRIFT_PROJECTIONS; k++)
    moments_add(&s->inputs[k], &other->inputs[k]);
  for (size_t c = 0; c < s->n_classes; c++)
    s->labels[c] += other->labels[c];
}

void drift_sample_clear(struct drift_sample *s) {
  s->loss = (struct moments){0};
  memset(s->inputs, 0, sizeof s->inputs);
  memset(s->labels, 0, s->n_classes * sizeof *s->labels);
}

void drift_sample_copy(struct drift_sample *to, const struct drift_sample *from) {
  MUST(to->n_classes == from->n_classes);
  to->loss = from->loss;
  memcpy(to->inputs, from->inputs, sizeof to->inputs);
  memcpy(to->labels, from->labels, to->n_classes * sizeof *to->labels);
}

const char *drift_test_name(enum drift_test test) {
  static const char *const names[] = {
      [DRIFT_NONE] = "", [DRIFT_LOSS] = "loss", [DRIFT_LABELS] = "labels", [DRIFT_INPUTS] = "inputs"};
  return names[test];
}

/* ---- the loss */

/* How large α must be for ADWIN's bound to be exceeded: L solves off = √(2vL) + 2L/3m with v = σ²/m. */
static double loss_chance(const struct moments *before, const struct moments *now) {
  double off = now->mean - before->mean;
  if (off <= 0)
    return 1;
  struct moments all = *before;
  moments_add(&all, now);
  double m = 1 / (1 / before->n + 1 / now->n), v = all.squares / all.n / m, third = 2 / (3 * m);
  double root = (-sqrt(2 * v) + sqrt(2 * v + 4 * third * off)) / (2 * third);
  return fmin(1, 2 * exp(-root * root));
}

/* ---- labels */

/* The regularised upper incomplete gamma function Q(a, x), by its series below a + 1 and its continued fraction (Lentz 1976) above
 * (Abramowitz & Stegun 6.5.29, 6.5.31). */
static double gamma_tail(double a, double x) {
  const double tiny = 1e-300;
  int sign;
  if (x <= 0)
    return 1;
  double front = exp(a * log(x) - x - lgamma_r(a, &sign));
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (int k = 1; k < 10000 && term > sum * 1e-16; k++)
      sum += term *= x / (a + (double)k);
    return fmax(0, 1 - front * sum);
  }
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
  for (int k = 1; k < 10000; k++) {
    double an = -(double)k * ((double)k - a);
    b += 2;
    d = an * d + b;
    d = 1 / (fabs(d) < tiny ? tiny : d);
    c = b + an / c;
    c = fabs(c) < tiny ? tiny : c;
    h *= d * c;
    if (fabs(d * c - 1) < 1e-15)
      break;
  }
  return front * h;
}

double chi_square_tail(double x, double degrees) {
  return gamma_tail(degrees / 2, x / 2);
}

/* One column of the table. */
static double column(double a, double b, double n_a, double n_b) {
  double all = a + b, n = n_a + n_b;
  double off_a = a - all * n_a / n, off_b = b - all * n_b / n;
  return off_a * off_a / (all * n_a / n) + off_b * off_b / (all * n_b / n);
}

static double labels_chance(const struct drift_sample *before, const struct drift_sample *now) {
  enum { LEAST_EXPECTED = 5 };
  double n_a = before->loss.n, n_b = now->loss.n, x = 0, rare_a = 0, rare_b = 0;
  size_t n_columns = 0;
  for (size_t c = 0; c < before->n_classes; c++) {
    double a = (double)before->labels[c], b = (double)now->labels[c], least = (a + b) * fmin(n_a, n_b) / (n_a + n_b);
    if (least < LEAST_EXPECTED) {
      rare_a += a;
      rare_b += b;
      continue;
    }
    x += column(a, b, n_a, n_b);
    n_columns++;
  }
  if ((rare_a + rare_b) * fmin(n_a, n_b) / (n_a + n_b) >= LEAST_EXPECTED) {
    x += column(rare_a, rare_b, n_a, n_b);
    n_columns++;
  }
  return n_columns < 2 ? 1 : chi_square_tail(x, (double)n_columns - 1);
}

/* ---- inputs */

double drift_project(const float *x, size_t n, size_t k) {
  struct rng rng;
  double sum = 0;
  uint64_t signs = 0;
  rng_init(&rng, k);
  for (size_t i = 0; i < n; i++) {
    if (i % 64 == 0)
      signs = rng_u64(&rng);
    sum += signs >> i % 64 & 1 ? (double)x[i] : -(double)x[i];
  }
  return sum / sqrt((double)n);
}

/* Of DRIFT_LEAST samples and more Student's distribution is near the normal one; its heavier tail is bounded by what the caller
 * shares out. */
static double means_chance(const struct moments *a, const struct moments *b) {
  double of_a = a->squares / (a->n - 1) / a->n, of_b = b->squares / (b->n - 1) / b->n, v = of_a + of_b;
  if (v <= 0)
    return a->mean == b->mean ? 1 : 0;
  double t2 = (a->mean - b->mean) * (a->mean - b->mean) / v;
  double degrees = v * v / (of_a * of_a / (a->n - 1) + of_b * of_b / (b->n - 1));
  double z2 = degrees * log1p(t2 / degrees) * (1 - 0.75 / degrees); /* Wallace 1959: t as a normal number */
  return erfc(sqrt(fmax(0, z2) / 2));
}

enum drift_test drift_judge(const struct drift_sample *before, const struct drift_sample *now, double alpha,
                            double *out_p) {
  enum { TESTS = 3 };
  double p = 1, share = alpha / TESTS;
  enum drift_test found = DRIFT_NONE;
  if (before->loss.n >= DRIFT_LEAST && now->loss.n >= DRIFT_LEAST) {
    if ((p = loss_chance(&before->loss, &now->loss)) < share)
      found = DRIFT_LOSS;
    else if ((p = labels_chance(before, now)) < share)
      found = DRIFT_LABELS;
    for (size_t k = 0; k < DRIFT_PROJECTIONS && !found; k++)
      if ((p = means_chance(&before->inputs[k], &now->inputs[k])) < share / DRIFT_PROJECTIONS)
        found = DRIFT_INPUTS;
  }
  *out_p = p;
  return found;
}
