/* Who averages with whom: a graph that every agent computes alone, from the job's members in the order of their keys and a seed.
 *
 *   peers         whoever is configured; only each agent knows its own
 *   full          everybody
 *   ring          the two beside it; directed: the one behind it tells it
 *   regular K     each K others, drawn at random and connected; directed: each tells the next one of K random circles of all, so that
 *                 the graph is strongly connected; the next one of two circles is told once
 *   exponential   those 1, 2, 4 … places away on the circle of all; directed: only forwards (Assran et al. 2019, Ying et al. 2021)
 *   random K      another regular K each round, which need not be connected, among all, who are therefore all followed
 *
 * Undirected graphs are symmetric: Metropolis weights on them make a doubly stochastic matrix. A regular one begins as a circulant
 * of randomly ordered agents, whose edges then change ends at random as long as none is double (a Markov chain over all graphs of
 * these degrees). Of an odd number of agents with an odd K one has K − 1. Agents agree as long as they list the same members: who
 * does not has another graph, and an edge of which one end knows nothing is not averaged over.
 *
 * Pure; any thread. */
#ifndef AGENT_CORE_TOPOLOGY_H
#define AGENT_CORE_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/limits.h"

enum graph_rule { GRAPH_PEERS, GRAPH_FULL, GRAPH_RING, GRAPH_REGULAR, GRAPH_EXPONENTIAL, GRAPH_RANDOM, N_GRAPH_RULES };

struct job_topology {
  enum graph_rule rule;
  uint32_t k; /* of regular and random, ≥ 1; else 0 */
  bool is_directed;
};

enum { MAX_TOPOLOGY_TEXT = 32 };

const char *graph_rule_name(enum graph_rule rule); /* "ring" */
bool graph_rule_has_number(enum graph_rule rule);
void job_topology_write(const struct job_topology *t, char out_text[MAX_TOPOLOGY_TEXT]); /* "regular 3" */

/* It is another one each round. */
bool job_topology_rotates(const struct job_topology *t);

/* Whether n agents can be like that; of one agent everything is true. ERR_RANGE: out_why says why not and what would be. */
MUST_USE enum err job_topology_check(const struct job_topology *t, size_t n_agents, char out_why[MAX_REASON_BYTES]);

/* How many an agent has beside it in a round of n agents that pass the check: with all that is undirected the d of Metropolis
 * weights, which one agent of an odd number may not quite have; with what is directed how many it tells and hears at most. */
size_t job_topology_degree(const struct job_topology *t, size_t n_agents);

/* How many copies an agent keeps at most: of all whom it may hear in some round. */
size_t job_topology_follows(const struct job_topology *t, size_t n_agents);

/* The seed of a job's graphs, from its id. */
uint64_t job_topology_seed(const struct digest *job);

struct graph {
  size_t n;
  bool *hears; /* [n][n]: hears[i * n + j]: i takes what j publishes; never itself */
};

/* Of n agents that pass the check, n ≥ 1. `round` counts only where it rotates. Of GRAPH_PEERS the graph is full: members are those
 * whom one has as peers. ERR_NO_MEMORY. */
MUST_USE enum err graph_make(const struct job_topology *t, size_t n, uint64_t seed, uint64_t round,
                             struct graph *out_graph);
void graph_done(struct graph *g);

static inline bool graph_hears(const struct graph *g, size_t i, size_t j) {
  return g->hears[i * g->n + j];
}

/* How many j is told to. */
size_t graph_out_degree(const struct graph *g, size_t j);
size_t graph_in_degree(const struct graph *g, size_t i);

/* Everybody hears of everybody, in the end; in a directed graph along its edges. */
bool graph_is_connected(const struct graph *g);

/* 1 − max(|λ2|, |λN|) of its mixing matrix with Metropolis weights: a difference shrinks to what is left of 1 each round. Of an
 * undirected graph. ERR_NO_MEMORY. */
MUST_USE enum err graph_spectral_gap(const struct graph *g, double *out_gap);

#endif
