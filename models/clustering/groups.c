#include "models/clustering/groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/rng.h"

/* What is worked on; of the n points each is in one of k clusters. */
struct division {
  const double *cosines; /* [n][n] */
  size_t n, k;
  uint8_t of[MAX_GROUPED];
  double squares; /* Σ ‖u_i − μ_of(i)‖² */
};

static double cosine(const struct division *d, size_t i, size_t j) {
  return d->cosines[i * d->n + j];
}

/* ---- k-means ---- */

/* Squared distance of two points of length 1. */
static double square(const struct division *d, size_t i, size_t j) {
  double s = 2 - 2 * cosine(d, i, j);
  return s > 0 ? s : 0;
}

/* In proportion to the square of the distance from what is chosen; where all stand on what is chosen, the last. */
static size_t draw_next(const double *nearest, size_t n, struct rng *rng) {
  double sum = 0, reached = 0;
  for (size_t i = 0; i < n; i++)
    sum += nearest[i];
  double aim = rng_unit(rng) * sum;
  for (size_t i = 0; i < n; i++) {
    reached += nearest[i];
    if (reached > aim)
      return i;
  }
  return n - 1;
}

static void seed_centres(struct division *d, struct rng *rng) {
  double nearest[MAX_GROUPED];
  size_t centre = (size_t)rng_below(rng, d->n);
  for (size_t i = 0; i < d->n; i++) {
    nearest[i] = square(d, i, centre);
    d->of[i] = 0;
  }
  for (size_t c = 1; c < d->k; c++) {
    centre = draw_next(nearest, d->n, rng);
    for (size_t i = 0; i < d->n; i++)
      if (square(d, i, centre) < nearest[i]) {
        nearest[i] = square(d, i, centre);
        d->of[i] = (uint8_t)c;
      }
  }
}

/* Sums of cosines: of each point with each cluster, and of each cluster with itself. */
struct sums {
  double with[MAX_GROUPED][MAX_GROUPS];
  double within[MAX_GROUPS];
  size_t size[MAX_GROUPS];
};

static void sum_up(const struct division *d, struct sums *s) {
  memset(s->with, 0, d->n * sizeof *s->with);
  memset(s->within, 0, sizeof s->within);
  memset(s->size, 0, sizeof s->size);
  for (size_t i = 0; i < d->n; i++) {
    s->size[d->of[i]]++;
    for (size_t j = 0; j < d->n; j++)
      s->with[i][d->of[j]] += cosine(d, i, j);
  }
  for (size_t i = 0; i < d->n; i++)
    s->within[d->of[i]] += s->with[i][d->of[i]];
}

/* ‖u_i − μ_c‖². */
static double distance(const struct sums *s, size_t i, size_t c) {
  double size = (double)s->size[c];
  return 1 - 2 * s->with[i][c] / size + s->within[c] / (size * size);
}

static size_t nearest_cluster(const struct division *d, const struct sums *s, size_t i) {
  size_t best = d->of[i];
  for (size_t c = 0; c < d->k; c++)
    if (s->size[c] > 0 && distance(s, i, c) < distance(s, i, best))
      best = c;
  return best;
}

static bool move_all(struct division *d, const struct sums *s) {
  bool has_moved = false;
  for (size_t i = 0; i < d->n; i++) {
    size_t to = nearest_cluster(d, s, i);
    has_moved = has_moved || to != d->of[i];
    d->of[i] = (uint8_t)to;
  }
  return has_moved;
}

static void settle(struct division *d, struct sums *s) {
  size_t n_passes = 0;
  do
    sum_up(d, s);
  while (move_all(d, s) && ++n_passes < GROUPS_PASSES);
  sum_up(d, s);
  d->squares = 0;
  for (size_t i = 0; i < d->n; i++)
    d->squares += distance(s, i, d->of[i]);
}

/* The best of all starts; of equal ones the first. */
static void divide(struct division *d, struct rng *rng, struct sums *s) {
  struct division best = {.squares = INFINITY};
  for (size_t i = 0; i < GROUPS_RESTARTS; i++) {
    seed_centres(d, rng);
    settle(d, s);
    if (d->squares < best.squares)
      best = *d;
  }
  *d = best;
}

/* ---- how many ---- */

/* (b − a) / max(a, b): a the mean distance to the others of its own cluster, b to those of the nearest other one. */
static double silhouette_of(const struct division *d, const struct sums *s, size_t i) {
  size_t own = d->of[i], n_others = s->size[own] - 1;
  if (n_others == 0)
    return 0;
  double a = 1 - (s->with[i][own] - cosine(d, i, i)) / (double)n_others, b = INFINITY;
  for (size_t c = 0; c < d->k; c++)
    if (c != own && s->size[c] > 0)
      b = fmin(b, 1 - s->with[i][c] / (double)s->size[c]);
  double most = fmax(a, b);
  return most > 0 && isfinite(b) ? (b - a) / most : 0;
}

static double silhouette(const struct division *d, struct sums *s) {
  double sum = 0;
  sum_up(d, s);
  for (size_t i = 0; i < d->n; i++)
    sum += silhouette_of(d, s, i);
  return sum / (double)d->n;
}

static void find(struct division *d, const struct groups_wish *wish, struct rng *rng, struct sums *s,
                 struct groups *out) {
  struct division best = {.cosines = d->cosines, .n = d->n, .k = 1};
  size_t first = wish->n > 0 ? wish->n : 2, last = wish->n > 0 ? wish->n : wish->most;
  double least = wish->n > 0 ? -INFINITY : GROUPS_LEAST;
  if (wish->n == 0 && last >= d->n)
    last = d->n - 1; /* where each is alone there is nothing to compare */
  if (wish->n >= d->n)
    last = 0; /* so many are not there yet: all are one group, rather than each its own */
  for (d->k = first; d->k <= last; d->k++) {
    divide(d, rng, s);
    double mean = silhouette(d, s);
    if (mean > least) {
      least = out->silhouette = mean;
      best = *d;
    }
  }
  *d = best;
}

/* Numbered by their first members. */
static void number_groups(const struct division *d, struct groups *out) {
  uint8_t number[MAX_GROUPS];
  bool has_number[MAX_GROUPS] = {false};
  for (size_t i = 0; i < d->n; i++) {
    size_t c = d->of[i];
    if (!has_number[c]) {
      has_number[c] = true;
      number[c] = (uint8_t)out->n_groups++;
    }
    out->of[i] = number[c];
  }
}

static void fill_cosines(const struct sketch *const *sketches, size_t n, double *cosines) {
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j <= i; j++)
      cosines[i * n + j] = cosines[j * n + i] = sketch_cosine(sketches[i], sketches[j]);
}

enum err groups_find(const struct sketch *const *sketches, size_t n, const struct groups_wish *wish,
                     const struct digest *seed, struct groups *out_groups) {
  MUST(n <= MAX_GROUPED && wish->n <= MAX_GROUPS && wish->most <= MAX_GROUPS);
  struct groups found = {0};
  if (n > 0) {
    double *cosines = malloc(n * n * sizeof *cosines);
    struct sums *sums = malloc(sizeof *sums);
    if (cosines && sums) {
      struct division d = {.cosines = cosines, .n = n};
      struct rng rng;
      rng_init_digest(&rng, seed);
      fill_cosines(sketches, n, cosines);
      find(&d, wish, &rng, sums, &found);
      number_groups(&d, &found);
    }
    bool has_memory = cosines && sums;
    free(cosines);
    free(sums);
    if (!has_memory)
      return ERR_NO_MEMORY;
  }
  *out_groups = found;
  return ERR_OK;
}
