#include "agent/core/record.h"

#include <stdio.h>
#include <string.h>

#include "agent/core/fields.h"
#include "agent/core/round_state.h"
#include "models/merging/rule.h"

/* ---- heads -------------------------------------------------------------------------------------------------------- */

const char *record_kind_name(enum record_kind kind) {
  static const char *const names[N_RECORD_KINDS] = {
#define X(symbol, word) [RECORD_##symbol] = (word),
      RECORD_INPUTS(X) RECORD_OUTPUTS(X)
#undef X
          [RECORD_CHECKPOINT] = "checkpoint",
  };
  return kind < N_RECORD_KINDS ? names[kind] : "unknown";
}

void record_head_write(const struct record_head *h, struct writer *w) {
  writer_u32(w, h->n_body);
  writer_u8(w, (uint8_t)h->kind);
  writer_u8(w, h->detail);
  writer_u16(w, h->peer);
  writer_u64(w, h->at_ms);
}

void record_head_read(struct cursor *c, struct record_head *out) {
  out->n_body = cursor_u32(c);
  out->kind = cursor_u8(c);
  out->detail = cursor_u8(c);
  out->peer = cursor_u16(c);
  out->at_ms = cursor_u64(c);
  c->failed = c->failed || out->kind >= N_RECORD_KINDS || out->at_ms > MAX_TIME_MS;
}

static uint16_t peer_word(size_t peer) {
  return peer < RECORD_NO_PEER ? (uint16_t)peer : RECORD_NO_PEER;
}

/* The length is known when the body stands. */
static void end_record(struct writer *w, size_t from) {
  struct writer length;
  if (w->failed)
    return;
  writer_init(&length, w->bytes + from, sizeof(uint32_t));
  writer_u32(&length, (uint32_t)(w->n_bytes - from - RECORD_HEAD_BYTES));
}

static void write_text(const char *text, struct writer *w) {
  size_t n = strnlen(text, MAX_PATH_BYTES - 1);
  writer_u16(w, (uint16_t)n);
  writer_bytes(w, text, n);
}

static void read_text(struct cursor *c, char out_text[MAX_PATH_BYTES]) {
  size_t n = cursor_u16(c);
  const uint8_t *text = n < MAX_PATH_BYTES ? cursor_view(c, n) : NULL;
  if (!text || memchr(text, 0, n)) {
    c->failed = true;
    return;
  }
  memcpy(out_text, text, n);
  out_text[n] = '\0';
}

/* ---- tables ------------------------------------------------------------------------------------------------------- */

static const struct field roll_back_fields[] = {
    FIELD_LABEL(struct store_roll_back, label),
    FIELD_LABEL(struct store_roll_back, to),
    FIELD_ANY(struct store_roll_back, at_unix_s),
    FIELD_OF(struct store_roll_back, note, FIELD_TEXT, 0),
};

static const struct field resume_fields[] = {
#define OF(form, ...) FIELD_##form(struct store_resume, __VA_ARGS__)
    OF(UP_TO, at, RESUME_PUBLISHED),
    OF(LABEL, committed),
    OF(ANY, n_short),
    OF(LABEL, published),
    OF(ANY, sequence),
    OF(ANY, sequence_epoch),
    OF(RAW, chain),
    OF(BOOL, has_roll_back),
    OF(BOOL, fell_back),
#undef OF
};

static const struct field position_fields[] = {
    FIELD_ANY(struct position, boot_epoch),
    FIELD_ANY(struct position, sequence),
    FIELD_RAW(struct position, chain),
};

static const struct field hello_fields[] = {
    FIELD_ANY(struct hello_job, round),
    FIELD_ANY(struct hello_job, sub),
    FIELD_POSITION(struct hello_job, newest),
};

static const struct field state_fields[] = {
#define OF(form, ...) FIELD_##form(struct wire_state, __VA_ARGS__)
    OF(BOOL, follows),
    OF(ANY, degree),
    OF(UP_TO, phase, N_PHASES - 1),
    OF(ANY, round),
    OF(ANY, sub),
    OF(ANY, round_in_work),
    OF(ANY, sub_in_work),
    OF(POSITION, newest),
    OF(ANY, epoch_steps),
    OF(BOOL, finished),
    OF(UP_TO, notice.kind, N_NOTICES - 1),
    OF(ANY, notice.round),
    OF(ANY, notice.sub),
    OF(OF, notice.text, FIELD_TEXT, 0),
#undef OF
};

/* NOLINTBEGIN(bugprone-macro-parentheses): members */
#define METRICS(type, member)                                                                                          \
  FIELD_BOOL(type, member.has_local), FIELD_BOOL(type, member.has_global), FIELD_BOOL(type, member.has_validation),    \
      FIELD_ANY(type, member.local_loss), FIELD_ANY(type, member.local_headline), FIELD_ANY(type, member.global_loss), \
      FIELD_ANY(type, member.global_headline), FIELD_ANY(type, member.validation_loss),                                \
      FIELD_ANY(type, member.validation_headline)
/* NOLINTEND(bugprone-macro-parentheses) */

static const struct field trained_fields[] = {
#define OF(form, ...) FIELD_##form(struct trainer_result, __VA_ARGS__)
    OF(LABEL, label),
    OF(ERR, error),
    OF(ANY, n_samples),
    OF(ANY, n_test),
    OF(ANY, n_global_test),
    OF(ANY, epoch_steps),
    OF(UP_TO, scale.n, MAX_LENGTH),
    OF(ANY, local_steps),
    OF(ANY, train_loss),
    OF(ANY, seconds),
    OF(UP_TO, payload.n_bytes, MAX_LENGTH),
    OF(RAW, payload_root),
    OF(ANY, mass),
    OF(UP_TO, half.n_bytes, MAX_LENGTH),
    OF(UP_TO, copy_offset, MAX_LENGTH),
    OF(UP_TO, n_copy, MAX_LENGTH),
    OF(RAW, copy_root),
    OF(UP_TO, model.n_bytes, MAX_LENGTH),
    METRICS(struct trainer_result, metrics),
    OF(UP_TO, shadow.n_bytes, MAX_LENGTH),
    OF(ANY, shadow_figures.headline),
    OF(ANY, shadow_figures.seconds),
#undef OF
};

static const struct field outcome_fields[] = {
    FIELD_ERR(struct merge_peer, reason),
    FIELD_UP_TO(struct merge_peer, n_applied, KEEP_PAYLOADS),
    FIELD_UP_TO(struct merge_peer, fate, N_FATES - 1),
};

static const struct field written_fields[] = {
#define OF(form, ...) FIELD_##form(struct scribe_result, __VA_ARGS__)
    OF(ERR, error),
    OF(BOOL, has_committed),
    OF(ANY, boot_epoch),
    OF(UP_TO, half.n_bytes, MAX_LENGTH),
    OF(UP_TO, model.n_bytes, MAX_LENGTH),
#undef OF
};

static const struct field train_fields[] = {
#define OF(form, ...) FIELD_##form(struct trainer_job, __VA_ARGS__)
    OF(LABEL, label),      OF(ANY, half.n_bytes),     OF(ANY, model.n_bytes),   OF(ANY, rate_scale),
    OF(ANY, steps),        OF(BOOL, start_chain),     OF(BOOL, whole_snapshot), OF(BOOL, is_import),
    OF(BOOL, is_withheld), OF(BOOL, wants_copy_root), OF(ANY, n_peers),         OF(ANY, account),
    OF(BOOL, begins_anew),
#undef OF
};

static const struct field row_fields[] = {
    FIELD_ANY(struct merge_peer, peer), FIELD_BOOL(struct merge_peer, use),    FIELD_ANY(struct merge_peer, weight),
    FIELD_ANY(struct merge_peer, lag),  FIELD_ANY(struct merge_peer, n_links),
};

static const struct field link_fields[] = {
    FIELD_ANY(struct manifest, kind),
    FIELD_ANY(struct manifest, boot_epoch),
    FIELD_ANY(struct manifest, sequence),
    FIELD_RAW(struct manifest, payload_root),
};

static const struct field publication_fields[] = {
#define OF(form, ...) FIELD_##form(struct store_publication, __VA_ARGS__)
    OF(LABEL, label),   OF(ANY, boot_epoch),     OF(ANY, sequence),      OF(RAW, chain),
    OF(ANY, n_payload), OF(RAW, payload_digest), OF(ANY, n_half),        OF(ANY, copy_offset),
    OF(ANY, n_copy),    OF(ANY, train_loss),     OF(ANY, train_seconds), OF(ANY, n_samples),
#undef OF
};

static const struct field commitment_fields[] = {
#define OF(form, ...) FIELD_##form(struct store_commitment, __VA_ARGS__)
    OF(LABEL, label),         OF(ANY, outcome),
    OF(ANY, n_model),         OF(ANY, n_own_half),
    OF(ANY, n_shadow),        OF(ANY, shadow_headline),
    OF(ANY, shadow_seconds),  METRICS(struct store_commitment, metrics),
    OF(ANY, n_contributions), OF(ANY, sent_bytes),
    OF(ANY, received_bytes),  OF(ANY, seconds),
#undef OF
};

static const struct field contribution_fields[] = {
#define OF(form, ...) FIELD_##form(struct store_contribution, __VA_ARGS__)
    OF(RAW, origin),     OF(ANY, reason),   OF(ANY, fate),    OF(ANY, lag),        OF(ANY, weight),
    OF(ANY, boot_epoch), OF(ANY, sequence), OF(ANY, n_bytes), OF(ANY, arrival_ms),
#undef OF
};

/* ---- inputs, written ---------------------------------------------------------------------------------------------- */

static void write_resume(const struct round_input *in, struct writer *w) {
  const struct store_resume *resume = in->what;
  const struct position *positions = in->more;
  FIELDS_WRITE(resume_fields, resume, w);
  if (resume->has_roll_back)
    FIELDS_WRITE(roll_back_fields, &resume->roll_back, w);
  writer_u16(w, (uint16_t)in->n);
  for (size_t i = 0; i < in->n; i++)
    FIELDS_WRITE(position_fields, &positions[i], w);
}

static void write_hello(const struct round_input *in, struct writer *w) {
  FIELDS_WRITE(hello_fields, in->what, w);
  if (in->more)
    state_write_manifest(in->more, w);
}

static void write_trained(const struct trainer_result *r, struct writer *w) {
  FIELDS_WRITE(trained_fields, r, w);
  writer_u16(w, (uint16_t)r->n_peers);
  for (size_t i = 0; i < r->n_peers; i++)
    FIELDS_WRITE(outcome_fields, &r->peers[i], w);
}

static void write_written(const struct scribe_result *r, struct writer *w) {
  FIELDS_WRITE(written_fields, r, w);
  if (r->kind == SCRIBE_ROLL_BACK)
    FIELDS_WRITE(roll_back_fields, &r->roll_back, w);
}

static void write_what(const struct round_input *in, struct writer *w) {
  switch (in->kind) {
  case INPUT_START:
    write_resume(in, w);
    break;
  case INPUT_HELLO:
    write_hello(in, w);
    break;
  case INPUT_STATE:
    FIELDS_WRITE(state_fields, in->what, w);
    break;
  case INPUT_MANIFEST:
  case INPUT_PAYLOAD:
    state_write_manifest(in->what, w);
    break;
  case INPUT_TRAINED:
    write_trained(in->what, w);
    break;
  case INPUT_WRITTEN:
    write_written(in->what, w);
    break;
  case INPUT_ROLL_BACK:
  case INPUT_IMPORT:
    write_text(in->what, w);
    break;
  default: /* numbers alone */
    break;
  }
}

static uint8_t detail_of(const struct round_input *in) {
  if (in->kind == INPUT_TRAINED)
    return (uint8_t)((const struct trainer_result *)in->what)->kind;
  return in->kind == INPUT_WRITTEN ? (uint8_t)((const struct scribe_result *)in->what)->kind : 0;
}

void record_write_input(const struct round_input *in, struct writer *w) {
  size_t from = w->n_bytes;
  record_head_write(&(struct record_head){.kind = (enum record_kind)in->kind,
                                          .detail = detail_of(in),
                                          .peer = peer_word(in->peer),
                                          .at_ms = in->now_ms},
                    w);
  writer_u8(w, in->flag);
  writer_u16(w, (uint16_t)in->reason);
  writer_u64(w, in->first);
  writer_u64(w, in->second);
  writer_u64(w, in->label.round);
  writer_u32(w, in->label.sub);
  write_what(in, w);
  end_record(w, from);
}

/* ---- outputs, written --------------------------------------------------------------------------------------------- */

static void write_train(const struct trainer_job *job, struct writer *w) {
  FIELDS_WRITE(train_fields, job, w);
  for (size_t i = 0; i < job->n_peers; i++) {
    FIELDS_WRITE(row_fields, &job->peers[i], w);
    for (size_t k = 0; k < job->peers[i].n_links; k++)
      FIELDS_WRITE(link_fields, &job->peers[i].links[k].manifest, w);
  }
}

static void write_commitment(const struct scribe_job *job, struct writer *w) {
  FIELDS_WRITE(commitment_fields, &job->commitment, w);
  for (size_t i = 0; i < job->commitment.n_contributions; i++)
    FIELDS_WRITE(contribution_fields, &job->contributions[i], w);
}

static void write_scribe_job(const struct scribe_job *job, struct writer *w) {
  if (job->kind == SCRIBE_PUBLISH)
    FIELDS_WRITE(publication_fields, &job->publication, w);
  if (job->kind == SCRIBE_COMMIT)
    write_commitment(job, w);
  writer_u64(w, job->above);
  writer_u64(w, job->label.round);
  writer_u32(w, job->label.sub);
  write_text(job->note, w);
  writer_u8(w, job->before != NULL);
  if (job->before)
    write_commitment(job->before, w);
}

void record_write_output(const struct round_output *out, uint64_t at_ms, struct writer *w) {
  size_t from = w->n_bytes;
  record_head_write(
      &(struct record_head){.kind = out->kind, .detail = out->detail, .peer = peer_word(out->peer), .at_ms = at_ms}, w);
  writer_u16(w, (uint16_t)out->reason);
  writer_u64(w, out->first);
  writer_u64(w, out->n);
  if (out->manifest)
    writer_bytes(w, out->manifest, MANIFEST_BYTES);
  if (out->train)
    write_train(out->train, w);
  if (out->write)
    write_scribe_job(out->write, w);
  if (out->kind == RECORD_NOTE) {
    write_text(out->name, w);
    write_text(out->text, w);
  }
  end_record(w, from);
}

/* ---- inputs, read ------------------------------------------------------------------------------------------------- */

static void read_resume(struct cursor *c, size_t n_peers, struct record_input *out) {
  FIELDS_READ(resume_fields, c, &out->resume);
  if (out->resume.has_roll_back)
    FIELDS_READ(roll_back_fields, c, &out->resume.roll_back);
  c->failed = c->failed || cursor_u16(c) != n_peers;
  for (size_t i = 0; i < n_peers && !c->failed; i++)
    FIELDS_READ(position_fields, c, &out->positions[i]);
}

static void read_hello(struct cursor *c, struct record_input *out) {
  FIELDS_READ(hello_fields, c, &out->hello);
  if (out->flag)
    state_read_manifest(c, &out->manifest);
}

/* A second is a time that a training took: what cannot be one is none. */
static void read_trained(struct cursor *c, struct record_input *out) {
  static const double max_seconds = 1e9;
  FIELDS_READ(trained_fields, c, &out->trained);
  out->n_outcomes = cursor_u16(c);
  c->failed = c->failed || out->n_outcomes > MAX_PEERS;
  for (size_t i = 0; i < out->n_outcomes && !c->failed; i++)
    FIELDS_READ(outcome_fields, c, &out->outcomes[i]);
  if (!(out->trained.seconds >= 0 && out->trained.seconds <= max_seconds) && out->trained.error == ERR_OK)
    c->failed = true;
}

static void read_written(struct cursor *c, struct record_input *out) {
  FIELDS_READ(written_fields, c, &out->written);
  if (out->written.kind == SCRIBE_ROLL_BACK)
    FIELDS_READ(roll_back_fields, c, &out->written.roll_back);
}

static void read_what(const struct record_head *h, struct cursor *c, size_t n_peers, struct record_input *out) {
  switch (h->kind) {
  case RECORD_START:
    read_resume(c, n_peers, out);
    break;
  case RECORD_HELLO:
    read_hello(c, out);
    break;
  case RECORD_STATE:
    FIELDS_READ(state_fields, c, &out->state);
    break;
  case RECORD_MANIFEST:
  case RECORD_PAYLOAD:
    state_read_manifest(c, &out->manifest);
    break;
  case RECORD_TRAINED:
    out->trained.kind = (enum trainer_job_kind)h->detail;
    read_trained(c, out);
    break;
  case RECORD_WRITTEN:
    out->written.kind = (enum scribe_job_kind)h->detail;
    read_written(c, out);
    break;
  case RECORD_ROLL_BACK:
  case RECORD_IMPORT:
    read_text(c, out->text);
    break;
  default:
    break;
  }
}

enum err record_read_input(const struct record_head *h, struct cursor *body, size_t n_peers, struct record_input *out) {
  memset(out, 0, sizeof *out);
  uint8_t flag = cursor_u8(body);
  uint16_t reason = cursor_u16(body);
  out->flag = flag != 0;
  out->reason = (enum err)reason;
  out->first = cursor_u64(body);
  out->second = cursor_u64(body);
  out->label.round = cursor_u64(body);
  out->label.sub = cursor_u32(body);
  bool has_peer = h->kind >= RECORD_SESSION && h->kind <= RECORD_DONE;
  if (flag > 1 || reason >= ERR_COUNT || (has_peer && h->peer >= n_peers))
    return ERR_SYNTAX;
  read_what(h, body, n_peers, out);
  return cursor_end(body) == ERR_OK ? ERR_OK : ERR_SYNTAX;
}

/* ---- for people --------------------------------------------------------------------------------------------------- */

static const char *job_name(const struct record_head *h) {
  static const char *const of_trainer[] = {
      [JOB_LOAD] = "load",   [JOB_TRAIN] = "train",     [JOB_MERGE] = "merge", [JOB_ADOPT] = "adopt",
      [JOB_SCALE] = "scale", [JOB_RESTORE] = "restore", [JOB_UNDO] = "undo"};
  static const char *const of_scribe[N_SCRIBE_JOB_KINDS] = {[SCRIBE_PUBLISH] = "publish",
                                                            [SCRIBE_COMMIT] = "commit",
                                                            [SCRIBE_RAISE_EPOCH] = "raise-epoch",
                                                            [SCRIBE_LOAD_MODEL] = "load-model",
                                                            [SCRIBE_ROLL_BACK] = "roll-back"};
  bool is_trainer = h->kind == RECORD_TRAIN || h->kind == RECORD_TRAINED;
  bool is_scribe = h->kind == RECORD_WRITE || h->kind == RECORD_WRITTEN;
  if (is_trainer && h->detail < sizeof of_trainer / sizeof *of_trainer)
    return of_trainer[h->detail];
  return is_scribe && h->detail < N_SCRIBE_JOB_KINDS && of_scribe[h->detail] ? of_scribe[h->detail] : "";
}

/* A note says itself. */
static void note_text(const uint8_t *body, size_t n, char *out, size_t capacity) {
  struct cursor c;
  char name[MAX_PATH_BYTES] = "", text[MAX_PATH_BYTES] = "";
  cursor_init(&c, body, n);
  cursor_u16(&c);
  cursor_u64(&c);
  cursor_u64(&c);
  read_text(&c, name);
  read_text(&c, text);
  snprintf(out, capacity, " %.60s%s%.120s", name, text[0] ? ": " : "", text);
}

void record_text(const struct record_head *h, const uint8_t *body, char out_text[MAX_REASON_BYTES]) {
  const char *job = job_name(h);
  int n = snprintf(out_text, MAX_REASON_BYTES, "%s%s%s", record_kind_name(h->kind), job[0] ? " " : "", job);
  if (h->kind == RECORD_NOTE)
    note_text(body, h->n_body, out_text + n, MAX_REASON_BYTES - (size_t)n);
}
