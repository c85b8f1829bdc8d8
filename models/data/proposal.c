#include "models/data/proposal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/formats/csv_scan.h"
#include "models/formats/number.h"

enum { SD_DIGITS = 3 };

/* x to a multiple of 10^power by the given way of rounding. Dividing by an exact power of ten gives the double that is
 * nearest to the decimal, which number_write then shows shortly. */
static double round_to(double x, int power, double (*way)(double)) {
  double unit = pow(10, abs(power));
  return (power < 0 ? way(x * unit) / unit : way(x / unit) * unit) + 0.0; /* -0 becomes 0 */
}

static int power_of(double x) {
  return (int)floor(log10(x));
}

static enum err say(char *reason, enum err e, const char *sentence) {
  snprintf(reason, MAX_REASON_BYTES, "%s", sentence);
  return e;
}

/* ---- the label ---- */

static bool is_number_text(const char *text) {
  double number;
  return number_read(text, strlen(text), &number) == ERR_OK;
}

static bool classes_are_numbers(const struct profile *p) {
  for (size_t i = 0; i < p->n_classes; i++)
    if (!is_number_text(p->classes[i].name))
      return false;
  return true;
}

static bool has_fractions(const struct profile *p) {
  double number;
  for (size_t i = 0; i < p->n_classes; i++)
    if (number_read(p->classes[i].name, strlen(p->classes[i].name), &number) == ERR_OK && number != floor(number))
      return true;
  return false;
}

static bool are_sets(const struct profile *p) {
  for (size_t i = 0; i < p->n_classes; i++)
    if (strchr(p->classes[i].name, SET_SEPARATOR))
      return true;
  return false;
}

static enum task guess_task(const struct profile *p) {
  if (p->has_float_labels)
    return TASK_REGRESS;
  if (!p->is_image && are_sets(p))
    return TASK_MULTILABEL;
  bool is_many = p->has_too_many_classes || p->n_classes > MAX_GUESSED_CLASSES;
  return !p->is_image && classes_are_numbers(p) && (is_many || has_fractions(p)) ? TASK_REGRESS : TASK_CLASSIFY;
}

static int compare_texts(const void *a, const void *b) {
  return strcmp(((const struct class_profile *)a)->name, ((const struct class_profile *)b)->name);
}

static int compare_numbers(const void *a, const void *b) {
  const char *x = ((const struct class_profile *)a)->name, *y = ((const struct class_profile *)b)->name;
  double m = 0, n = 0;
  if (number_read(x, strlen(x), &m) != ERR_OK || number_read(y, strlen(y), &n) != ERR_OK || m == n)
    return strcmp(x, y);
  return m < n ? -1 : 1;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(((const struct class_name *)a)->text, ((const struct class_name *)b)->text);
}

static enum err add_table_classes(const struct profile *p, struct contract *c) {
  struct class_profile *sorted = malloc((p->n_classes + 1) * sizeof *sorted);
  if (sorted == NULL)
    return ERR_NO_MEMORY;
  if (p->n_classes > 0)
    memcpy(sorted, p->classes, p->n_classes * sizeof *sorted);
  qsort(sorted, p->n_classes, sizeof *sorted, classes_are_numbers(p) ? compare_numbers : compare_texts);
  enum err e = ERR_OK;
  for (size_t i = 0; i < p->n_classes && e == ERR_OK; i++)
    e = contract_add_class(c, sorted[i].name);
  free(sorted);
  return e;
}

static enum err add_numbered_classes(const struct profile *p, struct contract *c) {
  double most = 0, number = 0;
  enum err e = ERR_OK;
  for (size_t i = 0; i < p->n_classes; i++)
    if (number_read(p->classes[i].name, strlen(p->classes[i].name), &number) == ERR_OK)
      most = fmax(most, number);
  for (size_t i = 0; i <= (size_t)most && e == ERR_OK; i++) {
    char name[24];
    snprintf(name, sizeof name, "%zu", i);
    e = contract_add_class(c, name);
  }
  return e;
}

static bool has_class(const struct contract *c, const char *name) {
  for (size_t i = 0; i < c->n_classes; i++)
    if (strcmp(c->classes[i].text, name) == 0)
      return true;
  return false;
}

/* Every name in the fields, in the order of their texts. */
static enum err add_set_classes(const struct profile *p, struct contract *c) {
  enum err e = ERR_OK;
  for (size_t i = 0; i < p->n_classes && e == ERR_OK; i++) {
    const char *text = p->classes[i].name;
    struct csv_name name;
    for (size_t at = 0; e == ERR_OK && csv_next_name(text, strlen(text), &at, &name);) {
      char word[MAX_NAME_BYTES];
      snprintf(word, sizeof word, "%.*s", (int)name.n, name.text);
      e = has_class(c, word) ? ERR_OK : contract_add_class(c, word);
    }
  }
  if (c->n_classes > 0)
    qsort(c->classes, c->n_classes, sizeof *c->classes, compare_names);
  return e;
}

/* Values 0 and 1 alone, both of them: only then is x² = x for all. */
static bool is_yes_or_no(const struct column_profile *c) {
  return c->min == 0 && c->max == 1 && c->not_numbers.n == 0 && !c->name_is_cut && c->name[0] &&
         c->m2 >= (double)c->n * c->mean * (1 - c->mean) * (1 - 1e-9);
}

static enum err add_column_classes(const struct profile *p, struct contract *c) {
  enum err e = ERR_OK;
  for (size_t k = 0; k < p->n_columns && e == ERR_OK; k++)
    if (is_yes_or_no(&p->columns[k]))
      e = contract_add_class(c, p->columns[k].name);
  return e;
}

/* What is seen most often is normal, and so the first. */
static void put_commonest_first(const struct profile *p, struct contract *c) {
  size_t most = 0;
  for (size_t i = 1; i < p->n_classes; i++)
    most = p->classes[i].seen.n > p->classes[most].seen.n ? i : most;
  for (size_t i = c->n_classes; i-- > 1;)
    if (strcmp(c->classes[i].text, p->classes[most].name) == 0) {
      struct class_name held = c->classes[i - 1];
      c->classes[i - 1] = c->classes[i];
      c->classes[i] = held;
    }
}

static enum err propose_classes(const struct profile *p, struct contract *c) {
  enum answer_kind answer = task_type(c->task)->answer;
  enum err e = answer == ANSWER_SET     ? add_set_classes(p, c)
               : p->has_numbered_labels ? add_numbered_classes(p, c)
                                        : add_table_classes(p, c);
  if (e == ERR_OK && answer == ANSWER_INPUTS && !p->has_numbered_labels)
    put_commonest_first(p, c);
  return e;
}

static enum err propose_label(const struct profile *p, const enum task *task, struct contract *c, char *reason) {
  c->task = task != NULL ? *task : guess_task(p);
  const struct task_type *t = task_type(c->task);
  c->loss = t->losses[0];
  if ((p->is_image && p->label == SIZE_MAX && t->answer == ANSWER_NUMBER) ||
      (p->has_numbered_labels && t->answer == ANSWER_SET))
    return say(
        reason, ERR_UNSUPPORTED,
        "IDX and NumPy files do not name the classes of a set; propose from a table, or write the contract by hand");
  if (!p->is_image && p->label == SIZE_MAX && t->answer == ANSWER_INPUTS)
    return ERR_OK;
  if (!p->is_image && p->label == SIZE_MAX && t->answer == ANSWER_SET) {
    enum err e = add_column_classes(p, c);
    return e != ERR_OK         ? say(reason, e, err_sentence(e))
           : c->n_classes == 0 ? say(reason, ERR_NOT_FOUND,
                                     "no column has 0 and 1 alone; name the one with the classes' names by --label")
                               : ERR_OK;
  }
  if (!p->is_image && (p->label == SIZE_MAX || p->columns[p->label].name_is_cut))
    return say(reason, ERR_NOT_FOUND, "there is no such label column; name one of the header's with --label");
  if (p->n_samples == 0 || p->n_classes == 0)
    return say(reason, ERR_NOT_FOUND, "no row has a label; is it the right column?");
  if (t->takes_classes && p->has_too_many_classes)
    return say(reason, ERR_LIMIT,
               "the label has too many different values for classes; is it a number? use --task regress");
  if (!p->is_image)
    memcpy(c->label, p->columns[p->label].name, sizeof c->label);
  enum err e = t->takes_classes ? propose_classes(p, c) : ERR_OK;
  return e == ERR_OK ? e : say(reason, e, err_sentence(e));
}

/* ---- the inputs ---- */

/* Texts that come again and again, and are not a number that was mistyped. */
static bool is_categorical(const struct profile *p, const struct column_profile *c) {
  enum { ROWS_A_CATEGORY = 4 };
  return c->n_categories >= 2 && c->not_numbers.n > c->n && p->n_samples >= ROWS_A_CATEGORY * c->n_categories;
}

/* 7, 8, 9 … in any order: of as many whole numbers no others have that variance. */
static bool counts_rows(const struct profile *p, const struct column_profile *c) {
  enum { LEAST_ROWS = 20 };
  double n = (double)c->n, m2 = n * (n * n - 1) / 12;
  return c->n >= LEAST_ROWS && c->n == p->n_samples && c->max - c->min == n - 1 && fabs(c->m2 - m2) <= 1e-9 * m2;
}

const char *proposal_left_out(const struct profile *p, size_t column) {
  const struct column_profile *c = &p->columns[column];
  if (column == p->label)
    return NULL;
  if (c->name_is_cut)
    return "its name is too long";
  if (c->name[0] == '\0')
    return "it has no name";
  if ((c->not_numbers.n > 0 || c->n == 0) && !is_categorical(p, c))
    return "its fields are no numbers";
  if (counts_rows(p, c))
    return "it only counts the rows";
  return NULL;
}

static enum err propose_categories(const struct column_profile *from, struct contract *c) {
  struct class_profile sorted[MAX_PROFILE_CATEGORIES];
  enum err e = ERR_OK;
  memcpy(sorted, from->categories, from->n_categories * sizeof *sorted);
  qsort(sorted, from->n_categories, sizeof *sorted, compare_texts);
  for (size_t i = 0; i < from->n_categories && e == ERR_OK; i++)
    e = contract_add_category(c, sorted[i].name);
  const struct feature *f = &c->features[c->n_features - 1];
  bool has_missing = feature_category(f, "", 0, true) != SIZE_MAX;
  return e == ERR_OK && from->missing.n > 0 && !has_missing ? contract_add_category(c, CATEGORY_MISSING) : e;
}

static void propose_range(const struct column_profile *from, struct feature *f) {
  double width = from->max - from->min;
  if (!(width > 0))
    return;
  double lo = from->min - width, hi = from->max + width;
  if (from->min >= 0)
    lo = fmax(lo, 0);
  f->range_lo = round_to(lo, power_of(width), floor);
  f->range_hi = round_to(hi, power_of(width), ceil);
}

static void propose_number(const struct column_profile *from, struct feature *f) {
  propose_range(from, f);
  if (from->missing.n > 0)
    f->missing.rule = MISSING_MEAN;
}

static void propose_pair(double mean, double sd, struct scale *s, size_t i) {
  if (!(sd > 0)) {
    s->mean[i] = mean;
    s->sd[i] = 1;
    return;
  }
  int power = power_of(sd) - (SD_DIGITS - 1);
  s->mean[i] = round_to(mean, power, round);
  s->sd[i] = round_to(sd, power, round);
}

/* A class of a table that has a column for each. */
static bool has_class_column(const struct profile *p, const struct contract *c, size_t k) {
  return c->label[0] == '\0' && has_class(c, p->columns[k].name);
}

static enum err propose_columns(const struct profile *p, struct contract *c) {
  enum err e = ERR_OK;
  for (size_t k = 0; k < p->n_columns && e == ERR_OK; k++) {
    if (k == p->label || has_class_column(p, c, k) || proposal_left_out(p, k) != NULL)
      continue;
    const struct column_profile *column = &p->columns[k];
    e = contract_add_feature(c, column->name, NULL);
    if (e == ERR_OK && is_categorical(p, column))
      e = propose_categories(column, c);
    else if (e == ERR_OK)
      propose_number(column, &c->features[c->n_features - 1]);
  }
  if (e != ERR_OK)
    return e;
  if (c->n_features == 0)
    return ERR_NOT_FOUND;
  if (contract_n_scaled(c) == 0)
    return ERR_OK;
  e = scale_init(&c->scale, SCALE_FIXED, contract_n_scaled(c));
  for (size_t i = 0; i < c->n_features && e == ERR_OK; i++) {
    const struct column_profile *column = profile_column(p, c->features[i].name);
    if (c->features[i].n_categories == 0)
      propose_pair(column->mean, column_sd(column), &c->scale, c->features[i].pair);
  }
  return e;
}

static enum err propose_image(const struct profile *p, struct contract *c) {
  c->height = p->height;
  c->width = p->width;
  c->channels = p->channels;
  struct feature values = {.range_lo = 0, .range_hi = 1};
  double unit = p->is_bytes ? UINT8_MAX : 1;
  if (p->columns->min < 0 || p->columns->max > unit)
    propose_range(p->columns, &values);
  c->range_lo = values.range_lo;
  c->range_hi = values.range_hi;
  enum err e = scale_init(&c->scale, SCALE_FIXED, 1);
  if (e == ERR_OK)
    propose_pair(p->columns->mean / unit, column_sd(p->columns) / unit, &c->scale, 0);
  return e;
}

static enum err propose_inputs(const struct profile *p, struct contract *c, char *reason) {
  enum err e = p->is_image ? propose_image(p, c) : propose_columns(p, c);
  if (e == ERR_NOT_FOUND)
    return say(reason, e,
               "no column but the label has numbers only, or few texts; features are columns of numbers or categories");
  return e == ERR_OK ? e : say(reason, e, err_sentence(e));
}

/* Without the ranges when there is no room for them. */
static enum err check(struct contract *c, char *reason) {
  enum err e = contract_check(c, reason);
  if (e != ERR_LIMIT)
    return e;
  for (size_t i = 0; i < c->n_features; i++) {
    c->features[i].range_lo = -INFINITY;
    c->features[i].range_hi = INFINITY;
  }
  return contract_check(c, reason);
}

enum err contract_propose(const struct profile *p, const enum task *task, struct contract **out_contract,
                          char out_reason[MAX_REASON_BYTES]) {
  struct contract *c = contract_new();
  if (c == NULL)
    return say(out_reason, ERR_NO_MEMORY, err_sentence(ERR_NO_MEMORY));
  enum err e = propose_label(p, task, c, out_reason);
  if (e == ERR_OK)
    e = propose_inputs(p, c, out_reason);
  if (e == ERR_OK)
    c->metric = contract_metric(c);
  if (e == ERR_OK)
    e = check(c, out_reason);
  if (e == ERR_OK) {
    *out_contract = c;
    c = NULL;
  }
  contract_free(c);
  return e;
}
