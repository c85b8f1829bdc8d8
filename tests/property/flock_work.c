#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "crypto/digest.h"
#include "crypto/merkle.h"
#include "tests/property/flock_parts.h"

struct buffer flock_buffer(const void *bytes, size_t n) {
  struct buffer b = {malloc(n + 1), n};
  MUST(b.bytes != NULL);
  if (n > 0)
    memcpy(b.bytes, bytes, n);
  return b;
}

static struct digest root_of(const void *bytes, size_t n) {
  struct digest root;
  merkle_root(&digest_blake2b, bytes, n, &root);
  return root;
}

/* ---- trainer ---- */

static size_t model_bytes(const struct flock_agent *a) {
  return a->flock->dims * sizeof(double);
}

/* x ‖ x̂, as the half-step's snapshot. */
static struct buffer half_of(const struct flock_agent *a, const double *copy) {
  size_t n = model_bytes(a);
  struct buffer b = {malloc(2 * n + 1), 2 * n};
  MUST(b.bytes != NULL);
  memcpy(b.bytes, a->x, n);
  memcpy(b.bytes + n, copy, n);
  return b;
}

uint32_t flock_epoch_steps(const struct flock_agent *a) {
  return (a->samples + FLOCK_BATCH - 1) / FLOCK_BATCH;
}

static void load(struct flock_agent *a, const struct trainer_job *job, struct trainer_result *r) {
  size_t n = model_bytes(a);
  memset(a->x, 0, n);
  memset(a->copy, 0, n);
  a->has_pending = false;
  for (size_t i = 0; i < FLOCK_MAX; i++)
    memset(a->copies[i], 0, n);
  if (job->half.n_bytes == 2 * n) {
    memcpy(a->x, job->half.bytes, n);
    memcpy(a->copy, job->half.bytes + n, n);
  }
  if (job->model.n_bytes == n)
    memcpy(a->x, job->model.bytes, n);
  r->n_samples = a->samples;
  r->epoch_steps = flock_epoch_steps(a);
}

/* Every agent pulls towards a goal of its own. */
static void step(struct flock_agent *a, const struct trainer_job *job) {
  for (size_t i = 0; i < a->flock->dims; i++) {
    double goal = (double)(a->number + 1) * (i % 2 == 0 ? 1 : -1);
    a->x[i] +=
        0.25 * job->rate_scale * (goal - a->x[i]) + 1e-3 * (double)(job->label.round % 7) + 1e-4 * job->label.sub;
  }
}

static void train(struct flock_agent *a, const struct trainer_job *job, struct trainer_result *r) {
  size_t n = model_bytes(a);
  MUST(!a->has_pending);
  if (a->fail_trainings > 0) {
    a->fail_trainings--;
    r->error = a->fail_with;
    return;
  }
  step(a, job);
  r->payload = flock_buffer(a->x, n);
  double *payload = (double *)(void *)r->payload.bytes;
  for (size_t i = 0; i < a->flock->dims; i++) {
    payload[i] = job->start_chain ? a->x[i] : a->x[i] - a->copy[i];
    a->pending[i] = job->start_chain ? a->x[i] : a->copy[i] + payload[i];
  }
  a->has_pending = true;
  r->payload_root = root_of(r->payload.bytes, n);
  r->half = half_of(a, a->pending);
  r->copy_offset = n;
  r->n_copy = n;
  r->copy_root = root_of(a->pending, n);
  r->n_samples = a->samples;
  r->local_steps = a->last_steps;
  r->seconds = (double)a->training_ms / 1000;
  r->train_loss = (double)job->label.round;
}

/* After each link the copy has the bits that its origin published at that sequence. */
static void check_copy(const struct flock_agent *a, size_t peer, const struct manifest *m) {
  struct digest now = root_of(a->copies[peer], model_bytes(a));
  for (size_t i = 0; i < a->flock->n_agents; i++) {
    const struct flock_agent *origin = &a->flock->agents[i];
    if (!identity_key_equal(identity_public(origin->identity), &m->origin))
      continue;
    for (size_t k = origin->n_used; k-- > 0;)
      if (origin->used[k].boot_epoch == m->boot_epoch && origin->used[k].sequence == m->sequence) {
        HOLDS(digest_equal(&origin->used[k].copy, &now));
        return;
      }
  }
  ck_abort_msg("an update that nobody published");
}

static enum err apply_link(struct flock_agent *a, size_t peer, const struct link_in *link) {
  const struct manifest *m = &link->manifest;
  size_t n = model_bytes(a);
  struct digest root = root_of(link->payload, m->n_payload);
  if (!digest_equal(&root, &m->payload_root))
    return ERR_ROOT;
  if (m->n_payload != n)
    return ERR_LENGTH;
  const double *values = (const double *)(const void *)link->payload;
  for (size_t i = 0; i < a->flock->dims; i++)
    a->copies[peer][i] = m->kind == MANIFEST_FULL ? values[i] : a->copies[peer][i] + values[i];
  check_copy(a, peer, m);
  return ERR_OK;
}

static void apply(struct flock_agent *a, struct merge_peer *p) {
  for (size_t i = 0; i < p->n_links; i++) {
    if (p->reason == ERR_OK && (p->reason = apply_link(a, p->peer, &p->links[i])) == ERR_OK)
      p->n_applied++;
    free(p->links[i].payload);
    p->links[i].payload = NULL;
  }
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void adopt_median(struct flock_agent *a, const size_t *copies, size_t n) {
  for (size_t i = 0; i < a->flock->dims; i++) {
    double v[FLOCK_MAX];
    for (size_t k = 0; k < n; k++)
      v[k] = a->copies[copies[k]][i];
    qsort(v, n, sizeof *v, by_value);
    a->x[i] = n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
  }
}

static void mix(struct flock_agent *a, const struct trainer_job *job) {
  double weights = 0;
  for (size_t k = 0; k < job->n_peers; k++) {
    const struct merge_peer *p = &job->peers[k];
    if (p->reason != ERR_OK || !p->use)
      continue;
    weights += p->weight;
    for (size_t i = 0; i < a->flock->dims; i++)
      a->x[i] += p->weight * (a->copies[p->peer][i] - a->copy[i]);
  }
  HOLDS(weights >= 0 && weights <= 1);
}

static void merge(struct flock_agent *a, struct trainer_job *job, struct trainer_result *r) {
  size_t usable[FLOCK_MAX], n_usable = 0;
  if (a->has_pending)
    memcpy(a->copy, a->pending, model_bytes(a));
  a->has_pending = false;
  for (size_t k = 0; k < job->n_peers; k++) {
    HOLDS(k == 0 || job->peers[k].peer > job->peers[k - 1].peer);
    apply(a, &job->peers[k]);
    if (job->peers[k].reason == ERR_OK)
      usable[n_usable++] = job->peers[k].peer;
  }
  if (job->kind == JOB_ADOPT && n_usable == 0)
    r->error = ERR_NOT_FOUND;
  else if (job->kind == JOB_ADOPT)
    adopt_median(a, usable, n_usable);
  else if (a->merge_is_not_finite)
    r->error = ERR_MERGE_REFUSED;
  else
    mix(a, job);
  a->merge_is_not_finite = false;
  r->peers = job->peers;
  r->n_peers = job->n_peers;
  job->peers = NULL;
  job->n_peers = 0;
  if (r->error == ERR_NOT_FOUND)
    return;
  r->model = flock_buffer(a->x, model_bytes(a));
  if (job->kind == JOB_ADOPT || job->whole_snapshot)
    r->half = half_of(a, a->copy);
}

void flock_do_train(struct flock_agent *a, struct trainer_job *job) {
  static void (*const run[])(struct flock_agent *, struct trainer_job *,
                             struct trainer_result *) = {[JOB_MERGE] = merge, [JOB_ADOPT] = merge};
  struct trainer_result *r = calloc(1, sizeof *r);
  MUST(r != NULL);
  r->kind = job->kind;
  r->label = job->label;
  if (job->kind == JOB_LOAD)
    load(a, job, r);
  else if (job->kind == JOB_TRAIN)
    train(a, job, r);
  else
    run[job->kind](a, job, r);
  trainer_job_free(job);
  round_on_trained(a->machine, r, a->flock->now_ms);
}

/* ---- store ---- */

static void kept_clear(struct flock_kept *k) {
  free(k->payload.bytes);
  free(k->copy.bytes);
  *k = (struct flock_kept){0};
}

void flock_durable_clear(struct flock_durable *d) {
  for (size_t i = 0; i < d->n_kept; i++)
    kept_clear(&d->kept[i]);
  free(d->half.bytes);
  free(d->model.bytes);
  *d = (struct flock_durable){0};
}

static struct buffer again(const struct buffer *b) {
  return b->bytes ? flock_buffer(b->bytes, b->n_bytes) : (struct buffer){0};
}

void flock_durable_copy(struct flock_durable *to, const struct flock_durable *from) {
  *to = *from;
  for (size_t i = 0; i < from->n_kept; i++) {
    to->kept[i].payload = again(&from->kept[i].payload);
    to->kept[i].copy = again(&from->kept[i].copy);
  }
  to->half = again(&from->half);
  to->model = again(&from->model);
}

static bool is_after(struct round_label a, struct round_label b) {
  return a.round != b.round ? a.round > b.round : a.sub > b.sub;
}

/* One payload a (round, sub) of an epoch, one a sequence. */
static void note_used(struct flock_agent *a, const struct store_publication *p, struct digest root,
                      struct digest copy) {
  for (size_t i = 0; i < a->n_used; i++) {
    const struct flock_used *u = &a->used[i];
    bool same_label = u->label.round == p->label.round && u->label.sub == p->label.sub && p->payload;
    if (u->boot_epoch == p->boot_epoch && (same_label || u->sequence == p->sequence))
      ck_abort_msg("agent %zu: two payloads for %llu+%u", a->number, (unsigned long long)p->label.round, p->label.sub);
  }
  a->used = realloc(a->used, (a->n_used + 1) * sizeof *a->used);
  MUST(a->used != NULL);
  a->used[a->n_used++] = (struct flock_used){p->label, p->boot_epoch, p->sequence, root, copy};
}

static void take_half(struct flock_durable *d, const uint8_t *bytes, size_t n) {
  free(d->half.bytes);
  d->half = flock_buffer(bytes, n);
}

static void publish(struct flock_agent *a, const struct scribe_job *job) {
  struct flock_durable *d = &a->durable;
  const struct store_publication *p = &job->publication;
  struct flock_kept k = {.label = p->label, .position = {p->boot_epoch, p->sequence, p->chain}};
  HOLDS(p->boot_epoch == d->boot_epoch);
  HOLDS(is_after(p->label, d->committed));
  HOLDS(d->n_kept == 0 || p->sequence > d->kept[d->n_kept - 1].position.sequence);
  memcpy(k.manifest, job->manifest, MANIFEST_BYTES);
  memcpy(k.copy_manifest, job->copy_manifest, MANIFEST_BYTES);
  if (p->payload) {
    k.payload = flock_buffer(p->payload, p->n_payload);
    k.payload_root = root_of(p->payload, p->n_payload);
    k.copy_root = root_of(p->half + p->copy_offset, p->n_copy);
    if (p->copy_manifest)
      k.copy = flock_buffer(p->half + p->copy_offset, p->n_copy);
    take_half(d, p->half, p->n_half);
    d->is_gathering = true;
    d->published = p->label;
    note_used(a, p, k.payload_root, k.copy_root);
  }
  if (d->n_kept == KEEP_PAYLOADS) {
    kept_clear(&d->kept[0]);
    memmove(d->kept, d->kept + 1, --d->n_kept * sizeof *d->kept);
  }
  d->kept[d->n_kept++] = k;
}

static void tell(struct flock_agent *a, const struct store_commitment *c) {
  struct flock_durable *d = &a->durable;
  HOLDS(a->n_story < FLOCK_STORY);
  struct flock_told *t = &a->story[a->n_story++];
  *t = (struct flock_told){.label = c->label, .outcome = c->outcome, .at_ms = a->flock->now_ms};
  memcpy(&t->model, c->model, sizeof t->model);
  a->n_jumps += c->outcome == ROUND_JUMPED;
  for (size_t i = 0; i < FLOCK_MAX; i++)
    t->reasons[i] = ERR_UNKNOWN_KEY;
  for (size_t i = 0; i < a->n_peers; i++) {
    const struct store_contribution *row = &c->contributions[i];
    size_t who = a->peers[i];
    t->n_merged += row->reason == ERR_OK;
    t->reasons[who] = row->reason;
    t->lags[who] = row->lag;
    t->weights[who] = row->weight;
    t->arrivals_ms[who] = row->arrival_ms;
    d->merged[who] = (struct position){.boot_epoch = row->boot_epoch, .sequence = row->sequence};
  }
}

static void commit(struct flock_agent *a, const struct scribe_job *job) {
  struct flock_durable *d = &a->durable;
  const struct store_commitment *c = &job->commitment;
  bool is_whole = c->outcome == ROUND_JUMPED || c->outcome == ROUND_ADOPTED;
  HOLDS(is_after(c->label, d->committed));
  HOLDS(is_whole == (c->own_half != NULL));
  HOLDS(c->n_contributions == a->n_peers);
  d->committed = c->label;
  d->has_commit = true;
  d->is_gathering = false;
  free(d->model.bytes);
  d->model = flock_buffer(c->model, c->n_model);
  if (is_whole)
    take_half(d, c->own_half, c->n_own_half);
  tell(a, c);
}

static uint64_t raise_epoch(struct flock_durable *d, uint64_t above) {
  uint64_t highest = above > d->boot_epoch ? above : d->boot_epoch;
  return d->boot_epoch = ((highest >> 32) + 1) << 32 | (d->boot_epoch & 0xffff);
}

void flock_do_write(struct flock_agent *a, struct scribe_job *job) {
  struct scribe_result *r = calloc(1, sizeof *r);
  MUST(r != NULL);
  *r = (struct scribe_result){.kind = job->kind, .payload_fd = -1, .copy_fd = -1, .error = a->disk};
  if (a->disk != ERR_OK) {
    r->job = job;
  } else {
    if (job->kind == SCRIBE_PUBLISH)
      publish(a, job);
    else if (job->kind == SCRIBE_COMMIT)
      commit(a, job);
    else
      r->boot_epoch = raise_epoch(&a->durable, job->above);
    scribe_job_free(job);
  }
  flock_push(a->flock,
             (struct flock_event){
                 .at_ms = a->flock->now_ms + 2, .kind = FLOCK_WRITTEN, .agent = a->number, .life = a->life, .data = r});
}
