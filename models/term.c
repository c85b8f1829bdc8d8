#include "models/term.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "models/floats.h"

static const struct term_type *const types[] = {
    &term_proximal,
    &term_control,
    NULL,
};

const struct term_type *term_type_at(size_t i) {
  for (size_t k = 0; k < i; k++)
    if (!types[k])
      return NULL;
  return types[i];
}

/* ---- opening and closing */

static void free_arrays(float **arrays) {
  for (size_t i = 0; i < MAX_TERM_ARRAYS; i++) {
    free(arrays[i]);
    arrays[i] = NULL;
  }
}

/* All of them or none. */
static enum err new_arrays(float **out_arrays, size_t n, size_t n_floats) {
  MUST(n <= MAX_TERM_ARRAYS);
  for (size_t i = 0; i < n; i++)
    if (!(out_arrays[i] = floats_new(n_floats))) {
      free_arrays(out_arrays);
      return ERR_NO_MEMORY;
    }
  return ERR_OK;
}

static void term_close(struct term *t) {
  if (t->type->close)
    t->type->close(t);
  free_arrays(t->kept);
  free_arrays(t->work);
  free_arrays(t->before.kept);
}

static enum err term_open(const struct term_type *type, const struct train_config *c, size_t n_values, size_t n_floats,
                          struct term *out_term) {
  struct term t = {.type = type};
  MUST(type->n_numbers <= MAX_TERM_NUMBERS && strlen(type->word) < MAX_TERM_WORD_BYTES);
  enum err e = new_arrays(t.kept, type->n_kept, n_values);
  if (!e && type->is_undone)
    e = new_arrays(t.before.kept, type->n_kept, n_values);
  if (!e)
    e = new_arrays(t.work, type->n_work, n_floats);
  if (!e && type->open)
    e = type->open(&t, c);
  if (e) {
    term_close(&t);
    return e;
  }
  *out_term = t;
  return ERR_OK;
}

enum err terms_open(const struct train_config *c, size_t n_values, size_t n_floats, struct terms *out_terms) {
  struct terms t = {0};
  for (size_t i = 0; types[i]; i++) {
    if (!types[i]->is_on(c))
      continue;
    MUST(t.n < MAX_TERMS);
    enum err e = term_open(types[i], c, n_values, n_floats, &t.list[t.n]);
    if (e) {
      terms_close(&t);
      return e;
    }
    t.n++;
  }
  *out_terms = t;
  return ERR_OK;
}

void terms_close(struct terms *t) {
  for (size_t i = 0; i < t->n; i++)
    term_close(&t->list[i]);
  *t = (struct terms){0};
}

enum err terms_fit(struct terms *t, size_t n_floats) {
  float *fresh[MAX_TERMS][MAX_TERM_ARRAYS] = {{0}};
  enum err e = ERR_OK;
  for (size_t i = 0; i < t->n && !e; i++)
    e = new_arrays(fresh[i], t->list[i].type->n_work, n_floats);
  for (size_t i = 0; i < t->n; i++) {
    free_arrays(e ? fresh[i] : t->list[i].work);
    if (!e)
      memcpy(t->list[i].work, fresh[i], sizeof fresh[i]);
  }
  return e;
}

struct terms_size terms_size(const struct train_config *c) {
  struct terms_size s = {0};
  for (size_t i = 0; types[i]; i++) {
    if (!types[i]->is_on(c))
      continue;
    s.n_kept += types[i]->n_kept;
    s.n_arrays += types[i]->n_kept * (types[i]->is_undone ? 2 : 1);
    s.n_work += types[i]->n_work;
  }
  return s;
}

bool terms_need_gradient(const struct train_config *c) {
  for (size_t i = 0; types[i]; i++)
    if (types[i]->at[TERM_GRADIENT] && types[i]->is_on(c))
      return true;
  return false;
}

bool terms_have(const struct terms *t, enum term_stage stage) {
  for (size_t i = 0; i < t->n; i++)
    if (t->list[i].type->at[stage])
      return true;
  return false;
}

/* ---- a training */

static void keep_before(struct term *t, size_t n_values) {
  for (size_t i = 0; t->type->is_undone && i < t->type->n_kept; i++)
    memcpy(t->before.kept[i], t->kept[i], n_values * sizeof *t->kept[i]);
  memcpy(t->before.numbers, t->numbers, sizeof t->numbers);
}

void terms_keep(struct terms *t, size_t n_values) {
  for (size_t i = 0; i < t->n; i++)
    keep_before(&t->list[i], n_values);
}

enum err terms_begin(struct terms *t, const struct training *training) {
  enum err e = ERR_OK;
  for (size_t i = 0; i < t->n && !e; i++)
    if (t->list[i].type->begin)
      e = t->list[i].type->begin(&t->list[i], training);
  return e;
}

enum err terms_end(struct terms *t, const struct training *training) {
  enum err e = ERR_OK;
  for (size_t i = 0; i < t->n && !e; i++)
    if (t->list[i].type->end)
      e = t->list[i].type->end(&t->list[i], training);
  return e;
}

enum err terms_at(struct terms *t, enum term_stage stage, const struct training *training, const struct term_batch *b) {
  enum err e = ERR_OK;
  for (size_t i = 0; i < t->n && !e; i++)
    if (t->list[i].type->at[stage])
      e = t->list[i].type->at[stage](&t->list[i], training, b);
  return e;
}

void terms_undo(struct terms *t) {
  for (size_t i = 0; i < t->n; i++) {
    struct term *term = &t->list[i];
    for (size_t k = 0; term->type->is_undone && k < term->type->n_kept; k++) {
      float *held = term->kept[k];
      term->kept[k] = term->before.kept[k];
      term->before.kept[k] = held;
    }
    memcpy(term->numbers, term->before.numbers, sizeof term->numbers);
  }
}

void terms_forget(struct terms *t) {
  for (size_t i = 0; i < t->n; i++)
    if (t->list[i].type->forget)
      t->list[i].type->forget(&t->list[i]);
}

bool terms_finite(const struct terms *t, size_t n_values) {
  bool finite = true;
  for (size_t i = 0; i < t->n; i++) {
    for (size_t k = 0; k < t->list[i].type->n_kept; k++)
      finite = finite && floats_finite(t->list[i].kept[k], n_values);
    for (size_t k = 0; k < t->list[i].type->n_numbers; k++)
      finite = finite && isfinite(t->list[i].numbers[k]);
  }
  return finite;
}

/* ---- for the terms */

static void pull(const struct training *training, const struct net_range *ranges, size_t n, float by, const float *to,
                 float *g) {
  for (size_t i = 0; i < n; i++)
    for (size_t k = ranges[i].offset; k < ranges[i].offset + ranges[i].n; k++)
      g[k] += by * (training->x[k] - to[k]);
}

void term_pull_shared(const struct training *training, double by, const float *to, float *g) {
  pull(training, training->shared, training->n_shared, (float)by, to, g);
}

void term_pull(const struct training *training, double by, const float *to, float *g) {
  pull(training, training->ranges, training->n_ranges, (float)by, to, g);
}
