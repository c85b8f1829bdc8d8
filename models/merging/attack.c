#include "models/merging/attack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/rng.h"
#include "models/floats.h"
#include "models/merging/merge.h"

static const char *const names[N_ATTACKS] = {
    [ATTACK_NONE] = "none",         [ATTACK_SIGN_FLIP] = "sign-flip",
    [ATTACK_GAUSSIAN] = "gaussian", [ATTACK_ALIE] = "alie",
    [ATTACK_IPM] = "ipm",           [ATTACK_DISSENSUS] = "dissensus",
    [ATTACK_STALE] = "stale",       [ATTACK_FREE_RIDER] = "free-rider",
    [ATTACK_REPLAY] = "replay",     [ATTACK_LABEL_FLIP] = "label-flip",
    [ATTACK_BACKDOOR] = "backdoor", [ATTACK_MEDIAN] = "median",
    [ATTACK_ADAPTIVE] = "adaptive",
};

const char *attack_name(enum attack attack) {
  return names[attack];
}

enum err attack_find(const char *name, enum attack *out_attack) {
  for (enum attack a = 0; a < N_ATTACKS; a++)
    if (strcmp(names[a], name) == 0) {
      *out_attack = a;
      return ERR_OK;
    }
  return ERR_NOT_FOUND;
}

/* ---- what is sent -------------------------------------------------------------------------------------------------- */

static double mean_of(const struct attack_view *v, size_t i) {
  double sum = 0;
  for (size_t j = 0; j < v->n_honest; j++)
    sum += (double)v->honest[j][i];
  return sum / (double)v->n_honest;
}

static double deviation_of(const struct attack_view *v, size_t i, double mean) {
  double sum = 0;
  for (size_t j = 0; j < v->n_honest; j++)
    sum += ((double)v->honest[j][i] - mean) * ((double)v->honest[j][i] - mean);
  return sqrt(sum / (double)v->n_honest);
}

static void flip(const struct attack_view *v, float *x) {
  for (size_t i = 0; i < v->n_values; i++)
    x[i] = (float)((double)v->before[i] - 5 * ((double)x[i] - (double)v->before[i]));
}

static double normal(struct rng *rng) {
  double u = 1 - rng_unit(rng), w = rng_unit(rng);
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * w);
}

static void add_noise(const struct attack_view *v, float *x) {
  struct rng rng;
  double deviation = 10 * floats_distance(x, v->before, v->n_values) / sqrt((double)v->n_values);
  rng_init(&rng, v->seed);
  for (size_t i = 0; i < v->n_values; i++)
    x[i] = (float)((double)v->before[i] + deviation * normal(&rng));
}

static void little_is_enough(const struct attack_view *v, float *x) {
  for (size_t i = 0; i < v->n_values; i++) {
    double mean = mean_of(v, i);
    x[i] = (float)(mean - 1.5 * deviation_of(v, i, mean));
  }
}

static void manipulate(const struct attack_view *v, float *x) {
  for (size_t i = 0; i < v->n_values; i++)
    x[i] = (float)((double)v->origin[i] - 5 * (mean_of(v, i) - (double)v->origin[i]));
}

static void push_away(const struct attack_view *v, float *x) {
  const float *victim = v->honest[v->seed % v->n_honest];
  for (size_t i = 0; i < v->n_values; i++)
    x[i] = (float)(2 * (double)victim[i] - mean_of(v, i));
}

static void repeat(const float *what, const struct attack_view *v, float *x) {
  if (what)
    memcpy(x, what, v->n_values * sizeof *x);
}

/* ---- those that know distances ------------------------------------------------------------------------------------- */

/* Where the honest ones are on the whole, and how far from that. */
struct place {
  float *mean, *against; /* [P]; against: where their step came from, of length 1 */
  double median;
};

static void place_done(struct place *p) {
  free(p->mean);
  free(p->against);
}

static enum err place_find(const struct attack_view *v, struct place *out_place) {
  struct place p = {.mean = floats_new(v->n_values), .against = floats_new(v->n_values)};
  double *distances = calloc(v->n_honest, sizeof *distances), length;
  if (!p.mean || !p.against || !distances) {
    place_done(&p);
    free(distances);
    return ERR_NO_MEMORY;
  }
  for (size_t i = 0; i < v->n_values; i++)
    p.mean[i] = (float)mean_of(v, i);
  length = floats_distance(p.mean, v->origin, v->n_values);
  for (size_t i = 0; i < v->n_values && length > 0; i++)
    p.against[i] = (float)(((double)v->origin[i] - (double)p.mean[i]) / length);
  for (size_t j = 0; j < v->n_honest; j++)
    distances[j] = floats_distance(v->honest[j], p.mean, v->n_values);
  p.median = doubles_median(distances, v->n_honest);
  free(distances);
  *out_place = p;
  return ERR_OK;
}

static void go_against(const struct place *p, double length, size_t n, float *x) {
  for (size_t i = 0; i < n; i++)
    x[i] = (float)((double)p->mean[i] + length * (double)p->against[i]);
}

static enum err at_median(const struct attack_view *v, float *x) {
  struct place p;
  enum err e = place_find(v, &p);
  if (e)
    return e;
  go_against(&p, p.median, v->n_values, x);
  place_done(&p);
  return ERR_OK;
}

/* How far the first honest one is led back when all attackers send x. */
static double damage(struct rule_space *space, const struct attack_view *v, const struct place *p,
                     struct rule_peer *peers, const float *x, float *merged) {
  static const struct statistics none;
  const float *own = v->honest[0];
  size_t n = 0;
  struct distance_ring ring = {0};
  for (size_t j = 1; j < v->n_honest + v->n_bad; j++) {
    const float *values = j < v->n_honest ? v->honest[j] : x;
    double distance = floats_distance(values, own, v->n_values);
    peers[n++] =
        (struct rule_peer){.values = values, .weight = 1.0 / (double)(v->n_honest + v->n_bad), .distance = distance};
    if (j < v->n_honest)
      distance_ring_put(&ring, distance);
  }
  const struct rule_merge m = {.x = own,
                               .own = own,
                               .before = v->origin,
                               .n_values = v->n_values,
                               .gamma = 1,
                               .bound = distance_ring_bound(&ring, 0, MERGE_BOUND_FACTOR),
                               .statistics = &none,
                               .peers = peers,
                               .n_peers = n};
  if (rule_merge(space, v->rule, &m, merged) != ERR_OK)
    return -INFINITY;
  double back = 0;
  for (size_t i = 0; i < v->n_values; i++)
    back += (double)p->against[i] * ((double)merged[i] - (double)own[i]);
  return back;
}

static enum err adapt(const struct attack_view *v, float *x) {
  enum { LENGTHS = 10 };
  struct place p;
  struct rule_space *space = NULL;
  enum err e = place_find(v, &p);
  if (e)
    return e;
  struct rule_peer *peers = calloc(v->n_honest + v->n_bad, sizeof *peers);
  float *merged = floats_new(v->n_values);
  double best = 0, most = -INFINITY, length = p.median / 8;
  e = peers && merged ? rule_space_new(v->rule, v->n_honest + v->n_bad, &space) : ERR_NO_MEMORY;
  for (size_t k = 0; k < LENGTHS && !e; k++) {
    go_against(&p, length, v->n_values, x);
    double lost = damage(space, v, &p, peers, x, merged);
    if (lost > most) {
      most = lost;
      best = length;
    }
    length *= 2;
  }
  if (!e)
    go_against(&p, best, v->n_values, x);
  rule_space_free(space);
  free(merged);
  free(peers);
  place_done(&p);
  return e;
}

enum err attack_send(enum attack attack, const struct attack_view *v, float *x) {
  static void (*const simple[N_ATTACKS])(const struct attack_view *, float *) = {
      [ATTACK_SIGN_FLIP] = flip, [ATTACK_GAUSSIAN] = add_noise,  [ATTACK_ALIE] = little_is_enough,
      [ATTACK_IPM] = manipulate, [ATTACK_DISSENSUS] = push_away,
  };
  MUST(v->n_honest >= 1);
  if (simple[attack])
    simple[attack](v, x);
  if (attack == ATTACK_STALE)
    repeat(v->first, v, x);
  if (attack == ATTACK_FREE_RIDER)
    repeat(v->before, v, x);
  if (attack == ATTACK_REPLAY)
    repeat(v->past, v, x);
  if (attack == ATTACK_MEDIAN)
    return at_median(v, x);
  return attack == ATTACK_ADAPTIVE ? adapt(v, x) : ERR_OK;
}

/* ---- data ---------------------------------------------------------------------------------------------------------- */

enum { CORNER = 4 };

/* As much of it as the inputs are wide and high. */
static void mark(struct dataset *d, size_t sample, size_t row_inputs) {
  for (size_t y = 0; y < CORNER; y++)
    for (size_t x = 0; x < CORNER && x < row_inputs && y * row_inputs + x < d->n_inputs; x++) {
      size_t at = sample * d->n_inputs + y * row_inputs + x;
      if (d->bytes)
        d->bytes[at] = UINT8_MAX;
      else
        d->floats[at] = 3;
    }
}

void attack_mark(struct dataset *d, size_t row_inputs) {
  for (size_t i = 0; i < d->n; i++)
    mark(d, i, row_inputs);
}

bool attack_is_on_data(enum attack attack) {
  return attack == ATTACK_LABEL_FLIP || attack == ATTACK_BACKDOOR;
}

void attack_on_data(enum attack attack, struct dataset *d, size_t row_inputs) {
  MUST(d->labels && (d->bytes || d->floats));
  for (size_t i = 0; i < d->n && attack == ATTACK_LABEL_FLIP; i++)
    d->labels[i] = (uint16_t)(d->n_classes - 1 - d->labels[i]);
  for (size_t i = 0; i < d->n && attack == ATTACK_BACKDOOR; i += 2) {
    mark(d, i, row_inputs);
    d->labels[i] = 0;
  }
}
