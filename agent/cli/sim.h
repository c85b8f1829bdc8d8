/* What the sources of `starling sim` share: one verb, four things to do with a simulated swarm. */
#ifndef AGENT_CLI_SIM_H
#define AGENT_CLI_SIM_H

#include <jansson.h>

#include "agent/cli/cli.h"
#include "agent/sim/scenario.h"

/* Flags, as they stand in the table of verbs. */
enum sim_flag {
  SIM_SEED,
  SIM_TRACE,
  SIM_REPLAY,
  SIM_STOP_AT,
  SIM_RANDOM,
  SIM_FROM,
  SIM_AGENTS,
  SIM_LINK,
  SIM_TRAINING,
  SIM_SLOW,
  SIM_LEARN,
  N_SIM_FLAGS
};
_Static_assert((int)N_SIM_FLAGS <= (int)MAX_FLAGS, "verbs.c");

/* Each answers and returns the exit code. */
int sim_scenario(struct call *call); /* sim.c: FILE.yaml */
int sim_random(struct call *call);   /* sim_random.c: --random */
int sim_replay(struct call *call);   /* sim_replay.c: --replay */
int sim_plan(struct call *call);     /* sim_plan.c: --from */

/* sim_replay_agent.c: of what a deployed agent recorded (agent/core/record.h). stop_at: an event; 0: none. */
enum { MAX_AGENT_TRACE_BYTES = (1024 << 20) + (1 << 10) };
bool sim_is_agent_trace(const char *path);
int sim_replay_agent(struct call *call, uint64_t stop_at);

/* The first invariant that did not hold; null: all held. */
json_t *sim_broken_json(const struct sim *s);

/* "broken: agent 3 at …"; nothing for null. */
void sim_broken_view(const json_t *broken, FILE *out);

#endif
