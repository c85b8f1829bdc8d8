/* What this agent has measured of its hosts for one job: a file in the state directory.
 *
 * For each host (the last eight, by machine and share of the processors) the selection in effect, and the cost model that
 * was fitted on the newest of them. It is a cache: losing it costs a second of measuring. JSON, bounded, read strictly; a
 * file that is not ours in every member is damaged. Any thread; the caller's storage. */
#ifndef AGENT_TUNING_FILE_H
#define AGENT_TUNING_FILE_H

#include "agent/host.h"
#include "models/tuning/plan.h"

enum { MAX_TUNED_HOSTS = 8, MAX_TUNING_FILE_BYTES = 1 << 20 };

struct tuned_host {
  char machine[FINGERPRINT_BYTES];
  uint32_t number; /* of the machine: 0 … MAX_TUNED_HOSTS, each machine's own */
  double processors;
  double seconds; /* of a step of training, when it was measured */
  struct selection selection;
};

struct tuning {
  size_t n_hosts;
  struct tuned_host hosts[MAX_TUNED_HOSTS]; /* the newest first: the cost model is fitted on it */
  struct cost_model *cost;                  /* NULL: none was kept */
};

/* ERR_NOT_FOUND; ERR_FOREIGN: of another model, batch or set of kernels; ERR_CORRUPT; ERR_TOO_NEW; ERR_LIMIT and errors of
 * the file system. *out is empty after an error. */
MUST_USE enum err tuning_file_read(const char *path, const struct plan *plan, struct tuning *out_tuning);

/* Durable, and whole or not at all. */
MUST_USE enum err tuning_file_write(const char *path, const struct plan *plan, const struct tuning *t);

void tuning_done(struct tuning *t);

/* Forgets the cost model, so that the next host is measured from nothing; what was chosen for others stays. */
void tuning_forget(struct tuning *t);

/* The entry of this host, or NULL. */
const struct tuned_host *tuning_find(const struct tuning *t, const struct host *host);

/* Puts one in front, in place of an older one of the same host, or of the oldest. */
void tuning_put(struct tuning *t, const struct tuned_host *host);

#endif
