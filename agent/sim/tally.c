#include "agent/sim/tally.h"

#include <stdlib.h>

#include "base/must.h"

static void on_row(struct sim_tally_row *r, const struct store_contribution *c) {
  r->n_merged += c->reason == ERR_OK;
  r->n_left_out += c->reason != ERR_OK;
  r->n_reasons[c->reason] += c->reason != ERR_OK;
  if (c->reason != ERR_OK || c->arrival_ms < 0)
    return;
  r->n_arrivals++;
  r->arrivals_ms += (uint64_t)c->arrival_ms;
}

/* Index of the peer that came last after our own update; SIZE_MAX: all were there. */
static size_t last_peer(const struct store_commitment *c) {
  size_t last = SIZE_MAX;
  int64_t last_ms = 0;
  for (size_t i = 0; i < c->n_contributions; i++)
    if (c->contributions[i].reason == ERR_OK && c->contributions[i].arrival_ms > last_ms) {
      last = i;
      last_ms = c->contributions[i].arrival_ms;
    }
  return last;
}

void sim_tally_add(struct sim_tally *t, const struct sim_agent *a, const struct store_commitment *c) {
  if (a->number >= t->n)
    return; /* a clone */
  struct sim_tally_row *own = &t->rows[a->number];
  uint64_t *counts[] = {[ROUND_MERGED] = &own->n_rounds,
                        [ROUND_SHORT] = &own->n_short,
                        [ROUND_JUMPED] = &own->n_jumps,
                        [ROUND_MERGE_REFUSED] = &own->n_short,
                        [ROUND_ADOPTED] = &own->n_jumps};
  MUST((size_t)c->outcome < sizeof counts / sizeof *counts);
  ++*counts[c->outcome];
  own->first_ms = own->first_ms ? own->first_ms : a->sim->now_ms;
  own->last_ms = a->sim->now_ms;
  own->sent_bytes += c->sent_bytes;
  own->received_bytes += c->received_bytes;
  own->has_headline = c->metrics.has_global || c->metrics.has_local;
  own->headline = c->metrics.has_global ? c->metrics.global_headline : c->metrics.local_headline;
  for (size_t i = 0; i < a->n_peers; i++)
    if (a->peers[i].agent < t->n)
      on_row(&t->rows[a->peers[i].agent], &c->contributions[i]);
  size_t last = last_peer(c);
  if (last != SIZE_MAX && a->peers[last].agent < t->n)
    t->rows[a->peers[last].agent].n_last++;
}

static void on_committed(void *context, const struct sim_agent *a, const struct store_commitment *c) {
  sim_tally_add(context, a, c);
}

void sim_tally_watch(struct sim_tally *t, struct sim *s) {
  *t = (struct sim_tally){calloc(s->n_agents + 1, sizeof *t->rows), s->n_agents};
  MUST(t->rows != NULL);
  s->watch.context = t;
  s->watch.committed = on_committed;
}

void sim_tally_done(struct sim_tally *t) {
  free(t->rows);
  *t = (struct sim_tally){0};
}

double sim_tally_round_s(const struct sim_tally_row *r) {
  uint64_t n = r->n_rounds + r->n_short + r->n_jumps;
  return n > 1 ? (double)(r->last_ms - r->first_ms) / 1000 / (double)(n - 1) : 0;
}

double sim_tally_arrival_s(const struct sim_tally_row *r) {
  return r->n_arrivals > 0 ? (double)r->arrivals_ms / 1000 / (double)r->n_arrivals : 0;
}

enum err sim_tally_reason(const struct sim_tally_row *r) {
  size_t most = 0;
  for (size_t i = 1; i < ERR_COUNT; i++)
    if (r->n_reasons[i] > r->n_reasons[most])
      most = i;
  return (enum err)most;
}
