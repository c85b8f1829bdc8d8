#include <string.h>

#include "store/reason.h"
#include "store/room.h"

/* What the body of store_roll_back needs. */
struct change {
  const struct digest *job;
  struct round_label to;
  const char *note;
  int64_t at_unix_s;
  bool *out_changed;
  struct store_roll_back *out_done;
};

/* ---- what was rolled back ---- */

/* The newest one whose label is not after this. ERR_NOT_FOUND. */
static enum err roll_back_until(struct store *s, uint64_t job, struct round_label until, uint64_t *out_sequence,
                                struct store_roll_back *out_last) {
  struct store_roll_back r = {0};
  uint64_t sequence = 0;
  struct query q = query_begin(&s->database, SQL_ROLL_BACK_UNTIL);
  bind_u64(&q, job);
  bind_label(&q, until);
  enum err e = ERR_NOT_FOUND;
  if (query_next(&q)) {
    r.label = column_label(&q);
    r.to = column_label(&q);
    column_text(&q, r.note, sizeof r.note);
    r.at_unix_s = column_i64(&q);
    sequence = column_u64(&q);
    e = ERR_OK;
  }
  enum err end = query_end(&q);
  if (end != ERR_OK || e != ERR_OK)
    return end != ERR_OK ? end : e;
  *out_sequence = sequence;
  *out_last = r;
  return ERR_OK;
}

enum err room_roll_back_last(struct store *s, uint64_t job, struct store_roll_back *out_last) {
  uint64_t sequence;
  return roll_back_until(s, job, (struct round_label){INT64_MAX, UINT32_MAX}, &sequence, out_last);
}

enum err store_roll_back_last(struct store *s, const struct digest *job, struct store_roll_back *out_last) {
  uint64_t id;
  enum err e = room_job_find(s, job, &id);
  return e == ERR_OK ? room_roll_back_last(s, id, out_last) : e;
}

/* The newest publication's when that was committed. ERR_NOT_FOUND: no such commitment. */
static enum err sequence_of(struct store *s, uint64_t job, struct round_label label, uint64_t *out_sequence) {
  struct query q = query_begin(&s->database, SQL_COMMITMENT_SEQUENCE);
  bind_u64(&q, job);
  bind_label(&q, label);
  bool found = query_next(&q);
  uint64_t sequence = found ? column_u64(&q) : 0;
  enum err e = query_end(&q);
  if (e == ERR_OK && found)
    *out_sequence = sequence;
  return e == ERR_OK && !found ? ERR_NOT_FOUND : e;
}

static enum err count_trainings(struct store *s, uint64_t job, uint64_t after, uint64_t until, uint64_t *n) {
  struct query q = query_begin(&s->database, SQL_TRAININGS);
  bind_u64(&q, job);
  bind_u64(&q, after);
  bind_u64(&q, until);
  if (query_next(&q))
    *n += column_u64(&q);
  return query_end(&q);
}

/* Back from the model, at each roll-back to the one that was gone back to. */
enum err store_trainings(struct store *s, const struct digest *job, struct round_label label, uint64_t *out_n) {
  uint64_t id, until, n = 0;
  bool is_start = false;
  enum err e = label_is_valid(label) ? room_job_find(s, job, &id) : ERR_RANGE;
  while (e == ERR_OK && !is_start) {
    struct store_roll_back back = {0};
    uint64_t after = 0;
    enum err found = roll_back_until(s, id, label, &after, &back);
    is_start = found == ERR_NOT_FOUND;
    if (!is_start && (found != ERR_OK || label_compare(back.to, label) >= 0))
      return found != ERR_OK ? found : ERR_CORRUPT;
    if ((e = sequence_of(s, id, label, &until)) == ERR_OK)
      e = count_trainings(s, id, after, until, &n);
    label = back.to;
  }
  if (e == ERR_OK)
    *out_n = n;
  return e;
}

/* ---- rolling back ---- */

/* A damaged file must not become what the agent starts from. */
static enum err roll_back_judge(struct store *s, const struct digest *job, struct round_label to) {
  struct digest model, half;
  enum err e = store_model_files(s, job, to, &model, &half);
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
  char text[MAX_REASON_BYTES], from[ROUND_LABEL_BYTES], to[ROUND_LABEL_BYTES];
  round_label_write(r->to, from);
  round_label_write(r->label, to);
  reason_set(text, "the model of round %s goes on as %s%s%s", from, to, r->note[0] != '\0' ? ": " : "", r->note);
  return room_event_add(s, r->at_unix_s, "model-rolled-back", "", text);
}

/* Is the newest commitment that model already? A second roll-back to it would only make a second row. */
static enum err roll_back_is_done(struct store *s, uint64_t job, const struct change *c, struct round_label committed,
                                  bool *out_done) {
  enum err e = room_roll_back_last(s, job, c->out_done);
  *out_done =
      e == ERR_OK && label_compare(c->out_done->label, committed) == 0 && label_compare(c->out_done->to, c->to) == 0;
  bool is_newest = label_compare(c->to, committed) == 0 && committed.round + committed.sub > 0;
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
  if ((e = roll_back_judge(s, c->job, c->to)) != ERR_OK)
    return e;
  if (committed.sub == UINT32_MAX)
    return ERR_RANGE;
  struct store_roll_back r = {
      .label = {.round = committed.round, .sub = committed.sub + 1}, .to = c->to, .at_unix_s = c->at_unix_s};
  memcpy(r.note, c->note, strlen(c->note) + 1);
  if ((e = room_last_published(s, job, &sequence)) != ERR_OK || (e = roll_back_rows(s, job, sequence, &r)) != ERR_OK ||
      (e = roll_back_event(s, &r)) != ERR_OK)
    return e;
  *c->out_done = r;
  *c->out_changed = true;
  return room_keep_models(s, job);
}

enum err store_roll_back(struct store *s, const struct digest *job, struct round_label to, const char *note,
                         int64_t at_unix_s, struct store_roll_back *out_done, bool *out_changed) {
  bool changed = false;
  struct store_roll_back done = {0};
  struct change c = {
      .job = job, .to = to, .note = note, .at_unix_s = at_unix_s, .out_changed = &changed, .out_done = &done};
  if (strlen(note) >= STORE_NOTE_BYTES)
    return ERR_LIMIT;
  enum err e = label_is_valid(to) ? room_transaction(s, roll_back_body, &c) : ERR_RANGE;
  if (e == ERR_OK) {
    *out_done = done;
    *out_changed = changed;
  }
  return e;
}
