/* Who is a peer of whom in a simulated swarm. */
#ifndef AGENT_SIM_TOPOLOGY_H
#define AGENT_SIM_TOPOLOGY_H

#include <stddef.h>

#include "agent/sim/sim.h"

/* symbol, word; n agents, K: `degree` */
#define SIM_TOPOLOGIES(X)                                                                                              \
  X(FULL, "full")                                                                                                      \
  X(RING, "ring")                                                                                                      \
  X(RANDOM, "random")     /* the ring and more: each has about K peers, at most twice */                               \
  X(REGULAR, "regular")   /* each has K: K/2 rings through all in random orders; K is even */                          \
  X(ALONE, "alone")       /* nobody has any */                                                                         \
  X(DUMBBELL, "dumbbell") /* two halves in which all are peers, and one bridge; n is even */                           \
  X(BESIEGED, "besieged") /* the first third is a ring, and each of it has two of the others to itself */

enum topology {
#define X(symbol, word) TOPOLOGY_##symbol,
  SIM_TOPOLOGIES(X)
#undef X
      N_TOPOLOGIES
};

/* The words, NULL-terminated. */
extern const char *const topology_words[];

/* Peers of an agent, at most. */
size_t topology_degree(enum topology t, size_t n_agents, size_t degree);

/* Whether it goes with so many agents and such a degree. ERR_RANGE, with the key, what is wrong and the remedy. */
MUST_USE enum err topology_check(enum topology t, size_t n_agents, size_t degree, char out_why[MAX_REASON_BYTES]);

/* Makes them meet, by the simulation's generator where there is a choice. Before the start; topology_check has passed. */
void topology_connect(enum topology t, struct sim *s, size_t degree);

#endif
