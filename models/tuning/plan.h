/* The plan: what can be tuned in training a net on a host: its operations, their kernels, and how a batch may be split.
 *
 * An operation is a layer with something to choose or to learn, and all others of the same key; a relu right behind it
 * belongs to it, since some kernels do both. Immutable once made; pure. */
#ifndef MODELS_TUNING_PLAN_H
#define MODELS_TUNING_PLAN_H

#include "models/kernels/cpu.h"
#include "models/kernels/selection.h"
#include "models/kernels/team.h"
#include "models/net/arch.h"
#include "models/tuning/tuner.h"

enum { MAX_VARIANT_BYTES = MAX_KERNEL_NAME_BYTES + 24 };

struct plan {
  const struct arch *arch; /* borrowed */
  uint32_t batch;
  struct cpu cpu;
  size_t n_operations;
  struct tuner_operation operations[MAX_TUNER_OPERATIONS];
  size_t layers[MAX_TUNER_OPERATIONS]; /* the first of each */
  char keys[MAX_TUNER_OPERATIONS][MAX_SELECTION_KEY_BYTES];
  uint32_t n_variants;                                 /* of the cost model: layer types' kernels */
  char variants[MAX_COST_VARIANTS][MAX_VARIANT_BYTES]; /* "dense packed" */
  size_t n_splits;
  struct tuner_split splits[MAX_TUNER_SPLITS];
};

/* n_threads: as many as may work at once. Lanes cost a gradient each, so a large model has few or one, and a net with
 * statistics is not split. Operations and kernels beyond the limits keep their defaults. The first split is the whole batch
 * on one thread. ERR_RANGE: there is nothing to be tuned. */
MUST_USE enum err plan_make(const struct arch *arch, uint32_t batch, const struct cpu *cpu, uint32_t n_threads,
                            struct plan *out_plan);

/* The kernel of an operation's variant. */
const char *plan_kernel(const struct plan *p, size_t operation, uint32_t variant);

/* What a choice means to net_open. */
void plan_selection(const struct plan *p, const struct tuner_choice *choice, struct selection *out_selection);

/* What net_open does without one. */
void plan_defaults(const struct plan *p, struct selection *out_selection);

/* ---- one cell as work to be measured ---- */

struct workload;

/* A net of that operation alone, with weights and inputs that are made up. The team has at least the split's threads, or is
 * NULL for one; borrowed, as the plan's arch is. ERR_LIMIT, ERR_NO_MEMORY as net_open. */
MUST_USE enum err workload_open(const struct plan *p, const struct tuner_cell *cell, struct team *team,
                                struct workload **out_workload);
/* The whole net, as trained with this selection. */
MUST_USE enum err workload_open_net(const struct plan *p, const struct selection *selection, struct team *team,
                                    struct workload **out_workload);
void workload_close(struct workload *w);

/* A step of training: a batch forwards and backwards. */
void workload_run(struct workload *w);

#endif
