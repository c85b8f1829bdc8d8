#include "models/formats/csv_reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "models/formats/csv_scan.h"
#include "models/formats/number.h"

/* What a column is for: a feature's number, or one of these. */
enum { COLUMN_IGNORED = -1, COLUMN_LABEL = -2 };

struct csv_run {
  const struct contract *contract;
  const struct sample_sink *sink;
  struct csv_scan scan;

  bool has_label;
  int32_t *columns; /* [MAX_CSV_COLUMNS], n_columns of them used */
  size_t n_columns;
  size_t n_ignored;
  bool *found; /* [n_features] */

  enum err row_e;      /* a field's first fault; told at the row's end, for a decimal comma is a field too many */
  float *inputs;       /* [n_features] of this row */
  size_t group_column; /* of holdout_by, SIZE_MAX: none */
  char *group;         /* [MAX_CSV_FIELD_BYTES] its text in this row */
  struct sample sample;
};

static enum err header_field(struct csv_run *r, const char *text, size_t n) {
  if (r->n_columns == MAX_CSV_COLUMNS)
    return data_fault(csv_at_field(&r->scan), ERR_LIMIT, "the header has more than %d columns", MAX_CSV_COLUMNS);
  const struct contract *c = r->contract;
  int32_t use = COLUMN_IGNORED;
  bool again = false;
  if (csv_text_is(text, n, c->label)) {
    use = COLUMN_LABEL;
    again = r->has_label;
    r->has_label = true;
  }
  for (size_t i = 0; use == COLUMN_IGNORED && i < c->n_features; i++)
    if (csv_text_is(text, n, c->features[i].name)) {
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
  for (size_t i = 0; i < c->n_features; i++)
    if (!r->found[i])
      return data_fault(csv_at(&r->scan, 0), ERR_SYNTAX, "the header has no column \"%s\"; %s", c->features[i].name,
                        hint);
  if (!r->has_label)
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

static enum err read_feature(struct csv_run *r, size_t i, const char *text, size_t n) {
  double lo, hi;
  contract_feature_range(r->contract, i, &lo, &hi);
  return read_value(r, r->contract->features[i].name, text, n, lo, hi, &r->inputs[i]);
}

static enum err read_label(struct csv_run *r, const char *text, size_t n) {
  const struct contract *c = r->contract;
  if (c->task == TASK_REGRESS)
    return read_value(r, c->label, text, n, -INFINITY, INFINITY, &r->sample.target);
  for (size_t i = 0; i < c->n_classes; i++)
    if (csv_text_is(text, n, c->classes[i].text)) {
      r->sample.label = (uint16_t)i;
      return ERR_OK;
    }
  if (n == 0)
    return data_fault(csv_at_field(&r->scan), ERR_SYNTAX, "\"%s\" is missing; fill it in or leave the row out",
                      c->label);
  return data_fault(csv_at_field(&r->scan), ERR_RANGE,
                    "class \"%s\" is not in the contract; correct it or add it to the job file",
                    csv_show(text, n).text);
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
  else
    r->row_e = read_feature(r, (size_t)use, text, n);
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
  r->found = calloc(c->n_features, sizeof *r->found);
  r->inputs = calloc(c->n_features, sizeof *r->inputs);
  r->group = malloc(MAX_CSV_FIELD_BYTES);
  r->group_column = SIZE_MAX;
  r->sample.floats = r->inputs;
  if (r->columns == NULL || r->found == NULL || r->inputs == NULL || r->group == NULL)
    return data_fault(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  return ERR_OK;
}

static void run_done(struct csv_run *r) {
  free(r->group);
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
