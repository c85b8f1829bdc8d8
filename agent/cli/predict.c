/* starling predict: what a kept model, by default the newest one, says of samples without labels, without an agent. */
#include <string.h>

#include "agent/cli/answer.h"
#include "agent/cli/table.h"
#include "agent/cli/trial.h"
#include "agent/cli/verbs.h"
#include "agent/round_json.h"
#include "crypto/digest.h"
#include "models/judging/prediction.h"

enum { FLAG_MODEL };
enum { MAX_PREDICTED = 1 << 20 /* numbers in one answer, which is made before it is printed */ };

struct answer_rows {
  const struct contract *contract;
  const char *file;
  json_t *rows;
  size_t n_numbers;
  bool is_full;
};

/* ---- one sample --------------------------------------------------------------------------------------------------- */

static json_t *probabilities_json(const struct prediction *p) {
  json_t *list = json_array();
  for (size_t i = 0; i < p->n_outputs; i++)
    json_array_append_new(list, json_number(p->probabilities[i]));
  return list;
}

static json_t *outputs_json(const struct prediction *p) {
  json_t *list = json_array();
  for (size_t i = 0; i < p->n_outputs; i++)
    json_array_append_new(list, json_number((double)p->outputs[i]));
  return list;
}

static void add_class(const struct contract *c, const struct prediction *p, json_t *row) {
  json_object_set_new(row, "class", json_string(c->classes[p->label].text));
  json_object_set_new(row, "probability", json_number(p->probabilities[p->label]));
  json_object_set_new(row, "probabilities", probabilities_json(p));
  json_object_set_new(row, "outputs", outputs_json(p));
}

static void add_number(const struct contract *c, const struct prediction *p, json_t *row) {
  (void)c;
  json_object_set_new(row, "value", json_number((double)p->outputs[0]));
}

static void add_set(const struct contract *c, const struct prediction *p, json_t *row) {
  json_t *applying = json_array();
  for (size_t i = 0; i < p->n_outputs; i++)
    if (p->outputs[i] > 0)
      json_array_append_new(applying, json_string(c->classes[i].text));
  json_object_set_new(row, "classes", applying);
  json_object_set_new(row, "probabilities", probabilities_json(p));
  json_object_set_new(row, "outputs", outputs_json(p));
}

static void add_score(const struct contract *c, const struct prediction *p, json_t *row) {
  (void)c;
  json_object_set_new(row, "score", json_number(p->score));
}

/* By what the task answers: a row's members, and how it is seen. */
static const struct {
  void (*add)(const struct contract *c, const struct prediction *p, json_t *row);
  struct column columns[5];
  size_t n_columns;
} kinds[] = {
    [ANSWER_CLASS] = {add_class,
                      {{"FILE", "file", FORM_TEXT},
                       {"SAMPLE", "sample", FORM_COUNT},
                       {"CLASS", "class", FORM_TEXT},
                       {"PROBABILITY", "probability", FORM_SCORE},
                       {"PROBABILITIES", "probabilities", FORM_TEXT | COLUMN_IN_TSV}},
                      5},
    [ANSWER_NUMBER] = {add_number,
                       {{"FILE", "file", FORM_TEXT}, {"SAMPLE", "sample", FORM_COUNT}, {"VALUE", "value", FORM_LOSS}},
                       3},
    [ANSWER_SET] = {add_set,
                    {{"FILE", "file", FORM_TEXT},
                     {"SAMPLE", "sample", FORM_COUNT},
                     {"CLASSES", "classes", FORM_TEXT},
                     {"PROBABILITIES", "probabilities", FORM_TEXT | COLUMN_IN_TSV}},
                    4},
    [ANSWER_INPUTS] = {add_score,
                       {{"FILE", "file", FORM_TEXT}, {"SAMPLE", "sample", FORM_COUNT}, {"SCORE", "score", FORM_LOSS}},
                       3},
};

static enum err put(void *context, const struct prediction *p) {
  struct answer_rows *a = context;
  enum answer_kind kind = task_type(a->contract->task)->answer;
  a->n_numbers += kind == ANSWER_INPUTS ? 1 : p->n_outputs;
  a->is_full = a->n_numbers > MAX_PREDICTED;
  if (a->is_full)
    return ERR_LIMIT;
  json_t *row = json_pack("{s:s, s:I}", "file", a->file, "sample", (json_int_t)p->sample);
  if (!row)
    return ERR_NO_MEMORY;
  kinds[kind].add(a->contract, p, row);
  return json_array_append_new(a->rows, row) == 0 ? ERR_OK : ERR_NO_MEMORY;
}

/* ---- the answer --------------------------------------------------------------------------------------------------- */

static void view(const struct call *call, const json_t *data, FILE *out) {
  const char *task = json_string_value(json_object_get(data, "task"));
  for (size_t i = 0; i < N_TASKS; i++) {
    enum answer_kind kind = task_type((enum task)i)->answer;
    if (strcmp(task, task_name((enum task)i)) == 0)
      table_print(kinds[kind].columns, kinds[kind].n_columns, json_object_get(data, "rows"), call->format == FORMAT_TSV,
                  out);
  }
}

static json_t *predict_json(const struct trial *t, json_t *rows) {
  const struct contract *c = t->site_job->job.contract;
  struct digest hash;
  char label[ROUND_LABEL_BYTES], contract[DIGEST_TEXT_BYTES];
  if (contract_hash(c, &digest_blake2b, &hash) != ERR_OK)
    return NULL;
  digest_hex(&hash, contract);
  round_label_write(t->round.label, label);
  return json_pack("{s:s, s:s, s:s, s:s, s:o, s:O}", "job", t->site_job->job.name, "label", label, "contract", contract,
                   "task", task_name(c->task), "classes", json_names(c->classes, c->n_classes), "rows", rows);
}

static int refuse(struct call *call, const struct answer_rows *a, const struct data_place *place, enum err e) {
  char why[MAX_CONFIG_WHY_BYTES];
  if (a->is_full)
    return answer_error(call, EXIT_USAGE, err_name(ERR_LIMIT), "split the file", "%s: an answer has at most %d numbers",
                        a->file, MAX_PREDICTED);
  data_place_text(place, why, sizeof why);
  return answer_error(call, e == ERR_NO_MEMORY ? exit_code_of(e) : EXIT_USAGE, err_name(e), NULL, "%s", why);
}

static int predict_files(struct call *call, const struct trial *t, struct predictor *p, struct answer_rows *a) {
  const struct prediction_sink sink = {put, a};
  struct data_place place;
  for (size_t i = 0; i < call->n_arguments; i++) {
    a->file = call->arguments[i];
    enum err e = predictor_read(p, a->file, &sink, &place);
    if (e != ERR_OK)
      return refuse(call, a, &place, e);
  }
  return answer(call, predict_json(t, a->rows), view);
}

static int run(struct call *call, struct trial *t, enum err e) {
  struct predictor *p = NULL;
  if (e != ERR_OK)
    return trial_error(call, t, e);
  struct answer_rows a = {.contract = t->site_job->job.contract, .rows = json_array()};
  e = predictor_open(t->schema, a.contract, trial_scale(t), learner_served(t->learner), &p);
  int code = e ? answer_error(call, exit_code_of(e), err_name(e), NULL, "the model: %s", err_sentence(e))
               : predict_files(call, t, p, &a);
  predictor_close(p);
  json_decref(a.rows);
  return code;
}

int verb_predict(struct call *call) {
  struct model_choice choice = {.pick = MODEL_LATEST};
  const struct site_job_config *job;
  struct config *c;
  if (!model_flag_read(call, call->flags[FLAG_MODEL], &choice))
    return EXIT_USAGE;
  if (!call_load_job(call, &c, &job))
    return EXIT_USAGE;
  struct trial t = {0};
  enum err e = trial_open_stored(&t, c, job, &choice);
  int code = run(call, &t, e);
  trial_close(&t);
  config_free(c);
  return code;
}
