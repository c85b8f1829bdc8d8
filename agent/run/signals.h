/* Signals as something that the loop polls: SIGINT and SIGTERM ask it to stop, SIGHUP to read the configuration again. */
#ifndef AGENT_RUN_SIGNALS_H
#define AGENT_RUN_SIGNALS_H

#include "base/err.h"

/* Blocks the three in this thread and in those that it starts, so it comes before any of them; ignores SIGPIPE and
 * SIGXFSZ, which are errors of a write.
 * out_fd is readable while a signal waits; the caller closes it. */
MUST_USE enum err signals_open(int *out_fd);

/* The number of a signal that waits, or 0. */
int signals_take(int fd);

/* From now on the process has so many seconds to end by itself, then a signal ends it, however stuck a thread is in a
 * library: nothing that was committed is lost by that. 0: no limit. */
void signals_limit_end(unsigned seconds);

#endif
