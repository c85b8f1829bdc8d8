#include "agent/cli/trial.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/cli/answer.h"
#include "agent/cli/history.h"
#include "agent/round_json.h"
#include "agent/run/shadow.h"
#include "agent/run/snapshot.h"
#include "agent/site_job.h"
#include "base/must.h"

enum { LOOKS = 3 };

const char *const trial_sets[N_TEST_SETS + 1] = {
    [TEST_LOCAL] = "local", [TEST_VALIDATION] = "validation", [TEST_GLOBAL] = "global", [N_TEST_SETS] = NULL};

static const char *const set_remedies[] = {
    [TEST_LOCAL] = "local test set; write data.test or holdout",
    [TEST_VALIDATION] = "validation set; write validation in the job file, or bring more samples",
    [TEST_GLOBAL] = "global test set; write data.global_test"};

static void forget_files(struct trial *t) {
  free(t->model.bytes);
  free(t->half.bytes);
  free(t->shadow.bytes);
  t->model = t->half = t->shadow = (struct buffer){0};
  scale_done(&t->saved);
}

void trial_close(struct trial *t) {
  forget_files(t);
  learner_free(t->learner);
  splits_close(&t->data);
  dataset_close(t->global_test);
  schema_free(t->schema);
}

const struct scale *trial_scale(const struct trial *t) {
  const struct scale *own = &t->site_job->job.contract->scale;
  return scale_is_measured(own->rule) ? &t->saved : own;
}

/* Keeps `what` as the reason unless a closer one is there. */
static enum err because(struct trial *t, enum err e, const char *what) {
  if (e)
    snprintf(t->why, sizeof t->why, "%s: %s", what, err_sentence(e));
  return e;
}

static enum err open_learner(struct trial *t) {
  const struct site_job_config *s = t->site_job;
  char reason[MAX_REASON_BYTES];
  enum err e = schema_from_arch(s->job.arch, s->job.contract, &t->schema, reason);
  if (e)
    return because(t, e, "the model");
  struct learner_config config = site_job_learner(s, t->schema);
  return because(t, learner_open(&config, &t->learner), "the model");
}

/* ---- what is stored ----------------------------------------------------------------------------------------------- */

static size_t measure_model(const struct trial *t, const struct buffer *snapshot) {
  return learner_model_measure(schema_parameters(t->schema), snapshot->bytes, snapshot->n_bytes);
}

static size_t measure_half(const struct trial *t, const struct buffer *snapshot) {
  return learner_half_measure(t->learner, snapshot->bytes, snapshot->n_bytes);
}

/* The learner's part of a snapshot, and the scale behind it; neither for zeros. */
static enum err load_snapshot(const struct trial *t, struct store *store, const struct digest *name, size_t n_most,
                              size_t (*measure)(const struct trial *t, const struct buffer *snapshot),
                              struct buffer *out, struct scale *out_scale) {
  const struct job_config *job = &t->site_job->job;
  struct buffer part = {0}, unsealed, sealed;
  if (digest_is_zero(name))
    return ERR_OK;
  enum err e = store_file_load(store, name, snapshot_bound(job, schema_parameters(t->schema), n_most), &out->bytes,
                               &out->n_bytes);
  if (e == ERR_LIMIT) /* larger than any of this schema */
    return ERR_SCHEMA;
  unsealed = snapshot_unsealed(out, &sealed);
  if (!e)
    e = snapshot_split(job->contract, &unsealed, measure(t, &unsealed), &part, out_scale);
  if (!e)
    out->n_bytes = part.n_bytes; /* it begins there too */
  return e;
}

static enum err load_files(struct trial *t, struct store *store, const struct digest *job) {
  struct store_resume newest = {0};
  char why[MAX_REASON_BYTES];
  size_t n_half = learner_half_most(t->learner);
  enum err e = store_resume(store, job, &newest, why);
  struct scale of_half = {0};
  if (!e)
    e = load_snapshot(t, store, &t->round.model, learner_model_most(t->learner), measure_model, &t->model, &t->saved);
  if (!e)
    e = store_trainings(store, job, t->round.label, &t->n_trainings);
  if (!e)
    e = load_snapshot(t, store, &newest.half, n_half, measure_half, &t->half, &of_half);
  scale_done(&of_half);
  if (!e && !digest_is_zero(&t->round.shadow))
    e = store_file_load(store, &t->round.shadow,
                        snapshot_bound(&t->site_job->job, schema_parameters(t->schema), n_half) + SHADOW_TRAILER_BYTES,
                        &t->shadow.bytes, &t->shadow.n_bytes);
  if (!e)
    e = learner_model_read(t->learner, t->model.bytes, t->model.n_bytes);
  char label[ROUND_LABEL_BYTES], what[MAX_REASON_BYTES];
  round_label_write(t->round.label, label);
  snprintf(what, sizeof what, "the model of round %s", label);
  return because(t, e, what);
}

/* An agent that commits meanwhile takes away what was just found: looked for again then. */
static enum err read_store(struct trial *t, struct store *store, const struct model_choice *choice) {
  struct digest job = config_job_id(t->config, &t->site_job->job);
  enum err e = ERR_OK;
  for (size_t i = 0; i < LOOKS; i++) {
    if ((e = model_find(store, t->config, t->site_job, choice, &t->round, t->why)) != ERR_OK)
      return e;
    if ((e = load_files(t, store, &job)) != ERR_NOT_FOUND)
      return e;
    forget_files(t);
  }
  return e;
}

static enum err open_store(struct trial *t, const struct model_choice *choice) {
  char reason[MAX_REASON_BYTES];
  struct store *store;
  enum err e = history_open(t->config, &store, reason);
  if (e) {
    snprintf(t->why, sizeof t->why, "%s", reason);
    return e;
  }
  e = read_store(t, store, choice);
  store_close(store);
  return e;
}

/* ---- what it is judged on ----------------------------------------------------------------------------------------- */

static enum err open_data(struct trial *t) {
  struct data_place place = {0};
  struct data_memory memory = site_job_memory(t->site_job, t->schema, t->config->n_peers, t->config->state_dir);
  enum err e = site_job_open_data(t->site_job, &t->saved, t->set == TEST_GLOBAL, NULL, &memory, &t->data,
                                  &t->global_test, &place);
  if (e) {
    data_place_text(&place, t->why, sizeof t->why);
    return e;
  }
  const struct dataset *const tests[N_TEST_SETS] = {
      [TEST_LOCAL] = t->data.test, [TEST_VALIDATION] = t->data.validation, [TEST_GLOBAL] = t->global_test};
  return because(t, learner_attach(t->learner, t->data.train, tests), "the data");
}

enum err trial_open_stored(struct trial *t, const struct config *config, const struct site_job_config *site_job,
                           const struct model_choice *choice) {
  *t = (struct trial){.config = config, .site_job = site_job};
  enum err e = open_learner(t);
  return e ? e : open_store(t, choice);
}

enum err trial_open(struct trial *t, const struct config *config, const struct site_job_config *site_job,
                    enum test_set set) {
  return trial_open_model(t, config, site_job, set, &(struct model_choice){.pick = MODEL_LATEST});
}

enum err trial_open_model(struct trial *t, const struct config *config, const struct site_job_config *site_job,
                          enum test_set set, const struct model_choice *choice) {
  enum err e = trial_open_stored(t, config, site_job, choice); /* without a model no data need be read */
  t->set = set;
  if (!e)
    e = open_data(t);
  return e;
}

/* ---- judging ------------------------------------------------------------------------------------------------------ */

static enum err evaluate(struct trial *t, struct metrics *out_metrics) {
  enum err e = learner_evaluate(t->learner, t->set, NULL, out_metrics);
  if (e != ERR_NOT_FOUND)
    return because(t, e, "the evaluation");
  snprintf(t->why, sizeof t->why, "there is no %s", set_remedies[t->set]);
  return e;
}

enum err trial_evaluate_model(struct trial *t, struct metrics *out_metrics) {
  MUST(learner_model_read(t->learner, t->model.bytes, t->model.n_bytes) == ERR_OK); /* as it did when it was loaded */
  return evaluate(t, out_metrics);
}

enum err trial_evaluate_half(struct trial *t, const struct buffer *half, struct metrics *out_metrics) {
  enum err e = learner_half_read(t->learner, half->bytes, half->n_bytes);
  return e ? because(t, e, "a stored half-step") : evaluate(t, out_metrics);
}

int trial_error(struct call *call, const struct trial *t, enum err e) {
  return answer_error(call, e == ERR_NOT_FOUND ? EXIT_FAILED : exit_code_of(e), err_name(e), NULL, "%s", t->why);
}
