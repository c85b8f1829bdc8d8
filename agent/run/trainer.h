/* The trainer: the thread that owns every float. It takes jobs in order from the loop and answers each with a result.
 *
 * Between batches, of training, evaluation and of data that are read, it looks whether it is to stop, so a stop takes less
 * than a second. Decoding happens here, after the
 * payload's root has been checked here; the loop never sees a float. */
#ifndef AGENT_RUN_TRAINER_H
#define AGENT_RUN_TRAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/config.h"
#include "agent/core/work.h"
#include "base/err.h"
#include "crypto/at_rest.h"
#include "models/schema.h"

struct dataset;
struct learner;
struct sums_roster;
struct trainer;

/* What a simulation does to a site's learning (agent/sim/attackers.h); nothing deployed has one. On the trainer's thread. */
struct trainer_tamper {
  void *context;
  void (*samples)(void *context, struct dataset *set, bool is_train); /* of each set as it was read, in memory */
  void (*begin)(void *context, const struct learner *l);              /* before a training */
  enum err (*end)(void *context, struct learner *l, uint64_t round);  /* and after one, before its update is encoded */
};

struct trainer_config {
  const struct site_job_config *site_job; /* const for the trainer's life, as is schema */
  const struct schema *schema;
  struct digest init; /* seed of the first weights */
  size_t n_copies;    /* peers that are followed … */
  const size_t *
      copy_of; /* … and of each peer its copy, for the trainer's life, SIZE_MAX: none; NULL: the one of its own number */
  const struct sums_roster *roster; /* with push-sum, for the trainer's life; else NULL */
  struct at_rest_key at_rest;       /* of SEALED_PURPOSE; zeros in simulations */
  const char *state_dir; /* for measurements of this host, and samples that do not fit into memory; NULL: all do */
  uint64_t judged_from;  /* models of earlier rounds are judged on the validation split alone; 0: all on every set */
  bool measures;         /* which kernels are fast here; else the built-in choice */
  uint32_t n_jobs;       /* that share the processors, at least 1 */
  const struct trainer_tamper *tamper; /* for the trainer's life; NULL: nobody */
};

/* Starts the thread. Jobs are answered in order; results are taken with trainer_poll when trainer_fd is readable. */
MUST_USE enum err trainer_start(const struct trainer_config *config, struct trainer **out_trainer);

/* Where first weights come from: a stored model (moved) of another job of this site, by names and shapes. */
struct warm_start {
  const struct schema *schema; /* borrowed for the trainer's life */
  struct digest schema_hash;
  struct buffer model;
};

/* For a first start: before the first job. JOB_LOAD's result says what was taken. */
void trainer_set_warm(struct trainer *t, const struct warm_start *warm);

enum { TRAINER_RING = 8 /* jobs put whose results were not polled yet; the round machine has one or two */ };

/* What the store keeps of the model that is trained alone (moved; empty: nothing), whether the site has not trained before,
 * and of how many steps the half-step is that waits for its commitment (0: none does, or nobody knows). Before the JOB_LOAD
 * that begins with it. */
void trainer_set_shadow(struct trainer *t, struct buffer stored, bool is_first, uint32_t half_steps);

/* Moves a job in. The first one is JOB_LOAD; if that fails, another JOB_LOAD may follow. JOB_TRAIN and JOB_MERGE alternate:
 * JOB_MERGE says that the payload of the JOB_TRAIN before it, if that succeeded, is durable. */
void trainer_put(struct trainer *t, struct trainer_job *job);

/* The next result, or NULL. */
struct trainer_result *trainer_poll(struct trainer *t);
int trainer_fd(const struct trainer *t);

/* Batches done and in all of the training in work; 0 of 0 otherwise. Any thread. */
void trainer_progress(const struct trainer *t, uint32_t *out_done, uint32_t *out_total);

/* How long a commit took for the model trained alone: a part of what that costs. Any thread. */
void trainer_shadow_stored(struct trainer *t, double seconds);

/* From now on every job is answered by ERR_STOPPED, the one in work between two batches. Does not wait, so that several can
 * be told before the first one is joined. NULL is allowed. */
void trainer_interrupt(struct trainer *t);

/* Interrupts, joins, frees everything that still waits. NULL is allowed. */
void trainer_stop(struct trainer *t);

#endif
