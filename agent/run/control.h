/* The control socket: how the command line asks a running agent. A stream socket in the state directory, mode 0600, for
 * the same user, the same group and root (SO_PEERCRED). A client sends one JSON object on one line, gets one line back
 *
 *   {"schema":1,"ok":true,"data":…,"warnings":[]}
 *   {"schema":1,"ok":false,"error":{"code":"not-found","message":"…","hint":"…"},"warnings":[]}
 *
 * and is closed; lines are at most MAX_CONTROL_LINE_BYTES long, clients at most MAX_CONTROL_CLIENTS, and each has two
 * seconds to ask, the agent two to answer and the client two to read, after which it is closed.
 *
 * Never blocks. Thread: the loop's, callback included. Time is monotonic milliseconds, passed in. */
#ifndef AGENT_RUN_CONTROL_H
#define AGENT_RUN_CONTROL_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "gossip/gossip.h"

enum { CONTROL_MAX_FDS = 1 + MAX_CONTROL_CLIENTS };
/* How long a client may take to ask and to read, and how long it waits for its answer: longer than it has patience
 * (CONTROL_SLOW_TIMEOUT_MS), or it would take the agent, which is only busy, for one that is gone. */
enum { CONTROL_STAGE_MS = 2000, CONTROL_WAITING_MS = 15000 };

struct control;

struct control_events {
  void *context;
  /* A request, an object, borrowed. It is answered by control_answer or control_fail, at once or later. */
  void (*on_request)(void *context, uint64_t client, const json_t *request);
};

/* Listens at `path`, which may be as long as a path can be: it is bound through the descriptor of its folder. A socket left
 * there by an agent that is gone is replaced. On failure `why` says what to do: ERR_LIMIT: the last part of the path is
 * too long; ERR_LOCKED: another agent answers there; ERR_EXISTS: something that is not a socket stands there; ERR_PERMISSION, ERR_NOT_FOUND, ERR_IO, ERR_NO_MEMORY. */
MUST_USE enum err control_open(const char *path, const struct control_events *events, struct control **out_control,
                               char out_why[MAX_REASON_BYTES]);

/* Closes every client and removes the socket. NULL is allowed. */
void control_close(struct control *c);

/* What link_poll is to wait for; returns how many, at most CONTROL_MAX_FDS. */
size_t control_fds(const struct control *c, struct link_fd out_fds[CONTROL_MAX_FDS]);

/* Handles what is ready of them and closes whoever was too slow. After every link_poll. */
void control_ready(struct control *c, const struct link_fd *fds, size_t n_fds, uint64_t now_ms);

/* When the next client is too slow, UINT64_MAX without clients. */
uint64_t control_due_ms(const struct control *c);

/* Answers a request; `data` is stolen. Lists that make the line too long (data itself or its members) are cut at the end,
 * with a warning. A client that is gone is ignored. */
void control_answer(struct control *c, uint64_t client, json_t *data);

/* hint: the remedy, NULL for none. */
void control_fail(struct control *c, uint64_t client, enum err e, const char *message, const char *hint);

#endif
