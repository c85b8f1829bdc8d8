#include "models/tuning/tuner.h"

#include <math.h>
#include <stdlib.h>

#include "base/must.h"
#include "models/kernels/selection.h"

enum {
  REFIT_EVERY = 3,
  MIN_MEASUREMENTS = 4,
  AGAIN = 8,
  PASSES = 3 /* forwards, and backwards to weights and to inputs */
};

/* How many σ speak for what is to be measured, and against what is not measured in the end. */
static const double hope = 1, caution = 0.3;

struct cell {
  double log_seconds; /* measured, or the model's mean */
  double spread;      /* 0 when measured */
  bool measured;
};

struct tuner {
  struct tuner_config config;
  size_t n, n_samples, n_fitted, budget,
      first[MAX_TUNER_OPERATIONS + 1]; /* cells of an operation: [first, next first) */
  bool has_learnt;
  struct cost_point *points, *pool; /* [n] of this host; [n] of the old one */
  struct cell *cells;               /* [n] */
  double *spread;                   /* [n] */
  struct cost_sample *samples;      /* [n] */
  struct cost_model *model;
  struct sampler *sampler;
};

struct tuner_config tuner_defaults(void) {
  return (struct tuner_config){.share = 0.1,
                               .explored = 0.5,
                               .weights = {0.3, 1, 0.3},
                               .keep = 0.5,
                               .seed = 1,
                               .host = {1, 0},
                               .old_host = {1, 0}};
}

void tuner_learn_again(struct tuner_config *config, const struct cost_model *old, struct tuner_host old_host) {
  config->old = old;
  config->old_host = old_host;
  config->n_measurements = AGAIN;
  config->explored = 0.25;
}

/* ---- the grid: an operation's cells are [split][variant] */

static size_t cell_at(const struct tuner *t, const struct tuner_cell *c) {
  const struct tuner_operation *o = &t->config.operations[c->operation];
  MUST(c->operation < t->config.n_operations && c->split < t->config.n_splits && c->variant < o->n_variants);
  return t->first[c->operation] + c->split * o->n_variants + c->variant;
}

static struct tuner_cell cell_of(const struct tuner *t, size_t at) {
  struct tuner_cell c = {0};
  while (at >= t->first[c.operation + 1])
    c.operation++;
  at -= t->first[c.operation];
  c.split = at / t->config.operations[c.operation].n_variants;
  c.variant = (uint32_t)(at % t->config.operations[c.operation].n_variants);
  return c;
}

/* Work as if lanes cost nothing and threads were worth what they promise: the model learns what is missing to that. */
static struct cost_point point_of(const struct tuner_config *config, const struct tuner_cell *c,
                                  struct tuner_host host) {
  const struct tuner_operation *o = &config->operations[c->operation];
  const struct tuner_split *s = &config->splits[c->split];
  double of_lane = ceil((double)config->batch / s->lanes);
  double at_once = s->block == 0 ? of_lane : fmin(s->block, of_lane);
  double in_a_row = ceil((double)s->lanes / s->threads) * of_lane * fmax(1, s->threads / host.processors);
  return (struct cost_point){.log_work = log(PASSES * 2 * o->pixels * o->depth * o->channels * in_a_row),
                             .values = {log(o->pixels), log(o->depth), log(o->channels), log(config->batch),
                                        log(s->lanes), log(s->threads), log(at_once), log(host.processors),
                                        host.machine},
                             .variant = o->variants[c->variant]};
}

static bool is_sound(const struct tuner_config *c) {
  bool sound = c->n_operations >= 1 && c->n_operations <= MAX_TUNER_OPERATIONS && c->n_splits >= 1 &&
               c->n_splits <= MAX_TUNER_SPLITS && c->batch >= 1 && c->n_variants >= 1 &&
               c->n_variants <= MAX_COST_VARIANTS && c->host.processors > 0;
  for (size_t i = 0; sound && i < c->n_operations; i++) {
    const struct tuner_operation *o = &c->operations[i];
    sound = o->n_variants >= 1 && o->n_variants <= MAX_TUNER_VARIANTS && o->pixels > 0 && o->depth > 0 &&
            o->channels > 0 && o->count > 0;
    for (size_t v = 0; sound && v < o->n_variants; v++)
      sound = o->variants[v] < c->n_variants;
  }
  for (size_t i = 0; sound && i < c->n_splits; i++)
    sound = c->splits[i].lanes >= 1 && c->splits[i].threads >= 1;
  return sound;
}

static size_t budget_of(const struct tuner_config *c, size_t n) {
  size_t budget = (size_t)(c->share * (double)n);
  budget = budget < MIN_MEASUREMENTS ? MIN_MEASUREMENTS : budget;
  budget = c->n_measurements > 0 && budget > c->n_measurements ? c->n_measurements : budget;
  return budget > n ? n : budget;
}

static enum err allocate(struct tuner *t) {
  t->points = calloc(t->n, sizeof *t->points);
  t->pool = calloc(t->n, sizeof *t->pool);
  t->cells = calloc(t->n, sizeof *t->cells);
  t->spread = calloc(t->n, sizeof *t->spread);
  t->samples = calloc(t->n, sizeof *t->samples);
  return t->points && t->pool && t->cells && t->spread && t->samples ? ERR_OK : ERR_NO_MEMORY;
}

static void describe(struct tuner *t) {
  for (size_t i = 0; i < t->n; i++) {
    struct tuner_cell c = cell_of(t, i);
    t->points[i] = point_of(&t->config, &c, t->config.host);
    t->pool[i] = point_of(&t->config, &c, t->config.old_host);
  }
}

enum err tuner_new(const struct tuner_config *config, struct tuner **out_tuner) {
  if (!is_sound(config))
    return ERR_RANGE;
  struct tuner *t = calloc(1, sizeof *t);
  if (!t)
    return ERR_NO_MEMORY;
  t->config = *config;
  for (size_t i = 0; i < config->n_operations; i++)
    t->first[i + 1] = t->first[i] + config->n_splits * config->operations[i].n_variants;
  t->n = t->first[config->n_operations];
  t->budget = budget_of(config, t->n);
  enum err e = allocate(t);
  if (!e) {
    describe(t);
    e = sampler_new(t->points, t->n, config->weights, config->seed, &t->sampler);
  }
  if (!e)
    e = cost_new(config->n_variants, &t->model);
  if (!e && config->old)
    e = cost_take(t->model, cost_weights(config->old));
  if (e) {
    tuner_free(t);
    return e;
  }
  *out_tuner = t;
  return ERR_OK;
}

void tuner_free(struct tuner *t) {
  if (!t)
    return;
  free(t->points);
  free(t->pool);
  free(t->cells);
  free(t->spread);
  free(t->samples);
  cost_free(t->model);
  sampler_free(t->sampler);
  free(t);
}

size_t tuner_cells(const struct tuner *t) {
  return t->n;
}

size_t tuner_measured(const struct tuner *t) {
  return t->n_samples;
}

const struct cost_model *tuner_model(const struct tuner *t) {
  return t->model;
}

/* ---- learning */

static enum err learn(struct tuner *t) {
  const struct tuner_config *c = &t->config;
  const struct cost_lesson lesson = {.samples = t->samples,
                                     .n_samples = t->n_samples,
                                     .old = c->old,
                                     .pool = t->pool,
                                     .n_pool = t->n,
                                     .keep = c->keep,
                                     .seed = c->seed};
  enum err e = t->n_samples > 0 ? cost_fit(t->model, &lesson) : ERR_OK;
  for (size_t i = 0; i < t->n && !e; i++)
    if (!t->cells[i].measured)
      t->cells[i].log_seconds = cost_predict(t->model, &t->points[i], &t->cells[i].spread);
  for (size_t i = 0; i < t->n && !e; i++)
    t->spread[i] = t->cells[i].spread;
  t->n_fitted = t->n_samples;
  t->has_learnt = true;
  return e;
}

void tuner_put(struct tuner *t, const struct tuner_cell *c, double seconds) {
  size_t at = cell_at(t, c);
  MUST(!t->cells[at].measured && seconds > 0 && isfinite(seconds));
  t->cells[at] = (struct cell){.log_seconds = log(seconds), .measured = true};
  t->samples[t->n_samples++] = (struct cost_sample){.at = t->points[at], .log_seconds = log(seconds)};
  sampler_take(t->sampler, at);
}

/* ---- beliefs */

/* Seconds of an operation under a split and the variant that takes them; `doubt` × σ is added to what is not measured. */
static double fastest(const struct tuner *t, size_t operation, size_t split, double doubt, uint32_t *out_variant) {
  const struct tuner_operation *o = &t->config.operations[operation];
  double best = INFINITY;
  for (uint32_t v = 0; v < o->n_variants; v++) {
    const struct cell *cell = &t->cells[cell_at(t, &(struct tuner_cell){operation, split, v})];
    double seconds = exp(cell->log_seconds + doubt * cell->spread);
    if (seconds < best) {
      best = seconds;
      *out_variant = v;
    }
  }
  return best * o->count;
}

static void fastest_split(const struct tuner *t, double doubt, struct tuner_choice *out_choice) {
  struct tuner_choice best = {.seconds = INFINITY};
  for (size_t s = 0; s < t->config.n_splits; s++) {
    struct tuner_choice c = {.split = s, .measured = true};
    for (size_t o = 0; o < t->config.n_operations; o++) {
      c.seconds += fastest(t, o, s, doubt, &c.variants[o]);
      c.measured = c.measured && t->cells[cell_at(t, &(struct tuner_cell){o, s, c.variants[o]})].measured;
    }
    if (c.seconds < best.seconds)
      best = c;
  }
  *out_choice = best;
}

/* Of what looks best when doubt speaks for it, the part that takes longest and was not measured; none: the choice stands. */
static bool next_doubt(const struct tuner *t, struct tuner_cell *out_cell) {
  struct tuner_choice looks_best;
  double longest = 0;
  fastest_split(t, -hope, &looks_best);
  for (size_t o = 0; o < t->config.n_operations; o++) {
    struct tuner_cell c = {o, looks_best.split, looks_best.variants[o]};
    const struct cell *cell = &t->cells[cell_at(t, &c)];
    double seconds = t->config.operations[o].count * exp(cell->log_seconds);
    if (!cell->measured && seconds > longest) {
      longest = seconds;
      *out_cell = c;
    }
  }
  return longest > 0;
}

enum err tuner_next(struct tuner *t, struct tuner_cell *out_cell, bool *out_has) {
  bool explores = (double)t->n_samples < t->config.explored * (double)t->budget;
  *out_has = false;
  if (t->n_samples >= t->budget)
    return ERR_OK;
  bool knows = t->n_samples >= MIN_MEASUREMENTS || t->config.old;
  if (knows && (!explores || !t->has_learnt || t->n_samples >= t->n_fitted + REFIT_EVERY)) {
    enum err e = learn(t);
    if (e)
      return e;
  }
  if (explores)
    *out_cell = cell_of(t, sampler_pick(t->sampler, knows ? t->spread : NULL));
  *out_has = explores || next_doubt(t, out_cell);
  return ERR_OK;
}

enum err tuner_choose(struct tuner *t, struct tuner_choice *out_choice) {
  enum err e = learn(t);
  if (!e)
    fastest_split(t, caution, out_choice);
  return e;
}

double tuner_believes(const struct tuner *t, const struct tuner_cell *c, bool *out_measured) {
  const struct cell *cell = &t->cells[cell_at(t, c)];
  *out_measured = cell->measured;
  return exp(cell->log_seconds);
}
