/* Swarm testing: scenarios made of a number, run, and, when an invariant breaks, made as small as breaks it still.
 *
 * A number is one scenario and one story of it, everywhere: what breaks here breaks there. What a scenario has is drawn from
 * everything that a file can say: agents, topology, links, hosts, and events of every kind but a signed lie; in the end all is
 * healed and all have to come together again, unless some had reached the last round. Pure but for memory, without which the process ends. */
#ifndef AGENT_SIM_SWARMING_H
#define AGENT_SIM_SWARMING_H

#include "agent/sim/scenario.h"

/* seed ≤ MAX_SCENARIO_SEED. Free with scenario_free. */
struct scenario *scenario_random(uint64_t seed);

struct scenario_verdict {
  bool is_broken;
  struct sim_broken first;
  uint64_t n_events, trace, virtual_ms;
};

/* Runs a scenario. */
struct scenario_verdict scenario_judge(const struct scenario *c);

struct scenario_shrinking {
  /* Whether the candidate breaks what the scenario does. */
  bool (*breaks)(void *context, const struct scenario *candidate);
  void *context;
  size_t max_runs, n_runs; /* of breaks: at most; so far */
};

/* A scenario that still breaks and of which no event, agent, host, link or setting can be left out (within max_runs): events by
 * halves (ddmin: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002), the rest one by one. The
 * same for the same answers. Free with scenario_free. */
struct scenario *scenario_shrink(const struct scenario *c, struct scenario_shrinking *how);

/* The same with scenario_judge and one invariant. */
struct scenario *scenario_shrink_invariant(const struct scenario *c, enum sim_invariant broken, size_t max_runs);

#endif
