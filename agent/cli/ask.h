/* Asking the running agent: one line of JSON each way over the Unix socket in its state directory. */
#ifndef AGENT_CLI_ASK_H
#define AGENT_CLI_ASK_H

#include "agent/cli/cli.h"

#define CONTROL_SOCKET "control.sock" /* in state_dir */
/* Patience with what the loop answers from memory, and with what the database has to answer or to write first: a round of a
 * large model that is being written comes before it. */
enum { CONTROL_TIMEOUT_MS = 2000, CONTROL_SLOW_TIMEOUT_MS = 10000 };

/* Sends the request (moved) and returns the answer's `data`; its warnings join the call's. ERR_NOT_CONNECTED: no agent
 * runs there; ERR_PERMISSION: not allowed; ERR_TIMED_OUT; ERR_SYNTAX: no answer of this version; ERR_STOPPED: the agent
 * refused, why is its message. */
MUST_USE enum err agent_ask(struct call *call, const char *state_dir, json_t *request, json_t **out_data,
                            char why[MAX_CONFIG_WHY_BYTES]);

/* Asks `ask` again until what it began, whose state (moved) was answered, has been done between two rounds: {"pending", "error",
 * "label"}, the last state. ERR_TIMED_OUT: not within timeout_s; ERR_STOPPED: it was refused, why says so. */
MUST_USE enum err agent_wait_between_rounds(struct call *call, const char *state_dir, const char *ask, double timeout_s,
                                            json_t *state, json_t **out_state, char why[MAX_CONFIG_WHY_BYTES]);

/* The exit code for an error of agent_ask. */
int ask_exit_code(enum err e);

/* The same for a verb that needs an agent: answers the error itself, NULL then, and *out_code is the exit code. */
json_t *agent_need(struct call *call, const struct config *c, json_t *request, int *out_code);

#endif
