#include "agent/core/round.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/core/round_machine.h"
#include "base/must.h"

static const uint64_t NEVER = UINT64_MAX;

/* ---- the topology ------------------------------------------------------------------------------------------------- */

/* Whether all are neighbours anyway: no graph is needed for that. */
static bool has_everybody(const struct round_config *c) {
  return c->topology.rule == GRAPH_PEERS || c->topology.rule == GRAPH_FULL;
}

/* Of agents in the order of their keys: we stand behind n_before peers. */
static size_t place_of(const struct round_self *self, size_t peer) {
  return peer < self->n_before ? peer : peer + 1;
}

static enum err graph_of_round(const struct round_machine *m, uint64_t round, struct graph *out) {
  uint64_t seed = job_topology_seed(&m->config->identity.job);
  return graph_make(&m->config->topology, m->self.n_peers + 1, seed, round, out);
}

/* Edges of one round; where it rotates, of all. */
static enum err follow(struct round_machine *m) {
  struct graph g = {0};
  bool is_any = has_everybody(m->config) || job_topology_rotates(&m->config->topology);
  enum err e = is_any ? ERR_OK : graph_of_round(m, 0, &g);
  for (size_t i = 0; e == ERR_OK && i < m->self.n_peers; i++) {
    struct round_peer *p = &m->peers[i];
    p->is_followed = is_any || graph_hears(&g, m->self.n_before, place_of(&m->self, i));
    p->is_follower = is_any || graph_hears(&g, place_of(&m->self, i), m->self.n_before);
    p->is_chosen = p->is_followed;
    m->n_followed += p->is_followed;
  }
  graph_done(&g);
  return e;
}

static void choose_of_graph(struct round_machine *m, uint64_t number) {
  struct graph g;
  MUST(graph_of_round(m, number, &g) == ERR_OK);
  for (size_t i = 0; i < m->self.n_peers; i++)
    m->peers[i].is_chosen = graph_hears(&g, m->self.n_before, place_of(&m->self, i));
  graph_done(&g);
}

void machine_narrow(const struct round_machine *m, bool *told) {
  struct graph g;
  if (!job_topology_rotates(&m->config->topology))
    return;
  MUST(graph_of_round(m, m->in_work.round + m->in_work.sub, &g) == ERR_OK);
  for (size_t i = 0; i < m->self.n_peers; i++)
    told[i] = told[i] && graph_hears(&g, place_of(&m->self, i), m->self.n_before);
  graph_done(&g);
}

/* Who has finished is there with what it had last. */
static bool has_chosen_well(const struct round_machine *m) {
  for (size_t i = 0; i < m->self.n_peers; i++) {
    enum err standing = round_peer_standing(&m->peers[i]);
    if (m->peers[i].is_chosen && (standing == ERR_OK || standing == ERR_FINISHED))
      return true;
  }
  return false;
}

/* Who has only neighbours that are away takes the next graph, and so does each sub-round: else a dead one would cost all who are
 * beside it a round each time, and some of them all rounds. */
void machine_choose(struct round_machine *m, bool is_jump) {
  enum { TRIES = 32 };
  uint64_t number = m->in_work.round + m->in_work.sub;
  if (!job_topology_rotates(&m->config->topology))
    return;
  for (size_t i = 0; i < m->self.n_peers; i++)
    m->peers[i].is_chosen = true;
  if (is_jump || !has_chosen_well(m))
    return; /* nobody is here: whoever comes back is welcome */
  do
    choose_of_graph(m, number++);
  while (!has_chosen_well(m) && number < m->in_work.round + m->in_work.sub + TRIES);
}

uint32_t machine_degree(const struct round_machine *m) {
  return (uint32_t)job_topology_degree(&m->config->topology, m->self.n_peers + 1);
}

bool round_follows(const struct round_machine *m, size_t peer) {
  return m->peers[peer].is_followed;
}

bool round_is_follower(const struct round_machine *m, size_t peer) {
  return m->peers[peer].is_follower;
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

enum err round_new(const struct round_config *config, const struct round_self *self, const struct round_ports *ports,
                   struct round_machine **out_machine) {
  struct round_machine *m = calloc(1, sizeof *m);
  struct round_peer *peers = calloc(self->n_peers > 0 ? self->n_peers : 1, sizeof *peers);
  struct due pump_ms = {0};
  if (!m || !peers || due_init(&pump_ms, self->n_peers) != ERR_OK) {
    free(m);
    free(peers);
    return ERR_NO_MEMORY;
  }
  *m = (struct round_machine){
      .config = config, .self = *self, .ports = ports, .peers = peers, .pump_ms = pump_ms, .phase = PHASE_LOADING};
  deadline_init(&m->deadline, config->deadline_min_ms, config->deadline_max_ms);
  for (size_t i = 0; i < self->n_peers; i++) {
    inbox_init(&peers[i].inbox, i, config->link_bytes, config->full_bytes);
    peers[i].inbox.takes_sums = peers[i].is_one_way = config->is_push_sum;
    peers[i].link_reason = ERR_NO_SESSION;
    peers[i].is_placed = !config->is_clustered;
    peers[i].affinity = 1;
    peers[i].arrival_ms = -1;
  }
  enum err e = follow(m);
  if (e == ERR_OK)
    *out_machine = m;
  else
    round_free(m);
  return e;
}

static void peer_done(struct round_peer *p) {
  inbox_done(&p->inbox);
  free(p->noticed);
}

void round_free(struct round_machine *m) {
  if (!m)
    return;
  for (size_t i = 0; i < m->self.n_peers; i++)
    peer_done(&m->peers[i]);
  trainer_result_free(m->trained);
  free(m->back.path);
  free(m->back.note);
  free(m->notice);
  free(m->publishing);
  scribe_job_free(m->held);
  for (size_t i = 0; i < N_UNWRITTEN; i++)
    scribe_job_free(m->unwritten[i]);
  due_done(&m->pump_ms);
  deadline_done(&m->deadline);
  free(m->peers);
  free(m);
}

/* kind, and what else of struct round_input the event has; __VA_ARGS__ cannot be empty. */
#define HEAR(m, KIND, ...) machine_hear(m, &(struct round_input){.kind = INPUT_##KIND, __VA_ARGS__})

void round_release(struct round_machine *m) {
  HEAR(m, RELEASE, .peer = SIZE_MAX);
  machine_release(m);
}

void machine_hear(const struct round_machine *m, const struct round_input *input) {
  if (m->ports->hear)
    m->ports->hear(m->self.context, input);
}

void machine_wake(struct round_machine *m) {
  m->due_ms = 0;
}

void machine_look_after(struct round_machine *m, size_t peer) {
  due_set(&m->pump_ms, peer, 0);
}

void machine_note(struct round_machine *m, const char *name, size_t peer, const char *text) {
  m->ports->note(m->self.context, name, peer, text);
}

void machine_enter(struct round_machine *m, enum phase phase) {
  m->phase = phase;
  m->ports->state_changed(m->self.context);
}

struct trainer_job *machine_trainer_job(const struct round_machine *m, enum trainer_job_kind kind) {
  struct trainer_job *job = calloc(1, sizeof *job);
  MUST(job != NULL); /* a few hundred bytes: without them the process ends, and a restart costs nothing */
  job->kind = kind;
  job->label = m->in_work;
  return job;
}

struct scribe_job *machine_scribe_job(enum scribe_job_kind kind) {
  struct scribe_job *job = calloc(1, sizeof *job);
  MUST(job != NULL);
  job->kind = kind;
  return job;
}

void machine_put_train(struct round_machine *m, struct trainer_job *job) {
  m->ports->train(m->self.context, job);
}

void machine_put_write(struct round_machine *m, struct scribe_job *job) {
  m->ports->write(m->self.context, job);
}

void round_start(struct round_machine *m, const struct store_resume *resume, struct buffer half, struct buffer model,
                 const struct position *positions, uint64_t now_ms) {
  HEAR(m, START, .now_ms = now_ms, .peer = SIZE_MAX, .first = half.n_bytes, .second = model.n_bytes, .what = resume,
       .more = positions, .n = m->self.n_peers);
  m->resume_at = resume->at;
  m->committed = m->reached = resume->committed;
  m->in_work = resume->at == RESUME_PUBLISHED ? resume->published : resume->committed;
  m->rounds_alone = resume->n_short;
  m->own = (struct position){resume->sequence_epoch, resume->sequence, resume->chain};
  m->last_sequence = resume->sequence;
  m->starts_chain = digest_is_zero(&resume->chain) || resume->fell_back; /* the model does not go with the chain */
  m->started_ms = now_ms; /* the training of what it resumes belongs to another life */
  m->wait_until_ms = now_ms + m->config->meet_ms;
  for (size_t i = 0; i < m->self.n_peers; i++)
    m->peers[i].merged = chain_mark(&positions[i]);
  if (resume->has_roll_back)
    machine_set_notice(m, &resume->roll_back);
  struct trainer_job *job = machine_trainer_job(m, JOB_LOAD);
  job->half = half;
  job->model = model;
  machine_put_train(m, job);
}

/* ---- results ------------------------------------------------------------------------------------------------------ */

/* Where the store has left off. */
static void go_on(struct round_machine *m, uint64_t now_ms) {
  if (m->resume_at == RESUME_PUBLISHED) {
    machine_start_gather(m, now_ms);
  } else if (m->resume_at == RESUME_COMMITTED) {
    machine_enter(m, PHASE_IDLE);
  } else {
    m->wait_until_ms = now_ms + m->config->meet_ms;
    machine_enter(m, PHASE_MEETING);
  }
}

static void on_load_result(struct round_machine *m, const struct trainer_result *r, uint64_t now_ms) {
  if (r->error != ERR_OK) {
    m->has_failed = true;
    return;
  }
  m->shown.n_samples = r->n_samples;
  m->shown.n_test = r->n_test;
  m->shown.n_global_test = r->n_global_test;
  m->shown.samples_bytes = r->samples_bytes;
  m->shown.streamed_bytes = r->streamed_bytes;
  m->epoch_steps = r->epoch_steps;
  m->awaits_scale = m->config->is_pooled && r->scale.n == 0;
  if (m->awaits_scale)
    machine_enter(m, PHASE_MEETING);
  else
    go_on(m, now_ms);
}

static void on_scale_result(struct round_machine *m, const struct trainer_result *r, uint64_t now_ms) {
  m->awaits_scale = false;
  if (r->error == ERR_OK)
    go_on(m, now_ms);
  else
    m->has_failed = true;
}

void round_on_trained(struct round_machine *m, struct trainer_result *result, uint64_t now_ms) {
  HEAR(m, TRAINED, .now_ms = now_ms, .peer = SIZE_MAX, .what = result);
  machine_wake(m);
  if (result->kind == JOB_TRAIN) {
    machine_on_train_result(m, result);
    return;
  }
  if (result->kind == JOB_LOAD)
    on_load_result(m, result, now_ms);
  else if (result->kind == JOB_SCALE)
    on_scale_result(m, result, now_ms);
  else if (result->kind == JOB_RESTORE)
    machine_on_restored(m, result);
  else if (result->kind == JOB_UNDO)
    machine_on_undone(m, result);
  else
    machine_on_merge_result(m, result, now_ms);
  trainer_result_free(result);
}

/* ---- the disk ----------------------------------------------------------------------------------------------------- */

static void note_halt(struct round_machine *m, enum err reason) {
  char text[MAX_REASON_BYTES];
  snprintf(text, sizeof text,
           "the state directory cannot be written: %s; make room or mount it writable, the agent then goes on",
           err_sentence(reason));
  machine_note(m, "halted", SIZE_MAX, text);
}

static void halt(struct round_machine *m, struct scribe_result *r, uint64_t now_ms) {
  size_t at = m->unwritten[0] != NULL;
  MUST(r->job != NULL && at < N_UNWRITTEN && m->unwritten[at] == NULL);
  m->unwritten[at] = r->job;
  r->job = NULL; /* now the machine's */
  if (m->halted == ERR_OK)
    note_halt(m, r->error);
  m->halted = r->error;
  m->retry_at_ms = now_ms + HALTED_RETRY_MS;
  m->ports->state_changed(m->self.context);
}

void round_set_tight(struct round_machine *m, bool is_tight) {
  HEAR(m, TIGHT, .peer = SIZE_MAX, .flag = is_tight);
  m->is_tight = is_tight;
}

static void leave_halt(struct round_machine *m) {
  if (m->halted == ERR_OK || m->unwritten[0] != NULL)
    return;
  machine_note(m, "resumed", SIZE_MAX, "the state directory can be written again");
  m->halted = ERR_OK;
  m->ports->state_changed(m->self.context);
}

/* What is of an epoch that is being raised is not put behind the raise: it is restated when that is done. */
static uint64_t retry_due_ms(const struct round_machine *m) {
  bool raises = false;
  for (size_t i = 0; i < N_UNWRITTEN && m->unwritten[i]; i++)
    raises = raises || m->unwritten[i]->kind == SCRIBE_RAISE_EPOCH;
  return m->unwritten[0] && (raises || m->raising_above == 0) ? m->retry_at_ms : NEVER;
}

static void retry_writing(struct round_machine *m, uint64_t now_ms) {
  if (now_ms < retry_due_ms(m))
    return;
  for (size_t i = 0; i < N_UNWRITTEN && m->unwritten[i]; i++) {
    machine_put_write(m, m->unwritten[i]);
    m->unwritten[i] = NULL; /* now the scribe's */
  }
}

void round_epoch_rises(struct round_machine *m, uint64_t above) {
  HEAR(m, EPOCH_RISES, .peer = SIZE_MAX, .first = above);
  machine_wake(m);
  m->starts_chain = true;
  m->begins_anew = m->config->is_push_sum;
  if (above > m->raising_above)
    m->raising_above = above;
}

static void on_epoch(struct round_machine *m, uint64_t boot_epoch) {
  machine_wake(m);
  m->self.boot_epoch = boot_epoch;
  machine_restate_unwritten(m);
  if (m->raising_above >= boot_epoch) { /* another proof came meanwhile */
    machine_raise_epoch(m);
    return;
  }
  m->raising_above = 0;
  machine_publish_waiting(m);
}

void round_epoch_rose(struct round_machine *m, uint64_t boot_epoch) {
  HEAR(m, EPOCH_ROSE, .peer = SIZE_MAX, .first = boot_epoch);
  on_epoch(m, boot_epoch);
}

static void on_durable(struct round_machine *m, const struct scribe_result *r, uint64_t now_ms) {
  leave_halt(m);
  if (r->has_committed)
    machine_on_committed(m);
  if (r->kind == SCRIBE_PUBLISH)
    machine_on_published(m, now_ms);
  else if (r->kind == SCRIBE_COMMIT && machine_is_importing(m))
    machine_on_imported(m);
  else if (r->kind == SCRIBE_COMMIT)
    machine_on_committed(m);
  else if (r->kind == SCRIBE_ROLL_BACK)
    machine_on_rolled_back(m, r);
  else
    on_epoch(m, r->boot_epoch);
}

/* The caller has already set the publication's bytes up for serving. Every other failure than a full or read-only disk
 * has ended the process. */
void round_on_written(struct round_machine *m, struct scribe_result *result, uint64_t now_ms) {
  MUST(scribe_kind_is_of_round(result->kind));
  HEAR(m, WRITTEN, .now_ms = now_ms, .peer = SIZE_MAX, .what = result);
  machine_wake(m);
  if (result->kind == SCRIBE_LOAD_MODEL)
    machine_on_model_loaded(m, result); /* whatever came of it */
  else if (scribe_is_refused(result->kind, result->error))
    machine_on_roll_back_refused(m, result);
  else if (result->error != ERR_OK)
    halt(m, result, now_ms);
  else
    on_durable(m, result, now_ms);
  scribe_result_free(result);
}

/* ---- peers -------------------------------------------------------------------------------------------------------- */

void round_set_affinity(struct round_machine *m, size_t peer, double affinity) {
  struct round_peer *p = &m->peers[peer];
  uint64_t bits;
  memcpy(&bits, &affinity, sizeof bits);
  HEAR(m, AFFINITY, .peer = peer, .first = bits);
  machine_wake(m);
  p->is_placed = true;
  p->affinity = affinity;
  if (round_peer_is_elsewhere(p)) {
    m->ports->inbox.cancel(m->self.context, peer);
    inbox_disconnected(&p->inbox);
  }
  machine_look_after(m, peer);
  m->ports->state_changed(m->self.context);
}

static uint64_t waiting_bytes(const struct round_machine *m) {
  uint64_t n = 0;
  for (size_t i = 0; i < m->self.n_peers; i++)
    n += inbox_bytes(&m->peers[i].inbox);
  return n;
}

/* Room is for what is offered. More than its share a peer gets only for its first update, so that one of whom many are missing
 * leaves room for the others'. */
static uint64_t room_for(const struct round_machine *m, const struct round_peer *p) {
  if (p->inbox.n_offers == 0)
    return m->config->payload_max_bytes;
  uint64_t held = waiting_bytes(m), most = m->config->payload_max_bytes, own = inbox_bytes(&p->inbox);
  uint64_t room = held < most ? most - held : 0, share = most / m->n_followed;
  uint64_t fair = own < share ? share - own : 0;
  return own > 0 && fair < room ? fair : room;
}

/* Asks and fetches what there is to be; an inbox that lacks something is looked after again. */
static void pump(struct round_machine *m, size_t peer, uint64_t now_ms) {
  struct round_peer *p = &m->peers[peer];
  due_set(&m->pump_ms, peer, DUE_NEVER);
  if (!p->has_session || !p->has_hello || p->is_quarantined || !p->is_followed || round_peer_is_elsewhere(p))
    return;
  inbox_pump(&p->inbox, &m->ports->inbox, m->self.context, now_ms, room_for(m, p));
  if (!inbox_is_current(&p->inbox))
    due_set(&m->pump_ms, peer, inbox_due_ms(&p->inbox, now_ms));
}

void machine_quarantine(struct round_machine *m, size_t peer, const char *name, enum err reason) {
  m->peers[peer].is_quarantined = true;
  m->ports->inbox.cancel(m->self.context, peer);
  inbox_disconnected(&m->peers[peer].inbox);
  machine_note(m, name, peer, err_sentence(reason));
}

void round_on_session(struct round_machine *m, size_t peer, bool is_up, enum err reason, uint64_t now_ms) {
  HEAR(m, SESSION, .now_ms = now_ms, .peer = peer, .flag = is_up, .reason = reason);
  machine_wake(m);
  struct round_peer *p = &m->peers[peer];
  if (p->has_session && !is_up) {
    p->lost_at_ms = now_ms;
    p->has_hello = p->has_base = false;
    inbox_disconnected(&p->inbox);
  }
  p->has_session = is_up;
  p->link_reason = reason;
}

void round_on_hello(struct round_machine *m, size_t peer, const struct hello_job *hello, const struct manifest *proof,
                    uint64_t now_ms) {
  HEAR(m, HELLO, .now_ms = now_ms, .peer = peer, .flag = proof != NULL, .what = hello, .more = proof);
  machine_wake(m);
  struct round_peer *p = &m->peers[peer];
  bool was_absent = p->is_absent;
  p->has_hello = p->has_news = true;
  p->has_state = false;
  p->round_told = hello->round;
  p->job_reason = ERR_OK;
  p->is_absent = p->is_slow = false;
  p->missed_without_session = p->missed_with_session = 0;
  inbox_newest(&p->inbox, &hello->newest);
  if (proof)
    machine_roll_forward(m, peer, proof);
  if (was_absent)
    machine_note(m, "peer-back", peer, "it is waited for again");
  pump(m, peer, now_ms);
}

void round_on_refused_job(struct round_machine *m, size_t peer, enum err reason, uint64_t now_ms) {
  HEAR(m, REFUSED_JOB, .now_ms = now_ms, .peer = peer, .reason = reason);
  machine_wake(m);
  m->peers[peer].job_reason = reason;
  m->peers[peer].has_hello = false;
}

void round_on_state(struct round_machine *m, size_t peer, const struct wire_state *state, uint64_t now_ms) {
  HEAR(m, STATE, .now_ms = now_ms, .peer = peer, .what = state);
  machine_wake(m);
  struct round_peer *p = &m->peers[peer];
  p->state = (struct peer_state){state->follows, state->finished, state->phase, state->round, state->round_in_work};
  p->has_state = true;
  p->round_told = state->round;
  if (state->epoch_steps > 0 && state->epoch_steps <= MAX_SAMPLES)
    p->epoch_steps = state->epoch_steps;
  machine_take_notice(m, peer, &state->notice);
  inbox_newest(&p->inbox, &state->newest);
  pump(m, peer, now_ms);
}

uint64_t round_copy_for(const struct round_machine *m, size_t peer) {
  uint64_t at = m->peers[peer].round_told;
  return m->committed.round >= at + JUMP_FROM ? UINT64_MAX : at + 1;
}

void round_on_manifest(struct round_machine *m, size_t peer, const struct manifest *manifest, uint64_t now_ms) {
  HEAR(m, MANIFEST, .now_ms = now_ms, .peer = peer, .what = manifest);
  machine_wake(m);
  struct round_peer *p = &m->peers[peer];
  enum err e = inbox_manifest(&p->inbox, manifest);
  if (e != ERR_OK)
    m->ports->count(m->self.context, peer, e);
  if (e == ERR_EQUIVOCATION)
    machine_quarantine(m, peer, "equivocation", e);
  if (e == ERR_OK) {
    p->has_news = p->has_offered = true;
    p->signed_round = manifest->round > p->signed_round ? manifest->round : p->signed_round;
    p->must_prove = p->must_prove && p->state.round > p->signed_round;
  }
  pump(m, peer, now_ms);
}

void round_on_payload(struct round_machine *m, size_t peer, const struct manifest *manifest, uint8_t *payload,
                      uint64_t now_ms) {
  HEAR(m, PAYLOAD, .now_ms = now_ms, .peer = peer, .what = manifest);
  machine_wake(m);
  struct round_peer *p = &m->peers[peer];
  inbox_payload(&p->inbox, manifest, payload);
  p->has_news = true; /* told of before a gather ended, it may come after it */
  if (p->has_open_sample && manifest->round >= p->open_round) {
    deadline_correct(&m->deadline, p->open_sample, now_ms - p->open_clock_ms);
    p->has_open_sample = false;
  }
  if (p->is_slow && manifest->round + 1 >= m->in_work.round) {
    p->is_slow = false;
    p->missed_with_session = 0;
    machine_note(m, "peer-back", peer, "it keeps up again");
  }
  pump(m, peer, now_ms);
}

void round_on_failed(struct round_machine *m, size_t peer, enum err reason, uint64_t now_ms) {
  HEAR(m, FAILED, .now_ms = now_ms, .peer = peer, .reason = reason);
  machine_wake(m);
  struct round_peer *p = &m->peers[peer];
  p->is_slow_to_download = p->is_slow_to_download || reason == ERR_TIMED_OUT;
  inbox_failed(&p->inbox, reason, now_ms);
  due_set(&m->pump_ms, peer, inbox_due_ms(&p->inbox, now_ms));
}

void round_on_done(struct round_machine *m, size_t peer, uint64_t sequence, enum err outcome, uint64_t now_ms) {
  HEAR(m, DONE, .now_ms = now_ms, .peer = peer, .reason = outcome, .first = sequence);
  machine_wake(m);
  m->peers[peer].has_base = outcome == ERR_OK && sequence > 0 && sequence <= m->own.sequence;
  if (sequence > m->peers[peer].taken_sequence && sequence <= m->own.sequence)
    m->peers[peer].taken_sequence = sequence;
}

/* ---- time --------------------------------------------------------------------------------------------------------- */

static void tick_phase(struct round_machine *m, uint64_t now_ms) {
  if (machine_may_go_back(m))
    machine_go_back(m);
  switch (m->phase) {
  case PHASE_MEETING:
    machine_tick_meeting(m, now_ms);
    break;
  case PHASE_IDLE:
    machine_tick_idle(m, now_ms);
    break;
  case PHASE_GATHERING:
    machine_tick_gathering(m, now_ms);
    break;
  case PHASE_JUMPING:
    machine_tick_jumping(m, now_ms);
    break;
  case PHASE_ALONE:
    machine_tick_alone(m, now_ms);
    break;
  default: /* waits for a result */
    break;
  }
}

static uint64_t earlier(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static uint64_t next_tick(const struct round_machine *m, uint64_t now_ms) {
  const uint64_t times[] = {
      retry_due_ms(m),
      m->held ? m->held_until_ms : NEVER,
      m->phase == PHASE_GATHERING ? m->clock_ms + m->deadline_ms : NEVER,
      m->phase == PHASE_FINISHED ? m->finished_at_ms + m->config->linger_ms : NEVER,
      m->phase == PHASE_IDLE ? m->next_training_ms : NEVER,
      m->phase == PHASE_JUMPING ? m->started_ms + (uint64_t)2 * ANSWER_MS
                                : NEVER, /* who is silent by then has nothing */
      m->wait_until_ms,
      m->next_jump_ms,
      due_first(&m->pump_ms),
  };
  uint64_t next = NEVER;
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    if (times[i] > now_ms)
      next = earlier(next, times[i]);
  return next;
}

/* A phase may lead straight to the next one (meeting → idle → training), each in a turn of its own. Nothing is looked at
 * unless something happened or is due: whatever a phase waits for is an event or stands in `next_tick`. */
uint64_t round_tick(struct round_machine *m, uint64_t now_ms) {
  if (now_ms < m->due_ms)
    return m->due_ms;
  HEAR(m, TICK, .now_ms = now_ms, .peer = SIZE_MAX);
  retry_writing(m, now_ms);
  if (now_ms >= m->held_until_ms)
    machine_release(m);
  enum phase before;
  do {
    for (size_t i = 0; (i = due_next(&m->pump_ms, i, now_ms)) != SIZE_MAX; i++)
      pump(m, i, now_ms);
    before = m->phase;
    tick_phase(m, now_ms);
  } while (m->phase != before || due_first(&m->pump_ms) <= now_ms);
  return m->due_ms = next_tick(m, now_ms);
}

/* ---- showing ------------------------------------------------------------------------------------------------------ */

static enum phase shown_phase(const struct round_machine *m) {
  return m->halted != ERR_OK ? PHASE_HALTED : m->phase;
}

void round_fill_state(const struct round_machine *m, size_t peer, struct wire_state *out_state) {
  *out_state = (struct wire_state){
      .follows = m->peers[peer].is_followed && !round_peer_is_elsewhere(&m->peers[peer]),
      .degree = (uint16_t)machine_degree(m),
      .phase = shown_phase(m),
      .round = m->committed.round,
      .sub = m->committed.sub,
      .round_in_work = m->in_work.round > m->committed.round ? m->in_work.round : m->committed.round,
      .sub_in_work = m->in_work.sub,
      .newest = m->own,
      .finished = m->phase == PHASE_FINISHED,
      .epoch_steps = m->epoch_steps,
  };
  if (m->notice && m->committed.round < m->notice_round + NOTICE_ROUNDS)
    out_state->notice = *m->notice;
}

void round_fill_hello(const struct round_machine *m, size_t peer, struct hello_job *out_hello) {
  (void)peer;
  *out_hello = (struct hello_job){.round = m->committed.round, .sub = m->committed.sub, .newest = m->own};
}

void round_set_traffic(struct round_machine *m, uint64_t sent_bytes, uint64_t received_bytes) {
  HEAR(m, TRAFFIC, .peer = SIZE_MAX, .first = sent_bytes, .second = received_bytes);
  m->sent_bytes = sent_bytes;
  m->received_bytes = received_bytes;
}

void round_view(const struct round_machine *m, struct round_view *out_view) {
  *out_view = (struct round_view){
      .phase = shown_phase(m),
      .committed = m->committed,
      .in_work = m->in_work,
      .is_halted = m->halted != ERR_OK,
      .halted_reason = m->halted,
      .closes_at_ms = m->phase == PHASE_GATHERING ? m->clock_ms + m->deadline_ms : 0,
      .starts_at_ms = m->phase == PHASE_IDLE ? m->next_training_ms : 0,
      .steps = m->steps,
      .n_samples = m->shown.n_samples,
      .n_test = m->shown.n_test,
      .n_global_test = m->shown.n_global_test,
      .samples_bytes = m->shown.samples_bytes,
      .streamed_bytes = m->shown.streamed_bytes,
      .has_loss = m->shown.has_loss,
      .train_loss = m->shown.train_loss,
      .metrics = m->shown.metrics,
      .n_merged = m->shown.n_merged,
      .n_expected = m->shown.n_expected,
      .rounds_alone = m->rounds_alone,
  };
}

void round_peer_view(const struct round_machine *m, size_t peer, struct round_peer_view *out_view) {
  const struct round_peer *p = &m->peers[peer];
  *out_view = (struct round_peer_view){
      .standing = round_peer_standing(p),
      .is_waited_for = machine_waits_for(m, p),
      .has_state = p->has_state,
      .state = p->state,
      .copy_round = p->inbox.copy.round,
      .last_reason = p->last_reason,
      .last_weight = p->last_weight,
      .last_lag = p->last_lag,
      .last_fate = p->last_fate,
      .last_share = p->last_share,
      .last_distance = p->last_distance,
  };
  if (p->noticed)
    out_view->notice = *p->noticed;
}

static bool still_needs_us(const struct round_machine *m, const struct round_peer *p, uint64_t now_ms) {
  bool is_live = p->has_session || (p->lost_at_ms > 0 && now_ms < p->lost_at_ms + m->config->linger_ms);
  bool has_all = p->taken_sequence >= m->own.sequence || (p->has_state && p->state.finished);
  bool is_follower = p->is_follower && round_peer_refused(p) == ERR_OK && !(p->has_state && !p->state.follows);
  return is_live && is_follower && !has_all;
}

enum round_end round_end(const struct round_machine *m, uint64_t now_ms) {
  if (m->has_failed)
    return ROUND_FAILED;
  if (m->phase != PHASE_FINISHED)
    return ROUND_GOES_ON;
  bool is_needed = false;
  for (size_t i = 0; i < m->self.n_peers; i++)
    is_needed = is_needed || still_needs_us(m, &m->peers[i], now_ms);
  if (is_needed && now_ms < m->finished_at_ms + m->config->linger_ms)
    return ROUND_GOES_ON;
  return m->is_short ? ROUND_ENDED_SHORT : ROUND_ENDED;
}
