/* What must hold at any time, whatever happens to links, hosts and peers. The first table is looked at after every event
 * of an agent, the rest where the thing itself happens. What does not hold is told to sim_watch.broken and counted; the
 * simulation can go on. */
#ifndef AGENT_SIM_INVARIANTS_H
#define AGENT_SIM_INVARIANTS_H

#include <stdbool.h>
#include <stdint.h>

/* symbol, stable name, sentence */
#define SIM_INVARIANTS(X)                                                                                              \
  X(GATHER_LENGTH, "gather-length", "a deadline is at most deadline_max")                                              \
  X(GATHER_ENDS, "gather-ends", "a gather ends by its deadline")                                                       \
  X(QUEUES, "queues", "no more links and offers of a peer wait than a sender keeps")                                   \
  X(MEMORY, "memory", "what waits and is being fetched is within payload_max")                                         \
  X(SETTLES, "settles", "an agent has an end of what it does at one time")                                             \
  X(LOOKS_AHEAD, "looks-ahead", "the next time that it or its node wants to be called is ahead")                       \
  X(LABELS_RISE, "labels-rise", "what is published and committed comes after what was committed")                      \
  X(ONE_PAYLOAD, "one-payload",                                                                                        \
    "there is one payload a round and sub-round, and one publication a sequence, of an epoch")                         \
  X(OWN_EPOCH, "own-epoch", "a publication is of the epoch that the store has")                                        \
  X(WHOLE_SNAPSHOT, "whole-snapshot", "a jump and an adoption store a whole snapshot, and nothing else does")          \
  X(ALL_PEERS, "all-peers", "a commit has a row for every peer")                                                       \
  X(KEY_ORDER, "key-order", "a merge takes peers in the order of their keys")                                          \
  X(WEIGHTS, "weights", "a merge is a convex combination")                                                             \
  X(COPY, "copy", "after a link a copy has the bits that its origin published at that sequence")                       \
  X(MASS, "mass", "of push-sum, what all hold and what is on its way is the number of agents")                         \
  X(DROP_REASON, "drop-reason", "what is counted against a peer is a reason of the list")                              \
  X(OWN_MANIFEST, "own-manifest", "a manifest that is offered can be read")                                            \
  X(ROUND_ENDS, "round-ends", "a round ends within its bound")                                                         \
  X(NO_ROUND_LOST, "no-round-lost", "who was started goes on from what was committed before")                          \
  X(SAID_IS_DURABLE, "said-is-durable", "what is offered or said to be committed is durable")                          \
  X(ONCE, "once", "a difference comes after all that was merged of its origin")                                        \
  X(REFUSED, "refused", "what was merged was mixed in, with that weight, and nothing else was")                        \
  X(NOT_BLAMED, "not-blamed", "who never lied is not blamed for a lie")                                                \
  X(CONVERGES, "converges", "healed, models are as close together as their pulls let them be")

enum sim_invariant {
#define X(symbol, name, sentence) SIM_INVARIANT_##symbol,
  SIM_INVARIANTS(X)
#undef X
      N_SIM_INVARIANTS
};

/* Static. */
const char *sim_invariant_name(enum sim_invariant i);
const char *sim_invariant_sentence(enum sim_invariant i);

struct sim_agent;

/* Tells when it does not hold; returns whether it does. */
bool sim_holds(struct sim_agent *a, enum sim_invariant i, bool holds);

/* After an event of the agent. was_idle: its machine had nothing to do. */
void sim_check(struct sim_agent *a, bool was_idle);

struct sim;

/* What a round may take: of the meeting, or a jump that fails and the training after it, then a gather; the disk may owe
 * what a slower one has left. */
uint64_t sim_round_bound_ms(const struct sim_agent *a);

/* At any time, of every living agent that is not paused: also of those that wait for an event that never comes. */
void sim_check_all(struct sim *s);

/* When a swarm had time to come together again: whether it is, the first numbers being at most sim_spread_bound apart.
 *
 * Each round an agent pulls its number by SIM_PULL towards its own goal and mixes it with weights that sum to one. Under equal
 * weights two such courses come closer by 1 − SIM_PULL a round in the maximum norm, whatever the matrix: 0.75^k of where they
 * began is left after k rounds, 0.6 % after the 18 that a diameter of one gets (6 · diameter + 12, random.c). What then is apart is
 * the fixed point of the mixing matrix of all, sim_spread_undisturbed, and what not being in step adds: who merges without
 * another's update has made a pull of its own that is not averaged, SIM_PULL times the way to its goal at most, and two of them
 * at opposite ends SIM_PULL times the distance of the goals. So
 *
 *   bound = spread of the fixed point + SIM_PULL · (highest goal − lowest goal)
 *
 * Measured over the random scenarios 1 … 800: beyond the fixed point the spread was at most 0.6 of the second term, and at most
 * 0.1 of it in 93 of 100. Parts that do not come together are apart by the distance of their goals' means, 2.3 terms for halves. */
void sim_check_together(struct sim *s);

/* The largest distance of two living agents' committed models, in their first number; and undisturbed. */
double sim_spread(const struct sim *s);
double sim_spread_undisturbed(const struct sim *s);
double sim_spread_bound(const struct sim *s);

#endif
