/* This site's sketch: found before the first round, kept, and found anew when its data are no longer what they were.
 *
 * It is kept in STATE/sketch-JOB@VERSION.json, or STATE/sketch-JOB@VERSION.LABEL.json, with the digest of the training
 * labels, with what the first weights hang on and with the digest of what else it hangs on: the inputs of PROBES samples as
 * the model sees them, and the numbers of the training. So a restart with the same data pays nothing, and one with other
 * data, however they are distributed, or trained on otherwise, has another sketch. While an agent
 * runs it looks before each training whether the labels are distributed as they were (models/clustering/shift.h), and after each whether the loss has
 * leapt to more than LOSS_LEAP times what it was lately, as it does when classes have changed their meaning. A sketch that comes out as
 * it was says nothing to anybody.
 *
 * Thread: the trainer's. */
#ifndef AGENT_RUN_SKETCHING_H
#define AGENT_RUN_SKETCHING_H

#include "agent/config.h"
#include "agent/core/work.h"
#include "models/clustering/sketch.h"
#include "models/data/dataset.h"
#include "models/learner.h"

#define LOSS_LEAP 1.5
enum { PROBES = 256 };

struct sketching {
  const struct cluster_settings *settings; /* NULL: sites are not grouped, and nothing happens */
  struct digest seed;                      /* of the first weights */
  char path[MAX_PATH_BYTES];               /* "": nothing is kept */
  bool has_sketch;
  struct sketch sketch;
  struct digest labels;  /* that it was found with */
  struct digest made_of; /* inputs and training */
  uint32_t *counts;      /* [n_classes] of labels */
  size_t n_classes;
  double loss; /* of the trainings since, a running mean; NaN: none yet */
};

/* Where it is kept; run_label: "" or what tells apart runs of one job. ERR_LIMIT. */
MUST_USE enum err sketching_path(const char *state_dir, const char *job, uint32_t version, const char *run_label,
                                 char out_path[MAX_PATH_BYTES]);

void sketching_done(struct sketching *s);

/* The data are read and scaled: takes what is kept or finds it; either way the result has it. Fails only where the hook or memory does: a
 * site without a sketch, whose pre-training is not finite, is of no group, and the result's note says so. */
MUST_USE enum err sketching_start(struct sketching *s, const struct learner_config *like, const struct dataset *train,
                                  const struct work_hook *hook, struct trainer_result *result);

/* Before and after a training. The result has a sketch where there is another one than before. Errors as above. */
MUST_USE enum err sketching_before(struct sketching *s, const struct learner_config *like, const struct dataset *train,
                                   const struct work_hook *hook, struct trainer_result *result);
MUST_USE enum err sketching_after(struct sketching *s, const struct learner_config *like, const struct dataset *train,
                                  const struct work_hook *hook, struct trainer_result *result);

#endif
