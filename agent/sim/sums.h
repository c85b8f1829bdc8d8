/* Push-sum among simulated agents that train numbers: sums of doubles, with the account that deployed agents have
 * (agent/core/mass.h). */
#ifndef AGENT_SIM_SUMS_H
#define AGENT_SIM_SUMS_H

#include "agent/sim/sim.h"

/* Does the agent give sums? What follows does nothing for one that does not, or is not called. */
bool sim_has_sums(const struct sim_agent *a);

void sim_sums_open(struct sim_agent *a);

/* Behind a snapshot; n_bytes 0: there is nothing. */
size_t sim_sums_bytes(const struct sim_agent *a);
void sim_sums_write(const struct sim_agent *a, uint8_t *out_bytes);
void sim_sums_read(struct sim_agent *a, const uint8_t *bytes, size_t n_bytes);

/* x is given away in part: the payload, its values pending. And it did not leave. */
struct buffer sim_sums_push(struct sim_agent *a, const struct trainer_job *job);
void sim_sums_take_back(struct sim_agent *a);

/* ERR_MASS. out_is_taken: the copy is now this one. */
enum err sim_sums_take(struct sim_agent *a, size_t peer, const struct link_in *link, bool *out_is_taken);

#endif
