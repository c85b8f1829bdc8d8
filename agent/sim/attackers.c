#include "agent/sim/attackers.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "models/floats.h"
#include "models/learner.h"

enum { PAST_ROUNDS = 5 };

struct seat {
  struct trainer_tamper tamper;
  struct attackers *all;
  size_t agent;
  float *before, *after;    /* [P] its last training; NULL: nobody looks */
  float *past[PAST_ROUNDS]; /* [P] what it sent, of an attacker that replays it */
  uint64_t n_trained;
};

struct attackers {
  struct attackers_config config;
  struct seat *seats;   /* [n_agents] */
  float *first;         /* [P] */
  float *origin;        /* [P] room for an attack */
  float *made;          /* [P] */
  const float **honest; /* [n_agents] */
  bool has_first;
};

bool attackers_has(const struct attackers *a, size_t agent) {
  return agent >= a->config.n_agents - a->config.n_bad;
}

/* ---- data --------------------------------------------------------------------------------------------------------- */

static void renumber(struct dataset *d, size_t by) {
  size_t n_classes = d->n_classes;
  uint32_t *counts = calloc(n_classes + 1, sizeof *counts);
  MUST(counts != NULL && d->labels != NULL);
  for (size_t i = 0; i < d->n; i++)
    d->labels[i] = (uint16_t)((d->labels[i] + by) % n_classes);
  for (size_t i = 0; i < d->n; i++)
    counts[d->labels[i]]++;
  for (size_t c = 0; c < n_classes && d->class_counts; c++)
    d->class_counts[c] = counts[c];
  free(counts);
}

static void on_samples(void *context, struct dataset *set, bool is_train) {
  const struct seat *s = context;
  const struct attackers_config *c = &s->all->config;
  if (c->n_groups > 1 && s->agent % c->n_groups > 0)
    renumber(set, s->agent % c->n_groups);
  if (is_train && attackers_has(s->all, s->agent) && attack_is_on_data(c->attack)) {
    attack_on_data(c->attack, set, c->row_inputs);
    renumber(set, 0);
  }
}

/* ---- models ------------------------------------------------------------------------------------------------------- */

static void on_begin(void *context, const struct learner *l) {
  struct seat *s = context;
  struct attackers *a = s->all;
  const size_t n_bytes = a->config.n_values * sizeof(float);
  if (!s->before)
    return;
  memcpy(s->before, learner_values(l), n_bytes);
  if (!a->has_first)
    memcpy(a->first, s->before, n_bytes);
  a->has_first = true;
}

/* The mean of what honest ones were before their last training. */
static void find_origin(struct attackers *a, size_t n_honest) {
  const size_t n = a->config.n_agents - a->config.n_bad;
  for (size_t k = 0; k < a->config.n_values; k++) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
      if (a->seats[i].n_trained > 0)
        sum += (double)a->seats[i].before[k];
    a->origin[k] = (float)(sum / (double)n_honest);
  }
}

static size_t find_honest(struct attackers *a) {
  size_t n_honest = 0;
  for (size_t i = 0; i < a->config.n_agents - a->config.n_bad; i++)
    if (a->seats[i].n_trained > 0)
      a->honest[n_honest++] = a->seats[i].after;
  return n_honest;
}

/* Before any honest one has trained there is nothing to go against. */
static enum err send_other(struct seat *s, struct learner *l, uint64_t round) {
  struct attackers *a = s->all;
  const size_t n_honest = find_honest(a), n_bytes = a->config.n_values * sizeof(float);
  float **past = &s->past[s->n_trained % PAST_ROUNDS];
  if (n_honest == 0)
    return ERR_OK;
  find_origin(a, n_honest);
  memcpy(a->made, learner_values(l), n_bytes);
  const struct attack_view view = {.n_values = a->config.n_values,
                                   .before = s->before,
                                   .origin = a->origin,
                                   .first = a->first,
                                   .past = s->n_trained > PAST_ROUNDS ? *past : NULL,
                                   .honest = a->honest,
                                   .n_honest = n_honest,
                                   .seed = a->config.seed + round,
                                   .rule = &a->config.rule,
                                   .n_bad = a->config.n_bad};
  enum err e = attack_send(a->config.attack, &view, a->made);
  if (e == ERR_OK && *past)
    memcpy(*past, a->made, n_bytes);
  return e == ERR_OK ? learner_go_on_from(l, a->made, false) : e;
}

static enum err on_end(void *context, struct learner *l, uint64_t round) {
  struct seat *s = context;
  if (!s->before)
    return ERR_OK;
  s->n_trained++;
  if (attackers_has(s->all, s->agent))
    return send_other(s, l, round);
  memcpy(s->after, learner_values(l), s->all->config.n_values * sizeof *s->after);
  return ERR_OK;
}

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

static bool open_seat(struct attackers *a, size_t agent) {
  const struct attackers_config *c = &a->config;
  struct seat *s = &a->seats[agent];
  const bool sends_other = c->n_bad > 0 && c->attack != ATTACK_NONE && !attack_is_on_data(c->attack);
  bool is_whole = true;
  *s = (struct seat){.all = a, .agent = agent, .tamper = {s, on_samples, on_begin, on_end}};
  if (!sends_other)
    return true;
  is_whole = (s->before = floats_new(c->n_values)) != NULL;
  if (!attackers_has(a, agent))
    return (s->after = floats_new(c->n_values)) != NULL && is_whole;
  for (size_t i = 0; i < PAST_ROUNDS && c->attack == ATTACK_REPLAY; i++)
    is_whole = (s->past[i] = floats_new(c->n_values)) != NULL && is_whole;
  return is_whole;
}

enum err attackers_new(const struct attackers_config *config, struct attackers **out_attackers) {
  struct attackers *a = calloc(1, sizeof *a);
  if (!a)
    return ERR_NO_MEMORY;
  a->config = *config;
  a->seats = calloc(config->n_agents + 1, sizeof *a->seats);
  a->honest = calloc(config->n_agents + 1, sizeof *a->honest);
  a->first = floats_new(config->n_values);
  a->origin = floats_new(config->n_values);
  a->made = floats_new(config->n_values);
  bool is_whole = a->seats && a->honest && a->first && a->origin && a->made;
  for (size_t i = 0; i < config->n_agents && is_whole; i++)
    is_whole = open_seat(a, i);
  if (!is_whole) {
    attackers_free(a);
    return ERR_NO_MEMORY;
  }
  *out_attackers = a;
  return ERR_OK;
}

void attackers_free(struct attackers *a) {
  if (!a)
    return;
  for (size_t i = 0; i < a->config.n_agents && a->seats; i++) {
    free(a->seats[i].before);
    free(a->seats[i].after);
    for (size_t k = 0; k < PAST_ROUNDS; k++)
      free(a->seats[i].past[k]);
  }
  free(a->seats);
  free(a->honest);
  free(a->first);
  free(a->origin);
  free(a->made);
  free(a);
}

const struct trainer_tamper *attackers_tamper(const struct attackers *a, size_t agent) {
  return a->config.n_bad > 0 || a->config.n_groups > 1 ? &a->seats[agent].tamper : NULL;
}
