#include "models/data/sample.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "models/data/array_pair.h"
#include "models/formats/csv_reader.h"
#include "models/formats/idx.h"

static enum err check_contract(const struct data_file *file, const struct contract *c, struct data_place *why) {
  enum err e = data_place_init(why, file->path);
  enum answer_kind answer = task_type(c->task)->answer;
  if (e != ERR_OK || (contract_is_image(c) && (answer == ANSWER_CLASS || answer == ANSWER_INPUTS)))
    return e;
  return data_fault(why, ERR_RANGE, "IDX files are images with classes; give the job file an image and `classes`");
}

static enum err check_images(const struct idx_file *images, const struct contract *c, struct data_place *why) {
  const struct idx_shape *s = idx_shape(images);
  uint32_t own[3];
  if (s->rank < 3)
    return data_fault(idx_place(images, why), ERR_RANGE,
                      "it has %" PRIu32 " dimensions, images have 3 or 4; are images and labels swapped?", s->rank);
  idx_item_extents(s, c->height == 1, own);
  if (own[0] != c->height || own[1] != c->width || own[2] != c->channels)
    return data_fault(idx_place(images, why), ERR_RANGE,
                      "its images are %" PRIu32 " x %" PRIu32 " x %" PRIu32 ", the contract's %" PRIu32 " x %" PRIu32
                      " x %" PRIu32 "; correct the job file",
                      own[0], own[1], own[2], c->height, c->width, c->channels);
  return ERR_OK;
}

static enum err check_labels(const struct idx_file *labels, struct data_place *why) {
  uint32_t rank = idx_shape(labels)->rank;
  if (rank == 1)
    return ERR_OK;
  return data_fault(idx_place(labels, why), ERR_RANGE,
                    "it has %" PRIu32 " dimensions, labels have 1; are images and labels swapped?", rank);
}

static enum err next_label(struct idx_file *labels, const struct contract *c, uint16_t *out_label,
                           struct data_place *why) {
  uint64_t offset = idx_offset(labels);
  uint8_t label;
  enum err e = idx_next(labels, &label, why);
  if (e != ERR_OK)
    return e;
  if (c->n_classes == 0) { /* to reconstruct; nobody says what is normal */
    *out_label = NO_LABEL;
    return ERR_OK;
  }
  if (label >= c->n_classes)
    return data_fault(idx_place(labels, why), ERR_RANGE,
                      "label %u at byte %" PRIu64
                      " is outside the contract's %zu classes; correct the file or `classes`",
                      label, offset, c->n_classes);
  *out_label = label;
  return ERR_OK;
}

enum err sample_put(const struct sample_sink *sink, size_t n, const struct sample *sample) {
  enum { SAMPLES_A_LOOK = 64 };
  enum err e = ERR_OK;
  if (sink->hook != NULL && n % SAMPLES_A_LOOK == 0)
    e = sink->hook->between_batches(sink->hook->context, n, 0);
  return e == ERR_OK ? sink->put(sink->context, sample) : e;
}

static enum err put(const struct sample_sink *sink, size_t n, const struct sample *sample, const struct idx_file *file,
                    struct data_place *why) {
  enum err e = sample_put(sink, n, sample);
  return e == ERR_OK ? e : data_fault(idx_place(file, why), e, "%s", err_sentence(e));
}

static enum err read_idx_labels(const struct data_file *file, const struct contract *c, const struct sample_sink *sink,
                                struct data_place *why) {
  struct idx_file *labels = NULL;
  struct sample sample = {0};
  enum err e = check_contract(file, c, why);
  if (e == ERR_OK)
    e = idx_open(file->labels, &labels, why);
  if (e == ERR_OK)
    e = check_labels(labels, why);
  uint32_t n = e == ERR_OK ? idx_shape(labels)->size[0] : 0;
  for (uint32_t i = 0; e == ERR_OK && i < n; i++) {
    e = next_label(labels, c, &sample.label, why);
    if (e == ERR_OK)
      e = put(sink, i, &sample, labels, why);
  }
  if (e == ERR_OK)
    e = idx_end(labels, why);
  idx_close(labels);
  return e;
}

static enum err open_images(const char *path, const struct contract *c, struct idx_file **out_images,
                            struct data_place *why) {
  enum err e = idx_open(path, out_images, why);
  return e == ERR_OK ? check_images(*out_images, c, why) : e;
}

static enum err open_pair(const struct data_file *file, const struct contract *c, struct idx_file **out_images,
                          struct idx_file **out_labels, struct data_place *why) {
  enum err e = check_contract(file, c, why);
  if (e == ERR_OK)
    e = open_images(file->path, c, out_images, why);
  if (e == ERR_OK)
    e = idx_open(file->labels, out_labels, why);
  if (e == ERR_OK)
    e = check_labels(*out_labels, why);
  if (e != ERR_OK)
    return e;
  uint32_t n_images = idx_shape(*out_images)->size[0], n_labels = idx_shape(*out_labels)->size[0];
  if (n_images != n_labels)
    return data_fault(idx_place(*out_labels, why), ERR_CORRUPT,
                      "it has %" PRIu32 " labels for %" PRIu32 " images; name files that belong together", n_labels,
                      n_images);
  return ERR_OK;
}

static enum err read_idx(const struct data_file *file, const struct contract *c, const struct sample_sink *sink,
                         struct data_place *why) {
  struct idx_file *images = NULL, *labels = NULL;
  uint8_t *pixels = NULL;
  struct sample sample = {0};
  enum err e = open_pair(file, c, &images, &labels, why);
  if (e != ERR_OK)
    goto out;
  pixels = malloc(idx_item_bytes(images));
  if (pixels == NULL) {
    e = data_fault(idx_place(images, why), ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
    goto out;
  }
  sample.bytes = pixels;
  for (uint32_t i = 0; e == ERR_OK && i < idx_shape(images)->size[0]; i++) {
    e = next_label(labels, c, &sample.label, why);
    if (e == ERR_OK)
      e = idx_next(images, pixels, why);
    if (e == ERR_OK)
      e = put(sink, i, &sample, images, why);
  }
  if (e == ERR_OK)
    e = idx_end(images, why);
  if (e == ERR_OK)
    e = idx_end(labels, why);
out:
  free(pixels);
  idx_close(images);
  idx_close(labels);
  return e;
}

static enum err read_images(const char *path, const struct contract *c, const struct sample_sink *sink,
                            struct data_place *why) {
  struct idx_file *images = NULL;
  enum err e = data_place_init(why, path);
  if (e == ERR_OK && !contract_is_image(c))
    return data_fault(why, ERR_RANGE, "IDX files are images, and the job file has `features`; name a table");
  if (e == ERR_OK)
    e = open_images(path, c, &images, why);
  uint8_t *pixels = e == ERR_OK ? malloc(idx_item_bytes(images)) : NULL;
  if (e == ERR_OK && pixels == NULL)
    e = data_fault(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  const struct sample sample = {.bytes = pixels, .label = NO_LABEL};
  for (uint32_t i = 0; e == ERR_OK && i < idx_shape(images)->size[0]; i++) {
    e = idx_next(images, pixels, why);
    if (e == ERR_OK)
      e = put(sink, i, &sample, images, why);
  }
  if (e == ERR_OK)
    e = idx_end(images, why);
  free(pixels);
  idx_close(images);
  return e;
}

/* ---- arrays ---- */

/* Value k of sample i as people know it: `sample 12, "temp_C"` or `sample 12, value 7`. */
static void value_name(const struct contract *c, uint32_t i, size_t k, char out_text[MAX_NAME_BYTES + 32]) {
  if (contract_is_image(c))
    snprintf(out_text, MAX_NAME_BYTES + 32, "sample %" PRIu32 ", value %zu", i, k);
  else
    snprintf(out_text, MAX_NAME_BYTES + 32, "sample %" PRIu32 ", \"%s\"", i, c->features[k].name);
}

static enum err check_value(const struct array_pair *p, const struct contract *c, uint32_t i, size_t k, double value,
                            double lo, double hi, struct data_place *why) {
  char name[MAX_NAME_BYTES + 32];
  if (value >= lo && value <= hi && isfinite(value))
    return ERR_OK;
  value_name(c, i, k, name);
  if (!isfinite(value))
    return data_fault(array_pair_place(p, why), ERR_RANGE, "%s is %s; fill it in or leave the sample out", name,
                      isnan(value) ? "not a number (NaN)" : "infinite");
  return data_fault(array_pair_place(p, why), ERR_RANGE, "%s is %g, the contract allows %g to %g; check its unit", name,
                    value, lo, hi);
}

/* Copies the values of a sample; NaN is a missing one, which a column's policy may fill. */
static enum err take_floats(const struct array_pair *p, const struct contract *c, uint32_t i, const float *values,
                            float *out_values, struct data_place *why) {
  double lo, hi;
  enum err e = ERR_OK;
  contract_range(c, &lo, &hi);
  for (size_t k = 0; e == ERR_OK && k < array_pair_inputs(p); k++) {
    out_values[k] = values[k];
    if (!contract_is_image(c) && isnan(values[k]) && contract_fill(c, k, &out_values[k]))
      continue;
    if (!contract_is_image(c))
      contract_feature_range(c, k, &lo, &hi);
    e = check_value(p, c, i, k, (double)values[k], lo, hi, why);
  }
  return e;
}

/* A sample, and room for its targets. */
struct taken {
  struct sample sample;
  float *targets; /* [labels of a sample] */
};

static enum err take_number(const struct array_pair *p, const struct contract *c, uint32_t i, const double *labels,
                            struct taken *t, struct data_place *why) {
  (void)c;
  t->targets[0] = (float)labels[0];
  t->sample.targets = t->targets;
  return isfinite(t->targets[0]) ? ERR_OK
                                 : data_fault(array_pair_labels_place(p, why), ERR_RANGE,
                                              "the target of sample %" PRIu32 " is no finite number; leave it out", i);
}

static enum err take_class(const struct array_pair *p, const struct contract *c, uint32_t i, const double *labels,
                           struct taken *t, struct data_place *why) {
  const double label = labels[0];
  if (label < 0 || label >= (double)c->n_classes)
    return data_fault(array_pair_labels_place(p, why), ERR_RANGE,
                      "the label of sample %" PRIu32
                      " is %.17g, the contract has %zu classes, counted from 0; correct the array or `classes`",
                      i, label, c->n_classes);
  t->sample.label = (uint16_t)label;
  return ERR_OK;
}

static enum err take_set(const struct array_pair *p, const struct contract *c, uint32_t i, const double *labels,
                         struct taken *t, struct data_place *why) {
  for (size_t k = 0; k < c->n_classes; k++) {
    if (labels[k] != 0 && labels[k] != 1)
      return data_fault(array_pair_labels_place(p, why), ERR_RANGE,
                        "class \"%s\" of sample %" PRIu32 " is %.17g; write 1 where it applies and 0 where it does not",
                        c->classes[k].text, i, labels[k]);
    t->targets[k] = (float)labels[k];
  }
  t->sample.targets = t->targets;
  return ERR_OK;
}

static enum err take_state(const struct array_pair *p, const struct contract *c, uint32_t i, const double *labels,
                           struct taken *t, struct data_place *why) {
  t->sample.label = NO_LABEL;
  return c->n_classes == 0 ? ERR_OK : take_class(p, c, i, labels, t, why);
}

static enum err take_label(const struct array_pair *p, const struct contract *c, uint32_t i, const double *labels,
                           struct taken *t, struct data_place *why) {
  static enum err (*const takers[])(const struct array_pair *, const struct contract *, uint32_t, const double *,
                                    struct taken *, struct data_place *) = {[ANSWER_CLASS] = take_class,
                                                                            [ANSWER_NUMBER] = take_number,
                                                                            [ANSWER_SET] = take_set,
                                                                            [ANSWER_INPUTS] = take_state};
  return takers[task_type(c->task)->answer](p, c, i, labels, t, why);
}

static enum err read_arrays(const struct data_file *file, const struct contract *c, const struct sample_sink *sink,
                            enum array_parts parts, struct data_place *why) {
  struct array_pair *p = NULL;
  struct array_sample a;
  enum err e = data_place_init(why, file->path);
  if (e == ERR_OK && c->holdout_by[0] != '\0')
    e = data_fault(why, ERR_RANGE, "arrays have no column \"%s\", which holdout_by names; take it out of the job file",
                   c->holdout_by);
  if (e == ERR_OK)
    e = array_pair_open(file, c, parts, &p, why);
  size_t n_inputs = e == ERR_OK ? array_pair_inputs(p) : 0, n_labels = e == ERR_OK ? array_pair_n_labels(p) : 0;
  float *values = e == ERR_OK ? malloc((n_inputs + n_labels) * sizeof *values) : NULL;
  if (e == ERR_OK && values == NULL)
    e = data_fault(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  for (uint32_t i = 0; e == ERR_OK && values != NULL && i < array_pair_samples(p); i++) {
    struct taken s = {.targets = values + n_inputs};
    e = array_pair_next(p, &a, why);
    if (e == ERR_OK)
      e = parts == ARRAYS_INPUTS ? ERR_OK : take_label(p, c, i, a.labels, &s, why);
    if (e == ERR_OK && a.floats != NULL)
      e = take_floats(p, c, i, a.floats, values, why);
    if (e != ERR_OK)
      break;
    s.sample.bytes = a.bytes;
    s.sample.floats = a.floats != NULL ? values : NULL;
    if ((e = sample_put(sink, i, &s.sample)) != ERR_OK)
      e = data_fault(array_pair_place(p, why), e, "%s", err_sentence(e));
  }
  if (e == ERR_OK)
    e = array_pair_end(p, why);
  free(values);
  array_pair_close(p);
  return e;
}

enum err sample_read(const struct data_file *file, const struct contract *contract, const struct sample_sink *sink,
                     size_t *out_n_ignored_columns, struct data_place *why) {
  enum data_format format = data_format_of(file);
  if (format == DATA_CSV)
    return csv_read(file->path, contract, sink, out_n_ignored_columns, why);
  enum err e =
      format == DATA_IDX ? read_idx(file, contract, sink, why) : read_arrays(file, contract, sink, ARRAYS_BOTH, why);
  if (e == ERR_OK)
    *out_n_ignored_columns = 0;
  return e;
}

enum err sample_read_labels(const struct data_file *file, const struct contract *contract,
                            const struct sample_sink *sink, struct data_place *why) {
  size_t n_ignored;
  switch (data_format_of(file)) {
  case DATA_CSV:
    return csv_read(file->path, contract, sink, &n_ignored, why);
  case DATA_IDX:
    return read_idx_labels(file, contract, sink, why);
  case DATA_ARRAYS:
    return read_arrays(file, contract, sink, ARRAYS_LABELS, why);
  }
  return ERR_UNSUPPORTED;
}

/* IDX begins with two zeros, or as gzip. */
static enum err inputs_format(const char *path, enum data_format *out_format, struct data_place *why) {
  uint8_t head[2] = {'-', '-'};
  int fd;
  uint64_t n_bytes;
  *out_format = data_format_of(&(const struct data_file){path, NULL});
  if (*out_format != DATA_CSV)
    return ERR_OK;
  enum err e = data_open(path, why, &fd, &n_bytes);
  if (e != ERR_OK)
    return e;
  bool is_read = read(fd, head, sizeof head) == (ssize_t)sizeof head;
  close(fd);
  if (is_read && ((head[0] == 0 && head[1] == 0) || (head[0] == 0x1f && head[1] == 0x8b)))
    *out_format = DATA_IDX;
  return ERR_OK;
}

enum err sample_read_inputs(const char *path, const struct contract *contract, const struct sample_sink *sink,
                            size_t *out_n_ignored_columns, struct data_place *why) {
  enum data_format format;
  struct contract inputs = *contract; /* of which nothing but the inputs is asked */
  inputs.task = TASK_RECONSTRUCT;
  inputs.n_classes = 0;
  inputs.label[0] = inputs.holdout_by[0] = '\0';
  enum err e = inputs_format(path, &format, why);
  if (e != ERR_OK)
    return e;
  if (format == DATA_CSV)
    return csv_read(path, &inputs, sink, out_n_ignored_columns, why);
  *out_n_ignored_columns = 0;
  if (format == DATA_IDX)
    return read_images(path, &inputs, sink, why);
  return read_arrays(&(const struct data_file){path, NULL}, &inputs, sink, ARRAYS_INPUTS, why);
}
