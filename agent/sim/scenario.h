/* A scenario: what a simulated swarm is made of, and what happens to it, as people write it into a YAML file.
 *
 *   seed: 1                  the story; every number has a default
 *   agents: 8                numbered from 0
 *   topology: ring           full, ring, random, regular, alone, dumbbell, besieged (topology.h); of random and regular
 *                            `degree` says how many peers
 *   average: neighbours      or push-sum, whose mass is then looked after
 *   fidelity: sealed         or protocol: without ciphers, for thousands of agents (sim.h)
 *   rounds: 20               the last one; 0: for ever
 *   model_kib: 100
 *   relay: true              whether agents carry the sessions of two others (gossip/relay.c)
 *   link: { delay_ms: 40, rate_kbit: 4000 }
 *   host: { training_ms: 5000 }
 *   round: { deadline_max_s: 60 }
 *   hosts:                   those that are not as `host` says
 *     - { agents: 3, speed: 0.25 }
 *   links:                   and links; both directions, or one with `one_way: true`
 *     - { agents: 0..3, to: 4..7, rate_kbit: 500 }
 *   events:
 *     - { at_s: 60, do: kill, agents: 3 }
 *     - { at_s: 90, do: start, agents: 3 }
 *
 * One table has the keys (scenario_keys.c). Bounded: MAX_SCENARIO_BYTES, the bounds of tree.h, memory for agents and models,
 * what hosts, links and events are done to (MAX_SCENARIO_STEPS); not the time that a story takes. Errors are one
 * line, "file:line:column: key: what is wrong; what to write", as of the configuration. Any thread. */
#ifndef AGENT_SIM_SCENARIO_H
#define AGENT_SIM_SCENARIO_H

#include "agent/config.h"
#include "agent/sim/sim.h"
#include "agent/sim/topology.h"

enum { MAX_SCENARIO_BYTES = 256 << 10, MAX_SCENARIO_AGENTS = 100000, MAX_SCENARIO_STEPS = 1 << 24 };
#define MAX_SCENARIO_SEED UINT64_C(9007199254740991)

/* symbol, word. What ends it, beside `start`: `free` a disk, `heal` a link, `honest` an agent. */
#define SCENARIO_ACTIONS(X)                                                                                            \
  X(KILL, "kill")                                                                                                      \
  X(START, "start")                                                                                                    \
  X(WIPE, "wipe")       /* killed, and its disk is empty */                                                            \
  X(SAVE, "save")       /* a backup of its disk is made … */                                                         \
  X(RESTORE, "restore") /* … and comes back, after a kill; of nothing saved nothing comes */                         \
  X(PAUSE, "pause")     /* for_s */                                                                                    \
  X(LEAP, "leap")       /* its clock leaps ahead by for_s */                                                           \
  X(SPEAK, "speak")     /* it is started again with another program, of `version` */                                   \
  X(FILL, "fill")       /* its disk */                                                                                 \
  X(SLOW, "slow")       /* a write takes for_s */                                                                      \
  X(FREE, "free")                                                                                                      \
  X(PART, "part") /* agents and `to`, both directions */                                                               \
  X(MUTE, "mute") /* agents to `to` */                                                                                 \
  X(HEAL, "heal")                                                                                                      \
  X(BACK, "back")         /* it goes back to the model of so many `times` before its last commitment */                \
  X(FAIL, "fail")         /* so many `times` its training */                                                           \
  X(CORRUPT, "corrupt")   /* so many chunks that it serves */                                                          \
  X(CLAIM, "claim")       /* it says that it is SCENARIO_LIE_ROUNDS further than it is */                              \
  X(SIGN, "sign")         /* it signs that, too */                                                                     \
  X(UNFOLLOW, "unfollow") /* it follows nobody */                                                                      \
  X(HONEST, "honest")

enum { SCENARIO_LIE_ROUNDS = 100 };

enum scenario_action {
#define X(symbol, word) ACTION_##symbol,
  SCENARIO_ACTIONS(X)
#undef X
      N_SCENARIO_ACTIONS
};

/* From … to, both included. */
struct agent_range {
  uint64_t first, last;
};

struct scenario_link {
  double delay_ms, jitter_ms, rate_kbit, loss, duplicate, reorder, nat_idle_ms; /* rate, NAT: 0 = none */
};

struct scenario_host {
  double speed, up_kbit, down_kbit, disk_kib_s; /* 0 = as fast as one likes, but for speed */
  uint64_t loading_ms, training_ms, merging_ms, writing_ms, samples;
  uint64_t memory_kib; /* for updates of peers, at least one of each; 0: as by default */
  uint64_t version;    /* of the protocol, the newest that it speaks; above ours: that alone; 0: ours */
};

struct scenario_round {
  double deadline_min_s, deadline_max_s, meet_s, every_s;
  uint64_t min_peers, alone_rounds;
};

struct scenario_hosts {
  struct agent_range agents;
  struct scenario_host host;
};

struct scenario_links {
  struct agent_range agents, to;
  bool one_way;
  struct scenario_link link;
};

struct scenario_event {
  double at_s, for_s;
  unsigned action; /* enum scenario_action */
  uint64_t times, version;
  struct agent_range agents, to; /* to: empty (1..0) is all */
};

struct scenario {
  uint64_t seed, n_agents, degree, rounds, model_kib;
  uint64_t settle_rounds; /* see scenario_run; 0: it is not looked whether all come together */
  bool relay;             /* agents carry sessions of two others that cannot reach each other */
  double duration_s;      /* at most, of virtual time */
  unsigned topology;      /* enum topology */
  unsigned average;       /* enum average_rule */
  unsigned fidelity;      /* enum sim_fidelity */
  struct scenario_link link;
  struct scenario_host host;
  struct scenario_round round;
  struct scenario_hosts *hosts; /* as written */
  size_t n_hosts;
  struct scenario_links *links;
  size_t n_links;
  struct scenario_event *events; /* by time */
  size_t n_events;
};

/* Codes as of config_load. */
MUST_USE enum err scenario_load(const char *path, struct scenario **out_scenario, char out_why[MAX_CONFIG_WHY_BYTES]);

/* The same of bytes; `path` is for messages. */
MUST_USE enum err scenario_read(const char *path, const char *bytes, size_t n_bytes, struct scenario **out_scenario,
                                char out_why[MAX_CONFIG_WHY_BYTES]);
void scenario_free(struct scenario *c);

/* A copy, and its text as scenario_read takes it: keys that have their default are left out. Allocated; without memory the
 * process ends. */
struct scenario *scenario_copy(const struct scenario *c);
char *scenario_text(const struct scenario *c);

/* Another seed, by its text. */
MUST_USE enum err scenario_seed(struct scenario *c, const char *text, char out_why[MAX_REASON_BYTES]);

/* Peers of an agent, at most. */
size_t scenario_degree(const struct scenario *c);

/* How many agents of so many peers each, at most, 4 GiB of memory have room for; models come on top. */
uint64_t scenario_max_agents(uint64_t n_peers);

/* The swarm, before the start. */
struct sim *scenario_sim(const struct scenario *c);

/* Told after each event; false ends the run. */
struct scenario_observer {
  void *context;
  bool (*stepped)(void *context, struct sim *s);
};

/* Starts all and runs until every living agent has finished and no event is left, an invariant is broken, or duration_s are over.
 *
 * With settle_rounds it also ends when, after the last event and with everything whole again (all alive, no link cut, no
 * disk full, nobody lying), every agent has committed so many rounds, and as many more as their numbers were apart; then
 * their models must be as close together as in a swarm that nothing ever happened to (invariant CONVERGES). So they must when
 * that takes longer than so many rounds may. Where an agent has finished nothing is said of distances. `observer` may be
 * NULL. */
void scenario_run(const struct scenario *c, struct sim *s, const struct scenario_observer *observer);

#endif
