#include "tests/property/bad_swarm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/rng.h"
#include "models/learner.h"
#include "models/merging/codec.h"
#include "models/merging/mixing.h"

enum { PAST_ROUNDS = 5 };

struct member {
  struct learner *learner;
  float *before;  /* [P] its training */
  float *sent;    /* [P] */
  uint8_t *bytes; /* what is sent, as a full copy */
  size_t neighbours[BAD_SWARM_MOST], n_neighbours;
};

struct world {
  const struct bad_swarm *s;
  size_t n_values;
  struct member members[BAD_SWARM_MOST];
  float *first;             /* [P] */
  float *origin;            /* [P] mean of the good ones before their training */
  float *past[PAST_ROUNDS]; /* [P] what the first bad one sent */
  struct bad_swarm_result *result;
};

static bool is_bad(const struct bad_swarm *s, size_t i) {
  return i >= s->n - s->n_bad;
}

/* ---- edges --------------------------------------------------------------------------------------------------------- */

static void join(struct bad_swarm *s, size_t a, size_t b) {
  s->edges[a][b] = s->edges[b][a] = a != b;
}

void bad_swarm_full(struct bad_swarm *s) {
  for (size_t i = 0; i < s->n; i++)
    for (size_t j = 0; j < s->n; j++)
      join(s, i, j);
}

static bool is_bearable(const struct bad_swarm *s) {
  for (size_t i = 0; i < s->n - s->n_bad; i++) {
    size_t n = 0, n_bad = 0;
    for (size_t j = 0; j < s->n; j++) {
      n += s->edges[i][j];
      n_bad += s->edges[i][j] && is_bad(s, j);
    }
    if (n_bad > n / 3)
      return false;
  }
  return true;
}

/* Circles through all members in random orders; drawn again until every good one can bear it. */
void bad_swarm_random(struct bad_swarm *s, size_t degree) {
  struct rng rng;
  uint32_t order[BAD_SWARM_MOST];
  rng_init(&rng, s->seed);
  do {
    memset(s->edges, 0, sizeof s->edges);
    for (size_t c = 0; c < degree / 2; c++) {
      for (size_t i = 0; i < s->n; i++)
        order[i] = (uint32_t)i;
      rng_shuffle(&rng, order, s->n);
      for (size_t i = 0; i < s->n; i++)
        join(s, order[i], order[(i + 1) % s->n]);
    }
  } while (!is_bearable(s));
}

void bad_swarm_dumbbell(struct bad_swarm *s) {
  size_t half = s->n / 2;
  for (size_t i = 0; i < s->n; i++)
    for (size_t j = 0; j < s->n; j++)
      if (i / half == j / half)
        join(s, i, j);
  join(s, half - 1, half);
}

void bad_swarm_ring(struct bad_swarm *s) {
  size_t n_good = s->n - s->n_bad;
  for (size_t i = 0; i < n_good; i++) {
    join(s, i, (i + 1) % n_good);
    for (size_t k = 0; k < 2; k++)
      join(s, i, n_good + (2 * i + k) % s->n_bad);
  }
}

/* ---- members ------------------------------------------------------------------------------------------------------- */

static size_t degree_of(const struct world *w, size_t i) {
  return w->members[i].n_neighbours;
}

static void member_open(struct world *w, size_t i) {
  const struct bad_swarm *s = w->s;
  struct member *m = &w->members[i];
  for (size_t j = 0; j < s->n; j++)
    if (s->edges[i][j])
      m->neighbours[m->n_neighbours++] = j;
  struct learner_config config = {.schema = s->schema,
                                  .train = {.steps = s->steps,
                                            .batch = s->batch,
                                            .learning_rate = s->learning_rate,
                                            .optimiser = {.momentum = s->momentum}},
                                  .rule = s->rule,
                                  .init = {{(uint8_t)s->seed, 7}},
                                  .train_seed = s->seed + i,
                                  .n_copies = m->n_neighbours};
  config.rule.n_configured = (uint32_t)m->n_neighbours;
  if (is_bad(s, i))
    config.rule.rule = RULE_MEAN;
  const struct dataset *const tests[N_TEST_SETS] = {[TEST_GLOBAL] = s->test};
  MUST(learner_open(&config, &m->learner) == ERR_OK);
  MUST(learner_attach(m->learner, s->train[i], tests) == ERR_OK);
  m->before = calloc(w->n_values, sizeof *m->before);
  m->sent = calloc(w->n_values, sizeof *m->sent);
  m->bytes = malloc(learner_payload_bound(m->learner));
  MUST(m->before && m->sent && m->bytes);
}

static void member_close(struct member *m) {
  learner_free(m->learner);
  free(m->before);
  free(m->sent);
  free(m->bytes);
}

/* ---- a round ------------------------------------------------------------------------------------------------------- */

static void train(struct world *w, size_t i, uint32_t round) {
  struct member *m = &w->members[i];
  struct train_report report;
  size_t n_bytes;
  memcpy(m->before, learner_values(m->learner), w->n_values * sizeof *m->before);
  if (learner_train(m->learner, round, 0, 1, NULL, &report) != ERR_OK)
    learner_undo(m->learner); /* it is lost already */
  memcpy(m->sent, learner_values(m->learner), w->n_values * sizeof *m->sent);
  MUST(learner_encode(m->learner, true, m->bytes, &n_bytes) == ERR_OK);
  learner_published(m->learner);
}

/* Attackers that know each other send the same where it hangs on none of them. */
static void attack(struct world *w, size_t i, uint32_t round) {
  const struct bad_swarm *s = w->s;
  const float *honest[BAD_SWARM_MOST];
  const size_t first_bad = s->n - s->n_bad;
  struct member *m = &w->members[i];
  const bool is_common = s->attack == ATTACK_ADAPTIVE || s->attack == ATTACK_MEDIAN || s->attack == ATTACK_ALIE;
  if (is_common && i > first_bad) {
    memcpy(m->sent, w->members[first_bad].sent, w->n_values * sizeof *m->sent);
    return;
  }
  for (size_t j = 0; j < first_bad; j++)
    honest[j] = w->members[j].sent;
  const struct attack_view view = {.n_values = w->n_values,
                                   .before = m->before,
                                   .origin = w->origin,
                                   .first = w->first,
                                   .past = round > PAST_ROUNDS ? w->past[round % PAST_ROUNDS] : NULL,
                                   .honest = honest,
                                   .n_honest = first_bad,
                                   .seed = s->seed + round,
                                   .rule = &s->rule,
                                   .n_bad = s->n_bad};
  MUST(attack_send(s->attack, &view, m->sent) == ERR_OK);
}

static void count(struct world *w, size_t i, const struct contribution *c, size_t n) {
  struct bad_swarm_result *r = w->result;
  for (size_t k = 0; k < n; k++) {
    bool is_out = c[k].fate == FATE_LEFT_OUT;
    if (is_bad(w->s, w->members[i].neighbours[k])) {
      r->n_bad++;
      r->n_bad_kept += !is_out;
    } else {
      r->n_good++;
      r->n_good_left_out += is_out;
    }
  }
}

static void merge(struct world *w, size_t i) {
  struct member *m = &w->members[i];
  struct contribution c[BAD_SWARM_MOST];
  for (size_t k = 0; k < m->n_neighbours; k++) {
    size_t j = m->neighbours[k];
    enum err e = learner_copy_set(m->learner, k, w->members[j].bytes, codec_full_bytes(w->n_values));
    double weight = mixing_metropolis((uint32_t)degree_of(w, i), (uint32_t)degree_of(w, j));
    c[k] = (struct contribution){.copy = k, .weight = e ? 0 : weight}; /* what is not finite is refused */
  }
  enum err e = learner_merge(m->learner, c, m->n_neighbours);
  MUST(e == ERR_OK || e == ERR_MERGE_REFUSED);
  if (!is_bad(w->s, i) && e == ERR_OK)
    count(w, i, c, m->n_neighbours);
}

static void find_origin(struct world *w) {
  const size_t n_good = w->s->n - w->s->n_bad;
  for (size_t k = 0; k < w->n_values; k++) {
    double sum = 0;
    for (size_t i = 0; i < n_good; i++)
      sum += (double)w->members[i].before[k];
    w->origin[k] = (float)(sum / (double)n_good);
  }
}

static void run_round(struct world *w, uint32_t round) {
  const struct bad_swarm *s = w->s;
  for (size_t i = 0; i < s->n; i++)
    train(w, i, round);
  find_origin(w);
  for (size_t i = s->n - s->n_bad; i < s->n; i++)
    attack(w, i, round);
  if (s->n_bad > 0)
    memcpy(w->past[round % PAST_ROUNDS], w->members[s->n - 1].sent, w->n_values * sizeof(float));
  for (size_t i = 0; i < s->n; i++)
    codec_write_values(w->members[i].sent, w->n_values, w->members[i].bytes);
  for (size_t i = 0; i < s->n; i++)
    merge(w, i);
}

/* ---- the whole ------------------------------------------------------------------------------------------------------ */

static double accuracy_of(struct member *m) {
  struct metrics metrics;
  if (learner_evaluate(m->learner, TEST_GLOBAL, NULL, &metrics) != ERR_OK)
    return 0;
  double accuracy = metrics.accuracy;
  metrics_done(&metrics);
  return isfinite(accuracy) ? accuracy : 0;
}

static void judge(struct world *w) {
  const size_t n_good = w->s->n - w->s->n_bad;
  struct bad_swarm_result *r = w->result;
  float *mean = calloc(w->n_values, sizeof *mean);
  MUST(mean);
  r->worst = 1;
  for (size_t i = 0; i < n_good; i++) {
    double accuracy = accuracy_of(&w->members[i]);
    r->mean += accuracy / (double)n_good;
    r->worst = fmin(r->worst, accuracy);
    for (size_t k = 0; k < w->n_values; k++)
      mean[k] += learner_values(w->members[i].learner)[k] / (float)n_good;
  }
  if (learner_go_on_from(w->members[0].learner, mean, false) == ERR_OK)
    r->of_mean = accuracy_of(&w->members[0]);
  free(mean);
}

void bad_swarm_run(const struct bad_swarm *s, struct bad_swarm_result *out_result) {
  struct world w = {.s = s, .n_values = schema_parameters(s->schema), .result = out_result};
  *out_result = (struct bad_swarm_result){0};
  for (size_t i = s->n - s->n_bad; i < s->n; i++)
    attack_on_data(s->attack, s->train[i], s->row_inputs);
  for (size_t i = 0; i < s->n; i++)
    member_open(&w, i);
  w.first = calloc(w.n_values, sizeof *w.first);
  w.origin = calloc(w.n_values, sizeof *w.origin);
  MUST(w.first && w.origin);
  memcpy(w.first, learner_values(w.members[0].learner), w.n_values * sizeof *w.first);
  for (size_t k = 0; k < PAST_ROUNDS; k++)
    MUST((w.past[k] = calloc(w.n_values, sizeof(float))) != NULL);
  for (uint32_t round = 1; round <= s->rounds; round++)
    run_round(&w, round);
  judge(&w);
  for (size_t i = 0; i < s->n; i++)
    member_close(&w.members[i]);
  for (size_t k = 0; k < PAST_ROUNDS; k++)
    free(w.past[k]);
  free(w.origin);
  free(w.first);
}
