#include <string.h>

#include "base/must.h"
#include "store/room.h"

static const char *const mode_names[] = {[SERVE_BEST] = "best", [SERVE_LATEST] = "latest", [SERVE_PINNED] = "pinned"};

enum { N_MODES = sizeof mode_names / sizeof *mode_names };

const char *serving_mode_name(enum serving_mode mode) {
  MUST((size_t)mode < N_MODES);
  return mode_names[mode];
}

enum err serving_mode_find(const char *name, enum serving_mode *out_mode) {
  size_t i;
  enum err e = word_find(mode_names, N_MODES, name, &i);
  if (e == ERR_OK)
    *out_mode = (enum serving_mode)i;
  return e;
}

/* What the bodies of the changing calls share. */
struct change {
  const struct digest *job;
  struct round_label label; /* of the model */
  enum serving_mode mode;
  const char *note;
  int64_t at_unix_s;
  bool *out_changed;
};

static enum err change_run(struct store *s, enum err (*body)(struct store *s, const void *argument),
                           const struct change *change) {
  if (change->note != NULL && strlen(change->note) >= STORE_NOTE_BYTES)
    return ERR_LIMIT;
  return label_is_valid(change->label) ? room_transaction(s, body, change) : ERR_RANGE;
}

/* ---- reading ---- */

enum err store_models(struct store *s, const struct digest *job, struct store_model *out_models, size_t capacity,
                      size_t *out_n) {
  uint64_t id;
  size_t n = 0;
  enum err e = room_job_find(s, job, &id);
  if (e != ERR_OK)
    return e;
  struct query q = query_begin(&s->database, SQL_MODELS);
  bind_u64(&q, id);
  bind_u64(&q, capacity);
  while (n < capacity && query_next(&q)) {
    struct store_model *m = &out_models[n++];
    m->label = column_label(&q);
    m->mean = column_f64(&q);
    m->pinned = column_u64(&q) != 0;
    column_text(&q, m->note, sizeof m->note);
    m->pinned_unix_s = column_i64(&q);
  }
  if ((e = query_end(&q)) == ERR_OK)
    *out_n = n;
  return e;
}

/* The digests of a model that is kept. ERR_NOT_FOUND. */
static enum err model_find(struct store *s, uint64_t job, struct round_label label, struct digest *out_model,
                           struct digest *out_half) {
  struct query q = query_begin(&s->database, SQL_MODEL_FIND);
  bind_u64(&q, job);
  bind_label(&q, label);
  enum err e = query_next(&q) && column_digest(&q, out_model) ? ERR_OK : ERR_NOT_FOUND;
  if (e == ERR_OK)
    (void)column_digest(&q, out_half);
  enum err end = query_end(&q);
  return end == ERR_OK ? e : end;
}

enum err store_model_files(struct store *s, const struct digest *job, struct round_label label,
                           struct digest *out_model, struct digest *out_half) {
  struct digest model, half = {0};
  uint64_t id;
  enum err e;
  if ((e = room_job_find(s, job, &id)) != ERR_OK || (e = model_find(s, id, label, &model, &half)) != ERR_OK)
    return e;
  *out_model = model;
  *out_half = half;
  return ERR_OK;
}

static enum err model_is_kept(struct store *s, uint64_t job, struct round_label label) {
  struct digest model, half;
  return model_find(s, job, label, &model, &half);
}

/* ---- pins ---- */

static enum err pin_count(struct store *s, uint64_t job) {
  struct query q = query_begin(&s->database, SQL_PIN_COUNT);
  bind_u64(&q, job);
  bool full = query_next(&q) && column_u64(&q) >= STORE_MAX_PINS;
  enum err e = query_end(&q);
  return e == ERR_OK && full ? ERR_LIMIT : e;
}

/* Is it pinned, and with that note? */
static enum err pin_find(struct store *s, uint64_t job, const struct change *c, bool *out_pinned, bool *out_same) {
  char note[STORE_NOTE_BYTES] = "";
  struct query q = query_begin(&s->database, SQL_PIN_FIND);
  bind_u64(&q, job);
  bind_label(&q, c->label);
  *out_pinned = query_next(&q);
  if (*out_pinned)
    column_text(&q, note, sizeof note);
  *out_same = *out_pinned && c->note != NULL && strcmp(note, c->note) == 0;
  return query_end(&q);
}

static enum err pin_body(struct store *s, const void *argument) {
  const struct change *c = argument;
  uint64_t job;
  bool pinned, same;
  enum err e;
  if ((e = room_job_find(s, c->job, &job)) != ERR_OK || (e = model_is_kept(s, job, c->label)) != ERR_OK ||
      (e = pin_find(s, job, c, &pinned, &same)) != ERR_OK || same)
    return e;
  if (!pinned && (e = pin_count(s, job)) != ERR_OK)
    return e;
  struct query q = query_begin(&s->database, SQL_PIN_SET);
  bind_u64(&q, job);
  bind_label(&q, c->label);
  bind_text(&q, c->note);
  bind_i64(&q, c->at_unix_s);
  *c->out_changed = true;
  return query_run(&q);
}

static enum err unpin_body(struct store *s, const void *argument) {
  const struct change *c = argument;
  uint64_t job;
  bool pinned, same;
  enum err e;
  if ((e = room_job_find(s, c->job, &job)) != ERR_OK || (e = pin_find(s, job, c, &pinned, &same)) != ERR_OK || !pinned)
    return e;
  struct query q = query_begin(&s->database, SQL_PIN_DROP);
  bind_u64(&q, job);
  bind_label(&q, c->label);
  *c->out_changed = true;
  e = query_run(&q);
  return e == ERR_OK ? room_keep_models(s, job) : e;
}

enum err store_pin(struct store *s, const struct digest *job, struct round_label label, const char *note,
                   int64_t at_unix_s, bool *out_changed) {
  bool changed = false;
  struct change c = {.job = job, .label = label, .note = note, .at_unix_s = at_unix_s, .out_changed = &changed};
  enum err e = change_run(s, pin_body, &c);
  if (e == ERR_OK)
    *out_changed = changed;
  return e;
}

enum err store_unpin(struct store *s, const struct digest *job, struct round_label label, bool *out_changed) {
  bool changed = false;
  struct change c = {.job = job, .label = label, .out_changed = &changed};
  enum err e = change_run(s, unpin_body, &c);
  if (e == ERR_OK)
    *out_changed = changed;
  return e;
}

/* ---- serving ---- */

static enum err serving_get(struct store *s, uint64_t job, bool *out_found, enum serving_mode *out_mode,
                            struct round_label *out_label) {
  char name[16];
  enum err e = ERR_OK;
  struct query q = query_begin(&s->database, SQL_SERVING_GET);
  bind_u64(&q, job);
  *out_found = query_next(&q);
  if (*out_found) {
    column_text(&q, name, sizeof name);
    e = serving_mode_find(name, out_mode);
    *out_label = column_label(&q);
  }
  enum err end = query_end(&q);
  return end == ERR_OK ? e : end;
}

static enum err serve_body(struct store *s, const void *argument) {
  const struct change *c = argument;
  uint64_t job;
  bool found;
  enum serving_mode mode;
  struct round_label label;
  enum err e;
  if ((e = room_job_add(s, c->job, &job)) != ERR_OK || (e = serving_get(s, job, &found, &mode, &label)) != ERR_OK)
    return e;
  if (c->mode == SERVE_PINNED && (e = model_is_kept(s, job, c->label)) != ERR_OK)
    return e;
  if (found && mode == c->mode && label_compare(label, c->label) == 0)
    return ERR_OK;
  struct query q = query_begin(&s->database, SQL_SERVING_SET);
  bind_u64(&q, job);
  bind_text(&q, serving_mode_name(c->mode));
  bind_label(&q, c->label);
  bind_i64(&q, c->at_unix_s);
  *c->out_changed = true;
  e = query_run(&q);
  return e == ERR_OK ? room_keep_models(s, job) : e;
}

enum err store_serve(struct store *s, const struct digest *job, enum serving_mode mode, struct round_label label,
                     int64_t at_unix_s, bool *out_changed) {
  bool changed = false;
  struct change c = {.job = job, .mode = mode, .at_unix_s = at_unix_s, .out_changed = &changed};
  if (mode == SERVE_PINNED)
    c.label = label;
  enum err e = change_run(s, serve_body, &c);
  if (e == ERR_OK)
    *out_changed = changed;
  return e;
}

/* The first of the models that a statement lists. */
static enum err model_first(struct store *s, enum statement which, uint64_t job, struct round_label *out_label) {
  struct query q = query_begin(&s->database, which);
  bind_u64(&q, job);
  bool found = query_next(&q);
  struct round_label label = found ? column_label(&q) : (struct round_label){0};
  enum err e = query_end(&q);
  if (e == ERR_OK && !found)
    e = ERR_NOT_FOUND;
  if (e == ERR_OK)
    *out_label = label;
  return e;
}

enum err store_serving(struct store *s, const struct digest *job, enum serving_mode configured,
                       struct store_serving *out_serving) {
  static const enum statement first[] = {
      [SERVE_BEST] = SQL_MODEL_BEST, [SERVE_LATEST] = SQL_MODEL_LATEST, [SERVE_PINNED] = SQL_MODEL_PINNED};
  struct store_serving r = {.asked = configured};
  uint64_t id;
  enum err e;
  if ((e = room_job_find(s, job, &id)) != ERR_OK ||
      (e = serving_get(s, id, &r.by_command, &r.asked, &r.label)) != ERR_OK)
    return e;
  r.mode = r.asked;
  e = r.by_command && r.asked == SERVE_PINNED ? model_is_kept(s, id, r.label)
                                              : model_first(s, first[r.asked], id, &r.label);
  if (e == ERR_NOT_FOUND) {
    r.mode = SERVE_LATEST;
    e = model_first(s, SQL_MODEL_LATEST, id, &r.label);
  }
  if (e == ERR_OK)
    *out_serving = r;
  return e;
}
