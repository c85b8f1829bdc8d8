/* Real training and merging in a simulated swarm: the agent's own trainer (agent/run/trainer.h) instead of a vector of numbers,
 * for tens of agents. Every agent has the job and the data of one site file; where the job splits a public set agent i
 * has part i + 1. A job of the trainer is done at once and takes the virtual time that the host model says, so that the
 * story hangs on nothing but the seed, and models have the bits of one host.
 *
 * Beside invariants that look at numbers (WEIGHTS, COPY, KEY_ORDER, ONCE) all hold here, too. Not for jobs with pooled
 * scaling. Each agent has a thread, of which one works at a time. The caller's thread. */
#ifndef AGENT_SIM_LEARNING_H
#define AGENT_SIM_LEARNING_H

#include "agent/config.h"
#include "agent/sim/attackers.h"
#include "agent/sim/sim.h"

enum { MAX_LEARNING_AGENTS = 512 };

struct sim_learning;

/* Zero: every round's model is judged, and rounds go by what the simulation was made with. */
struct sim_learning_options {
  uint64_t judged_from; /* models of earlier rounds are not judged by the tests: that is what takes longest */
  bool sets_rounds;     /* rounds go by the job file and the site's entry, as a deployed agent's */
  size_t n_bad;         /* the last so many agents are attackers, or would be: attack none (agent/sim/attackers.h) */
  enum attack attack;
  size_t n_groups; /* hidden groups of sites that number the classes otherwise; 0: none */
};

/* Whether such a job can be attacked and divided so. ERR_RANGE, ERR_UNSUPPORTED with the reason. */
MUST_USE enum err sim_learning_check(const struct site_job_config *job, const struct sim_learning_options *options,
                                     size_t n_agents, char out_why[MAX_REASON_BYTES]);

/* Before the start: updates are from then on as long as the job's model makes them, whatever the simulation was made with.
 * The configuration lives as long. ERR_UNSUPPORTED, ERR_LIMIT, ERR_RANGE with the reason; ERR_NO_MEMORY. */
MUST_USE enum err sim_learning_open(const struct config *config, const struct site_job_config *job, struct sim *s,
                                    const struct sim_learning_options *options, struct sim_learning **out_learning,
                                    char out_why[MAX_REASON_BYTES]);

/* ERR_OK: data were loaded. Else why they were not, with place and remedy in *out_why, which lives as long. */
MUST_USE enum err sim_learning_fault(const struct sim_learning *l, const char **out_why);

/* The agent's entry of the site file, its own copy: what it differs in from the others', as whose data it has. To be changed before a
 * start; what it then points to is borrowed. */
struct site_job_config *sim_learning_entry(struct sim_learning *l, size_t agent);

/* Samples of the agent's own test; 0: it has none, or has not started yet. */
size_t sim_learning_tests(const struct sim_learning *l, size_t agent);

/* What its last model said right of them, as a share; NaN: it was not judged, or the task says no classes. */
double sim_learning_right(const struct sim_learning *l, size_t agent);

/* After sim_free. NULL is allowed. */
void sim_learning_close(struct sim_learning *l);

#endif
