#include <stdlib.h>
#include <string.h>

#include "agent/sim/parts.h"
#include "agent/sim/sums.h"
#include "base/must.h"

static size_t model_bytes(const struct sim_agent *a) {
  return a->sim->dims * sizeof(double);
}

bool sim_has_sums(const struct sim_agent *a) {
  return sim_config(a)->is_push_sum;
}

void sim_push_sum(struct sim *s) {
  MUST(s->n_tail == 0);
  s->n_tail = s->n_agents * sizeof(double);
  s->payload_bytes += s->n_tail;
  s->config.is_push_sum = true;
  s->config.link_bytes = s->config.full_bytes = (size_t)s->payload_bytes;
}

void sim_sums_open(struct sim_agent *a) {
  if (!sim_has_sums(a))
    return;
  mass_done(&a->mass);
  MUST(mass_open(a->n_peers, a->sim->n_agents, &a->mass) == ERR_OK);
  for (size_t i = 0; i < a->n_peers; i++)
    a->mass.edges[i].peer = a->sim->agents[a->peers[i].agent]->key;
}

/* ---- snapshots: the account, and the sums that were taken of peers in its order ---- */

size_t sim_sums_bytes(const struct sim_agent *a) {
  size_t n_sums = 0;
  for (size_t i = 0; sim_has_sums(a) && i < a->n_peers; i++)
    n_sums += a->mass.edges[i].has_base;
  return sim_has_sums(a) ? mass_bytes(&a->mass) + n_sums * model_bytes(a) : 0;
}

void sim_sums_write(const struct sim_agent *a, uint8_t *out_bytes) {
  if (!sim_has_sums(a))
    return;
  mass_write(&a->mass, out_bytes);
  out_bytes += mass_bytes(&a->mass);
  for (size_t i = 0; i < a->n_peers; i++) {
    if (!a->mass.edges[i].has_base)
      continue;
    memcpy(out_bytes, a->peers[i].copy, model_bytes(a));
    out_bytes += model_bytes(a);
  }
}

void sim_sums_read(struct sim_agent *a, const uint8_t *bytes, size_t n_bytes) {
  if (!sim_has_sums(a) || n_bytes == 0)
    return;
  size_t n_mass = mass_measure(bytes, n_bytes);
  MUST(n_mass > 0 && mass_read(&a->mass, bytes, n_mass) == ERR_OK);
  for (size_t i = 0; i < a->n_peers; i++) {
    size_t at = mass_sum_of(bytes, n_mass, &a->mass.edges[i].peer);
    if (at != SIZE_MAX)
      memcpy(a->peers[i].copy, bytes + n_mass + at * model_bytes(a), model_bytes(a));
  }
}

/* ---- giving ---- */

static void push(const struct sim_agent *a, const struct push *p, double *out_sum) {
  for (size_t i = 0; i < a->sim->dims; i++) {
    out_sum[i] = a->copy[i] + (p->n_told > 0 ? p->amount * a->x[i] : 0);
    if (p->n_told > 0)
      a->x[i] = (p->mass * a->x[i] - (double)p->n_told * (out_sum[i] - a->copy[i])) / p->rest;
  }
}

struct buffer sim_sums_push(struct sim_agent *a, const struct trainer_job *job) {
  bool *nobody = calloc(a->n_peers + 1, sizeof *nobody);
  MUST(nobody != NULL);
  if (job->begins_anew)
    mass_begin_anew(&a->mass, job->account);
  if (a->mass.account == 0)
    a->mass.account = job->account;
  const struct push p = mass_push(&a->mass, job->told ? job->told : nobody);
  free(nobody);
  push(a, &p, a->pending);
  size_t held = sim_held(a->sim, a->sim->payload_bytes);
  struct buffer b = {calloc(1, held), held};
  MUST(b.bytes != NULL);
  memcpy(b.bytes, a->pending, model_bytes(a));
  double *told = (double *)(void *)(b.bytes + model_bytes(a));
  told[a->number] = (double)a->mass.account; /* in one's own place: 2^53 starts are never reached */
  for (size_t i = 0; i < a->n_peers; i++)
    told[a->peers[i].agent] = a->mass.edges[i].told;
  return b;
}

void sim_sums_take_back(struct sim_agent *a) {
  const struct push p = mass_take_back(&a->mass);
  for (size_t i = 0; i < a->sim->dims && p.n_told > 0; i++)
    a->x[i] = (p.rest * a->x[i] + (double)p.n_told * (a->pending[i] - a->copy[i])) / p.mass;
}

/* ---- taking ---- */

enum err sim_sums_take(struct sim_agent *a, size_t peer, const struct link_in *link, bool *out_is_taken) {
  const double *values = (const double *)(const void *)link->payload, *tail = values + a->sim->dims;
  const struct mass_claim claim = {.sum = link->manifest.mu,
                                   .told = tail[a->number],
                                   .account = (uint64_t)tail[a->peers[peer].agent],
                                   .sequence = link->manifest.sequence};
  struct mass_taken taken;
  double before = a->mass.mu;
  enum err e = mass_take(&a->mass, peer, &claim, &taken);
  *out_is_taken = e == ERR_OK && taken.what != MASS_NOTHING;
  if (!*out_is_taken)
    return e;
  for (size_t i = 0; i < a->sim->dims; i++) {
    a->x[i] = (before * a->x[i] + taken.share * (values[i] - a->peers[peer].copy[i])) / a->mass.mu;
    a->peers[peer].copy[i] = values[i];
  }
  return ERR_OK;
}

/* ---- the mass of all ---- */

/* What it is or, of one that does not run, what it will be: false: nothing. The caller ends it. */
static bool account_of(const struct sim_agent *a, struct mass *out) {
  const struct sim_durable *d = &a->durable;
  const struct buffer *from = d->is_gathering ? &d->half : &d->model;
  size_t at = (d->is_gathering ? 2 : 1) * model_bytes(a);
  bool is_live = a->is_alive && a->mass.edges;
  if (!is_live && from->n_bytes <= at)
    return false;
  size_t n = is_live ? mass_bytes(&a->mass) : mass_measure(from->bytes + at, from->n_bytes - at);
  uint8_t *bytes = malloc(n + 1);
  MUST(bytes != NULL && mass_open(a->n_peers, a->sim->n_agents, out) == ERR_OK);
  for (size_t i = 0; i < a->n_peers; i++)
    out->edges[i].peer = a->sim->agents[a->peers[i].agent]->key;
  if (is_live)
    mass_write(&a->mass, bytes);
  else
    memcpy(bytes, from->bytes + at, n);
  MUST(mass_read(out, bytes, n) == ERR_OK);
  free(bytes);
  return true;
}

static double on_its_way(const struct sim *s, const struct mass *all, size_t from, size_t to) {
  size_t there = sim_peer_index(s->agents[from], to), here = sim_peer_index(s->agents[to], from);
  if (there == SIZE_MAX || here == SIZE_MAX || !all[from].edges || !all[to].edges)
    return 0;
  const struct mass_edge *e = &all[to].edges[here];
  bool is_one = e->has_base && e->account == all[from].account;
  return is_one ? all[from].edges[there].told - e->taken : 0;
}

double sim_mass(const struct sim *s, size_t *out_n) {
  struct mass *all = calloc(s->n_agents + 1, sizeof *all);
  double sum = 0;
  MUST(all != NULL);
  *out_n = 0;
  for (size_t i = 0; i < s->n_agents; i++)
    *out_n += account_of(s->agents[i], &all[i]);
  for (size_t i = 0; i < s->n_agents; i++) {
    sum += all[i].edges ? all[i].mu : 0;
    for (size_t k = 0; k < s->n_agents; k++)
      sum += k != i ? on_its_way(s, all, i, k) : 0;
  }
  for (size_t i = 0; i < s->n_agents; i++)
    mass_done(&all[i]);
  free(all);
  return sum;
}
