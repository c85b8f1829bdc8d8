/* What runs have given, kept in a file of JSON lines: one line a run, appended when it is through and synced, so that an experiment
 * that was interrupted goes on with what is missing.
 *
 *   {"run": HASH, "experiment": …, "method": …, "split": …, "seed": 1, "seconds": 4.2, "trace": HASH,
 *    "agents": [{"local": 0.81, "tests": 15, "global": 0.42, "round": 60, "sent_bytes": 24413184,
 *                "acc": null, "forgetting": null}, …]}
 *
 * A run is found by its hash (experiment_run_id); names are for people. A line that is none, as the last one after a power cut, is
 * skipped and counted, as is one that is longer than MAX_RESULT_LINE_BYTES, which none of MAX_EXPERIMENT_AGENTS is. There may be any
 * number of lines, read one by one. One process writes at a time, others may read. One thread. */
#ifndef AGENT_EXPERIMENT_RESULTS_H
#define AGENT_EXPERIMENT_RESULTS_H

#include "agent/experiment/run.h"

enum { MAX_RESULT_LINE_BYTES = 128 << 10 };

struct results;

/* Reads all; where it is to be written the file is made and locked. ERR_BUSY: another experiment writes there;
 * ERR_UNSUPPORTED: it is no regular file; ERR_NOT_FOUND, ERR_PERMISSION, ERR_IO … */
MUST_USE enum err results_open(const char *path, bool writes, struct results **out_results);
void results_close(struct results *r); /* NULL is allowed */

/* Lines that were none. */
size_t results_skipped(const struct results *r);

/* NULL: it was not run. */
const struct experiment_result *results_find(const struct results *r, const struct digest *id);

/* Appends it, durably; moved. */
MUST_USE enum err results_put(struct results *r, const struct experiment *x, const struct experiment_run *run,
                              struct experiment_result *result);

#endif
