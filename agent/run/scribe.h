/* The scribe: the thread that owns the store. One job, one transaction, one result, in order; fsync never stops the loop.
 *
 * A temporary error gives the job back so that the loop can try it again; every other failure of a publish or commit must
 * end the process.
 *
 * Thread: everything here is for the loop thread. */
#ifndef AGENT_RUN_SCRIBE_H
#define AGENT_RUN_SCRIBE_H

#include "agent/core/work.h"
#include "base/err.h"
#include "store/store.h"

struct scribe;

/* Takes the store over (`*store` becomes NULL) and starts the thread. */
MUST_USE enum err scribe_start(struct store **store, struct scribe **out_scribe);

enum {
  SCRIBE_RING = 128, /* jobs put whose results were not polled yet */
  SCRIBE_RESERVED =
      64, /* of these for publications, commits and epochs, of which a round machine has a few at most, and for calls, of which each waits for people */
  SCRIBE_MAX_ROUNDS = 1024, /* rows of one SCRIBE_QUERY … */
  SCRIBE_MAX_EVENTS = 64,   /* … and of one SCRIBE_EVENTS: they fit into a client's line */
};

/* Moves a job in. An event or a query that finds all but the reserved places taken is dropped: the disk does not keep up,
 * and whoever asked runs into its time-out. */
void scribe_put(struct scribe *s, struct scribe_job *job);

/* The next result, or NULL. The taker owns it and its descriptors. */
struct scribe_result *scribe_poll(struct scribe *s);
int scribe_fd(const struct scribe *s);

/* Finishes what was put, closes the store, joins. NULL is allowed. */
void scribe_stop(struct scribe *s);

#endif
