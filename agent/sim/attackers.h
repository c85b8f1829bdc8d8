/* What a simulation does to the learning of its agents: attackers, and hidden groups of sites that number the classes otherwise.
 *
 * The last n_bad agents are attackers. They know what every honest one has trained last, with its step: trainings are done one after
 * the other, in an order that virtual time alone says, so that a seed repeats to the bit. What an attack makes is the attacker's model
 * from then on: it merges by the mean, which leads it back to the others.
 *
 * Site i of n_groups hidden groups is in group i mod n_groups, and has class (c + group) mod C where the others have c, in all its
 * sets and in the common test: no one model is right for two groups.
 *
 * Owner: the simulation that learns. Its calls come from trainers' threads, one at a time. */
#ifndef AGENT_SIM_ATTACKERS_H
#define AGENT_SIM_ATTACKERS_H

#include "agent/run/trainer.h"
#include "models/merging/attack.h"

struct attackers_config {
  size_t n_agents, n_bad, n_groups; /* n_groups 0: as 1 */
  enum attack attack;
  size_t n_values;          /* P */
  size_t row_inputs;        /* of a row of an image */
  uint64_t seed;            /* of noise and victims */
  struct rule_setting rule; /* of honest agents, known to `adaptive` */
};

struct attackers;
MUST_USE enum err attackers_new(const struct attackers_config *config, struct attackers **out_attackers);
void attackers_free(struct attackers *a); /* NULL is allowed */

/* For the agent's trainer; lives as long. NULL: nothing is done to this one, and nobody needs to know of it. */
const struct trainer_tamper *attackers_tamper(const struct attackers *a, size_t agent);

bool attackers_has(const struct attackers *a, size_t agent);

#endif
