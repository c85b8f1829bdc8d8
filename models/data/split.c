#include "models/data/split.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/must.h"
#include "base/rng.h"

const char *split_rule_name(enum split_rule rule) {
  static const char *const names[] = {
      [SPLIT_NONE] = "none",     [SPLIT_IID] = "iid",       [SPLIT_DIRICHLET] = "dirichlet",
      [SPLIT_SHARDS] = "shards", [SPLIT_GROUPS] = "groups",
  };
  MUST((size_t)rule < sizeof names / sizeof names[0]);
  return names[rule];
}

/* What a rule works on. Samples in order of class, within a class in order of the file. */
struct deal {
  const struct split *split;
  size_t n;
  size_t n_classes;
  uint32_t *order;       /* [n] sample numbers */
  uint32_t *class_start; /* [n_classes + 1] into order */
  uint16_t *part;        /* [n] the result */
  struct rng rng;
};

static enum err deal_iid(struct deal *d) {
  rng_shuffle(&d->rng, d->order, d->n);
  for (size_t i = 0; i < d->n; i++)
    d->part[d->order[i]] = (uint16_t)(1 + i % d->split->n_parts);
  return ERR_OK;
}

static enum err deal_shards(struct deal *d) {
  size_t n_shards = (size_t)d->split->n_parts * d->split->shards;
  if (n_shards > d->n)
    return ERR_RANGE;
  uint32_t *shards = malloc(n_shards * sizeof *shards);
  if (shards == NULL)
    return ERR_NO_MEMORY;
  for (size_t s = 0; s < n_shards; s++)
    shards[s] = (uint32_t)s;
  rng_shuffle(&d->rng, shards, n_shards);
  for (size_t s = 0; s < n_shards; s++) {
    size_t from = shards[s] * d->n / n_shards, to = (shards[s] + (size_t)1) * d->n / n_shards;
    for (size_t i = from; i < to; i++)
      d->part[d->order[i]] = (uint16_t)(1 + s / d->split->shards);
  }
  free(shards);
  return ERR_OK;
}

/* The first of n things that are in group g of n_groups. */
static size_t group_start(size_t n, size_t g, size_t n_groups) {
  return g * n / n_groups;
}

static enum err deal_groups(struct deal *d) {
  size_t n_groups = d->split->shards, n_parts = d->split->n_parts;
  if (n_groups > n_parts || n_groups > d->n_classes)
    return ERR_RANGE;
  for (size_t g = 0; g < n_groups; g++) {
    size_t from = d->class_start[group_start(d->n_classes, g, n_groups)];
    size_t to = d->class_start[group_start(d->n_classes, g + 1, n_groups)];
    size_t first = group_start(n_parts, g, n_groups), n_own = group_start(n_parts, g + 1, n_groups) - first;
    if (to - from < n_own)
      return ERR_RANGE;
    rng_shuffle(&d->rng, d->order + from, to - from);
    for (size_t i = from; i < to; i++)
      d->part[d->order[i]] = (uint16_t)(1 + first + (i - from) % n_own);
  }
  return ERR_OK;
}

static double unit_above_zero(struct rng *r) {
  return 1 - rng_unit(r);
}

/* Standard normal, by the polar method (Marsaglia & Bray 1964). */
static double normal_variate(struct rng *r) {
  for (;;) {
    double u = 2 * rng_unit(r) - 1, v = 2 * rng_unit(r) - 1, s = u * u + v * v;
    if (s > 0 && s < 1)
      return u * sqrt(-2 * log(s) / s);
  }
}

/* log of a Gamma(a, 1) variate (Marsaglia & Tsang 2000); for a < 1 as Gamma(a + 1) · U^(1/a). */
static double log_gamma_variate(struct rng *r, double a) {
  double boost = 0;
  if (a < 1) {
    boost = log(unit_above_zero(r)) / a;
    a += 1;
  }
  double d = a - 1.0 / 3, c = 1 / sqrt(9 * d);
  for (;;) {
    double x = normal_variate(r), w = 1 + c * x, v = w * w * w;
    if (w > 0 && log(unit_above_zero(r)) < 0.5 * x * x + d - d * v + d * log(v))
      return log(d * v) + boost;
  }
}

/* p ~ Dir(a·1_n) */
static void dirichlet_variate(struct rng *r, double a, size_t n, double *out_p) {
  double largest = -INFINITY, sum = 0;
  for (size_t k = 0; k < n; k++) {
    out_p[k] = log_gamma_variate(r, a);
    largest = fmax(largest, out_p[k]);
  }
  for (size_t k = 0; k < n; k++)
    sum += out_p[k] = exp(out_p[k] - largest);
  for (size_t k = 0; k < n; k++)
    out_p[k] /= sum;
}

/* Draws the proportions of every class and cuts it: part k + 1 takes cuts[c][k] … cuts[c][k + 1] of class c.
 * False when some part would be too small. p and sizes [n_parts] are work space. */
static bool draw_cuts(struct deal *d, uint32_t *cuts, double *p, size_t *sizes) {
  size_t n_parts = d->split->n_parts;
  for (size_t k = 0; k < n_parts; k++)
    sizes[k] = 0;
  for (size_t c = 0; c < d->n_classes; c++, cuts += n_parts + 1) {
    uint32_t m = d->class_start[c + 1] - d->class_start[c];
    double cumulative = 0;
    dirichlet_variate(&d->rng, d->split->alpha, n_parts, p);
    cuts[0] = 0;
    for (size_t k = 0; k < n_parts; k++) {
      cumulative += p[k];
      uint32_t cut = (uint32_t)fmin(floor(cumulative * m), m);
      cuts[k + 1] = k + 1 == n_parts ? m : cut;
      sizes[k] += cuts[k + 1] - cuts[k];
    }
  }
  for (size_t k = 0; k < n_parts; k++)
    if (sizes[k] < SPLIT_MIN_SAMPLES)
      return false;
  return true;
}

static void deal_cuts(struct deal *d, const uint32_t *cuts) {
  size_t n_parts = d->split->n_parts;
  for (size_t c = 0; c < d->n_classes; c++, cuts += n_parts + 1) {
    uint32_t *samples = d->order + d->class_start[c];
    rng_shuffle(&d->rng, samples, d->class_start[c + 1] - d->class_start[c]);
    for (size_t k = 0; k < n_parts; k++)
      for (uint32_t i = cuts[k]; i < cuts[k + 1]; i++)
        d->part[samples[i]] = (uint16_t)(k + 1);
  }
}

static enum err deal_dirichlet(struct deal *d) {
  size_t n_parts = d->split->n_parts;
  if (d->n / SPLIT_MIN_SAMPLES < n_parts)
    return ERR_RANGE;
  uint32_t *cuts = calloc(d->n_classes * (n_parts + 1), sizeof *cuts);
  double *p = calloc(n_parts, sizeof *p);
  size_t *sizes = calloc(n_parts, sizeof *sizes);
  enum err e = ERR_NO_MEMORY;
  if (cuts == NULL || p == NULL || sizes == NULL)
    goto out;
  e = ERR_RANGE;
  for (int draw = 0; e != ERR_OK && draw < SPLIT_MAX_DRAWS; draw++)
    if (draw_cuts(d, cuts, p, sizes))
      e = ERR_OK;
  if (e == ERR_OK)
    deal_cuts(d, cuts);
out:
  free(cuts);
  free(p);
  free(sizes);
  return e;
}

/* Counting sort: stable, so the order is the file's within a class. */
static void sort_by_class(struct deal *d, const uint16_t *labels) {
  for (size_t i = 0; i < d->n; i++)
    d->class_start[labels[i] + 1]++;
  for (size_t c = 0; c < d->n_classes; c++)
    d->class_start[c + 1] += d->class_start[c];
  for (size_t i = 0; i < d->n; i++)
    d->order[d->class_start[labels[i]]++] = (uint32_t)i;
  for (size_t c = d->n_classes; c > 0; c--) /* each start has moved to its class's end */
    d->class_start[c] = d->class_start[c - 1];
  d->class_start[0] = 0;
}

/* Of all n samples, which are at least as many as parts. */
static enum err assign_all(const struct split *split, struct rng *rng, const uint16_t *labels, size_t n,
                           size_t n_classes, uint16_t *out_part) {
  static enum err (*const rules[])(struct deal *) = {
      [SPLIT_IID] = deal_iid,
      [SPLIT_DIRICHLET] = deal_dirichlet,
      [SPLIT_SHARDS] = deal_shards,
      [SPLIT_GROUPS] = deal_groups,
  };
  MUST(split->rule != SPLIT_NONE && (size_t)split->rule < sizeof rules / sizeof rules[0]);
  struct deal d = {.split = split, .n = n, .n_classes = n_classes, .rng = *rng};
  d.part = out_part;
  d.order = malloc(n * sizeof *d.order);
  d.class_start = calloc(n_classes + 1, sizeof *d.class_start);
  enum err e = ERR_NO_MEMORY;
  if (d.order != NULL && d.class_start != NULL) {
    sort_by_class(&d, labels);
    e = rules[split->rule](&d);
  }
  free(d.order);
  free(d.class_start);
  return e;
}

/* The first n_taken of the samples, shuffled, are divided. */
static enum err assign_some(const struct split *split, struct rng *rng, const uint16_t *labels, size_t n,
                            size_t n_taken, size_t n_classes, uint16_t *out_part) {
  uint32_t *order = malloc(n * sizeof *order);
  uint16_t *of_taken = calloc(2 * n_taken, sizeof *of_taken); /* their labels, then their parts */
  enum err e = order != NULL && of_taken != NULL ? ERR_OK : ERR_NO_MEMORY;
  if (e == ERR_OK) {
    for (size_t i = 0; i < n; i++)
      order[i] = (uint32_t)i;
    rng_shuffle(rng, order, n);
    for (size_t i = 0; i < n_taken; i++)
      of_taken[i] = labels[order[i]];
    e = assign_all(split, rng, of_taken, n_taken, n_classes, of_taken + n_taken);
  }
  for (size_t i = 0; e == ERR_OK && i < n; i++)
    out_part[order[i]] = i < n_taken ? of_taken[n_taken + i] : 0;
  free(order);
  free(of_taken);
  return e;
}

enum err split_assign(const struct split *split, const uint16_t *labels, size_t n, size_t n_classes,
                      uint16_t *out_part) {
  MUST(split->n_parts >= 1 && split->n_parts <= MAX_PARTS && n_classes >= 1 && n_classes <= MAX_CLASSES);
  size_t n_taken = split->samples > 0 ? (size_t)split->n_parts * split->samples : n;
  if (n < split->n_parts || n < n_taken)
    return ERR_RANGE;
  if (n > MAX_SAMPLES)
    return ERR_LIMIT;
  struct rng rng;
  rng_init(&rng, split->seed);
  return n_taken == n ? assign_all(split, &rng, labels, n, n_classes, out_part)
                      : assign_some(split, &rng, labels, n, n_taken, n_classes, out_part);
}
