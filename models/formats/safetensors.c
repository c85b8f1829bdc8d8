#include "models/formats/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

static const char metadata[] = "__metadata__";

/* Depth of {"name": {"shape": [1]}}; values of a tensor: its own object, dtype, two lists, ten numbers. */
enum { MAX_DEPTH = 3, MAX_VALUES = 16 * (MAX_STORED_TENSORS + MAX_NOTES) };

__attribute__((format(printf, 3, 4))) static enum err refuse(char *why, enum err e, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(why, MAX_REASON_BYTES, format, args);
  va_end(args);
  return e;
}

static enum err malformed(char *why) {
  return refuse(why, ERR_SYNTAX, "its head is no JSON of tensors; write it by safetensors, or fetch it again");
}

/* Braces and commas outside of texts are counted; whether they match is jansson's to say. */
static enum err judge_text(const char *text, size_t n, char *why) {
  size_t depth = 0, n_values = 0;
  bool in_text = false;
  for (size_t i = 0; i < n; i++) {
    if (in_text && text[i] == '\\')
      i++;
    else if (text[i] == '"')
      in_text = !in_text;
    else if (!in_text && (text[i] == '{' || text[i] == '['))
      depth++, n_values++;
    else if (!in_text && (text[i] == '}' || text[i] == ']') && depth > 0)
      depth--;
    else if (!in_text && text[i] == ',')
      n_values++;
    if (depth > MAX_DEPTH)
      return malformed(why);
    if (n_values > MAX_VALUES)
      return refuse(why, ERR_LIMIT, "its head has more values than %d tensors need", MAX_STORED_TENSORS);
  }
  return ERR_OK;
}

/* A whole number ≥ 0. */
static bool take_size(const json_t *value, uint64_t *out) {
  json_int_t n = json_integer_value(value);
  if (!json_is_integer(value) || n < 0)
    return false;
  *out = (uint64_t)n;
  return true;
}

static enum err take_shape(const char *name, const json_t *shape, struct array *a, char *why) {
  if (!json_is_array(shape))
    return malformed(why);
  if (json_array_size(shape) > ARRAY_MAX_RANK)
    return refuse(why, ERR_UNSUPPORTED, "tensor %.64s has more than %d dimensions", name, ARRAY_MAX_RANK);
  a->rank = (uint32_t)json_array_size(shape);
  for (uint32_t i = 0; i < a->rank; i++)
    if (!take_size(json_array_get(shape, i), &a->size[i]))
      return refuse(why, ERR_SYNTAX, "tensor %.64s has a size that is no whole number", name);
  return array_measure(a) == ERR_OK ? ERR_OK
                                    : refuse(why, ERR_LIMIT, "tensor %.64s has more values than can be counted", name);
}

static enum err take_tensor(const char *name, const json_t *o, uint64_t n_data, struct stored_tensor *t, char *why) {
  const char *dtype = json_string_value(json_object_get(o, "dtype"));
  const json_t *offsets = json_object_get(o, "data_offsets");
  uint64_t begin, end;
  size_t n = strlen(name);
  if (n == 0 || n >= TENSOR_NAME_BYTES)
    return refuse(why, ERR_LIMIT, "a tensor's name is empty or longer than %d bytes", TENSOR_NAME_BYTES - 1);
  memcpy(t->name, name, n + 1);
  if (dtype == NULL || json_object_size(o) != 3 || json_array_size(offsets) != 2)
    return malformed(why);
  if (array_type_find(dtype, &t->array.type) != ERR_OK)
    return refuse(why, ERR_UNSUPPORTED, "tensor %.64s has the type %.16s; save it as F32", name, dtype);
  enum err e = take_shape(name, json_object_get(o, "shape"), &t->array, why);
  if (e != ERR_OK)
    return e;
  if (!take_size(json_array_get(offsets, 0), &begin) || !take_size(json_array_get(offsets, 1), &end) || begin > end)
    return refuse(why, ERR_CORRUPT, "tensor %.64s ends before it begins", name);
  if (end > n_data)
    return refuse(why, ERR_TRUNCATED, "tensor %.64s ends at byte %" PRIu64 " of %" PRIu64 "; fetch the file again",
                  name, end, n_data);
  if (end - begin != t->array.n_bytes)
    return refuse(why, ERR_CORRUPT, "tensor %.64s has %" PRIu64 " bytes, its shape needs %" PRIu64, name, end - begin,
                  t->array.n_bytes);
  t->offset = begin;
  return ERR_OK;
}

static enum err take_notes(const json_t *o, struct safetensors_head *h, char *why) {
  const char *key;
  json_t *value;
  if (!json_is_object(o) || h->notes != NULL)
    return malformed(why);
  if (json_object_size(o) > MAX_NOTES)
    return refuse(why, ERR_LIMIT, "its metadata has more than %d lines", MAX_NOTES);
  h->notes = calloc(json_object_size(o) + 1, sizeof *h->notes);
  if (h->notes == NULL)
    return refuse(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  json_object_foreach((json_t *)(uintptr_t)o, key, value) {
    if (!json_is_string(value))
      return malformed(why);
    struct tensor_note *note = &h->notes[h->n_notes++];
    note->key = strdup(key);
    note->text = strdup(json_string_value(value));
    if (note->key == NULL || note->text == NULL)
      return refuse(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  }
  return ERR_OK;
}

static enum err take_all(const json_t *root, uint64_t n_data, struct safetensors_head *h, char *why) {
  const char *name;
  json_t *value;
  if (!json_is_object(root))
    return malformed(why);
  if (json_object_size(root) > MAX_STORED_TENSORS + 1)
    return refuse(why, ERR_LIMIT, "it has more than %d tensors", MAX_STORED_TENSORS);
  h->tensors = calloc(json_object_size(root) + 1, sizeof *h->tensors);
  if (h->tensors == NULL)
    return refuse(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  json_object_foreach((json_t *)(uintptr_t)root, name, value) {
    bool is_metadata = strcmp(name, metadata) == 0;
    enum err e = is_metadata ? take_notes(value, h, why) : take_tensor(name, value, n_data, &h->tensors[h->n], why);
    if (e != ERR_OK)
      return e;
    h->n += !is_metadata;
  }
  return h->n > 0 ? ERR_OK : refuse(why, ERR_RANGE, "it has no tensors");
}

static int compare_places(const void *a, const void *b) {
  const struct stored_tensor *x = a, *y = b;
  if (x->offset != y->offset)
    return x->offset < y->offset ? -1 : 1;
  return x->array.n_bytes < y->array.n_bytes ? -1 : x->array.n_bytes > y->array.n_bytes;
}

/* From the first byte to the last, each is one tensor's. */
static enum err judge_places(const struct safetensors_head *h, uint64_t n_data, char *why) {
  uint64_t at = 0;
  MUST(h->tensors != NULL);
  qsort(h->tensors, h->n, sizeof *h->tensors, compare_places);
  for (size_t i = 0; i < h->n; i++) {
    const struct stored_tensor *t = &h->tensors[i];
    if (t->offset < at)
      return refuse(why, ERR_CORRUPT, "tensors %.64s and %.64s overlap", h->tensors[i - 1].name, t->name);
    if (t->offset > at)
      return refuse(why, ERR_CORRUPT, "%" PRIu64 " bytes before tensor %.64s belong to none", t->offset - at, t->name);
    at += t->array.n_bytes;
  }
  return at == n_data
             ? ERR_OK
             : refuse(why, ERR_TRAILING, "%" PRIu64 " bytes follow its last tensor; fetch the file again", n_data - at);
}

enum err safetensors_head_read(const char *text, size_t n_bytes, uint64_t n_data, struct safetensors_head *out_head,
                               char why[MAX_REASON_BYTES]) {
  struct safetensors_head h = {0};
  json_error_t unused;
  enum err e = judge_text(text, n_bytes, why);
  if (e != ERR_OK)
    return e;
  json_t *root = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &unused);
  if (root == NULL && json_error_code(&unused) == json_error_duplicate_key)
    return refuse(why, ERR_EXISTS, "a name stands twice in its head; write the file again");
  e = root == NULL ? malformed(why) : take_all(root, n_data, &h, why);
  if (e == ERR_OK)
    e = judge_places(&h, n_data, why);
  json_decref(root);
  if (e != ERR_OK) {
    safetensors_head_done(&h);
    return e;
  }
  *out_head = h;
  return ERR_OK;
}

void safetensors_head_done(struct safetensors_head *h) {
  for (size_t i = 0; i < h->n_notes; i++) {
    free((void *)(uintptr_t)h->notes[i].key);
    free((void *)(uintptr_t)h->notes[i].text);
  }
  free(h->notes);
  free(h->tensors);
  *h = (struct safetensors_head){0};
}

char *safetensors_head_write(const struct tensor_out *tensors, size_t n, const struct tensor_note *notes,
                             size_t n_notes) {
  enum { ALIGNMENT = 8 };
  json_t *root = json_object(), *texts = json_object();
  uint64_t at = 0;
  bool is_whole = root != NULL && texts != NULL;
  for (size_t i = 0; i < n_notes; i++)
    is_whole = json_object_set_new(texts, notes[i].key, json_string(notes[i].text)) == 0 && is_whole;
  is_whole = json_object_set_new(root, metadata, texts) == 0 && is_whole;
  for (size_t i = 0; i < n; i++) {
    struct array a = {.type = ARRAY_F32, .rank = tensors[i].rank};
    json_t *shape = json_array();
    memcpy(a.size, tensors[i].size, sizeof a.size);
    is_whole = array_measure(&a) == ERR_OK && is_whole;
    for (uint32_t k = 0; k < a.rank; k++)
      is_whole = json_array_append_new(shape, json_integer((json_int_t)a.size[k])) == 0 && is_whole;
    json_int_t begin = (json_int_t)at;
    at += a.n_bytes;
    json_t *o =
        json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets", begin, (json_int_t)at);
    is_whole = json_object_set_new(root, tensors[i].name, o) == 0 && is_whole;
  }
  char *text = is_whole ? json_dumps(root, JSON_COMPACT) : NULL, *padded = NULL;
  json_decref(root);
  size_t n_text = text != NULL ? strlen(text) : 0, whole = (n_text + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (text != NULL && (padded = malloc(whole + 1)) != NULL)
    snprintf(padded, whole + 1, "%-*s", (int)whole, text);
  free(text);
  return padded;
}
