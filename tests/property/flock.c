#include "tests/property/flock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "crypto/random.h"

struct flock_story *flock_story(const struct sim_agent *a) {
  MUST(a->number < FLOCK_MAX);
  return &((struct flock_story *)a->sim->watch.context)[a->number];
}

/* ---- watching ---- */

static void on_broken(void *context, const struct sim_agent *a, enum sim_invariant i) {
  (void)context;
  ck_abort_msg("agent %zu at %llu ms: %s: not true that %s", a->number, (unsigned long long)a->sim->now_ms,
               sim_invariant_name(i), sim_invariant_sentence(i));
}

static void on_committed(void *context, const struct sim_agent *a, const struct store_commitment *c) {
  struct flock_story *story = flock_story(a);
  (void)context;
  HOLDS(story->n_told < FLOCK_STORY);
  struct flock_told *t = &story->told[story->n_told++];
  *t = (struct flock_told){.label = c->label, .outcome = c->outcome, .at_ms = a->sim->now_ms};
  memcpy(&t->model, c->model, sizeof t->model);
  for (size_t i = 0; i < FLOCK_MAX; i++)
    t->reasons[i] = ERR_UNKNOWN_KEY;
  for (size_t i = 0; i < a->n_peers; i++) {
    const struct store_contribution *row = &c->contributions[i];
    size_t who = a->peers[i].agent;
    t->n_merged += row->reason == ERR_OK;
    t->reasons[who] = row->reason;
    t->lags[who] = row->lag;
    t->weights[who] = row->weight;
    t->arrivals_ms[who] = row->arrival_ms;
  }
}

static void on_noted(void *context, const struct sim_agent *a, const char *name, size_t about, const char *text) {
  struct flock_story *story = flock_story(a);
  (void)context;
  if (strcmp(name, "round-committed") == 0) /* the story has it */
    return;
  HOLDS(story->n_notes < FLOCK_NOTES);
  struct flock_note *note = &story->notes[story->n_notes++];
  *note = (struct flock_note){.about = about, .at_ms = a->sim->now_ms};
  snprintf(note->name, sizeof note->name, "%s", name);
  snprintf(note->text, sizeof note->text, "%s", text);
}

/* ---- making ---- */

struct sim *flock_new(size_t n, size_t dims) {
  struct flock_story *stories = calloc(FLOCK_MAX, sizeof *stories);
  MUST(stories != NULL && n <= FLOCK_MAX);
  for (size_t i = 0; i < FLOCK_MAX; i++) {
    stories[i].told = calloc(FLOCK_STORY, sizeof *stories[i].told);
    stories[i].notes = calloc(FLOCK_NOTES, sizeof *stories[i].notes);
    MUST(stories[i].told && stories[i].notes);
  }
  HOLDS(random_open() == ERR_OK);
  struct sim *f = sim_new(n, dims, 0);
  f->watch = (struct sim_watch){.context = stories, .broken = on_broken, .committed = on_committed, .noted = on_noted};
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < n; k++)
      if (k != i)
        sim_learn(f, i, k);
  return f;
}

void flock_free(struct sim *f) {
  struct flock_story *stories = f->watch.context;
  sim_free(f);
  for (size_t i = 0; i < FLOCK_MAX; i++) {
    free(stories[i].told);
    free(stories[i].notes);
  }
  free(stories);
}

/* ---- time ---- */

bool flock_until_round(struct sim *f, size_t which, uint64_t round, uint64_t limit_ms) {
  uint64_t until_ms = f->now_ms + limit_ms;
  while (f->agents[which]->durable.committed.round < round)
    if (!sim_step(f, until_ms))
      return false;
  return true;
}

bool flock_until_phase(struct sim *f, size_t which, enum phase phase, uint64_t limit_ms) {
  uint64_t until_ms = f->now_ms + limit_ms;
  while (f->agents[which]->machine->phase != phase)
    if (!sim_step(f, until_ms))
      return false;
  return true;
}

/* ---- asking ---- */

struct round_label flock_committed(const struct sim *f, size_t which) {
  return f->agents[which]->durable.committed;
}

enum phase flock_phase(const struct sim *f, size_t which) {
  struct round_view v;
  round_view(f->agents[which]->machine, &v);
  return v.phase;
}

size_t flock_noted(const struct sim *f, size_t which, const char *name) {
  size_t n = 0;
  for (size_t i = 0; i < flock_story(f->agents[which])->n_notes; i++)
    n += strcmp(flock_story(f->agents[which])->notes[i].name, name) == 0;
  return n;
}

const struct flock_note *flock_last_note(const struct sim *f, size_t which, const char *name) {
  const struct sim_agent *a = f->agents[which];
  for (size_t i = flock_story(a)->n_notes; i-- > 0;)
    if (strcmp(flock_story(a)->notes[i].name, name) == 0)
      return &flock_story(a)->notes[i];
  ck_abort_msg("agent %zu never noted %s", which, name);
}

const struct flock_told *flock_told(const struct sim *f, size_t which, size_t from_end) {
  HOLDS(flock_story(f->agents[which])->n_told > from_end);
  return &flock_story(f->agents[which])->told[flock_story(f->agents[which])->n_told - 1 - from_end];
}

size_t flock_count_reason(const struct sim *f, size_t which, size_t first_told, size_t about, enum err reason) {
  size_t n = 0;
  for (size_t i = first_told; i < flock_story(f->agents[which])->n_told; i++)
    n += flock_story(f->agents[which])->told[i].reasons[about] == reason;
  return n;
}

enum err flock_standing(const struct sim *f, size_t which, size_t about) {
  struct round_peer_view v;
  round_peer_view(f->agents[which]->machine, sim_peer_index(f->agents[which], about), &v);
  return v.standing;
}

uint64_t flock_dropped(const struct sim *f, size_t which, size_t about, enum err reason) {
  struct gossip_peer_info info;
  gossip_peer_info(f->agents[which]->node, sim_peer_index(f->agents[which], about), &info);
  return info.drops[err_drop_index(reason)];
}

double flock_spread(const struct sim *f) {
  double spread = 0;
  for (size_t i = 0; i < f->dims; i++) {
    double sum = 0, n = 0;
    for (size_t k = 0; k < f->n_agents; k++)
      if (f->agents[k]->is_alive) {
        sum += ((const double *)(const void *)f->agents[k]->durable.model.bytes)[i];
        n++;
      }
    for (size_t k = 0; k < f->n_agents; k++)
      if (f->agents[k]->is_alive) {
        double d = ((const double *)(const void *)f->agents[k]->durable.model.bytes)[i] - sum / n;
        spread = d > spread ? d : -d > spread ? -d : spread;
      }
  }
  return spread;
}
