#include "agent/run/sketching.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/file.h"
#include "crypto/digest.h"
#include "models/clustering/pretraining.h"
#include "models/clustering/shift.h"

enum { SCHEMA = 2, MAX_FILE_BYTES = 256 << 10, HEX_BYTES = 2 * DIGEST_BYTES + 1 };

enum err sketching_path(const char *state_dir, const char *job, uint32_t version, const char *run_label,
                        char out_path[MAX_PATH_BYTES]) {
  int n = snprintf(out_path, MAX_PATH_BYTES, "%s/sketch-%s@%" PRIu32 "%s%s.json", state_dir, job, version,
                   run_label[0] ? "." : "", run_label);
  return n > 0 && n < MAX_PATH_BYTES ? ERR_OK : ERR_LIMIT;
}

void sketching_done(struct sketching *s) {
  free(s->counts);
  *s = (struct sketching){0};
}

/* ---- what it was found with --------------------------------------------------------------------------------------- */

/* Of labels, or of targets where there are none, in the order of the samples. */
static struct digest labels_digest(const struct dataset *d) {
  struct digest_state state;
  struct digest out;
  digest_blake2b.init(&state);
  if (d->labels)
    digest_blake2b.add(&state, d->labels, d->n * sizeof *d->labels);
  if (d->targets)
    digest_blake2b.add(&state, d->targets, d->n * d->n_targets * sizeof *d->targets);
  digest_blake2b.end(&state, &out);
  return out;
}

/* Numbers of the training that change where the steps lead. */
static void add_training(struct digest_state *state, const struct train_config *t) {
  const struct optimiser_config *o = &t->optimiser;
  const struct class_weights *w = &t->class_weights;
  const double numbers[] = {
      t->batch,          t->learning_rate,   o->kind,        o->momentum,        o->nesterov,
      o->beta1,          o->beta2,           o->epsilon,     o->weight_decay,    o->clip_norm,
      w->rule,           t->label_smoothing, t->huber_delta, t->personal.method, t->personal.head_epochs,
      t->personal.lambda};
  digest_blake2b.add(state, numbers, sizeof numbers);
  if (w->n > 0)
    digest_blake2b.add(state, w->values, w->n * sizeof *w->values);
}

/* Inputs as the model sees them, so that another scale is another digest. */
static enum err add_inputs(struct digest_state *state, const struct dataset *d) {
  size_t n = d->n < PROBES ? d->n : PROBES;
  float *x = calloc(d->n_inputs + 1, sizeof *x);
  enum err e = x ? ERR_OK : ERR_NO_MEMORY;
  for (size_t i = 0; i < n && e == ERR_OK; i++) {
    uint32_t at = (uint32_t)((uint64_t)i * d->n / n);
    e = dataset_gather(d, &at, 1, x);
    digest_blake2b.add(state, x, d->n_inputs * sizeof *x);
  }
  free(x);
  return e;
}

static enum err made_of(const struct learner_config *like, const struct dataset *train, struct digest *out) {
  struct digest_state state;
  digest_blake2b.init(&state);
  add_training(&state, &like->train);
  enum err e = add_inputs(&state, train);
  digest_blake2b.end(&state, out);
  return e;
}

static enum err remember(struct sketching *s, const struct learner_config *like, const struct dataset *train) {
  enum err e = made_of(like, train, &s->made_of);
  if (e != ERR_OK)
    return e;
  uint32_t *counts = calloc(train->n_classes + 1, sizeof *counts);
  if (!counts)
    return ERR_NO_MEMORY;
  if (train->class_counts)
    memcpy(counts, train->class_counts, train->n_classes * sizeof *counts);
  free(s->counts);
  s->counts = counts;
  s->n_classes = train->class_counts ? train->n_classes : 0;
  s->labels = labels_digest(train);
  s->loss = __builtin_nan("");
  return ERR_OK;
}

/* ---- the file ----------------------------------------------------------------------------------------------------- */

static void hex_write(const struct digest *d, char out[HEX_BYTES]) {
  for (size_t i = 0; i < DIGEST_BYTES; i++)
    snprintf(out + 2 * i, 3, "%02x", d->bytes[i]);
}

/* Without room for it nothing is lost: the next start finds it again. */
static void keep(const struct sketching *s) {
  char seed[HEX_BYTES], labels[HEX_BYTES], made_of_hex[HEX_BYTES];
  if (s->path[0] == '\0')
    return;
  json_t *cells = json_array();
  hex_write(&s->seed, seed);
  hex_write(&s->labels, labels);
  hex_write(&s->made_of, made_of_hex);
  for (size_t i = 0; i < SKETCH_CELLS; i++)
    json_array_append_new(cells, json_integer(s->sketch.cells[i]));
  json_t *whole = json_pack("{s:i, s:s, s:I, s:s, s:s, s:o}", "schema", SCHEMA, "seed", seed, "steps",
                            (json_int_t)s->settings->steps, "labels", labels, "made_of", made_of_hex, "cells", cells);
  char *text = whole ? json_dumps(whole, JSON_COMPACT) : NULL;
  if (text && file_replace(s->path, 0600, text) != ERR_OK)
    remove(s->path);
  free(text);
  json_decref(whole);
}

static bool cells_take(const json_t *cells, struct sketch *out) {
  if (json_array_size(cells) != SKETCH_CELLS)
    return false;
  for (size_t i = 0; i < SKETCH_CELLS; i++) {
    json_int_t cell = json_integer_value(json_array_get(cells, i));
    if (cell < -SKETCH_MOST || cell > SKETCH_MOST)
      return false;
    out->cells[i] = (int16_t)cell;
  }
  return sketch_is_canonical(out);
}

static bool is_text(const json_t *whole, const char *key, const struct digest *expected) {
  char hex[HEX_BYTES];
  const char *text = json_string_value(json_object_get(whole, key));
  hex_write(expected, hex);
  return text && strcmp(text, hex) == 0;
}

/* Whether what is kept was found as it would be now. What is damaged or of other data is found anew. */
static bool take_kept(struct sketching *s) {
  char *text = NULL;
  size_t n;
  struct sketch kept;
  if (s->path[0] == '\0' || file_read(s->path, MAX_FILE_BYTES, &text, &n) != ERR_OK)
    return false;
  json_t *whole = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
  free(text);
  bool is_same = json_integer_value(json_object_get(whole, "schema")) == SCHEMA &&
                 json_integer_value(json_object_get(whole, "steps")) == (json_int_t)s->settings->steps &&
                 is_text(whole, "seed", &s->seed) && is_text(whole, "labels", &s->labels) &&
                 is_text(whole, "made_of", &s->made_of) && cells_take(json_object_get(whole, "cells"), &kept);
  json_decref(whole);
  if (is_same)
    s->sketch = kept;
  return is_same;
}

/* ---- finding ------------------------------------------------------------------------------------------------------ */

static void answer(const struct sketching *s, struct trainer_result *result) {
  result->has_sketch = true;
  result->sketch = s->sketch;
}

static enum err find(struct sketching *s, const struct learner_config *like, const struct dataset *train,
                     const struct work_hook *hook, struct trainer_result *result) {
  struct sketch found;
  enum err e = pretraining_sketch(like, s->settings->steps, train, &s->seed, hook, &found);
  if (e == ERR_NON_FINITE || e == ERR_RANGE) {
    snprintf(result->sketch_note, sizeof result->sketch_note,
             "the steps from the first weights lead nowhere (%s), so that this site is of no group: is the learning "
             "rate too high?",
             err_sentence(e));
    return ERR_OK;
  }
  if (e != ERR_OK || (s->has_sketch && memcmp(&found, &s->sketch, sizeof found) == 0))
    return e;
  s->has_sketch = true;
  s->sketch = found;
  keep(s);
  answer(s, result);
  return ERR_OK;
}

enum err sketching_start(struct sketching *s, const struct learner_config *like, const struct dataset *train,
                         const struct work_hook *hook, struct trainer_result *result) {
  if (!s->settings)
    return ERR_OK;
  enum err e = remember(s, like, train);
  if (e != ERR_OK)
    return e;
  if (!take_kept(s))
    return find(s, like, train, hook, result);
  s->has_sketch = true;
  answer(s, result);
  return ERR_OK;
}

static bool has_shifted(const struct sketching *s, const struct dataset *train) {
  return s->n_classes > 0 && train->class_counts && train->n_classes == s->n_classes &&
         shift_share(s->counts, train->class_counts, s->n_classes) > s->settings->shift;
}

static enum err find_anew(struct sketching *s, const struct learner_config *like, const struct dataset *train,
                          const struct work_hook *hook, struct trainer_result *result) {
  struct sketching before = *s;
  s->counts = NULL;
  enum err e = remember(s, like, train);
  if (e == ERR_OK)
    e = find(s, like, train, hook, result);
  free(e == ERR_OK ? before.counts : s->counts);
  if (e != ERR_OK)
    *s = before; /* so that it is looked for again */
  return e;
}

enum err sketching_before(struct sketching *s, const struct learner_config *like, const struct dataset *train,
                          const struct work_hook *hook, struct trainer_result *result) {
  return s->settings && has_shifted(s, train) ? find_anew(s, like, train, hook, result) : ERR_OK;
}

enum err sketching_after(struct sketching *s, const struct learner_config *like, const struct dataset *train,
                         const struct work_hook *hook, struct trainer_result *result) {
  double loss = result->train_loss;
  if (!s->settings || !__builtin_isfinite(loss))
    return ERR_OK;
  bool has_leapt = __builtin_isfinite(s->loss) && loss > LOSS_LEAP * s->loss;
  enum err e = has_leapt ? find_anew(s, like, train, hook, result) : ERR_OK;
  s->loss = __builtin_isfinite(s->loss) ? (s->loss + loss) / 2 : loss;
  return e;
}
