#include "models/formats/csv_reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "models/formats/csv_scan.h"
#include "models/formats/number.h"

/* What a column is for: the number of a feature, behind those of a class, or one of these. */
enum { COLUMN_IGNORED = -1, COLUMN_LABEL = -2 };

struct csv_run {
  const struct contract *contract;
  const struct sample_sink *sink;
  struct csv_scan scan;

  bool has_label;
  int32_t *columns; /* [MAX_CSV_COLUMNS], n_columns of them used */
  size_t n_columns;
  size_t n_ignored;
  size_t n_named; /* features, and classes where each has a column */
  bool *found;    /* [n_named] */

  enum err row_e;      /* a field's first fault; told at the row's end, for a decimal comma is a field too many */
  float *inputs;       /* [n_inputs] of this row */
  float *targets;      /* [n_classes + 1] of this row: numbers, or 1 or 0 for each class */
  size_t group_column; /* of holdout_by, SIZE_MAX: none */
  char *group;         /* [MAX_CSV_FIELD_BYTES] its text in this row */
  struct sample sample;
};

static const char *name_of(const struct contract *c, size_t i) {
  return i < c->n_features ? c->features[i].name : c->classes[i - c->n_features].text;
}

static enum err header_field(struct csv_run *r, const char *text, size_t n) {
  if (r->n_columns == MAX_CSV_COLUMNS)
    return data_fault(csv_at_field(&r->scan), ERR_LIMIT, "the header has more than %d columns", MAX_CSV_COLUMNS);
  const struct contract *c = r->contract;
  int32_t use = COLUMN_IGNORED;
  bool again = false;
  if (c->label[0] != '\0' && csv_text_is(text, n, c->label)) {
    use = COLUMN_LABEL;
    again = r->has_label;
    r->has_label = true;
  }
  for (size_t i = 0; use == COLUMN_IGNORED && i < r->n_named; i++)
    if (csv_text_is(text, n, name_of(c, i))) {
      use = (int32_t)i;
      again = r->found[i];
      r->found[i] = true;
    }
  if (c->holdout_by[0] != '\0' && csv_text_is(text, n, c->holdout_by)) {
    again = again || r->group_column != SIZE_MAX;
    r->group_column = r->n_columns;
  }
  if (again)
    return data_fault(csv_at_field(&r->scan), ERR_SYNTAX,
                      "column \"%s\" stands twice in the header; rename one of them", csv_show(text, n).text);
  r->columns[r->n_columns++] = use;
  r->n_ignored += use == COLUMN_IGNORED && r->group_column != r->n_columns - 1;
  return ERR_OK;
}

/* The label's column by its number, where no header has its name. */
static void find_label_by_number(struct csv_run *r) {
  double number;
  const char *label = r->contract->label;
  if (r->has_label || number_read(label, strlen(label), &number) != ERR_OK || number != floor(number) || number < 1 ||
      number > (double)r->n_columns)
    return;
  int32_t *column = &r->columns[(size_t)number - 1];
  if (*column != COLUMN_IGNORED || r->group_column == (size_t)number - 1)
    return;
  *column = COLUMN_LABEL;
  r->has_label = true;
  r->n_ignored--;
}

static enum err header_end(struct csv_run *r) {
  find_label_by_number(r);
  const struct contract *c = r->contract;
  const char *hint = r->n_columns == 1 ? "are its fields separated by commas?" : "add it or correct the job file";
  for (size_t i = 0; i < r->n_named; i++)
    if (!r->found[i])
      return data_fault(csv_at(&r->scan, 0), ERR_SYNTAX, "the header has no column \"%s\"; %s", name_of(c, i), hint);
  if (!r->has_label && task_type(c->task)->answer != ANSWER_INPUTS && !contract_has_class_columns(c))
    return data_fault(csv_at(&r->scan, 0), ERR_SYNTAX, "the header has no label column \"%s\"; %s", c->label, hint);
  if (c->holdout_by[0] != '\0' && r->group_column == SIZE_MAX)
    return data_fault(csv_at(&r->scan, 0), ERR_SYNTAX, "the header has no column \"%s\", which holdout_by names; %s",
                      c->holdout_by, hint);
  return ERR_OK;
}

static enum err read_value(struct csv_run *r, const char *name, const char *text, size_t n, double lo, double hi,
                           float *out_value) {
  double value;
  enum err e = number_read(text, n, &value);
  if (e == ERR_OK && isfinite((float)value) && value >= lo && value <= hi) {
    *out_value = (float)value;
    return ERR_OK;
  }
  struct csv_shown shown = csv_show(text, n);
  if (csv_is_missing(text, n))
    return data_fault(csv_at_field(&r->scan), ERR_SYNTAX, "\"%s\" is missing; fill it in or leave the row out", name);
  if (e == ERR_SYNTAX && memchr(text, ',', n) != NULL)
    return data_fault(csv_at_field(&r->scan), ERR_SYNTAX, "\"%s\" is %s; write decimals with a point", name,
                      shown.text);
  if (e == ERR_SYNTAX)
    return data_fault(csv_at_field(&r->scan), ERR_SYNTAX, "\"%s\" is %s, not a number; write it as 21.5", name,
                      shown.text);
  if (e == ERR_OK && isfinite((float)value))
    return data_fault(csv_at_field(&r->scan), ERR_RANGE, "\"%s\" is %s, the contract allows %g to %g; check its unit",
                      name, shown.text, lo, hi);
  return data_fault(csv_at_field(&r->scan), ERR_RANGE, "\"%s\" is %s, too large or long for a number", name,
                    shown.text);
}

static enum err read_category(struct csv_run *r, const struct feature *f, const char *text, size_t n) {
  bool is_missing = csv_is_missing(text, n);
  size_t category = feature_category(f, text, n, is_missing);
  if (category == SIZE_MAX && is_missing)
    return data_fault(csv_at_field(&r->scan), ERR_SYNTAX,
                      "\"%s\" is missing; fill it in, or list the category \"" CATEGORY_MISSING "\" in the job file",
                      f->name);
  if (category == SIZE_MAX)
    return data_fault(csv_at_field(&r->scan), ERR_RANGE,
                      "\"%s\" is %s, none of its %zu categories; correct it, or list it or \"" CATEGORY_OTHER
                      "\" in the job file",
                      f->name, csv_show(text, n).text, f->n_categories);
  memset(r->inputs + f->input, 0, f->n_categories * sizeof *r->inputs);
  r->inputs[f->input + category] = 1;
  return ERR_OK;
}

static enum err read_feature(struct csv_run *r, size_t i, const char *text, size_t n) {
  const struct feature *f = &r->contract->features[i];
  double lo, hi;
  if (f->n_categories > 0)
    return read_category(r, f, text, n);
  if (csv_is_missing(text, n) && contract_fill(r->contract, i, &r->inputs[f->input]))
    return ERR_OK;
  contract_feature_range(r->contract, i, &lo, &hi);
  return read_value(r, f->name, text, n, lo, hi, &r->inputs[f->input]);
}

static enum err missing_label(struct csv_run *r, const char *name) {
  return data_fault(csv_at_field(&r->scan), ERR_SYNTAX, "\"%s\" is missing; fill it in or leave the row out", name);
}

static enum err find_class(struct csv_run *r, const char *text, size_t n, size_t *out_class) {
  const struct contract *c = r->contract;
  for (size_t i = 0; i < c->n_classes; i++)
    if (csv_text_is(text, n, c->classes[i].text)) {
      *out_class = i;
      return ERR_OK;
    }
  return data_fault(csv_at_field(&r->scan), ERR_RANGE,
                    "class \"%s\" is not in the contract; correct it or add it to the job file",
                    csv_show(text, n).text);
}

static enum err read_number(struct csv_run *r, const char *text, size_t n) {
  return read_value(r, r->contract->label, text, n, -INFINITY, INFINITY, r->targets);
}

static enum err read_class(struct csv_run *r, const char *text, size_t n) {
  size_t class = 0;
  if (n == 0)
    return missing_label(r, r->contract->label);
  enum err e = find_class(r, text, n, &class);
  if (e == ERR_OK)
    r->sample.label = (uint16_t) class;
  return e;
}

/* "scratch; dent", "" for none. */
static enum err read_set(struct csv_run *r, const char *text, size_t n) {
  enum err e = ERR_OK;
  struct csv_name name;
  memset(r->targets, 0, r->contract->n_classes * sizeof *r->targets);
  for (size_t at = 0; e == ERR_OK && csv_next_name(text, n, &at, &name);) {
    size_t class = 0;
    e = find_class(r, name.text, name.n, &class);
    if (e == ERR_OK)
      r->targets[class] = 1;
  }
  return e;
}

/* Whether it is normal, as far as anybody knows. */
static enum err read_state(struct csv_run *r, const char *text, size_t n) {
  r->sample.label = NO_LABEL;
  return csv_is_missing(text, n) ? ERR_OK : read_class(r, text, n);
}

static enum err read_label(struct csv_run *r, const char *text, size_t n) {
  static enum err (*const readers[])(struct csv_run *, const char *, size_t) = {[ANSWER_CLASS] = read_class,
                                                                                [ANSWER_NUMBER] = read_number,
                                                                                [ANSWER_SET] = read_set,
                                                                                [ANSWER_INPUTS] = read_state};
  return readers[task_type(r->contract->task)->answer](r, text, n);
}

/* The column of one class: whether it applies. */
static enum err read_mark(struct csv_run *r, size_t class, const char *text, size_t n) {
  const char *name = r->contract->classes[class].text;
  if (csv_is_missing(text, n))
    return missing_label(r, name);
  if (n != 1 || (text[0] != '0' && text[0] != '1'))
    return data_fault(csv_at_field(&r->scan), ERR_RANGE,
                      "class \"%s\" is %s; write 1 where it applies and 0 where it does not", name,
                      csv_show(text, n).text);
  r->targets[class] = text[0] == '1' ? 1 : 0;
  return ERR_OK;
}

/* Kept, since the field's text is gone at the row's end. */
static enum err read_group(struct csv_run *r, const char *text, size_t n) {
  if (csv_is_missing(text, n))
    return data_fault(csv_at_field(&r->scan), ERR_SYNTAX,
                      "\"%s\" is missing, which holdout_by names; fill it in or leave the row out",
                      r->contract->holdout_by);
  memcpy(r->group, text, n); /* n ≤ MAX_CSV_FIELD_BYTES */
  r->sample.group = r->group;
  r->sample.n_group = n;
  return ERR_OK;
}

static enum err row_field(struct csv_run *r, const char *text, size_t n) {
  if (r->scan.field >= r->n_columns)
    return data_fault(
        csv_at_field(&r->scan), ERR_SYNTAX,
        "the row has more fields than the header's %zu; quote text with commas, write decimals with a point",
        r->n_columns);
  int32_t use = r->columns[r->scan.field];
  if (r->scan.field == r->group_column && r->row_e == ERR_OK)
    r->row_e = read_group(r, text, n);
  if (use == COLUMN_IGNORED || r->row_e != ERR_OK)
    return ERR_OK;
  if (use == COLUMN_LABEL)
    r->row_e = read_label(r, text, n);
  else if ((size_t)use < r->contract->n_features)
    r->row_e = read_feature(r, (size_t)use, text, n);
  else
    r->row_e = read_mark(r, (size_t)use - r->contract->n_features, text, n);
  return ERR_OK;
}

static enum err row_end(struct csv_run *r) {
  if (r->scan.field != r->n_columns)
    return data_fault(csv_at_field(&r->scan), ERR_SYNTAX,
                      "the row has %zu fields, the header %zu; complete or remove the row", r->scan.field,
                      r->n_columns);
  if (r->row_e != ERR_OK)
    return r->row_e;
  enum err e = sample_put(r->sink, r->scan.n_rows, &r->sample);
  return e == ERR_OK ? e : data_fault(csv_at(&r->scan, 0), e, "%s", err_sentence(e));
}

static enum err on_field(void *context, const char *text, size_t n) {
  struct csv_run *r = context;
  return r->scan.in_header ? header_field(r, text, n) : row_field(r, text, n);
}

static enum err on_row(void *context) {
  struct csv_run *r = context;
  return r->scan.in_header ? header_end(r) : row_end(r);
}

static enum err run_init(struct csv_run *r, struct data_place *why) {
  const struct contract *c = r->contract;
  if (c->n_features == 0)
    return data_fault(why, ERR_RANGE, "a CSV file needs `features` in the job file, which has an image instead");
  r->columns = malloc(MAX_CSV_COLUMNS * sizeof *r->columns);
  r->n_named = c->n_features + (contract_has_class_columns(c) ? c->n_classes : 0);
  r->found = calloc(r->n_named, sizeof *r->found);
  r->inputs = calloc(contract_n_inputs(c), sizeof *r->inputs);
  r->group = malloc(MAX_CSV_FIELD_BYTES);
  r->group_column = SIZE_MAX;
  r->targets = calloc(c->n_classes + 1, sizeof *r->targets);
  r->sample.floats = r->inputs;
  enum answer_kind answer = task_type(c->task)->answer;
  r->sample.targets = answer == ANSWER_NUMBER || answer == ANSWER_SET ? r->targets : NULL;
  r->sample.label = answer == ANSWER_INPUTS ? NO_LABEL : 0;
  if (r->columns == NULL || r->found == NULL || r->inputs == NULL || r->targets == NULL || r->group == NULL)
    return data_fault(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  return ERR_OK;
}

static void run_done(struct csv_run *r) {
  free(r->group);
  free(r->targets);
  free(r->inputs);
  free(r->found);
  free(r->columns);
}

enum err csv_read(const char *path, const struct contract *contract, const struct sample_sink *sink,
                  size_t *out_n_ignored_columns, struct data_place *why) {
  struct csv_run r = {.contract = contract, .sink = sink};
  const struct csv_visitor visitor = {on_field, on_row, &r};
  enum err e = data_place_init(why, path);
  if (e == ERR_OK)
    e = run_init(&r, why);
  if (e == ERR_OK)
    e = csv_scan_file(&r.scan, path, &visitor, why);
  if (e == ERR_OK)
    *out_n_ignored_columns = r.n_ignored;
  run_done(&r);
  return e;
}
