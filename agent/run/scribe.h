/* The scribe: the thread that owns the store. One job, one transaction, one result, in order; fsync never stops the loop.
 *
 * ERR_NO_SPACE and ERR_READ_ONLY give the job back so that the loop can try it again; every other failure of a publish or
 * commit must end the process. */
#ifndef AGENT_RUN_SCRIBE_H
#define AGENT_RUN_SCRIBE_H

#include "agent/core/work.h"
#include "base/err.h"
#include "store/store.h"

struct scribe;

/* Takes the store over (`*store` becomes NULL) and starts the thread. `job` names the one job of this version. */
MUST_USE enum err scribe_start(struct store **store, const struct digest *job, struct scribe **out_scribe);

void scribe_put(struct scribe *s, struct scribe_job *job);
struct scribe_result *scribe_poll(struct scribe *s);
int scribe_fd(const struct scribe *s);

/* Finishes what was put, closes the store, joins. NULL is allowed. */
void scribe_stop(struct scribe *s);

#endif
