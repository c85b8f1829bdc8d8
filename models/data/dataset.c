#include "models/data/dataset.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/must.h"
#include "models/data/read_ahead.h"
#include "models/data/sample.h"
#include "models/data/scratch.h"
#include "models/kernels/standardise.h"

void dataset_close(struct dataset *d) {
  if (d == NULL)
    return;
  free(d->bytes);
  free(d->floats);
  read_ahead_free(d->ahead);
  scratch_close(d->scratch);
  free(d->labels);
  free(d->targets);
  scale_done(&d->scale);
  free(d->shift);
  free(d->gain);
  free(d->class_counts);
  free(d);
}

void splits_close(struct splits *s) {
  dataset_close(s->train);
  dataset_close(s->validation);
  dataset_close(s->test);
  *s = (struct splits){0};
}

static enum err no_memory(struct data_place *why) {
  return data_fault(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
}

/* ---- a table that grows ---- */

struct table {
  struct dataset *d;
  bool has_labels;
  struct data_memory *memory; /* NULL: no cap */
};

static bool has_labels(const struct contract *c) {
  enum answer_kind answer = task_type(c->task)->answer;
  return answer == ANSWER_CLASS || (answer == ANSWER_INPUTS && c->n_classes > 0);
}

static size_t targets_of(const struct contract *c) {
  enum answer_kind answer = task_type(c->task)->answer;
  return answer == ANSWER_NUMBER ? 1 : answer == ANSWER_SET ? c->n_classes : 0;
}

static enum err table_init(struct table *t, const struct contract *c, struct data_memory *memory,
                           struct data_place *why) {
  struct dataset *d = calloc(1, sizeof *d);
  if (d == NULL)
    return no_memory(why);
  *t = (struct table){.d = d, .memory = memory};
  d->task = c->task;
  d->n_inputs = contract_n_inputs(c);
  d->n_classes = c->n_classes;
  d->n_targets = targets_of(c);
  t->has_labels = has_labels(c);
  d->class_counts = calloc(c->n_classes + 1, sizeof *d->class_counts);
  d->shift = calloc(d->n_inputs, sizeof *d->shift);
  d->gain = calloc(d->n_inputs, sizeof *d->gain);
  return d->class_counts != NULL && d->shift != NULL && d->gain != NULL ? ERR_OK : no_memory(why);
}

_Static_assert((uint64_t)2 * MAX_SAMPLES * MAX_FEATURES <= SIZE_MAX / sizeof(float), "no size of a table wraps");
_Static_assert(MAX_CLASSES <= MAX_FEATURES, "nor of its targets");

/* n × row bytes of *array anew; nothing for rows without bytes. */
static enum err rows_resize(void **array, size_t n, size_t row_bytes) {
  if (row_bytes == 0)
    return ERR_OK;
  void *grown = realloc(*array, n * row_bytes);
  if (grown == NULL)
    return ERR_NO_MEMORY;
  *array = grown;
  return ERR_OK;
}

static size_t row_bytes(const struct dataset *d) {
  return d->n_inputs * (d->has_bytes ? sizeof *d->bytes : sizeof *d->floats);
}

/* Bytes of a sample in memory: its label, its targets, its place in the order of training, and its inputs. */
static size_t sample_bytes(const struct dataset *d, bool has_labels, bool is_on_disk) {
  return (has_labels ? sizeof *d->labels : 0) + d->n_targets * sizeof *d->targets + sizeof(uint32_t) +
         (is_on_disk ? 0 : row_bytes(d));
}

static size_t table_sample_bytes(const struct table *t) {
  return sample_bytes(t->d, t->has_labels, t->d->scratch != NULL);
}

/* n ≤ 2 · MAX_SAMPLES and n_inputs ≤ MAX_FEATURES. */
static enum err table_resize(struct table *t, size_t n) {
  struct dataset *d = t->d;
  void *bytes = d->bytes, *floats = d->floats, *labels = d->labels, *targets = d->targets;
  enum err e = ERR_OK;
  if (d->scratch == NULL)
    e = rows_resize(d->has_bytes ? &bytes : &floats, n, row_bytes(d));
  if (e == ERR_OK)
    e = rows_resize(&labels, n, t->has_labels ? sizeof *d->labels : 0);
  if (e == ERR_OK)
    e = rows_resize(&targets, n, d->n_targets * sizeof *d->targets);
  d->bytes = bytes;
  d->floats = floats;
  d->labels = labels;
  d->targets = targets;
  if (e != ERR_OK)
    return e;
  if (t->memory != NULL)
    t->memory->used_bytes = t->memory->used_bytes - d->capacity * table_sample_bytes(t) + n * table_sample_bytes(t);
  d->capacity = n;
  return ERR_OK;
}

static enum err disk_put(struct data_memory *m, struct dataset *d, const void *row) {
  if (m->disk_max_bytes < m->disk_bytes || m->disk_max_bytes - m->disk_bytes < row_bytes(d))
    return m->fault = ERR_NO_SPACE;
  m->disk_bytes += row_bytes(d);
  return m->fault = scratch_put(d->scratch, row);
}

/* Of the cap, for what is read ahead once anything is on disk. */
enum { KEPT_SHARE = 4 };

/* From now on the inputs are on disk, those so far too. */
static enum err spill(struct data_memory *m, struct dataset *d) {
  const uint8_t *rows = d->has_bytes ? d->bytes : (const uint8_t *)d->floats;
  enum err e = scratch_open(m->folder, row_bytes(d), &d->scratch);
  for (size_t i = 0; e == ERR_OK && i < d->n; i++)
    e = disk_put(m, d, rows + i * row_bytes(d));
  if (e == ERR_OK)
    e = scratch_end(d->scratch);
  m->fault = e;
  free(d->bytes);
  free(d->floats);
  d->bytes = NULL;
  d->floats = NULL;
  m->kept_bytes = m->max_bytes / KEPT_SHARE;
  m->used_bytes = m->used_bytes - d->capacity * row_bytes(d) + scratch_buffer_bytes(row_bytes(d));
  return e;
}

/* Makes the set smaller that takes the most; none where all are smaller than a buffer. */
static enum err spill_largest(struct data_memory *m) {
  struct dataset *largest = NULL;
  for (size_t i = 0; i < m->n_sets; i++) {
    struct dataset *d = m->sets[i];
    bool is_worth_it = d->scratch == NULL && d->capacity * row_bytes(d) > scratch_buffer_bytes(row_bytes(d));
    if (is_worth_it && (largest == NULL || d->capacity > largest->capacity))
      largest = d;
  }
  return largest == NULL ? (m->fault = ERR_NO_SPACE) : spill(m, largest);
}

/* How many samples more the cap leaves room for. */
static size_t room_left(const struct table *t) {
  const struct data_memory *m = t->memory;
  uint64_t taken = m == NULL ? 0 : m->used_bytes + m->kept_bytes;
  uint64_t left = m == NULL ? SIZE_MAX : m->max_bytes > taken ? m->max_bytes - taken : 0;
  return (size_t)(left / table_sample_bytes(t));
}

/* Where no set is left to go to disk, samples come before what is read ahead. */
static enum err make_room(struct data_memory *m) {
  enum err e = spill_largest(m);
  if (e != ERR_NO_SPACE || m->kept_bytes == 0)
    return e;
  m->kept_bytes = 0;
  return m->fault = ERR_OK;
}

static enum err table_grow(struct table *t) {
  size_t wanted = t->d->n == 0 ? 64 : t->d->n, more;
  while ((more = room_left(t)) == 0) {
    enum err e = make_room(t->memory);
    if (e != ERR_OK)
      return e;
  }
  return table_resize(t, t->d->capacity + (more < wanted ? more : wanted));
}

static void count_classes(struct dataset *d, const struct sample *sample) {
  if (d->labels != NULL && sample->label < d->n_classes)
    d->class_counts[sample->label]++;
  for (size_t c = 0; d->targets != NULL && c < d->n_classes; c++)
    d->class_counts[c] += sample->targets[c] > 0;
}

static void table_begin(struct table *t, const struct sample *first) {
  t->d->has_bytes = first->floats == NULL;
  if (t->memory == NULL)
    return;
  MUST(t->memory->n_sets < MAX_DATA_SETS);
  t->memory->sets[t->memory->n_sets++] = t->d;
}

static enum err table_put(struct table *t, const struct sample *sample) {
  struct dataset *d = t->d;
  if (d->capacity == 0)
    table_begin(t, sample);
  enum err e = d->n == d->capacity ? table_grow(t) : ERR_OK;
  if (e == ERR_OK && d->scratch != NULL)
    e = disk_put(t->memory, d, d->has_bytes ? sample->bytes : (const void *)sample->floats);
  if (e != ERR_OK)
    return e;
  if (d->floats != NULL)
    memcpy(d->floats + d->n * d->n_inputs, sample->floats, row_bytes(d));
  if (d->bytes != NULL)
    memcpy(d->bytes + d->n * d->n_inputs, sample->bytes, row_bytes(d));
  if (d->labels != NULL)
    d->labels[d->n] = sample->label;
  if (d->targets != NULL)
    memcpy(d->targets + d->n * d->n_targets, sample->targets, d->n_targets * sizeof *d->targets);
  count_classes(d, sample);
  d->n++;
  return ERR_OK;
}

/* What kept samples from going to disk; other errors have their sentence already. */
static enum err disk_fault(const struct data_memory *m, enum err e, struct data_place *why) {
  const uint64_t mib = 1 << 20;
  if (e == ERR_OK || m == NULL || m->fault == ERR_OK)
    return e;
  if (m->fault == ERR_NO_SPACE)
    return data_fault(why, m->fault,
                      "its samples need more than %" PRIu64 " MiB of memory (data.memory_max_mib) and the %" PRIu64
                      " MiB that are free on disk; raise the one or make room there",
                      m->max_bytes / mib, m->disk_max_bytes / mib);
  return data_fault(why, m->fault, "its samples do not fit into memory, and cannot be kept in %.100s: %s", m->folder,
                    err_sentence(m->fault));
}

/* Gives the spare room back and the table away; NULL when nothing is in it. */
static enum err table_take(struct table *t, struct dataset **out_dataset, struct data_place *why) {
  if (t->d->scratch != NULL && (t->memory->fault = scratch_end(t->d->scratch)) != ERR_OK)
    return disk_fault(t->memory, t->memory->fault, why);
  if (t->d->n == 0) {
    dataset_close(t->d);
    t->d = NULL;
  } else if (table_resize(t, t->d->n) != ERR_OK) {
    return no_memory(why);
  }
  *out_dataset = t->d;
  t->d = NULL;
  return ERR_OK;
}

/* ---- which samples are this agent's ---- */

struct parts {
  uint16_t *of; /* [n] the part of each sample of the file; first its label */
  size_t n, capacity;
  bool by_class; /* else all are of one */
};

static enum err parts_put_label(void *context, const struct sample *sample) {
  struct parts *p = context;
  if (p->n == p->capacity) {
    size_t capacity = p->n == 0 ? 1024 : 2 * p->n;
    uint16_t *grown = realloc(p->of, capacity * sizeof *grown);
    if (grown == NULL)
      return ERR_NO_MEMORY;
    p->of = grown;
    p->capacity = capacity;
  }
  p->of[p->n++] = p->by_class ? sample->label : 0;
  return ERR_OK;
}

static enum err parts_find(struct parts *p, const struct data_source *source, const struct contract *c,
                           struct data_place *why) {
  const struct sample_sink sink = {parts_put_label, p, source->hook};
  p->by_class = task_type(c->task)->answer == ANSWER_CLASS;
  enum err e = sample_read_labels(&source->train, c, &sink, why);
  if (e != ERR_OK)
    return e;
  uint16_t *labels = p->of;
  p->of = malloc(p->n * sizeof *p->of);
  if (p->of == NULL)
    e = no_memory(why);
  else
    e = split_assign(&c->split, labels, p->n, p->by_class ? c->n_classes : 1, p->of);
  free(labels);
  if (e == ERR_RANGE)
    return data_fault(why, e, "%zu samples cannot be split into %" PRIu32 " parts by %s; ask for fewer parts", p->n,
                      c->split.n_parts, split_rule_name(c->split.rule));
  return e == ERR_OK ? e : data_fault(why, e, "%s", err_sentence(e));
}

static enum err check_part(const struct data_source *source, const struct contract *c, struct data_place *why) {
  bool split = c->split.rule != SPLIT_NONE;
  if (!split && source->part != 0)
    return data_fault(why, ERR_RANGE, "part %" PRIu32 " is asked for, but the job file has no `split`", source->part);
  if (split && (source->part < 1 || source->part > c->split.n_parts))
    return data_fault(why, ERR_RANGE, "part is %" PRIu32 ", it must be 1 to %" PRIu32 "; set `part` in the site file",
                      source->part, c->split.n_parts);
  return ERR_OK;
}

/* ---- which split a sample is in ---- */

struct intake {
  const struct digest_fn *fn;
  double test_below, validation_from; /* places */
  struct parts parts;                 /* n = 0: all samples */
  uint32_t part;
  size_t n_seen;
  struct table train, validation, test;
};

static void add_group(const struct digest_fn *fn, struct digest_state *state, const struct sample *sample) {
  static const char domain[] = "starling/v1/holdout-by"; /* with its NUL, as below */
  fn->add(state, domain, sizeof domain);
  fn->add(state, sample->group, sample->n_group);
}

static void add_inputs(const struct digest_fn *fn, struct digest_state *state, const struct sample *sample,
                       size_t n_inputs) {
  static const char domain[] = "starling/v1/holdout";
  fn->add(state, domain, sizeof domain);
  if (sample->bytes != NULL)
    fn->add(state, sample->bytes, n_inputs);
  for (size_t i = 0; sample->floats != NULL && i < n_inputs; i++) {
    uint8_t bytes[sizeof(float)];
    struct writer w;
    writer_init(&w, bytes, sizeof bytes);
    writer_f32(&w, sample->floats[i]);
    fn->add(state, bytes, sizeof bytes);
  }
}

/* Uniform in [0, 1): the hash's first 53 bits. */
static double sample_place(const struct digest_fn *fn, const struct sample *sample, size_t n_inputs) {
  struct digest_state state;
  struct digest hash;
  fn->init(&state);
  if (sample->group != NULL)
    add_group(fn, &state, sample);
  else
    add_inputs(fn, &state, sample, n_inputs);
  fn->end(&state, &hash);
  struct cursor c;
  cursor_init(&c, hash.bytes, sizeof hash.bytes);
  return (double)(cursor_u64(&c) >> 11) * 0x1p-53;
}

static struct table *split_of(struct intake *in, const struct sample *sample) {
  if (in->test_below <= 0 && in->validation_from >= 1)
    return &in->train;
  double place = sample_place(in->fn, sample, in->train.d->n_inputs);
  return place < in->test_below ? &in->test : place >= in->validation_from ? &in->validation : &in->train;
}

/* Not to be learnt from: only what is normal is to be given back. */
static bool is_anomaly(const struct dataset *d, const struct sample *sample) {
  return d->task == TASK_RECONSTRUCT && sample->label != 0 && sample->label != NO_LABEL;
}

static enum err intake_put(void *context, const struct sample *sample) {
  struct intake *in = context;
  size_t i = in->n_seen++;
  if (in->parts.n > 0 && i >= in->parts.n)
    return ERR_BUSY; /* the file grew between the two readings */
  if (in->parts.n > 0 && in->parts.of[i] != in->part)
    return ERR_OK;
  struct table *t = split_of(in, sample);
  if (t == &in->train && is_anomaly(t->d, sample)) {
    t->d->n_anomalies++;
    return ERR_OK;
  }
  return table_put(t, sample);
}

static enum err intake_read(struct intake *in, const struct data_source *source, const struct contract *c,
                            struct data_place *why) {
  const struct sample_sink sink = {intake_put, in, source->hook};
  enum err e = check_part(source, c, why);
  if (e == ERR_OK && source->part > 0)
    e = parts_find(&in->parts, source, c, why);
  if (e == ERR_OK)
    e = sample_read(&source->train, c, &sink, &in->train.d->n_ignored_columns, why);
  if (e != ERR_OK)
    return disk_fault(source->memory, e, why);
  if (in->parts.n > 0 && in->n_seen != in->parts.n)
    return data_fault(why, ERR_BUSY, "it changed while it was read; try again");
  if (in->train.d->n == 0 && in->train.d->n_anomalies > 0)
    return data_fault(why, ERR_RANGE, "no sample of class \"%s\" is left to train on; it must be the normal one",
                      c->classes[0].text);
  if (in->train.d->n == 0)
    return data_fault(why, ERR_RANGE, "no sample is left to train on; bring more, or lower holdout and validation");
  return ERR_OK;
}

/* ---- scaling ---- */

/* Stored value v means raw value lo + v · step. */
struct raw {
  double lo, step;
};

static struct raw raw_of(const struct dataset *d, const struct contract *c) {
  double lo, hi;
  contract_range(c, &lo, &hi);
  return dataset_has_bytes(d) ? (struct raw){lo, (hi - lo) / UINT8_MAX} : (struct raw){0, 1};
}

static void scale_input(struct dataset *d, const struct scale *scale, struct raw raw, size_t input, size_t pair) {
  double mean = scale->n == 0 ? 0 : scale->mean[scale->n == 1 ? 0 : pair];
  double sd = scale->n == 0 ? 1 : scale->sd[scale->n == 1 ? 0 : pair];
  d->shift[input] = (mean - raw.lo) / raw.step;
  d->gain[input] = raw.step / sd;
}

/* x' = (lo + v·step − mean) / sd = (v − (mean − lo) / step) · (step / sd); categories as they are. */
static enum err scale_apply(struct dataset *d, const struct contract *c, const struct scale *scale,
                            struct data_place *why) {
  if (scale->n > 1 && scale->n != contract_n_scaled(c))
    return data_fault(why, ERR_RANGE, "the saved scaling has %zu pairs for %zu inputs", scale->n, contract_n_scaled(c));
  if (scale_copy(scale, &d->scale) != ERR_OK)
    return no_memory(why);
  struct raw raw = raw_of(d, c);
  for (size_t i = 0; contract_is_image(c) && i < d->n_inputs; i++)
    scale_input(d, scale, raw, i, i);
  for (size_t i = 0; i < c->n_features; i++) {
    const struct feature *f = &c->features[i];
    for (size_t k = 0; k < f->n_categories; k++) {
      d->shift[f->input + k] = 0;
      d->gain[f->input + k] = 1;
    }
    if (f->n_categories == 0)
      scale_input(d, scale, raw, f->input, f->pair);
  }
  return ERR_OK;
}

/* Adds rows of stored values: one quantity for all of an image, else one for each number. */
static void measure_image(const struct dataset *d, struct raw raw, const void *rows, size_t n,
                          struct scale_stats *stats) {
  for (size_t i = 0; i < n * d->n_inputs; i++) {
    stats->x[0] = raw.lo + raw.step * (dataset_has_bytes(d) ? (double)((const uint8_t *)rows)[i]
                                                            : (double)((const float *)rows)[i]);
    scale_stats_add(stats);
  }
}

static void measure_columns(const struct contract *c, const float *rows, size_t n, struct scale_stats *stats) {
  size_t n_inputs = contract_n_inputs(c);
  for (size_t i = 0; i < n; i++, rows += n_inputs) {
    for (size_t k = 0; k < c->n_features; k++)
      if (c->features[k].n_categories == 0)
        stats->x[c->features[k].pair] = (double)rows[c->features[k].input];
    scale_stats_add(stats);
  }
}

enum err dataset_measure(const struct dataset *d, const struct contract *c, struct scale_stats *out_stats) {
  struct scale_stats stats;
  const void *rows;
  enum err e = scale_stats_init(&stats, contract_n_measured(c));
  if (e != ERR_OK)
    return e;
  for (size_t at = 0, n; e == ERR_OK && at < d->n; at += n)
    if ((e = dataset_rows(d, at, &rows, &n)) != ERR_OK)
      break;
    else if (contract_is_image(c))
      measure_image(d, raw_of(d, c), rows, n, &stats);
    else
      measure_columns(c, rows, n, &stats);
  if (e != ERR_OK) {
    scale_stats_done(&stats);
    return e;
  }
  *out_stats = stats;
  return ERR_OK;
}

enum err dataset_rescale(struct dataset *d, const struct contract *contract, const struct scale *scale) {
  struct data_place unused = {0};
  if (scale->n > 1 && scale->n != contract_n_scaled(contract))
    return ERR_RANGE;
  scale_done(&d->scale);
  return scale_apply(d, contract, scale, &unused);
}

static enum err scale_measure(const struct dataset *d, const struct contract *c, struct scale *out_scale) {
  struct scale_stats stats;
  enum err e = dataset_measure(d, c, &stats);
  if (e != ERR_OK)
    return e;
  e = scale_stats_end(&stats, SCALE_LOCAL, out_scale);
  scale_stats_done(&stats);
  return e;
}

static enum err scale_train(struct dataset *train, const struct contract *c, const struct scale *saved,
                            struct data_place *why) {
  if (scale_is_measured(c->scale.rule) && saved != NULL)
    return scale_apply(train, c, saved, why);
  if (c->scale.rule != SCALE_LOCAL)
    return scale_apply(train, c, &c->scale, why);
  struct scale measured = {0};
  enum err e = scale_measure(train, c, &measured);
  if (e != ERR_OK)
    return data_fault(why, e, "%s", err_sentence(e));
  e = scale_apply(train, c, &measured, why);
  scale_done(&measured);
  return e;
}

/* ---- opening ---- */

static enum err table_put_all(void *context, const struct sample *sample) {
  return table_put(context, sample);
}

enum err dataset_open_test(const struct data_file *file, const struct contract *contract, const struct scale *scale,
                           const struct work_hook *hook, struct data_memory *memory, struct dataset **out_test,
                           struct data_place *out_why) {
  struct table t = {0};
  const struct sample_sink sink = {table_put_all, &t, hook};
  struct dataset *d = NULL;
  enum err e = data_place_init(out_why, file->path);
  if (e == ERR_OK)
    e = table_init(&t, contract, memory, out_why);
  if (e == ERR_OK)
    e = disk_fault(memory, sample_read(file, contract, &sink, &t.d->n_ignored_columns, out_why), out_why);
  if (e == ERR_OK)
    e = table_take(&t, &d, out_why);
  if (e == ERR_OK) {
    MUST(d != NULL); /* a file that was read has a sample */
    e = scale_apply(d, contract, scale, out_why);
  }
  if (e == ERR_OK) {
    *out_test = d;
    d = NULL;
  }
  dataset_close(t.d);
  dataset_close(d);
  return e;
}

/* What was read of the training file, standardised alike. */
static enum err splits_take(struct intake *in, const struct contract *c, const struct scale *saved,
                            struct splits *out_splits, struct data_place *why) {
  enum err e = table_take(&in->train, &out_splits->train, why);
  if (e == ERR_OK)
    e = table_take(&in->validation, &out_splits->validation, why);
  if (e == ERR_OK)
    e = table_take(&in->test, &out_splits->test, why);
  if (e == ERR_OK) {
    MUST(out_splits->train != NULL); /* intake_read refuses a file that leaves none */
    e = scale_train(out_splits->train, c, saved, why);
  }
  enum { N_OTHERS = 2 };
  struct dataset *const others[N_OTHERS] = {out_splits->validation, out_splits->test};
  for (size_t i = 0; i < N_OTHERS; i++)
    if (e == ERR_OK && others[i] != NULL)
      e = scale_apply(others[i], c, &out_splits->train->scale, why);
  return e;
}

enum err dataset_open(const struct data_source *source, const struct contract *contract, const struct digest_fn *fn,
                      struct splits *out_splits, struct data_place *out_why) {
  struct intake in = {.fn = fn,
                      .part = source->part,
                      .test_below = source->test.path == NULL ? contract->holdout : 0,
                      .validation_from = 1 - contract->validation};
  enum { N_TABLES = 3 };
  struct table *const tables[N_TABLES] = {&in.train, &in.validation, &in.test};
  struct splits splits = {0};
  enum err e = data_place_init(out_why, source->train.path);
  for (size_t i = 0; e == ERR_OK && i < N_TABLES; i++)
    e = table_init(tables[i], contract, source->memory, out_why);
  if (e == ERR_OK)
    e = intake_read(&in, source, contract, out_why);
  if (e == ERR_OK)
    e = splits_take(&in, contract, source->saved, &splits, out_why);
  if (e == ERR_OK && source->test.path != NULL)
    e = dataset_open_test(&source->test, contract, &splits.train->scale, source->hook, source->memory, &splits.test,
                          out_why);
  if (e == ERR_OK) {
    *out_splits = splits;
    splits = (struct splits){0};
  }
  splits_close(&splits);
  for (size_t i = 0; i < N_TABLES; i++)
    dataset_close(tables[i]->d);
  free(in.parts.of);
  return e;
}

/* ---- batches ---- */

bool dataset_has_bytes(const struct dataset *d) {
  return d->scratch != NULL ? d->has_bytes : d->bytes != NULL;
}

enum err dataset_rows(const struct dataset *d, size_t first, const void **out_rows, size_t *out_n) {
  if (d->scratch != NULL)
    return scratch_read(d->scratch, first, d->n - first, out_rows, out_n);
  *out_rows = d->bytes != NULL ? d->bytes + first * d->n_inputs : (const void *)(d->floats + first * d->n_inputs);
  *out_n = d->n - first;
  return ERR_OK;
}

/* How many of the samples stand one behind the other. */
static size_t run_of(const uint32_t *index, size_t n) {
  size_t run = 1;
  while (run < n && index[run] == index[0] + run)
    run++;
  return run;
}

void dataset_expect(const struct dataset *d, const uint32_t *index, size_t n) {
  for (size_t s = 0, run; d->scratch != NULL && s < n; s += run) {
    run = run_of(index + s, n - s);
    scratch_expect(d->scratch, index[s], run);
  }
}

enum err dataset_read_ahead(struct dataset *d, struct data_memory *m) {
  if (d->scratch == NULL)
    return ERR_OK;
  MUST(d->ahead == NULL);
  size_t per_row = read_ahead_row_bytes(row_bytes(d));
  uint64_t left = m->max_bytes > m->used_bytes ? m->max_bytes - m->used_bytes : 0;
  size_t n = left / per_row < d->n ? (size_t)(left / per_row) : d->n;
  m->kept_bytes = 0;
  if (n < 2)
    return ERR_OK;
  enum err e = read_ahead_new(d->scratch, n, &d->ahead);
  if (e == ERR_OK)
    m->used_bytes += n * per_row;
  return e;
}

void dataset_plan(const struct dataset *d, const uint32_t *order, size_t n) {
  if (d->ahead != NULL)
    read_ahead_plan(d->ahead, order, n);
}

static void standardise_floats(const struct dataset *d, const float *row, float *out_x) {
  for (size_t i = 0; i < d->n_inputs; i++)
    out_x[i] = (float)(((double)row[i] - d->shift[i]) * d->gain[i]);
}

/* Rows of the next samples, as they are stored: *out_n, at least one and at most n. */
static enum err next_rows(const struct dataset *d, const uint32_t *index, size_t n, const void **out_rows,
                          size_t *out_n) {
  if (d->ahead != NULL && read_ahead_is_at(d->ahead, index))
    return read_ahead_take(d->ahead, n, out_rows, out_n);
  return scratch_read(d->scratch, index[0], run_of(index, n), out_rows, out_n);
}

static enum err gather_streamed(const struct dataset *d, const struct standardise *kernel, const uint32_t *index,
                                size_t n, float *out_x) {
  for (size_t s = 0, run; s < n; s += run) {
    const void *rows;
    enum err e = next_rows(d, index + s, n - s, &rows, &run);
    if (e != ERR_OK)
      return e;
    for (size_t i = 0; i < run; i++, out_x += d->n_inputs)
      if (d->has_bytes)
        kernel->bytes((const uint8_t *)rows + i * d->n_inputs, d->n_inputs, d->shift, d->gain, out_x);
      else
        standardise_floats(d, (const float *)rows + i * d->n_inputs, out_x);
  }
  return ERR_OK;
}

/* Samples lie anywhere, so each is asked for while those before it are standardised. Always inline: gcc takes a function
 * that only prefetches for one without effect. */
enum { PREFETCHED = 4, LINE_BYTES = 64 };

__attribute__((always_inline)) static inline void prefetch_sample(const struct dataset *d, size_t sample) {
  size_t n_bytes = d->n_inputs * (d->bytes != NULL ? sizeof *d->bytes : sizeof *d->floats);
  const char *all = d->bytes != NULL ? (const char *)d->bytes : (const char *)d->floats;
  for (size_t i = 0; i < n_bytes; i += LINE_BYTES)
    __builtin_prefetch(all + sample * n_bytes + i);
}

enum err dataset_gather(const struct dataset *d, const uint32_t *index, size_t n, float *out_x) {
  const struct cpu cpu = cpu_detect();
  const struct standardise *kernel = standardise_fastest(&cpu);
  if (d->scratch != NULL)
    return gather_streamed(d, kernel, index, n, out_x);
  for (size_t s = 0; s < n && s < PREFETCHED; s++)
    prefetch_sample(d, index[s]);
  for (size_t s = 0; s < n; s++, out_x += d->n_inputs) {
    size_t from = index[s] * d->n_inputs;
    if (s + PREFETCHED < n)
      prefetch_sample(d, index[s + PREFETCHED]);
    if (d->bytes != NULL)
      kernel->bytes(d->bytes + from, d->n_inputs, d->shift, d->gain, out_x);
    else
      standardise_floats(d, d->floats + from, out_x);
  }
  return ERR_OK;
}

void dataset_gather_labels(const struct dataset *d, const uint32_t *index, size_t n, uint16_t *out_labels) {
  for (size_t s = 0; s < n; s++)
    out_labels[s] = d->labels[index[s]];
}

void dataset_gather_targets(const struct dataset *d, const uint32_t *index, size_t n, float *out_targets) {
  for (size_t s = 0; s < n; s++)
    memcpy(out_targets + s * d->n_targets, d->targets + index[s] * d->n_targets, d->n_targets * sizeof *out_targets);
}
