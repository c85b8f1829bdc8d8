#include "agent/core/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/must.h"
#include "base/rng.h"
#include "models/merging/mixing.h"

enum { SWAPS_AN_EDGE = 10, CONNECT_TRIES = 20 };

/* ---- rules -------------------------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  bool has_number, rotates;
} rules[N_GRAPH_RULES] = {
    [GRAPH_PEERS] = {"peers", false, false},
    [GRAPH_FULL] = {"full", false, false},
    [GRAPH_RING] = {"ring", false, false},
    [GRAPH_REGULAR] = {"regular", true, false},
    [GRAPH_EXPONENTIAL] = {"exponential", false, false},
    [GRAPH_RANDOM] = {"random", true, true},
};

const char *graph_rule_name(enum graph_rule rule) {
  return rules[rule].name;
}

bool graph_rule_has_number(enum graph_rule rule) {
  return rules[rule].has_number;
}

void job_topology_write(const struct job_topology *t, char out_text[MAX_TOPOLOGY_TEXT]) {
  if (rules[t->rule].has_number)
    snprintf(out_text, MAX_TOPOLOGY_TEXT, "%s %u", rules[t->rule].name, t->k);
  else
    snprintf(out_text, MAX_TOPOLOGY_TEXT, "%s", rules[t->rule].name);
}

bool job_topology_rotates(const struct job_topology *t) {
  return rules[t->rule].rotates;
}

enum err job_topology_check(const struct job_topology *t, size_t n_agents, char out_why[MAX_REASON_BYTES]) {
  char text[MAX_TOPOLOGY_TEXT];
  job_topology_write(t, text);
  if (n_agents <= 1 || !rules[t->rule].has_number)
    return ERR_OK;
  if (t->k >= n_agents) {
    snprintf(out_why, MAX_REASON_BYTES, "%s needs more than %u agents and there are %zu; write at most %s %zu, or full",
             text, t->k, n_agents, rules[t->rule].name, n_agents - 1);
    return ERR_RANGE;
  }
  if (t->rule != GRAPH_REGULAR || t->is_directed)
    return ERR_OK;
  if (t->k == 1 && n_agents > 2) {
    snprintf(out_why, MAX_REASON_BYTES, "%s makes pairs that never hear of each other; write regular 2 or more", text);
    return ERR_RANGE;
  }
  if (t->k % 2 == 1 && n_agents % 2 == 1) {
    snprintf(out_why, MAX_REASON_BYTES,
             "%zu agents cannot have %u neighbours each, both numbers are odd; write regular %u", n_agents, t->k,
             t->k - 1);
    return ERR_RANGE;
  }
  return ERR_OK;
}

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Those 1, 2, 4 … places away; backwards, too, unless it is directed. Some may be one. */
static size_t exponential_degree(const struct job_topology *t, size_t n) {
  size_t degree = 0;
  for (size_t at = 1; at < n; at++) {
    size_t back = n - at;
    degree += (at & (at - 1)) == 0 || (!t->is_directed && (back & (back - 1)) == 0);
  }
  return degree;
}

size_t job_topology_degree(const struct job_topology *t, size_t n_agents) {
  size_t others = n_agents - 1;
  switch (t->rule) {
  case GRAPH_RING:
    return smaller(t->is_directed ? 1 : 2, others);
  case GRAPH_REGULAR:
  case GRAPH_RANDOM:
    return smaller(t->k, others);
  case GRAPH_EXPONENTIAL:
    return exponential_degree(t, n_agents);
  default:
    return others;
  }
}

size_t job_topology_follows(const struct job_topology *t, size_t n_agents) {
  return job_topology_rotates(t) ? n_agents - 1 : job_topology_degree(t, n_agents);
}

uint64_t job_topology_seed(const struct digest *job) {
  struct cursor c;
  cursor_init(&c, job->bytes, sizeof job->bytes);
  return cursor_u64(&c);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------- */

static void hear(struct graph *g, size_t i, size_t j, bool does) {
  g->hears[i * g->n + j] = does;
}

static void join(struct graph *g, size_t i, size_t j, bool does) {
  hear(g, i, j, does);
  hear(g, j, i, does);
}

/* On the circle of all, `step` places forwards. */
static void add_circle(struct graph *g, const struct job_topology *t, size_t step) {
  for (size_t i = 0; i < g->n; i++) {
    size_t to = (i + step) % g->n;
    if (to != i)
      hear(g, to, i, true);
    if (to != i && !t->is_directed)
      hear(g, i, to, true);
  }
}

static void shuffled(struct rng *r, uint32_t *order, size_t n) {
  for (size_t i = 0; i < n; i++)
    order[i] = (uint32_t)i;
  rng_shuffle(r, order, n);
}

struct edge {
  uint32_t a, b;
};

/* The circulant: everybody and who is 1 … ⌊k/2⌋ places on, for an odd k also who is opposite. Returns the number of edges. */
static size_t add_circulant(struct graph *g, const uint32_t *order, size_t k, struct edge *edges) {
  size_t n = g->n, n_edges = 0;
  for (size_t step = 1; step <= k / 2; step++)
    for (size_t i = 0; i < n; i++)
      if (!graph_hears(g, order[i], order[(i + step) % n])) {
        edges[n_edges++] = (struct edge){order[i], order[(i + step) % n]};
        join(g, order[i], order[(i + step) % n], true);
      }
  for (size_t i = 0; k % 2 == 1 && i < n / 2; i++) {
    edges[n_edges++] = (struct edge){order[i], order[i + n / 2]};
    join(g, order[i], order[i + n / 2], true);
  }
  return n_edges;
}

/* a–b and c–d become a–d and c–b, unless that is one agent or an edge that is there. */
static void swap_ends(struct graph *g, struct edge *edges, size_t n_edges, struct rng *r) {
  struct edge *x = &edges[rng_below(r, n_edges)], *y = &edges[rng_below(r, n_edges)];
  struct edge of = *y;
  if (rng_below(r, 2) == 1)
    of = (struct edge){y->b, y->a};
  bool is_one = x->a == of.a || x->a == of.b || x->b == of.a || x->b == of.b;
  if (is_one || graph_hears(g, x->a, of.b) || graph_hears(g, of.a, x->b))
    return;
  join(g, x->a, x->b, false);
  join(g, of.a, of.b, false);
  join(g, x->a, of.b, true);
  join(g, of.a, x->b, true);
  *y = (struct edge){of.a, x->b};
  x->b = of.b;
}

static enum err make_regular(struct graph *g, const struct job_topology *t, struct rng *r) {
  size_t n_most = g->n * t->k / 2 + 1, n_edges;
  bool must_connect = !job_topology_rotates(t);
  uint32_t *order = calloc(g->n, sizeof *order);
  struct edge *edges = calloc(n_most, sizeof *edges);
  enum err e = order && edges ? ERR_OK : ERR_NO_MEMORY;
  if (e != ERR_OK)
    goto out;
  shuffled(r, order, g->n);
  n_edges = add_circulant(g, order, t->k, edges);
  MUST(n_edges <= n_most);
  for (size_t tries = 0; tries < CONNECT_TRIES; tries++) {
    for (size_t i = 0; i < SWAPS_AN_EDGE * n_edges; i++)
      swap_ends(g, edges, n_edges, r);
    if (!must_connect || graph_is_connected(g))
      goto out;
  }
  memset(g->hears, 0, g->n * g->n * sizeof *g->hears);
  (void)add_circulant(g, order, t->k, edges); /* connected, if not as random */
out:
  free(order);
  free(edges);
  return e;
}

/* K circles of all, each in an order of its own: whoever follows oneself in two of them is told once. */
static enum err make_directed(struct graph *g, const struct job_topology *t, struct rng *r) {
  uint32_t *order = calloc(g->n, sizeof *order);
  if (!order)
    return ERR_NO_MEMORY;
  for (size_t k = 0; k < t->k; k++) {
    shuffled(r, order, g->n);
    for (size_t i = 0; i < g->n; i++)
      hear(g, order[(i + 1) % g->n], order[i], true);
  }
  free(order);
  return ERR_OK;
}

static void make_full(struct graph *g) {
  for (size_t i = 0; i < g->n; i++)
    for (size_t j = 0; j < g->n; j++)
      hear(g, i, j, i != j);
}

static enum err make(struct graph *g, const struct job_topology *t, uint64_t seed, uint64_t round) {
  struct rng r;
  rng_init(&r, job_topology_rotates(t) ? rng_mix(seed ^ rng_mix(round)) : seed);
  switch (t->rule) {
  case GRAPH_RING:
    add_circle(g, t, 1);
    return ERR_OK;
  case GRAPH_EXPONENTIAL:
    for (size_t step = 1; step < g->n; step *= 2)
      add_circle(g, t, step);
    return ERR_OK;
  case GRAPH_REGULAR:
  case GRAPH_RANDOM:
    return t->is_directed ? make_directed(g, t, &r) : make_regular(g, t, &r);
  default:
    make_full(g);
    return ERR_OK;
  }
}

enum err graph_make(const struct job_topology *t, size_t n, uint64_t seed, uint64_t round, struct graph *out_graph) {
  struct graph g = {.n = n, .hears = calloc(n * n, sizeof *g.hears)};
  enum err e = g.hears ? ERR_OK : ERR_NO_MEMORY;
  if (e == ERR_OK && n > 1)
    e = make(&g, t, seed, round);
  if (e == ERR_OK)
    *out_graph = g;
  else
    graph_done(&g);
  return e;
}

void graph_done(struct graph *g) {
  free(g->hears);
  g->hears = NULL;
}

size_t graph_out_degree(const struct graph *g, size_t j) {
  size_t n = 0;
  for (size_t i = 0; i < g->n; i++)
    n += graph_hears(g, i, j);
  return n;
}

size_t graph_in_degree(const struct graph *g, size_t i) {
  size_t n = 0;
  for (size_t j = 0; j < g->n; j++)
    n += graph_hears(g, i, j);
  return n;
}

/* ---- what it is like ---------------------------------------------------------------------------------------------- */

/* Whether news of agent 0 come to all, or `backwards` those of all to agent 0: together that is strong connection. */
static bool reaches_all(const struct graph *g, bool backwards) {
  bool seen[MAX_PEERS + 1] = {true};
  size_t stack[MAX_PEERS + 1] = {0}, n_stack = 1, n_seen = 1;
  MUST(g->n <= MAX_PEERS + 1);
  while (n_stack > 0) {
    size_t at = stack[--n_stack];
    for (size_t i = 0; i < g->n; i++) {
      if (seen[i] || !(backwards ? graph_hears(g, at, i) : graph_hears(g, i, at)))
        continue;
      seen[i] = true;
      stack[n_stack++] = i;
      n_seen++;
    }
  }
  return n_seen == g->n;
}

bool graph_is_connected(const struct graph *g) {
  return reaches_all(g, false) && reaches_all(g, true);
}

static void mix(const void *context, const double *x, double *out) {
  const struct graph *g = context;
  for (size_t i = 0; i < g->n; i++) {
    out[i] = x[i];
    for (size_t j = 0; j < g->n; j++)
      if (graph_hears(g, i, j))
        out[i] += mixing_metropolis((uint32_t)graph_in_degree(g, i), (uint32_t)graph_in_degree(g, j)) * (x[j] - x[i]);
  }
}

enum err graph_spectral_gap(const struct graph *g, double *out_gap) {
  double *scratch = calloc(2 * g->n, sizeof *scratch);
  struct rng r;
  if (!scratch)
    return ERR_NO_MEMORY;
  rng_init(&r, 1);
  for (size_t i = 0; i < g->n; i++)
    scratch[i] = rng_unit(&r);
  *out_gap = mixing_spectral_gap(mix, g, g->n, scratch);
  free(scratch);
  return ERR_OK;
}
