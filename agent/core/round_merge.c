#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/round_machine.h"
#include "base/must.h"
#include "models/merging/mixing.h"
#include "models/merging/rule.h"

/* ---- gathering ---------------------------------------------------------------------------------------------------- */

void machine_start_gather(struct round_machine *m, uint64_t now_ms) {
  m->clock_ms = now_ms;
  m->deadline_ms = deadline_ms(&m->deadline, m->training_ms);
  for (size_t i = 0; i < m->self.n_peers; i++) {
    m->peers[i].is_heard = false;
    m->peers[i].arrival_ms = -1;
  }
  machine_choose(m, false);
  machine_enter(m, PHASE_GATHERING);
}

bool machine_waits_for(const struct round_machine *m, const struct round_peer *p) {
  return m->phase == PHASE_GATHERING && p->is_chosen && !p->is_heard && round_peer_standing(p) == ERR_OK;
}

static void sample_arrival(struct round_machine *m, struct round_peer *p) {
  if (p->is_heard) {
    deadline_sample(&m->deadline, (uint64_t)p->arrival_ms);
    return;
  }
  p->open_sample = deadline_sample(&m->deadline, 2 * m->deadline_ms);
  p->has_open_sample = true;
  p->open_round = m->in_work.round;
  p->open_clock_ms = m->clock_ms;
}

static void end_gather(struct round_machine *m) {
  for (size_t i = 0; i < m->self.n_peers; i++) {
    struct round_peer *p = &m->peers[i];
    bool was_awaited = p->is_chosen && round_peer_standing(p) == ERR_OK;
    if (was_awaited)
      sample_arrival(m, p);
    enum err changed = round_peer_gather_ended(p, was_awaited);
    if (changed != ERR_OK)
      machine_note(m, changed == ERR_SLOW ? "peer-slow" : "peer-absent", i, "it is no longer waited for");
  }
  machine_start_merge(m, JOB_MERGE);
}

void machine_tick_gathering(struct round_machine *m, uint64_t now_ms) {
  bool all_heard = true;
  for (size_t i = 0; i < m->self.n_peers; i++) {
    struct round_peer *p = &m->peers[i];
    if (!p->is_heard && round_peer_has_spoken(p, m->in_work)) {
      p->is_heard = true;
      p->arrival_ms = (int64_t)(now_ms - m->clock_ms);
    }
    all_heard = all_heard && !machine_waits_for(m, p);
  }
  if (all_heard || now_ms >= m->clock_ms + m->deadline_ms)
    end_gather(m);
}

/* ---- merging ------------------------------------------------------------------------------------------------------ */

static uint32_t count_chosen(const struct round_machine *m) {
  uint32_t n = 0;
  for (size_t i = 0; i < m->self.n_peers; i++)
    n += m->peers[i].is_chosen;
  return n;
}

/* Of push-sum only for show: what it gives is its own affair. */
static double weight_of(const struct round_machine *m, size_t peer) {
  if (m->config->is_push_sum)
    return 1.0 / (1 + (double)count_chosen(m));
  if (!m->config->by_samples)
    return mixing_metropolis(count_chosen(m), m->peers[peer].next.degree);
  uint32_t counts[MAX_PEERS + 1];
  counts[0] = m->shown.n_samples;
  for (size_t i = 0; i < m->self.n_peers; i++) {
    uint32_t n = m->peers[i].next.samples;
    counts[i + 1] = n <= MAX_SAMPLES ? n : 0;
  }
  return mixing_by_samples(counts, m->self.n_peers + 1, peer + 1, m->config->max_share);
}

/* Lag, and whether the copy is too old. One that moved since the last merge counts with lag τ at worst, also when its label
 * is that much too high: nobody who is not allowed to lead us there says how fresh it is. One that did not move and is off
 * by more than τ returns its weight to ourselves. */
static enum err lag_of(const struct round_machine *m, const struct round_peer *p, uint32_t *out_lag) {
  uint64_t round = m->in_work.round, most = m->config->staleness_max;
  bool is_ahead = p->next.round > round;
  uint64_t off = is_ahead ? p->next.round - round : round - p->next.round;
  if (off > most && !round_peer_has_advanced(p))
    return ERR_STALE;
  uint64_t lag = is_ahead && off <= most ? 0 : off;
  *out_lag = (uint32_t)(lag < most ? lag : most);
  return ERR_OK;
}

static struct chain_place place_after(const struct round_peer *p, const struct merge_peer *row, size_t n_links) {
  return n_links > 0 ? link_place(&row->links[n_links - 1].manifest) : p->inbox.copy;
}

static void fill_row(struct round_machine *m, struct merge_peer *row) {
  struct round_peer *p = &m->peers[row->peer];
  enum err e = round_peer_copy_check(p);
  if (e == ERR_OK)
    e = lag_of(m, p, &row->lag);
  row->use = e == ERR_OK;
  p->last_reason = e;
  if (e == ERR_STALE && round_peer_missing_reason(p) != ERR_LATE)
    p->last_reason = round_peer_missing_reason(p); /* says why it is that old */
  if (row->use)
    row->weight = mixing_stale(weight_of(m, row->peer) * p->affinity, row->lag);
}

static struct copy_place copy_place(const struct chain_place *c) {
  return (struct copy_place){chain_mark(&c->position), c->round, c->samples, c->degree};
}

/* Up to which round links are taken. Sums are like full copies where one jumps, and where they are of so far ahead that waiting for
 * their round would keep what is given for ever on its way. */
static uint64_t last_taken(const struct round_machine *m, const struct inbox *in) {
  uint64_t round = m->in_work.round;
  bool is_far = in->n_queue > 0 && in->queue[0].manifest.round > round + m->config->staleness_max;
  return m->config->is_push_sum && (m->phase == PHASE_JUMPING || is_far) ? UINT64_MAX : round;
}

static void take_links(struct round_machine *m, size_t peer, struct merge_peer *row) {
  struct round_peer *p = &m->peers[peer];
  row->peer = peer;
  machine_look_after(m, peer);
  row->links = inbox_take(&p->inbox, last_taken(m, &p->inbox), &row->n_links);
  struct chain_place place = place_after(p, row, row->n_links);
  p->next = copy_place(&place);
}

/* JOB_ADOPT takes the first few sources only; the others' links stay where they are. All links are taken before the first
 * weight is set: weights by samples depend on every count. */
void machine_start_merge(struct round_machine *m, enum trainer_job_kind kind) {
  struct trainer_job *job = machine_trainer_job(m, kind);
  job->whole_snapshot = m->phase == PHASE_JUMPING;
  if (m->phase == PHASE_JUMPING)
    machine_choose(m, true);
  job->is_withheld = m->is_withheld;
  m->is_withheld = false;
  job->peers = calloc(m->self.n_peers + 1, sizeof *job->peers);
  MUST(job->peers != NULL);
  for (size_t i = 0; i < m->self.n_peers; i++) {
    bool is_ready = round_peer_is_source(&m->peers[i]) && inbox_has_copy(&m->peers[i].inbox);
    if (kind == JOB_MERGE || (is_ready && job->n_peers < MAX_ADOPTED_COPIES))
      take_links(m, i, &job->peers[job->n_peers++]);
    m->peers[i].last_reason = ERR_LATE;
    m->peers[i].last_weight = m->peers[i].last_share = m->peers[i].last_distance = 0;
    m->peers[i].last_fate = FATE_KEPT;
  }
  for (size_t i = 0; i < job->n_peers; i++)
    fill_row(m, &job->peers[i]);
  machine_enter(m, PHASE_MERGING);
  machine_put_train(m, job);
}

static bool is_jump(const struct trainer_result *r) {
  return r->half.n_bytes > 0; /* only jumps and adoptions store a whole snapshot */
}

static enum round_outcome outcome_of(const struct trainer_result *r, bool is_short) {
  if (r->kind == JOB_ADOPT)
    return ROUND_ADOPTED;
  if (is_jump(r))
    return ROUND_JUMPED;
  if (r->error == ERR_MERGE_REFUSED)
    return ROUND_MERGE_REFUSED;
  return is_short ? ROUND_SHORT : ROUND_MERGED;
}

static void on_broken_copy(struct round_machine *m, size_t peer, enum err reason) {
  struct round_peer *p = &m->peers[peer];
  p->last_reason = reason;
  m->ports->count(m->self.context, peer, reason);
  if (p->inbox.n_broken >= QUARANTINE_AFTER)
    machine_quarantine(m, peer, "peer-quarantined", reason);
  else
    machine_note(m, "copy-broken", peer, err_sentence(reason));
}

/* What became of one peer's links; true when it took part: its copy moved, or a full copy had brought it to this round
 * before. */
static bool settle_row(struct round_machine *m, const struct merge_peer *row) {
  struct round_peer *p = &m->peers[row->peer];
  struct chain_place place = place_after(p, row, row->n_applied);
  p->next = copy_place(&place);
  inbox_applied(&p->inbox, &place, row->n_applied, row->reason);
  machine_look_after(m, row->peer);
  p->last_lag = row->lag;
  if (row->reason != ERR_OK) {
    on_broken_copy(m, row->peer, row->reason);
    return false;
  }
  p->last_weight = row->weight;
  p->last_fate = row->fate;
  p->last_share = row->share;
  p->last_distance = row->distance;
  bool advanced = round_peer_has_advanced(p);
  bool takes_part = advanced || p->next.round >= m->in_work.round;
  if (p->last_reason != ERR_OK && p->is_chosen && advanced)
    m->ports->count(m->self.context, row->peer, p->last_reason);
  if (p->last_reason == ERR_OK && !takes_part)
    p->last_reason = round_peer_missing_reason(p);
  if (p->last_reason != ERR_OK)
    return false;
  if (advanced)
    p->merged = p->next.mark;
  return true;
}

static void fill_contribution(const struct round_machine *m, size_t peer, struct store_contribution *c) {
  const struct round_peer *p = &m->peers[peer];
  memcpy(c->origin, m->self.peers[peer].key.bytes, sizeof c->origin);
  snprintf(c->name, sizeof c->name, "%s", m->self.peers[peer].name);
  c->reason = p->last_reason;
  c->lag = p->last_lag;
  c->weight = p->last_weight;
  c->boot_epoch = p->merged.boot_epoch;
  c->sequence = p->merged.sequence;
  c->arrival_ms = p->arrival_ms;
}

static uint64_t link_bytes_of(const struct merge_peer *row) {
  uint64_t n = 0;
  for (size_t i = 0; i < row->n_links; i++)
    n += row->links[i].manifest.n_payload;
  return n;
}

struct scribe_job *machine_commit_job(const struct round_machine *m, struct trainer_result *r, struct round_label label,
                                      enum round_outcome outcome) {
  struct scribe_job *job = machine_scribe_job(SCRIBE_COMMIT);
  job->model = r->model;
  job->half = r->half;
  job->shadow = r->shadow;
  r->model = r->half = r->shadow = (struct buffer){0}; /* now the job's */
  job->commitment = (struct store_commitment){
      .job = m->config->identity.job,
      .label = label,
      .outcome = outcome,
      .model = job->model.bytes,
      .n_model = job->model.n_bytes,
      .own_half = job->half.bytes,
      .n_own_half = job->half.n_bytes,
      .shadow = job->shadow.bytes,
      .n_shadow = job->shadow.n_bytes,
      .shadow_headline = r->shadow_figures.headline,
      .shadow_seconds = r->shadow_figures.seconds,
      .metrics = r->metrics,
      .tasks = r->tasks,
  };
  return job;
}

void machine_release(struct round_machine *m) {
  if (m->held)
    machine_put_write(m, m->held);
  m->held = NULL; /* now the scribe's */
}

/* It waits for the training that may follow where that is as brief as the last one; not with what jumped, nor while something else
 * waits for the commit. */
static void put_commit(struct round_machine *m, struct trainer_result *r, struct round_label label,
                       enum round_outcome outcome, uint64_t now_ms) {
  struct scribe_job *job = machine_commit_job(m, r, label, outcome);
  size_t n = m->self.n_peers;
  job->contributions = calloc(n + 1, sizeof *job->contributions);
  MUST(job->contributions != NULL);
  for (size_t i = 0; i < n; i++)
    fill_contribution(m, i, &job->contributions[i]);
  for (size_t i = 0; i < r->n_peers; i++) {
    job->contributions[r->peers[i].peer].fate = r->peers[i].fate;
    job->contributions[r->peers[i].peer].n_bytes = link_bytes_of(&r->peers[i]);
  }
  job->commitment.contributions = job->contributions;
  job->commitment.n_contributions = n;
  job->commitment.sent_bytes = m->sent_bytes - m->sent_at_commit;
  job->commitment.received_bytes = m->received_bytes - m->received_at_commit;
  job->commitment.seconds = (double)(now_ms - m->started_ms) / 1000;
  m->sent_at_commit = m->sent_bytes;
  m->received_at_commit = m->received_bytes;
  m->commit_pending = true;
  m->held = job;
  bool may_wait = m->config->hold_ms > 0 && m->training_ms <= m->config->hold_ms && !job->commitment.own_half &&
                  m->raising_above == 0;
  m->held_until_ms = now_ms + m->config->hold_ms;
  if (!may_wait)
    machine_release(m);
}

/* Peers of another group do not count: nobody is alone for want of them. Nor, in the last round, does who has finished and told
 * all it had: it may have jumped there, and nothing more comes. */
uint32_t machine_min_peers(const struct round_machine *m) {
  uint32_t n = 0;
  bool is_last = m->reached.round + 1 == m->config->count;
  for (size_t i = 0; i < m->self.n_peers; i++) {
    const struct round_peer *p = &m->peers[i];
    bool is_through = is_last && round_peer_standing(p) == ERR_FINISHED;
    n += p->is_followed && !round_peer_is_elsewhere(p) && !is_through;
  }
  return n < m->config->min_peers ? n : m->config->min_peers;
}

/* An adoption that found no usable copy goes back to meeting; everything else is committed. */
void machine_on_merge_result(struct round_machine *m, struct trainer_result *r, uint64_t now_ms) {
  uint32_t n_merged = 0;
  MUST(r->error == ERR_OK || r->error == (r->kind == JOB_ADOPT ? ERR_NOT_FOUND : ERR_MERGE_REFUSED));
  for (size_t i = 0; i < r->n_peers; i++)
    n_merged += settle_row(m, &r->peers[i]);
  if (r->kind == JOB_ADOPT && r->error != ERR_OK) {
    machine_jump_failed(m, now_ms);
    return;
  }
  bool is_short = !is_jump(r) && n_merged < machine_min_peers(m);
  bool stays = is_short || (r->kind == JOB_MERGE && !is_jump(r) && machine_marks_time(m));
  struct round_label label =
      stays ? (struct round_label){m->reached.round, m->reached.sub + 1} : (struct round_label){m->in_work.round, 0};
  m->rounds_alone = is_short ? m->rounds_alone + 1 : 0;
  m->shown.has_loss = m->has_loss;
  m->shown.train_loss = m->train_loss;
  m->has_loss = false;
  m->shown.metrics = r->metrics;
  m->shown.n_merged = n_merged;
  m->shown.n_expected = m->config->is_push_sum ? (uint32_t)m->n_followed : count_chosen(m);
  put_commit(m, r, label, outcome_of(r, stays), now_ms);
  m->reached = label;
  m->in_work = label;
  machine_go_on(m, now_ms);
  if (m->phase != PHASE_TRAINING)
    machine_release(m);
}

/* A peer learns what became of its update, merged or refused for good, so that a finished one need not wait for us. */
static void tell_outcomes(const struct round_machine *m) {
  for (size_t i = 0; i < m->self.n_peers; i++) {
    const struct round_peer *p = &m->peers[i];
    bool is_merged = p->last_reason == ERR_OK;
    if (!p->has_session || !(is_merged || inbox_is_current(&p->inbox)))
      continue;
    m->ports->done(m->self.context, i, is_merged ? p->merged.sequence : p->inbox.newest.sequence, p->last_reason);
  }
}

void machine_on_committed(struct round_machine *m) {
  m->commit_pending = false;
  m->committed = m->reached;
  tell_outcomes(m);
  machine_note(m, "round-committed", SIZE_MAX, "");
  if (m->phase == PHASE_COMMITTING)
    m->phase = PHASE_IDLE;
  machine_publish_waiting(m);
  m->ports->state_changed(m->self.context);
}
