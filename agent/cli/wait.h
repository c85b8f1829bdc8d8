/* Waiting until something is so, for `wait` and `rounds wait`. */
#ifndef AGENT_CLI_WAIT_H
#define AGENT_CLI_WAIT_H

#include "agent/cli/cli.h"

/* Waits for a condition as `wait --for` takes it ("round=12", "peer=mec-03,state=alive"), answers and returns the exit code:
 * EXIT_DONE, EXIT_FAILED (the job ended before), EXIT_UNREACHABLE, EXIT_TIMED_OUT, EXIT_USAGE. The agent answers when
 * something changes, so a phase or state that is over sooner than it is asked for can be missed.
 * timeout: seconds as given; NULL: for ever, but then an agent that is not there is not waited for (unless that is what
 * the condition is about). */
int wait_for(struct call *call, const char *condition, const char *timeout);

#endif
