/* Tuning: measures how this host trains a job's model fastest, and keeps what it has learnt.
 *
 * A host that is new to the job costs a tenth of the grid; one that is known (by machine and share of the processors) costs
 * nothing; one that has changed costs eight measurements, beside which what was known of the old one counts
 * (models/tuning/tuner.h). In the end whole steps of training are measured, with the choice, with its kernels alone and with
 * the built-in defaults, and the fastest of those is taken, so measuring never makes training slower than not measuring.
 *
 * The selection is durable before a training uses it. So a round that is repeated after a crash has the bits of the first
 * time as long as the host is the same; on another one the bits may differ, which nobody can see: no payload that was spoken
 * is ever made again. */
#ifndef AGENT_TUNING_H
#define AGENT_TUNING_H

#include "agent/tuning_file.h"
#include "models/work_hook.h"

struct tuning_observer {
  void (*measured)(void *context, const struct plan *plan, const struct tuner_cell *cell, double seconds);
  void *context;
};

struct tuning_order {
  const struct plan *plan;
  const struct host *host;
  struct team *team;                      /* of at least as many threads as the plan has */
  double seconds;                         /* to measure for, at most; the last measurement may pass it */
  const struct work_hook *hook;           /* NULL, or asked between measurements */
  const struct tuning_observer *observer; /* NULL, or told of each */
};

struct tuning_outcome {
  size_t n_cells, n_measured;
  double seconds;             /* spent */
  double step, step_before;   /* seconds of a step of training: as chosen, by the built-in defaults */
  bool is_again;              /* from what was known of another host */
  struct tuner_choice choice; /* the tuner's, before whole steps were measured */
};

/* Measures, chooses and puts the host in front of t. `out_tuner`, if not NULL: for what it believes; the caller frees it.
 * Errors of models/tuning and of the hook; t is unchanged after one. Blocks for as long as ordered. */
MUST_USE enum err tuning_measure(struct tuning *t, const struct tuning_order *order, struct tuning_outcome *out_outcome,
                                 struct tuner **out_tuner);

/* Where the file of a job is: STATE/tuning-NAME@VERSION.json. ERR_LIMIT. */
MUST_USE enum err tuning_path(const char *state_dir, const char *job, uint32_t version, char out_path[MAX_PATH_BYTES]);

#endif
