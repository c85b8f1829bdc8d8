#include <stdlib.h>
#include <string.h>

#include "agent/sim/parts.h"
#include "agent/sim/sums.h"
#include "base/must.h"

static size_t model_bytes(const struct sim_agent *a) {
  return a->sim->dims * sizeof(double);
}

/* x ‖ x̂, as the half-step's snapshot. */
static struct buffer half_of(const struct sim_agent *a, const double *copy) {
  size_t n = model_bytes(a), n_all = 2 * n + sim_sums_bytes(a);
  struct buffer b = {malloc(n_all + 1), n_all};
  MUST(b.bytes != NULL);
  memcpy(b.bytes, a->x, n);
  memcpy(b.bytes + n, copy, n);
  sim_sums_write(a, b.bytes + 2 * n);
  return b;
}

static struct buffer model_of(const struct sim_agent *a) {
  size_t n = model_bytes(a), n_all = n + sim_sums_bytes(a);
  struct buffer b = {malloc(n_all + 1), n_all};
  MUST(b.bytes != NULL);
  memcpy(b.bytes, a->x, n);
  sim_sums_write(a, b.bytes + n);
  return b;
}

static uint32_t epoch_steps(const struct sim_agent *a) {
  return (a->samples + SIM_BATCH - 1) / SIM_BATCH;
}

/* What a snapshot holds, of which either may be empty; what was trained is forgotten. */
static void take(struct sim_agent *a, const struct buffer *half, const struct buffer *model) {
  size_t n = model_bytes(a);
  memset(a->x, 0, n);
  memset(a->copy, 0, n);
  a->has_pending = false;
  sim_sums_open(a);
  if (half->n_bytes >= 2 * n) {
    memcpy(a->x, half->bytes, n);
    memcpy(a->copy, half->bytes + n, n);
    sim_sums_read(a, half->bytes + 2 * n, half->n_bytes - 2 * n);
  }
  if (model->n_bytes >= n) {
    memcpy(a->x, model->bytes, n);
    sim_sums_read(a, model->bytes + n, model->n_bytes - n);
  }
}

static void load(struct sim_agent *a, struct trainer_job *job, struct trainer_result *r) {
  size_t n = model_bytes(a);
  for (size_t i = 0; i < a->n_peers; i++) {
    memset(a->peers[i].copy, 0, n);
    a->peers[i].applied_epoch = a->peers[i].applied_sequence = 0;
  }
  take(a, &job->half, &job->model);
  r->n_samples = a->samples;
  r->epoch_steps = epoch_steps(a);
}

/* Nothing goes back while a commit is under way: what was committed last is what the disk has. */
static void undo(struct sim_agent *a, struct trainer_job *job, struct trainer_result *r) {
  (void)job, (void)r;
  take(a, &a->durable.half, &a->durable.model);
}

static void restore(struct sim_agent *a, struct trainer_job *job, struct trainer_result *r) {
  bool is_whole = job->half.n_bytes >= 2 * model_bytes(a) && job->model.n_bytes >= model_bytes(a);
  r->error = is_whole ? ERR_OK : ERR_TRUNCATED;
  if (is_whole)
    take(a, &job->half, &job->model);
  else
    undo(a, job, r);
}

/* Every agent pulls towards a goal of its own. */
double sim_goal(const struct sim_agent *a, size_t i) {
  return (double)(a->number + 1) * (i % 2 == 0 ? 1 : -1);
}

static void step(struct sim_agent *a, const struct trainer_job *job) {
  for (size_t i = 0; i < a->sim->dims; i++) {
    a->x[i] += SIM_PULL * job->rate_scale * (sim_goal(a, i) - a->x[i]) + 1e-3 * (double)(job->label.round % 7) +
               1e-4 * job->label.sub;
  }
}

static void encode(struct sim_agent *a, const struct trainer_job *job, struct trainer_result *r) {
  r->payload = sim_buffer(a->x, model_bytes(a));
  double *payload = (double *)(void *)r->payload.bytes;
  for (size_t i = 0; i < a->sim->dims; i++) {
    payload[i] = job->start_chain ? a->x[i] : a->x[i] - a->copy[i];
    a->pending[i] = job->start_chain ? a->x[i] : a->copy[i] + payload[i];
  }
}

static void train(struct sim_agent *a, struct trainer_job *job, struct trainer_result *r) {
  size_t n = model_bytes(a);
  MUST(!a->has_pending);
  if (a->fail_trainings > 0) {
    a->fail_trainings--;
    r->error = a->fail_with;
    return;
  }
  step(a, job);
  if (sim_has_sums(a))
    r->payload = sim_sums_push(a, job);
  else
    encode(a, job, r);
  r->mass = a->mass.sent;
  a->has_pending = true;
  sim_digest(r->payload.bytes, r->payload.n_bytes, &r->payload_root);
  r->payload.n_bytes = (size_t)a->sim->payload_bytes; /* said, not held */
  r->half = half_of(a, a->pending);
  r->copy_offset = n;
  r->n_copy = (size_t)a->sim->payload_bytes;
  sim_digest(a->pending, n, &r->copy_root);
  r->n_samples = a->samples;
  r->local_steps = a->last_steps;
  r->seconds = (double)a->host.training_ms / 1000;
  r->train_loss = (double)job->label.round;
}

static const struct sim_used *used_find(const struct sim_agent *origin, const struct manifest *m) {
  for (size_t k = origin->n_used; k-- > 0;)
    if (origin->used[k].boot_epoch == m->boot_epoch && origin->used[k].sequence == m->sequence)
      return &origin->used[k];
  return NULL;
}

/* Whoever has the peer's key can have published it: a cloned disk. */
static const struct sim_used *published_find(const struct sim_agent *a, size_t peer, const struct manifest *m) {
  const struct sim *s = a->sim;
  const struct sim_used *u = used_find(s->agents[a->peers[peer].agent], m);
  for (size_t i = 0; i < s->n_agents && !u; i++)
    if (identity_key_equal(&s->agents[i]->key, &m->origin))
      u = used_find(s->agents[i], m);
  return u;
}

static void check_copy(struct sim_agent *a, size_t peer, const struct manifest *m) {
  const struct sim_used *u = published_find(a, peer, m);
  struct digest now;
  sim_digest(a->peers[peer].copy, model_bytes(a), &now);
  sim_holds(a, SIM_INVARIANT_COPY, u && digest_equal(&u->copy, &now));
}

static void note_applied(struct sim_agent *a, size_t peer, const struct manifest *m) {
  struct sim_peer *p = &a->peers[peer];
  bool is_new =
      m->boot_epoch != p->applied_epoch ? m->boot_epoch > p->applied_epoch : m->sequence > p->applied_sequence;
  sim_holds(a, SIM_INVARIANT_ONCE, m->kind == MANIFEST_FULL || is_new);
  p->applied_epoch = m->boot_epoch;
  p->applied_sequence = m->sequence;
}

static enum err apply_link(struct sim_agent *a, size_t peer, const struct link_in *link) {
  const struct manifest *m = &link->manifest;
  struct digest root;
  sim_digest(link->payload, sim_held(a->sim, m->n_payload), &root);
  if (!digest_equal(&root, &m->payload_root))
    return ERR_ROOT;
  if (m->n_payload != a->sim->payload_bytes)
    return ERR_LENGTH;
  if (m->kind == MANIFEST_SUM) {
    bool is_taken;
    enum err e = sim_sums_take(a, peer, link, &is_taken);
    if (is_taken) {
      note_applied(a, peer, m);
      check_copy(a, peer, m);
    }
    return e;
  }
  const double *values = (const double *)(const void *)link->payload;
  for (size_t i = 0; i < a->sim->dims; i++)
    a->peers[peer].copy[i] = m->kind == MANIFEST_FULL ? values[i] : a->peers[peer].copy[i] + values[i];
  note_applied(a, peer, m);
  check_copy(a, peer, m);
  return ERR_OK;
}

static void apply(struct sim_agent *a, struct merge_peer *p) {
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

static void adopt_median(struct sim_agent *a, const size_t *copies, size_t n) {
  double *v = malloc(n * sizeof *v);
  MUST(v != NULL);
  for (size_t i = 0; i < a->sim->dims; i++) {
    for (size_t k = 0; k < n; k++)
      v[k] = a->peers[copies[k]].copy[i] / (sim_has_sums(a) ? a->mass.edges[copies[k]].sum : 1);
    qsort(v, n, sizeof *v, by_value);
    a->x[i] = n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
  }
  free(v);
}

static void mix(struct sim_agent *a, const struct trainer_job *job) {
  double weights = 0;
  for (size_t i = 0; i < a->n_peers; i++)
    a->peers[i].mixed = 0;
  for (size_t k = 0; k < job->n_peers; k++) {
    const struct merge_peer *p = &job->peers[k];
    if (p->reason != ERR_OK || !p->use)
      continue;
    weights += p->weight;
    a->peers[p->peer].mixed = p->weight;
    for (size_t i = 0; i < a->sim->dims && !sim_has_sums(a); i++)
      a->x[i] += p->weight * (a->peers[p->peer].copy[i] - a->copy[i]);
  }
  sim_holds(a, SIM_INVARIANT_WEIGHTS, weights >= 0 && weights <= 1);
}

/* Applies what the peers sent; indices of those whose copy is usable, the caller's to free. */
static size_t *apply_all(struct sim_agent *a, struct trainer_job *job, size_t *out_n) {
  size_t *usable = malloc((job->n_peers + 1) * sizeof *usable), n = 0;
  MUST(usable != NULL);
  for (size_t k = 0; k < job->n_peers; k++) {
    sim_holds(a, SIM_INVARIANT_KEY_ORDER, k == 0 || job->peers[k].peer > job->peers[k - 1].peer);
    apply(a, &job->peers[k]);
    bool has_copy = !sim_has_sums(a) || a->mass.edges[job->peers[k].peer].has_base;
    if (job->peers[k].reason == ERR_OK && has_copy)
      usable[n++] = job->peers[k].peer;
  }
  *out_n = n;
  return usable;
}

static enum err combine(struct sim_agent *a, struct trainer_job *job) {
  size_t n_usable, *usable = apply_all(a, job, &n_usable);
  enum err e = ERR_OK;
  if (job->kind == JOB_ADOPT && n_usable == 0)
    e = ERR_NOT_FOUND;
  else if (job->kind == JOB_ADOPT)
    adopt_median(a, usable, n_usable);
  else if (a->merge_is_not_finite && !sim_has_sums(a))
    e = ERR_MERGE_REFUSED;
  else
    mix(a, job);
  a->merge_is_not_finite = false;
  free(usable);
  return e;
}

static void merge(struct sim_agent *a, struct trainer_job *job, struct trainer_result *r) {
  if (a->has_pending && job->is_withheld && sim_has_sums(a))
    sim_sums_take_back(a);
  else if (a->has_pending)
    memcpy(a->copy, a->pending, model_bytes(a));
  a->has_pending = false;
  r->error = combine(a, job);
  r->peers = job->peers;
  r->n_peers = job->n_peers;
  job->peers = NULL;
  job->n_peers = 0;
  if (r->error == ERR_NOT_FOUND)
    return;
  r->model = model_of(a);
  if (job->kind == JOB_ADOPT || job->whole_snapshot)
    r->half = half_of(a, a->copy);
}

const struct sim_trainer sim_numbers = {
    .load = load, .train = train, .merge = merge, .restore = restore, .undo = undo, .epoch_steps = epoch_steps};
