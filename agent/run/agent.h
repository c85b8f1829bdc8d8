/* The running agent: the rooms wired together around one loop. */
#ifndef AGENT_RUN_AGENT_H
#define AGENT_RUN_AGENT_H

#include <stdbool.h>

#include "agent/config.h"

/* Runs until the jobs are done (when_done: exit), SIGTERM or SIGINT, or a failure. Returns the exit code of the program:
 * 0 done, 1 a job ended short, 2 not allowed (lock, permission), 4 configuration or data or state, 5 internal (I/O).
 * With hold, what would be exit 4 stays up unhealthy with the sentence in `health` until it is stopped. */
int agent_run(const struct config *config, bool hold);

#endif
