#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sim/parts.h"
#include "base/array.h"
#include "base/must.h"
#include "crypto/digest.h"
#include "crypto/merkle.h"

enum { ANSWER_US = 2000 /* from the disk to the loop */ };

struct buffer sim_buffer(const void *bytes, size_t n) {
  struct buffer b = {malloc(n + 1), n};
  MUST(b.bytes != NULL);
  if (n > 0)
    memcpy(b.bytes, bytes, n);
  return b;
}

void sim_digest(const void *bytes, size_t n, struct digest *out_root) {
  merkle_root(&digest_blake2b, bytes, n, out_root);
}

static void kept_clear(struct sim_kept *k) {
  free(k->payload.bytes);
  free(k->copy.bytes);
  *k = (struct sim_kept){0};
}

static void model_clear(struct sim_model *m) {
  free(m->half.bytes);
  free(m->model.bytes);
}

void sim_durable_clear(struct sim_durable *d) {
  for (size_t i = 0; i < d->n_kept; i++)
    kept_clear(&d->kept[i]);
  free(d->kept);
  free(d->half.bytes);
  free(d->model.bytes);
  for (size_t i = 0; i < d->n_models; i++)
    model_clear(&d->models[i]);
  free(d->models);
  free(d->back);
  free(d->merged);
  *d = (struct sim_durable){0};
}

static struct buffer again(const struct buffer *b) {
  return b->bytes ? sim_buffer(b->bytes, b->n_bytes) : (struct buffer){0};
}

void sim_durable_copy(struct sim_durable *to, const struct sim_durable *from) {
  *to = *from;
  to->kept = from->n_kept > 0 ? malloc(from->n_kept * sizeof *to->kept) : NULL;
  to->kept_capacity = from->n_kept;
  MUST(to->kept != NULL || from->n_kept == 0);
  for (size_t i = 0; i < from->n_kept; i++) {
    to->kept[i] = from->kept[i];
    to->kept[i].payload = again(&from->kept[i].payload);
    to->kept[i].copy = again(&from->kept[i].copy);
  }
  to->half = again(&from->half);
  to->model = again(&from->model);
  to->models = from->n_models > 0 ? malloc(from->n_models * sizeof *to->models) : NULL;
  to->model_capacity = from->n_models;
  to->back = from->back ? malloc(sizeof *to->back) : NULL;
  MUST((to->models != NULL || from->n_models == 0) && (to->back != NULL || !from->back));
  for (size_t i = 0; i < from->n_models; i++) {
    const struct sim_model *m = &from->models[i];
    to->models[i] = (struct sim_model){m->label, again(&m->half), again(&m->model)};
  }
  if (from->back)
    *to->back = *from->back;
  if (from->n_merged > 0) {
    to->merged = malloc(from->n_merged * sizeof *to->merged);
    MUST(to->merged != NULL);
    memcpy(to->merged, from->merged, from->n_merged * sizeof *to->merged);
  }
}

bool sim_label_is_after(struct round_label a, struct round_label b) {
  return a.round != b.round ? a.round > b.round : a.sub > b.sub;
}

/* Sequences and, of payloads, labels go up within an epoch: so none comes twice. */
static void note_used(struct sim_agent *a, const struct store_publication *p, const struct digest *copy) {
  bool rises = true;
  for (size_t i = a->n_used; i-- > 0 && a->used[i].boot_epoch == p->boot_epoch;) {
    const struct sim_used *u = &a->used[i];
    rises = rises && u->sequence < p->sequence &&
            (!p->payload || !u->has_payload || sim_label_is_after(p->label, u->label));
    if (!p->payload || u->has_payload)
      break;
  }
  sim_holds(a, SIM_INVARIANT_ONE_PAYLOAD, rises);
  a->used = realloc(a->used, (a->n_used + 1) * sizeof *a->used);
  MUST(a->used != NULL);
  a->used[a->n_used++] = (struct sim_used){p->label, p->payload != NULL, p->boot_epoch, p->sequence, *copy};
}

static void take_half(struct sim_durable *d, const uint8_t *bytes, size_t n) {
  free(d->half.bytes);
  d->half = sim_buffer(bytes, n);
}

static void model_keep(struct sim_durable *d) {
  if (d->n_models == SIM_KEEP_MODELS) {
    model_clear(&d->models[0]);
    memmove(d->models, d->models + 1, --d->n_models * sizeof *d->models);
  }
  d->models = array_grown(d->models, &d->model_capacity, d->n_models, sizeof *d->models, SIM_KEEP_MODELS);
  MUST(d->models != NULL);
  d->models[d->n_models++] = (struct sim_model){d->committed, again(&d->half), again(&d->model)};
}

static const struct sim_model *model_find(const struct sim_durable *d, struct round_label label) {
  for (size_t i = 0; i < d->n_models; i++)
    if (round_label_equal(d->models[i].label, label))
      return &d->models[i];
  return NULL;
}

static struct sim_kept *kept_add(struct sim_durable *d) {
  if (d->n_kept == KEEP_PAYLOADS) {
    kept_clear(&d->kept[0]);
    memmove(d->kept, d->kept + 1, --d->n_kept * sizeof *d->kept);
  }
  d->kept = array_grown(d->kept, &d->kept_capacity, d->n_kept, sizeof *d->kept, KEEP_PAYLOADS);
  MUST(d->kept != NULL);
  return &d->kept[d->n_kept++];
}

static void sign_copy(const struct sim_agent *a, struct sim_kept *k, uint64_t n_bytes) {
  struct manifest update;
  memcpy(k->copy_manifest, k->manifest, MANIFEST_BYTES);
  if (manifest_read(k->manifest, MANIFEST_BYTES, &update) != ERR_OK)
    return; /* a liar's */
  struct manifest copy = manifest_of_copy(&update, &k->copy_root, n_bytes);
  if (a->lie_in_manifest)
    a->lie_in_manifest(&copy);
  sim_sign(&copy, a);
  manifest_write(&copy, k->copy_manifest);
}

static void publish(struct sim_agent *a, const struct scribe_job *job, struct scribe_result *r) {
  (void)r;
  struct sim_durable *d = &a->durable;
  const struct store_publication *p = &job->publication;
  sim_holds(a, SIM_INVARIANT_OWN_EPOCH, p->boot_epoch == d->boot_epoch);
  sim_holds(a, SIM_INVARIANT_LABELS_RISE, sim_label_is_after(p->label, d->committed));
  sim_holds(a, SIM_INVARIANT_ONE_PAYLOAD, d->n_kept == 0 || p->sequence > d->kept[d->n_kept - 1].position.sequence);
  struct sim_kept *k = kept_add(d);
  *k = (struct sim_kept){.label = p->label, .position = {p->boot_epoch, p->sequence, p->chain}};
  memcpy(k->manifest, job->manifest, MANIFEST_BYTES);
  if (p->payload) {
    size_t n_payload = sim_held(a->sim, p->n_payload), n_copy = sim_held(a->sim, p->n_copy);
    k->payload = sim_buffer(p->payload, n_payload);
    sim_digest(p->payload, n_payload, &k->payload_root);
    k->copy_root = k->payload_root;
    if (p->n_copy > 0) {
      sim_digest(p->half + p->copy_offset, n_copy, &k->copy_root);
      k->copy = sim_buffer(p->half + p->copy_offset, n_copy);
      sign_copy(a, k, p->n_copy);
    }
    take_half(d, p->half, p->n_half);
    d->is_gathering = true;
    d->published = p->label;
  }
  struct digest copy = k->copy_root;
  if (p->payload && a->sim->n_tail > 0) /* what is held of a sum is its numbers */
    sim_digest(p->payload, a->sim->dims * sizeof(double), &copy);
  note_used(a, p, &copy);
}

struct position sim_merged_find(const struct sim_durable *d, size_t agent) {
  for (size_t i = 0; i < d->n_merged; i++)
    if (d->merged[i].agent == agent)
      return d->merged[i].position;
  return (struct position){0};
}

static void merged_set(struct sim_durable *d, size_t agent, const struct position *position) {
  size_t i = 0;
  while (i < d->n_merged && d->merged[i].agent != agent)
    i++;
  if (i == d->n_merged) {
    d->merged = realloc(d->merged, ++d->n_merged * sizeof *d->merged);
    MUST(d->merged != NULL);
  }
  d->merged[i] = (struct sim_merged){agent, *position};
}

static void tell(struct sim_agent *a, const struct store_commitment *c) {
  struct sim *s = a->sim;
  uint64_t first = 0;
  memcpy(&first, c->model, c->n_model < sizeof first ? c->n_model : sizeof first);
  sim_trace(s, c->label.round << 32 | c->label.sub);
  sim_trace(s, (uint64_t)c->outcome);
  sim_trace(s, first);
  a->n_jumps += c->outcome == ROUND_JUMPED;
  a->n_commits++;
  if (s->watch.committed)
    s->watch.committed(s->watch.context, a, c);
}

/* A merge that was refused has weights, too; who adopts has none. */
static bool was_mixed(const struct sim_agent *a, const struct store_commitment *c) {
  if (c->outcome == ROUND_MERGE_REFUSED || c->outcome == ROUND_ADOPTED)
    return true;
  for (size_t i = 0; i < a->n_peers; i++) {
    const struct store_contribution *row = &c->contributions[i];
    bool is_mixed = a->peers[i].mixed > 0,
         is_equal = row->weight >= a->peers[i].mixed && row->weight <= a->peers[i].mixed;
    if (!is_equal || (row->reason == ERR_OK && !is_mixed))
      return false;
  }
  return true;
}

static void commit(struct sim_agent *a, const struct scribe_job *job, struct scribe_result *r) {
  (void)r;
  struct sim_durable *d = &a->durable;
  const struct store_commitment *c = &job->commitment;
  bool is_whole = c->outcome == ROUND_JUMPED || c->outcome == ROUND_ADOPTED;
  sim_holds(a, SIM_INVARIANT_LABELS_RISE, sim_label_is_after(c->label, d->committed));
  sim_holds(a, SIM_INVARIANT_WHOLE_SNAPSHOT, is_whole == (c->own_half != NULL));
  bool has_all = sim_holds(a, SIM_INVARIANT_ALL_PEERS, c->n_contributions == a->n_peers);
  sim_holds(a, SIM_INVARIANT_REFUSED, !has_all || was_mixed(a, c));
  d->committed = c->label;
  d->has_commit = true;
  d->is_gathering = false;
  free(d->model.bytes);
  d->model = sim_buffer(c->model, c->n_model);
  if (c->own_half)
    take_half(d, c->own_half, c->n_own_half);
  model_keep(d);
  for (size_t i = 0; has_all && i < a->n_peers; i++) {
    const struct store_contribution *row = &c->contributions[i];
    merged_set(d, a->peers[i].agent, &(struct position){.boot_epoch = row->boot_epoch, .sequence = row->sequence});
  }
  if (has_all)
    tell(a, c);
}

static void raise_epoch(struct sim_agent *a, const struct scribe_job *job, struct scribe_result *r) {
  struct sim_durable *d = &a->durable;
  uint64_t highest = job->above > d->boot_epoch ? job->above : d->boot_epoch;
  r->boot_epoch = d->boot_epoch = ((highest >> 32) + 1) << 32 | (d->boot_epoch & 0xffff);
}

static void load_model(struct sim_agent *a, const struct scribe_job *job, struct scribe_result *r) {
  const struct sim_model *m = model_find(&a->durable, job->label);
  r->error = m ? ERR_OK : ERR_NOT_FOUND;
  if (!m)
    return;
  r->half = again(&m->half);
  r->model = again(&m->model);
}

/* As store_roll_back: a commitment of its own, after which a new chain begins. */
static void roll_back(struct sim_agent *a, const struct scribe_job *job, struct scribe_result *r) {
  struct sim_durable *d = &a->durable;
  const struct sim_model *to = model_find(d, job->label);
  if (!to) {
    r->error = ERR_NOT_FOUND;
    return;
  }
  r->roll_back = (struct store_roll_back){.label = {d->committed.round, d->committed.sub + 1}, .to = job->label};
  snprintf(r->roll_back.note, sizeof r->roll_back.note, "%s", job->note);
  if (!d->back)
    d->back = malloc(sizeof *d->back);
  MUST(d->back != NULL);
  *d->back = r->roll_back;
  take_half(d, to->half.bytes, to->half.n_bytes);
  free(d->model.bytes);
  d->model = again(&to->model);
  d->committed = r->roll_back.label;
  d->is_gathering = false;
  if (d->n_kept > 0)
    d->kept[d->n_kept - 1].position.chain = (struct digest){0};
  model_keep(d);
  sim_trace(a->sim, d->committed.round << 32 | d->committed.sub);
}

void sim_do_write(struct sim_agent *a, struct scribe_job *job) {
  struct scribe_result *r = calloc(1, sizeof *r);
  MUST(r != NULL);
  *r = (struct scribe_result){.kind = job->kind, .payload_fd = -1, .copy_fd = -1, .error = a->host.disk};
  if (a->host.disk != ERR_OK) {
    r->job = job;
  } else {
    static void (*const run[])(struct sim_agent *, const struct scribe_job *,
                               struct scribe_result *) = {[SCRIBE_PUBLISH] = publish,
                                                          [SCRIBE_COMMIT] = commit,
                                                          [SCRIBE_RAISE_EPOCH] = raise_epoch,
                                                          [SCRIBE_LOAD_MODEL] = load_model,
                                                          [SCRIBE_ROLL_BACK] = roll_back};
    MUST(job->kind < sizeof run / sizeof *run && run[job->kind] != NULL);
    run[job->kind](a, job, r);
    scribe_job_free(job);
  }
  sim_put(a, a->sim->now_us + ANSWER_US, (struct sim_event){.kind = SIM_WRITTEN, .data = r});
}
