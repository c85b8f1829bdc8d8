#include "models/contract.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/utf8.h"
#include "models/formats/number.h"
#include "models/text.h"

enum metric contract_metric(const struct contract *c) {
  return c->metric == METRIC_BY_TASK ? task_metric(c->task, c->n_classes) : c->metric;
}

struct contract *contract_new(void) {
  struct contract *c = calloc(1, sizeof *c);
  if (c != NULL) {
    c->range_lo = -INFINITY;
    c->range_hi = INFINITY;
    c->holdout = 0.2;
    c->validation = 0.1;
  }
  return c;
}

void contract_free(struct contract *c) {
  if (c == NULL)
    return;
  free(c->classes);
  for (size_t i = 0; c->features != NULL && i < c->n_features; i++)
    free(c->features[i].categories);
  free(c->features);
  scale_done(&c->scale);
  free(c);
}

static enum err name_copy(char out_name[MAX_NAME_BYTES], const char *name) {
  size_t n = strlen(name);
  if (n >= MAX_NAME_BYTES)
    return ERR_LIMIT;
  memcpy(out_name, name, n + 1);
  return ERR_OK;
}

static enum err add_name(struct class_name **names, size_t *n, const char *name) {
  struct class_name added = {0};
  enum err e = name_copy(added.text, name);
  if (e != ERR_OK)
    return e;
  if (*n == MAX_CLASSES)
    return ERR_LIMIT;
  struct class_name *grown = realloc(*names, (*n + 1) * sizeof *grown);
  if (grown == NULL)
    return ERR_NO_MEMORY;
  *names = grown;
  grown[(*n)++] = added;
  return ERR_OK;
}

enum err contract_add_class(struct contract *c, const char *name) {
  return add_name(&c->classes, &c->n_classes, name);
}

static size_t inputs_of(const struct feature *f) {
  return f->n_categories == 0 ? 1 : f->n_categories;
}

enum err contract_add_feature(struct contract *c, const char *name, const char *unit) {
  struct feature feature = {.range_lo = -INFINITY, .range_hi = INFINITY, .missing = {.rule = MISSING_INHERITED}};
  enum err e = name_copy(feature.name, name);
  if (e == ERR_OK)
    e = name_copy(feature.unit, unit == NULL ? "" : unit);
  if (e != ERR_OK)
    return e;
  if (c->n_features == MAX_CSV_COLUMNS)
    return ERR_LIMIT;
  if (c->n_features > 0) {
    const struct feature *last = &c->features[c->n_features - 1];
    feature.input = last->input + inputs_of(last);
    feature.pair = last->pair + (last->n_categories == 0);
  }
  struct feature *grown = realloc(c->features, (c->n_features + 1) * sizeof *grown);
  if (grown == NULL)
    return ERR_NO_MEMORY;
  c->features = grown;
  c->features[c->n_features++] = feature;
  return ERR_OK;
}

enum err contract_add_category(struct contract *c, const char *name) {
  if (c->n_features == 0)
    return ERR_RANGE;
  struct feature *f = &c->features[c->n_features - 1];
  return add_name(&f->categories, &f->n_categories, name);
}

static size_t category_find(const struct feature *f, const char *text, size_t n) {
  for (size_t k = 0; k < f->n_categories; k++)
    if (strlen(f->categories[k].text) == n && memcmp(f->categories[k].text, text, n) == 0)
      return k;
  return SIZE_MAX;
}

size_t feature_category(const struct feature *f, const char *text, size_t n, bool is_missing) {
  size_t found = category_find(f, text, n);
  const char *instead = is_missing ? CATEGORY_MISSING : CATEGORY_OTHER;
  return found != SIZE_MAX ? found : category_find(f, instead, strlen(instead));
}

static struct missing missing_of(const struct contract *c, const struct feature *f) {
  return f->missing.rule == MISSING_INHERITED ? c->missing : f->missing;
}

bool contract_fill(const struct contract *c, size_t i, float *out_value) {
  const struct feature *f = &c->features[i];
  const struct missing m = missing_of(c, f);
  if (m.rule == MISSING_MEAN) /* contract_check: the scale is fixed */
    *out_value = (float)c->scale.mean[c->scale.n == 1 ? 0 : f->pair];
  if (m.rule == MISSING_NUMBER)
    *out_value = (float)m.number;
  return m.rule != MISSING_REFUSED;
}

bool contract_is_image(const struct contract *c) {
  return c->height > 0;
}

size_t contract_n_inputs(const struct contract *c) {
  if (contract_is_image(c))
    return (size_t)c->height * c->width * c->channels;
  const struct feature *last = c->features == NULL ? NULL : &c->features[c->n_features - 1];
  return last == NULL ? c->n_features : last->input + inputs_of(last);
}

size_t contract_n_scaled(const struct contract *c) {
  if (contract_is_image(c) || c->features == NULL)
    return contract_n_inputs(c);
  const struct feature *last = &c->features[c->n_features - 1];
  return last->pair + (last->n_categories == 0);
}

size_t contract_n_measured(const struct contract *c) {
  return contract_is_image(c) ? 1 : contract_n_scaled(c);
}

enum err contract_spread_scale(const struct contract *c, const struct scale *scale, struct scale *out_scale) {
  if (scale->n == 0 || contract_n_scaled(c) == contract_n_inputs(c))
    return scale_copy(scale, out_scale);
  enum err e = scale_init(out_scale, scale->rule, contract_n_inputs(c));
  for (size_t i = 0; i < c->n_features && e == ERR_OK; i++) {
    const struct feature *f = &c->features[i];
    size_t pair = scale->n == 1 ? 0 : f->pair;
    if (f->n_categories == 0) {
      out_scale->mean[f->input] = scale->mean[pair];
      out_scale->sd[f->input] = scale->sd[pair];
    }
  }
  return e;
}

size_t contract_n_outputs(const struct contract *c) {
  return task_outputs(c->task, c->n_classes, contract_n_inputs(c));
}

bool contract_has_class_columns(const struct contract *c) {
  return task_type(c->task)->answer == ANSWER_SET && c->label[0] == '\0';
}

void contract_range(const struct contract *c, double *out_lo, double *out_hi) {
  bool unset = isinf(c->range_lo) && isinf(c->range_hi);
  *out_lo = unset && contract_is_image(c) ? 0 : c->range_lo;
  *out_hi = unset && contract_is_image(c) ? 1 : c->range_hi;
}

static bool has_own_range(const struct feature *f) {
  return isfinite(f->range_lo) || isfinite(f->range_hi);
}

void contract_feature_range(const struct contract *c, size_t i, double *out_lo, double *out_hi) {
  const struct feature *f = &c->features[i];
  *out_lo = has_own_range(f) ? f->range_lo : c->range_lo;
  *out_hi = has_own_range(f) ? f->range_hi : c->range_hi;
}

/* Sets the sentence and returns the error. Each check below looks at one aspect. */
__attribute__((format(printf, 3, 4))) static enum err say(char *reason, enum err e, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(reason, MAX_REASON_BYTES, format, args);
  va_end(args);
  return e;
}

static bool is_printable(const char *name) {
  for (size_t n; *name != '\0'; name += n)
    if ((n = utf8_character_bytes(name)) == 0)
      return false;
  return true;
}

/* Names of classes or features: a table of rows of `stride` bytes that begin with the name. */
static enum err check_names(char *reason, const char *what, const char *names, size_t n, size_t stride) {
  MUST(names != NULL || n == 0);
  for (size_t i = 0; i < n; i++) {
    const char *name = names + i * stride;
    if (name[0] == '\0' || !is_printable(name))
      return say(reason, ERR_SYNTAX,
                 "%s %zu is empty, no UTF-8 or has control characters; give it a printable name, save files as UTF-8",
                 what, i);
    for (size_t j = 0; j < i; j++)
      if (strcmp(name, names + j * stride) == 0)
        return say(reason, ERR_EXISTS, "%s \"%s\" stands twice; names must differ", what, name);
  }
  return ERR_OK;
}

static enum err check_classes(const struct contract *c, char *reason) {
  const struct task_type *t = task_type(c->task);
  if (c->n_classes < t->min_classes)
    return say(reason, ERR_RANGE, "a task of classes needs %s or more, there are %zu; list them in `classes`",
               t->min_classes == 1 ? "one" : "two", c->n_classes);
  if (c->n_classes > 0 && !t->takes_classes)
    return say(reason, ERR_RANGE, "regression has no classes; leave `classes` out");
  if (t->answer != ANSWER_INPUTS)
    return ERR_OK;
  if (c->n_classes == 1)
    return say(reason, ERR_RANGE, "the first class is normal, every other an anomaly; list two or more in `classes`");
  if (!contract_is_image(c) && (c->n_classes > 0) != (c->label[0] != '\0'))
    return say(reason, ERR_RANGE, "to judge a model that reconstructs, give both `label` and `classes`; else neither");
  return ERR_OK;
}

static enum err check_task(const struct contract *c, char *reason) {
  enum err e = check_classes(c, reason);
  if (e != ERR_OK)
    return e;
  if (!task_takes_loss(c->task, c->loss))
    return say(reason, ERR_RANGE, "the loss of task %s is %s, not %s", task_name(c->task),
               loss_kind_name(task_type(c->task)->losses[0]), loss_kind_name(c->loss));
  return check_names(reason, "class", c->classes == NULL ? NULL : c->classes->text, c->n_classes, sizeof *c->classes);
}

/* The names of a set stand in one field. */
static enum err check_class_sets(const struct contract *c, char *reason) {
  if (task_type(c->task)->answer != ANSWER_SET)
    return ERR_OK;
  for (size_t i = 0; i < c->n_classes; i++)
    if (strchr(c->classes[i].text, SET_SEPARATOR) != NULL)
      return say(reason, ERR_SYNTAX, "class \"%s\" has a '%c', which stands between the classes of a field",
                 c->classes[i].text, SET_SEPARATOR);
  return ERR_OK;
}

bool contract_metric_fits(const struct contract *c) {
  return task_takes_metric(c->task, c->n_classes, contract_metric(c));
}

static enum err check_metric(const struct contract *c, char *reason) {
  enum metric metric = contract_metric(c);
  if (contract_metric_fits(c))
    return ERR_OK;
  if (metric == METRIC_AUC && c->task == TASK_CLASSIFY)
    return say(reason, ERR_RANGE, "the metric AUC is of two classes, there are %zu; leave `metric` out", c->n_classes);
  return say(reason, ERR_RANGE, "the metric of task %s is not %s; leave `metric` out", task_name(c->task),
             metric_name(metric));
}

/* The column from which something is learnt that is an input too: the model would read the answer. */
static enum err check_answer_hidden(const struct contract *c, const char *feature, char *reason) {
  if (c->label[0] != '\0' && strcmp(feature, c->label) == 0)
    return say(reason, ERR_EXISTS, "the label \"%s\" is also a feature; the model would read the answer", c->label);
  for (size_t k = 0; contract_has_class_columns(c) && k < c->n_classes; k++)
    if (strcmp(feature, c->classes[k].text) == 0)
      return say(reason, ERR_EXISTS, "the class \"%s\" is also a feature; the model would read the answer", feature);
  return ERR_OK;
}

static enum err check_categories(const struct feature *f, char *reason) {
  if (f->n_categories == 0)
    return ERR_OK;
  if (f->n_categories < 2)
    return say(reason, ERR_RANGE, "feature \"%s\" has one category; list two or more", f->name);
  if (has_own_range(f) || f->unit[0] != '\0')
    return say(reason, ERR_RANGE, "feature \"%s\" has categories, which have neither `range` nor `unit`", f->name);
  if (f->missing.rule == MISSING_MEAN || f->missing.rule == MISSING_NUMBER)
    return say(reason, ERR_RANGE, "feature \"%s\" has categories; for missing values list one called \"%s\"", f->name,
               CATEGORY_MISSING);
  char what[MAX_NAME_BYTES + 16];
  snprintf(what, sizeof what, "category of %s", f->name);
  return check_names(reason, what, f->categories->text, f->n_categories, sizeof *f->categories);
}

static enum err check_missing(const struct contract *c, char *reason) {
  for (size_t i = 0; i <= c->n_features; i++) {
    const struct missing m = i == c->n_features ? c->missing : c->features[i].missing;
    if (m.rule == MISSING_MEAN && c->scale.rule != SCALE_FIXED)
      return say(reason, ERR_RANGE,
                 "`missing: mean` takes the mean of `scale: { mean, sd }`; give its numbers, or write number 0");
    if (m.rule == MISSING_NUMBER && !isfinite((float)m.number))
      return say(reason, ERR_RANGE, "the number for missing values must be finite");
  }
  if (c->missing.rule != MISSING_REFUSED && contract_is_image(c))
    return say(reason, ERR_RANGE, "images have no missing values; leave `missing` out");
  return ERR_OK;
}

static enum err check_inputs(const struct contract *c, char *reason) {
  bool some_size = c->height > 0 || c->width > 0 || c->channels > 0;
  bool all_sizes = c->height > 0 && c->width > 0 && c->channels > 0;
  MUST(c->features != NULL || c->n_features == 0);
  if (some_size != all_sizes)
    return say(reason, ERR_RANGE, "an image needs height, width and channels of 1 or more");
  if (all_sizes == (c->n_features > 0))
    return say(reason, ERR_RANGE, "inputs are either `features` or an image; give exactly one of them");
  if (c->height > MAX_FEATURES || c->width > MAX_FEATURES || c->channels > MAX_FEATURES ||
      (uint64_t)c->height * c->width > MAX_FEATURES || contract_n_inputs(c) > MAX_FEATURES)
    return say(reason, ERR_LIMIT, "an image has at most %d values", MAX_FEATURES);
  if (contract_n_inputs(c) > MAX_FEATURES)
    return say(reason, ERR_LIMIT, "features and categories make %zu inputs, at most %d are allowed",
               contract_n_inputs(c), MAX_FEATURES);
  if (c->n_features > 0 && c->label[0] == '\0' && task_type(c->task)->needs_label)
    return say(reason, ERR_RANGE, "columns need a `label`: the name or the number of the column to learn");
  if (!is_printable(c->label))
    return say(reason, ERR_SYNTAX,
               "the name of the label's column has control characters or is no UTF-8; save the file as UTF-8");
  for (size_t i = 0; i < c->n_features; i++) {
    enum err e = check_answer_hidden(c, c->features[i].name, reason);
    if (e != ERR_OK)
      return e;
    if (!is_printable(c->features[i].unit))
      return say(reason, ERR_SYNTAX, "the unit of feature %zu has control characters", i);
    if ((e = check_categories(&c->features[i], reason)) != ERR_OK)
      return e;
  }
  return check_names(reason, "feature", c->features == NULL ? NULL : c->features->name, c->n_features,
                     sizeof *c->features);
}

static enum err check_range(const struct contract *c, char *reason) {
  double lo, hi;
  contract_range(c, &lo, &hi);
  if (!(lo < hi))
    return say(reason, ERR_RANGE, "the range of inputs must go from a lower to a higher number");
  if (contract_is_image(c) && !isfinite(hi - lo))
    return say(reason, ERR_RANGE, "the range of an image needs both ends, a finite number apart");
  for (size_t i = 0; i < c->n_features; i++)
    if (!(c->features[i].range_lo < c->features[i].range_hi))
      return say(reason, ERR_RANGE, "the range of feature \"%s\" must go from a lower to a higher number",
                 c->features[i].name);
  return ERR_OK;
}

static enum err check_scale(const struct contract *c, char *reason) {
  const struct scale *s = &c->scale;
  if (s->rule != SCALE_NONE && contract_n_scaled(c) == 0)
    return say(reason, ERR_RANGE, "every feature has categories, which are not scaled; leave `scale` out");
  if (s->rule != SCALE_FIXED)
    return s->n == 0 ? ERR_OK : say(reason, ERR_RANGE, "scaling `%s` takes no numbers", scale_rule_name(s->rule));
  if (s->n != 1 && s->n != contract_n_scaled(c))
    return say(reason, ERR_RANGE, "scaling has %zu pairs for %zu inputs; give one pair or one for each%s", s->n,
               contract_n_scaled(c), contract_n_scaled(c) < contract_n_inputs(c) ? " that is no category" : "");
  for (size_t i = 0; i < s->n; i++)
    if (!isfinite(s->mean[i]) || !isfinite(s->sd[i]) || !(s->sd[i] > 0))
      return say(reason, ERR_RANGE, "scaling pair %zu needs a finite mean and an sd above 0", i);
  return ERR_OK;
}

static enum err check_kept_apart(const struct contract *c, char *reason) {
  if (!(c->holdout >= 0 && c->holdout <= 0.9))
    return say(reason, ERR_RANGE, "the holdout must be 0 to 0.9");
  if (!(c->validation >= 0 && c->validation <= 0.9))
    return say(reason, ERR_RANGE, "the validation must be 0 to 0.9");
  if (!(c->holdout + c->validation <= MAX_KEPT_APART + 1e-9)) /* 0.9 + 0.05 is a bit more than 0.95 */
    return say(reason, ERR_RANGE, "holdout and validation together are %g, at most %g may be kept from training",
               c->holdout + c->validation, MAX_KEPT_APART);
  if (c->holdout_by[0] == '\0')
    return ERR_OK;
  if (contract_is_image(c))
    return say(reason, ERR_RANGE, "`holdout_by` names a CSV column, images have none; leave it out");
  if (!is_printable(c->holdout_by))
    return say(reason, ERR_SYNTAX, "the name of the column in `holdout_by` has control characters");
  if (strcmp(c->holdout_by, c->label) == 0)
    return say(reason, ERR_RANGE,
               "holdout_by is the label \"%s\": whole classes would be kept apart; name another column", c->label);
  return ERR_OK;
}

static enum err check_split(const struct contract *c, char *reason) {
  const struct split *s = &c->split;
  if (s->rule == SPLIT_NONE)
    return ERR_OK;
  if (s->n_parts < 1 || s->n_parts > MAX_PARTS)
    return say(reason, ERR_RANGE, "a split needs 1 to %d parts, it has %" PRIu32, MAX_PARTS, s->n_parts);
  if (s->rule == SPLIT_DIRICHLET && !(s->alpha >= 1e-3 && s->alpha <= 1e6))
    return say(reason, ERR_RANGE, "a Dirichlet split needs a number from 0.001 to 1000000");
  if (s->rule == SPLIT_SHARDS && (s->shards < 1 || s->shards > MAX_CLASSES))
    return say(reason, ERR_RANGE, "a split by shards needs 1 to %d shards a part", MAX_CLASSES);
  if (task_type(c->task)->answer != ANSWER_CLASS && s->rule != SPLIT_IID)
    return say(reason, ERR_RANGE, "a split of task %s is `iid`: no sample is of one class to be divided by",
               task_name(c->task));
  return ERR_OK;
}

static enum err check_text(const struct contract *c, char *reason) {
  char *text = malloc(MAX_SCHEMA_TEXT_BYTES);
  if (text == NULL)
    return say(reason, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  size_t n;
  enum err e = contract_text(c, text, MAX_SCHEMA_TEXT_BYTES, &n);
  free(text);
  if (e != ERR_OK)
    return say(reason, e, "the contract is longer than %d bytes as text; use fewer or shorter names",
               MAX_SCHEMA_TEXT_BYTES);
  return ERR_OK;
}

enum err contract_check(const struct contract *c, char out_reason[MAX_REASON_BYTES]) {
  static enum err (*const checks[])(const struct contract *, char *) = {
      check_task,  check_class_sets, check_metric,     check_inputs, check_range,
      check_scale, check_missing,    check_kept_apart, check_split,  check_text};
  for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
    enum err e = checks[i](c, out_reason);
    if (e != ERR_OK)
      return e;
  }
  return ERR_OK;
}

/* "name" with \" and \\ escaped; other bytes stand as they are. */
static const char *quoted(const char *name, char out[2 * MAX_NAME_BYTES + 2]) {
  char *to = out;
  *to++ = '"';
  for (; *name != '\0'; name++) {
    if (*name == '"' || *name == '\\')
      *to++ = '\\';
    *to++ = *name;
  }
  *to++ = '"';
  *to = '\0';
  return out;
}

static void write_bound(struct writer *w, const char *what, double bound) {
  char number[NUMBER_TEXT_BYTES] = "any";
  if (isfinite(bound))
    number_write(bound, number);
  text_line(w, "%s: %s", what, number);
}

static void write_feature_range(struct writer *w, size_t i, const struct feature *f) {
  char what[2 * NUMBER_TEXT_BYTES];
  snprintf(what, sizeof what, "range %zu lo", i);
  write_bound(w, what, f->range_lo);
  snprintf(what, sizeof what, "range %zu hi", i);
  write_bound(w, what, f->range_hi);
}

/* "refused", "mean", "number -1" */
static void write_missing(struct writer *w, const char *what, struct missing m) {
  char number[NUMBER_TEXT_BYTES];
  number_write(m.number, number);
  if (m.rule == MISSING_NUMBER)
    text_line(w, "%s: number %s", what, number);
  else
    text_line(w, "%s: %s", what, m.rule == MISSING_MEAN ? "mean" : "refused");
}

static void write_own(struct writer *w, size_t i, const struct feature *f) {
  char what[NUMBER_TEXT_BYTES + 16], name[2 * MAX_NAME_BYTES + 2];
  snprintf(what, sizeof what, "missing %zu", i);
  if (f->missing.rule != MISSING_INHERITED)
    write_missing(w, what, f->missing);
  for (size_t k = 0; k < f->n_categories; k++)
    text_line(w, "category %zu %zu: %s", i, k, quoted(f->categories[k].text, name));
}

static void write_inputs(struct writer *w, const struct contract *c) {
  char name[2 * MAX_NAME_BYTES + 2], unit[2 * MAX_NAME_BYTES + 2];
  if (contract_is_image(c))
    text_line(w, "image: %" PRIu32 " %" PRIu32 " %" PRIu32, c->height, c->width, c->channels);
  for (size_t i = 0; i < c->n_features; i++) {
    text_line(w, "feature %zu: %s", i, quoted(c->features[i].name, name));
    if (c->features[i].unit[0] != '\0')
      text_line(w, "unit %zu: %s", i, quoted(c->features[i].unit, unit));
    if (has_own_range(&c->features[i]))
      write_feature_range(w, i, &c->features[i]);
    write_own(w, i, &c->features[i]);
  }
}

static void write_split(struct writer *w, const struct contract *c) {
  char number[NUMBER_TEXT_BYTES];
  text_line(w, "split: %s", split_rule_name(c->split.rule));
  if (c->split.rule == SPLIT_DIRICHLET) {
    number_write(c->split.alpha, number);
    text_line(w, "split alpha: %s", number);
  }
  if (c->split.rule == SPLIT_GROUPS)
    text_line(w, "split groups: %" PRIu32, c->split.shards);
  if (c->split.rule == SPLIT_SHARDS)
    text_line(w, "split shards: %" PRIu32, c->split.shards);
  if (c->split.rule != SPLIT_NONE) {
    text_line(w, "split parts: %" PRIu32, c->split.n_parts);
    if (c->split.samples > 0)
      text_line(w, "split samples: %" PRIu32, c->split.samples);
    text_line(w, "split seed: %" PRIu64, c->split.seed);
  }
}

static void write_kept_apart(struct writer *w, const struct contract *c) {
  char number[NUMBER_TEXT_BYTES], name[2 * MAX_NAME_BYTES + 2];
  number_write(c->holdout, number);
  text_line(w, "holdout: %s", number);
  number_write(c->validation, number);
  text_line(w, "validation: %s", number);
  text_line(w, "holdout by: %s", c->holdout_by[0] == '\0' ? "sample" : quoted(c->holdout_by, name));
}

static void write_codec(struct writer *w, struct codec c) {
  char number[NUMBER_TEXT_BYTES];
  if (c.kind == CODEC_F32 || c.kind == CODEC_F16)
    return;
  text_line(w, "codec: %s", codec_name(c.kind));
  if (c.kind == CODEC_TOPK) {
    number_write(c.fraction, number);
    text_line(w, "codec fraction: %s", number);
  }
}

enum err contract_text(const struct contract *c, char *out_text, size_t capacity, size_t *out_n_bytes) {
  struct writer w;
  writer_init(&w, out_text, capacity < MAX_SCHEMA_TEXT_BYTES ? capacity : MAX_SCHEMA_TEXT_BYTES);
  char label[2 * MAX_NAME_BYTES + 2];
  text_line(&w, "contract: 1");
  text_line(&w, "task: %s", task_name(c->task));
  text_line(&w, "loss: %s", loss_kind_name(c->loss));
  text_line(&w, "label: %s", quoted(c->label, label));
  for (size_t i = 0; i < c->n_classes; i++)
    text_line(&w, "class %zu: %s", i, quoted(c->classes[i].text, label));
  write_inputs(&w, c);
  double lo, hi;
  contract_range(c, &lo, &hi);
  write_bound(&w, "range lo", lo);
  write_bound(&w, "range hi", hi);
  scale_write(&w, &c->scale);
  write_missing(&w, "missing", c->missing);
  text_line(&w, "init seed: %" PRIu64, c->init_seed);
  write_split(&w, c);
  write_kept_apart(&w, c);
  if (contract_metric(c) != task_metric(c->task, c->n_classes))
    text_line(&w, "metric: %s", metric_name(contract_metric(c)));
  write_codec(&w, c->codec);
  return text_end(&w, out_n_bytes);
}

enum err contract_hash(const struct contract *c, const struct digest_fn *fn, struct digest *out_hash) {
  static const char domain[] = "starling/v1/contract"; /* with its NUL */
  char *text = malloc(MAX_SCHEMA_TEXT_BYTES);
  if (text == NULL)
    return ERR_NO_MEMORY;
  size_t n;
  enum err e = contract_text(c, text, MAX_SCHEMA_TEXT_BYTES, &n);
  if (e == ERR_OK) {
    struct digest_state state;
    fn->init(&state);
    fn->add(&state, domain, sizeof domain);
    fn->add(&state, text, n);
    fn->end(&state, out_hash);
  }
  free(text);
  return e;
}
