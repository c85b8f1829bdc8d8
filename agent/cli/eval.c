/* starling eval: the newest committed model on this site's validation or test data, without an agent. */
#include <inttypes.h>
#include <stdlib.h>

#include "agent/cli/answer.h"
#include "agent/cli/history.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/round_json.h"
#include "agent/run/snapshot.h"
#include "agent/scalar.h"
#include "crypto/digest.h"
#include "models/learner.h"

enum { FLAG_SET, LOOK_BACK = 64 };

/* Everything that an evaluation opens, so that one function closes it. */
struct evaluation {
  const struct config *c;
  enum test_set set;
  struct schema *schema;
  struct learner *learner;
  struct splits data;
  struct dataset *global_test;
  struct store_round round; /* whose model it is */
  struct scale saved;       /* numbers that the model was learnt with, n = 0 when the contract has them */
  struct metrics metrics;
  char why[MAX_CONFIG_WHY_BYTES];
};

static void evaluation_done(struct evaluation *v) {
  metrics_done(&v->metrics);
  learner_free(v->learner);
  splits_close(&v->data);
  dataset_close(v->global_test);
  schema_free(v->schema);
  scale_done(&v->saved);
}

/* Keeps `what` as the reason unless a closer one is there. */
static enum err because(struct evaluation *v, enum err e, const char *what) {
  if (e)
    snprintf(v->why, sizeof v->why, "%s: %s", what, err_sentence(e));
  return e;
}

static enum err open_learner(struct evaluation *v) {
  const struct site_job_config *s = &v->c->jobs[0];
  char reason[MAX_REASON_BYTES];
  enum err e = schema_from_arch(s->job.arch, s->job.contract, &v->schema, reason);
  if (e)
    return because(v, e, "the model");
  struct learner_config config = {
      .schema = v->schema, .train = s->job.train, .codec = s->job.codec, .train_seed = s->train_seed, .part = s->part};
  schema_hash(v->schema, &digest_blake2b, &config.schema_hash);
  return because(v, learner_open(&config, &v->learner), "the model");
}

static enum err open_data(struct evaluation *v) {
  const struct site_job_config *s = &v->c->jobs[0];
  struct data_place place = {0};
  const struct data_source source = {
      .train = {s->train_path, s->train_labels}, .test = {s->test_path, s->test_labels}, .part = s->part};
  const struct data_file global = {s->global_test_path, s->global_test_labels};
  enum err e = dataset_open(&source, s->job.contract, &digest_blake2b, &v->data, &place);
  if (!e && v->set == TEST_GLOBAL && global.path)
    e = dataset_open_test(&global, s->job.contract, &v->data.train->scale, NULL, &v->global_test, &place);
  if (e) {
    data_place_text(&place, v->why, sizeof v->why);
    return e;
  }
  const struct dataset *const tests[N_TEST_SETS] = {
      [TEST_LOCAL] = v->data.test, [TEST_VALIDATION] = v->data.validation, [TEST_GLOBAL] = v->global_test};
  return because(v, learner_attach(v->learner, v->data.train, tests), "the data");
}

/* The newest committed round of the job. */
static enum err find_round(struct evaluation *v, struct store *store) {
  struct store_round rounds[LOOK_BACK];
  struct digest job = config_job_id(v->c);
  size_t n = 0;
  enum err e = store_rounds(store, &job, 0, rounds, LOOK_BACK, &n);
  while (!e && n > 0 && !rounds[n - 1].committed)
    n--;
  if (!e && n == 0)
    e = ERR_NOT_FOUND;
  if (!e)
    v->round = rounds[n - 1];
  return because(v, e, "a committed round of this job");
}

/* Its model into the learner, and the scale that stands beside it. */
static enum err load_model(struct evaluation *v, struct store *store) {
  const struct contract *contract = v->c->jobs[0].job.contract;
  size_t n_learner = learner_model_bytes(v->learner);
  struct buffer snapshot = {0}, model = {0};
  enum err e =
      store_file_load(store, &v->round.model, snapshot_bound(contract, n_learner), &snapshot.bytes, &snapshot.n_bytes);
  if (!e)
    e = snapshot_split(contract, &snapshot, n_learner, &model, &v->saved);
  if (!e)
    e = learner_model_read(v->learner, model.bytes, model.n_bytes);
  free(snapshot.bytes);
  return because(v, e, "the model of the newest round");
}

static enum err open_model(struct evaluation *v) {
  char reason[MAX_REASON_BYTES];
  struct store *store;
  enum err e = history_open(v->c, &store, reason);
  if (e) {
    snprintf(v->why, sizeof v->why, "%s", reason);
    return e;
  }
  e = find_round(v, store);
  if (!e)
    e = load_model(v, store);
  store_close(store);
  return e;
}

static const char *const set_names[] = {
    [TEST_LOCAL] = "local", [TEST_VALIDATION] = "validation", [TEST_GLOBAL] = "global", NULL};
static const char *const set_remedies[] = {
    [TEST_LOCAL] = "local test set; write data.test or holdout",
    [TEST_VALIDATION] = "validation set; write validation in the job file, or bring more samples",
    [TEST_GLOBAL] = "global test set; write data.global_test"};

static enum err evaluate(struct evaluation *v) {
  enum err e = learner_evaluate(v->learner, v->set, NULL, &v->metrics);
  if (e == ERR_NOT_FOUND) {
    snprintf(v->why, sizeof v->why, "there is no %s", set_remedies[v->set]);
    return e;
  }
  return because(v, e, "the evaluation");
}

/* ---- the answer --------------------------------------------------------------------------------------------------- */

/* correct of n, null where there is none. */
static json_t *share(uint64_t correct, uint64_t n) {
  return n ? json_real((double)correct / (double)n) : json_null();
}

static json_t *class_rows(const struct contract *contract, const struct metrics *m) {
  json_t *rows = json_array();
  for (size_t i = 0; i < m->n_classes; i++) {
    const struct class_figures *f = &m->classes[i];
    json_array_append_new(rows, json_pack("{s:s, s:I, s:I, s:I, s:o, s:o}", "class", contract->classes[i].text,
                                          "support", (json_int_t)f->support, "predicted", (json_int_t)f->predicted,
                                          "correct", (json_int_t)f->correct, "recall", share(f->correct, f->support),
                                          "precision", share(f->correct, f->predicted)));
  }
  return rows;
}

static json_t *evaluation_json(const struct evaluation *v) {
  const struct metrics *m = &v->metrics;
  bool is_regression = m->task == TASK_REGRESS;
  json_t *data = round_json(&v->round);
  json_t *o = json_pack("{s:s, s:s, s:O, s:I, s:o}", "job", v->c->jobs[0].job.name, "set", set_names[v->set], "label",
                        json_object_get(data, "label"), "samples", (json_int_t)m->n, "loss", json_number(m->loss));
  json_decref(data);
  if (is_regression) {
    json_object_set_new(o, "mse", json_number(m->mse));
    json_object_set_new(o, "r2", json_number(m->r2));
  } else {
    json_object_set_new(o, "accuracy", json_number(m->accuracy));
    json_object_set_new(o, "macro_f1", json_number(m->macro_f1));
    json_object_set_new(o, "classes", class_rows(v->c->jobs[0].job.contract, m));
  }
  return o;
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  static const struct column classify[] = {{"JOB", "job", FORM_TEXT},
                                           {"ROUND", "label", FORM_TEXT},
                                           {"SET", "set", FORM_TEXT},
                                           {"SAMPLES", "samples", FORM_COUNT},
                                           {"LOSS", "loss", FORM_LOSS},
                                           {"ACCURACY", "accuracy", FORM_PERCENT},
                                           {"MACRO-F1", "macro_f1", FORM_PERCENT}};
  static const struct column regress[] = {{"JOB", "job", FORM_TEXT},   {"ROUND", "label", FORM_TEXT},
                                          {"SET", "set", FORM_TEXT},   {"SAMPLES", "samples", FORM_COUNT},
                                          {"LOSS", "loss", FORM_LOSS}, {"MSE", "mse", FORM_LOSS},
                                          {"R2", "r2", FORM_LOSS}};
  static const struct column classes[] = {
      {"CLASS", "class", FORM_TEXT},      {"SAMPLES", "support", FORM_COUNT}, {"PREDICTED", "predicted", FORM_COUNT},
      {"CORRECT", "correct", FORM_COUNT}, {"RECALL", "recall", FORM_PERCENT}, {"PRECISION", "precision", FORM_PERCENT}};
  const json_t *rows = json_object_get(data, "classes");
  json_t *whole = json_pack("[O]", data);
  table_print(rows ? classify : regress, 7, whole, call->format == FORMAT_TSV, out);
  json_decref(whole);
  if (rows && call->format == FORMAT_TABLE) {
    fputc('\n', out);
    table_print(classes, sizeof classes / sizeof *classes, rows, false, out);
  }
}

int verb_eval(struct call *call) {
  char why[MAX_REASON_BYTES];
  size_t set = TEST_LOCAL;
  struct config *c;
  if (call->flags[FLAG_SET] && scalar_word(call->flags[FLAG_SET], set_names, &set, why))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "--set: %s", why);
  if (!call_load_config(call, &c))
    return EXIT_USAGE;
  struct evaluation v = {.c = c, .set = (enum test_set)set};
  enum err e = open_learner(&v);
  if (!e)
    e = open_model(&v); /* before the data: without a model nothing need be read */
  if (!e)
    e = open_data(&v);
  if (!e)
    e = evaluate(&v);
  int code = e ? answer_error(call, e == ERR_NOT_FOUND ? EXIT_FAILED : exit_code_of(e), err_name(e), NULL, "%s", v.why)
               : answer(call, evaluation_json(&v), view);
  evaluation_done(&v);
  config_free(c);
  return code;
}
