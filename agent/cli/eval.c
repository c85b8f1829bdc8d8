/* starling eval: a kept model, by default the newest one, on this site's validation or test data, without an agent. */
#include "agent/cli/answer.h"
#include "agent/cli/table.h"
#include "agent/cli/trial.h"
#include "agent/cli/verbs.h"
#include "agent/round_json.h"
#include "agent/scalar.h"

enum { FLAG_SET, FLAG_MODEL };

/* ---- the answer --------------------------------------------------------------------------------------------------- */

static json_t *class_rows(const struct contract *contract, const struct metrics *m) {
  json_t *rows = json_array();
  for (size_t i = 0; i < m->n_classes; i++) {
    const struct class_figures *f = &m->classes[i];
    json_array_append_new(rows,
                          json_pack("{s:s, s:I, s:I, s:I, s:o, s:o}", "class", contract->classes[i].text, "support",
                                    (json_int_t)f->support, "predicted", (json_int_t)f->predicted, "correct",
                                    (json_int_t)f->correct, "recall", json_share(f->correct, f->support), "precision",
                                    json_share(f->correct, f->predicted)));
  }
  return rows;
}

static json_t *evaluation_json(const struct trial *t, const struct metrics *m, enum model_pick pick) {
  static const char *const picks[] = {[MODEL_LATEST] = "latest", [MODEL_SERVING] = "serving", [MODEL_ROUND] = "round"};
  const struct contract *contract = t->site_job->job.contract;
  enum metric metric = contract_metric(contract);
  char note[MAX_REASON_BYTES], label[ROUND_LABEL_BYTES];
  metrics_note(m, contract, note);
  round_label_write(t->round.label, label);
  json_t *o =
      json_pack("{s:s, s:s, s:s, s:I, s:o, s:s, s:o, s:s}", "job", t->site_job->job.name, "set", trial_sets[t->set],
                "label", label, "samples", (json_int_t)m->n, "loss", json_number(m->loss), "metric",
                metric_name(metric), "headline", json_number(metrics_headline(m, metric)), "note", note);
  json_object_set_new(o, "model", json_string(picks[pick]));
  if (m->n_classes == 0) {
    json_object_set_new(o, "mse", json_number(m->mse));
    json_object_set_new(o, "r2", json_number(m->r2));
    json_object_set_new(o, "auc", json_number(m->auc));
    return o;
  }
  json_object_set_new(o, "accuracy", json_number(m->accuracy));
  json_object_set_new(o, "balanced_accuracy", json_number(m->balanced));
  json_object_set_new(o, "macro_f1", json_number(m->macro_f1));
  json_object_set_new(o, "auc", json_number(m->auc));
  json_object_set_new(o, "classes_present", json_integer((json_int_t)m->n_present));
  json_object_set_new(o, "classes_known", json_integer((json_int_t)m->n_classes));
  json_object_set_new(o, "classes", class_rows(contract, m));
  return o;
}

/* The columns of a task: what it is, then its figures, the headline's among them. */
static void print_figures(const json_t *data, bool is_tsv, FILE *out) {
  static const struct column classes[] = {{"JOB", "job", FORM_TEXT},
                                          {"ROUND", "label", FORM_TEXT},
                                          {"MODEL", "model", FORM_TEXT},
                                          {"SET", "set", FORM_TEXT},
                                          {"SAMPLES", "samples", FORM_COUNT},
                                          {"LOSS", "loss", FORM_LOSS},
                                          {"METRIC", "metric", FORM_TEXT},
                                          {"HEADLINE", "headline", FORM_HEADLINE},
                                          {"ACCURACY", "accuracy", FORM_PERCENT},
                                          {"BALANCED", "balanced_accuracy", FORM_PERCENT},
                                          {"MACRO-F1", "macro_f1", FORM_SCORE},
                                          {"AUC", "auc", FORM_SCORE}};
  static const struct column values[] = {{"JOB", "job", FORM_TEXT},          {"ROUND", "label", FORM_TEXT},
                                         {"MODEL", "model", FORM_TEXT},      {"SET", "set", FORM_TEXT},
                                         {"SAMPLES", "samples", FORM_COUNT}, {"LOSS", "loss", FORM_LOSS},
                                         {"METRIC", "metric", FORM_TEXT},    {"HEADLINE", "headline", FORM_HEADLINE},
                                         {"MSE", "mse", FORM_LOSS},          {"R2", "r2", FORM_SCORE},
                                         {"AUC", "auc", FORM_SCORE}};
  json_t *whole = json_pack("[O]", data);
  if (json_object_get(data, "classes"))
    table_print(classes, sizeof classes / sizeof *classes, whole, is_tsv, out);
  else
    table_print(values, sizeof values / sizeof *values, whole, is_tsv, out);
  json_decref(whole);
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  static const struct column classes[] = {
      {"CLASS", "class", FORM_TEXT},      {"SAMPLES", "support", FORM_COUNT}, {"PREDICTED", "predicted", FORM_COUNT},
      {"CORRECT", "correct", FORM_COUNT}, {"RECALL", "recall", FORM_PERCENT}, {"PRECISION", "precision", FORM_PERCENT}};
  const json_t *rows = json_object_get(data, "classes");
  print_figures(data, call->format == FORMAT_TSV, out);
  if (call->format == FORMAT_TSV)
    return;
  if (json_string_length(json_object_get(data, "note")) > 0)
    fprintf(out, "%s\n", json_string_value(json_object_get(data, "note")));
  if (!rows)
    return;
  fprintf(out, "figures over %lld of %lld classes present\n\n",
          (long long)json_integer_value(json_object_get(data, "classes_present")),
          (long long)json_integer_value(json_object_get(data, "classes_known")));
  table_print(classes, sizeof classes / sizeof *classes, rows, false, out);
}

int verb_eval(struct call *call) {
  char why[MAX_REASON_BYTES];
  size_t set = TEST_LOCAL;
  struct model_choice choice = {.pick = MODEL_LATEST};
  struct config *c;
  if (call->flags[FLAG_SET] && scalar_word(call->flags[FLAG_SET], trial_sets, &set, why))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "--set: %s", why);
  if (!model_flag_read(call, call->flags[FLAG_MODEL], &choice))
    return EXIT_USAGE;
  const struct site_job_config *job;
  if (!call_load_job(call, &c, &job))
    return EXIT_USAGE;
  struct trial t;
  struct metrics m = {0};
  enum err e = trial_open_model(&t, c, job, (enum test_set)set, &choice);
  if (!e)
    e = trial_evaluate_model(&t, &m);
  int code = e ? trial_error(call, &t, e) : answer(call, evaluation_json(&t, &m, choice.pick), view);
  metrics_done(&m);
  trial_close(&t);
  config_free(c);
  return code;
}
