/* A few agents in one process: what their callbacks saw, what they have to offer, and a network between them that is
 * either made of memory and virtual time (every frame can be lost, doubled or kept) or real ZeroMQ. */
#ifndef TESTS_UNIT_GOSSIP_WORLD_H
#define TESTS_UNIT_GOSSIP_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "crypto/digest.h"
#include "crypto/merkle.h"
#include "crypto/random.h"
#include "gossip/node.h"
#include "tests/unit/suite.h"

enum { MAX_AGENTS = 4, MAX_WIRES = 256, MAX_TRANSIT = 4096 };

/* What an agent heard about one peer. */
struct heard {
  unsigned n_up, n_down, n_hello, n_refused_job, n_state, n_manifest, n_payload, n_failed, n_answer, n_done, n_pool;
  unsigned n_ask_job, n_job_file, n_sketch;
  uint32_t sketch_serial;
  struct digest asked_job;
  uint32_t job_file_version;
  enum err down, refused_job, failed, answer, outcome;
  uint64_t answer_first, done_sequence;
  struct hello_job hello;
  struct wire_state state;
  struct manifest manifest;
  uint8_t *payload;
};

struct world;

struct agent {
  struct world *world;
  size_t number; /* in the world, by ascending key */
  struct identity *identity;
  struct gossip_config config;
  struct gossip_peer_config peers[MAX_AGENTS];
  size_t number_of_peer[MAX_AGENTS];
  struct gossip_job_config job;
  const struct gossip_job_config *jobs[1];
  char listen[MAX_ADDRESS_BYTES], name[16];
  const char *listen_list[1];
  struct gossip *node;            /* NULL: not running */
  int64_t wants_ms;               /* the last wait */
  struct heard heard[MAX_AGENTS]; /* by number in the world */

  struct wire_state state;
  struct hello_job hello;
  uint8_t *payload; /* what it has published */
  struct manifest published;
  uint8_t published_bytes[MANIFEST_BYTES];
  enum err find, read; /* instead of an answer */
  bool fetches;        /* everything that is offered */
  bool pools;          /* says POOL to whoever says HELLO for a job */
  enum err fetch_error;
};

/* A connection: from a dialled peer of one agent to another agent. */
struct wire {
  bool is_open;
  struct agent *from, *to;
  size_t peer; /* its index at `from` */
};

struct transit {
  uint64_t due_ms;
  struct agent *to;
  uint64_t conn;
  enum { TRANSIT_FRAME, TRANSIT_DIAL, TRANSIT_GONE } what;
  enum dial_event event;
  size_t n;
  uint8_t *frame;
};

struct world {
  struct agent agents[MAX_AGENTS];
  size_t n_agents;
  uint64_t now_ms;
  uint64_t latency_ms;
  bool is_real, is_cut; /* cut: nobody can dial */
  bool is_black;        /* nothing arrives, and whoever dials hears nothing */
  struct wire wires[MAX_WIRES];
  size_t n_wires;
  struct transit transit[MAX_TRANSIT];
  size_t n_transit;
  uint8_t outgoing[MAX_FRAME_BYTES];
  size_t n_outgoing;
  size_t full_after; /* frames that a connection holds; 0: any number */

  /* Called for every frame sent: how often it arrives (0, 1, 2). */
  unsigned (*filter)(struct world *w, struct agent *from, struct agent *to, const uint8_t *frame, size_t n);
  void *filter_context;
  unsigned n_by_type[256];
};

static inline enum message_type frame_type(const uint8_t *frame) {
  return (enum message_type)frame[4];
}

static inline size_t peer_of(const struct agent *a, const struct agent *other) {
  for (size_t i = 0; i < a->config.n_peers; i++)
    if (a->number_of_peer[i] == other->number)
      return i;
  ck_abort_msg("no such peer");
}

static inline struct heard *heard_by(struct agent *a, const struct agent *other) {
  return &a->heard[other->number];
}

static inline struct gossip_peer_info info_of(const struct agent *a, const struct agent *other) {
  struct gossip_peer_info info;
  gossip_peer_info(a->node, peer_of(a, other), &info);
  return info;
}

/* ---- callbacks ---- */

static inline struct heard *heard_of(void *context, size_t peer) {
  struct agent *a = context;
  return &a->heard[a->number_of_peer[peer]];
}

static inline void see_session(void *context, size_t peer, bool is_up, enum err reason) {
  struct heard *h = heard_of(context, peer);
  if (is_up) {
    h->n_up++;
  } else {
    h->n_down++;
    h->down = reason;
  }
}

static inline void see_hello(void *context, size_t peer, size_t job, const struct hello_job *hello) {
  static const uint8_t pair[POOL_PAIR_BYTES] = {0};
  struct agent *a = context;
  struct heard *h = heard_of(context, peer);
  h->n_hello++;
  h->hello = *hello;
  if (a->pools)
    gossip_send_pool(a->node, peer, job, &(struct wire_pool){.count = 1, .n = 1, .bytes = pair});
}

static inline void see_refused_job(void *context, size_t peer, size_t job, enum err reason) {
  (void)job;
  struct heard *h = heard_of(context, peer);
  h->n_refused_job++;
  h->refused_job = reason;
}

static inline void see_state(void *context, size_t peer, size_t job, const struct wire_state *state) {
  (void)job;
  struct heard *h = heard_of(context, peer);
  h->n_state++;
  h->state = *state;
}

static inline void see_manifest(void *context, size_t peer, size_t job, const struct manifest *m,
                                const uint8_t *bytes) {
  struct agent *a = context;
  struct heard *h = heard_of(context, peer);
  uint8_t again[MANIFEST_BYTES];
  manifest_write(m, again);
  ck_assert_mem_eq(again, bytes, MANIFEST_BYTES);
  h->n_manifest++;
  h->manifest = *m;
  if (a->fetches)
    a->fetch_error = gossip_fetch(a->node, peer, job, m);
}

static inline void see_payload(void *context, size_t peer, size_t job, const struct manifest *m, uint8_t *payload) {
  (void)job;
  struct heard *h = heard_of(context, peer);
  h->n_payload++;
  h->manifest = *m;
  free(h->payload);
  h->payload = payload;
}

static inline void see_fetch_failed(void *context, size_t peer, size_t job, const struct manifest *m, enum err reason) {
  (void)job;
  (void)m;
  struct heard *h = heard_of(context, peer);
  h->n_failed++;
  h->failed = reason;
}

static inline void see_answer(void *context, size_t peer, size_t job, uint64_t first, enum err reason) {
  (void)job;
  struct heard *h = heard_of(context, peer);
  h->n_answer++;
  h->answer_first = first;
  h->answer = reason;
}

static inline void see_done(void *context, size_t peer, size_t job, uint64_t sequence, enum err outcome) {
  (void)job;
  struct heard *h = heard_of(context, peer);
  h->n_done++;
  h->done_sequence = sequence;
  h->outcome = outcome;
}

static inline void see_pool(void *context, size_t peer, size_t job, const struct wire_pool *pool) {
  (void)job;
  struct heard *h = heard_of(context, peer);
  h->n_pool += pool->n;
}

static inline bool want_sketch(void *context, size_t peer, size_t job, const struct signed_sketch *s) {
  (void)job;
  return s->serial > heard_of(context, peer)->sketch_serial;
}

static inline void see_sketch(void *context, size_t peer, size_t job, const struct signed_sketch *s,
                              const uint8_t *bytes) {
  (void)job;
  struct heard *h = heard_of(context, peer);
  struct signed_sketch again;
  ck_assert_int_eq(signed_sketch_read(bytes, SIGNED_SKETCH_BYTES, &again), ERR_OK);
  h->n_sketch++;
  h->sketch_serial = s->serial;
}

static inline void see_ask_job(void *context, size_t peer, const struct digest *job) {
  struct heard *h = heard_of(context, peer);
  h->n_ask_job++;
  h->asked_job = *job;
}

static inline void see_job_file(void *context, size_t peer, const struct job_file *f, const uint8_t *bytes, size_t n) {
  struct heard *h = heard_of(context, peer);
  struct job_file again;
  ck_assert_int_eq(job_file_read(bytes, n, &again), ERR_OK);
  h->n_job_file++;
  h->job_file_version = f->version;
}

static inline void say_hello(void *context, size_t peer, size_t job, struct hello_job *out_hello) {
  (void)peer;
  (void)job;
  *out_hello = ((struct agent *)context)->hello;
}

static inline void say_state(void *context, size_t peer, size_t job, struct wire_state *out_state) {
  (void)peer;
  (void)job;
  *out_state = ((struct agent *)context)->state;
}

static inline enum err find_manifest(void *context, size_t peer, size_t job, enum manifest_kind kind, uint64_t first,
                                     size_t i, uint8_t out_bytes[MANIFEST_BYTES]) {
  (void)peer;
  (void)job;
  (void)kind;
  (void)first;
  struct agent *a = context;
  if (a->find != ERR_OK)
    return a->find;
  if (i > 0 || !a->payload)
    return ERR_NOT_FOUND;
  memcpy(out_bytes, a->published_bytes, MANIFEST_BYTES);
  return ERR_OK;
}

static inline enum err read_payload(void *context, size_t job, const struct digest *root, uint64_t offset, uint8_t *out,
                                    size_t n) {
  (void)job;
  struct agent *a = context;
  if (a->read != ERR_OK)
    return a->read;
  if (!a->payload || !digest_equal(root, &a->published.payload_root))
    return ERR_GONE;
  if (offset > a->published.n_payload || n > a->published.n_payload - offset)
    return ERR_RANGE;
  memcpy(out, a->payload + offset, n);
  return ERR_OK;
}

/* ---- the network of memory ---- */

static inline uint64_t world_now(void *context) {
  struct world *w = context;
  if (!w->is_real)
    return w->now_ms;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static inline void transit_put(struct world *w, struct transit t) {
  ck_assert_uint_lt(w->n_transit, MAX_TRANSIT);
  t.due_ms = w->now_ms + w->latency_ms;
  w->transit[w->n_transit++] = t;
}

static inline struct wire *wire_of(struct world *w, const struct agent *a, uint64_t conn) {
  if (conn_is_accepted(conn)) {
    struct wire *wire = &w->wires[conn & ~CONN_ACCEPTED];
    return wire->is_open ? wire : NULL;
  }
  for (size_t i = 0; i < w->n_wires; i++)
    if (w->wires[i].is_open && w->wires[i].from == a && w->wires[i].peer == conn)
      return &w->wires[i];
  return NULL;
}

/* Both ends are told, the one that closes excepted. */
static inline void wire_close(struct world *w, struct wire *wire, const struct agent *by) {
  if (!wire || !wire->is_open)
    return;
  wire->is_open = false;
  if (w->is_black)
    return;
  if (wire->from != by)
    transit_put(w, (struct transit){.to = wire->from, .conn = wire->peer, .what = TRANSIT_DIAL, .event = DIAL_LOST});
  uint64_t conn = CONN_ACCEPTED | (uint64_t)(wire - w->wires);
  transit_put(w, (struct transit){.to = wire->to, .conn = conn, .what = TRANSIT_GONE});
}

static inline void memory_frame_drop(void *context) {
  ((struct agent *)context)->world->n_outgoing = 0;
}

static inline size_t frames_to(const struct world *w, const struct agent *to) {
  size_t n = 0;
  for (size_t i = 0; i < w->n_transit; i++)
    n += w->transit[i].to == to && w->transit[i].what == TRANSIT_FRAME;
  return n;
}

static inline void transit_frame(struct world *w, struct agent *to, uint64_t conn, const uint8_t *bytes, size_t n) {
  uint8_t *copy = malloc(n);
  memcpy(copy, bytes, n);
  transit_put(w, (struct transit){.to = to, .conn = conn, .what = TRANSIT_FRAME, .n = n, .frame = copy});
}

static inline enum err memory_frame_new(void *context, uint64_t conn, size_t n, uint8_t **out_frame) {
  struct agent *a = context;
  struct world *w = a->world;
  ck_assert_uint_le(n, MAX_FRAME_BYTES);
  const struct wire *wire = wire_of(w, a, conn);
  if (!wire)
    return ERR_NOT_CONNECTED;
  if (w->full_after && frames_to(w, wire->from == a ? wire->to : wire->from) >= w->full_after)
    return ERR_BUSY;
  w->n_outgoing = n;
  *out_frame = w->outgoing;
  return ERR_OK;
}

static inline enum err memory_frame_send(void *context, uint64_t conn) {
  struct agent *a = context;
  struct world *w = a->world;
  struct wire *wire = wire_of(w, a, conn);
  if (!wire)
    return ERR_NOT_CONNECTED;
  struct agent *to = wire->from == a ? wire->to : wire->from;
  uint64_t conn_there = wire->from == a ? CONN_ACCEPTED | (uint64_t)(wire - w->wires) : wire->peer;
  w->n_by_type[frame_type(w->outgoing)]++;
  if (w->is_black)
    return ERR_OK;
  unsigned times = w->filter ? w->filter(w, a, to, w->outgoing, w->n_outgoing) : 1;
  while (times-- > 0)
    transit_frame(w, to, conn_there, w->outgoing, w->n_outgoing);
  return ERR_OK;
}

static inline void memory_dial(void *context, size_t peer, const char *address) {
  struct agent *a = context;
  struct world *w = a->world;
  struct agent *to = NULL;
  for (size_t i = 0; i < w->n_agents; i++)
    if (strcmp(w->agents[i].listen, address) == 0 && w->agents[i].node && !w->is_cut)
      to = &w->agents[i];
  if (w->is_black)
    return;
  enum dial_event event = to ? DIAL_CONNECTED : DIAL_FAILED;
  if (to) {
    ck_assert_uint_lt(w->n_wires, MAX_WIRES);
    w->wires[w->n_wires++] = (struct wire){.is_open = true, .from = a, .to = to, .peer = peer};
  }
  transit_put(w, (struct transit){.to = a, .conn = peer, .what = TRANSIT_DIAL, .event = event});
}

static inline void memory_hang_up(void *context, size_t peer) {
  struct agent *a = context;
  wire_close(a->world, wire_of(a->world, a, peer), a);
}

static inline void memory_kick(void *context, uint64_t conn) {
  struct agent *a = context;
  wire_close(a->world, wire_of(a->world, a, conn), NULL);
}

static inline void memory_set_session(void *context, uint64_t conn, bool has_session) {
  (void)context;
  (void)conn;
  (void)has_session;
}

static inline void transit_deliver(struct agent *a, const struct transit *t) {
  struct link_sink sink = node_sink(a->node);
  if (t->what == TRANSIT_FRAME)
    sink.on_frame(sink.context, t->conn, a->world->agents[0].listen, t->frame, t->n);
  else if (t->what == TRANSIT_DIAL)
    sink.on_dial(sink.context, (size_t)t->conn, t->event);
  else
    sink.on_gone(sink.context, t->conn);
}

/* Takes the first that is due for the agent. */
static inline bool transit_take(struct agent *a, struct transit *out) {
  struct world *w = a->world;
  for (size_t i = 0; i < w->n_transit; i++) {
    if (w->transit[i].to != a || w->transit[i].due_ms > w->now_ms)
      continue;
    *out = w->transit[i];
    memmove(&w->transit[i], &w->transit[i + 1], (--w->n_transit - i) * sizeof *w->transit);
    return true;
  }
  return false;
}

static inline void memory_wait(void *context, struct link_fd *extra, size_t n_extra, int64_t timeout_ms) {
  (void)extra;
  (void)n_extra;
  struct agent *a = context;
  struct transit t;
  a->wants_ms = timeout_ms;
  while (transit_take(a, &t)) {
    a->wants_ms = 0; /* it may have more to say at once */
    transit_deliver(a, &t);
    free(t.frame);
  }
}

static inline void memory_close(void *context) {
  struct agent *a = context;
  struct world *w = a->world;
  for (size_t i = 0; i < w->n_wires; i++)
    if (w->wires[i].from == a || w->wires[i].to == a)
      wire_close(w, &w->wires[i], a);
}

/* ---- life ---- */

static const struct gossip_events agent_events = {
    .on_session = see_session,
    .on_hello = see_hello,
    .on_refused_job = see_refused_job,
    .on_state = see_state,
    .on_manifest = see_manifest,
    .on_payload = see_payload,
    .on_fetch_failed = see_fetch_failed,
    .on_answer = see_answer,
    .on_done = see_done,
    .on_pool = see_pool,
    .wants_sketch = want_sketch,
    .on_sketch = see_sketch,
    .on_ask_job = see_ask_job,
    .on_job_file = see_job_file,
    .fill_hello = say_hello,
    .fill_state = say_state,
    .find_manifest = find_manifest,
    .read_payload = read_payload,
};

static const struct link_calls memory_calls = {memory_frame_new,   memory_frame_send, memory_frame_drop,
                                               memory_dial,        memory_hang_up,    memory_kick,
                                               memory_set_session, memory_wait,       memory_close};

static inline enum err agent_open(struct agent *a, char why[MAX_REASON_BYTES]) {
  a->config.events_context = a;
  if (a->world->is_real)
    return gossip_open(&a->config, &agent_events, &a->node, why);
  enum err e = node_new(&a->config, &agent_events, &a->node, why);
  if (e == ERR_OK)
    a->node->link = (struct link){a, &memory_calls};
  return e;
}

static inline void agent_start(struct agent *a) {
  char why[MAX_REASON_BYTES] = "";
  enum err e = agent_open(a, why);
  ck_assert_msg(e == ERR_OK, "%s: %s", err_name(e), why);
}

static inline void agent_stop(struct agent *a, enum err reason) {
  gossip_close(a->node, reason);
  a->node = NULL;
}

/* As kill -9: no word, the connections end. */
static inline void agent_kill(struct agent *a) {
  memory_close(a);
  node_free(a->node);
  a->node = NULL;
}

static inline struct identity *identity_numbered(uint8_t n) {
  uint8_t seed[IDENTITY_SEED_BYTES] = {n};
  struct identity *id;
  ck_assert_int_eq(identity_from_seed(seed, &id), ERR_OK);
  return id;
}

static inline int by_key(const void *a, const void *b) {
  const struct identity *const *x = a, *const *y = b;
  return identity_key_compare(identity_public(*x), identity_public(*y));
}

static inline struct digest digest_filled(uint8_t with) {
  struct digest d;
  memset(d.bytes, with, sizeof d.bytes);
  return d;
}

static inline void agent_init(struct world *w, size_t number, struct identity *id) {
  ck_assert_uint_lt(number, MAX_AGENTS);
  struct agent *a = &w->agents[number];
  *a = (struct agent){.world = w, .number = number, .identity = id};
  if (w->is_real)
    snprintf(a->listen, sizeof a->listen, "ipc://@starling-test-%d-%zu", (int)getpid(), number);
  else
    snprintf(a->listen, sizeof a->listen, "tcp://10.0.0.%zu:7411", number);
  a->listen_list[0] = a->listen;
  snprintf(a->name, sizeof a->name, "agent%zu", number);
  a->job.job = digest_filled(1);
  a->job.schema = digest_filled(2);
  a->job.contract = digest_filled(3);
  a->job.schema_text = "model: dense 10\ntensor 1: dense1.weight [10,784] f32 shared\n";
  a->job.contract_text = "contract: 1\nclass 1: \"ok\"\nclass 2: \"dent\"\n";
  a->jobs[0] = &a->job;
  a->config = (struct gossip_config){.identity = id,
                                     .swarm = {7},
                                     .boot_epoch = 100 + number,
                                     .listen = a->listen_list,
                                     .n_listen = 1,
                                     .peers = a->peers,
                                     .jobs = a->jobs,
                                     .n_jobs = 1,
                                     .payload_max_bytes = 64 << 20,
                                     .payload_bound = 32 << 20,
                                     .max_members = MAX_MEMBERS,
                                     .addresses = w->is_real ? NULL : a->listen,
                                     .now_ms = world_now,
                                     .now_context = w};
  a->state = (struct wire_state){.follows = true, .phase = PHASE_IDLE, .round = number};
  a->hello = (struct hello_job){.round = number};
}

/* n agents that all know each other and dial each other; numbers ascend with keys, so peers do. */
static inline struct world *world_new(size_t n, bool is_real) {
  struct world *w = calloc(1, sizeof *w);
  ck_assert_ptr_nonnull(w);
  struct identity *ids[MAX_AGENTS];
  ck_assert_int_eq(random_open(), ERR_OK);
  w->is_real = is_real;
  w->n_agents = n;
  w->now_ms = 1000000;
  w->latency_ms = 5;
  for (size_t i = 0; i < n; i++)
    ids[i] = identity_numbered((uint8_t)(i + 1));
  qsort(ids, n, sizeof ids[0], by_key); // NOLINT(bugprone-sizeof-expression): an array of pointers
  for (size_t i = 0; i < n; i++)
    agent_init(w, i, ids[i]);
  for (size_t i = 0; i < n; i++) {
    struct agent *a = &w->agents[i];
    for (size_t k = 0; k < n; k++) {
      if (k == i)
        continue;
      size_t p = a->config.n_peers++;
      a->number_of_peer[p] = k;
      a->peers[p].key = *identity_public(ids[k]);
      a->peers[p].name = w->agents[k].name;
      a->peers[p].address = w->agents[k].listen;
    }
  }
  return w;
}

/* `a` does not dial `other`. */
static inline void only_called_by(struct agent *a, const struct agent *other) {
  a->peers[peer_of(a, other)].address = "";
}

static inline void world_start(struct world *w) {
  for (size_t i = 0; i < w->n_agents; i++)
    agent_start(&w->agents[i]);
}

static inline void world_free(struct world *w) {
  for (size_t i = 0; i < w->n_agents; i++)
    if (w->agents[i].node)
      agent_stop(&w->agents[i], ERR_STOPPED); /* all, before an identity that two may share is freed */
  for (size_t i = 0; i < w->n_agents; i++) {
    struct agent *a = &w->agents[i];
    for (size_t k = 0; k < MAX_AGENTS; k++)
      free(a->heard[k].payload);
    free(a->payload);
    identity_free(a->identity);
  }
  for (size_t i = 0; i < w->n_transit; i++)
    free(w->transit[i].frame);
  free(w);
}

/* Polls everybody once; how long all may sleep. */
static inline uint64_t world_turn(struct world *w) {
  uint64_t sleep_ms = 1000;
  for (size_t i = 0; i < w->n_agents; i++) {
    struct agent *a = &w->agents[i];
    if (!a->node)
      continue;
    link_poll(a->node, NULL, 0, w->is_real ? 1 : 1000);
    if ((uint64_t)a->wants_ms < sleep_ms)
      sleep_ms = (uint64_t)a->wants_ms;
  }
  for (size_t i = 0; i < w->n_transit; i++) {
    uint64_t in_ms = w->transit[i].due_ms > w->now_ms ? w->transit[i].due_ms - w->now_ms : 0;
    if (w->transit[i].to->node && in_ms < sleep_ms)
      sleep_ms = in_ms;
  }
  return sleep_ms;
}

/* Lets virtual time pass. */
static inline void world_run(struct world *w, uint64_t ms) {
  uint64_t end_ms = w->now_ms + ms;
  unsigned n_turns = 0;
  while (w->now_ms < end_ms) {
    uint64_t sleep_ms = world_turn(w);
    if (sleep_ms == 0) {
      ck_assert_uint_lt(n_turns++, 100000);
      continue;
    }
    n_turns = 0;
    w->now_ms = sleep_ms < end_ms - w->now_ms ? w->now_ms + sleep_ms : end_ms;
  }
  while (world_turn(w) == 0)
    ck_assert_uint_lt(n_turns++, 100000);
}

/* Real time: polls for a while. */
static inline void world_pass(struct world *w, uint64_t ms) {
  for (uint64_t end_ms = world_now(w) + ms; world_now(w) < end_ms;)
    world_turn(w);
}

/* Real time: polls until the condition holds, and fails when it does not within ms. */
#define WORLD_UNTIL(w, condition, ms)                                                                                  \
  do {                                                                                                                 \
    for (uint64_t end_ms_ = world_now(w) + (ms); !(condition) && world_now(w) < end_ms_;)                              \
      world_turn(w);                                                                                                   \
    ck_assert(condition);                                                                                              \
  } while (0)

/* Publishes n bytes of noise as update `sequence` of the agent. */
static inline void agent_publish(struct agent *a, size_t n, uint64_t sequence) {
  free(a->payload);
  a->payload = malloc(n);
  uint32_t x = (uint32_t)sequence * 2654435761u;
  for (size_t i = 0; i < n; i++) {
    x = x * 1664525u + 1013904223u;
    a->payload[i] = (uint8_t)(x >> 24);
  }
  a->published = (struct manifest){.kind = MANIFEST_FULL,
                                   .encoding = ENCODING_F32,
                                   .job = a->job.job,
                                   .schema = a->job.schema,
                                   .contract = a->job.contract,
                                   .boot_epoch = a->config.boot_epoch,
                                   .sequence = sequence,
                                   .round = sequence,
                                   .samples = 10,
                                   .mu = 1,
                                   .n_payload = n};
  memcpy(a->published.swarm.bytes, a->config.swarm, sizeof a->config.swarm);
  merkle_root(&digest_blake2b, a->payload, n, &a->published.payload_root);
  a->published.chain = chain_start(&a->published.payload_root);
  manifest_sign(&a->published, a->identity);
  manifest_write(&a->published, a->published_bytes);
}

#endif
