/* starling models list|show: what is kept, from the database, beside a running agent or without one. */
#include "agent/cli/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/history.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/round_json.h"
#include "agent/scalar.h"

/* ---- which one ---------------------------------------------------------------------------------------------------- */

enum err model_label_read(const char *text, struct round_label *out_label, char why[MAX_REASON_BYTES]) {
  char number[MAX_NAME_BYTES];
  size_t n = strcspn(text, "+");
  uint64_t round, sub = 0;
  snprintf(number, sizeof number, "%.*s", (int)(n < sizeof number ? n : sizeof number - 1), text);
  if (scalar_integer(number, 0, INT64_MAX, &round, why) ||
      (text[n] == '+' && scalar_integer(text + n + 1, 1, UINT32_MAX, &sub, why)))
    return ERR_SYNTAX;
  *out_label = (struct round_label){round, (uint32_t)sub};
  return ERR_OK;
}

enum err model_choice_read(const char *text, struct model_choice *out_choice, char why[MAX_REASON_BYTES]) {
  static const char *const picks[] = {[MODEL_LATEST] = "latest", [MODEL_SERVING] = "serving"};
  for (size_t i = 0; i < sizeof picks / sizeof *picks; i++)
    if (strcmp(text, picks[i]) == 0) {
      *out_choice = (struct model_choice){.pick = (enum model_pick)i};
      return ERR_OK;
    }
  struct model_choice choice = {.pick = MODEL_ROUND};
  if (model_label_read(text, &choice.label, why)) {
    snprintf(why, MAX_REASON_BYTES, "write latest, serving, or a round as 418 or 418+2");
    return ERR_SYNTAX;
  }
  *out_choice = choice;
  return ERR_OK;
}

bool model_flag_read(struct call *call, const char *text, struct model_choice *choice) {
  char why[MAX_REASON_BYTES];
  bool is_wrong = text && model_choice_read(text, choice, why) != ERR_OK;
  if (is_wrong)
    answer_error(call, EXIT_USAGE, "usage", NULL, "--model: %s", why);
  return !is_wrong;
}

/* "the model of round 380 is not kept; kept are 418, 417, 412" */
static enum err say_kept(struct store *s, const struct digest *job, struct round_label label,
                         char why[MAX_CONFIG_WHY_BYTES]) {
  enum { SHOWN = 12 };
  struct store_model kept[SHOWN + 1];
  char text[ROUND_LABEL_BYTES];
  size_t n_kept = 0;
  enum err e = store_models(s, job, kept, SHOWN + 1, &n_kept);
  if (e != ERR_OK)
    return e;
  round_label_write(label, text);
  size_t n = (size_t)snprintf(why, MAX_CONFIG_WHY_BYTES, "the model of round %s is not kept; %s", text,
                              n_kept > 0 ? "kept are " : "none is");
  for (size_t i = 0; i < n_kept && i < SHOWN && n < MAX_CONFIG_WHY_BYTES; i++) {
    round_label_write(kept[i].label, text);
    n += (size_t)snprintf(why + n, MAX_CONFIG_WHY_BYTES - n, "%s%s", i > 0 ? ", " : "", text);
  }
  if (n_kept > SHOWN && n < MAX_CONFIG_WHY_BYTES)
    snprintf(why + n, MAX_CONFIG_WHY_BYTES - n, " and older ones");
  return ERR_NOT_FOUND;
}

static enum err label_of(struct store *s, const struct site_job_config *site_job, const struct digest *job,
                         const struct model_choice *choice, struct round_label *out_label) {
  struct store_serving serving;
  struct store_model newest;
  size_t n = 0;
  enum err e = ERR_OK;
  switch (choice->pick) {
  case MODEL_ROUND:
    *out_label = choice->label;
    return ERR_OK;
  case MODEL_SERVING:
    if ((e = store_serving(s, job, site_job->serve, &serving)) == ERR_OK)
      *out_label = serving.label;
    return e;
  case MODEL_LATEST:
    if ((e = store_models(s, job, &newest, 1, &n)) == ERR_OK && n > 0)
      *out_label = newest.label;
    return e == ERR_OK && n == 0 ? ERR_NOT_FOUND : e;
  }
  return ERR_RANGE;
}

enum err model_find(struct store *s, const struct config *c, const struct site_job_config *site_job,
                    const struct model_choice *choice, struct store_round *out_round, char why[MAX_CONFIG_WHY_BYTES]) {
  struct digest job = config_job_id(c, &site_job->job);
  struct round_label label = {0};
  size_t n_peers;
  enum err e = label_of(s, site_job, &job, choice, &label);
  if (e == ERR_NOT_FOUND)
    snprintf(why, MAX_CONFIG_WHY_BYTES, "no round of this job is committed yet");
  if (e == ERR_OK) {
    e = store_round_find(s, &job, label, out_round, NULL, 0, &n_peers);
    bool is_kept = e == ERR_OK && out_round->committed && !digest_is_zero(&out_round->model);
    if (e == ERR_NOT_FOUND || (e == ERR_OK && !is_kept))
      return say_kept(s, &job, label, why);
  }
  if (e != ERR_OK && e != ERR_NOT_FOUND)
    snprintf(why, MAX_CONFIG_WHY_BYTES, "the database could not be read: %s", err_sentence(e));
  return e;
}

/* ---- what there is ------------------------------------------------------------------------------------------------ */

/* All that is shown of the models of one job. */
struct shelf {
  struct store *store;
  const struct site_job_config *site_job;
  struct digest job;
  struct store_model *models; /* [n], newest first */
  size_t n;
  bool is_serving; /* something is */
  struct store_serving serving;
  size_t best; /* in models; n: none has the figures */
};

/* The highest mean; of two that are equal the newer, which comes first; n: none has three figures. */
static size_t best_of(const struct store_model *models, size_t n) {
  size_t best = n;
  for (size_t i = 0; i < n; i++)
    if (!__builtin_isnan(models[i].mean) && (best == n || models[i].mean > models[best].mean))
      best = i;
  return best;
}

static enum err shelf_open(struct shelf *shelf, const struct config *c, const struct site_job_config *site_job,
                           char why[MAX_REASON_BYTES]) {
  *shelf = (struct shelf){.site_job = site_job, .job = config_job_id(c, &site_job->job)};
  enum err e = history_open(c, &shelf->store, why);
  if (e != ERR_OK)
    return e;
  shelf->models = calloc(MODELS_MAX, sizeof *shelf->models);
  e = shelf->models ? store_models(shelf->store, &shelf->job, shelf->models, MODELS_MAX, &shelf->n) : ERR_NO_MEMORY;
  if (e == ERR_OK) {
    e = store_serving(shelf->store, &shelf->job, site_job->serve, &shelf->serving);
    shelf->is_serving = e == ERR_OK;
  }
  if (e == ERR_NOT_FOUND)
    e = ERR_OK;
  if (e == ERR_OK)
    shelf->best = best_of(shelf->models, shelf->n);
  if (e != ERR_OK)
    snprintf(why, MAX_REASON_BYTES, "the database could not be read: %s", err_sentence(e));
  return e;
}

static void shelf_close(struct shelf *shelf) {
  store_close(shelf->store);
  free(shelf->models);
}

static uint64_t file_bytes(struct store *s, const struct digest *name) {
  int fd;
  uint64_t n_bytes = 0;
  if (store_file_open(s, name, &fd, &n_bytes) == ERR_OK)
    close(fd);
  return n_bytes;
}

/* "serving best pinned training" */
static void marks_write(const struct shelf *shelf, size_t i, char *out_text, size_t capacity) {
  const struct store_model *m = &shelf->models[i];
  const struct {
    bool holds;
    const char *word;
  } marks[] = {{shelf->is_serving && round_label_equal(shelf->serving.label, m->label), "serving"},
               {i == shelf->best, "best"},
               {m->pinned, "pinned"},
               {i == 0, "training"}};
  size_t n = 0;
  out_text[0] = '\0';
  for (size_t k = 0; k < sizeof marks / sizeof *marks; k++)
    if (marks[k].holds && n < capacity)
      n += (size_t)snprintf(out_text + n, capacity - n, "%s%s", n ? " " : "", marks[k].word);
}

/* The round as elsewhere, and what makes it a model. */
static json_t *model_json(const struct shelf *shelf, size_t i, const struct store_round *r) {
  enum { SHORT_HASH = 12 };
  const struct store_model *m = &shelf->models[i];
  const struct store_metrics *f = &r->metrics;
  char marks[MAX_NAME_BYTES];
  json_t *row = round_json(r);
  round_explain(row, shelf->site_job->job.contract);
  const char *hash = json_string_value(json_object_get(row, "model"));
  marks_write(shelf, i, marks, sizeof marks);
  json_object_set_new(row, "validation", f->has_validation ? json_number(f->validation_headline) : json_null());
  json_object_set_new(row, "mean", json_number(m->mean));
  json_object_set_new(row, "alone", json_number(r->shadow_headline));
  json_object_set_new(row, "gain", f->has_local ? json_number(f->local_headline - r->shadow_headline) : json_null());
  json_object_set_new(row, "bytes", json_integer((json_int_t)file_bytes(shelf->store, &r->model)));
  json_object_set_new(row, "hash", hash ? json_stringn(hash, SHORT_HASH) : json_null());
  json_object_set_new(row, "marks", json_string(marks));
  json_object_set_new(row, "pinned_at", m->pinned ? json_time(m->pinned_unix_s) : json_null());
  json_object_set_new(row, "note", json_string(m->note));
  return row;
}

static json_t *serving_json(const struct shelf *shelf) {
  const struct store_serving *v = &shelf->serving;
  char label[ROUND_LABEL_BYTES];
  if (!shelf->is_serving)
    return json_null();
  round_label_write(v->label, label);
  return json_pack("{s:s, s:s, s:s, s:b}", "label", label, "mode", serving_mode_name(v->mode), "asked",
                   serving_mode_name(v->asked), "by_command", v->by_command);
}

static json_t *shelf_json(const struct shelf *shelf) {
  json_t *rows = json_array();
  for (size_t i = 0; i < shelf->n; i++) {
    struct store_round r;
    size_t n_peers;
    if (store_round_find(shelf->store, &shelf->job, shelf->models[i].label, &r, NULL, 0, &n_peers) == ERR_OK)
      json_array_append_new(rows, model_json(shelf, i, &r));
  }
  return json_pack("{s:s, s:o, s:o}", "job", shelf->site_job->job.name, "serving", serving_json(shelf), "models", rows);
}

static void warn_of_serving(struct call *call, const struct shelf *shelf) {
  const struct store_serving *v = &shelf->serving;
  if (shelf->is_serving && v->mode != v->asked)
    answer_warn(call, "%s is to be served and %s: the latest is served instead", serving_mode_name(v->asked),
                v->asked == SERVE_BEST ? "no kept model has three figures of the validation split"
                                       : "none such is kept");
}

static const struct column model_columns[] = {{"ROUND", "label", FORM_TEXT},        {"WHEN", "committed_at", FORM_TEXT},
                                              {"VAL", "validation", FORM_HEADLINE}, {"TEST", "local", FORM_HEADLINE},
                                              {"GAIN", "gain", FORM_HEADLINE},      {"SIZE", "bytes", FORM_BYTES},
                                              {"HASH", "hash", FORM_TEXT},          {"MARKS", "marks", FORM_TEXT}};
enum { N_MODEL_COLUMNS = sizeof model_columns / sizeof *model_columns };

static void view_list(const struct call *call, const json_t *data, FILE *out) {
  table_print(model_columns, N_MODEL_COLUMNS, json_object_get(data, "models"), call->format == FORMAT_TSV, out);
}

/* Opens what a reading verb needs; false after answering. */
static bool open_for(struct call *call, struct config **out_config, struct shelf *shelf, int *out_code) {
  char why[MAX_REASON_BYTES];
  *out_code = EXIT_USAGE;
  const struct site_job_config *job;
  if (!call_load_job(call, out_config, &job))
    return false;
  enum err e = shelf_open(shelf, *out_config, job, why);
  if (e == ERR_OK)
    return true;
  *out_code = answer_error(call, exit_code_of(e), err_name(e), NULL, "%s", why);
  shelf_close(shelf);
  config_free(*out_config);
  return false;
}

int verb_models_list(struct call *call) {
  struct config *c;
  struct shelf shelf;
  int code;
  if (!open_for(call, &c, &shelf, &code))
    return code;
  warn_of_serving(call, &shelf);
  code = answer(call, shelf_json(&shelf), view_list);
  shelf_close(&shelf);
  config_free(c);
  return code;
}

static void view_show(const struct call *call, const json_t *data, FILE *out) {
  json_t *rows = json_pack("[O]", data);
  table_print(model_columns, N_MODEL_COLUMNS, rows, call->format == FORMAT_TSV, out);
  json_decref(rows);
  if (call->format == FORMAT_TSV)
    return;
  fprintf(out, "\n%s after %s, model %s\n", json_string_value(json_object_get(data, "outcome")),
          json_string_value(json_object_get(data, "label")), json_string_value(json_object_get(data, "model")));
  if (json_string_length(json_object_get(data, "note")) > 0) {
    fputs("note: ", out);
    text_print(json_string_value(json_object_get(data, "note")), out);
    fputc('\n', out);
  }
}

int verb_models_show(struct call *call) {
  char reason[MAX_REASON_BYTES], why[MAX_CONFIG_WHY_BYTES];
  struct model_choice choice;
  struct config *c;
  struct shelf shelf;
  struct store_round r;
  int code;
  if (model_choice_read(call->arguments[0], &choice, reason))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "ROUND: %s", reason);
  if (!open_for(call, &c, &shelf, &code))
    return code;
  enum err e = model_find(shelf.store, c, shelf.site_job, &choice, &r, why);
  size_t at = 0;
  while (at < shelf.n && e == ERR_OK && !round_label_equal(shelf.models[at].label, r.label))
    at++;
  if (e == ERR_OK && at == shelf.n) { /* the agent let go of it meanwhile */
    snprintf(why, sizeof why, "the model is no longer kept");
    e = ERR_NOT_FOUND;
  }
  code = e ? answer_error(call, e == ERR_NOT_FOUND ? EXIT_FAILED : exit_code_of(e), err_name(e), NULL, "%s", why)
           : answer(call, model_json(&shelf, at, &r), view_show);
  shelf_close(&shelf);
  config_free(c);
  return code;
}
