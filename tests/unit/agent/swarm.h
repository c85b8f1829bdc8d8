/* A swarm in virtual time: round machines, their links, their trainers and their stores, in one queue of events. Same seed,
 * same story, bit for bit.
 *
 * The learner is one double: training moves it by an amount that depends on the agent and the label, payloads are eight
 * bytes, merging is the real formula. The store is what is durable at an instant: an agent can be killed at any time and
 * started again from it. A link has a delay, can be cut, and can lose messages. What must always hold is checked after
 * every event. */
#ifndef TESTS_UNIT_AGENT_SWARM_H
#define TESTS_UNIT_AGENT_SWARM_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/round_machine.h"
#include "base/must.h"
#include "base/rng.h"
#include "crypto/digest.h"
#include "crypto/merkle.h"

/* ck_assert tells the runner of every success, which costs more than the swarm. */
#define HOLDS(condition) ((condition) ? (void)0 : ck_abort_msg("%s", #condition))

enum { SWARM_MAX = 6, STORY_MAX = 512, PAYLOAD_BYTES = sizeof(double), USED_MAX = 1024 };

enum wire { WIRE_HELLO, WIRE_STATE, WIRE_ASK, WIRE_MANIFEST, WIRE_ANSWER, WIRE_GET, WIRE_CHUNK, WIRE_DONE, N_WIRES };

struct letter {
  enum wire type;
  struct hello_job hello;
  struct wire_state state;
  enum manifest_kind kind; /* ASK */
  uint64_t first, n;       /* ASK; DONE: sequence */
  enum err reason;         /* ANSWER, CHUNK */
  uint8_t manifest[MANIFEST_BYTES];
  struct manifest fetched; /* GET, CHUNK */
  double payload;
};

enum event_kind {
  EVENT_TICK,
  EVENT_LETTER,
  EVENT_TRAINED,
  EVENT_DURABLE,
  EVENT_WRITTEN,
  EVENT_SESSION,
  EVENT_GET_AGAIN,
  EVENT_LEVEL
};

struct event {
  uint64_t at_ms, order;
  enum event_kind kind;
  size_t agent, other; /* letter: from other to agent; session, fetch: with other */
  uint64_t life, session;
  void *data;
};

/* One own publication as the store keeps it. */
struct kept {
  struct round_label label;
  uint64_t boot_epoch, sequence;
  struct digest chain;
  uint8_t manifest[MANIFEST_BYTES], copy_manifest[MANIFEST_BYTES]; /* the copy's where there is one */
  bool has_payload, has_copy;
  double payload, copy;
  struct digest payload_root, copy_root;
};

struct half {
  double x, copy;
};

struct durable {
  uint64_t boot_epoch;
  struct kept kept[KEEP_PAYLOADS]; /* newest last */
  size_t n_kept;
  bool has_commit, is_gathering;
  struct round_label committed, published;
  struct half half; /* newest */
  double model;
  bool has_roll_back;
  struct store_roll_back roll_back;
  uint32_t n_short;
  struct position positions[SWARM_MAX];
};

struct told {
  struct round_label label;
  enum round_outcome outcome;
  double model;
  uint32_t n_merged;
  enum err reasons[SWARM_MAX]; /* by agent */
  uint32_t lags[SWARM_MAX];
  double weights[SWARM_MAX];
  uint64_t at_ms;
};

struct swarm_agent {
  struct swarm *swarm;
  size_t self;
  bool is_member, is_alive;
  uint64_t life, born_ms;
  struct round_machine *machine;
  struct round_config config;
  size_t n_peers, peers[SWARM_MAX]; /* by index: which agent */
  struct gossip_peer_config others[SWARM_MAX];

  /* its trainer */
  double x, copy, pending, committed_x; /* the last: before the training in work */
  bool has_pending;
  double copies[SWARM_MAX];
  uint64_t trainer_free_ms, scribe_free_ms;

  struct durable durable;
  size_t n_turns; /* commits that were made with the publication after them */
  uint64_t next_tick_ms;
  bool state_changed;
  struct manifest fetch[SWARM_MAX]; /* by peer index */
  bool is_fetching[SWARM_MAX];

  /* knobs */
  uint64_t training_ms, writing_ms;
  uint32_t samples;
  uint32_t fail_trainings;  /* so many more */
  uint32_t corrupt;         /* so many of its next payloads are served broken */
  enum err disk;            /* what every write answers */
  enum err back_refused;    /* what every roll-back answers */
  enum err import_refused;  /* what reading a model from elsewhere answers, … */
  double imported;          /* … which is this */
  bool merge_is_not_finite; /* the next one */
  bool equivocates;         /* its next publication is told with another root to every second peer */

  /* seen */
  struct told *story;
  size_t n_story;
  uint32_t notes[32];
  char note_names[32][24];
  size_t n_notes;
  size_t n_trainings, n_asked_full, n_chains;
  double last_rate_scale;
  bool was_gathering;
  uint64_t gather_until_ms;
  struct { /* what was ever published: one payload a (round, sub) of an epoch, one a sequence */
    struct round_label label;
    uint64_t boot_epoch, sequence;
    struct digest root;
  } * used;
  size_t n_used;
};

struct swarm {
  uint64_t now_ms, order;
  struct event *heap;
  size_t n_heap, heap_capacity;
  struct swarm_agent agents[SWARM_MAX];
  struct { /* from, to */
    uint64_t delay_ms, last_ms;
    bool is_cut;
    uint32_t lose[N_WIRES]; /* so many of the next ones of the kind */
  } links[SWARM_MAX][SWARM_MAX];
  uint64_t session[SWARM_MAX][SWARM_MAX]; /* 0: none; symmetric */
  uint64_t n_sessions;
  bool (*lose)(struct swarm *s, size_t from, size_t to, const struct letter *l);
  struct rng rng;
  double jitter;
};

/* ---- queue -------------------------------------------------------------------------------------------------------- */

static inline bool event_before(const struct event *a, const struct event *b) {
  return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

static inline void swarm_push(struct swarm *s, struct event e) {
  if (s->n_heap == s->heap_capacity) {
    s->heap_capacity = s->heap_capacity ? 2 * s->heap_capacity : 256;
    s->heap = realloc(s->heap, s->heap_capacity * sizeof *s->heap);
    MUST(s->heap != NULL);
  }
  e.order = s->order++;
  size_t i = s->n_heap++;
  for (; i > 0 && event_before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
    s->heap[i] = s->heap[(i - 1) / 2];
  s->heap[i] = e;
}

static inline struct event swarm_pop(struct swarm *s) {
  struct event top = s->heap[0], last = s->heap[--s->n_heap];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < s->n_heap; i = child) {
    if (child + 1 < s->n_heap && event_before(&s->heap[child + 1], &s->heap[child]))
      child++;
    if (!event_before(&s->heap[child], &last))
      break;
    s->heap[i] = s->heap[child];
  }
  s->heap[i] = last;
  s->heap[s->n_heap].data = NULL;
  return top;
}

/* ---- links -------------------------------------------------------------------------------------------------------- */

static inline size_t peer_index(const struct swarm_agent *a, size_t other) {
  for (size_t i = 0; i < a->n_peers; i++)
    if (a->peers[i] == other)
      return i;
  return SIZE_MAX;
}

/* Order is kept per session. */
static inline void swarm_send(struct swarm *s, size_t from, size_t to, const struct letter *l) {
  if (!s->session[from][to])
    return;
  if (s->links[from][to].lose[l->type] > 0) {
    s->links[from][to].lose[l->type]--;
    return;
  }
  if (s->lose && s->lose(s, from, to, l))
    return;
  uint64_t at = s->now_ms + s->links[from][to].delay_ms;
  if (s->jitter > 0)
    at += (uint64_t)(s->jitter * rng_unit(&s->rng));
  if (at < s->links[from][to].last_ms)
    at = s->links[from][to].last_ms;
  s->links[from][to].last_ms = at;
  struct letter *copy = malloc(sizeof *copy);
  MUST(copy != NULL);
  *copy = *l;
  swarm_push(s, (struct event){at, 0, EVENT_LETTER, to, from, s->agents[to].life, s->session[from][to], copy});
}

static inline void swarm_session_soon(struct swarm *s, size_t a, size_t b) {
  uint64_t delay = 100 + s->links[a][b].delay_ms + s->links[b][a].delay_ms;
  swarm_push(s, (struct event){s->now_ms + delay, 0, EVENT_SESSION, a, b, 0, 0, NULL});
}

static inline void swarm_session_end(struct swarm *s, size_t a, size_t b) {
  if (!s->session[a][b])
    return;
  s->session[a][b] = s->session[b][a] = 0;
  const size_t ends[2][2] = {{a, b}, {b, a}};
  for (size_t i = 0; i < 2; i++) {
    struct swarm_agent *agent = &s->agents[ends[i][0]];
    size_t peer = peer_index(agent, ends[i][1]);
    agent->is_fetching[peer] = false;
    if (agent->is_alive)
      round_on_session(agent->machine, peer, false, ERR_NO_SESSION, s->now_ms);
  }
}

static inline void swarm_cut(struct swarm *s, size_t a, size_t b) {
  s->links[a][b].is_cut = s->links[b][a].is_cut = true;
  swarm_session_end(s, a, b);
}

static inline void swarm_heal(struct swarm *s, size_t a, size_t b) {
  s->links[a][b].is_cut = s->links[b][a].is_cut = false;
  swarm_session_soon(s, a, b);
}

/* ---- ports -------------------------------------------------------------------------------------------------------- */

static inline void port_ask(void *context, size_t peer, enum manifest_kind kind, uint64_t first, size_t n) {
  struct swarm_agent *a = context;
  HOLDS(n >= 1 && n <= MAX_ASK);
  a->n_asked_full += kind == MANIFEST_FULL;
  struct letter l = {.type = WIRE_ASK, .kind = kind, .first = first, .n = n};
  swarm_send(a->swarm, a->self, a->peers[peer], &l);
}

static inline enum err port_fetch(void *context, size_t peer, const struct manifest *m) {
  struct swarm_agent *a = context;
  struct swarm *s = a->swarm;
  if (!s->session[a->self][a->peers[peer]])
    return ERR_NO_SESSION;
  if (a->is_fetching[peer])
    return ERR_BUSY;
  a->fetch[peer] = *m;
  a->is_fetching[peer] = true;
  struct letter l = {.type = WIRE_GET, .fetched = *m};
  swarm_send(s, a->self, a->peers[peer], &l);
  swarm_push(s, (struct event){s->now_ms + 2000, 0, EVENT_GET_AGAIN, a->self, peer, a->life, m->sequence, NULL});
  return ERR_OK;
}

static inline void port_cancel(void *context, size_t peer) {
  ((struct swarm_agent *)context)->is_fetching[peer] = false;
}

static inline void port_train(void *context, struct trainer_job *job) {
  struct swarm_agent *a = context;
  uint64_t start = a->trainer_free_ms > a->swarm->now_ms ? a->trainer_free_ms : a->swarm->now_ms;
  uint64_t takes = job->kind == JOB_TRAIN ? a->training_ms : 5;
  a->trainer_free_ms = start + takes;
  if (job->kind == JOB_TRAIN) {
    a->n_trainings++;
    a->last_rate_scale = job->rate_scale;
  }
  swarm_push(a->swarm, (struct event){start + takes, 0, EVENT_TRAINED, a->self, 0, a->life, 0, job});
}

static inline void port_write(void *context, struct scribe_job *job) {
  struct swarm_agent *a = context;
  uint64_t start = a->scribe_free_ms > a->swarm->now_ms ? a->scribe_free_ms : a->swarm->now_ms;
  a->scribe_free_ms = start + a->writing_ms;
  swarm_push(a->swarm, (struct event){a->scribe_free_ms, 0, EVENT_DURABLE, a->self, 0, a->life, 0, job});
}

static inline void port_sign(void *context, struct manifest *m, uint8_t out_bytes[MANIFEST_BYTES]) {
  struct swarm_agent *a = context;
  struct manifest back;
  memset(m->origin.bytes, 0, sizeof m->origin.bytes);
  m->origin.bytes[0] = (uint8_t)(a->self + 1);
  manifest_write(m, out_bytes);
  HOLDS(manifest_read(out_bytes, MANIFEST_BYTES, &back) == ERR_OK);
}

static inline void swarm_note_used(struct swarm_agent *a, const struct manifest *m) {
  for (size_t i = 0; i < a->n_used; i++) {
    bool same_label = a->used[i].label.round == m->round && a->used[i].label.sub == m->sub;
    bool same_epoch = a->used[i].boot_epoch == m->boot_epoch;
    if (same_epoch && (same_label || a->used[i].sequence == m->sequence)) {
      ck_assert_msg(digest_equal(&a->used[i].root, &m->payload_root), "agent %zu: two payloads for %llu+%u", a->self,
                    (unsigned long long)m->round, m->sub);
      return;
    }
  }
  MUST(a->n_used < USED_MAX);
  a->used[a->n_used].label = (struct round_label){m->round, m->sub};
  a->used[a->n_used].boot_epoch = m->boot_epoch;
  a->used[a->n_used].sequence = m->sequence;
  a->used[a->n_used++].root = m->payload_root;
}

static inline void port_offer(void *context, const uint8_t manifest[MANIFEST_BYTES]) {
  struct swarm_agent *a = context;
  struct letter l = {.type = WIRE_MANIFEST};
  struct manifest m;
  HOLDS(manifest_read(manifest, MANIFEST_BYTES, &m) == ERR_OK);
  swarm_note_used(a, &m);
  a->n_chains += m.kind == MANIFEST_FULL;
  for (size_t i = 0; i < a->n_peers; i++) {
    memcpy(l.manifest, manifest, MANIFEST_BYTES);
    swarm_send(a->swarm, a->self, a->peers[i], &l);
    if (a->equivocates) {
      struct manifest other = m;
      other.payload_root.bytes[0] ^= 1;
      manifest_write(&other, l.manifest);
      swarm_send(a->swarm, a->self, a->peers[i], &l);
    }
  }
  a->equivocates = false;
}

static inline void port_state_changed(void *context) {
  ((struct swarm_agent *)context)->state_changed = true;
}

static inline void port_done(void *context, size_t peer, uint64_t sequence, enum err outcome) {
  struct swarm_agent *a = context;
  struct letter l = {.type = WIRE_DONE, .n = sequence, .reason = outcome};
  swarm_send(a->swarm, a->self, a->peers[peer], &l);
}

static inline uint32_t *swarm_note_count(struct swarm_agent *a, const char *name) {
  for (size_t i = 0; i < a->n_notes; i++)
    if (strcmp(a->note_names[i], name) == 0)
      return &a->notes[i];
  MUST(a->n_notes < 32);
  snprintf(a->note_names[a->n_notes], sizeof a->note_names[0], "%s", name);
  return &a->notes[a->n_notes++];
}

static inline void port_count(void *context, size_t peer, enum err reason) {
  (void)peer;
  HOLDS(err_drop_index(reason) >= 0);
  ++*swarm_note_count(context, err_name(reason));
}

static inline void port_note(void *context, const char *name, size_t peer, const char *text) {
  (void)peer;
  (void)text;
  ++*swarm_note_count(context, name);
}

/* ---- trainer ------------------------------------------------------------------------------------------------------ */

static inline struct buffer double_buffer(const double *values, size_t n) {
  size_t n_bytes = n * sizeof *values;
  struct buffer b = {malloc(n_bytes), n_bytes};
  MUST(b.bytes != NULL);
  memcpy(b.bytes, values, b.n_bytes);
  return b;
}

static inline struct digest double_root(double v) {
  struct digest root;
  merkle_root(&digest_blake2b, &v, sizeof v, &root);
  return root;
}

static inline void trainer_load(struct swarm_agent *a, const struct trainer_job *job, struct trainer_result *r) {
  a->x = a->copy = 0;
  a->has_pending = false;
  memset(a->copies, 0, sizeof a->copies);
  if (job->half.n_bytes == sizeof(struct half)) {
    struct half h;
    memcpy(&h, job->half.bytes, sizeof h);
    a->x = h.x;
    a->copy = h.copy;
  }
  if (job->model.n_bytes == sizeof a->x)
    memcpy(&a->x, job->model.bytes, sizeof a->x);
  r->n_samples = a->samples;
}

static inline void trainer_train(struct swarm_agent *a, const struct trainer_job *job, struct trainer_result *r) {
  MUST(!a->has_pending);
  if (a->fail_trainings > 0) {
    a->fail_trainings--;
    r->error = ERR_NON_FINITE;
    return;
  }
  double goal = (double)(a->self + 1);
  a->committed_x = a->x;
  a->x += 0.25 * (goal - a->x) + 1e-3 * (double)(job->label.round % 7) + 1e-4 * job->label.sub;
  double payload = job->start_chain ? a->x : a->x - a->copy;
  a->pending = job->start_chain ? a->x : a->copy + payload;
  a->has_pending = true;
  struct half half = {a->x, a->pending};
  r->payload = double_buffer(&payload, 1);
  r->payload_root = double_root(payload);
  r->half = double_buffer((double *)&half, 2);
  r->copy_offset = sizeof(double);
  r->n_copy = sizeof(double);
  r->copy_root = double_root(half.copy);
  r->n_samples = a->samples;
  r->local_steps = 1;
  r->seconds = (double)a->training_ms / 1000;
  r->train_loss = (double)job->label.round;
}

static inline void trainer_apply(struct swarm_agent *a, struct merge_peer *p) {
  for (size_t i = 0; i < p->n_links; i++) {
    const struct manifest *m = &p->links[i].manifest;
    double v;
    memcpy(&v, p->links[i].payload, sizeof v);
    struct digest root = double_root(v);
    if (p->reason == ERR_OK && !digest_equal(&root, &m->payload_root))
      p->reason = ERR_ROOT;
    if (p->reason == ERR_OK) {
      a->copies[p->peer] = m->kind == MANIFEST_FULL ? v : a->copies[p->peer] + v;
      p->n_applied++;
    }
    free(p->links[i].payload);
    p->links[i].payload = NULL;
  }
}

static inline void trainer_merge(struct swarm_agent *a, struct trainer_job *job, struct trainer_result *r) {
  if (a->has_pending && !job->is_withheld)
    a->copy = a->pending;
  a->has_pending = false;
  double sum = 0, weights = 0, best = 0;
  size_t n = 0;
  for (size_t i = 0; i < job->n_peers; i++) {
    struct merge_peer *p = &job->peers[i];
    HOLDS(i == 0 || p->peer > job->peers[i - 1].peer);
    trainer_apply(a, p);
    if (p->reason == ERR_OK && p->use) {
      sum += p->weight * (a->copies[p->peer] - a->copy);
      weights += p->weight;
    }
    if (p->reason == ERR_OK)
      best = n++ == 0 ? a->copies[p->peer] : best;
  }
  HOLDS(weights >= 0 && weights <= 1);
  if (job->kind == JOB_ADOPT && n == 0)
    r->error = ERR_NOT_FOUND;
  else if (job->kind == JOB_ADOPT)
    a->x = best;
  else if (a->merge_is_not_finite)
    r->error = ERR_MERGE_REFUSED;
  else
    a->x += sum;
  a->merge_is_not_finite = false;
  r->peers = job->peers;
  r->n_peers = job->n_peers;
  job->peers = NULL;
  job->n_peers = 0;
  if (r->error == ERR_NOT_FOUND)
    return;
  struct half half = {a->x, a->copy};
  r->model = double_buffer(&a->x, 1);
  if (job->kind == JOB_ADOPT || job->whole_snapshot)
    r->half = double_buffer((double *)&half, 2);
}

/* What is not whole is refused, and the training that nobody knows of is forgotten in any case. */
static inline void trainer_restore(struct swarm_agent *a, const struct trainer_job *job, struct trainer_result *r) {
  if (a->has_pending)
    a->x = a->committed_x;
  a->committed_x = a->x;
  a->has_pending = false;
  size_t n_half = job->is_import ? 0 : sizeof(struct half);
  if (job->half.n_bytes != n_half || job->model.n_bytes != sizeof a->x) {
    r->error = ERR_TRUNCATED;
    return;
  }
  memcpy(&a->x, job->model.bytes, sizeof a->x);
  struct half half = {a->x, a->copy};
  if (job->is_import) {
    r->model = double_buffer(&a->x, 1);
    r->half = double_buffer((double *)&half, 2);
  }
}

static inline void swarm_trained(struct swarm_agent *a, struct trainer_job *job) {
  struct trainer_result *r = calloc(1, sizeof *r);
  MUST(r != NULL);
  r->kind = job->kind;
  r->label = job->label;
  if (job->kind == JOB_LOAD)
    trainer_load(a, job, r);
  else if (job->kind == JOB_TRAIN)
    trainer_train(a, job, r);
  else if (job->kind == JOB_RESTORE)
    trainer_restore(a, job, r);
  else if (job->kind == JOB_UNDO)
    a->x = a->committed_x;
  else
    trainer_merge(a, job, r);
  trainer_job_free(job);
  round_on_trained(a->machine, r, a->swarm->now_ms);
}

/* ---- store -------------------------------------------------------------------------------------------------------- */

static inline bool label_is_after(struct round_label a, struct round_label b) {
  return a.round != b.round ? a.round > b.round : a.sub > b.sub;
}

static inline void sign_copy(struct swarm_agent *a, struct kept *k) {
  struct manifest update;
  HOLDS(manifest_read(k->manifest, MANIFEST_BYTES, &update) == ERR_OK);
  struct manifest copy = manifest_of_copy(&update, &k->copy_root, sizeof k->copy);
  port_sign(a, &copy, k->copy_manifest);
}

static inline void store_published(struct swarm_agent *a, const struct scribe_job *job) {
  struct durable *d = &a->durable;
  const struct store_publication *p = &job->publication;
  HOLDS(p->boot_epoch == d->boot_epoch);
  HOLDS(d->n_kept == 0 || p->sequence > d->kept[d->n_kept - 1].sequence);
  if (d->n_kept == KEEP_PAYLOADS)
    memmove(d->kept, d->kept + 1, --d->n_kept * sizeof *d->kept);
  struct kept *k = &d->kept[d->n_kept++];
  *k = (struct kept){.label = p->label, .boot_epoch = p->boot_epoch, .sequence = p->sequence, .chain = p->chain};
  memcpy(k->manifest, job->manifest, MANIFEST_BYTES);
  k->has_payload = p->payload != NULL;
  k->has_copy = p->n_copy > 0;
  if (k->has_payload) {
    memcpy(&k->payload, job->payload.bytes, sizeof k->payload);
    memcpy(&d->half, job->half.bytes, sizeof d->half);
    k->copy = d->half.copy;
    k->payload_root = double_root(k->payload);
    k->copy_root = double_root(k->copy);
    d->is_gathering = true;
    d->published = p->label;
  }
  if (k->has_copy)
    sign_copy(a, k);
}

static inline void store_committed(struct swarm_agent *a, const struct scribe_job *job) {
  HOLDS(!(job->commitment.seconds * 1000 >
          (double)(a->swarm->now_ms - a->born_ms))); /* no longer than it lives; NaN: none */
  struct durable *d = &a->durable;
  const struct store_commitment *c = &job->commitment;
  ck_assert_msg(label_is_after(c->label, d->committed), "agent %zu: committed %llu+%u after %llu+%u", a->self,
                (unsigned long long)c->label.round, c->label.sub, (unsigned long long)d->committed.round,
                d->committed.sub);
  bool is_whole = c->outcome == ROUND_JUMPED || c->outcome == ROUND_ADOPTED;
  HOLDS(is_whole == (c->own_half != NULL));
  d->n_short = c->label.sub == 0 ? 0 : d->n_short + 1;
  d->committed = c->label;
  d->has_commit = true;
  d->is_gathering = false;
  memcpy(&d->model, c->model, sizeof d->model);
  if (is_whole)
    memcpy(&d->half, c->own_half, sizeof d->half);
  bool is_import = c->outcome == ROUND_ADOPTED && c->n_contributions == 0;
  HOLDS(is_import || c->n_contributions == a->n_peers);
  MUST(a->n_story < STORY_MAX);
  struct told *t = &a->story[a->n_story++];
  *t = (struct told){.label = c->label, .outcome = c->outcome, .model = d->model, .at_ms = a->swarm->now_ms};
  for (size_t i = 0; i < c->n_contributions; i++) {
    const struct store_contribution *row = &c->contributions[i];
    t->n_merged += row->reason == ERR_OK;
    t->reasons[a->peers[i]] = row->reason;
    t->lags[a->peers[i]] = row->lag;
    t->weights[a->peers[i]] = row->weight;
    d->positions[i] = (struct position){.boot_epoch = row->boot_epoch, .sequence = row->sequence};
  }
}

static inline uint64_t store_raise(struct durable *d, uint64_t above) {
  uint64_t highest = above > d->boot_epoch ? above : d->boot_epoch;
  return d->boot_epoch = ((highest >> 32) + 1) << 32 | (d->boot_epoch & 0xffff);
}

/* The row of a commitment whose model is kept: here, every one's is. */
static inline const struct told *store_kept(const struct swarm_agent *a, struct round_label label) {
  for (size_t i = a->n_story; i-- > 0;)
    if (a->story[i].label.round == label.round && a->story[i].label.sub == label.sub)
      return &a->story[i];
  return NULL;
}

static inline void store_load_model(struct swarm_agent *a, const struct scribe_job *job, struct scribe_result *r) {
  if (job->path) {
    r->error = a->import_refused;
    r->model = a->import_refused ? (struct buffer){0} : double_buffer(&a->imported, 1);
    return;
  }
  const struct told *t = store_kept(a, job->label);
  r->error = t ? ERR_OK : ERR_NOT_FOUND;
  if (!t)
    return;
  struct half half = {t->model, t->model};
  r->half = double_buffer((double *)&half, 2);
  r->model = double_buffer(&t->model, 1);
}

static inline void store_rolled_back(struct swarm_agent *a, const struct scribe_job *job, struct scribe_result *r) {
  struct durable *d = &a->durable;
  const struct told *to = store_kept(a, job->label);
  if ((r->error = a->back_refused) != ERR_OK)
    return;
  MUST(to != NULL && a->n_story < STORY_MAX);
  d->roll_back = (struct store_roll_back){.label = {d->committed.round, d->committed.sub + 1}, .to = job->label};
  snprintf(d->roll_back.note, sizeof d->roll_back.note, "%s", job->note);
  d->has_roll_back = true;
  d->committed = d->roll_back.label;
  d->model = d->half.x = to->model;
  d->is_gathering = false;
  if (d->n_kept > 0)
    d->kept[d->n_kept - 1].chain = (struct digest){0};
  a->story[a->n_story++] =
      (struct told){.label = d->committed, .outcome = ROUND_ROLLED_BACK, .model = d->model, .at_ms = a->swarm->now_ms};
  r->roll_back = d->roll_back;
}

static inline void swarm_write(struct swarm_agent *a, struct scribe_job *job) {
  struct scribe_result *r = calloc(1, sizeof *r);
  MUST(r != NULL);
  *r = (struct scribe_result){.kind = job->kind, .payload_fd = -1, .copy_fd = -1, .error = a->disk};
  if (a->disk != ERR_OK) {
    r->job = job;
  } else {
    r->has_committed = job->before != NULL;
    a->n_turns += r->has_committed;
    if (r->has_committed)
      store_committed(a, job->before);
    if (job->kind == SCRIBE_PUBLISH)
      store_published(a, job);
    else if (job->kind == SCRIBE_COMMIT)
      store_committed(a, job);
    else if (job->kind == SCRIBE_LOAD_MODEL)
      store_load_model(a, job, r);
    else if (job->kind == SCRIBE_ROLL_BACK)
      store_rolled_back(a, job, r);
    else
      r->boot_epoch = store_raise(&a->durable, job->above);
    scribe_job_free(job);
  }
  swarm_push(a->swarm, (struct event){a->swarm->now_ms + 2, 0, EVENT_WRITTEN, a->self, 0, a->life, 0, r});
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

static inline void swarm_start(struct swarm *s, size_t which) {
  struct swarm_agent *a = &s->agents[which];
  struct durable *d = &a->durable;
  MUST(!a->is_alive);
  d->boot_epoch = ((d->boot_epoch >> 32) + 1) << 32 | (a->life & 0xffff);
  a->life++;
  a->born_ms = s->now_ms;
  a->is_alive = true;
  a->trainer_free_ms = a->scribe_free_ms = a->next_tick_ms = 0;
  size_t n_before = 0;
  while (n_before < a->n_peers && a->peers[n_before] < which)
    n_before++;
  const struct round_self self = {a->others, a->n_peers, d->boot_epoch, a, n_before};
  a->was_gathering = false;
  static const struct round_ports ports = {{port_ask, port_fetch, port_cancel},
                                           port_train,
                                           port_write,
                                           port_sign,
                                           port_offer,
                                           port_state_changed,
                                           port_done,
                                           port_count,
                                           port_note,
                                           NULL};
  HOLDS(round_new(&a->config, &self, &ports, &a->machine) == ERR_OK);
  struct store_resume resume = {
      .committed = d->committed, .n_short = d->n_short, .has_roll_back = d->has_roll_back, .roll_back = d->roll_back};
  struct buffer half = {0}, model = {0};
  if (d->n_kept > 0) {
    const struct kept *newest = &d->kept[d->n_kept - 1];
    resume.sequence = newest->sequence;
    resume.sequence_epoch = newest->boot_epoch;
    resume.chain = newest->chain;
  }
  if (d->is_gathering || d->has_commit)
    half = double_buffer((double *)&d->half, 2);
  if (d->is_gathering) {
    resume.at = RESUME_PUBLISHED;
    resume.published = d->published;
  } else if (d->has_commit) {
    resume.at = RESUME_COMMITTED;
    model = double_buffer(&d->model, 1);
  }
  round_start(a->machine, &resume, half, model, d->positions, s->now_ms);
  for (size_t i = 0; i < a->n_peers; i++)
    swarm_session_soon(s, which, a->peers[i]);
  swarm_push(s, (struct event){s->now_ms, 0, EVENT_TICK, which, 0, a->life, 0, NULL});
  swarm_push(s, (struct event){s->now_ms + 5000, 0, EVENT_LEVEL, which, 0, a->life, 0, NULL});
}

static inline void swarm_kill(struct swarm *s, size_t which) {
  struct swarm_agent *a = &s->agents[which];
  MUST(a->is_alive);
  a->is_alive = false;
  for (size_t i = 0; i < a->n_peers; i++)
    swarm_session_end(s, which, a->peers[i]);
  round_free(a->machine);
  a->machine = NULL;
  a->life++;
}

/* n agents, everybody linked with everybody until swarm_unlink; nobody is started. */
static inline struct swarm *swarm_new(size_t n) {
  static const char *const names[SWARM_MAX] = {"a", "b", "c", "d", "e", "f"};
  struct swarm *s = calloc(1, sizeof *s);
  MUST(s != NULL && n <= SWARM_MAX);
  rng_init(&s->rng, 1);
  for (size_t i = 0; i < n; i++) {
    struct swarm_agent *a = &s->agents[i];
    *a = (struct swarm_agent){
        .swarm = s, .self = i, .is_member = true, .training_ms = 1000, .writing_ms = 20, .samples = 100};
    a->story = calloc(STORY_MAX, sizeof *a->story);
    a->used = calloc(USED_MAX, sizeof *a->used);
    MUST(a->story && a->used);
    for (size_t j = 0; j < n; j++) {
      s->links[i][j].delay_ms = 10;
      if (j == i)
        continue;
      a->others[a->n_peers] = (struct gossip_peer_config){.key = {{(uint8_t)(j + 1)}}, .name = names[j]};
      a->peers[a->n_peers++] = j;
    }
    a->config = (struct round_config){
        .encoding = ENCODING_F32,
        .link_bytes = PAYLOAD_BYTES,
        .full_bytes = PAYLOAD_BYTES,
        .payload_max_bytes = 1 << 20,
        .count = 20,
        .min_peers = n > 1 ? 1 : 0,
        .alone_rounds = 3,
        .staleness_max = 5,
        .max_share = 0.5,
        .deadline_min_ms = 1000,
        .deadline_max_ms = 120000,
        .meet_ms = n > 1 ? 30000 : 0,
        .linger_ms = 240000,
    };
    a->config.identity.job.bytes[0] = 1;
  }
  return s;
}

/* The two do not know each other. */
static inline void swarm_unlink(struct swarm *s, size_t x, size_t y) {
  const size_t ends[2][2] = {{x, y}, {y, x}};
  for (size_t i = 0; i < 2; i++) {
    struct swarm_agent *a = &s->agents[ends[i][0]];
    size_t at = peer_index(a, ends[i][1]);
    a->n_peers--;
    memmove(a->peers + at, a->peers + at + 1, (a->n_peers - at) * sizeof *a->peers);
    memmove(a->others + at, a->others + at + 1, (a->n_peers - at) * sizeof *a->others);
  }
}

static inline void event_free(struct event *e) {
  if (e->kind == EVENT_TRAINED)
    trainer_job_free(e->data);
  else if (e->kind == EVENT_DURABLE)
    scribe_job_free(e->data);
  else if (e->kind == EVENT_WRITTEN)
    scribe_result_free(e->data);
  else
    free(e->data);
}

static inline void swarm_free(struct swarm *s) {
  for (size_t i = 0; i < s->n_heap; i++)
    event_free(&s->heap[i]);
  free(s->heap);
  for (size_t i = 0; i < SWARM_MAX; i++) {
    round_free(s->agents[i].machine);
    free(s->agents[i].story);
    free(s->agents[i].used);
  }
  free(s);
}

/* ---- letters ------------------------------------------------------------------------------------------------------ */

static inline void swarm_send_state(struct swarm_agent *a, size_t peer) {
  struct letter l = {.type = WIRE_STATE};
  round_fill_state(a->machine, peer, &l.state);
  swarm_send(a->swarm, a->self, a->peers[peer], &l);
}

static inline void swarm_send_hello(struct swarm_agent *a, size_t peer) {
  struct letter l = {.type = WIRE_HELLO};
  round_fill_hello(a->machine, peer, &l.hello);
  swarm_send(a->swarm, a->self, a->peers[peer], &l);
}

/* The sender's own newest manifest that the receiver holds stands for the one in HELLO. */
static inline void take_hello(struct swarm_agent *a, size_t peer, const struct letter *l) {
  struct swarm_agent *other = &a->swarm->agents[a->peers[peer]];
  const struct inbox *in = &other->machine->peers[peer_index(other, a->self)].inbox;
  struct manifest proof = {.boot_epoch = in->held.position.boot_epoch, .sequence = in->held.position.sequence};
  round_on_hello(a->machine, peer, &l->hello, proof.sequence > 0 ? &proof : NULL, a->swarm->now_ms);
}

static inline const uint8_t *find_full(const struct durable *d) {
  for (size_t i = d->n_kept; i-- > 0;) {
    if (d->kept[i].has_copy)
      return d->kept[i].copy_manifest;
    if (d->kept[i].has_payload)
      return d->kept[i].manifest;
  }
  return NULL;
}

static inline void take_ask(struct swarm_agent *a, size_t from, const struct letter *l) {
  const struct durable *d = &a->durable;
  struct letter answer = {.type = WIRE_MANIFEST};
  if (l->kind == MANIFEST_FULL && find_full(d)) {
    memcpy(answer.manifest, find_full(d), MANIFEST_BYTES);
    swarm_send(a->swarm, a->self, from, &answer);
    return;
  }
  size_t n_sent = 0;
  for (size_t i = 0; l->kind != MANIFEST_FULL && i < d->n_kept; i++) {
    if (d->kept[i].sequence != l->first + n_sent || n_sent == l->n)
      continue;
    memcpy(answer.manifest, d->kept[i].manifest, MANIFEST_BYTES);
    swarm_send(a->swarm, a->self, from, &answer);
    n_sent++;
  }
  if (n_sent > 0)
    return;
  bool is_gone = d->n_kept > 0 && l->kind != MANIFEST_FULL && l->first <= d->kept[d->n_kept - 1].sequence;
  struct letter refusal = {.type = WIRE_ANSWER, .reason = is_gone ? ERR_GONE : ERR_NOT_YET};
  swarm_send(a->swarm, a->self, from, &refusal);
}

static inline void take_get(struct swarm_agent *a, size_t from, const struct letter *l) {
  const struct durable *d = &a->durable;
  struct letter answer = {.type = WIRE_CHUNK, .fetched = l->fetched, .reason = ERR_GONE};
  for (size_t i = 0; i < d->n_kept; i++) {
    const struct kept *k = &d->kept[i];
    bool is_payload = k->has_payload && digest_equal(&k->payload_root, &l->fetched.payload_root);
    bool is_copy = k->has_copy && digest_equal(&k->copy_root, &l->fetched.payload_root);
    if (is_payload || is_copy) {
      answer.payload = is_payload ? k->payload : k->copy;
      answer.reason = ERR_OK;
    }
  }
  if (a->corrupt > 0 && answer.reason == ERR_OK) {
    a->corrupt--;
    answer.payload += 1;
  }
  swarm_send(a->swarm, a->self, from, &answer);
}

static inline void take_chunk(struct swarm_agent *a, size_t peer, const struct letter *l) {
  if (!a->is_fetching[peer] || a->fetch[peer].sequence != l->fetched.sequence)
    return;
  a->is_fetching[peer] = false;
  if (l->reason != ERR_OK)
    round_on_failed(a->machine, peer, l->reason, a->swarm->now_ms);
  else
    round_on_payload(a->machine, peer, &l->fetched, double_buffer(&l->payload, 1).bytes, a->swarm->now_ms);
}

static inline void swarm_take(struct swarm_agent *a, size_t from, const struct letter *l) {
  size_t peer = peer_index(a, from);
  uint64_t now = a->swarm->now_ms;
  struct manifest m;
  switch (l->type) {
  case WIRE_HELLO:
    take_hello(a, peer, l);
    break;
  case WIRE_STATE:
    round_on_state(a->machine, peer, &l->state, now);
    break;
  case WIRE_ASK:
    take_ask(a, from, l);
    break;
  case WIRE_MANIFEST:
    HOLDS(manifest_read(l->manifest, MANIFEST_BYTES, &m) == ERR_OK);
    round_on_manifest(a->machine, peer, &m, now);
    break;
  case WIRE_ANSWER:
    round_on_failed(a->machine, peer, l->reason, now);
    break;
  case WIRE_GET:
    take_get(a, from, l);
    break;
  case WIRE_CHUNK:
    take_chunk(a, peer, l);
    break;
  case WIRE_DONE:
    round_on_done(a->machine, peer, l->n, l->reason, now);
    break;
  case N_WIRES:
    break;
  }
}

/* ---- what must always hold ------------------------------------------------------------------------------------------ */

static inline void swarm_check(struct swarm_agent *a) {
  const struct round_machine *m = a->machine;
  struct round_view v;
  round_view(m, &v);
  HOLDS(v.committed.round == m->committed.round);
  HOLDS(!label_is_after(v.committed, a->durable.committed));
  bool gathers = m->phase == PHASE_GATHERING;
  if (gathers && !a->was_gathering)
    a->gather_until_ms = a->swarm->now_ms + a->config.deadline_max_ms;
  if (gathers) {
    HOLDS(v.closes_at_ms > a->swarm->now_ms);
    HOLDS(v.closes_at_ms <= a->gather_until_ms);
  }
  a->was_gathering = gathers;
  uint64_t waiting = 0;
  for (size_t i = 0; i < a->n_peers; i++) {
    const struct inbox *in = &m->peers[i].inbox;
    HOLDS(in->n_queue <= KEEP_PAYLOADS);
    HOLDS(in->n_offers <= KEEP_PAYLOADS);
    waiting += inbox_bytes(in);
  }
  HOLDS(waiting <= a->config.payload_max_bytes);
}

/* ---- time --------------------------------------------------------------------------------------------------------- */

static inline void swarm_session_begin(struct swarm *s, size_t a, size_t b) {
  bool can = s->agents[a].is_alive && s->agents[b].is_alive && !s->links[a][b].is_cut && !s->session[a][b];
  if (!can)
    return;
  s->session[a][b] = s->session[b][a] = ++s->n_sessions;
  s->links[a][b].last_ms = s->links[b][a].last_ms = 0;
  const size_t ends[2][2] = {{a, b}, {b, a}};
  for (size_t i = 0; i < 2; i++) {
    struct swarm_agent *agent = &s->agents[ends[i][0]];
    size_t peer = peer_index(agent, ends[i][1]);
    round_on_session(agent->machine, peer, true, ERR_OK, s->now_ms);
    swarm_send_hello(agent, peer);
    swarm_send_state(agent, peer);
  }
}

static inline void swarm_get_again(struct swarm_agent *a, const struct event *e) {
  if (!a->is_fetching[e->other] || a->fetch[e->other].sequence != e->session)
    return;
  struct letter l = {.type = WIRE_GET, .fetched = a->fetch[e->other]};
  swarm_send(a->swarm, a->self, a->peers[e->other], &l);
  swarm_push(a->swarm,
             (struct event){a->swarm->now_ms + 2000, 0, EVENT_GET_AGAIN, a->self, e->other, a->life, e->session, NULL});
}

static inline void swarm_handle(struct swarm *s, struct event *e) {
  struct swarm_agent *a = &s->agents[e->agent];
  switch (e->kind) {
  case EVENT_TICK:
    break;
  case EVENT_LEVEL:
    a->state_changed = true;
    swarm_push(s, (struct event){s->now_ms + 5000, 0, EVENT_LEVEL, e->agent, 0, a->life, 0, NULL});
    break;
  case EVENT_LETTER:
    if (s->session[e->agent][e->other] == e->session)
      swarm_take(a, e->other, e->data);
    free(e->data);
    break;
  case EVENT_TRAINED:
    swarm_trained(a, e->data);
    break;
  case EVENT_DURABLE:
    swarm_write(a, e->data);
    break;
  case EVENT_WRITTEN:
    round_on_written(a->machine, e->data, s->now_ms);
    break;
  case EVENT_GET_AGAIN:
    swarm_get_again(a, e);
    break;
  case EVENT_SESSION:
    break;
  }
}

/* What an agent does after every event. */
static inline void swarm_settle(struct swarm_agent *a) {
  struct swarm *s = a->swarm;
  uint64_t next = round_tick(a->machine, s->now_ms);
  HOLDS(next > s->now_ms);
  if (next != UINT64_MAX && (a->next_tick_ms <= s->now_ms || next < a->next_tick_ms)) {
    a->next_tick_ms = next;
    swarm_push(s, (struct event){next, 0, EVENT_TICK, a->self, 0, a->life, 0, NULL});
  }
  if (a->state_changed)
    for (size_t i = 0; i < a->n_peers; i++)
      swarm_send_state(a, i);
  a->state_changed = false;
  swarm_check(a);
}

static inline void swarm_run_until(struct swarm *s, uint64_t until_ms) {
  while (s->n_heap > 0 && s->heap[0].at_ms <= until_ms) {
    struct event e = swarm_pop(s);
    MUST(e.at_ms >= s->now_ms);
    s->now_ms = e.at_ms;
    struct swarm_agent *a = &s->agents[e.agent];
    if (e.kind == EVENT_SESSION) {
      swarm_session_begin(s, e.agent, e.other);
      continue;
    }
    if (!a->is_alive || a->life != e.life) {
      event_free(&e);
      continue;
    }
    swarm_handle(s, &e);
    swarm_settle(a);
  }
  s->now_ms = until_ms;
}

static inline void swarm_run(struct swarm *s, uint64_t for_ms) {
  swarm_run_until(s, s->now_ms + for_ms);
}

/* ---- what a test asks ----------------------------------------------------------------------------------------------- */

static inline void swarm_start_all(struct swarm *s) {
  for (size_t i = 0; i < SWARM_MAX; i++)
    if (s->agents[i].is_member)
      swarm_start(s, i);
}

static inline uint64_t swarm_round(const struct swarm *s, size_t which) {
  return s->agents[which].durable.committed.round;
}

static inline enum phase swarm_phase(const struct swarm *s, size_t which) {
  struct round_view v;
  round_view(s->agents[which].machine, &v);
  return v.phase;
}

static inline uint32_t swarm_noted(struct swarm *s, size_t which, const char *name) {
  return *swarm_note_count(&s->agents[which], name);
}

static inline const struct told *swarm_told(const struct swarm *s, size_t which, size_t from_end) {
  MUST(s->agents[which].n_story > from_end);
  return &s->agents[which].story[s->agents[which].n_story - 1 - from_end];
}

/* Until the agent has committed the round, in steps of 10 ms; false when it takes longer than the limit. */
static inline bool swarm_until_round(struct swarm *s, size_t which, uint64_t round, uint64_t limit_ms) {
  for (uint64_t t = 0; t < limit_ms; t += 10) {
    if (swarm_round(s, which) >= round)
      return true;
    swarm_run(s, 10);
  }
  return swarm_round(s, which) >= round;
}

static inline bool swarm_until_phase(struct swarm *s, size_t which, enum phase phase, uint64_t limit_ms) {
  for (uint64_t t = 0; t < limit_ms; t++) {
    if (s->agents[which].is_alive && s->agents[which].machine->phase == phase)
      return true;
    swarm_run(s, 1);
  }
  return false;
}

#endif
