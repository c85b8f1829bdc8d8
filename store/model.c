#include <string.h>

#include "base/must.h"
#include "store/reason.h"
#include "store/room.h"

static const char *const mode_names[] = {[SERVE_BEST] = "best", [SERVE_LATEST] = "latest", [SERVE_PINNED] = "pinned"};

enum { N_MODES = sizeof mode_names / sizeof *mode_names };

const char *serving_mode_name(enum serving_mode mode) {
  MUST((size_t)mode < N_MODES);
  return mode_names[mode];
}

enum err serving_mode_find(const char *name, enum serving_mode *out_mode) {
  for (size_t i = 0; i < N_MODES; i++) {
    if (strcmp(mode_names[i], name) == 0) {
      *out_mode = (enum serving_mode)i;
      return ERR_OK;
    }
  }
  return ERR_CORRUPT;
}

/* What the bodies of the changing calls share. */
struct change {
  const struct digest *job;
  struct round_label label; /* of the model */
  enum serving_mode mode;
  const char *note;
  int64_t at_unix_s;
  bool *out_changed;
  struct store_roll_back *out_done;
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

/* ---- roll-back ---- */

enum err room_roll_back_last(struct store *s, uint64_t job, struct store_roll_back *out_last) {
  struct store_roll_back r = {0};
  struct query q = query_begin(&s->database, SQL_ROLL_BACK_LAST);
  bind_u64(&q, job);
  enum err e = ERR_NOT_FOUND;
  if (query_next(&q)) {
    r.label = column_label(&q);
    r.to = column_label(&q);
    column_text(&q, r.note, sizeof r.note);
    r.at_unix_s = column_i64(&q);
    e = ERR_OK;
  }
  enum err end = query_end(&q);
  if (end != ERR_OK || e != ERR_OK)
    return end != ERR_OK ? end : e;
  *out_last = r;
  return ERR_OK;
}

enum err store_roll_back_last(struct store *s, const struct digest *job, struct store_roll_back *out_last) {
  uint64_t id;
  enum err e = room_job_find(s, job, &id);
  return e == ERR_OK ? room_roll_back_last(s, id, out_last) : e;
}

/* A damaged file must not become what the agent starts from. */
static enum err roll_back_judge(struct store *s, uint64_t job, struct round_label to) {
  struct digest model, half;
  enum err e = model_find(s, job, to, &model, &half);
  if (e == ERR_OK)
    e = files_check(&s->files, &model);
  return e == ERR_OK ? files_check(&s->files, &half) : e;
}

static enum err roll_back_rows(struct store *s, uint64_t job, uint64_t sequence, const struct store_roll_back *r) {
  struct query commitment = query_begin(&s->database, SQL_COMMITMENT_ROLL_BACK);
  bind_u64(&commitment, job);
  bind_label(&commitment, r->to);
  bind_label(&commitment, r->label);
  bind_u64(&commitment, sequence);
  enum err e = query_run(&commitment);
  if (e != ERR_OK)
    return e;
  struct query row = query_begin(&s->database, SQL_ROLL_BACK_ADD);
  bind_u64(&row, job);
  bind_label(&row, r->label);
  bind_label(&row, r->to);
  bind_text(&row, r->note);
  bind_i64(&row, r->at_unix_s);
  if ((e = query_run(&row)) != ERR_OK)
    return e;
  struct query chain = query_begin(&s->database, SQL_CHAIN_FORGET);
  bind_u64(&chain, job);
  return query_run(&chain);
}

static enum err roll_back_event(struct store *s, const struct store_roll_back *r) {
  char text[MAX_REASON_BYTES];
  reason_set(text, "the model of round %llu+%u goes on as %llu+%u%s%s", (unsigned long long)r->to.round, r->to.sub,
             (unsigned long long)r->label.round, r->label.sub, r->note[0] != '\0' ? ": " : "", r->note);
  return room_event_add(s, r->at_unix_s, "MODEL-ROLLED-BACK", "", text);
}

/* Is the newest commitment that model already? A second roll-back to it would only make a second row. */
static enum err roll_back_is_done(struct store *s, uint64_t job, const struct change *c, struct round_label committed,
                                  bool *out_done) {
  enum err e = room_roll_back_last(s, job, c->out_done);
  *out_done =
      e == ERR_OK && label_compare(c->out_done->label, committed) == 0 && label_compare(c->out_done->to, c->label) == 0;
  bool is_newest = label_compare(c->label, committed) == 0 && committed.round + committed.sub > 0;
  if (is_newest) {
    *c->out_done = (struct store_roll_back){.label = committed, .to = committed};
    *out_done = true;
  }
  return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err roll_back_body(struct store *s, const void *argument) {
  const struct change *c = argument;
  struct round_label committed;
  uint64_t job, sequence;
  bool done;
  enum err e;
  if ((e = room_job_find(s, c->job, &job)) != ERR_OK || (e = room_last_committed(s, job, &committed)) != ERR_OK ||
      (e = roll_back_is_done(s, job, c, committed, &done)) != ERR_OK || done)
    return e;
  if ((e = roll_back_judge(s, job, c->label)) != ERR_OK)
    return e;
  if (committed.sub == UINT32_MAX)
    return ERR_RANGE;
  struct store_roll_back r = {
      .label = {.round = committed.round, .sub = committed.sub + 1}, .to = c->label, .at_unix_s = c->at_unix_s};
  memcpy(r.note, c->note, strlen(c->note) + 1);
  if ((e = room_last_published(s, job, &sequence)) != ERR_OK || (e = roll_back_rows(s, job, sequence, &r)) != ERR_OK ||
      (e = roll_back_event(s, &r)) != ERR_OK)
    return e;
  *c->out_done = r;
  *c->out_changed = true;
  return room_keep_newest(s, job);
}

enum err store_roll_back(struct store *s, const struct digest *job, struct round_label to, const char *note,
                         int64_t at_unix_s, struct store_roll_back *out_done, bool *out_changed) {
  bool changed = false;
  struct store_roll_back done = {0};
  struct change c = {
      .job = job, .label = to, .note = note, .at_unix_s = at_unix_s, .out_changed = &changed, .out_done = &done};
  enum err e = change_run(s, roll_back_body, &c);
  if (e == ERR_OK) {
    *out_done = done;
    *out_changed = changed;
  }
  return e;
}
