/* One run of an experiment: the swarm is made, learns, and is judged. */
#ifndef AGENT_EXPERIMENT_RUN_H
#define AGENT_EXPERIMENT_RUN_H

#include <stdatomic.h>

#include "agent/experiment/experiment.h"

/* What became of one agent. */
struct experiment_agent {
  double local, global; /* headline of the last model on its own test and on that of all; NaN: there is no such test */
  uint64_t n_tests;     /* samples of its own test */
  uint64_t round;       /* the last one that it has committed */
  uint64_t sent_bytes;
  double acc, forgetting; /* of a job with tasks (models/continual/matrix.h); NaN: it has none */
};

struct experiment_result {
  struct digest id;
  struct experiment_agent *agents; /* [n_agents], owned */
  size_t n_agents;
  double seconds; /* that it took; not of virtual time */
  uint64_t trace; /* hash of every event, and of the bits of all last models */
};

/* Unpacked data files, so that the agents of all runs need not each do it. A folder of its own below $TMPDIR or /tmp. */
struct data_cache;
MUST_USE enum err data_cache_open(struct data_cache **out_cache, char out_why[MAX_CONFIG_WHY_BYTES]);
void data_cache_close(struct data_cache *c); /* and the folder is gone; NULL is allowed */

/* Looks at the files of a configuration: paths of gzip files become those of unpacked ones. The owner's thread, before runs
 * begin. */
MUST_USE enum err data_cache_take(struct data_cache *c, struct config *config, char out_why[MAX_CONFIG_WHY_BYTES]);

/* Watches and ends a run, from any thread. */
struct experiment_watch {
  atomic_bool *stop;
  _Atomic uint64_t *round; /* the lowest that some agent is in */
};

/* Runs it on the caller's thread and the agents' own, of which one works at a time. ERR_STOPPED: it was stopped; else the error
 * of the data, or of an agent that ended before the last round, with its sentence. The same run has the same bits on one host. */
MUST_USE enum err experiment_do(const struct experiment *x, const struct experiment_run *run, struct config *config,
                                const struct experiment_watch *watch, struct experiment_result *out_result,
                                char out_why[MAX_CONFIG_WHY_BYTES]);
void experiment_result_done(struct experiment_result *r);

#endif
