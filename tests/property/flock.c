#include "tests/property/flock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "crypto/random.h"
#include "gossip/node.h"
#include "tests/property/flock_parts.h"

/* ---- queue ---- */

static bool is_before(const struct flock_event *a, const struct flock_event *b) {
  return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

void flock_push(struct flock *f, struct flock_event e) {
  if (f->n_heap == f->heap_capacity) {
    f->heap_capacity = f->heap_capacity ? 2 * f->heap_capacity : 256;
    f->heap = realloc(f->heap, f->heap_capacity * sizeof *f->heap);
    MUST(f->heap != NULL);
  }
  e.order = f->order++;
  size_t i = f->n_heap++;
  for (; i > 0 && is_before(&e, &f->heap[(i - 1) / 2]); i = (i - 1) / 2)
    f->heap[i] = f->heap[(i - 1) / 2];
  f->heap[i] = e;
}

static struct flock_event pop(struct flock *f) {
  struct flock_event top = f->heap[0], last = f->heap[--f->n_heap];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < f->n_heap; i = child) {
    if (child + 1 < f->n_heap && is_before(&f->heap[child + 1], &f->heap[child]))
      child++;
    if (!is_before(&f->heap[child], &last))
      break;
    f->heap[i] = f->heap[child];
  }
  f->heap[i] = last;
  f->heap[f->n_heap].data = NULL;
  return top;
}

static void event_free(struct flock_event *e) {
  if (e->kind == FLOCK_TRAINED)
    trainer_job_free(e->data);
  else if (e->kind == FLOCK_DURABLE)
    scribe_job_free(e->data);
  else if (e->kind == FLOCK_WRITTEN)
    scribe_result_free(e->data);
  else
    free(e->data);
}

/* ---- making ---- */

static struct identity *identity_numbered(size_t n) {
  uint8_t seed[IDENTITY_SEED_BYTES] = {(uint8_t)(n + 1)};
  struct identity *id;
  HOLDS(identity_from_seed(seed, &id) == ERR_OK);
  return id;
}

static int by_key(const void *a, const void *b) {
  const struct identity *const *x = a, *const *y = b;
  return identity_key_compare(identity_public(*x), identity_public(*y));
}

static double *numbers(size_t n) {
  double *v = calloc(n, sizeof *v);
  MUST(v != NULL);
  return v;
}

static void agent_init(struct flock *f, size_t number, struct identity *identity) {
  struct flock_agent *a = &f->agents[number];
  size_t n_bytes = f->dims * sizeof(double);
  *a = (struct flock_agent){.flock = f,
                            .number = number,
                            .identity = identity,
                            .loading_ms = 5,
                            .training_ms = 1000,
                            .writing_ms = 20,
                            .samples = 100,
                            .fail_with = ERR_NON_FINITE};
  a->x = numbers(f->dims);
  a->copy = numbers(f->dims);
  a->pending = numbers(f->dims);
  for (size_t i = 0; i < FLOCK_MAX; i++)
    a->copies[i] = numbers(f->dims);
  a->story = calloc(FLOCK_STORY, sizeof *a->story);
  a->notes = calloc(FLOCK_NOTES, sizeof *a->notes);
  a->name_texts = calloc(FLOCK_MAX, sizeof *a->name_texts);
  MUST(a->story && a->notes && a->name_texts);
  a->job = (struct gossip_job_config){.schema_text = "tensor 1: x f64 shared\n", .contract_text = "contract: 1\n"};
  a->job.job.bytes[0] = a->job.schema.bytes[1] = a->job.contract.bytes[2] = 1;
  a->config = (struct round_config){
      .identity = {.swarm = {{7}}, .job = a->job.job, .schema = a->job.schema, .contract = a->job.contract},
      .encoding = ENCODING_F32,
      .link_bytes = n_bytes,
      .full_bytes = n_bytes,
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

struct flock *flock_new(size_t n, size_t dims) {
  struct identity *ids[FLOCK_MAX];
  struct flock *f = calloc(1, sizeof *f);
  MUST(f != NULL && n <= FLOCK_MAX);
  HOLDS(random_open() == ERR_OK);
  rng_init(&f->rng, 1);
  f->now_ms = 1000000;
  f->n_agents = n;
  f->dims = dims;
  for (size_t i = 0; i < n; i++)
    ids[i] = identity_numbered(i);
  qsort(ids, n, sizeof ids[0], by_key); // NOLINT(bugprone-sizeof-expression): an array of pointers
  for (size_t i = 0; i < n; i++)
    agent_init(f, i, ids[i]);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < n; k++)
      if (k != i)
        flock_learn(f, i, k);
  for (size_t i = 0; i < FLOCK_MAX; i++)
    for (size_t k = 0; k < FLOCK_MAX; k++)
      f->links[i][k].delay_ms = 10;
  return f;
}

static void agent_free(struct flock_agent *a) {
  free(a->x);
  free(a->copy);
  free(a->pending);
  for (size_t i = 0; i < FLOCK_MAX; i++)
    free(a->copies[i]);
  free(a->story);
  free(a->notes);
  free(a->name_texts);
  free(a->used);
  flock_durable_clear(&a->durable);
  identity_free(a->identity);
}

void flock_free(struct flock *f) {
  for (size_t i = 0; i < f->n_agents; i++)
    if (f->agents[i].is_alive)
      flock_kill(f, i);
  for (size_t i = 0; i < f->n_heap; i++)
    event_free(&f->heap[i]);
  for (size_t i = 0; i < f->n_agents; i++)
    agent_free(&f->agents[i]);
  free(f->heap);
  free(f->wires);
  free(f);
}

void flock_forget(struct flock *f, size_t which, size_t other) {
  struct flock_agent *a = &f->agents[which];
  size_t at = flock_peer_index(a, other);
  MUST(!a->is_alive && at != SIZE_MAX);
  memmove(a->peers + at, a->peers + at + 1, (--a->n_peers - at) * sizeof *a->peers);
}

void flock_learn(struct flock *f, size_t which, size_t other) {
  struct flock_agent *a = &f->agents[which];
  size_t at = a->n_peers++;
  MUST(!a->is_alive);
  for (; at > 0 && a->peers[at - 1] > other; at--)
    a->peers[at] = a->peers[at - 1];
  a->peers[at] = other;
  a->dials[other] = true;
}

/* ---- life ---- */

static uint64_t read_clock(void *context) {
  return ((struct flock *)context)->now_ms;
}

static void open_node(struct flock_agent *a) {
  struct flock *f = a->flock;
  struct gossip_peer_config peers[FLOCK_MAX] = {0};
  const char *const no_address[1] = {NULL};
  char why[MAX_REASON_BYTES];
  for (size_t i = 0; i < a->n_peers; i++) {
    size_t who = a->peers[i];
    peers[i].key = a->keys[i] = *identity_public(f->agents[who].identity);
    snprintf(peers[i].name, sizeof peers[i].name, "agent%zu", who);
    snprintf(a->name_texts[i], sizeof a->name_texts[i], "agent%zu", who);
    a->names[i] = a->name_texts[i];
    if (a->dials[who])
      snprintf(peers[i].address, sizeof peers[i].address, "tcp://10.0.0.%zu:7411", who);
  }
  struct gossip_config config = {.identity = a->identity,
                                 .swarm = {7},
                                 .boot_epoch = a->durable.boot_epoch,
                                 .listen = no_address,
                                 .peers = peers,
                                 .n_peers = a->n_peers,
                                 .jobs = &a->job,
                                 .n_jobs = 1,
                                 .payload_max_bytes = a->config.payload_max_bytes,
                                 .payload_bound = a->config.full_bytes,
                                 .now_ms = read_clock,
                                 .now_context = f};
  struct gossip_events events = flock_events(a);
  HOLDS(node_new(&config, &events, &a->node, why) == ERR_OK);
  a->node->link = flock_link_table(a);
  rng_init(&a->node->rng, f->n_starts);
}

static struct store_resume resume_of(const struct flock_durable *d) {
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
  return r;
}

static struct buffer copy_of(const struct buffer *b, bool is_there) {
  return is_there && b->bytes ? flock_buffer(b->bytes, b->n_bytes) : (struct buffer){0};
}

static void wake_at(struct flock_agent *a, uint64_t at_ms) {
  if (a->wake_ms > a->flock->now_ms && a->wake_ms <= at_ms)
    return;
  a->wake_ms = at_ms;
  flock_push(a->flock, (struct flock_event){.at_ms = at_ms, .kind = FLOCK_WAKE, .agent = a->number, .life = a->life});
}

void flock_start(struct flock *f, size_t which) {
  struct flock_agent *a = &f->agents[which];
  struct flock_durable *d = &a->durable;
  MUST(!a->is_alive);
  d->boot_epoch = ((d->boot_epoch >> 32) + 1) << 32 | ++f->n_starts;
  a->life++;
  a->is_alive = true;
  a->trainer_free_ms = a->scribe_free_ms = a->wake_ms = 0;
  a->was_gathering = false;
  memset(a->has_proof, 0, sizeof a->has_proof);
  open_node(a);
  a->config.boot_epoch = d->boot_epoch;
  a->config.keys = a->keys;
  a->config.names = a->names;
  a->config.n_peers = a->n_peers;
  struct round_config config = a->config;
  if (a->n_peers == 0)
    config.min_peers = 0, config.meet_ms = 0;
  struct round_ports ports = flock_round_ports(a);
  HOLDS(round_new(&config, &ports, &a->machine) == ERR_OK);
  struct store_resume resume = resume_of(d);
  struct position positions[FLOCK_MAX];
  for (size_t i = 0; i < a->n_peers; i++)
    positions[i] = d->merged[a->peers[i]];
  struct buffer half = copy_of(&d->half, resume.at != RESUME_FRESH);
  struct buffer model = copy_of(&d->model, resume.at == RESUME_COMMITTED);
  round_start(a->machine, &resume, half, model, positions, f->now_ms);
  wake_at(a, f->now_ms);
}

void flock_start_all(struct flock *f) {
  for (size_t i = 0; i < f->n_agents; i++)
    flock_start(f, i);
}

void flock_kill(struct flock *f, size_t which) {
  struct flock_agent *a = &f->agents[which];
  MUST(a->is_alive);
  a->is_alive = false;
  a->life++;
  flock_close_wires(f, which, SIZE_MAX);
  node_free(a->node);
  round_free(a->machine);
  a->node = NULL;
  a->machine = NULL;
}

struct flock_durable *flock_back_up(const struct flock *f, size_t which) {
  struct flock_durable *backup = malloc(sizeof *backup);
  MUST(backup != NULL);
  flock_durable_copy(backup, &f->agents[which].durable);
  return backup;
}

void flock_durable_free(struct flock_durable *d) {
  flock_durable_clear(d);
  free(d);
}

void flock_restore(struct flock *f, size_t which, const struct flock_durable *backup) {
  struct flock_agent *a = &f->agents[which];
  MUST(!a->is_alive);
  flock_durable_clear(&a->durable);
  if (backup)
    flock_durable_copy(&a->durable, backup);
}

size_t flock_clone(struct flock *f, size_t which) {
  struct flock_agent *from = &f->agents[which];
  size_t number = f->n_agents++;
  uint8_t seed[IDENTITY_SEED_BYTES];
  struct identity *identity;
  MUST(number < FLOCK_MAX);
  identity_seed(from->identity, seed);
  HOLDS(identity_from_seed(seed, &identity) == ERR_OK);
  agent_init(f, number, identity);
  struct flock_agent *a = &f->agents[number];
  a->config = from->config;
  a->n_peers = from->n_peers;
  memcpy(a->peers, from->peers, sizeof a->peers);
  memcpy(a->dials, from->dials, sizeof a->dials);
  flock_durable_copy(&a->durable, &from->durable);
  return number;
}

/* ---- what must always hold ---- */

static void check(struct flock_agent *a) {
  const struct round_machine *m = a->machine;
  struct round_view v;
  round_view(m, &v);
  bool gathers = m->phase == PHASE_GATHERING;
  if (gathers && !a->was_gathering) {
    a->gather_until_ms = a->flock->now_ms + m->deadline_ms;
    HOLDS(m->deadline_ms <= a->config.deadline_max_ms);
  }
  HOLDS(!gathers || (a->flock->now_ms < a->gather_until_ms && v.closes_at_ms <= a->gather_until_ms));
  a->was_gathering = gathers;
  uint64_t waiting = 0;
  for (size_t i = 0; i < a->n_peers; i++) {
    HOLDS(m->peers[i].inbox.n_queue <= KEEP_PAYLOADS && m->peers[i].inbox.n_offers <= KEEP_PAYLOADS);
    waiting += inbox_bytes(&m->peers[i].inbox);
  }
  HOLDS(waiting <= a->config.payload_max_bytes);
}

/* ---- time ---- */

static void take_notes(struct flock_agent *a) {
  for (struct gossip_note n; gossip_note_take(a->node, &n);)
    if (n.reason == ERR_CLONE)
      flock_note_put(a, err_name(n.reason), n.peer == SIZE_MAX ? SIZE_MAX : a->peers[n.peer], n.text);
  for (size_t i = 0; i < a->n_peers; i++) {
    struct gossip_peer_info info;
    gossip_peer_info(a->node, i, &info);
    if (!info.has_session)
      round_on_session(a->machine, i, false, info.reason, a->flock->now_ms);
  }
}

static uint64_t node_due_ms(const struct gossip *g) {
  uint64_t due_ms = UINT64_MAX;
  for (size_t i = 0; i < g->n_peers; i++)
    for (size_t t = 0; t < N_TIMERS; t++)
      due_ms = g->peers[i].timers[t] < due_ms ? g->peers[i].timers[t] : due_ms;
  return due_ms;
}

/* What an agent does after every event: until neither machine nor node has anything more to do now. */
static void settle(struct flock_agent *a) {
  uint64_t next_ms;
  unsigned n_turns = 0;
  do {
    HOLDS(n_turns++ < 100);
    a->is_touched = false;
    next_ms = round_tick(a->machine, a->flock->now_ms);
    link_poll(a->node, NULL, 0, 0);
    take_notes(a);
  } while (a->is_touched || node_due_ms(a->node) <= a->flock->now_ms);
  HOLDS(next_ms > a->flock->now_ms);
  uint64_t due_ms = node_due_ms(a->node) < next_ms ? node_due_ms(a->node) : next_ms;
  if (due_ms != UINT64_MAX)
    wake_at(a, due_ms);
  check(a);
}

static void heartbeat_missed(struct flock *f, size_t a, size_t b) {
  if (f->links[a][b].is_cut || f->links[b][a].is_cut)
    flock_close_wires(f, a, b);
}

static void handle(struct flock_agent *a, struct flock_event *e) {
  switch (e->kind) {
  case FLOCK_FRAME:
  case FLOCK_DIAL:
  case FLOCK_GONE:
    a->arriving = e;
    link_poll(a->node, NULL, 0, 0);
    free(e->data);
    break;
  case FLOCK_TRAINED:
    flock_do_train(a, e->data);
    break;
  case FLOCK_DURABLE:
    flock_do_write(a, e->data);
    break;
  case FLOCK_WRITTEN: {
    struct scribe_result *r = e->data;
    if (r->kind == SCRIBE_RAISE_EPOCH && r->error == ERR_OK)
      gossip_set_boot_epoch(a->node, r->boot_epoch);
    round_on_written(a->machine, r, a->flock->now_ms);
    break;
  }
  case FLOCK_WAKE:
  case FLOCK_HEARTBEAT:
    break;
  }
}

/* The next event; false when it is later than until_ms. */
static bool go(struct flock *f, uint64_t until_ms) {
  if (f->n_heap == 0 || f->heap[0].at_ms > until_ms) {
    f->now_ms = until_ms;
    return false;
  }
  struct flock_event e = pop(f);
  struct flock_agent *a = &f->agents[e.agent];
  f->now_ms = e.at_ms;
  if (e.kind == FLOCK_HEARTBEAT) {
    heartbeat_missed(f, e.agent, (size_t)e.conn);
  } else if (!a->is_alive || a->life != e.life) {
    event_free(&e);
  } else {
    handle(a, &e);
    settle(a);
  }
  return true;
}

void flock_run(struct flock *f, uint64_t for_ms) {
  uint64_t until_ms = f->now_ms + for_ms;
  while (go(f, until_ms))
    ;
}

bool flock_until_round(struct flock *f, size_t which, uint64_t round, uint64_t limit_ms) {
  uint64_t until_ms = f->now_ms + limit_ms;
  while (f->agents[which].durable.committed.round < round)
    if (!go(f, until_ms))
      return false;
  return true;
}

bool flock_until_phase(struct flock *f, size_t which, enum phase phase, uint64_t limit_ms) {
  uint64_t until_ms = f->now_ms + limit_ms;
  while (f->agents[which].machine->phase != phase)
    if (!go(f, until_ms))
      return false;
  return true;
}

/* ---- asking ---- */

struct round_label flock_committed(const struct flock *f, size_t which) {
  return f->agents[which].durable.committed;
}

enum phase flock_phase(const struct flock *f, size_t which) {
  struct round_view v;
  round_view(f->agents[which].machine, &v);
  return v.phase;
}

size_t flock_noted(const struct flock *f, size_t which, const char *name) {
  size_t n = 0;
  for (size_t i = 0; i < f->agents[which].n_notes; i++)
    n += strcmp(f->agents[which].notes[i].name, name) == 0;
  return n;
}

const struct flock_note *flock_last_note(const struct flock *f, size_t which, const char *name) {
  const struct flock_agent *a = &f->agents[which];
  for (size_t i = a->n_notes; i-- > 0;)
    if (strcmp(a->notes[i].name, name) == 0)
      return &a->notes[i];
  ck_abort_msg("agent %zu never noted %s", which, name);
}

const struct flock_told *flock_told(const struct flock *f, size_t which, size_t from_end) {
  HOLDS(f->agents[which].n_story > from_end);
  return &f->agents[which].story[f->agents[which].n_story - 1 - from_end];
}

size_t flock_count_reason(const struct flock *f, size_t which, size_t first_told, size_t about, enum err reason) {
  size_t n = 0;
  for (size_t i = first_told; i < f->agents[which].n_story; i++)
    n += f->agents[which].story[i].reasons[about] == reason;
  return n;
}

enum err flock_standing(const struct flock *f, size_t which, size_t about) {
  struct round_peer_view v;
  round_peer_view(f->agents[which].machine, flock_peer_index(&f->agents[which], about), &v);
  return v.standing;
}

uint64_t flock_dropped(const struct flock *f, size_t which, size_t about, enum err reason) {
  struct gossip_peer_info info;
  gossip_peer_info(f->agents[which].node, flock_peer_index(&f->agents[which], about), &info);
  return info.drops[err_drop_index(reason)];
}

double flock_spread(const struct flock *f) {
  double spread = 0;
  for (size_t i = 0; i < f->dims; i++) {
    double sum = 0, n = 0;
    for (size_t k = 0; k < f->n_agents; k++)
      if (f->agents[k].is_alive) {
        sum += ((const double *)(const void *)f->agents[k].durable.model.bytes)[i];
        n++;
      }
    for (size_t k = 0; k < f->n_agents; k++)
      if (f->agents[k].is_alive) {
        double d = ((const double *)(const void *)f->agents[k].durable.model.bytes)[i] - sum / n;
        spread = d > spread ? d : -d > spread ? -d : spread;
      }
  }
  return spread;
}
