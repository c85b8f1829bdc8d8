/* What must hold at any time, whatever happens to links, hosts and peers. The first table is looked at after every event
 * of an agent, the rest where the thing itself happens. What does not hold is told to sim_watch.broken and counted; the
 * simulation can go on. */
#ifndef AGENT_SIM_INVARIANTS_H
#define AGENT_SIM_INVARIANTS_H

#include <stdbool.h>

/* symbol, stable name, sentence */
#define SIM_INVARIANTS(X)                                                                                              \
  X(GATHER_LENGTH, "gather-length", "a deadline is at most deadline_max")                                              \
  X(GATHER_ENDS, "gather-ends", "a gather ends by its deadline")                                                       \
  X(QUEUES, "queues", "no more links and offers of a peer wait than a sender keeps")                                   \
  X(MEMORY, "memory", "what waits and is being fetched is within payload_max")                                         \
  X(SETTLES, "settles", "an agent has an end of what it does at one time")                                             \
  X(LOOKS_AHEAD, "looks-ahead", "the next time that it wants to be called is ahead")                                   \
  X(LABELS_RISE, "labels-rise", "what is published and committed comes after what was committed")                      \
  X(ONE_PAYLOAD, "one-payload",                                                                                        \
    "there is one payload a round and sub-round, and one publication a sequence, of an epoch")                         \
  X(OWN_EPOCH, "own-epoch", "a publication is of the epoch that the store has")                                        \
  X(WHOLE_SNAPSHOT, "whole-snapshot", "a jump and an adoption store a whole snapshot, and nothing else does")          \
  X(ALL_PEERS, "all-peers", "a commit has a row for every peer")                                                       \
  X(KEY_ORDER, "key-order", "a merge takes peers in the order of their keys")                                          \
  X(WEIGHTS, "weights", "a merge is a convex combination")                                                             \
  X(COPY, "copy", "after a link a copy has the bits that its origin published at that sequence")                       \
  X(DROP_REASON, "drop-reason", "what is counted against a peer is a reason of the list")                              \
  X(OWN_MANIFEST, "own-manifest", "a manifest that is offered can be read")

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

#endif
