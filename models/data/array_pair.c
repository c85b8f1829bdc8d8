#include "models/data/array_pair.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

/* An array that is given out item by item, an item being what one first index has. */
struct items {
  struct npy_file *file;
  struct array array;
  size_t n_values; /* of an item */
  uint64_t at;     /* items given out */
  uint8_t *item;   /* its bytes in C order */
  uint8_t *whole;  /* Fortran order: the bytes of the array … */
  uint64_t *steps; /* … [n_values] and how far each value of an item stands behind its first, in values */
};

struct array_pair {
  struct items inputs, labels;
  bool is_bytes;
  float *floats;   /* [n_values of inputs] */
  double *numbers; /* [n_values of labels] */
};

static void items_close(struct items *it) {
  npy_close(it->file);
  free(it->item);
  free(it->whole);
  free(it->steps);
}

void array_pair_close(struct array_pair *p) {
  if (p == NULL)
    return;
  items_close(&p->inputs);
  items_close(&p->labels);
  free(p->floats);
  free(p->numbers);
  free(p);
}

static enum err no_memory(const struct items *it, struct data_place *why) {
  return data_fault(npy_place(it->file, why), ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
}

/* ---- items ---- */

static bool is_scattered(const struct items *it) {
  return it->array.is_fortran && it->n_values > 1;
}

/* Value k of item i stands at i + size[0] · (i1 + size[1] · (i2 + …)), where (i1, i2 …) are k's indices. */
static void find_steps(struct items *it) {
  const struct array *a = &it->array;
  for (size_t k = 0; k < it->n_values; k++) {
    uint64_t rest = k, step = 0;
    uint64_t index[ARRAY_MAX_RANK] = {0};
    for (uint32_t i = a->rank; i-- > 1; rest /= a->size[i])
      index[i] = rest % a->size[i];
    for (uint32_t i = a->rank; i-- > 1;)
      step = step * a->size[i] + index[i];
    it->steps[k] = step * a->size[0];
  }
}

static enum err items_open(struct items *it, const char *path, const char *otherwise, struct data_place *why) {
  enum err e = npy_open(path, otherwise, &it->file, why);
  if (e != ERR_OK)
    return e;
  it->array = *npy_array(it->file);
  const struct array *a = &it->array;
  if (a->rank == 0 || a->n_values == 0)
    return data_fault(npy_place(it->file, why), ERR_RANGE, "it holds no samples; its first index counts them");
  uint64_t n_values = a->n_values / a->size[0];
  if (a->size[0] > MAX_SAMPLES || n_values > MAX_FEATURES)
    return data_fault(npy_place(it->file, why), ERR_LIMIT,
                      "it has %" PRIu64 " samples of %" PRIu64 " values; at most %d of %d are read", a->size[0],
                      n_values, MAX_SAMPLES, MAX_FEATURES);
  it->n_values = (size_t)n_values;
  it->item = malloc(it->n_values * array_type_bytes(a->type));
  it->steps = is_scattered(it) ? malloc(it->n_values * sizeof *it->steps) : NULL;
  if (it->item == NULL || (is_scattered(it) && it->steps == NULL))
    return no_memory(it, why);
  if (it->steps != NULL)
    find_steps(it);
  return ERR_OK;
}

/* The whole array, in memory that grows with what was read. */
static enum err read_whole(struct items *it, struct data_place *why) {
  enum { AT_ONCE = 1 << 20 };
  uint64_t n = it->array.n_bytes;
  size_t capacity = 0;
  for (uint64_t done = 0; done < n;) {
    size_t now = (size_t)(n - done < AT_ONCE ? n - done : AT_ONCE);
    if (done + now > capacity) {
      capacity = capacity == 0 ? AT_ONCE : 2 * capacity;
      uint8_t *grown = realloc(it->whole, capacity);
      if (grown == NULL)
        return no_memory(it, why);
      it->whole = grown;
    }
    enum err e = npy_read(it->file, it->whole + done, now, why);
    if (e != ERR_OK)
      return e;
    done += now;
  }
  return ERR_OK;
}

static enum err items_next(struct items *it, struct data_place *why) {
  size_t n_bytes = array_type_bytes(it->array.type);
  uint64_t i = it->at++;
  if (!is_scattered(it))
    return npy_read(it->file, it->item, it->n_values * n_bytes, why);
  enum err e = it->whole == NULL ? read_whole(it, why) : ERR_OK;
  if (e != ERR_OK)
    return e;
  MUST(it->whole != NULL && it->steps != NULL);
  for (size_t k = 0; k < it->n_values; k++)
    memcpy(it->item + k * n_bytes, it->whole + (i + it->steps[k]) * n_bytes, n_bytes);
  return ERR_OK;
}

/* ---- do the two fit each other and the contract? ---- */

/* The extents of one sample that are not 1, in order; returns how many. */
static size_t extents(const uint64_t *size, size_t n, uint64_t *out) {
  size_t n_out = 0;
  for (size_t i = 0; i < n; i++)
    if (size[i] != 1)
      out[n_out++] = size[i];
  return n_out;
}

static bool has_extents(const struct array *a, const uint64_t *wanted, size_t n_wanted) {
  uint64_t here[ARRAY_MAX_RANK], there[ARRAY_MAX_RANK];
  size_t n_here = extents(a->size + 1, a->rank - 1, here), n_there = extents(wanted, n_wanted, there);
  return n_here == n_there && memcmp(here, there, n_here * sizeof *here) == 0;
}

static enum err check_image(const struct items *it, const struct contract *c, struct data_place *why) {
  const struct array *a = &it->array;
  const uint64_t own[] = {c->height, c->width, c->channels}, planes[] = {c->channels, c->height, c->width};
  char shape[ARRAY_SHAPE_TEXT_BYTES];
  if (a->rank <= 2 || has_extents(a, own, 3))
    return ERR_OK;
  array_shape_text(a, shape);
  if (has_extents(a, planes, 3))
    return data_fault(npy_place(it->file, why), ERR_RANGE,
                      "its shape %.100s has the channels first; save x.%s, channels last", shape,
                      a->rank == 3 ? "transpose(0, 2, 1)" : "transpose(0, 2, 3, 1)");
  return data_fault(npy_place(it->file, why), ERR_RANGE,
                    "its samples have the shape %.100s, the contract's inputs %" PRIu32 "x%" PRIu32 "x%" PRIu32
                    "; transpose the array or correct the job file",
                    shape, c->height, c->width, c->channels);
}

static enum err check_inputs(const struct items *it, const struct contract *c, struct data_place *why) {
  char shape[ARRAY_SHAPE_TEXT_BYTES];
  array_shape_text(&it->array, shape);
  if (c == NULL)
    return ERR_OK;
  if (it->n_values != contract_n_inputs(c))
    return data_fault(npy_place(it->file, why), ERR_RANGE,
                      "its shape %.100s has %zu values a sample, the contract %zu inputs; correct the job file", shape,
                      it->n_values, contract_n_inputs(c));
  return contract_is_image(c) ? check_image(it, c, why) : ERR_OK;
}

/* A column a class. */
static enum err check_sets(const struct items *it, const struct contract *c, struct data_place *why) {
  return it->n_values == c->n_classes
             ? ERR_OK
             : data_fault(npy_place(it->file, why), ERR_RANGE,
                          "its labels have %zu values each, the contract %zu classes; save a 1 or a 0 for each of them",
                          it->n_values, c->n_classes);
}

static enum err check_labels(const struct items *it, const struct contract *c, struct data_place *why) {
  if (c != NULL && task_type(c->task)->answer == ANSWER_SET)
    return check_sets(it, c, why);
  if (it->n_values != 1 && (c == NULL || c->n_classes > 0))
    return data_fault(npy_place(it->file, why), ERR_RANGE,
                      "its labels have %zu values each, one is wanted; of one-hot labels save y.argmax(1), of several "
                      "classes a sample say `task: multilabel`",
                      it->n_values);
  if (it->n_values != 1)
    return data_fault(npy_place(it->file, why), ERR_RANGE,
                      "it has %zu targets a sample, and a job learns one number; save y[:, 0], and make a job of each",
                      it->n_values);
  if (c != NULL && c->n_classes > 0 && array_type_is_float(it->array.type))
    return data_fault(npy_place(it->file, why), ERR_UNSUPPORTED,
                      "its labels are %s, classes are counted; save y.astype('int64')",
                      array_type_name(it->array.type));
  return ERR_OK;
}

/* ---- the pair ---- */

static enum err open_labels(struct array_pair *p, const struct data_file *file, const struct contract *c,
                            struct data_place *why) {
  char archive[MAX_PATH_BYTES];
  if (file->labels == NULL && !npy_archive_part(file->path, archive))
    return data_fault(why, ERR_RANGE, "its labels are missing; name their file too (train_labels, --labels)");
  enum err e = items_open(&p->labels, file->labels != NULL ? file->labels : archive, "y", why);
  if (e == ERR_OK)
    e = check_labels(&p->labels, c, why);
  if (e != ERR_OK)
    return e;
  p->numbers = malloc(p->labels.n_values * sizeof *p->numbers);
  return p->numbers != NULL ? ERR_OK : no_memory(&p->labels, why);
}

static enum err open_inputs(struct array_pair *p, const struct data_file *file, const struct contract *c,
                            struct data_place *why) {
  enum err e = items_open(&p->inputs, file->path, "x", why);
  if (e == ERR_OK)
    e = check_inputs(&p->inputs, c, why);
  if (e != ERR_OK)
    return e;
  bool is_picture = c != NULL ? contract_is_image(c) : p->inputs.array.rank > 2;
  p->is_bytes = p->inputs.array.type == ARRAY_U8 && is_picture;
  p->floats = p->is_bytes ? NULL : malloc(p->inputs.n_values * sizeof *p->floats);
  return p->is_bytes || p->floats != NULL ? ERR_OK : no_memory(&p->inputs, why);
}

enum err array_pair_open(const struct data_file *file, const struct contract *contract, enum array_parts parts,
                         struct array_pair **out_pair, struct data_place *why) {
  enum err e = data_place_init(why, file->path);
  if (e != ERR_OK)
    return e;
  if (contract != NULL && contract_n_scaled(contract) < contract_n_inputs(contract))
    return data_fault(why, ERR_RANGE, "arrays have numbers only, the contract has categories; save it as CSV");
  struct array_pair *p = calloc(1, sizeof *p);
  if (p == NULL)
    return data_fault(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  if (parts != ARRAYS_LABELS)
    e = open_inputs(p, file, contract, why);
  if (e == ERR_OK && parts != ARRAYS_INPUTS)
    e = open_labels(p, file, contract, why);
  if (e == ERR_OK && parts == ARRAYS_BOTH && p->inputs.array.size[0] != p->labels.array.size[0])
    e = data_fault(npy_place(p->labels.file, why), ERR_RANGE,
                   "it has %" PRIu64 " labels for %" PRIu64 " samples; name arrays that belong together",
                   p->labels.array.size[0], p->inputs.array.size[0]);
  if (e != ERR_OK) {
    array_pair_close(p);
    return e;
  }
  *out_pair = p;
  return ERR_OK;
}

size_t array_pair_n_labels(const struct array_pair *p) {
  return p->labels.n_values;
}

uint32_t array_pair_samples(const struct array_pair *p) {
  return (uint32_t)(p->labels.file != NULL ? &p->labels : &p->inputs)->array.size[0];
}

size_t array_pair_inputs(const struct array_pair *p) {
  return p->inputs.n_values;
}

const struct array *array_pair_shape(const struct array_pair *p) {
  return &p->inputs.array;
}

const struct array *array_pair_labels(const struct array_pair *p) {
  return &p->labels.array;
}

struct data_place *array_pair_place(const struct array_pair *p, struct data_place *why) {
  return npy_place(p->inputs.file != NULL ? p->inputs.file : p->labels.file, why);
}

struct data_place *array_pair_labels_place(const struct array_pair *p, struct data_place *why) {
  return npy_place(p->labels.file, why);
}

static const double *label_values(struct array_pair *p) {
  const size_t n_bytes = array_type_bytes(p->labels.array.type);
  for (size_t k = 0; k < p->labels.n_values; k++)
    p->numbers[k] = array_value(&p->labels.array, p->labels.item + k * n_bytes);
  return p->numbers;
}

enum err array_pair_next(struct array_pair *p, struct array_sample *out_sample, struct data_place *why) {
  struct array_sample s = {0};
  enum err e = p->labels.file != NULL ? items_next(&p->labels, why) : ERR_OK;
  if (e == ERR_OK && p->inputs.file != NULL)
    e = items_next(&p->inputs, why);
  if (e != ERR_OK)
    return e;
  if (p->labels.file != NULL)
    s.labels = label_values(p);
  if (p->is_bytes)
    s.bytes = p->inputs.item;
  else if (p->floats != NULL)
    array_floats(&p->inputs.array, p->inputs.item, p->inputs.n_values, p->floats);
  s.floats = p->floats;
  *out_sample = s;
  return ERR_OK;
}

enum err array_pair_end(struct array_pair *p, struct data_place *why) {
  enum err e = p->inputs.file != NULL ? npy_end(p->inputs.file, why) : ERR_OK;
  return e == ERR_OK && p->labels.file != NULL ? npy_end(p->labels.file, why) : e;
}
