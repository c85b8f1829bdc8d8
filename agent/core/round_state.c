#include "agent/core/round_state.h"

#include <stdlib.h>
#include <string.h>

#include "agent/core/fields.h"

/* NOLINTBEGIN(bugprone-macro-parentheses): members */
#define PLACE(type, member)                                                                                            \
  FIELD_POSITION(type, member.position), FIELD_ANY(type, member.round), FIELD_ANY(type, member.sub),                   \
      FIELD_ANY(type, member.samples), FIELD_ANY(type, member.degree)
/* NOLINTEND(bugprone-macro-parentheses) */

/* ---- tables ------------------------------------------------------------------------------------------------------- */

static const struct field config_fields[] = {
#define OF(form, ...) FIELD_##form(struct round_config, __VA_ARGS__)
    OF(RAW, identity.swarm),
    OF(RAW, identity.job),
    OF(RAW, identity.schema),
    OF(RAW, identity.contract),
    OF(ANY, encoding),
    OF(UP_TO, link_bytes, MAX_LENGTH),
    OF(UP_TO, full_bytes, MAX_LENGTH),
    OF(ANY, payload_max_bytes),
    OF(UP_TO, snapshot_max_bytes, MAX_LENGTH),
    OF(ANY, count),
    OF(ANY, min_peers),
    OF(ANY, alone_rounds),
    OF(ANY, staleness_max),
    OF(BOOL, by_samples),
    OF(ANY, max_share),
    OF(UP_TO, deadline_min_ms, MAX_TIME_MS),
    OF(UP_TO, deadline_max_ms, MAX_TIME_MS),
    OF(UP_TO, meet_ms, MAX_TIME_MS),
    OF(UP_TO, linger_ms, MAX_TIME_MS),
    OF(UP_TO, every_ms, MAX_TIME_MS),
    OF(UP_TO, hold_ms, MAX_TIME_MS),
    OF(BOOL, is_pooled),
    OF(BOOL, is_clustered),
    OF(UP_TO, topology.rule, N_GRAPH_RULES - 1),
    OF(UP_TO, topology.k, MAX_PEERS),
    OF(BOOL, topology.is_directed),
    OF(BOOL, is_steps_auto),
    OF(BOOL, is_push_sum),
#undef OF
};

static const struct field machine_fields[] = {
#define OF(form, ...) FIELD_##form(struct round_machine, __VA_ARGS__)
    OF(ANY, self.boot_epoch),
    OF(UP_TO, phase, N_PHASES - 1),
    OF(ANY, due_ms),
    OF(LABEL, committed),
    OF(LABEL, reached),
    OF(LABEL, in_work),
    OF(POSITION, own),
    OF(ANY, last_sequence),
    OF(BOOL, starts_chain),
    OF(BOOL, begins_anew),
    OF(BOOL, encodes_full),
    OF(UP_TO, started_ms, MAX_TIME_MS),
    OF(UP_TO, clock_ms, MAX_TIME_MS),
    OF(UP_TO, deadline_ms, MAX_TIME_MS),
    OF(ANY, deadline.n_arrivals),
    OF(UP_TO, training_ms, MAX_TIME_MS),
    OF(BOOL, has_loss),
    OF(ANY, train_loss),
    OF(ANY, train_failures),
    OF(ANY, epoch_steps),
    OF(ANY, steps),
    OF(UP_TO, next_training_ms, MAX_TIME_MS),
    OF(UP_TO, held_until_ms, MAX_TIME_MS),
    OF(UP_TO, resume_at, RESUME_PUBLISHED),
    OF(BOOL, awaits_scale),
    OF(BOOL, is_adopting),
    OF(ANY, rounds_alone),
    OF(UP_TO, wait_until_ms, MAX_TIME_MS),
    OF(UP_TO, next_jump_ms, MAX_TIME_MS),
    OF(ERR, halted),
    OF(BOOL, is_tight),
    OF(BOOL, is_withheld),
    OF(UP_TO, retry_at_ms, MAX_TIME_MS),
    OF(ANY, raising_above),
    OF(ERR, back.error),
    OF(LABEL, back.to),
    OF(LABEL, back.label),
    OF(ANY, notice_round),
    OF(UP_TO, finished_at_ms, MAX_TIME_MS),
    OF(BOOL, is_short),
    OF(BOOL, has_failed),
    OF(ANY, shown.n_samples),
    OF(ANY, shown.n_merged),
    OF(ANY, shown.n_expected),
    OF(ANY, sent_at_commit),
    OF(ANY, received_at_commit),
#undef OF
};

static const struct field peer_fields[] = {
#define OF(form, ...) FIELD_##form(struct round_peer, __VA_ARGS__)
    OF(POSITION, inbox.newest),
    PLACE(struct round_peer, inbox.held),
    PLACE(struct round_peer, inbox.copy),
    OF(ANY, inbox.none_round),
    OF(UP_TO, inbox.n_queue, KEEP_PAYLOADS),
    OF(UP_TO, inbox.n_offers, KEEP_PAYLOADS),
    OF(BOOL, inbox.needs_full),
    OF(BOOL, inbox.is_fetching),
    OF(ANY, inbox.fetching_bytes),
    OF(UP_TO, inbox.not_before_ms, MAX_TIME_MS),
    OF(ANY, inbox.n_broken),
    OF(UP_TO, inbox.n_remembered, N_REMEMBERED),
    OF(ANY, inbox.next_forgotten),
    OF(BOOL, has_session),
    OF(BOOL, has_hello),
    OF(BOOL, has_state),
    OF(BOOL, state.follows),
    OF(BOOL, state.finished),
    OF(UP_TO, state.phase, N_PHASES - 1),
    OF(ANY, state.round),
    OF(ANY, state.round_in_work),
    OF(ANY, round_told),
    OF(ERR, link_reason),
    OF(ERR, job_reason),
    OF(BOOL, is_absent),
    OF(BOOL, is_slow),
    OF(BOOL, is_quarantined),
    OF(BOOL, is_placed),
    OF(ANY, affinity),
    OF(ANY, missed_without_session),
    OF(ANY, missed_with_session),
    OF(BOOL, has_news),
    OF(MARK, seen),
    OF(MARK, merged),
    OF(MARK, next.mark),
    OF(ANY, next.round),
    OF(ANY, next.samples),
    OF(ANY, next.degree),
    OF(ANY, taken_sequence),
    OF(BOOL, has_base),
    OF(UP_TO, lost_at_ms, MAX_TIME_MS),
    OF(UP_TO, epoch_steps, MAX_SAMPLES),
    OF(ANY, signed_round),
    OF(BOOL, must_prove),
    OF(BOOL, has_offered),
    OF(BOOL, is_slow_to_download),
    OF(BOOL, is_chosen),
    OF(BOOL, is_heard),
    OF(ANY, arrival_ms),
    OF(BOOL, has_open_sample),
    OF(ANY, open_sample),
    OF(ANY, open_round),
    OF(UP_TO, open_clock_ms, MAX_TIME_MS),
    OF(ERR, last_reason),
    OF(ANY, last_weight),
    OF(ANY, last_lag),
#undef OF
};

static const struct field remembered_fields[] = {
    FIELD_ANY(struct remembered, boot_epoch),
    FIELD_ANY(struct remembered, sequence),
    FIELD_UP_TO(struct remembered, kind, N_MANIFEST_KINDS - 1),
    FIELD_RAW(struct remembered, root),
};

static const struct field notice_fields[] = {
    FIELD_UP_TO(struct wire_notice, kind, N_NOTICES - 1),
    FIELD_ANY(struct wire_notice, round),
    FIELD_ANY(struct wire_notice, sub),
    FIELD_OF(struct wire_notice, text, FIELD_TEXT, 0),
};

/* ---- writing ------------------------------------------------------------------------------------------------------ */

bool round_state_is_quiet(const struct round_machine *m) {
  return !m->trained && !m->held && !m->commit_pending && !m->publishing && !m->unwritten[0] &&
         m->back.stage == BACK_NONE;
}

void state_write_manifest(const struct manifest *m, struct writer *w) {
  uint8_t bytes[MANIFEST_BYTES];
  manifest_write(m, bytes);
  writer_bytes(w, bytes, sizeof bytes);
}

static void write_notice(const struct wire_notice *notice, struct writer *w) {
  writer_u8(w, notice != NULL);
  if (notice)
    FIELDS_WRITE(notice_fields, notice, w);
}

static void write_peer(const struct round_machine *m, size_t i, struct writer *w) {
  const struct round_peer *p = &m->peers[i];
  FIELDS_WRITE(peer_fields, p, w);
  write_notice(p->noticed, w);
  writer_u64(w, due_get(&m->pump_ms, i));
  for (size_t k = 0; k < p->inbox.n_queue; k++)
    state_write_manifest(&p->inbox.queue[k].manifest, w);
  for (size_t k = 0; k < p->inbox.n_offers; k++)
    state_write_manifest(&p->inbox.offers[k], w);
  for (size_t k = 0; k < p->inbox.n_remembered; k++)
    FIELDS_WRITE(remembered_fields, &p->inbox.remembered[k], w);
}

static size_t n_kept(const struct deadline *d) {
  size_t n = d->n_arrivals < DEADLINE_SAMPLES ? (size_t)d->n_arrivals : DEADLINE_SAMPLES;
  return n < d->capacity ? n : d->capacity;
}

static void write_deadline(const struct deadline *d, struct writer *w) {
  writer_u8(w, (uint8_t)n_kept(d));
  for (size_t i = 0; i < n_kept(d); i++)
    writer_u32(w, d->arrivals_ms[i]);
}

void round_state_write(const struct round_machine *m, struct writer *w) {
  FIELDS_WRITE(config_fields, m->config, w);
  writer_u16(w, (uint16_t)m->self.n_peers);
  writer_u16(w, (uint16_t)m->self.n_before);
  for (size_t i = 0; i < m->self.n_peers; i++) {
    const struct gossip_peer_config *peer = &m->self.peers[i];
    size_t n = strlen(peer->name);
    writer_bytes(w, peer->key.bytes, sizeof peer->key.bytes);
    writer_u8(w, (uint8_t)n);
    writer_bytes(w, peer->name, n);
  }
  FIELDS_WRITE(machine_fields, m, w);
  write_deadline(&m->deadline, w);
  write_notice(m->notice, w);
  for (size_t i = 0; i < m->self.n_peers; i++)
    write_peer(m, i, w);
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

void round_lent_free(struct round_lent *lent) {
  if (!lent)
    return;
  free(lent->peers);
  free(lent->names);
  free(lent);
}

void state_read_manifest(struct cursor *c, struct manifest *out_manifest) {
  const uint8_t *bytes = cursor_view(c, MANIFEST_BYTES);
  if (bytes && manifest_read(bytes, MANIFEST_BYTES, out_manifest) != ERR_OK)
    c->failed = true;
}

static enum err read_names(struct cursor *c, size_t n, struct round_lent *out) {
  out->peers = calloc(n + 1, sizeof *out->peers);
  out->names = calloc(n + 1, sizeof *out->names);
  if (!out->peers || !out->names)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < n && !c->failed; i++) {
    cursor_bytes(c, out->peers[i].key.bytes, sizeof out->peers[i].key.bytes);
    size_t n_name = cursor_u8(c);
    const uint8_t *name = n_name < MAX_NAME_BYTES ? cursor_view(c, n_name) : NULL;
    if (!name)
      return ERR_SYNTAX;
    memcpy(out->names[i], name, n_name);
    out->peers[i].name = out->names[i];
    out->peers[i].address = "";
  }
  return c->failed ? ERR_SYNTAX : ERR_OK;
}

static enum err read_notice(struct cursor *c, struct wire_notice **out) {
  uint8_t has = cursor_u8(c);
  if (has != 1) {
    c->failed = c->failed || has != 0;
    return ERR_OK;
  }
  *out = calloc(1, sizeof **out);
  if (!*out)
    return ERR_NO_MEMORY;
  FIELDS_READ(notice_fields, c, *out);
  return ERR_OK;
}

/* The counts stand already; each array has its bound and so has what is allocated. */
static enum err read_inbox(struct cursor *c, struct inbox *in) {
  size_t n_queue = in->n_queue;
  in->n_queue = 0;
  in->queue_capacity = in->offer_capacity = KEEP_PAYLOADS;
  in->remembered_capacity = N_REMEMBERED;
  in->queue = calloc(KEEP_PAYLOADS, sizeof *in->queue);
  in->offers = calloc(KEEP_PAYLOADS, sizeof *in->offers);
  in->remembered = calloc(N_REMEMBERED, sizeof *in->remembered);
  if (!in->queue || !in->offers || !in->remembered)
    return ERR_NO_MEMORY;
  for (; in->n_queue < n_queue && !c->failed; in->n_queue++) {
    state_read_manifest(c, &in->queue[in->n_queue].manifest);
    in->queue[in->n_queue].payload = malloc(1);
    if (!in->queue[in->n_queue].payload)
      return ERR_NO_MEMORY;
  }
  for (size_t i = 0; i < in->n_offers && !c->failed; i++)
    state_read_manifest(c, &in->offers[i]);
  for (size_t i = 0; i < in->n_remembered && !c->failed; i++)
    FIELDS_READ(remembered_fields, c, &in->remembered[i]);
  return ERR_OK;
}

static enum err read_peer(struct cursor *c, struct round_machine *m, size_t i) {
  struct round_peer *p = &m->peers[i];
  FIELDS_READ(peer_fields, c, p);
  enum err e = read_notice(c, &p->noticed);
  due_set(&m->pump_ms, i, cursor_u64(c));
  if (c->failed) { /* counts without what they count */
    p->inbox.n_queue = p->inbox.n_offers = p->inbox.n_remembered = 0;
    return ERR_SYNTAX;
  }
  return e == ERR_OK ? read_inbox(c, &p->inbox) : e;
}

/* As many as the count says that there are. */
static enum err read_deadline(struct cursor *c, struct deadline *d) {
  size_t n = cursor_u8(c), n_all = d->n_arrivals < DEADLINE_SAMPLES ? (size_t)d->n_arrivals : DEADLINE_SAMPLES;
  if (c->failed || n != n_all)
    return ERR_SYNTAX;
  d->arrivals_ms = calloc(DEADLINE_SAMPLES, sizeof *d->arrivals_ms);
  d->capacity = d->arrivals_ms ? DEADLINE_SAMPLES : 0;
  for (size_t i = 0; d->arrivals_ms && i < n; i++)
    d->arrivals_ms[i] = cursor_u32(c);
  return d->arrivals_ms ? ERR_OK : ERR_NO_MEMORY;
}

static enum err read_machine(struct cursor *c, struct round_machine *m) {
  FIELDS_READ(machine_fields, c, m);
  enum err e = c->failed ? ERR_SYNTAX : read_deadline(c, &m->deadline);
  if (e == ERR_OK)
    e = read_notice(c, &m->notice);
  for (size_t i = 0; e == ERR_OK && i < m->self.n_peers; i++)
    e = read_peer(c, m, i);
  return e == ERR_OK && cursor_end(c) != ERR_OK ? ERR_SYNTAX : e;
}

static bool is_possible(const struct job_topology *t, size_t n_agents) {
  char why[MAX_REASON_BYTES];
  return (!graph_rule_has_number(t->rule) || t->k > 0) && job_topology_check(t, n_agents, why) == ERR_OK;
}

enum err round_state_read(struct cursor *c, const struct round_ports *ports, void *context,
                          struct round_lent **out_lent, struct round_machine **out_machine) {
  struct round_machine *m = NULL;
  struct round_lent *lent = calloc(1, sizeof *lent);
  if (!lent)
    return ERR_NO_MEMORY;
  FIELDS_READ(config_fields, c, &lent->config);
  size_t n_peers = cursor_u16(c), n_before = cursor_u16(c);
  bool may_be =
      !c->failed && n_peers <= MAX_PEERS && n_before <= n_peers && is_possible(&lent->config.topology, n_peers + 1);
  enum err e = may_be ? read_names(c, n_peers, lent) : ERR_SYNTAX;
  struct round_self self = {.peers = lent->peers, .n_peers = n_peers, .context = context, .n_before = n_before};
  if (e == ERR_OK)
    e = round_new(&lent->config, &self, ports, &m);
  if (e == ERR_OK)
    e = read_machine(c, m);
  if (e != ERR_OK) {
    round_free(m);
    round_lent_free(lent);
    return e;
  }
  *out_lent = lent;
  *out_machine = m;
  return ERR_OK;
}
