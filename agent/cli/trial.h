/* A trial: stored models of this site judged on its own data, beside a running agent or without one.
 *
 * Opening reads everything at once, newest first: the store is only looked at, and what it names may be gone a round later. */
#ifndef AGENT_CLI_TRIAL_H
#define AGENT_CLI_TRIAL_H

#include "agent/cli/cli.h"
#include "agent/cli/models.h"
#include "agent/core/work.h"
#include "models/learner.h"
#include "store/store.h"

struct trial {
  const struct config *config;
  const struct site_job_config *site_job;
  enum test_set set;
  struct store_round round; /* whose model it is */
  uint64_t n_trainings;     /* of this site that it has behind it */
  struct buffer model;      /* what it merged; all three without the scale that stands behind them */
  struct buffer half;       /* the newest half-step: this site's last local training; empty: none */
  struct buffer shadow;     /* trained alone; empty: none */
  struct scale saved;       /* numbers that the model was learnt with, n = 0 when the contract has them */
  struct schema *schema;
  struct learner *learner;
  struct splits data;
  struct dataset *global_test;
  char why[MAX_CONFIG_WHY_BYTES]; /* after an error: the sentence */
};

/* "local", "validation", "global", NULL: by enum test_set. */
extern const char *const trial_sets[N_TEST_SETS + 1];

/* Everything but an evaluation. ERR_NOT_FOUND: no committed round; ERR_NOT_CONNECTED: no database; other errors of
 * store, data and learner. Close it also after an error. */
MUST_USE enum err trial_open(struct trial *t, const struct config *config, const struct site_job_config *site_job,
                             enum test_set set);

/* The same for another model than the latest. ERR_NOT_FOUND: it is not kept, with a sentence that says what is. */
MUST_USE enum err trial_open_model(struct trial *t, const struct config *config, const struct site_job_config *site_job,
                                   enum test_set set, const struct model_choice *choice);

/* Only what is stored, no data: can the model be used by this job as its file is now? The learner then has it. ERR_SCHEMA. */
MUST_USE enum err trial_open_stored(struct trial *t, const struct config *config,
                                    const struct site_job_config *site_job, const struct model_choice *choice);
void trial_close(struct trial *t);

/* The numbers in effect: the contract's, or those that the model was learnt with. */
const struct scale *trial_scale(const struct trial *t);

/* Evaluates one of the three on the set. ERR_NOT_FOUND: there is no such set. */
MUST_USE enum err trial_evaluate_model(struct trial *t, struct metrics *out_metrics);
MUST_USE enum err trial_evaluate_half(struct trial *t, const struct buffer *half, struct metrics *out_metrics);

/* The answer to an error of the above. */
int trial_error(struct call *call, const struct trial *t, enum err e);

#endif
