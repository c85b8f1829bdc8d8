/* The running agent: the rooms wired together around one loop. */
#ifndef AGENT_RUN_AGENT_H
#define AGENT_RUN_AGENT_H

#include <stdbool.h>

#include "agent/config.h"
#include "agent/exit.h"

/* Runs until the jobs are done (when_done: exit), SIGTERM or SIGINT, or a failure. Returns the exit code of the program:
 * EXIT_DONE, EXIT_FAILED (a job ended short), EXIT_UNREACHABLE (lock, permission, address in use), EXIT_USAGE, EXIT_INTERNAL.
 * When it holds, what would be EXIT_USAGE stays up unhealthy with the sentence in `health` until it is stopped. */
int agent_run(const struct config *config, bool holds);

#endif
