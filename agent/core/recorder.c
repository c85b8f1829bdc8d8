#include "agent/core/recorder.h"

#include <stdlib.h>
#include <string.h>

#include "agent/core/record.h"
#include "agent/core/round_state.h"
#include "base/must.h"

struct recorder {
  struct round_machine *machine;
  const struct round_ports *inner;
  void *context;        /* of them */
  uint8_t *bytes;       /* [2 · half] */
  size_t half, used[2]; /* of each half */
  unsigned current;     /* the half that is written */
  bool is_open;         /* what comes is recorded: nothing is missing since the half's checkpoint */
  unsigned n_jobs;      /* with trainer and scribe */
  uint64_t at_ms;       /* of the last input that had a time */
  uint64_t traffic[2];  /* sent, received: told when it matters */
  bool has_traffic;     /* it is not recorded yet */
};

enum err recorder_new(size_t n_bytes, struct recorder **out_recorder) {
  MUST(n_bytes >= RECORDER_MIN_BYTES);
  struct recorder *r = calloc(1, sizeof *r);
  uint8_t *bytes = malloc(n_bytes);
  if (!r || !bytes) {
    free(r);
    free(bytes);
    return ERR_NO_MEMORY;
  }
  r->bytes = bytes;
  r->half = n_bytes / 2;
  *out_recorder = r;
  return ERR_OK;
}

void recorder_free(struct recorder *r) {
  if (!r)
    return;
  free(r->bytes);
  free(r);
}

size_t recorder_bytes(const struct recorder *r) {
  return r->used[0] + r->used[1];
}

void recorder_copy(const struct recorder *r, uint8_t *out_bytes) {
  unsigned older = r->current ^ 1U;
  memcpy(out_bytes, r->bytes + older * r->half, r->used[older]);
  memcpy(out_bytes + r->used[older], r->bytes + r->current * r->half, r->used[r->current]);
}

/* ---- halves ------------------------------------------------------------------------------------------------------- */

static struct writer place(struct recorder *r) {
  struct writer w;
  writer_init(&w, r->bytes + r->current * r->half + r->used[r->current], r->half - r->used[r->current]);
  return w;
}

/* What does not fit closes the half. */
static void keep(struct recorder *r, const struct writer *w) {
  r->is_open = !w->failed;
  if (r->is_open)
    r->used[r->current] += w->n_bytes;
}

static void turn(struct recorder *r) {
  bool follows = r->is_open;
  r->current ^= 1U;
  r->used[r->current] = 0;
  struct writer w = place(r);
  struct record_head head = {.kind = RECORD_CHECKPOINT, .detail = follows, .peer = RECORD_NO_PEER, .at_ms = r->at_ms};
  record_head_write(&head, &w);
  round_state_write(r->machine, &w);
  if (!w.failed) {
    struct writer length;
    writer_init(&length, w.bytes, sizeof head.n_body);
    writer_u32(&length, (uint32_t)(w.n_bytes - RECORD_HEAD_BYTES));
  }
  r->has_traffic = true;
  keep(r, &w);
  if (!r->is_open)
    r->current ^= 1U; /* it has no room: what the other half holds stays, and the next try is here again */
}

static bool should_turn(const struct recorder *r) {
  bool is_filled = !r->is_open || r->used[r->current] > r->half / 4 * 3;
  return is_filled && r->n_jobs == 0 && round_state_is_quiet(r->machine);
}

/* ---- inputs ------------------------------------------------------------------------------------------------------- */

static void put_input(struct recorder *r, const struct round_input *in) {
  if (!r->is_open)
    return;
  struct writer w = place(r);
  record_write_input(in, &w);
  keep(r, &w);
}

/* Only a result makes a commit, which has the counts. */
static void put_traffic(struct recorder *r) {
  if (r->has_traffic)
    put_input(r, &(struct round_input){.kind = INPUT_TRAFFIC,
                                       .now_ms = r->at_ms,
                                       .peer = SIZE_MAX,
                                       .first = r->traffic[0],
                                       .second = r->traffic[1]});
  r->has_traffic = false;
}

static void hear(void *context, const struct round_input *in) {
  struct recorder *r = context;
  if (in->kind == INPUT_TRAFFIC) {
    r->has_traffic = r->has_traffic || in->first != r->traffic[0] || in->second != r->traffic[1];
    r->traffic[0] = in->first;
    r->traffic[1] = in->second;
    return;
  }
  if (should_turn(r))
    turn(r);
  bool is_result = in->kind == INPUT_TRAINED || in->kind == INPUT_WRITTEN;
  struct round_input timed = *in;
  r->at_ms = in->now_ms > r->at_ms ? in->now_ms : r->at_ms;
  timed.now_ms = in->now_ms > 0 ? in->now_ms : r->at_ms;
  r->n_jobs -= is_result;
  if (in->kind == INPUT_TRAINED)
    put_traffic(r);
  put_input(r, &timed);
}

/* ---- outputs ------------------------------------------------------------------------------------------------------ */

static void put_output(struct recorder *r, const struct round_output *out) {
  if (!r->is_open)
    return;
  struct writer w = place(r);
  record_write_output(out, r->at_ms, &w);
  keep(r, &w);
}

static void port_ask(void *context, size_t peer, enum manifest_kind kind, uint64_t first, size_t n) {
  struct recorder *r = context;
  put_output(r,
             &(struct round_output){.kind = RECORD_ASK, .detail = (uint8_t)kind, .peer = peer, .first = first, .n = n});
  r->inner->inbox.ask(r->context, peer, kind, first, n);
}

static enum err port_fetch(void *context, size_t peer, const struct manifest *m) {
  struct recorder *r = context;
  uint8_t bytes[MANIFEST_BYTES];
  manifest_write(m, bytes);
  enum err e = r->inner->inbox.fetch(r->context, peer, m);
  put_output(r, &(struct round_output){.kind = RECORD_FETCH, .peer = peer, .reason = e, .manifest = bytes});
  return e;
}

static void port_cancel(void *context, size_t peer) {
  struct recorder *r = context;
  put_output(r, &(struct round_output){.kind = RECORD_CANCEL, .peer = peer});
  r->inner->inbox.cancel(r->context, peer);
}

static void port_train(void *context, struct trainer_job *job) {
  struct recorder *r = context;
  r->n_jobs++;
  put_output(
      r, &(struct round_output){.kind = RECORD_TRAIN, .detail = (uint8_t)job->kind, .peer = SIZE_MAX, .train = job});
  r->inner->train(r->context, job);
}

static void port_write(void *context, struct scribe_job *job) {
  struct recorder *r = context;
  r->n_jobs++;
  put_output(
      r, &(struct round_output){.kind = RECORD_WRITE, .detail = (uint8_t)job->kind, .peer = SIZE_MAX, .write = job});
  r->inner->write(r->context, job);
}

static void port_sign(void *context, struct manifest *m, uint8_t out_bytes[MANIFEST_BYTES]) {
  struct recorder *r = context;
  r->inner->sign(r->context, m, out_bytes);
  put_output(r, &(struct round_output){.kind = RECORD_SIGN, .peer = SIZE_MAX, .manifest = out_bytes});
}

static void port_offer(void *context, const uint8_t manifest[MANIFEST_BYTES]) {
  struct recorder *r = context;
  put_output(r, &(struct round_output){.kind = RECORD_OFFER, .peer = SIZE_MAX, .manifest = manifest});
  r->inner->offer(r->context, manifest);
}

static void port_state_changed(void *context) {
  struct recorder *r = context;
  put_output(r, &(struct round_output){.kind = RECORD_CHANGED, .peer = SIZE_MAX});
  r->inner->state_changed(r->context);
}

static void port_done(void *context, size_t peer, uint64_t sequence, enum err outcome) {
  struct recorder *r = context;
  put_output(r, &(struct round_output){.kind = RECORD_TELL_DONE, .peer = peer, .first = sequence, .reason = outcome});
  r->inner->done(r->context, peer, sequence, outcome);
}

static void port_count(void *context, size_t peer, enum err reason) {
  struct recorder *r = context;
  put_output(r, &(struct round_output){.kind = RECORD_COUNT, .peer = peer, .reason = reason});
  r->inner->count(r->context, peer, reason);
}

static void port_note(void *context, const char *name, size_t peer, const char *text) {
  struct recorder *r = context;
  put_output(r, &(struct round_output){.kind = RECORD_NOTE, .peer = peer, .name = name, .text = text});
  r->inner->note(r->context, name, peer, text);
}

static const struct round_ports ports = {
    .inbox = {.ask = port_ask, .fetch = port_fetch, .cancel = port_cancel},
    .train = port_train,
    .write = port_write,
    .sign = port_sign,
    .offer = port_offer,
    .state_changed = port_state_changed,
    .done = port_done,
    .count = port_count,
    .note = port_note,
    .hear = hear,
};

void recorder_attach(struct recorder *r, struct round_machine *m) {
  r->machine = m;
  r->inner = m->ports;
  r->context = m->self.context;
  m->ports = &ports;
  m->self.context = r;
}
