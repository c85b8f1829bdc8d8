/* starling data contract: the block of a job file that says what the data mean, proposed from a data file. */
#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/answer.h"
#include "agent/cli/verbs.h"
#include "agent/round_json.h"
#include "agent/scalar.h"
#include "models/data/proposal.h"
#include "models/formats/number.h"

enum { FLAG_LABEL, FLAG_LABELS, FLAG_TASK, LINE_ITEMS = 8 };

/* ---- YAML --------------------------------------------------------------------------------------------------------- */

/* A scalar that every YAML reader takes as this text. */
static void write_text(const char *text, FILE *out) {
  char why[MAX_REASON_BYTES];
  bool is_plain = scalar_label(text, why) == ERR_OK;
  fputs(is_plain ? "" : "\"", out);
  for (; *text; text++)
    fprintf(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
  fputs(is_plain ? "" : "\"", out);
}

static void write_number(double value, FILE *out) {
  char text[NUMBER_TEXT_BYTES];
  number_write(value, text);
  fputs(text, out);
}

/* "[ 1, 2 ]", some items a line. */
static void write_numbers(const char *key, const double *values, size_t n, FILE *out) {
  fprintf(out, "  %s: [ ", key);
  for (size_t i = 0; i < n; i++) {
    fputs(i == 0 ? "" : i % LINE_ITEMS == 0 ? ",\n    " : ", ", out);
    write_number(values[i], out);
  }
  fputs(" ]\n", out);
}

static void write_classes(const struct contract *c, FILE *out) {
  if (c->n_classes == 0)
    return;
  fputs("classes: [ ", out);
  for (size_t i = 0; i < c->n_classes; i++) {
    fputs(i == 0 ? "" : i % LINE_ITEMS == 0 ? ",\n  " : ", ", out);
    write_text(c->classes[i].text, out);
  }
  fputs(" ]\n", out);
}

static void write_feature(const struct feature *f, FILE *out) {
  fputs("  - { name: ", out);
  write_text(f->name, out);
  if (f->range_lo > -DBL_MAX) {
    fputs(", range: ", out);
    write_number(f->range_lo, out);
    fputs("..", out);
    write_number(f->range_hi, out);
  }
  if (f->missing.rule == MISSING_MEAN)
    fputs(", missing: mean", out);
  for (size_t i = 0; i < f->n_categories; i++) {
    fputs(i == 0 ? ", categories: [ " : ", ", out);
    write_text(f->categories[i].text, out);
  }
  fputs(f->n_categories > 0 ? " ] }\n" : " }\n", out);
}

static void write_inputs(const struct contract *c, FILE *out) {
  if (contract_is_image(c)) {
    char shape[SHAPE_TEXT_BYTES];
    scalar_shape_write((const uint32_t[]){c->height, c->width, c->channels}, shape);
    fprintf(out, "input: %s\nrange: ", shape);
    write_number(c->range_lo, out);
    fputs("..", out);
    write_number(c->range_hi, out);
    fputc('\n', out);
    return;
  }
  fputs("features:\n", out);
  for (size_t i = 0; i < c->n_features; i++)
    write_feature(&c->features[i], out);
}

static void write_left_out(const struct profile *p, FILE *out) {
  for (size_t k = 0; k < p->n_columns && !p->is_image; k++)
    if (proposal_left_out(p, k)) {
      fputs("# Left out: ", out);
      text_print(p->columns[k].name, out);
      fprintf(out, "; %s.\n", proposal_left_out(p, k));
    }
}

static const char table_advice[] =
    "# Proposed from one site's data. People of all sites must agree, before the first round, on the order of the "
    "classes,\n"
    "# on names, order and units of the features ({ name: temp_C, unit: C, range: -40..85 }; widen a range to what "
    "can\n"
    "# be), and on these very numbers of the scaling, one for each feature of numbers. Take out columns that only name "
    "a\n"
    "# row. Categories that other sites have must be listed too; `other` takes those that are not.\n";
static const char image_advice[] = "# Proposed from one site's data. People of all sites must agree, before the first "
                                   "round, on the order of the classes\n"
                                   "# (give names to the numbers 0, 1, … here), on the range (widen it to what can be; "
                                   "bytes 0 to 255 stand for it) and\n"
                                   "# on these very numbers of the scaling.\n";

static void write_contract(const struct profile *p, const struct contract *c, bool is_guess, FILE *out) {
  fputs(contract_is_image(c) ? image_advice : table_advice, out);
  if (task_type(c->task)->answer == ANSWER_SET && c->label[0] == '\0')
    fputs("# The classes are the columns of 0 and 1 alone; make those that are inputs features.\n", out);
  write_left_out(p, out);
  fprintf(out, "task: %s%s\n", task_name(c->task), is_guess ? "   # a guess from the label; --task decides" : "");
  if (c->label[0]) {
    fputs("label: ", out);
    write_text(c->label, out);
    fputc('\n', out);
  }
  write_classes(c, out);
  write_inputs(c, out);
  if (c->scale.n == 0)
    return;
  fputs("scale:\n", out);
  write_numbers("mean", c->scale.mean, c->scale.n, out);
  write_numbers("sd", c->scale.sd, c->scale.n, out);
}

/* What write_contract says; NULL: no memory. */
static char *contract_yaml(const struct profile *p, const struct contract *c, bool is_guess) {
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  if (!out)
    return NULL;
  write_contract(p, c, is_guess, out);
  if (fclose(out) == 0)
    return text;
  free(text);
  return NULL;
}

/* ---- the verb ----------------------------------------------------------------------------------------------------- */

static void view(const struct call *call, const json_t *data, FILE *out) {
  (void)call;
  fputs(json_string_value(json_object_get(data, "yaml")), out);
}

static int answer_contract(struct call *call, const struct profile *p, const struct contract *c, bool is_guess) {
  json_t *left_out = json_array();
  char *yaml = contract_yaml(p, c, is_guess);
  for (size_t k = 0; k < p->n_columns && !p->is_image; k++)
    if (proposal_left_out(p, k))
      json_array_append_new(
          left_out, json_pack("{s:o, s:s}", "column", json_text(p->columns[k].name), "why", proposal_left_out(p, k)));
  json_t *data = json_pack("{s:s, s:b, s:I, s:I, s:I, s:o, s:s}", "task", task_name(c->task), "task_is_guessed",
                           is_guess, "samples", (json_int_t)p->n_samples, "inputs", (json_int_t)contract_n_inputs(c),
                           "classes", (json_int_t)c->n_classes, "left_out", left_out, "yaml", yaml ? yaml : "");
  free(yaml);
  return answer(call, data, view);
}

int verb_data_contract(struct call *call) {
  const char *tasks[N_TASKS + 1] = {0};
  const struct data_file file = {call->arguments[0], call->flags[FLAG_LABELS]};
  struct profile *p = NULL;
  struct contract *c = NULL;
  struct data_place place;
  char why[MAX_CONFIG_WHY_BYTES], reason[MAX_REASON_BYTES];
  size_t word = 0;
  for (size_t i = 0; i < N_TASKS; i++)
    tasks[i] = task_name((enum task)i);
  bool is_guess = !call->flags[FLAG_TASK] && !file.labels;
  if (call->flags[FLAG_TASK] && scalar_word(call->flags[FLAG_TASK], tasks, &word, reason))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "--task: %s", reason);
  enum task task = (enum task)word;
  bool has_label = call->flags[FLAG_LABEL] || !call->flags[FLAG_TASK] || task_type(task)->needs_label;
  const struct profile_options options = {.label = has_label ? call->flags[FLAG_LABEL] : ""};
  enum err e = profile_read(&file, &options, &p, &place);
  if (e) {
    data_place_text(&place, why, sizeof why);
    return answer_error(call, EXIT_USAGE, err_name(e), NULL, "%s", why);
  }
  e = contract_propose(p, call->flags[FLAG_TASK] ? &task : NULL, &c, reason);
  int code = e ? answer_error(call, EXIT_FAILED, err_name(e), NULL, "%s: %s", file.path, reason)
               : answer_contract(call, p, c, is_guess);
  contract_free(c);
  profile_free(p);
  return code;
}
