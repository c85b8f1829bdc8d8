#include <string.h>

#include "agent/sim/parts.h"
#include "gossip/seals.h"

void sim_note(struct sim_agent *a, const char *name, size_t peer, const char *text) {
  const struct sim_watch *w = &a->sim->watch;
  if (w->noted)
    w->noted(w->context, a, name, peer == SIZE_MAX ? SIZE_MAX : a->peers[peer].agent, text);
}

/* Whether a reason may be counted: what says that somebody lied is for those who did. */
static void check_blame(struct sim_agent *a, size_t peer, enum err reason) {
  bool blames = reason == ERR_EQUIVOCATION || reason == ERR_ROOT || reason == ERR_FALSE_HISTORY ||
                reason == ERR_SIGNATURE || reason == ERR_ORIGIN;
  sim_holds(a, SIM_INVARIANT_NOT_BLAMED, !blames || a->sim->agents[a->peers[peer].agent]->has_lied);
}

static bool is_durable(const struct sim_durable *d, uint64_t boot_epoch, uint64_t sequence) {
  for (size_t i = 0; i < d->n_kept; i++)
    if (d->kept[i].position.boot_epoch == boot_epoch && d->kept[i].position.sequence == sequence)
      return true;
  return false;
}

/* ---- gossip → machine, as agent/run ties them ---- */

static struct sim_agent *touch(void *context) {
  struct sim_agent *a = context;
  a->is_touched = true;
  return a;
}

static void on_session(void *context, size_t peer, bool is_up, enum err reason) {
  struct sim_agent *a = touch(context);
  round_on_session(a->machine, peer, is_up, reason, sim_clock_ms(a));
  if (!is_up)
    sim_group_on_session(a, peer, false);
}

static void on_hello(void *context, size_t peer, size_t job, const struct hello_job *hello) {
  struct sim_agent *a = touch(context);
  struct manifest proof;
  (void)job;
  bool is_proved = hello->has_proof && manifest_read(hello->proof, MANIFEST_BYTES, &proof) == ERR_OK &&
                   identity_key_equal(&proof.origin, &a->key) && digest_equal(&proof.job, &a->sim->job.job) &&
                   sim_seals(a->sim)->verify_manifest(&proof) == ERR_OK;
  if (hello->has_proof && !is_proved) {
    check_blame(a, peer, ERR_FALSE_HISTORY);
    gossip_count(a->node, peer, ERR_FALSE_HISTORY);
  }
  round_on_hello(a->machine, peer, hello, is_proved ? &proof : NULL, sim_clock_ms(a));
  sim_group_on_session(a, peer, true);
}

static void on_refused_job(void *context, size_t peer, size_t job, enum err reason) {
  struct sim_agent *a = touch(context);
  (void)job;
  round_on_refused_job(a->machine, peer, reason, sim_clock_ms(a));
  sim_group_on_session(a, peer, false);
}

static void on_state(void *context, size_t peer, size_t job, const struct wire_state *state) {
  struct sim_agent *a = touch(context);
  (void)job;
  round_on_state(a->machine, peer, state, sim_clock_ms(a));
}

static bool wants_sketch(void *context, size_t peer, size_t job, const struct signed_sketch *s) {
  (void)job;
  return sim_group_wants(touch(context), peer, s);
}

static void on_sketch(void *context, size_t peer, size_t job, const struct signed_sketch *s, const uint8_t *bytes) {
  struct sim_agent *a = touch(context);
  (void)job;
  sim_group_on_sketch(a, peer, s, bytes);
}

static void on_manifest(void *context, size_t peer, size_t job, const struct manifest *m, const uint8_t *bytes) {
  struct sim_agent *a = touch(context);
  struct manifest held;
  (void)job;
  struct sim_peer *p = &a->peers[peer];
  bool is_newer =
      !p->proof || manifest_read(p->proof, MANIFEST_BYTES, &held) != ERR_OK || manifest_compare_position(m, &held) > 0;
  if (!p->proof)
    p->proof = sim_buffer(bytes, MANIFEST_BYTES).bytes;
  else if (is_newer)
    memcpy(p->proof, bytes, MANIFEST_BYTES);
  round_on_manifest(a->machine, peer, m, sim_clock_ms(a));
}

static void on_payload(void *context, size_t peer, size_t job, const struct manifest *m, uint8_t *payload) {
  struct sim_agent *a = touch(context);
  (void)job;
  round_on_payload(a->machine, peer, m, payload, sim_clock_ms(a));
}

static void on_fetch_failed(void *context, size_t peer, size_t job, const struct manifest *m, enum err reason) {
  struct sim_agent *a = touch(context);
  (void)job;
  (void)m;
  round_on_failed(a->machine, peer, reason, sim_clock_ms(a));
}

static void on_answer(void *context, size_t peer, size_t job, uint64_t first, enum err reason) {
  struct sim_agent *a = touch(context);
  (void)job;
  (void)first;
  round_on_failed(a->machine, peer, reason, sim_clock_ms(a));
}

static void on_done(void *context, size_t peer, size_t job, uint64_t sequence, enum err outcome) {
  struct sim_agent *a = touch(context);
  (void)job;
  round_on_done(a->machine, peer, sequence, outcome, sim_clock_ms(a));
}

static void fill_hello(void *context, size_t peer, size_t job, struct hello_job *out_hello) {
  struct sim_agent *a = context;
  (void)job;
  round_fill_hello(a->machine, peer, out_hello);
  out_hello->has_proof = a->peers[peer].proof != NULL;
  if (out_hello->has_proof)
    memcpy(out_hello->proof, a->peers[peer].proof, MANIFEST_BYTES);
  if (a->lie_in_hello) {
    a->has_lied = true;
    a->lie_in_hello(out_hello, a->peers[peer].agent);
  }
}

static void fill_state(void *context, size_t peer, size_t job, struct wire_state *out_state) {
  struct sim_agent *a = context;
  (void)job;
  round_fill_state(a->machine, peer, out_state);
  struct round_label said = {.round = out_state->round, .sub = out_state->sub};
  sim_holds(a, SIM_INVARIANT_SAID_IS_DURABLE, !sim_label_is_after(said, a->durable.committed));
  if (a->lie) {
    a->has_lied = true;
    a->lie(out_state);
  }
}

static enum err find_full(const struct sim_durable *d, size_t i, const uint8_t **out) {
  if (i > 0)
    return ERR_NOT_FOUND;
  for (size_t k = d->n_kept; k-- > 0;) {
    if (d->kept[k].payload.n_bytes == 0)
      continue;
    *out = d->kept[k].copy.n_bytes > 0 ? d->kept[k].copy_manifest : d->kept[k].manifest;
    return ERR_OK;
  }
  return d->n_kept == 0 ? ERR_NOT_YET : ERR_GONE;
}

static enum err find_link(const struct sim_durable *d, uint64_t first, size_t i, const uint8_t **out) {
  if (d->n_kept == 0 || first > d->kept[d->n_kept - 1].position.sequence)
    return i == 0 ? ERR_NOT_YET : ERR_NOT_FOUND;
  if (first < d->kept[0].position.sequence)
    return ERR_GONE;
  for (size_t k = 0; k < d->n_kept; k++) {
    if (d->kept[k].position.sequence < first || i-- > 0)
      continue;
    *out = d->kept[k].manifest;
    return ERR_OK;
  }
  return ERR_NOT_FOUND;
}

static enum err find_manifest(void *context, size_t peer, size_t job, enum manifest_kind kind, uint64_t first, size_t i,
                              uint8_t out_bytes[MANIFEST_BYTES]) {
  const struct sim_agent *a = context;
  const uint8_t *found = NULL;
  (void)peer;
  (void)job;
  enum err e = kind == MANIFEST_FULL ? find_full(&a->durable, i, &found) : find_link(&a->durable, first, i, &found);
  if (e == ERR_OK)
    memcpy(out_bytes, found, MANIFEST_BYTES);
  return e;
}

static enum err read_payload(void *context, size_t job, const struct digest *root, uint64_t offset, uint8_t *out,
                             size_t n) {
  struct sim_agent *a = context;
  (void)job;
  for (size_t k = 0; k < a->durable.n_kept; k++) {
    const struct sim_kept *kept = &a->durable.kept[k];
    bool is_copy = kept->copy.n_bytes > 0 && digest_equal(&kept->copy_root, root);
    bool is_payload = kept->payload.n_bytes > 0 && digest_equal(&kept->payload_root, root);
    const struct buffer *b = is_copy ? &kept->copy : &kept->payload;
    if (!is_copy && !is_payload)
      continue;
    uint64_t said = a->sim->payload_bytes;
    if (offset > said || n > said - offset)
      return ERR_RANGE;
    if (offset < b->n_bytes)
      memcpy(out, b->bytes + offset, n < b->n_bytes - offset ? n : b->n_bytes - offset);
    if (a->corrupt > 0) {
      a->corrupt--;
      a->has_lied = true;
      out[0] ^= 1;
    }
    return ERR_OK;
  }
  return ERR_GONE;
}

const struct gossip_events sim_gossip_events = {
    .on_session = on_session,
    .on_hello = on_hello,
    .on_refused_job = on_refused_job,
    .on_state = on_state,
    .on_manifest = on_manifest,
    .wants_sketch = wants_sketch,
    .on_sketch = on_sketch,
    .on_payload = on_payload,
    .on_fetch_failed = on_fetch_failed,
    .on_answer = on_answer,
    .on_done = on_done,
    .fill_hello = fill_hello,
    .fill_state = fill_state,
    .find_manifest = find_manifest,
    .read_payload = read_payload,
};

/* ---- machine → gossip, trainer, scribe ---- */

static void port_ask(void *context, size_t peer, enum manifest_kind kind, uint64_t first, size_t n) {
  struct sim_agent *a = context;
  a->n_asked_full += kind == MANIFEST_FULL;
  gossip_ask(a->node, peer, SIM_JOB, kind, first, n);
}

static enum err port_fetch(void *context, size_t peer, const struct manifest *m) {
  struct sim_agent *a = context;
  return gossip_fetch(a->node, peer, SIM_JOB, m);
}

static void port_cancel(void *context, size_t peer) {
  struct sim_agent *a = context;
  gossip_fetch_cancel(a->node, peer, SIM_JOB);
}

static uint64_t work_ms(struct sim_agent *a, const struct trainer_job *job) {
  if (job->kind == JOB_LOAD)
    return a->host.loading_ms;
  if (job->kind != JOB_TRAIN)
    return a->host.merging_ms;
  a->n_trainings++;
  a->last_rate_scale = job->rate_scale;
  a->last_steps = job->steps > 0 ? job->steps : a->sim->trainer->epoch_steps(a);
  return a->host.step_ms > 0 ? a->host.step_ms * a->last_steps : a->host.training_ms;
}

static void port_train(void *context, struct trainer_job *job) {
  struct sim_agent *a = context;
  uint64_t at_us = sim_host_compute(&a->host, a->sim->now_us, work_ms(a, job));
  sim_put(a, at_us, (struct sim_event){.kind = SIM_TRAINED, .data = job});
}

static void port_write(void *context, struct scribe_job *job) {
  struct sim_agent *a = context;
  uint64_t held = job->half.n_bytes + job->model.n_bytes, a_vector = a->sim->dims * sizeof(double);
  size_t n_bytes = job->payload.n_bytes + (size_t)(held * a->sim->payload_bytes / a_vector);
  uint64_t at_us = sim_host_write(&a->host, a->sim->now_us, n_bytes);
  sim_put(a, at_us, (struct sim_event){.kind = SIM_DURABLE, .data = job});
}

static void port_sign(void *context, struct manifest *m, uint8_t out_bytes[MANIFEST_BYTES]) {
  struct sim_agent *a = context;
  if (a->lie_in_manifest) {
    a->has_lied = true;
    a->lie_in_manifest(m);
  }
  sim_sign(m, a);
  manifest_write(m, out_bytes);
}

static void port_offer(void *context, const uint8_t manifest[MANIFEST_BYTES]) {
  struct sim_agent *a = context;
  struct manifest m;
  if (sim_holds(a, SIM_INVARIANT_OWN_MANIFEST, manifest_read(manifest, MANIFEST_BYTES, &m) == ERR_OK)) {
    a->n_chains += m.kind == MANIFEST_FULL;
    sim_holds(a, SIM_INVARIANT_SAID_IS_DURABLE, is_durable(&a->durable, m.boot_epoch, m.sequence));
  }
  for (size_t i = 0; i < a->n_peers; i++)
    if (round_is_follower(a->machine, i))
      gossip_offer(a->node, i, SIM_JOB, manifest);
}

static void port_state_changed(void *context) {
  struct sim_agent *a = context;
  gossip_state_changed(a->node, SIM_JOB);
}

static void port_done(void *context, size_t peer, uint64_t sequence, enum err outcome) {
  struct sim_agent *a = context;
  gossip_done(a->node, peer, SIM_JOB, sequence, outcome);
}

static void port_count(void *context, size_t peer, enum err reason) {
  struct sim_agent *a = context;
  check_blame(a, peer, reason);
  if (sim_holds(a, SIM_INVARIANT_DROP_REASON, err_drop_index(reason) >= 0))
    gossip_count(a->node, peer, reason);
}

static void port_note(void *context, const char *name, size_t peer, const char *text) {
  sim_note(context, name, peer, text);
}

const struct round_ports sim_round_ports = {
    .inbox = {.ask = port_ask, .fetch = port_fetch, .cancel = port_cancel},
    .train = port_train,
    .write = port_write,
    .sign = port_sign,
    .offer = port_offer,
    .state_changed = port_state_changed,
    .done = port_done,
    .count = port_count,
    .note = port_note,
};
