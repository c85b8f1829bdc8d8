#include "models/data/profile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "models/data/array_pair.h"
#include "models/data/sample_set.h"
#include "models/formats/csv_scan.h"
#include "models/formats/idx.h"
#include "models/formats/number.h"

enum { CLASS_PLACES = 4 * MAX_CLASSES, NO_FEATURE = -1, NO_CLASS = -1 };

/* A field of the present row that is read as a number. */
struct field {
  enum { FIELD_MISSING, FIELD_NO_NUMBER, FIELD_NUMBER, FIELD_UNKNOWN, FIELD_CATEGORY } what;
  double value; /* FIELD_CATEGORY: which */
};

/* What is done with a column of a table. */
struct use {
  int32_t feature;             /* of the contract, or NO_FEATURE */
  int32_t class;               /* whose own column it is, or NO_CLASS */
  bool is_number;              /* its fields are read as numbers */
  double lo, hi;               /* the contract's range */
  const struct feature *named; /* the feature, where it has categories; else NULL */
};

struct reading {
  const struct profile_options *options;
  struct profile *p;
  struct csv_scan scan;
  struct use *uses;             /* [n_columns] */
  size_t capacity;              /* of columns and uses */
  size_t class_capacity;        /* of classes */
  uint16_t place[CLASS_PLACES]; /* 1 + the number of a class, by its name's hash; 0: free */

  /* tables with a contract */
  bool has_all_features;

  /* the present row */
  struct field *fields;          /* [n_columns] */
  char (*texts)[MAX_NAME_BYTES]; /* [n_columns] of the fields; NULL with a contract */
  float *inputs;                 /* [n_inputs] */
  bool is_whole;                 /* nothing is wrong with its inputs */
  char label[MAX_CSV_FIELD_BYTES];
  size_t n_label; /* of its text */
};

void profile_free(struct profile *p) {
  if (p == NULL)
    return;
  for (size_t i = 0; i < p->n_columns; i++)
    free(p->columns[i].categories);
  free(p->columns);
  free(p->classes);
  sample_set_free(p->samples);
  free(p);
}

const struct column_profile *profile_column(const struct profile *p, const char *name) {
  for (size_t i = 0; i < p->n_columns; i++)
    if (!p->columns[i].name_is_cut && strcmp(p->columns[i].name, name) == 0)
      return &p->columns[i];
  return NULL;
}

double column_sd(const struct column_profile *c) {
  return c->n == 0 ? 0 : sqrt(c->m2 / (double)c->n);
}

static enum err no_memory(struct data_place *why) {
  return data_fault(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
}

static void sighting_add(struct sighting *t, uint64_t line) {
  if (t->n++ == 0)
    t->line = line;
}

void column_add(struct column_profile *c, double value) {
  c->min = c->n == 0 ? value : fmin(c->min, value);
  c->max = c->n == 0 ? value : fmax(c->max, value);
  c->n++;
  double delta = value - c->mean;
  c->mean += delta / (double)c->n;
  c->m2 += delta * (value - c->mean);
}

/* ---- classes ---- */

/* FNV-1a (Fowler, Noll, Vo). */
static size_t name_hash(const char *name, size_t n) {
  uint64_t h = 0xcbf29ce484222325;
  for (size_t i = 0; i < n; i++)
    h = (h ^ (uint8_t)name[i]) * 0x100000001b3;
  return (size_t)(h ^ h >> 32);
}

static enum err class_new(struct reading *r, const char *name, size_t n, uint64_t line) {
  struct profile *p = r->p;
  if (p->n_classes == r->class_capacity) {
    size_t capacity = p->n_classes == 0 ? 16 : 2 * p->n_classes;
    struct class_profile *grown = realloc(p->classes, capacity * sizeof *grown);
    if (grown == NULL)
      return ERR_NO_MEMORY;
    p->classes = grown;
    r->class_capacity = capacity;
  }
  struct class_profile *c = &p->classes[p->n_classes++];
  *c = (struct class_profile){.seen = {1, line}};
  memcpy(c->name, name, n);
  return ERR_OK;
}

static enum err class_add(struct reading *r, const char *name, size_t n, uint64_t line) {
  struct profile *p = r->p;
  MUST(n < MAX_NAME_BYTES);
  size_t at = name_hash(name, n) % CLASS_PLACES;
  for (; r->place[at] != 0; at = (at + 1) % CLASS_PLACES) {
    struct class_profile *c = &p->classes[r->place[at] - 1];
    if (csv_text_is(name, n, c->name)) {
      c->seen.n++;
      return ERR_OK;
    }
  }
  p->has_too_many_classes = p->has_too_many_classes || p->n_classes == MAX_CLASSES;
  if (p->has_too_many_classes)
    return ERR_OK;
  r->place[at] = (uint16_t)(p->n_classes + 1);
  return class_new(r, name, n, line);
}

/* ---- samples ---- */

static enum err remember(struct reading *r, const struct sample *sample, size_t n_inputs) {
  uint64_t key = sample_key(r->options->fn, sample, n_inputs);
  if (r->options->against != NULL)
    r->p->n_duplicates += sample_set_has(r->options->against, key);
  return sample_set_put(r->p->samples, key);
}

/* ---- tables ---- */

static enum err columns_grow(struct reading *r) {
  size_t capacity = r->capacity == 0 ? 32 : 2 * r->capacity;
  struct column_profile *columns = realloc(r->p->columns, capacity * sizeof *columns);
  if (columns != NULL)
    r->p->columns = columns;
  struct use *uses = realloc(r->uses, capacity * sizeof *uses);
  if (uses != NULL)
    r->uses = uses;
  if (columns == NULL || uses == NULL)
    return ERR_NO_MEMORY;
  r->capacity = capacity;
  return ERR_OK;
}

static struct use use_of(const struct contract *c, const char *text, size_t n) {
  struct use use = {NO_FEATURE, NO_CLASS, c == NULL, -INFINITY, INFINITY, NULL};
  for (size_t i = 0; c != NULL && i < c->n_features && use.feature == NO_FEATURE; i++)
    if (csv_text_is(text, n, c->features[i].name)) {
      use = (struct use){.feature = (int32_t)i, .class = NO_CLASS, .is_number = true};
      contract_feature_range(c, i, &use.lo, &use.hi);
      use.named = c->features[i].n_categories > 0 ? &c->features[i] : NULL;
    }
  for (size_t i = 0; c != NULL && contract_has_class_columns(c) && i < c->n_classes; i++)
    if (csv_text_is(text, n, c->classes[i].text))
      use = (struct use){.feature = NO_FEATURE, .class = (int32_t)i, .is_number = true, .hi = 1};
  return use;
}

static enum err header_field(struct reading *r, const char *text, size_t n) {
  struct profile *p = r->p;
  const struct contract *c = r->options->contract;
  if (p->n_columns == MAX_CSV_COLUMNS)
    return data_fault(csv_at_field(&r->scan), ERR_LIMIT, "the header has more than %d columns", MAX_CSV_COLUMNS);
  if (p->n_columns == r->capacity && columns_grow(r) != ERR_OK)
    return no_memory(csv_at_field(&r->scan));
  struct column_profile *column = &p->columns[p->n_columns];
  *column = (struct column_profile){.name_is_cut = n >= MAX_NAME_BYTES};
  memcpy(column->name, text, n < MAX_NAME_BYTES ? n : MAX_NAME_BYTES - 1);
  p->has_repeated_column = p->has_repeated_column || profile_column(p, column->name) != NULL;
  r->uses[p->n_columns] = use_of(c, text, n);
  if (c != NULL && c->holdout_by[0] != '\0' && csv_text_is(text, n, c->holdout_by))
    p->group = p->n_columns;
  p->n_columns++;
  return ERR_OK;
}

/* By name, else by number from 1; SIZE_MAX: neither, or none is named. */
static size_t label_column(const struct profile *p, const char *label) {
  if (label[0] == '\0')
    return SIZE_MAX;
  const struct column_profile *named = profile_column(p, label);
  double number;
  if (named != NULL)
    return (size_t)(named - p->columns);
  if (number_read(label, strlen(label), &number) != ERR_OK || number != floor(number) || number < 1 ||
      number > (double)p->n_columns)
    return SIZE_MAX;
  return (size_t)number - 1;
}

static enum err header_end(struct reading *r) {
  struct profile *p = r->p;
  const struct contract *c = r->options->contract;
  const char *label = c != NULL ? c->label : r->options->label;
  p->label = label == NULL ? p->n_columns - 1 : label_column(p, label);
  if (c != NULL && p->label != SIZE_MAX)
    r->uses[p->label].is_number = task_type(c->task)->answer == ANSWER_NUMBER;
  r->has_all_features = c != NULL;
  for (size_t i = 0; c != NULL && i < c->n_features; i++)
    r->has_all_features = r->has_all_features && profile_column(p, c->features[i].name) != NULL;
  r->fields = calloc(p->n_columns, sizeof *r->fields);
  r->texts = c == NULL ? calloc(p->n_columns, sizeof *r->texts) : NULL;
  return r->fields == NULL || (c == NULL && r->texts == NULL) ? ERR_NO_MEMORY : ERR_OK;
}

static void keep_category(struct reading *r, size_t i, const char *text, size_t n) {
  struct field *field = &r->fields[i];
  bool is_missing = csv_is_missing(text, n);
  size_t category = feature_category(r->uses[i].named, text, n, is_missing);
  field->what = category != SIZE_MAX ? FIELD_CATEGORY : is_missing ? FIELD_MISSING : FIELD_UNKNOWN;
  field->value = (double)category;
  char *unknown = r->p->columns[i].unknown_text;
  if (field->what == FIELD_UNKNOWN && unknown[0] == '\0')
    snprintf(unknown, MAX_NAME_BYTES, "%.*s", (int)(n < MAX_NAME_BYTES ? n : MAX_NAME_BYTES), text);
}

/* For categories to be proposed; one that is too long for a name is none. */
static void keep_text(struct reading *r, size_t i, const char *text, size_t n) {
  struct column_profile *column = &r->p->columns[i];
  column->is_varied = column->is_varied || n >= MAX_NAME_BYTES;
  r->texts[i][0] = '\0';
  if (!column->is_varied && !csv_is_missing(text, n)) {
    memcpy(r->texts[i], text, n);
    r->texts[i][n] = '\0';
  }
}

static enum err add_text(struct reading *r, size_t i) {
  struct column_profile *column = &r->p->columns[i];
  const char *text = r->texts[i];
  size_t at = 0;
  while (at < column->n_categories && strcmp(column->categories[at].name, text) != 0)
    at++;
  column->is_varied = column->is_varied || (text[0] != '\0' && at == MAX_PROFILE_CATEGORIES);
  if (column->is_varied) {
    free(column->categories);
    column->categories = NULL;
    column->n_categories = 0;
  }
  if (column->is_varied || text[0] == '\0')
    return ERR_OK;
  if (column->categories == NULL)
    column->categories = calloc(MAX_PROFILE_CATEGORIES, sizeof *column->categories);
  if (column->categories == NULL)
    return ERR_NO_MEMORY;
  if (at == column->n_categories)
    memcpy(column->categories[column->n_categories++].name, text, MAX_NAME_BYTES);
  sighting_add(&column->categories[at].seen, r->scan.row_line);
  return ERR_OK;
}

/* A field stays aside until its row is known to be whole. */
static void keep_number(struct field *field, const char *text, size_t n) {
  if (csv_is_missing(text, n))
    field->what = FIELD_MISSING;
  else if (number_read(text, n, &field->value) != ERR_OK || !isfinite((float)field->value))
    field->what = FIELD_NO_NUMBER;
  else
    field->what = FIELD_NUMBER;
}

static void keep_label(struct reading *r, const char *text, size_t n) {
  r->n_label = n;
  memcpy(r->label, text, n);
}

static enum err row_field(struct reading *r, const char *text, size_t n) {
  size_t i = r->scan.field;
  if (i >= r->p->n_columns)
    return ERR_OK; /* told at the row's end */
  if (r->uses[i].named != NULL)
    keep_category(r, i, text, n);
  else if (r->uses[i].is_number)
    keep_number(&r->fields[i], text, n);
  if (r->texts != NULL)
    keep_text(r, i, text, n);
  if (i == r->p->label)
    keep_label(r, text, n);
  return ERR_OK;
}

static bool is_allowed(const struct use *use, double value) {
  return value >= use->lo && value <= use->hi && (use->class == NO_CLASS || value == floor(value));
}

/* The inputs that a field makes; false: it makes none. */
static bool set_inputs(struct reading *r, const struct use *use, const struct field *field) {
  const struct contract *c = r->options->contract;
  if (use->feature == NO_FEATURE)
    return field->what == FIELD_NUMBER;
  const struct feature *f = &c->features[use->feature];
  float *inputs = r->inputs + f->input;
  if (field->what == FIELD_MISSING && f->n_categories == 0)
    return contract_fill(c, (size_t)use->feature, inputs);
  if (field->what == FIELD_CATEGORY) {
    memset(inputs, 0, f->n_categories * sizeof *inputs);
    inputs[(size_t)field->value] = 1;
  } else {
    inputs[0] = (float)field->value;
  }
  return field->what == FIELD_CATEGORY || field->what == FIELD_NUMBER;
}

static void add_field(struct reading *r, size_t i) {
  struct column_profile *column = &r->p->columns[i];
  const struct use *use = &r->uses[i];
  const struct field *field = &r->fields[i];
  bool is_outside = field->what == FIELD_NUMBER && !is_allowed(use, field->value);
  if (field->what == FIELD_MISSING)
    sighting_add(&column->missing, r->scan.row_line);
  if (field->what == FIELD_NO_NUMBER)
    sighting_add(&column->not_numbers, r->scan.row_line);
  if (field->what == FIELD_UNKNOWN)
    sighting_add(&column->unknown, r->scan.row_line);
  if (is_outside)
    sighting_add(&column->outside, r->scan.row_line);
  if (field->what == FIELD_NUMBER)
    column_add(column, field->value);
  r->is_whole = set_inputs(r, use, field) && r->is_whole && !is_outside;
}

static enum err add_class(struct reading *r, const char *name, size_t n) {
  if (n < MAX_NAME_BYTES)
    return class_add(r, name, n, r->scan.row_line);
  sighting_add(&r->p->label_too_long, r->scan.row_line);
  return ERR_OK;
}

static enum err add_set(struct reading *r) {
  enum err e = ERR_OK;
  struct csv_name name;
  for (size_t at = 0; e == ERR_OK && csv_next_name(r->label, r->n_label, &at, &name);)
    e = add_class(r, name.text, name.n);
  return e;
}

static enum err add_marks(struct reading *r) {
  enum err e = ERR_OK;
  for (size_t i = 0; e == ERR_OK && i < r->p->n_columns; i++)
    if (r->uses[i].class != NO_CLASS && r->fields[i].what == FIELD_NUMBER && r->fields[i].value > 0)
      e = add_class(r, r->p->columns[i].name, strlen(r->p->columns[i].name));
  return e;
}

/* What the row says of classes. Without a contract every label is taken for one. */
static enum err add_label(struct reading *r) {
  struct profile *p = r->p;
  const struct contract *c = r->options->contract;
  enum answer_kind answer = c == NULL ? ANSWER_CLASS : task_type(c->task)->answer;
  bool is_missing = r->n_label == 0 || (c == NULL && csv_is_missing(r->label, r->n_label));
  if (c != NULL && contract_has_class_columns(c))
    return add_marks(r);
  if (p->label == SIZE_MAX || answer == ANSWER_NUMBER)
    return ERR_OK;
  if (answer == ANSWER_SET)
    return add_set(r);
  if (answer == ANSWER_INPUTS && csv_is_missing(r->label, r->n_label))
    return ERR_OK;
  if (!is_missing)
    return add_class(r, r->label, r->n_label);
  sighting_add(&p->label_missing, r->scan.row_line);
  return ERR_OK;
}

static enum err row_end(struct reading *r) {
  struct profile *p = r->p;
  const struct contract *c = r->options->contract;
  if (r->scan.field != p->n_columns) {
    sighting_add(&p->ragged, r->scan.row_line);
    return ERR_OK;
  }
  p->n_samples++;
  r->is_whole = r->has_all_features;
  enum err e = ERR_OK;
  for (size_t i = 0; i < p->n_columns; i++)
    if (r->uses[i].is_number)
      add_field(r, i);
  for (size_t i = 0; e == ERR_OK && r->texts != NULL && i < p->n_columns; i++)
    e = add_text(r, i);
  if (e == ERR_OK)
    e = add_label(r);
  return e != ERR_OK || !r->is_whole ? e : remember(r, &(struct sample){.floats = r->inputs}, contract_n_inputs(c));
}

static enum err on_field(void *context, const char *text, size_t n) {
  struct reading *r = context;
  enum err e = r->scan.in_header ? header_field(r, text, n) : row_field(r, text, n);
  return e == ERR_NO_MEMORY ? no_memory(r->scan.why) : e;
}

static enum err on_row(void *context) {
  struct reading *r = context;
  enum err e = r->scan.in_header ? header_end(r) : row_end(r);
  return e == ERR_NO_MEMORY ? no_memory(r->scan.why) : e;
}

static enum err read_table(struct reading *r, const char *path, struct data_place *why) {
  const struct contract *c = r->options->contract;
  const struct csv_visitor visitor = {on_field, on_row, r};
  if (c != NULL && contract_is_image(c))
    return data_fault(why, ERR_RANGE,
                      "it is read as a table, the job file has an image; name the labels of IDX images too");
  r->inputs = calloc(c != NULL ? contract_n_inputs(c) : 1, sizeof *r->inputs);
  return r->inputs == NULL ? no_memory(why) : csv_scan_file(&r->scan, path, &visitor, why);
}

/* ---- images ---- */

/* Values of images, counted: 256 sums are exact and quick where Welford's updating would divide by every pixel. */
struct histogram {
  uint64_t n[UINT8_MAX + 1];
};

static void histogram_end(const struct histogram *h, double lo, double step, struct column_profile *out) {
  double sum = 0;
  for (size_t v = 0; v <= UINT8_MAX; v++) {
    if (h->n[v] == 0)
      continue;
    double value = lo + step * (double)v;
    out->min = out->n == 0 ? value : out->min;
    out->max = value;
    out->n += h->n[v];
    sum += (double)h->n[v] * value;
  }
  out->mean = sum / (double)out->n;
  for (size_t v = 0; v <= UINT8_MAX; v++) {
    double away = lo + step * (double)v - out->mean;
    out->m2 += (double)h->n[v] * away * away;
  }
}

static enum err read_pair(struct reading *r, struct idx_file *images, struct idx_file *labels, uint8_t *pixels,
                          struct histogram *h, struct data_place *why) {
  uint32_t n = idx_shape(images)->size[0];
  size_t n_bytes = idx_item_bytes(images);
  enum err e = ERR_OK;
  for (uint32_t i = 0; e == ERR_OK && i < n; i++) {
    uint8_t label;
    char name[8];
    if ((e = idx_next(labels, &label, why)) != ERR_OK || (e = idx_next(images, pixels, why)) != ERR_OK)
      return e;
    int n_name = snprintf(name, sizeof name, "%u", label);
    for (size_t k = 0; k < n_bytes; k++)
      h->n[pixels[k]]++;
    e = class_add(r, name, (size_t)n_name, 0);
    if (e == ERR_OK && r->p->samples != NULL)
      e = remember(r, &(struct sample){.bytes = pixels}, n_bytes);
    r->p->n_samples++;
  }
  if (e != ERR_OK)
    return no_memory(idx_place(images, why));
  e = idx_end(images, why);
  return e == ERR_OK ? idx_end(labels, why) : e;
}

static enum err check_pair(const struct idx_file *images, const struct idx_file *labels, struct data_place *why) {
  const struct idx_shape *of_images = idx_shape(images), *of_labels = idx_shape(labels);
  if (of_images->rank < 3 || of_labels->rank != 1)
    return data_fault(idx_place(images, why), ERR_RANGE,
                      "images have 3 or 4 dimensions and labels 1, here are %" PRIu32 " and %" PRIu32
                      "; are images and labels swapped?",
                      of_images->rank, of_labels->rank);
  if (of_images->size[0] != of_labels->size[0])
    return data_fault(idx_place(labels, why), ERR_RANGE,
                      "it has %" PRIu32 " labels for %" PRIu32 " images; name files that belong together",
                      of_labels->size[0], of_images->size[0]);
  return ERR_OK;
}

static enum err read_images(struct reading *r, const struct data_file *file, struct data_place *why) {
  const struct contract *c = r->options->contract;
  struct profile *p = r->p;
  struct idx_file *images = NULL, *labels = NULL;
  struct histogram *h = calloc(1, sizeof *h);
  uint8_t *pixels = NULL;
  uint32_t extents[3];
  double lo = 0, hi = UINT8_MAX;
  enum err e = ERR_OK;
  if (c != NULL && !contract_is_image(c)) {
    e = data_fault(why, ERR_RANGE, "these are IDX images, the job file has columns; name a CSV file without labels");
    goto out;
  }
  if ((e = idx_open(file->path, &images, why)) != ERR_OK || (e = idx_open(file->labels, &labels, why)) != ERR_OK ||
      (e = check_pair(images, labels, why)) != ERR_OK)
    goto out;
  pixels = malloc(idx_item_bytes(images));
  p->columns = calloc(1, sizeof *p->columns);
  if (h == NULL || pixels == NULL || p->columns == NULL) {
    e = no_memory(idx_place(images, why));
    goto out;
  }
  p->is_image = p->is_bytes = p->has_numbered_labels = true;
  idx_item_extents(idx_shape(images), c != NULL && c->height == 1, extents);
  p->height = extents[0];
  p->width = extents[1];
  p->channels = extents[2];
  e = read_pair(r, images, labels, pixels, h, why);
  if (e != ERR_OK)
    goto out;
  if (c != NULL)
    contract_range(c, &lo, &hi);
  p->n_columns = 1;
  snprintf(p->columns->name, sizeof p->columns->name, "pixel");
  histogram_end(h, lo, (hi - lo) / UINT8_MAX, p->columns);
out:
  free(h);
  free(pixels);
  idx_close(images);
  idx_close(labels);
  return e;
}

/* ---- arrays ---- */

/* What a value of an array may be, and where its figures go. */
struct bounds {
  struct column_profile *column;
  double lo, hi;
};

/* One more value; false: it is none that a sample can have. */
static bool bounds_add(const struct bounds *b, double value) {
  if (isnan(value))
    sighting_add(&b->column->missing, 0);
  else if (!isfinite(value))
    sighting_add(&b->column->not_numbers, 0);
  else
    column_add(b->column, value);
  bool is_outside = isfinite(value) && (value < b->lo || value > b->hi);
  if (is_outside)
    sighting_add(&b->column->outside, 0);
  return isfinite(value) && !is_outside;
}

/* Height, width and channels: the contract's, or what the shape suggests. */
static enum err size_images(struct profile *p, const struct array_pair *pair, const struct contract *c,
                            struct data_place *why) {
  const struct array *a = array_pair_shape(pair);
  const uint64_t *size = a->size;
  bool is_series = a->rank == 3 && !p->is_bytes;
  if (c == NULL && a->rank > 4)
    return data_fault(array_pair_place(pair, why), ERR_UNSUPPORTED,
                      "it has %" PRIu32 " dimensions, images have 3 or 4; reshape it", a->rank);
  if (c == NULL && a->rank == 4 && size[1] <= 4 && size[3] > 4)
    return data_fault(array_pair_place(pair, why), ERR_RANGE,
                      "its channels seem to come first; save x.transpose(0, 2, 3, 1), channels last");
  p->height = c != NULL ? c->height : is_series ? 1 : (uint32_t)size[1]; /* each ≤ MAX_FEATURES */
  p->width = c != NULL ? c->width : (uint32_t)size[is_series ? 1 : 2];
  p->channels = c != NULL ? c->channels : is_series ? (uint32_t)size[2] : a->rank == 4 ? (uint32_t)size[3] : 1;
  return ERR_OK;
}

static bool has_sets(const struct contract *c) {
  return c != NULL && task_type(c->task)->answer == ANSWER_SET;
}

/* Columns: all pixels together or one for each input, then the label's, or one for each class. */
static enum err make_columns(struct profile *p, const struct array_pair *pair, const struct contract *c,
                             struct bounds **out_bounds, struct data_place *why) {
  size_t n = p->is_image ? 1 : array_pair_inputs(pair), n_labels = array_pair_n_labels(pair);
  if (n + n_labels > MAX_CSV_COLUMNS)
    return data_fault(array_pair_place(pair, why), ERR_LIMIT, "it has %zu columns, at most %d are read", n,
                      MAX_CSV_COLUMNS - 1);
  p->columns = calloc(n + n_labels, sizeof *p->columns);
  struct bounds *bounds = calloc(n + n_labels, sizeof *bounds);
  *out_bounds = bounds;
  if (p->columns == NULL || bounds == NULL)
    return no_memory(array_pair_place(pair, why));
  for (size_t i = 0; i < n + n_labels; i++) {
    char *name = p->columns[i].name;
    bounds[i] = (struct bounds){&p->columns[i], -INFINITY, INFINITY};
    if (i >= n && has_sets(c))
      snprintf(name, MAX_NAME_BYTES, "%s", c->classes[i - n].text);
    else if (i == n)
      snprintf(name, MAX_NAME_BYTES, "%s", c != NULL && c->label[0] != '\0' ? c->label : "y");
    else if (p->is_image)
      snprintf(name, MAX_NAME_BYTES, "pixel");
    else if (c == NULL)
      snprintf(name, MAX_NAME_BYTES, "x%zu", i);
    else
      snprintf(name, MAX_NAME_BYTES, "%s", c->features[i].name);
    if (c != NULL && i < n && p->is_image)
      contract_range(c, &bounds[i].lo, &bounds[i].hi);
    else if (c != NULL && i < n)
      contract_feature_range(c, i, &bounds[i].lo, &bounds[i].hi);
  }
  p->n_columns = n + n_labels;
  p->label = n;
  return ERR_OK;
}

/* Values that are no marks are what the range of 0 and 1 leaves out. */
static enum err add_array_set(struct reading *r, const double *labels, const struct bounds *of_labels) {
  const struct contract *c = r->options->contract;
  enum err e = ERR_OK;
  for (size_t k = 0; e == ERR_OK && k < c->n_classes; k++) {
    const char *name = c->classes[k].text;
    if (bounds_add(&of_labels[k], labels[k]) && labels[k] != 0 && labels[k] != 1)
      sighting_add(&of_labels[k].column->outside, 0);
    else if (labels[k] == 1)
      e = class_add(r, name, strlen(name), 0);
  }
  return e;
}

static enum err add_array_label(struct reading *r, const double *labels, const struct bounds *of_label) {
  const struct contract *c = r->options->contract;
  const double label = labels[0];
  char name[NUMBER_TEXT_BYTES];
  if (has_sets(c))
    return add_array_set(r, labels, of_label);
  if (c == NULL || task_type(c->task)->answer == ANSWER_NUMBER)
    (void)bounds_add(of_label, label);
  if (!isfinite(label) || (c != NULL && c->n_classes == 0))
    return ERR_OK;
  number_write(label, name);
  return class_add(r, name, strlen(name), 0);
}

static enum err add_array_sample(struct reading *r, const struct array_sample *s, size_t n_inputs,
                                 const struct bounds *bounds, struct histogram *h) {
  struct profile *p = r->p;
  bool is_whole = true;
  p->n_samples++;
  for (size_t k = 0; s->bytes != NULL && k < n_inputs; k++)
    h->n[s->bytes[k]]++;
  for (size_t k = 0; s->floats != NULL && k < n_inputs; k++)
    is_whole = bounds_add(&bounds[p->is_image ? 0 : k], (double)s->floats[k]) && is_whole;
  enum err e = add_array_label(r, s->labels, &bounds[p->label]);
  if (e == ERR_OK && is_whole && p->samples != NULL)
    e = remember(r, &(struct sample){.bytes = s->bytes, .floats = s->floats}, n_inputs);
  return e;
}

static enum err read_pair_of_arrays(struct reading *r, struct array_pair *pair, const struct bounds *bounds,
                                    struct data_place *why) {
  struct profile *p = r->p;
  struct histogram h = {0};
  struct array_sample s;
  for (uint32_t i = 0; i < array_pair_samples(pair); i++) {
    enum err e = array_pair_next(pair, &s, why);
    if (e != ERR_OK)
      return e;
    if (add_array_sample(r, &s, array_pair_inputs(pair), bounds, &h) != ERR_OK)
      return no_memory(array_pair_place(pair, why));
  }
  double lo = 0, hi = UINT8_MAX;
  if (r->options->contract != NULL)
    contract_range(r->options->contract, &lo, &hi);
  if (p->is_bytes)
    histogram_end(&h, lo, (hi - lo) / UINT8_MAX, p->columns);
  return array_pair_end(pair, why);
}

static enum err read_arrays(struct reading *r, const struct data_file *file, struct data_place *why) {
  const struct contract *c = r->options->contract;
  struct profile *p = r->p;
  struct array_pair *pair = NULL;
  struct bounds *bounds = NULL;
  enum err e = array_pair_open(file, c, ARRAYS_BOTH, &pair, why);
  if (e != ERR_OK)
    return e;
  const struct array *inputs = array_pair_shape(pair);
  p->is_image = c != NULL ? contract_is_image(c) : inputs->rank > 2;
  p->is_bytes = p->is_image && inputs->type == ARRAY_U8;
  p->has_numbered_labels = !has_sets(c);
  p->has_float_labels = array_type_is_float(array_pair_labels(pair)->type);
  if (p->is_image)
    e = size_images(p, pair, c, why);
  if (e == ERR_OK)
    e = make_columns(p, pair, c, &bounds, why);
  if (e == ERR_OK)
    e = read_pair_of_arrays(r, pair, bounds, why);
  free(bounds);
  array_pair_close(pair);
  return e;
}

/* ---- all ---- */

static enum err read_file(struct reading *r, const struct data_file *file, struct data_place *why) {
  switch (data_format_of(file)) {
  case DATA_CSV:
    return read_table(r, file->path, why);
  case DATA_IDX:
    return read_images(r, file, why);
  case DATA_ARRAYS:
    return read_arrays(r, file, why);
  }
  return ERR_UNSUPPORTED;
}

enum err profile_read(const struct data_file *file, const struct profile_options *options, struct profile **out_profile,
                      struct data_place *why) {
  enum err e = data_place_init(why, file->path);
  if (e != ERR_OK)
    return e;
  struct profile *p = calloc(1, sizeof *p);
  struct reading *r = calloc(1, sizeof *r);
  if (p == NULL || r == NULL) {
    e = no_memory(why);
    goto out;
  }
  p->label = p->group = SIZE_MAX;
  r->options = options;
  r->p = p;
  if (options->contract != NULL && sample_set_new(MAX_PROFILE_SAMPLES, &p->samples) != ERR_OK)
    e = no_memory(why);
  if (e == ERR_OK)
    e = read_file(r, file, why);
  if (e == ERR_OK) {
    *out_profile = p;
    p = NULL;
  }
out:
  if (r != NULL) {
    free(r->uses);
    free(r->fields);
    free(r->texts);
    free(r->inputs);
  }
  free(r);
  profile_free(p);
  return e;
}
