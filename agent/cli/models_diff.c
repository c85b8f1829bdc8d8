/* starling models diff: two kept models on the same samples, and how far their tensors are apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/answer.h"
#include "agent/cli/models.h"
#include "agent/cli/table.h"
#include "agent/cli/trial.h"
#include "agent/cli/verbs.h"
#include "agent/round_json.h"
#include "agent/scalar.h"

enum { FLAG_SET };

/* Two models, judged. */
struct pair {
  struct trial trials[2];
  struct metrics metrics[2];
};

static void pair_close(struct pair *p) {
  for (size_t i = 0; i < 2; i++) {
    metrics_done(&p->metrics[i]);
    trial_close(&p->trials[i]);
  }
}

static json_t *class_rows(const struct pair *p) {
  const struct contract *contract = p->trials[0].site_job->job.contract;
  json_t *rows = json_array();
  for (size_t i = 0; i < p->metrics[0].n_classes; i++) {
    const struct class_figures *a = &p->metrics[0].classes[i], *b = &p->metrics[1].classes[i];
    json_array_append_new(rows, json_pack("{s:s, s:I, s:o, s:o}", "class", contract->classes[i].text, "samples",
                                          (json_int_t)a->support, "a", json_share(a->correct, a->support), "b",
                                          json_share(b->correct, b->support)));
  }
  return rows;
}

/* Answers that differ, by whether they were right. */
static json_t *flips(const struct pair *p) {
  json_int_t to_wrong = 0, to_right = 0, other = 0;
  const struct outcomes *a = &p->metrics[0].outcomes, *b = &p->metrics[1].outcomes;
  for (size_t i = 0; i < a->n; i++) {
    bool was_right = a->rows[i].said == a->rows[i].is, is_right = b->rows[i].said == b->rows[i].is;
    to_wrong += was_right && !is_right;
    to_right += !was_right && is_right;
    other += !was_right && !is_right && a->rows[i].said != b->rows[i].said;
  }
  return json_pack("{s:I, s:I, s:I}", "right_to_wrong", to_wrong, "wrong_to_right", to_right, "wrong_to_wrong", other);
}

static json_t *tensor_rows(const struct pair *p) {
  const struct schema *schema = p->trials[0].schema;
  json_t *rows = json_array();
  for (size_t i = 0; i < schema_tensors(schema); i++) {
    const struct tensor *t = schema_tensor(schema, i);
    double relative = learner_model_distance(p->trials[0].learner, p->trials[1].learner, t->offset, t->n_values);
    json_array_append_new(rows, json_pack("{s:s, s:I, s:o}", "tensor", t->name, "values", (json_int_t)t->n_values,
                                          "relative", json_number(relative)));
  }
  return rows;
}

static json_t *pair_json(const struct pair *p) {
  const struct trial *t = p->trials;
  enum metric metric = contract_metric(t->site_job->job.contract);
  char labels[2][ROUND_LABEL_BYTES];
  for (size_t i = 0; i < 2; i++)
    round_label_write(t[i].round.label, labels[i]);
  json_t *o =
      json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:o, s:o}", "job", t->site_job->job.name, "set", trial_sets[t->set],
                "a", labels[0], "b", labels[1], "samples", (json_int_t)p->metrics[0].n, "metric", metric_name(metric),
                "headline_a", json_number(metrics_headline(&p->metrics[0], metric)), "headline_b",
                json_number(metrics_headline(&p->metrics[1], metric)));
  bool has_classes = p->metrics[0].n_classes > 0;
  json_object_set_new(o, "classes", has_classes ? class_rows(p) : json_null());
  json_object_set_new(o, "flips", has_classes ? flips(p) : json_null());
  json_object_set_new(o, "tensors", tensor_rows(p));
  return o;
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  static const struct column whole[] = {{"SET", "set", FORM_TEXT},
                                        {"SAMPLES", "samples", FORM_COUNT},
                                        {"METRIC", "metric", FORM_TEXT},
                                        {"A", "a", FORM_TEXT},
                                        {"A HAS", "headline_a", FORM_HEADLINE},
                                        {"B", "b", FORM_TEXT},
                                        {"B HAS", "headline_b", FORM_HEADLINE},
                                        {"RIGHT TO WRONG", "flips.right_to_wrong", FORM_COUNT},
                                        {"WRONG TO RIGHT", "flips.wrong_to_right", FORM_COUNT}};
  static const struct column classes[] = {{"CLASS", "class", FORM_TEXT},
                                          {"SAMPLES", "samples", FORM_COUNT},
                                          {"A", "a", FORM_PERCENT},
                                          {"B", "b", FORM_PERCENT}};
  static const struct column tensors[] = {
      {"TENSOR", "tensor", FORM_TEXT}, {"VALUES", "values", FORM_COUNT}, {"RELATIVE DISTANCE", "relative", FORM_LOSS}};
  json_t *rows = json_pack("[O]", data);
  table_print(whole, sizeof whole / sizeof *whole, rows, call->format == FORMAT_TSV, out);
  json_decref(rows);
  if (call->format == FORMAT_TSV)
    return;
  if (json_is_array(json_object_get(data, "classes"))) {
    fputc('\n', out);
    table_print(classes, sizeof classes / sizeof *classes, json_object_get(data, "classes"), false, out);
  }
  fputc('\n', out);
  table_print(tensors, sizeof tensors / sizeof *tensors, json_object_get(data, "tensors"), false, out);
}

int verb_models_diff(struct call *call) {
  char why[MAX_REASON_BYTES];
  struct model_choice choices[2];
  size_t set = TEST_LOCAL;
  struct config *c;
  if (call->flags[FLAG_SET] && scalar_word(call->flags[FLAG_SET], trial_sets, &set, why))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "--set: %s", why);
  for (size_t i = 0; i < 2; i++)
    if (model_choice_read(call->arguments[i], &choices[i], why))
      return answer_error(call, EXIT_USAGE, "usage", NULL, "%s: %s", call->arguments[i], why);
  const struct site_job_config *job;
  if (!call_load_job(call, &c, &job))
    return EXIT_USAGE;
  struct pair p = {0};
  enum err e = ERR_OK;
  size_t at = 0;
  for (size_t i = 0; i < 2 && e == ERR_OK; i++) {
    at = i;
    if ((e = trial_open_model(&p.trials[i], c, job, (enum test_set)set, &choices[i])) == ERR_OK)
      e = trial_evaluate_model(&p.trials[i], &p.metrics[i]);
  }
  int code = e ? trial_error(call, &p.trials[at], e) : answer(call, pair_json(&p), view);
  pair_close(&p);
  config_free(c);
  return code;
}
