#include "models/data/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

const char *finding_name(enum finding_code code) {
  static const char *const names[] = {
#define X(symbol, name) name,
      FINDING_LIST(X)
#undef X
  };
  MUST((size_t)code < N_FINDING_CODES);
  return names[code];
}

void findings_done(struct findings *f) {
  free(f->items);
  *f = (struct findings){0};
}

/* What is judged, and where its findings go; the first failure stays. */
struct judge {
  const struct profile *p;
  const struct contract *c;
  struct findings *f;
  char about[MAX_FINDING_ABOUT_BYTES]; /* of the findings to come */
  enum err e;
};

__attribute__((format(printf, 2, 3))) static void speak_of(struct judge *j, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(j->about, sizeof j->about, format, args);
  va_end(args);
}

enum { WARNING, ERROR };

__attribute__((format(printf, 5, 6))) static void find(struct judge *j, bool is_error, enum finding_code code,
                                                       uint64_t line, const char *format, ...) {
  struct findings *f = j->f;
  if (j->e != ERR_OK)
    return;
  f->n_errors += is_error;
  if (f->n == MAX_FINDINGS) {
    f->n_left_out++;
    return;
  }
  struct finding *grown = realloc(f->items, (f->n + 1) * sizeof *grown);
  if (grown == NULL) {
    j->e = ERR_NO_MEMORY;
    return;
  }
  f->items = grown;
  struct finding *finding = &f->items[f->n++];
  *finding = (struct finding){.is_error = is_error, .code = code, .line = line};
  snprintf(finding->about, sizeof finding->about, "%s", j->about);
  va_list args;
  va_start(args, format);
  vsnprintf(finding->sentence, sizeof finding->sentence, format, args);
  va_end(args);
}

/* ---- units and scaling ---- */

/* What a quantity should be, as far as the contract says. */
struct expected {
  double lo, hi; /* −inf, inf: any */
  bool has_scale;
  double mean, sd;
};

/* right = a · found + b */
struct mistake {
  double a, b;
  const char *word, *remedy;
};

static const struct mistake mistakes[] = {
    {1, -273.15, "Kelvin", "subtract 273.15"},
    {1 / 1.8, -32 / 1.8, "Fahrenheit", "subtract 32 and divide by 1.8"},
    {1, 273.15, "Celsius", "add 273.15"},
    {1.8, 32, "Celsius", "multiply by 1.8 and add 32"},
    {1e-3, 0, "in thousandths", "divide by 1000"},
    {1e3, 0, "in thousands", "multiply by 1000"},
    {1e-2, 0, "percent", "divide by 100"},
    {1e2, 0, "fractions instead of percent", "multiply by 100"},
    {1 / 255.0, 0, "0..255 instead of 0..1", "divide by 255"},
    {255, 0, "0..1 instead of 0..255", "multiply by 255"},
};

/* How far a mean lies from the contract's in its standard deviations, how different a spread is, before they are told: a
 * site's own mix moves a mean by one or two of them. */
static const double far_sd = 3, absurd_sd = 10, far_ratio = 10;

static double z_of(const struct expected *x, double mean) {
  return x->has_scale ? fabs(mean - x->mean) / x->sd : 0;
}

static bool spread_is_off(const struct expected *x, double sd) {
  return x->has_scale && sd > 0 && (sd > far_ratio * x->sd || sd * far_ratio < x->sd);
}

/* How well the column fits when this mistake is undone, 0 best; infinite when it does not. By the scaling where its numbers
 * are known, else by how much of the range is filled: dividing by enough fits everywhere, but fills nothing. */
static double misfit(const struct column_profile *c, const struct expected *x, const struct mistake *m) {
  double lo = m->a * c->min + m->b, hi = m->a * c->max + m->b, slack = 1e-6 * (fabs(lo) + fabs(hi));
  if (lo < x->lo - slack || hi > x->hi + slack)
    return INFINITY;
  if (x->has_scale) {
    double z = z_of(x, m->a * c->mean + m->b), ratio = m->a * column_sd(c) / x->sd;
    return z <= 2 && ratio > 0.2 && ratio < 5 ? z + fabs(log(ratio)) : INFINITY;
  }
  double filled = (hi - lo) / (x->hi - x->lo);
  return filled > 0.01 ? 1 - filled : INFINITY;
}

static const struct mistake *find_mistake(const struct column_profile *c, const struct expected *x,
                                          const struct mistake *standardised) {
  const struct mistake *best = NULL;
  double least = INFINITY;
  bool is_as_scaled = z_of(x, c->mean) < 0.5 && column_sd(c) > 0.5 * x->sd && column_sd(c) < 2 * x->sd;
  if (x->has_scale && fabs(c->mean) < 0.5 && column_sd(c) > 0.5 && column_sd(c) < 2 && !is_as_scaled)
    return standardised;
  if (!x->has_scale && !isfinite(x->hi - x->lo))
    return NULL;
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
    double now = misfit(c, x, &mistakes[i]);
    if (now < least) {
      least = now;
      best = &mistakes[i];
    }
  }
  return best;
}

/* "mean 291 but contract range -40..85" */
static void describe(const struct column_profile *c, const struct expected *x, char out[MAX_REASON_BYTES]) {
  if (c->outside.n > 0 || !x->has_scale)
    snprintf(out, MAX_REASON_BYTES, "mean %.4g but contract range %.4g..%.4g", c->mean, x->lo, x->hi);
  else
    snprintf(out, MAX_REASON_BYTES, "mean %.4g, sd %.3g but contract mean %.4g, sd %.3g", c->mean, column_sd(c),
             x->mean, x->sd);
}

/* Whether much of the range stands empty above the values, as when fractions stand where percent are meant. */
static bool is_crowded_low(const struct column_profile *c, const struct expected *x) {
  return !x->has_scale && isfinite(x->hi - x->lo) && c->max > c->min && c->max - x->lo < 0.02 * (x->hi - x->lo);
}

static void judge_unit(struct judge *j, const struct column_profile *c, const struct expected *x) {
  const struct mistake standardised = {x->sd, x->mean, "standardised already", "give the raw values"};
  double z = z_of(x, c->mean);
  bool is_outside = c->outside.n > 0, is_much_outside = c->outside.n * 10 >= c->n && is_outside;
  bool is_far = z > far_sd || spread_is_off(x, column_sd(c)), is_error = is_outside || z > absurd_sd;
  char what[MAX_REASON_BYTES];
  const struct mistake *m = NULL;
  if (c->n == 0 || !(is_outside || is_far || is_crowded_low(c, x)))
    return;
  describe(c, x, what);
  if (is_much_outside || is_far || is_crowded_low(c, x))
    m = find_mistake(c, x, &standardised);
  if (m != NULL)
    find(j, is_error, FINDING_UNIT, c->outside.line, "%s: %s? %s", what, m->word, m->remedy);
  else if (is_outside)
    find(j, ERROR, FINDING_RANGE, c->outside.line,
         "%" PRIu64 " of %" PRIu64
         " values are outside the contract's range %.4g..%.4g, they reach %.4g..%.4g; correct "
         "them, leave the rows out, or widen the range",
         c->outside.n, c->n, x->lo, x->hi, c->min, c->max);
  else if (is_far)
    find(j, is_error, FINDING_SCALING, 0, "%s; is it another unit, sensor or scaling? agree on the numbers", what);
}

static struct expected expected_of(const struct contract *c, size_t i) {
  bool is_category = !contract_is_image(c) && c->features[i].n_categories > 0; /* these are not scaled */
  struct expected x = {.has_scale = c->scale.rule == SCALE_FIXED && c->scale.n > 0 && !is_category};
  if (contract_is_image(c))
    contract_range(c, &x.lo, &x.hi);
  else
    contract_feature_range(c, i, &x.lo, &x.hi);
  if (x.has_scale) {
    size_t pair = c->scale.n == 1 ? 0 : contract_is_image(c) ? i : c->features[i].pair;
    x.mean = c->scale.mean[pair];
    x.sd = c->scale.sd[pair];
  }
  return x;
}

/* ---- columns ---- */

static void judge_values(struct judge *j, const struct column_profile *c) {
  if (c->missing.n > 0)
    find(j, ERROR, FINDING_MISSING_VALUE, c->missing.line,
         "%" PRIu64 " values are missing; fill them in or leave the rows out", c->missing.n);
  if (c->not_numbers.n > 0)
    find(j, ERROR, FINDING_NOT_A_NUMBER, c->not_numbers.line,
         "%" PRIu64 " values are no numbers; write them as 21.5, with a point", c->not_numbers.n);
}

static void judge_categories(struct judge *j, const struct column_profile *c) {
  if (c->missing.n > 0)
    find(j, ERROR, FINDING_MISSING_VALUE, c->missing.line,
         "%" PRIu64 " values are missing; fill them in, or list the category \"" CATEGORY_MISSING "\" in the job file",
         c->missing.n);
  if (c->unknown.n > 0)
    find(j, ERROR, FINDING_CATEGORY_UNKNOWN, c->unknown.line,
         "%" PRIu64 " values are no category of the contract, the first is \"%s\"; correct them, or list it or "
         "\"" CATEGORY_OTHER "\" in the job file",
         c->unknown.n, c->unknown_text);
}

/* A number that the contract fills in where it is missing is no error. */
static void judge_numbers(struct judge *j, const struct column_profile *c, size_t i) {
  struct column_profile rest = *c;
  float instead;
  if (c->missing.n > 0 && contract_fill(j->c, i, &instead)) {
    find(j, WARNING, FINDING_MISSING_VALUE, c->missing.line,
         "%" PRIu64 " of %" PRIu64 " values are missing; %.6g is put there", c->missing.n, c->missing.n + c->n,
         (double)instead);
    rest.missing.n = 0;
  }
  judge_values(j, &rest);
}

static void judge_feature(struct judge *j, size_t i) {
  const char *name = j->c->features[i].name;
  const struct column_profile *c = profile_column(j->p, name);
  const struct expected x = expected_of(j->c, i);
  speak_of(j, "feature %zu \"%s\"", i, name);
  if (c == NULL) {
    find(j, ERROR, FINDING_COLUMN_MISSING, 1, "there is no such column; %s",
         j->p->n_columns == 1 ? "are the fields separated by commas?" : "add it or correct the job file");
    return;
  }
  if (j->c->features[i].n_categories > 0) {
    judge_categories(j, c);
    return;
  }
  judge_numbers(j, c, i);
  judge_unit(j, c, &x);
  if (c->n > 1 && c->min == c->max)
    find(j, WARNING, FINDING_CONSTANT, 0, "every value is %.4g; nothing can be learnt from it here", c->min);
}

/* Columns whose order the contract has otherwise; they are found by name. */
static bool is_reordered(const struct judge *j) {
  const struct column_profile *last = NULL;
  for (size_t i = 0; i < j->c->n_features; i++) {
    const struct column_profile *c = profile_column(j->p, j->c->features[i].name);
    if (c != NULL && last != NULL && c < last)
      return true;
    last = c != NULL ? c : last;
  }
  return false;
}

static size_t count_extra(const struct judge *j, const struct column_profile **out_first) {
  size_t n = 0;
  for (size_t k = 0; k < j->p->n_columns; k++) {
    const struct column_profile *c = &j->p->columns[k];
    bool is_known = k == j->p->label || k == j->p->group;
    for (size_t i = 0; contract_has_class_columns(j->c) && i < j->c->n_classes && !is_known; i++)
      is_known = strcmp(c->name, j->c->classes[i].text) == 0;
    for (size_t i = 0; i < j->c->n_features && !is_known; i++)
      is_known = strcmp(c->name, j->c->features[i].name) == 0;
    if (!is_known && n++ == 0)
      *out_first = c;
  }
  return n;
}

static void judge_columns(struct judge *j) {
  const struct column_profile *extra = NULL;
  for (size_t i = 0; i < j->c->n_features; i++)
    judge_feature(j, i);
  speak_of(j, "columns");
  if (j->p->has_repeated_column)
    find(j, ERROR, FINDING_COLUMN_REPEATED, 1, "a column stands twice in the header; rename one of them");
  if (j->c->holdout_by[0] != '\0' && j->p->group == SIZE_MAX)
    find(j, ERROR, FINDING_COLUMN_MISSING, 1, "there is no column \"%s\", which holdout_by names; add it",
         j->c->holdout_by);
  if (j->p->ragged.n > 0)
    find(j, ERROR, FINDING_RAGGED, j->p->ragged.line,
         "%" PRIu64 " rows do not have the header's %zu fields; quote text with commas, write decimals with a point",
         j->p->ragged.n, j->p->n_columns);
  size_t n_extra = count_extra(j, &extra);
  if (n_extra > 0)
    find(j, WARNING, FINDING_COLUMN_EXTRA, 1, "not in the contract and ignored: %zu, the first is \"%s\"", n_extra,
         extra->name);
  if (is_reordered(j))
    find(j, WARNING, FINDING_COLUMN_ORDER, 1,
         "they stand in another order than in the contract; they are found by name, so nothing need be done");
}

/* ---- images ---- */

static const char *what_they_are(const struct contract *c) {
  return c->height == 1 ? "series" : "images";
}

static void judge_image(struct judge *j) {
  const struct contract *c = j->c;
  const struct profile *p = j->p;
  const struct expected x = expected_of(c, 0);
  speak_of(j, "%s", what_they_are(c));
  if (p->height != c->height || p->width != c->width || p->channels != c->channels) {
    find(j, ERROR, FINDING_SHAPE, 0,
         "they are %" PRIu32 "x%" PRIu32 "x%" PRIu32 ", the contract's %" PRIu32 "x%" PRIu32 "x%" PRIu32
         "; correct the job file",
         p->height, p->width, p->channels, c->height, c->width, c->channels);
  }
  double step = (x.hi - x.lo) / UINT8_MAX;
  judge_values(j, p->columns);
  if (p->columns->min == p->columns->max)
    find(j, WARNING, FINDING_CONSTANT, 0, "every value of all is %.4g; nothing can be learnt from it", p->columns->min);
  else if (p->is_bytes && p->columns->max <= x.lo + 1.5 * step)
    find(j, WARNING, FINDING_UNIT, 0,
         "every byte is 0 or 1, of 0 to 255: 0..1 instead of 0..255? multiply by 255 before writing them");
  else
    judge_unit(j, p->columns, &x);
}

/* ---- classes ---- */

static bool is_class(const struct judge *j, const struct class_profile *found, size_t i) {
  char number[24];
  snprintf(number, sizeof number, "%zu", i);
  return strcmp(found->name, j->p->has_numbered_labels ? number : j->c->classes[i].text) == 0;
}

static uint64_t class_count(const struct judge *j, size_t i) {
  for (size_t k = 0; k < j->p->n_classes; k++)
    if (is_class(j, &j->p->classes[k], i))
      return j->p->classes[k].seen.n;
  return 0;
}

static bool is_known_class(const struct judge *j, const struct class_profile *found) {
  for (size_t i = 0; i < j->c->n_classes; i++)
    if (is_class(j, found, i))
      return true;
  return false;
}

static void judge_known_classes(struct judge *j) {
  if (!task_type(j->c->task)->has_said_classes)
    return;
  for (size_t i = 0; i < j->c->n_classes; i++) {
    uint64_t n = class_count(j, i);
    speak_of(j, "class %zu \"%s\"", i, j->c->classes[i].text);
    if (n == 0)
      find(j, WARNING, FINDING_CLASS_ABSENT, 0,
           "has no sample here; this site's figures then say nothing about it, its peers may know it");
    else if (n < TINY_CLASS)
      find(j, WARNING, FINDING_CLASS_TINY, 0, "has %" PRIu64 " samples; figures about it will be noise", n);
  }
}

static void judge_unknown_classes(struct judge *j) {
  if (j->c->n_classes == 0)
    return;
  for (size_t k = 0; k < j->p->n_classes; k++) {
    const struct class_profile *found = &j->p->classes[k];
    if (is_known_class(j, found))
      continue;
    speak_of(j, "class \"%s\"", found->name);
    find(j, ERROR, FINDING_CLASS_UNKNOWN, found->seen.line,
         "is not in the contract, %" PRIu64 " samples have it; correct them, or agree with your peers to add it",
         found->seen.n);
  }
}

/* Where each class has a column. */
static void judge_marks(struct judge *j) {
  for (size_t i = 0; i < j->c->n_classes; i++) {
    const char *name = j->c->classes[i].text;
    const struct column_profile *c = profile_column(j->p, name);
    speak_of(j, "class %zu \"%s\"", i, name);
    if (c == NULL) {
      find(j, ERROR, FINDING_COLUMN_MISSING, 1, "there is no such column; add it, or name a `label` in the job file");
      continue;
    }
    judge_values(j, c);
    if (c->outside.n > 0)
      find(j, ERROR, FINDING_RANGE, c->outside.line,
           "%" PRIu64 " values are neither 0 nor 1; write 1 where it applies and 0 where it does not", c->outside.n);
  }
}

static void judge_label(struct judge *j) {
  const struct profile *p = j->p;
  enum answer_kind answer = task_type(j->c->task)->answer;
  if (contract_has_class_columns(j->c)) {
    judge_marks(j);
    return;
  }
  if (answer == ANSWER_INPUTS && !p->is_image && p->label == SIZE_MAX)
    return; /* nobody knows what is normal in it */
  speak_of(j, "label \"%s\"", j->c->label);
  if (!p->is_image && p->label == SIZE_MAX) {
    find(j, ERROR, FINDING_COLUMN_MISSING, 1, "there is no such column; add it or correct the job file");
    return;
  }
  if (p->label == SIZE_MAX && answer == ANSWER_NUMBER) {
    find(j, ERROR, FINDING_NOT_A_NUMBER, 0, "IDX labels are classes; bring the numbers to predict as a NumPy array");
    return;
  }
  if (p->label_missing.n > 0)
    find(j, ERROR, FINDING_MISSING_VALUE, p->label_missing.line,
         "%" PRIu64 " labels are missing; fill them in or leave the rows out", p->label_missing.n);
  if (p->label_too_long.n > 0)
    find(j, ERROR, FINDING_CLASS_UNKNOWN, p->label_too_long.line,
         "%" PRIu64 " labels are longer than any class name can be; is it the right column?", p->label_too_long.n);
  if (p->has_too_many_classes)
    find(j, ERROR, FINDING_CLASS_UNKNOWN, 0, "there are more than %d different labels; is it a number to regress?",
         MAX_CLASSES);
  if (answer == ANSWER_NUMBER)
    judge_values(j, &p->columns[p->label]);
}

/* ---- the whole ---- */

static void judge_amount(struct judge *j) {
  uint64_t n = j->p->n_samples;
  speak_of(j, "samples");
  if (n < TINY_CLASS)
    find(j, ERROR, FINDING_FEW_SAMPLES, 0, "there are %" PRIu64 ", too few to learn from; bring more", n);
  else if (n < FEW_SAMPLES)
    find(j, WARNING, FINDING_FEW_SAMPLES, 0, "there are %" PRIu64 "; figures about so few will be noise", n);
}

static void judge_duplicates(struct judge *j) {
  uint64_t n = j->p->n_duplicates;
  speak_of(j, "samples");
  if (n > 0)
    find(j, 2 * n > j->p->n_samples, FINDING_DUPLICATES, 0,
         "%" PRIu64 " of %" PRIu64 " test samples stand in the training file too, so test figures flatter; remove them "
         "from one of the two",
         n, j->p->n_samples);
}

static void judge_inputs(struct judge *j) {
  MUST(j->p->is_image == contract_is_image(j->c));
  if (j->p->is_image)
    judge_image(j);
  else
    judge_columns(j);
  judge_label(j);
}

enum err check_training(const struct profile *p, const struct contract *c, struct findings *f) {
  struct judge j = {.p = p, .c = c, .f = f};
  judge_inputs(&j);
  judge_known_classes(&j);
  judge_unknown_classes(&j);
  judge_amount(&j);
  return j.e;
}

enum err check_test(const struct profile *p, const struct contract *c, struct findings *f) {
  struct judge j = {.p = p, .c = c, .f = f};
  judge_inputs(&j);
  judge_unknown_classes(&j);
  judge_duplicates(&j);
  return j.e;
}

/* The figures of each feature of the samples, raw, those of categories without a meaning; of images one for all values. */
static enum err measure(const struct dataset *d, const struct contract *c, struct column_profile *columns) {
  double lo, hi;
  contract_range(c, &lo, &hi);
  bool has_bytes = dataset_has_bytes(d);
  double step = has_bytes ? (hi - lo) / UINT8_MAX : 1, base = has_bytes ? lo : 0;
  for (size_t first = 0, n; first < d->n; first += n) {
    const void *rows;
    enum err e = dataset_rows(d, first, &rows, &n);
    if (e != ERR_OK)
      return e;
    const uint8_t *bytes = rows;
    const float *floats = rows;
    for (size_t at = 0; contract_is_image(c) && at < n * d->n_inputs; at++)
      column_add(&columns[0], base + step * (has_bytes ? (double)bytes[at] : (double)floats[at]));
    for (size_t i = 0; i < n; i++)
      for (size_t k = 0; k < c->n_features; k++)
        column_add(&columns[k], (double)floats[i * d->n_inputs + c->features[k].input]);
  }
  return ERR_OK;
}

enum err check_dataset(const struct dataset *d, const struct contract *c, struct findings *f) {
  struct judge j = {.c = c, .f = f};
  bool is_image = contract_is_image(c);
  size_t n = is_image ? 1 : c->n_features;
  struct column_profile *columns = calloc(n, sizeof *columns);
  if (columns == NULL)
    return ERR_NO_MEMORY;
  j.e = measure(d, c, columns);
  for (size_t i = 0; j.e == ERR_OK && i < n; i++) {
    if (!is_image && c->features[i].n_categories > 0)
      continue;
    const struct expected x = expected_of(c, i);
    if (is_image)
      speak_of(&j, "%s", what_they_are(c));
    else
      speak_of(&j, "feature %zu \"%s\"", i, c->features[i].name);
    judge_unit(&j, &columns[i], &x);
  }
  free(columns);
  return j.e;
}

size_t check_features_ok(const struct findings *f, const struct contract *c) {
  size_t n = c->n_features;
  for (size_t i = 0; i < f->n; i++) {
    bool is_feature = strncmp(f->items[i].about, "feature ", 8) == 0;
    bool is_first = i == 0 || strcmp(f->items[i].about, f->items[i - 1].about) != 0;
    n -= is_feature && is_first && n > 0;
  }
  return n;
}

size_t check_classes_present(const struct profile *p, const struct contract *c) {
  const struct judge j = {.p = p, .c = c};
  size_t n = 0;
  for (size_t i = 0; i < c->n_classes; i++)
    n += class_count(&j, i) > 0;
  return n;
}
