#include "agent/run/trainer.h"

#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock.h"
#include "agent/run/kernels.h"
#include "agent/run/mailbox.h"
#include "agent/run/shadow.h"
#include "agent/run/sketching.h"
#include "agent/run/snapshot.h"
#include "agent/run/sums.h"
#include "agent/site_job.h"
#include "agent/stream.h"
#include "base/must.h"
#include "crypto/digest.h"
#include "crypto/merkle.h"
#include "models/data/check.h"
#include "models/data/dataset.h"
#include "models/learner.h"

enum { KEPT_BYTES = 4 << 20 };

struct trainer {
  struct trainer_config config;
  struct mailbox *jobs, *results;
  pthread_t thread;
  atomic_bool stop;
  _Atomic uint64_t shadow_stored_us; /* of the last commit */
  _Atomic uint64_t progress;         /* batches done << 32 | in all, so that the two always belong together */
  struct trainer_job end;            /* its address ends the thread */

  /* the loop's until it puts JOB_LOAD */
  struct buffer shadow_stored;
  struct warm_start warm;
  bool is_first;
  uint32_t half_steps;

  /* the trainer thread's */
  struct kernels *kernels;
  char kernels_path[MAX_PATH_BYTES];
  struct learner *learner;
  struct sums sums;
  struct splits data;
  struct dataset *global_test;
  struct stream_look stream;              /* of data that are watched: what was read last, or found to be none */
  char stream_told[2 * MAX_REASON_BYTES]; /* why they could not be read at the last training; "": they were */
  struct buffer scale_text;               /* what follows the learner's bytes in every snapshot */
  struct buffer committed,
      committed_tasks; /* the learner's half and tasks before the last JOB_RESTORE, until JOB_TRAIN */
  struct shadow shadow;
  struct sketching sketching;
  bool has_unpublished; /* a training succeeded whose x̂' is not durable yet */
};

/* ---- JOB_LOAD ---- */

static void unload(struct trainer *t) {
  shadow_close(&t->shadow);
  sketching_done(&t->sketching);
  learner_free(t->learner);
  sums_done(&t->sums);
  kernels_close(t->kernels);
  splits_close(&t->data);
  dataset_close(t->global_test);
  stream_look_done(&t->stream);
  free(t->scale_text.bytes);
  free(t->committed.bytes);
  free(t->committed_tasks.bytes);
  t->learner = NULL;
  t->kernels = NULL;
  t->global_test = NULL;
  t->scale_text = t->committed = t->committed_tasks = (struct buffer){0};
}

__attribute__((format(printf, 2, 3))) static void say(struct trainer_result *result, const char *format, ...) {
  size_t n = strlen(result->sentence);
  if (n > 0)
    n += (size_t)snprintf(result->sentence + n, sizeof result->sentence - n, "; ");
  if (n >= sizeof result->sentence)
    return;
  va_list args;
  va_start(args, format);
  vsnprintf(result->sentence + n, sizeof result->sentence - n, format, args);
  va_end(args);
}

static enum err stop_or_go_on(void *context, size_t done, size_t total) {
  (void)done;
  (void)total;
  struct trainer *t = context;
  return atomic_load(&t->stop) ? ERR_STOPPED : ERR_OK;
}

static struct learner_config learner_config(const struct trainer *t) {
  struct learner_config config = site_job_learner(t->config.site_job, t->config.schema);
  config.init = t->config.init;
  config.n_copies = t->config.n_copies;
  config.rule.n_configured = (uint32_t)t->config.n_copies;
  config.selection = kernels_selection(t->kernels);
  config.team = kernels_team(t->kernels);
  return config;
}

/* How this host computes; measured where that is not known. */
static enum err open_kernels(struct trainer *t) {
  const struct job_config *job = &t->config.site_job->job;
  const struct work_hook hook = {stop_or_go_on, t};
  struct kernels_config config = {.root = "",
                                  .job = job->name,
                                  .arch = schema_arch(t->config.schema),
                                  .batch = job->train.batch,
                                  .n_jobs = t->config.n_jobs};
  if (t->config.measures && tuning_path(t->config.state_dir, job->name, job->version, t->kernels_path) == ERR_OK)
    config.path = t->kernels_path;
  return kernels_open(&config, &hook, &t->kernels);
}

static enum err open_learner(struct trainer *t, struct trainer_result *result) {
  const struct site_job_config *c = t->config.site_job;
  const struct sums_roster *roster = t->config.roster;
  enum err e = open_kernels(t);
  if (e == ERR_OK && roster)
    e = sums_open(roster, t->config.n_copies, &t->sums);
  if (e == ERR_OK) {
    struct learner_config config = learner_config(t);
    config.ledger = roster ? &t->sums.ledger : NULL;
    e = learner_open(&config, &t->learner);
  }
  if (e != ERR_OK)
    say(result, "%s: %s", c->job_path, err_sentence(e));
  return e;
}

/* A site learns each task when its turn comes. */
static enum err check_tasks(const struct trainer *t, struct trainer_result *result) {
  const struct site_job_config *c = t->config.site_job;
  const struct continual_config *continual = &c->job.continual;
  if (continual->boundaries == BOUNDARIES_DETECTED)
    return ERR_OK; /* they come as they come */
  size_t task = continual->tasks.n_tasks > 0 ? continual_task_without(continual, t->data.train) : 0;
  if (task == continual->tasks.n_tasks)
    return ERR_OK;
  say(result, "%s: no training sample of task %zu of continual.tasks; add some, or take the task out of the job",
      c->train_path, task + 1);
  return ERR_RANGE;
}

static void tamper_with(const struct trainer *t, const struct splits *sets, struct dataset *global_test) {
  const struct trainer_tamper *tamper = t->config.tamper;
  struct dataset *const all[MAX_DATA_SETS] = {sets->train, sets->validation, sets->test, global_test};
  for (size_t i = 0; tamper != NULL && i < MAX_DATA_SETS; i++)
    if (all[i] != NULL)
      tamper->samples(tamper->context, all[i], all[i] == sets->train);
}

static struct data_memory memory_for_samples(const struct trainer *t) {
  const struct sums_roster *roster = t->config.roster;
  return site_job_memory(t->config.site_job, t->config.schema, roster ? roster->n_peers : 0, t->config.state_dir);
}

static enum err open_data(struct trainer *t, const struct scale *saved, struct trainer_result *result) {
  const struct site_job_config *c = t->config.site_job;
  const struct work_hook hook = {stop_or_go_on, t};
  struct data_memory memory = {0};
  const bool has_disk = t->config.state_dir != NULL;
  if (has_disk)
    memory = memory_for_samples(t);
  struct data_place why;
  enum err e = c->watch ? stream_look(c->train_path, &t->stream, &why) : ERR_OK; /* what comes after it is seen later */
  if (e == ERR_OK)
    e = site_job_open_data(c, saved, true, &hook, has_disk ? &memory : NULL, &t->data, &t->global_test, &why);
  if (e == ERR_OK && (e = dataset_read_ahead(t->data.train, &memory)) != ERR_OK)
    e = data_fault(&why, e, "%s", err_sentence(e));
  result->samples_bytes = memory.used_bytes;
  result->streamed_bytes = memory.disk_bytes;
  if (e != ERR_OK) {
    data_place_text(&why, result->sentence, sizeof result->sentence);
    return e;
  }
  tamper_with(t, &t->data, t->global_test);
  if ((e = check_tasks(t, result)) != ERR_OK)
    return e;
  const struct dataset *const tests[N_TEST_SETS] = {
      [TEST_LOCAL] = t->data.test, [TEST_VALIDATION] = t->data.validation, [TEST_GLOBAL] = t->global_test};
  if ((e = learner_attach(t->learner, t->data.train, tests)) != ERR_OK ||
      (e = snapshot_scale_text(&t->data.train->scale, &t->scale_text)) != ERR_OK)
    say(result, "%s: %s", c->train_path, err_sentence(e));
  return e;
}

/* What was kept for other tasks, or by other means, is of no use any more. */
static enum err restore_tasks(struct trainer *t, const struct buffer *sealed, struct trainer_result *result) {
  enum err e = snapshot_unseal(&t->config.at_rest, sealed, t->learner);
  if (e == ERR_CORRUPT || e == ERR_TRUNCATED || e == ERR_TRAILING) {
    say(result, "what was kept of earlier tasks does not fit `continual` in the job file any more; it begins anew");
    return ERR_OK;
  }
  if (e != ERR_OK)
    say(result, "what was kept of earlier tasks: %s; was it sealed with another key?", err_sentence(e));
  return e;
}

static enum err restore(struct trainer *t, const struct buffer *half, const struct buffer *model,
                        struct trainer_result *result) {
  enum err e = ERR_OK;
  if (half->n_bytes > 0)
    e = learner_half_read(t->learner, half->bytes, half->n_bytes);
  if (e == ERR_OK && model->n_bytes > 0)
    e = learner_model_read(t->learner, model->bytes, model->n_bytes);
  if (e != ERR_OK)
    say(result, "the stored model: %s; start with an empty state directory, or with the job file that it was made with",
        err_sentence(e));
  return e;
}

/* Units and scaling that look wrong: every reader takes such values, and the model they make is worthless. */
static void warn_of_units(const struct trainer *t, struct trainer_result *result) {
  const struct site_job_config *c = t->config.site_job;
  struct findings found = {0};
  if (check_dataset(t->data.train, c->job.contract, &found) == ERR_OK && found.n > 0)
    say(result, "%s: %s: %s%s", c->train_path, found.items[0].about, found.items[0].sentence,
        found.n > 1 ? "; `starling data check` tells the others" : "");
  findings_done(&found);
}

/* What pooled scaling needs to know. */
static enum err answer_pool(const struct trainer *t, struct trainer_result *result) {
  const struct contract *contract = t->config.site_job->job.contract;
  const struct dataset *train = t->data.train;
  if (contract->scale.rule != SCALE_POOLED)
    return ERR_OK;
  return train->scale.n > 0 ? scale_copy(&train->scale, &result->scale)
                            : dataset_measure(train, contract, &result->stats);
}

/* What is worth a warning about data that was read. */
static void warn(const struct trainer *t, struct trainer_result *result) {
  const struct contract *contract = t->config.site_job->job.contract;
  const char *path = t->config.site_job->train_path;
  const struct dataset *train = t->data.train;
  for (size_t i = 0; i < train->n_classes && task_type(contract->task)->has_said_classes; i++)
    if (train->class_counts[i] == 0)
      say(result, "%s: no training sample of class %s", path, contract->classes[i].text);
  if (train->n_anomalies > 0)
    say(result, "%s: samples that are not of class %s and so not trained on: %zu", path, contract->classes[0].text,
        train->n_anomalies);
  if (train->n_ignored_columns > 0)
    say(result, "%s: columns not in the contract and ignored: %zu", path, train->n_ignored_columns);
  if (train->scale.rule == SCALE_LOCAL)
    say(result, "%s: inputs are scaled by this site's own numbers, so other sites see other inputs", path);
  warn_of_units(t, result);
}

/* A half-step without its commitment: the shadow was stored before that training. */
static enum err open_shadow(struct trainer *t, const struct trainer_job *job, struct trainer_result *result) {
  const struct site_job_config *c = t->config.site_job;
  struct learner_config config = learner_config(t);
  config.team = NULL; /* it outlives a change of the host */
  const struct dataset *const tests[N_TEST_SETS] = {[TEST_LOCAL] = t->data.test};
  const struct shadow_start start = {
      .mode = c->shadow,
      .learner = &config,
      .train = t->data.train,
      .tests = tests,
      .stored = &t->shadow_stored,
      .is_first = t->is_first,
      .first = t->learner,
      .at_rest = &t->config.at_rest,
      .metric = contract_metric(c->job.contract),
  };
  enum err e = shadow_open(&t->shadow, &start);
  if (e != ERR_OK)
    say(result, "the model trained alone: %s", err_sentence(e));
  else if (job->half.n_bytes > 0 && job->model.n_bytes == 0)
    shadow_owe(&t->shadow, job->label, 1, t->half_steps);
  return e;
}

static uint32_t size_of(const struct dataset *d) {
  return d == NULL ? 0 : (uint32_t)d->n; /* n ≤ MAX_SAMPLES */
}

/* "copied dense1.weight, dense1.bias; new: dense2.weight" */
static void say_taken(const struct trainer *t, const bool *taken, struct trainer_result *result) {
  char *out = result->warm_note;
  size_t n = 0, capacity = sizeof result->warm_note;
  for (int pass = 0; pass < 2; pass++) {
    const char *before = pass == 0 ? "copied " : "; new: ";
    bool is_any = false;
    for (size_t i = 0; i < schema_tensors(t->config.schema) && n < capacity; i++) {
      if (taken[i] != (pass == 0))
        continue;
      n += (size_t)snprintf(out + n, capacity - n, "%s%s", is_any ? ", " : before,
                            schema_tensor(t->config.schema, i)->name);
      is_any = true;
    }
    if (!is_any && n < capacity)
      n += (size_t)snprintf(out + n, capacity - n, "%snone", before);
  }
}

/* First weights from another job's model, where nothing of this job is stored. */
static enum err take_warm(struct trainer *t, const struct trainer_job *job, struct trainer_result *result) {
  const struct warm_start *w = &t->warm;
  if (w->model.n_bytes == 0 || job->half.n_bytes > 0 || job->model.n_bytes > 0)
    return ERR_OK;
  bool *taken = calloc(schema_tensors(t->config.schema), sizeof *taken);
  size_t n =
      learner_model_measure(schema_parameters(w->schema), w->model.bytes, w->model.n_bytes); /* a scale may follow */
  enum err e = taken ? learner_take(t->learner, w->schema, &w->schema_hash, w->model.bytes,
                                    n < w->model.n_bytes ? n : w->model.n_bytes, taken)
                     : ERR_NO_MEMORY;
  if (e == ERR_OK)
    say_taken(t, taken, result);
  else
    say(result, "the model to start from: %s", err_sentence(e));
  free(taken);
  return e;
}

/* Pooled data are not scaled yet: JOB_SCALE comes. */
static bool is_scaled(const struct trainer *t) {
  return t->config.site_job->job.contract->scale.rule != SCALE_POOLED || t->data.train->scale.n > 0;
}

static enum err start_sketching(struct trainer *t, struct trainer_result *result) {
  const struct job_config *job = &t->config.site_job->job;
  const struct work_hook hook = {stop_or_go_on, t};
  const struct learner_config like = learner_config(t);
  if (!job->cluster.is_on || !is_scaled(t))
    return ERR_OK;
  t->sketching = (struct sketching){.settings = &job->cluster, .seed = t->config.init};
  if (t->config.state_dir &&
      sketching_path(t->config.state_dir, job->name, job->version, job->run_label, t->sketching.path) != ERR_OK)
    t->sketching.path[0] = '\0';
  enum err e = sketching_start(&t->sketching, &like, t->data.train, &hook, result);
  if (e != ERR_OK)
    say(result, "the direction of this site's data: %s", err_sentence(e));
  return e;
}

static size_t half_of(const struct trainer *t, const struct buffer *snapshot) {
  return learner_half_measure(t->learner, snapshot->bytes, snapshot->n_bytes);
}

static size_t model_of(const struct trainer *t, const struct buffer *snapshot) {
  return learner_model_measure(schema_parameters(t->config.schema), snapshot->bytes, snapshot->n_bytes);
}

static enum err load_from(struct trainer *t, const struct trainer_job *job, struct trainer_result *result) {
  const struct contract *contract = t->config.site_job->job.contract;
  enum err e = open_learner(t, result);
  if (e != ERR_OK)
    return e;
  struct buffer half, model, sealed, unsealed = snapshot_unsealed(&job->half, &sealed);
  struct scale of_half = {0}, of_model = {0};
  if ((e = snapshot_split(contract, &unsealed, half_of(t, &unsealed), &half, &of_half)) != ERR_OK ||
      (e = snapshot_split(contract, &job->model, model_of(t, &job->model), &model, &of_model)) != ERR_OK) {
    say(result, "the scale of the stored model: %s", err_sentence(e));
    goto out;
  }
  if ((e = open_data(t, of_model.n > 0 ? &of_model : &of_half, result)) == ERR_OK &&
      (e = restore(t, &half, &model, result)) == ERR_OK && (e = restore_tasks(t, &sealed, result)) == ERR_OK &&
      (e = take_warm(t, job, result)) == ERR_OK) {
    if (t->config.site_job->job
            .is_steps_auto) /* as the half-step that is merged next was trained, so is the own model */
      learner_set_steps(t->learner, t->half_steps);
    e = open_shadow(t, job, result);
  }
  if (e == ERR_OK)
    e = start_sketching(t, result);
out:
  scale_done(&of_half);
  scale_done(&of_model);
  return e;
}

/* Payloads and snapshots are wanted anew each round: with glibc's defaults their pages go back to the kernel each time, and
 * taking them again costs more than filling them. Not before the data are read, whose tables grow best in maps of their own. */
static void keep_round_memory(void) {
  mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
}

static enum err load(struct trainer *t, struct trainer_job *job, struct trainer_result *result) {
  MUST(t->learner == NULL);
  enum err e = load_from(t, job, result);
  if (e == ERR_OK)
    e = answer_pool(t, result);
  if (e != ERR_OK) {
    unload(t);
    return e;
  }
  keep_round_memory();
  warn(t, result);
  result->n_samples = size_of(t->data.train);
  result->n_validation = size_of(t->data.validation);
  result->n_test = size_of(t->data.test);
  result->n_global_test = size_of(t->global_test);
  result->epoch_steps = learner_epoch_steps(t->learner);
  return ERR_OK;
}

/* ---- JOB_SCALE ---- */

static enum err rescale(struct trainer *t, struct trainer_job *job, struct trainer_result *result) {
  const struct contract *contract = t->config.site_job->job.contract;
  enum { N_SETS = 4 };
  struct dataset *const sets[N_SETS] = {t->data.train, t->data.validation, t->data.test, t->global_test};
  enum err e = ERR_OK;
  MUST(t->learner != NULL && t->scale_text.n_bytes == 0);
  for (size_t i = 0; i < N_SETS && e == ERR_OK; i++)
    if (sets[i] != NULL)
      e = dataset_rescale(sets[i], contract, &job->scale);
  if (e == ERR_OK)
    e = snapshot_scale_text(&t->data.train->scale, &t->scale_text);
  return e == ERR_OK ? start_sketching(t, result) : e;
}

/* ---- snapshots ---- */

static void buffer_free(struct buffer *b) {
  free(b->bytes);
  *b = (struct buffer){0};
}

static enum err write_snapshot(const struct trainer *t, size_t n_learner,
                               void (*write)(const struct learner *l, uint8_t *out_bytes), struct buffer *out) {
  size_t n_bytes = n_learner + t->scale_text.n_bytes;
  uint8_t *bytes = malloc(n_bytes);
  if (bytes == NULL)
    return ERR_NO_MEMORY;
  write(t->learner, bytes);
  if (t->scale_text.n_bytes > 0)
    memcpy(bytes + n_learner, t->scale_text.bytes, t->scale_text.n_bytes);
  *out = (struct buffer){bytes, n_bytes};
  return ERR_OK;
}

static enum err write_half(const struct trainer *t, struct buffer *out) {
  enum err e = write_snapshot(t, learner_half_bytes(t->learner), learner_half_write, out);
  if (e == ERR_OK && (e = snapshot_seal(&t->config.at_rest, t->learner, out)) != ERR_OK)
    buffer_free(out);
  return e;
}

static enum err write_model(const struct trainer *t, struct buffer *out) {
  return write_snapshot(t, learner_model_bytes(t->learner), learner_model_write, out);
}

/* ---- JOB_TRAIN ---- */

static enum err show_progress(void *context, size_t done, size_t total) {
  struct trainer *t = context;
  atomic_store(&t->progress, (uint64_t)done << 32 | (uint32_t)total);
  return stop_or_go_on(context, done, total);
}

/* Takes data that were read anew in the place of those before. */
static enum err take_sets(struct trainer *t, struct splits *sets) {
  const struct dataset *const tests[N_TEST_SETS] = {
      [TEST_LOCAL] = sets->test, [TEST_VALIDATION] = sets->validation, [TEST_GLOBAL] = t->global_test};
  enum err e = learner_reattach(t->learner, sets->train, tests);
  if (e != ERR_OK)
    return e;
  const struct dataset *const own_test[N_TEST_SETS] = {[TEST_LOCAL] = sets->test};
  shadow_reattach(&t->shadow, sets->train, own_test);
  struct splits before = t->data;
  t->data = *sets;
  *sets = before;
  return ERR_OK;
}

/* All is read again, by the scale in effect: a sample's split follows from itself, so those of before stay where they were. */
static enum err read_again(struct trainer *t, struct data_place *why) {
  const struct site_job_config *c = t->config.site_job;
  const struct work_hook hook = {stop_or_go_on, t};
  const struct scale none = {0};
  const bool is_measured = scale_is_measured(c->job.contract->scale.rule);
  struct data_memory memory = {0};
  struct splits sets = {0};
  struct dataset *unused = NULL;
  if (t->config.state_dir != NULL)
    memory = memory_for_samples(t);
  enum err e = site_job_open_data(c, is_measured ? &t->data.train->scale : &none, false, &hook,
                                  t->config.state_dir != NULL ? &memory : NULL, &sets, &unused, why);
  if (e == ERR_OK)
    tamper_with(t, &sets, NULL);
  if (e == ERR_OK && ((e = dataset_read_ahead(sets.train, &memory)) != ERR_OK || (e = take_sets(t, &sets)) != ERR_OK))
    e = data_fault(why, e, "%s", err_sentence(e));
  splits_close(&sets);
  return e;
}

/* That what stands there is no data, which stays so until it changes; whatever else may pass. */
static bool is_of_content(enum err e) {
  return e == ERR_SYNTAX || e == ERR_RANGE || e == ERR_LIMIT || e == ERR_NON_FINITE || e == ERR_CORRUPT;
}

/* Reads what stands there if it is not what was read last. */
static enum err take_news(struct trainer *t, char out_lost[MAX_REASON_BYTES], struct data_place *why) {
  struct stream_look now = {0};
  enum err e = stream_look(t->config.site_job->train_path, &now, why);
  bool is_new = e == ERR_OK && stream_differs(&t->stream, &now, out_lost);
  if (is_new)
    e = read_again(t, why);
  if (is_new && (e == ERR_OK || is_of_content(e))) {
    stream_look_done(&t->stream);
    t->stream = now; /* now the trainer's */
    now = (struct stream_look){0};
  }
  stream_look_done(&now);
  return e;
}

/* What has come since the last training. What cannot be read is told once, and the samples of before stay. */
static void watch(struct trainer *t, struct trainer_result *result) {
  char lost[MAX_REASON_BYTES] = "", text[MAX_PATH_BYTES + MAX_REASON_BYTES];
  struct data_place why;
  if (!t->config.site_job->watch)
    return;
  enum err e = take_news(t, lost, &why);
  result->is_stream_refused = e != ERR_OK;
  if (e == ERR_OK) {
    t->stream_told[0] = '\0';
    snprintf(result->stream_note, sizeof result->stream_note, "%s", lost);
    return;
  }
  data_place_text(&why, text, sizeof text);
  snprintf(result->stream_note, sizeof result->stream_note, "%.400s; training goes on with the samples of before",
           text);
  if (strcmp(result->stream_note, t->stream_told) == 0)
    result->stream_note[0] = '\0';
  else
    memcpy(t->stream_told, result->stream_note, sizeof t->stream_told);
}

/* A quota that has changed since the last training: another selection may be faster now. */
static void look_at_host(struct trainer *t) {
  const struct work_hook hook = {stop_or_go_on, t};
  if (kernels_look(t->kernels, &hook) &&
      learner_select(t->learner, kernels_selection(t->kernels), kernels_team(t->kernels)) == ERR_OK)
    kernels_settled(t->kernels);
}

static enum err local_steps(struct trainer *t, const struct trainer_job *job, struct trainer_result *result) {
  const struct work_hook hook = {show_progress, t};
  struct train_report report;
  double start = clock_s();
  learner_set_steps(t->learner, job->steps);
  const double rate_scale = job->rate_scale * (t->sums.is_on ? mass_rate(&t->sums.mass) : 1);
  enum err e = learner_train(t->learner, job->label.round, job->label.sub, rate_scale, &hook, &report);
  atomic_store(&t->progress, 0);
  if (e != ERR_OK)
    return e;
  result->seconds = clock_s() - start;
  result->n_samples = report.n_samples;
  result->local_steps = report.local_steps;
  result->train_loss = report.loss;
  return ERR_OK;
}

static enum err encode_difference(struct trainer *t, bool start_chain, struct buffer *out_payload) {
  struct buffer payload = {malloc(learner_payload_bound(t->learner)), 0};
  if (payload.bytes == NULL)
    return ERR_NO_MEMORY;
  enum err e = learner_encode(t->learner, start_chain, payload.bytes, &payload.n_bytes);
  if (e != ERR_OK) {
    buffer_free(&payload);
    return e;
  }
  void *fitted = realloc(payload.bytes, payload.n_bytes);
  if (fitted != NULL)
    payload.bytes = fitted;
  *out_payload = payload;
  return ERR_OK;
}

static enum err encode(struct trainer *t, const struct trainer_job *job, struct trainer_result *result) {
  enum err e = t->sums.is_on ? sums_push(&t->sums, t->learner, job, &result->payload)
                             : encode_difference(t, job->start_chain, &result->payload);
  if (e != ERR_OK)
    return e;
  result->mass = t->sums.mass.sent;
  merkle_root(&digest_blake2b, result->payload.bytes, result->payload.n_bytes, &result->payload_root);
  return ERR_OK;
}

/* The half-step's snapshot and where the public copy stands in it. */
static enum err keep_half(struct trainer *t, bool wants_root, struct trainer_result *result) {
  enum err e = write_half(t, &result->half);
  if (e != ERR_OK)
    return e;
  result->copy_offset = learner_half_copy_offset(t->learner);
  result->n_copy = learner_copy_bytes(t->learner);
  if (wants_root)
    merkle_root(&digest_blake2b, result->half.bytes + result->copy_offset, result->n_copy, &result->copy_root);
  return ERR_OK;
}

static struct continual_figures figures_of(const struct learner *l) {
  const struct continual *c = l != NULL ? learner_continual(l) : NULL;
  if (c == NULL)
    return (struct continual_figures){0};
  struct continual_status s = continual_status(c);
  struct continual_figures f = {.is_on = s.has_begun,
                                .position = (uint32_t)s.position,
                                .task = (uint32_t)s.task,
                                .n_tasks = (uint32_t)s.n_tasks,
                                .n_done = (uint32_t)s.n_done,
                                .n_replay = s.n_replay,
                                .n_samples = s.n_samples,
                                .n_arrived = s.n_arrived,
                                .found_p = s.found_p};
  snprintf(f.found, sizeof f.found, "%s", drift_test_name(s.found));
  return f;
}

/* Local steps, and what peers and the store get of them. */
static enum err make_half(struct trainer *t, const struct trainer_job *job, struct trainer_result *result) {
  const struct work_hook hook = {stop_or_go_on, t};
  const struct learner_config like = learner_config(t);
  const struct trainer_tamper *tamper = t->config.tamper;
  enum err e;
  if (tamper != NULL)
    tamper->begin(tamper->context, t->learner);
  if ((e = local_steps(t, job, result)) != ERR_OK ||
      (tamper != NULL && (e = tamper->end(tamper->context, t->learner, job->label.round)) != ERR_OK) ||
      (e = sketching_after(&t->sketching, &like, t->data.train, &hook, result)) != ERR_OK ||
      (e = encode(t, job, result)) != ERR_OK)
    return e;
  return keep_half(t, job->wants_copy_root, result);
}

static void undo_training(struct trainer *t, bool has_given) {
  if (t->sums.is_on && has_given)
    sums_take_back(&t->sums);
  learner_undo(t->learner);
}

/* Only what was begun can be undone: before it, the learner's last training is that of another round. */
static enum err make_half_or_nothing(struct trainer *t, const struct trainer_job *job, struct trainer_result *result) {
  enum err e = make_half(t, job, result);
  if (e != ERR_OK) {
    undo_training(t, result->payload.bytes != NULL);
    buffer_free(&result->payload);
  }
  return e;
}

/* Whether this site's data still pull where they did, and the round's training. */
static enum err look_and_train(struct trainer *t, const struct trainer_job *job, struct trainer_result *result) {
  const struct work_hook hook = {stop_or_go_on, t};
  const struct learner_config like = learner_config(t);
  result->train_loss = __builtin_nan(""); /* of a training that failed */
  enum err e = sketching_before(&t->sketching, &like, t->data.train, &hook, result);
  return e == ERR_OK ? make_half_or_nothing(t, job, result) : e;
}

static void forget_committed(struct trainer *t) {
  buffer_free(&t->committed);
  buffer_free(&t->committed_tasks);
}

/* After a failure everything is as it was committed. */
static enum err train(struct trainer *t, struct trainer_job *job, struct trainer_result *result) {
  MUST(t->learner != NULL && !t->has_unpublished);
  if (t->sums.is_on)
    sums_begin(&t->sums, job);
  forget_committed(t);
  look_at_host(t);
  shadow_stored(&t->shadow, (double)atomic_exchange(&t->shadow_stored_us, 0) * 1e-6);
  shadow_round(&t->shadow, clock_s());
  const struct continual_figures before = figures_of(t->learner);
  watch(t, result);
  enum err e = look_and_train(t, job, result);
  t->has_unpublished = e == ERR_OK;
  const struct continual_figures after = figures_of(t->learner);
  result->has_new_task = e == ERR_OK && after.is_on && (!before.is_on || before.position != after.position);
  if (e == ERR_OK)
    shadow_owe(&t->shadow, job->label, job->rate_scale, job->steps);
  return e;
}

/* ---- JOB_MERGE, JOB_ADOPT ---- */

static const enum codec_kind codec_of_encoding[N_ENCODINGS] = {
    [ENCODING_F32] = CODEC_F32, [ENCODING_F16] = CODEC_F16,   [ENCODING_Q8] = CODEC_Q8,
    [ENCODING_Q4] = CODEC_Q4,   [ENCODING_TOPK] = CODEC_TOPK,
};

/* Where the sender states the root of its public copy, ours has the same bits or is broken: a full copy heals it. */
static enum err copy_check(const struct learner *l, size_t copy, const struct digest *stated) {
  if (digest_is_zero(stated))
    return ERR_OK;
  size_t n_bytes = learner_copy_bytes(l);
  uint8_t *bytes = malloc(n_bytes);
  if (bytes == NULL)
    return ERR_NO_MEMORY;
  struct digest root;
  learner_copy_write(l, copy, bytes);
  merkle_root(&digest_blake2b, bytes, n_bytes, &root);
  free(bytes);
  return digest_equal(&root, stated) ? ERR_OK : ERR_CHAIN;
}

static size_t copy_of(const struct trainer *t, size_t peer) {
  size_t copy = t->config.copy_of ? t->config.copy_of[peer] : peer;
  MUST(copy < t->config.n_copies);
  return copy;
}

/* Root first, so that nothing is decoded that its origin did not sign. */
static enum err link_apply(struct trainer *t, size_t peer, const struct link_in *link) {
  const struct manifest *m = &link->manifest;
  struct learner *l = t->learner;
  struct digest root;
  if (m->kind == MANIFEST_NONE)
    return ERR_OK;
  if ((m->kind == MANIFEST_SUM) != t->sums.is_on || m->encoding >= N_ENCODINGS ||
      (m->kind == MANIFEST_FULL && m->encoding != ENCODING_F32))
    return ERR_ENCODING;
  merkle_root(&digest_blake2b, link->payload, m->n_payload, &root);
  if (!digest_equal(&root, &m->payload_root))
    return ERR_ROOT;
  if (m->kind == MANIFEST_SUM)
    return sums_gather(&t->sums, l, peer, link);
  size_t copy = copy_of(t, peer);
  if (m->kind == MANIFEST_FULL)
    return learner_copy_set(l, copy, link->payload, m->n_payload);
  enum err e = learner_copy_add(l, copy, codec_of_encoding[m->encoding], link->payload, m->n_payload);
  return e == ERR_OK ? copy_check(l, copy, &m->copy_root) : e;
}

/* The first link that fails ends the peer's; its copy then stands where the link before it left it. */
static void peer_apply(struct trainer *t, struct merge_peer *p) {
  p->reason = ERR_OK;
  p->n_applied = 0;
  for (size_t i = 0; i < p->n_links; i++) {
    if (p->reason == ERR_OK && (p->reason = link_apply(t, p->peer, &p->links[i])) == ERR_OK)
      p->n_applied++;
    free(p->links[i].payload);
    p->links[i].payload = NULL;
  }
}

static enum err links_apply(struct trainer *t, struct trainer_job *job, struct trainer_result *result) {
  result->peers = job->peers;
  result->n_peers = job->n_peers;
  job->peers = NULL; /* now the result's */
  job->n_peers = 0;
  for (size_t i = 0; i < result->n_peers; i++) {
    if (atomic_load(&t->stop))
      return ERR_STOPPED;
    peer_apply(t, &result->peers[i]);
  }
  return ERR_OK;
}

static enum err merge(struct trainer *t, struct merge_peer *peers, size_t n_peers) {
  struct contribution contributions[MAX_PEERS];
  struct merge_peer *of[MAX_PEERS];
  size_t n = 0;
  MUST(n_peers <= MAX_PEERS);
  for (size_t i = 0; i < n_peers; i++) {
    if (!peers[i].use || peers[i].reason != ERR_OK)
      continue;
    contributions[n] = (struct contribution){.copy = copy_of(t, peers[i].peer), .weight = peers[i].weight};
    of[n++] = &peers[i];
  }
  enum err e = learner_merge(t->learner, contributions, n);
  for (size_t i = 0; e == ERR_OK && i < n; i++) {
    of[i]->fate = (uint8_t)contributions[i].fate;
    of[i]->share = contributions[i].share;
    of[i]->distance = contributions[i].distance;
  }
  return e;
}

static enum err adopt(struct trainer *t, const struct merge_peer *peers, size_t n_peers) {
  size_t usable[MAX_PEERS], n = 0;
  MUST(n_peers <= MAX_PEERS);
  for (size_t i = 0; i < n_peers; i++)
    if (peers[i].reason == ERR_OK)
      usable[n++] = peers[i].peer;
  if (n == 0)
    return ERR_NOT_FOUND;
  if (t->sums.is_on)
    return sums_adopt(&t->sums, t->learner, usable, n);
  for (size_t i = 0; i < n; i++)
    usable[i] = copy_of(t, usable[i]);
  learner_adopt_median(t->learner, usable, n);
  return ERR_OK;
}

/* What peers published is taken, and, where they are not adopted, merged; sums are merged as they are taken. */
static enum err take_and_merge(struct trainer *t, struct trainer_job *job, struct trainer_result *result,
                               enum err *out_merged) {
  enum err e = t->sums.is_on ? sums_gather_begin(&t->sums, t->learner) : ERR_OK;
  if (e == ERR_OK)
    e = links_apply(t, job, result);
  if (e != ERR_OK)
    return e;
  *out_merged = ERR_OK;
  if (t->sums.is_on)
    *out_merged = sums_gather_end(&t->sums, t->learner);
  else if (job->kind == JOB_MERGE)
    *out_merged = merge(t, result->peers, result->n_peers);
  return *out_merged == ERR_MERGE_REFUSED ? ERR_OK : *out_merged;
}

struct figures {
  bool has;
  double loss, headline, macro_f1, balanced, right;
  char note[MAX_REASON_BYTES];
};

static enum err evaluate(struct trainer *t, enum test_set which, struct figures *out_figures) {
  const struct work_hook hook = {stop_or_go_on, t};
  struct metrics m;
  enum err e = learner_evaluate(t->learner, which, &hook, &m);
  if (e != ERR_OK)
    return e == ERR_NOT_FOUND ? ERR_OK : e;
  const struct contract *contract = t->config.site_job->job.contract;
  double headline = metrics_headline(&m, contract_metric(contract));
  *out_figures = (struct figures){.has = true,
                                  .right = metrics_right(&m),
                                  .loss = m.loss,
                                  .headline = headline,
                                  .macro_f1 = m.macro_f1,
                                  .balanced = m.balanced};
  metrics_note(&m, contract, out_figures->note);
  metrics_done(&m);
  return ERR_OK;
}

static enum err evaluate_all(struct trainer *t, struct trainer_result *result) {
  struct figures of[N_TEST_SETS] = {0};
  const bool is_judged = result->label.round >= t->config.judged_from;
  for (enum test_set set = 0; set < N_TEST_SETS; set++) {
    enum err e = is_judged || set == TEST_VALIDATION ? evaluate(t, set, &of[set]) : ERR_OK;
    if (e != ERR_OK)
      return e;
  }
  memcpy(result->local_note, of[TEST_LOCAL].note, sizeof result->local_note);
  memcpy(result->global_note, of[TEST_GLOBAL].note, sizeof result->global_note);
  result->local_right = of[TEST_LOCAL].has ? of[TEST_LOCAL].right : __builtin_nan("");
  result->metrics = (struct store_metrics){
      .has_local = of[TEST_LOCAL].has,
      .has_validation = of[TEST_VALIDATION].has,
      .has_global = of[TEST_GLOBAL].has,
      .local_loss = of[TEST_LOCAL].loss,
      .local_headline = of[TEST_LOCAL].headline,
      .local_macro_f1 = of[TEST_LOCAL].macro_f1,
      .local_balanced = of[TEST_LOCAL].balanced,
      .validation_loss = of[TEST_VALIDATION].loss,
      .validation_headline = of[TEST_VALIDATION].headline,
      .global_loss = of[TEST_GLOBAL].loss,
      .global_headline = of[TEST_GLOBAL].headline,
      .global_macro_f1 = of[TEST_GLOBAL].macro_f1,
      .global_balanced = of[TEST_GLOBAL].balanced,
  };
  return ERR_OK;
}

/* On the local test set, or on the common one. */
static enum err evaluate_tasks(struct trainer *t, struct store_tasks *out_tasks) {
  const struct work_hook hook = {stop_or_go_on, t};
  const struct continual_figures now = figures_of(t->learner);
  struct task_score scores[MAX_TASKS];
  _Static_assert((int)MAX_TASKS == (int)STORE_MAX_TASKS, "a row of the matrix");
  if (!now.is_on)
    return ERR_OK;
  enum err e = learner_evaluate_tasks(t->learner, TEST_LOCAL, &hook, scores);
  if (e == ERR_NOT_FOUND)
    e = learner_evaluate_tasks(t->learner, TEST_GLOBAL, &hook, scores);
  if (e != ERR_OK)
    return e == ERR_NOT_FOUND ? ERR_OK : e;
  *out_tasks = (struct store_tasks){.n = now.n_tasks, .position = now.position, .trained = now.task};
  for (uint32_t i = 0; i < now.n_tasks; i++)
    out_tasks->accuracy[i] = scores[i].n > 0 ? (double)scores[i].n_right / (double)scores[i].n : __builtin_nan("");
  return ERR_OK;
}

/* What the commit stores of the model as it is now. */
static enum err answer_model(struct trainer *t, bool with_half, struct trainer_result *result) {
  enum err e;
  if ((e = evaluate_all(t, result)) != ERR_OK || (e = evaluate_tasks(t, &result->tasks)) != ERR_OK ||
      (e = write_model(t, &result->model)) != ERR_OK || (e = shadow_write(&t->shadow, &result->shadow)) != ERR_OK)
    return e;
  return with_half ? write_half(t, &result->half) : ERR_OK;
}

/* An own model that diverges stays as it was. */
static enum err personalise(struct trainer *t, const struct trainer_job *job, struct trainer_result *result) {
  const struct work_hook hook = {stop_or_go_on, t};
  enum err e = learner_personalise(t->learner, job->label.round, job->label.sub, &hook);
  if (e != ERR_NON_FINITE)
    return e;
  say(result, "the site's own model (personal.method: %s) was not finite after round %" PRIu64 " and stays as it was",
      personal_type(t->config.site_job->job.train.personal.method)->word, job->label.round);
  return ERR_OK;
}

static enum err apply_and_merge(struct trainer *t, struct trainer_job *job, struct trainer_result *result) {
  MUST(t->learner != NULL);
  if (t->has_unpublished && job->is_withheld && t->sums.is_on)
    sums_push_back(&t->sums, t->learner);
  else if (t->has_unpublished && job->is_withheld)
    learner_withheld(t->learner);
  else if (t->has_unpublished)
    learner_published(t->learner);
  t->has_unpublished = false;
  enum err merged, e = take_and_merge(t, job, result, &merged);
  if (e != ERR_OK)
    return e;
  if ((e = personalise(t, job, result)) != ERR_OK)
    return e;
  e = answer_model(t, job->whole_snapshot, result);
  return e == ERR_OK ? merged : e;
}

static enum err apply_and_adopt(struct trainer *t, struct trainer_job *job, struct trainer_result *result) {
  MUST(t->learner != NULL && !t->has_unpublished);
  enum err merged, e;
  if ((e = take_and_merge(t, job, result, &merged)) != ERR_OK ||
      (e = adopt(t, result->peers, result->n_peers)) != ERR_OK)
    return e;
  return answer_model(t, true, result);
}

/* ---- JOB_RESTORE, JOB_UNDO ---- */

/* The learner's part of a snapshot that was made with the scale in effect. */
static enum err part_of(const struct trainer *t, const struct buffer *snapshot, size_t n_learner,
                        struct buffer *out_part) {
  if (snapshot->n_bytes < n_learner)
    return ERR_TRUNCATED;
  size_t n_scale = snapshot->n_bytes - n_learner;
  if (n_scale != t->scale_text.n_bytes ||
      (n_scale > 0 && memcmp(snapshot->bytes + n_learner, t->scale_text.bytes, n_scale) != 0))
    return ERR_CONTRACT;
  *out_part = (struct buffer){snapshot->bytes, n_learner};
  return ERR_OK;
}

static enum err read_kept(struct trainer *t, const struct trainer_job *job) {
  struct buffer half, model, sealed, unsealed = snapshot_unsealed(&job->half, &sealed);
  enum err e;
  if ((e = part_of(t, &unsealed, half_of(t, &unsealed), &half)) != ERR_OK ||
      (e = part_of(t, &job->model, model_of(t, &job->model), &model)) != ERR_OK ||
      (e = learner_half_read(t->learner, half.bytes, half.n_bytes)) != ERR_OK ||
      (e = snapshot_unseal(&t->config.at_rest, &sealed, t->learner)) != ERR_OK)
    return e;
  return learner_model_read(t->learner, model.bytes, model.n_bytes);
}

/* What the optimiser knew is forgotten, what peers hold of us is not. */
static enum err read_import(struct trainer *t, const struct trainer_job *job) {
  struct buffer model;
  enum err e;
  if ((e = part_of(t, &job->model, model_of(t, &job->model), &model)) != ERR_OK ||
      (e = learner_model_read(t->learner, model.bytes, model.n_bytes)) != ERR_OK)
    return e;
  return learner_go_on_from(t->learner, learner_values(t->learner), false);
}

/* As bytes that are read back without any memory: the way back cannot fail. */
static enum err keep_committed(struct trainer *t) {
  const struct continual *tasks = learner_continual(t->learner);
  size_t n = learner_half_bytes(t->learner), n_tasks = tasks != NULL ? continual_bytes(tasks) : 0;
  forget_committed(t);
  t->committed = (struct buffer){malloc(n), n};
  t->committed_tasks = (struct buffer){malloc(n_tasks + 1), n_tasks};
  if (t->committed.bytes == NULL || t->committed_tasks.bytes == NULL) {
    forget_committed(t);
    return ERR_NO_MEMORY;
  }
  learner_half_write(t->learner, t->committed.bytes);
  if (tasks != NULL)
    continual_write(tasks, t->committed_tasks.bytes);
  return ERR_OK;
}

static void take_committed(struct trainer *t) {
  const struct buffer *half = &t->committed, *of_tasks = &t->committed_tasks;
  struct continual *tasks = learner_continual(t->learner);
  MUST(learner_half_read(t->learner, half->bytes, half->n_bytes) == ERR_OK);
  if (tasks != NULL)
    MUST(continual_read(tasks, of_tasks->bytes, of_tasks->n_bytes) == ERR_OK);
}

/* What was trained and not published is forgotten first, so that a failure leaves what was committed. */
static enum err restore_kept(struct trainer *t, struct trainer_job *job, struct trainer_result *result) {
  MUST(t->learner != NULL);
  if (t->has_unpublished)
    undo_training(t, true);
  t->has_unpublished = false;
  enum err e = keep_committed(t);
  if (e != ERR_OK)
    return e;
  e = job->is_import ? read_import(t, job) : read_kept(t, job);
  if (e == ERR_OK)
    e = job->is_import ? answer_model(t, true, result) : evaluate_all(t, result);
  if (e != ERR_OK)
    take_committed(t);
  return e;
}

static enum err undo(struct trainer *t, struct trainer_job *job, struct trainer_result *result) {
  (void)job;
  MUST(t->learner != NULL && !t->has_unpublished);
  take_committed(t);
  return evaluate_all(t, result);
}

/* ---- the thread ---- */

static struct trainer_result *answer(struct trainer *t, struct trainer_job *job) {
  static enum err (*const run[])(struct trainer *, struct trainer_job *, struct trainer_result *) = {
      [JOB_LOAD] = load,
      [JOB_SCALE] = rescale,
      [JOB_TRAIN] = train,
      [JOB_MERGE] = apply_and_merge,
      [JOB_ADOPT] = apply_and_adopt,
      [JOB_RESTORE] = restore_kept,
      [JOB_UNDO] = undo,
  };
  struct trainer_result *result = calloc(1, sizeof *result);
  MUST(result != NULL); /* nothing is lost by a restart, and there is no other way to answer */
  result->kind = job->kind;
  result->label = job->label;
  result->error = atomic_load(&t->stop) ? ERR_STOPPED : run[job->kind](t, job, result);
  result->shadow_figures = t->shadow.figures;
  result->continual = figures_of(t->learner);
  result->account = sums_figures(&t->sums);
  memcpy(result->shadow_note, t->shadow.note, sizeof result->shadow_note);
  t->shadow.note[0] = '\0';
  trainer_job_free(job);
  return result;
}

static void *trainer_main(void *context) {
  struct trainer *t = context;
  const struct work_hook hook = {stop_or_go_on, t};
  struct trainer_job *job;
  while ((job = mailbox_take(t->jobs)) != &t->end) {
    mailbox_put(t->results, answer(t, job));
    shadow_pay(&t->shadow, &hook);
  }
  return NULL;
}

static void trainer_free(struct trainer *t) {
  unload(t);
  at_rest_key_wipe(&t->config.at_rest);
  free(t->shadow_stored.bytes);
  free(t->warm.model.bytes);
  mailbox_free(t->jobs);
  mailbox_free(t->results);
  free(t);
}

enum err trainer_start(const struct trainer_config *config, struct trainer **out_trainer) {
  struct trainer *t = calloc(1, sizeof *t);
  if (t == NULL)
    return ERR_NO_MEMORY;
  t->config = *config;
  enum err e;
  if ((e = mailbox_new(TRAINER_RING + 1, &t->jobs)) != ERR_OK || (e = mailbox_new(TRAINER_RING, &t->results)) != ERR_OK)
    goto out;
  int status = pthread_create(&t->thread, NULL, trainer_main, t);
  if (status != 0) {
    e = err_from_errno(status);
    goto out;
  }
  *out_trainer = t;
  t = NULL;
out:
  if (t != NULL)
    trainer_free(t);
  return e;
}

void trainer_set_shadow(struct trainer *t, struct buffer stored, bool is_first, uint32_t half_steps) {
  free(t->shadow_stored.bytes);
  t->shadow_stored = stored;
  t->is_first = is_first;
  t->half_steps = half_steps;
}

void trainer_set_warm(struct trainer *t, const struct warm_start *warm) {
  free(t->warm.model.bytes);
  t->warm = *warm;
}

void trainer_put(struct trainer *t, struct trainer_job *job) {
  mailbox_put(t->jobs, job);
}

struct trainer_result *trainer_poll(struct trainer *t) {
  return mailbox_poll(t->results);
}

int trainer_fd(const struct trainer *t) {
  return mailbox_fd(t->results);
}

void trainer_progress(const struct trainer *t, uint32_t *out_done, uint32_t *out_total) {
  uint64_t progress = atomic_load(&t->progress);
  *out_done = (uint32_t)(progress >> 32);
  *out_total = (uint32_t)progress;
}

void trainer_shadow_stored(struct trainer *t, double seconds) {
  atomic_store(&t->shadow_stored_us, (uint64_t)(seconds * 1e6));
}

void trainer_interrupt(struct trainer *t) {
  if (t != NULL)
    atomic_store(&t->stop, true);
}

void trainer_stop(struct trainer *t) {
  if (t == NULL)
    return;
  trainer_interrupt(t);
  mailbox_put(t->jobs, &t->end);
  pthread_join(t->thread, NULL);
  for (struct trainer_result *result; (result = trainer_poll(t)) != NULL;)
    trainer_result_free(result);
  trainer_free(t);
}
