#include "agent/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sim/parts.h"
#include "agent/sim/plain.h"
#include "base/must.h"
#include "gossip/node.h"

enum { US_PER_MS = 1000, DELAY_US = 10 * US_PER_MS, MAX_TURNS = 100 };

void sim_put(struct sim_agent *a, uint64_t at_us, struct sim_event e) {
  e.at_us = at_us;
  e.agent = (uint32_t)a->number;
  e.life = a->life;
  sim_queue_put(&a->sim->queue, e);
}

void sim_trace(struct sim *s, uint64_t word) {
  s->trace = rng_mix(s->trace ^ word);
}

static void event_free(struct sim_event *e) {
  if (e->kind == SIM_TRAINED)
    trainer_job_free(e->data);
  else if (e->kind == SIM_DURABLE)
    scribe_job_free(e->data);
  else if (e->kind == SIM_WRITTEN)
    scribe_result_free(e->data);
  else
    free(e->data);
}

/* ---- making ---- */

static void *zeros(size_t n, size_t size) {
  void *p = calloc(n > 0 ? n : 1, size);
  MUST(p != NULL);
  return p;
}

static struct identity *identity_numbered(size_t n) {
  uint8_t seed[IDENTITY_SEED_BYTES] = {0};
  struct identity *id;
  for (size_t i = 0; i < sizeof n; i++)
    seed[i] = (uint8_t)((n + 1) >> 8 * i);
  MUST(identity_from_seed(seed, &id) == ERR_OK);
  return id;
}

static int by_key(const void *a, const void *b) {
  const struct identity *const *x = a, *const *y = b;
  return identity_key_compare(identity_public(*x), identity_public(*y));
}

/* Ascending by key; without ciphers nobody has an identity. */
static struct identity **identities(const struct sim *s) {
  struct identity **ids = zeros(s->n_agents, sizeof(void *));
  if (s->fidelity == SIM_PROTOCOL)
    return ids;
  for (size_t i = 0; i < s->n_agents; i++)
    ids[i] = identity_numbered(i);
  qsort(ids, s->n_agents, sizeof ids[0], by_key); // NOLINT(bugprone-sizeof-expression): an array of pointers
  return ids;
}

const struct seals *sim_seals(const struct sim *s) {
  return s->fidelity == SIM_PROTOCOL ? &plain_seals : &seals_noise;
}

void sim_sign(struct manifest *m, const struct sim_agent *a) {
  if (a->identity)
    manifest_sign(m, a->identity);
  else
    plain_sign(m, &a->key);
}

static struct round_config config_default(const struct sim *s) {
  return (struct round_config){
      .identity = {.swarm = {{7}}, .job = s->job.job, .schema = s->job.schema, .contract = s->job.contract},
      .encoding = ENCODING_F32,
      .link_bytes = (size_t)s->payload_bytes,
      .full_bytes = (size_t)s->payload_bytes,
      .payload_max_bytes = UINT64_C(64) << 20,
      .min_peers = 1,
      .alone_rounds = 3,
      .staleness_max = 5,
      .max_share = 0.5,
      .deadline_min_ms = 1000,
      .deadline_max_ms = 120000,
      .meet_ms = 30000,
      .linger_ms = 240000,
  };
}

static struct sim_agent *agent_new(struct sim *s, size_t number, struct identity *identity) {
  struct sim_agent *a = zeros(1, sizeof *a);
  *a = (struct sim_agent){
      .sim = s,
      .number = number,
      .identity = identity,
      .key = identity ? *identity_public(identity) : plain_key(number),
      .samples = 100,
      .host = {.speed = 1, .loading_ms = 5, .training_ms = 1000, .merging_ms = 5, .writing_ms = 20},
      .fail_with = ERR_NON_FINITE,
      .x = zeros(3 * s->dims, sizeof(double)),
  };
  a->copy = a->x + s->dims;
  a->pending = a->copy + s->dims;
  snprintf(a->name, sizeof a->name, "agent%zu", number);
  return a;
}

static struct sim *sim_make(enum sim_fidelity fidelity, size_t n, size_t dims, uint64_t payload_bytes, uint64_t seed) {
  MUST(payload_bytes >= dims * sizeof(double));
  struct sim *s = zeros(1, sizeof *s);
  s->fidelity = fidelity;
  s->max_members = n <= SIM_MEMBERS_UP_TO ? MAX_MEMBERS : 0;
  rng_init(&s->rng, seed);
  s->seed = seed;
  s->now_ms = SIM_START_MS;
  s->now_us = (uint64_t)SIM_START_MS * US_PER_MS;
  s->n_agents = n;
  s->dims = dims;
  s->payload_bytes = payload_bytes;
  s->trainer = &sim_numbers;
  s->default_link.delay_us = DELAY_US;
  s->job = (struct gossip_job_config){.schema_text = "tensor 1: x f64 shared\n", .contract_text = "contract: 1\n"};
  s->job.job.bytes[0] = s->job.schema.bytes[1] = s->job.contract.bytes[2] = 1;
  s->config = config_default(s);
  s->agents = zeros(n, sizeof(void *));
  struct identity **ids = identities(s);
  for (size_t i = 0; i < n; i++)
    s->agents[i] = agent_new(s, i, ids[i]);
  free(ids);
  return s;
}

struct sim *sim_new_as(enum sim_fidelity fidelity, size_t n, size_t dims, uint64_t seed) {
  return sim_make(fidelity, n, dims, dims * sizeof(double), seed);
}

struct sim *sim_new(size_t n, size_t dims, uint64_t seed) {
  return sim_new_as(SIM_SEALED, n, dims, seed);
}

struct sim *sim_new_protocol(size_t n, size_t dims, uint64_t payload_bytes, uint64_t seed) {
  return sim_make(SIM_PROTOCOL, n, dims, payload_bytes, seed);
}

static void peer_done(struct sim_peer *p) {
  free(p->copy);
  free(p->proof);
}

static void agent_free(struct sim_agent *a) {
  for (size_t i = 0; i < a->n_peers; i++)
    peer_done(&a->peers[i]);
  free(a->peers);
  mass_done(&a->mass);
  free(a->x);
  for (size_t i = 0; i < a->n_links; i++)
    free(a->links[i].own);
  free(a->links);
  free(a->wires);
  free(a->others);
  free(a->used);
  free(a->own_config);
  sim_durable_clear(&a->durable);
  identity_free(a->identity);
  free(a);
}

void sim_free(struct sim *s) {
  if (!s)
    return;
  for (size_t i = 0; i < s->n_agents; i++)
    if (s->agents[i]->is_alive)
      sim_kill(s, i);
  for (size_t i = 0; i < s->queue.n; i++)
    event_free(&s->queue.heap[i]);
  sim_queue_done(&s->queue);
  for (size_t i = 0; i < s->n_agents; i++)
    agent_free(s->agents[i]);
  free(s->agents);
  free(s->wires);
  free(s->free_wires);
  free(s);
}

const struct round_config *sim_config(const struct sim_agent *a) {
  return a->own_config ? a->own_config : &a->sim->config;
}

struct round_config *sim_own_config(struct sim_agent *a) {
  if (!a->own_config) {
    a->own_config = zeros(1, sizeof *a->own_config);
    *a->own_config = a->sim->config;
  }
  return a->own_config;
}

size_t sim_peer_index(const struct sim_agent *a, size_t other) {
  size_t low = 0, high = a->n_peers;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (a->peers[middle].agent < other)
      low = middle + 1;
    else
      high = middle;
  }
  return low < a->n_peers && a->peers[low].agent == other ? low : SIZE_MAX;
}

void sim_learn(struct sim *s, size_t which, size_t other) {
  struct sim_agent *a = s->agents[which];
  MUST(!a->is_alive && other != which && sim_peer_index(a, other) == SIZE_MAX);
  a->peers = realloc(a->peers, (a->n_peers + 1) * sizeof *a->peers);
  MUST(a->peers != NULL);
  size_t at = a->n_peers++;
  for (; at > 0 && a->peers[at - 1].agent > other; at--)
    a->peers[at] = a->peers[at - 1];
  a->peers[at] = (struct sim_peer){
      .agent = other, .is_dialled = true, .wire = SIM_NO_WIRE, .copy = zeros(s->dims, sizeof(double))};
}

void sim_meet(struct sim *s, size_t a, size_t b) {
  if (a == b || sim_peer_index(s->agents[a], b) != SIZE_MAX)
    return;
  sim_learn(s, a, b);
  sim_learn(s, b, a);
}

void sim_forget(struct sim *s, size_t which, size_t other) {
  struct sim_agent *a = s->agents[which];
  size_t at = sim_peer_index(a, other);
  MUST(!a->is_alive && at != SIZE_MAX);
  peer_done(&a->peers[at]);
  memmove(a->peers + at, a->peers + at + 1, (--a->n_peers - at) * sizeof *a->peers);
}

struct sim_link_to *sim_link_to(struct sim *s, size_t from, size_t to) {
  struct sim_agent *a = s->agents[from];
  size_t low = 0, high = a->n_links;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (a->links[middle].to < to)
      low = middle + 1;
    else
      high = middle;
  }
  if (low < a->n_links && a->links[low].to == to)
    return &a->links[low];
  a->links = realloc(a->links, (a->n_links + 1) * sizeof *a->links);
  MUST(a->links != NULL);
  memmove(a->links + low + 1, a->links + low, (a->n_links++ - low) * sizeof *a->links);
  a->links[low] = (struct sim_link_to){.to = to};
  return &a->links[low];
}

const struct sim_link *sim_link_of(const struct sim *s, const struct sim_link_to *l) {
  return l->own ? l->own : &s->default_link;
}

struct sim_link *sim_link(struct sim *s, size_t from, size_t to) {
  struct sim_link_to *l = sim_link_to(s, from, to);
  if (!l->own) {
    l->own = zeros(1, sizeof *l->own);
    *l->own = s->default_link;
  }
  return l->own;
}

void sim_link_reset(struct sim *s, size_t from, size_t to) {
  struct sim_link_to *l = sim_link_to(s, from, to);
  free(l->own);
  *l = (struct sim_link_to){.to = to};
}

size_t sim_held(const struct sim *s, uint64_t n) {
  size_t held = s->dims * sizeof(double) + s->n_tail;
  return n < held ? (size_t)n : held;
}

/* ---- life ---- */

static uint64_t read_clock(void *context) {
  return sim_clock_ms(context);
}

/* Where its listener is follows from who it is (wires.c): the address is for people. */
static void name_peers(struct sim_agent *a) {
  free(a->others);
  a->others = zeros(a->n_peers, sizeof *a->others);
  for (size_t i = 0; i < a->n_peers; i++) {
    struct sim_peer *p = &a->peers[i];
    const struct sim_agent *other = a->sim->agents[p->agent];
    a->others[i] = (struct gossip_peer_config){other->key, other->name, p->is_dialled ? other->name : ""};
    free(p->proof);
    p->proof = NULL;
    p->wire = SIM_NO_WIRE;
  }
}

static void open_node(struct sim_agent *a) {
  struct sim *s = a->sim;
  name_peers(a);
  const char *const no_address[1] = {NULL};
  const struct gossip_job_config *const jobs[] = {&s->job};
  char why[MAX_REASON_BYTES];
  struct gossip_config config = {.identity = a->identity,
                                 .swarm = {7},
                                 .boot_epoch = a->durable.boot_epoch,
                                 .listen = no_address,
                                 .peers = a->others,
                                 .n_peers = a->n_peers,
                                 .jobs = jobs,
                                 .n_jobs = 1,
                                 .payload_max_bytes = sim_config(a)->payload_max_bytes,
                                 .payload_bound = sim_config(a)->full_bytes,
                                 .version_min = a->version_min,
                                 .version_max = a->version_max,
                                 .max_members = s->max_members,
                                 .relay = s->relays ? GOSSIP_RELAY_CARRY : GOSSIP_RELAY_OFF,
                                 .name = a->name,
                                 .now_ms = read_clock,
                                 .now_context = a,
                                 .events_context = a};
  struct node_means means = {.seals = sim_seals(s), .self = {a->identity, a->key}, .scratch = s->scratch};
  MUST(node_new_with(&means, &config, &sim_gossip_events, &a->node, why) == ERR_OK);
  a->node->link = (struct link){a, &sim_link_calls};
  if (s->fidelity == SIM_PROTOCOL)
    a->node->budget.held_bytes = sim_held(s, UINT64_MAX);
  rng_init(&a->node->rng, s->seed + s->n_starts);
}

static struct store_resume resume_of(const struct sim_durable *d) {
  struct store_resume r = {.committed = d->committed, .n_short = d->committed.sub};
  if (d->n_kept > 0) {
    const struct position *newest = &d->kept[d->n_kept - 1].position;
    r.sequence = newest->sequence;
    r.sequence_epoch = newest->boot_epoch;
    r.chain = newest->chain;
  }
  r.at = d->is_gathering ? RESUME_PUBLISHED : d->has_commit ? RESUME_COMMITTED : RESUME_FRESH;
  if (d->is_gathering)
    r.published = d->published;
  r.has_roll_back = d->back != NULL;
  if (d->back)
    r.roll_back = *d->back;
  return r;
}

static struct buffer copy_of(const struct buffer *b, bool is_there) {
  return is_there && b->bytes ? sim_buffer(b->bytes, b->n_bytes) : (struct buffer){0};
}

/* By its own clock. */
static void wake_at(struct sim_agent *a, uint64_t clock_ms) {
  uint64_t at_ms = clock_ms - a->host.clock_ahead_ms;
  if (a->wake_ms > a->sim->now_ms && a->wake_ms <= at_ms)
    return;
  a->wake_ms = at_ms;
  sim_put(a, at_ms * US_PER_MS, (struct sim_event){.kind = SIM_WAKE});
}

/* Peers ascend, and none is oneself. */
static size_t n_before(const struct sim_agent *a) {
  size_t n = 0;
  while (n < a->n_peers && a->peers[n].agent < a->number)
    n++;
  return n;
}

static void start_machine(struct sim_agent *a) {
  struct sim_durable *d = &a->durable;
  struct round_self self = {a->others, a->n_peers, d->boot_epoch, a, n_before(a)};
  if (a->n_peers == 0) {
    sim_own_config(a)->min_peers = 0;
    sim_own_config(a)->meet_ms = 0;
  }
  MUST(round_new(sim_config(a), &self, &sim_round_ports, &a->machine) == ERR_OK);
  sim_group_start(a);
  if (a->sim->watch.made)
    a->sim->watch.made(a->sim->watch.context, a);
  struct store_resume resume = resume_of(d);
  struct position *merged = zeros(a->n_peers, sizeof *merged);
  for (size_t i = 0; i < a->n_peers; i++)
    merged[i] = sim_merged_find(d, a->peers[i].agent);
  struct buffer half = copy_of(&d->half, resume.at != RESUME_FRESH);
  struct buffer model = copy_of(&d->model, resume.at == RESUME_COMMITTED);
  round_start(a->machine, &resume, half, model, merged, sim_clock_ms(a));
  free(merged);
}

void sim_start(struct sim *s, size_t which) {
  struct sim_agent *a = s->agents[which];
  MUST(!a->is_alive);
  a->durable.boot_epoch = ((a->durable.boot_epoch >> 32) + 1) << 32 | ++s->n_starts;
  a->life++;
  a->is_alive = true;
  a->wake_ms = 0;
  a->was_gathering = false;
  a->started_from = a->moved_at = a->durable.committed;
  a->moved_ms = s->now_ms;
  sim_host_restart(&a->host);
  open_node(a);
  start_machine(a);
  wake_at(a, sim_clock_ms(a));
}

void sim_start_all(struct sim *s) {
  for (size_t i = 0; i < s->n_agents; i++)
    sim_start(s, i);
}

void sim_kill(struct sim *s, size_t which) {
  struct sim_agent *a = s->agents[which];
  MUST(a->is_alive);
  a->is_alive = false;
  a->life++;
  sim_close_wires(s, which, SIZE_MAX);
  node_free(a->node);
  round_free(a->machine);
  sim_group_end(a);
  mass_done(&a->mass);
  a->node = NULL;
  a->machine = NULL;
}

struct sim_durable *sim_back_up(const struct sim *s, size_t which) {
  struct sim_durable *backup = zeros(1, sizeof *backup);
  sim_durable_copy(backup, &s->agents[which]->durable);
  return backup;
}

void sim_durable_free(struct sim_durable *d) {
  if (d)
    sim_durable_clear(d);
  free(d);
}

void sim_restore(struct sim *s, size_t which, const struct sim_durable *backup) {
  struct sim_agent *a = s->agents[which];
  MUST(!a->is_alive);
  s->mass_is_void = true;
  sim_durable_clear(&a->durable);
  if (backup)
    sim_durable_copy(&a->durable, backup);
}

static struct identity *identity_again(const struct identity *from) {
  uint8_t seed[IDENTITY_SEED_BYTES];
  struct identity *identity;
  if (!from)
    return NULL;
  identity_seed(from, seed);
  MUST(identity_from_seed(seed, &identity) == ERR_OK);
  return identity;
}

size_t sim_clone(struct sim *s, size_t which) {
  const struct sim_agent *from = s->agents[which];
  size_t number = s->n_agents;
  s->mass_is_void = true;
  struct identity *identity = identity_again(from->identity);
  s->agents = realloc(s->agents, (number + 1) * sizeof(void *));
  MUST(s->agents != NULL);
  struct sim_agent *a = s->agents[s->n_agents++] = agent_new(s, number, identity);
  a->key = from->key;
  if (from->own_config)
    *sim_own_config(a) = *from->own_config;
  a->host = from->host;
  a->has_lied = s->agents[which]->has_lied = true;
  for (size_t i = 0; i < from->n_peers; i++) {
    sim_learn(s, number, from->peers[i].agent);
    a->peers[i].is_dialled = from->peers[i].is_dialled;
  }
  sim_durable_copy(&a->durable, &from->durable);
  return number;
}

void sim_pause(struct sim *s, size_t which, uint64_t for_ms) {
  s->agents[which]->host.paused_until_us = s->now_us + for_ms * US_PER_MS;
}

/* ---- time ---- */

static void take_notes(struct sim_agent *a) {
  for (struct gossip_note n; gossip_note_take(a->node, &n);)
    if (n.reason == ERR_CLONE)
      sim_note(a, err_name(n.reason), n.peer, n.text);
  size_t peer;
  enum err reason;
  while (gossip_reason_take(a->node, &peer, &reason))
    round_on_session(a->machine, peer, false, reason, sim_clock_ms(a));
}

/* What an agent does after every event: until neither machine nor node has anything more to do now. */
static void settle(struct sim_agent *a) {
  uint64_t next_ms, now_ms = sim_clock_ms(a);
  unsigned n_turns = 0;
  bool was_idle = now_ms < a->machine->due_ms;
  do {
    a->is_touched = false;
    round_set_traffic(a->machine, gossip_sent_bytes(a->node), gossip_received_bytes(a->node));
    uint64_t group_ms = sim_group_turn(a);
    next_ms = round_tick(a->machine, now_ms);
    next_ms = group_ms < next_ms ? group_ms : next_ms;
    link_poll(a->node, NULL, 0, 0);
    take_notes(a);
  } while ((a->is_touched || node_due_ms(a->node) <= now_ms) &&
           sim_holds(a, SIM_INVARIANT_SETTLES, ++n_turns < MAX_TURNS));
  uint64_t node_ms = node_due_ms(a->node), due_ms = node_ms < next_ms ? node_ms : next_ms;
  sim_holds(a, SIM_INVARIANT_LOOKS_AHEAD, due_ms > now_ms);
  if (due_ms != UINT64_MAX)
    wake_at(a, due_ms > now_ms ? due_ms : now_ms + 1);
  sim_check(a, was_idle);
}

void sim_leap(struct sim *s, size_t which, uint64_t by_ms) {
  struct sim_agent *a = s->agents[which];
  a->host.clock_ahead_ms += by_ms;
  if (a->is_alive)
    settle(a);
}

enum err sim_roll_back(struct sim *s, size_t which, size_t n) {
  struct sim_agent *a = s->agents[which];
  const struct sim_durable *d = &a->durable;
  if (!a->is_alive || n >= d->n_models)
    return ERR_NOT_FOUND;
  enum err e = round_on_roll_back(a->machine, d->models[d->n_models - 1 - n].label, "", 0);
  settle(a);
  return e;
}

void sim_do_train(struct sim_agent *a, struct trainer_job *job) {
  const struct sim_trainer *t = a->sim->trainer;
  void (*const run[])(struct sim_agent *, struct trainer_job *, struct trainer_result *) = {
      [JOB_LOAD] = t->load,   [JOB_TRAIN] = t->train,     [JOB_MERGE] = t->merge,
      [JOB_ADOPT] = t->merge, [JOB_RESTORE] = t->restore, [JOB_UNDO] = t->undo};
  struct trainer_result *r = calloc(1, sizeof *r);
  MUST(r != NULL && job->kind < sizeof run / sizeof *run && run[job->kind] != NULL);
  r->kind = job->kind;
  r->label = job->label;
  run[job->kind](a, job, r);
  trainer_job_free(job);
  sim_group_on_result(a, r);
  round_on_trained(a->machine, r, sim_clock_ms(a));
}

static void handle(struct sim_agent *a, struct sim_event *e) {
  switch (e->kind) {
  case SIM_FRAME:
  case SIM_DIAL:
  case SIM_GONE:
    sim_arrive(a, e);
    free(e->data);
    break;
  case SIM_TRAINED:
    sim_do_train(a, e->data);
    break;
  case SIM_DURABLE:
    sim_do_write(a, e->data);
    break;
  case SIM_WRITTEN: {
    struct scribe_result *r = e->data;
    if (r->kind == SCRIBE_RAISE_EPOCH && r->error == ERR_OK) {
      gossip_set_boot_epoch(a->node, r->boot_epoch);
      sim_group_on_epoch(a, r->boot_epoch);
    }
    round_on_written(a->machine, r, sim_clock_ms(a));
    break;
  }
  default:
    break;
  }
}

static void set_clock(struct sim *s, uint64_t now_us) {
  s->now_us = now_us;
  s->now_ms = now_us / US_PER_MS;
}

bool sim_step(struct sim *s, uint64_t until_ms) {
  const struct sim_event *first = sim_queue_first(&s->queue);
  if (!first || first->at_us > until_ms * US_PER_MS) {
    set_clock(s, until_ms * US_PER_MS);
    return false;
  }
  struct sim_event e = sim_queue_take(&s->queue);
  struct sim_agent *a = s->agents[e.agent];
  set_clock(s, e.at_us);
  s->n_events++;
  s->last.agent = e.agent;
  s->last.n = e.n;
  s->last.kind = e.kind;
  sim_trace(s, e.at_us);
  sim_trace(s, (uint64_t)e.kind << 56 | (uint64_t)e.n << 32 | e.agent);
  if (e.kind == SIM_HEARTBEAT) {
    sim_heartbeat_missed(s, e.agent, (size_t)e.conn);
  } else if (!a->is_alive || a->life != e.life) {
    event_free(&e);
  } else if (a->host.paused_until_us > s->now_us) {
    sim_put(a, a->host.paused_until_us, e);
  } else {
    handle(a, &e);
    settle(a);
  }
  return true;
}

void sim_run(struct sim *s, uint64_t for_ms) {
  uint64_t until_ms = s->now_ms + for_ms;
  while (sim_step(s, until_ms))
    ;
}
