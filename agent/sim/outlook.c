#include "agent/sim/outlook.h"

#include <stdlib.h>
#include <string.h>

#include "agent/sim/tally.h"
#include "base/must.h"
#include "models/merging/mixing.h"

enum { RING_DEGREE = 2, MS_PER_S = 1000, BYTES_PER_KIB = 1024 };

/* ---- the scenario ---- */

static uint64_t smaller(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static unsigned topology_of(uint64_t n_agents, uint64_t degree) {
  if (degree + 1 >= n_agents)
    return TOPOLOGY_FULL;
  return degree <= RING_DEGREE ? TOPOLOGY_RING : TOPOLOGY_RANDOM;
}

static uint64_t n_slow(const struct outlook_order *o, uint64_t n) {
  uint64_t slow = (uint64_t)(o->slow_share * (double)n + 0.5);
  return o->slow_share > 0 && slow == 0 ? 1 : smaller(slow, n);
}

/* The line of a site is what all its links share. */
static struct scenario scenario_of(const struct outlook_order *o, uint64_t n, struct scenario_hosts *slow) {
  struct scenario c = {.seed = o->seed,
                       .n_agents = n,
                       .topology = topology_of(n, o->degree),
                       .fidelity = SIM_PROTOCOL,
                       .degree = o->degree,
                       .rounds = OUTLOOK_ROUNDS,
                       .duration_s = 1e9,
                       .round = o->round};
  c.model_kib = (o->payload_bytes + BYTES_PER_KIB - 1) / BYTES_PER_KIB;
  c.link.delay_ms = o->delay_ms;
  c.host = (struct scenario_host){.speed = 1,
                                  .up_kbit = o->rate_kbit,
                                  .down_kbit = o->rate_kbit,
                                  .loading_ms = 100,
                                  .training_ms = (uint64_t)(o->training_s * MS_PER_S) + 1,
                                  .merging_ms = 5,
                                  .writing_ms = 20,
                                  .samples = 1000};
  *slow = (struct scenario_hosts){{n - n_slow(o, n), n - 1}, c.host};
  slow->host.speed = o->slow_speed;
  c.hosts = slow;
  c.n_hosts = n_slow(o, n) > 0;
  return c;
}

/* ---- watching ---- */

struct watching {
  struct sim_tally tally;
  uint64_t *last_ms; /* [n] */
  double *rounds;    /* [n][OUTLOOK_ROUNDS], seconds */
  size_t *n_rounds;  /* [n] */
};

static void on_committed(void *context, const struct sim_agent *a, const struct store_commitment *c) {
  struct watching *w = context;
  sim_tally_add(&w->tally, a, c);
  uint64_t now_ms = a->sim->now_ms, last_ms = w->last_ms[a->number];
  w->last_ms[a->number] = now_ms;
  if (c->label.round <= OUTLOOK_WARM_UP || w->n_rounds[a->number] == OUTLOOK_ROUNDS)
    return;
  w->rounds[a->number * OUTLOOK_ROUNDS + w->n_rounds[a->number]++] = (double)(now_ms - last_ms) / MS_PER_S;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median and 95th percentile of the rounds of agents first … last. */
static void quantiles(const struct watching *w, size_t first, size_t last, double *out_median, double *out_p95) {
  double *all = calloc((last - first + 1) * OUTLOOK_ROUNDS + 1, sizeof *all);
  size_t n = 0;
  MUST(all != NULL);
  for (size_t i = first; i <= last; i++)
    for (size_t k = 0; k < w->n_rounds[i]; k++)
      all[n++] = w->rounds[i * OUTLOOK_ROUNDS + k];
  qsort(all, n, sizeof *all, by_value);
  *out_median = n > 0 ? all[n / 2] : 0;
  *out_p95 = n > 0 ? all[n * 95 / 100] : 0;
  free(all);
}

static struct outlook_row row_of(const struct watching *w, size_t first, size_t n) {
  struct outlook_row r = {.n_agents = n};
  uint64_t n_merged = 0, n_left_out = 0, n_last = 0, n_arrivals = 0, arrivals_ms = 0;
  if (n == 0)
    return r;
  quantiles(w, first, first + n - 1, &r.round_s, &r.round_p95_s);
  for (size_t i = first; i < first + n; i++) {
    const struct sim_tally_row *t = &w->tally.rows[i];
    n_merged += t->n_merged;
    n_left_out += t->n_left_out;
    n_last += t->n_last;
    n_arrivals += t->n_arrivals;
    arrivals_ms += t->arrivals_ms;
  }
  r.left_out = n_merged + n_left_out > 0 ? (double)n_left_out / (double)(n_merged + n_left_out) : 0;
  r.last = n_merged > 0 ? (double)n_last / (double)n_merged : 0;
  r.arrival_s = n_arrivals > 0 ? (double)arrivals_ms / MS_PER_S / (double)n_arrivals : 0;
  return r;
}

/* ---- agreeing ---- */

struct mixing_of {
  const struct sim *sim;
  double gamma;
};

static void mix(const void *context, const double *x, double *out) {
  const struct mixing_of *m = context;
  const struct sim *s = m->sim;
  for (size_t i = 0; i < s->n_agents; i++) {
    const struct sim_agent *a = s->agents[i];
    out[i] = x[i];
    for (size_t k = 0; k < a->n_peers; k++) {
      const struct sim_agent *b = s->agents[a->peers[k].agent];
      out[i] += m->gamma * mixing_metropolis((uint32_t)a->n_peers, (uint32_t)b->n_peers) * (x[b->number] - x[i]);
    }
  }
}

/* It begins with what changes slowest around the ring that every topology of a scenario contains: a triangle wave. */
static double second_eigenvalue_squared(const struct sim *s, double gamma) {
  const struct mixing_of of = {s, gamma};
  size_t n = s->n_agents;
  double *x = calloc(2 * n + 1, sizeof *x);
  MUST(x != NULL);
  for (size_t i = 0; i < n; i++)
    x[i] = (double)(2 * i < n ? i : n - i) + 0.01 * (double)(i % 7);
  double squared = mixing_second_eigenvalue_squared(mix, &of, n, x);
  free(x);
  return squared;
}

/* Rounds until l^n ≤ 1/100, where that share of the updates comes too late to be mixed in. */
static uint64_t rounds_to_agree(const struct outlook_order *o, double left_out) {
  static const double squared = 1e-4;
  struct scenario_hosts slow;
  struct scenario c = scenario_of(o, o->n_agents, &slow);
  c.model_kib = 1;
  c.n_hosts = 0;
  struct sim *s = scenario_sim(&c);
  double ratio = second_eigenvalue_squared(s, o->gamma * (1 - left_out)), left = 1;
  uint64_t n = 0;
  for (; left > squared && n < MAX_OUTLOOK_ROUNDS; n++)
    left *= ratio;
  sim_free(s);
  return n;
}

/* ---- together ---- */

struct outlook outlook_of(const struct outlook_order *o) {
  uint64_t wanted = o->degree + 4 > OUTLOOK_SIMULATED ? o->degree + 4 : OUTLOOK_SIMULATED;
  uint64_t n = smaller(o->n_agents, wanted);
  struct scenario_hosts slow;
  struct scenario c = scenario_of(o, n, &slow);
  struct sim *s = scenario_sim(&c);
  s->config.payload_max_bytes = o->payload_max_bytes;
  struct watching w = {.last_ms = calloc((size_t)n + 1, sizeof(uint64_t)),
                       .rounds = calloc((size_t)(n + 1) * OUTLOOK_ROUNDS, sizeof(double)),
                       .n_rounds = calloc((size_t)n + 1, sizeof(size_t))};
  MUST(w.last_ms != NULL && w.rounds != NULL && w.n_rounds != NULL);
  sim_tally_watch(&w.tally, s);
  s->watch.context = &w;
  s->watch.committed = on_committed;
  scenario_run(&c, s, NULL);
  struct outlook out = {.n_simulated = n};
  double sent = 0, n_commits = 0;
  for (size_t i = 0; i < n; i++) {
    sent += (double)w.tally.rows[i].sent_bytes;
    n_commits += (double)(w.tally.rows[i].n_rounds + w.tally.rows[i].n_short + w.tally.rows[i].n_jumps);
  }
  uint64_t ordinary = n - n_slow(o, n);
  out.rows[OUTLOOK_ORDINARY] = row_of(&w, 0, (size_t)ordinary);
  out.rows[OUTLOOK_SLOW] = row_of(&w, (size_t)ordinary, (size_t)(n - ordinary));
  quantiles(&w, 0, (size_t)n - 1, &out.round_s, &out.round_p95_s);
  out.left_out = row_of(&w, 0, (size_t)n).left_out;
  out.consensus_rounds = rounds_to_agree(o, out.left_out);
  out.round_bytes = n_commits > 0 ? sent / n_commits : 0;
  out.training_share = out.round_s > 0 ? o->training_s / out.round_s : 0;
  out.consensus_s = (double)out.consensus_rounds * out.round_s;
  sim_tally_done(&w.tally);
  free(w.last_ms);
  free(w.rounds);
  free(w.n_rounds);
  sim_free(s);
  return out;
}
