/* The agent's threads for one trainer (models/kernels/team.h): they sleep until there is work, and end with the team.
 *
 * Owner and only caller of `run`: the trainer thread, or a verb's main thread. Parts must not call `run` again. */
#ifndef AGENT_RUN_TEAM_H
#define AGENT_RUN_TEAM_H

#include <stdint.h>

#include "base/err.h"
#include "models/kernels/team.h"

/* A team of n_threads, the caller's own among them; of one, or where the system gives fewer, of as many as there are: NULL
 * is the caller alone. */
struct team *team_start(uint32_t n_threads);

/* Joins the threads. NULL is allowed. */
void team_stop(struct team *team);

#endif
