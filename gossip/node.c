#include "gossip/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/must.h"
#include "crypto/random.h"

/* ---- timers ----------------------------------------------------------------------------------------------------------- */

static uint64_t earliest_timer(const struct peer *p) {
  uint64_t earliest_ms = TIMER_OFF;
  for (size_t t = 0; t < N_TIMERS; t++)
    if (p->timers[t] < earliest_ms)
      earliest_ms = p->timers[t];
  return earliest_ms;
}

void timer_put(struct gossip *g, struct peer *p, enum timer t, uint64_t at_ms) {
  uint64_t before_ms = p->timers[t], earliest_ms = due_get(&g->due, peer_index(g, p));
  p->timers[t] = at_ms;
  if (at_ms <= earliest_ms)
    due_set(&g->due, peer_index(g, p), at_ms);
  else if (before_ms == earliest_ms)
    due_set(&g->due, peer_index(g, p), earliest_timer(p));
}

void timer_set(struct gossip *g, struct peer *p, enum timer t, uint64_t in_ms) {
  timer_put(g, p, t, node_now(g) + in_ms);
}

void timer_clear(struct gossip *g, struct peer *p, enum timer t) {
  timer_put(g, p, t, TIMER_OFF);
}

void peer_stir(struct gossip *g, struct peer *p) {
  due_set(&g->unsent, peer_index(g, p), 0);
}

static void run_timers(struct gossip *g, struct peer *p) {
  static void (*const handlers[N_TIMERS])(struct gossip *, struct peer *) = {
      [TIMER_DIAL] = dial_now,
      [TIMER_DIAL_PATIENCE] = dial_give_up,
      [TIMER_NO_ANSWER] = dial_say_no_answer,
      [TIMER_HANDSHAKE] = handshake_repeat,
      [TIMER_GREETING] = session_ungreeted,
      [TIMER_REKEY] = handshake_rekey,
      [TIMER_EXPIRE] = session_expire,
      [TIMER_PREVIOUS] = session_forget_previous,
      [TIMER_PENDING] = session_forget_pending,
      [TIMER_SILENCE] = session_silent,
      [TIMER_BEAT] = send_beat,
      [TIMER_STATE] = send_states,
      [TIMER_FETCH] = receive_fetch_tick,
      [TIMER_FLUSH] = send_flush,
      [TIMER_PROBE] = membership_probe,
  };
  for (size_t t = 0; t < N_TIMERS; t++)
    if (p->timers[t] <= node_now(g)) {
      g->late_ms = node_now(g) - p->timers[t];
      timer_clear(g, p, (enum timer)t);
      peer_stir(g, p);
      handlers[t](g, p);
    }
}

/* Everything that is due, and everything that can be sent; what neither concerns is not looked at. */
static void node_tick(struct gossip *g) {
  uint64_t now_ms = node_now(g);
  for (size_t i = 0; due_first(&g->due) <= now_ms && (i = due_next(&g->due, i, now_ms)) != SIZE_MAX; i++)
    run_timers(g, &g->peers[i]);
  membership_tick(g);
  relay_tick(g);
  for (size_t i = 0; due_first(&g->unsent) == 0 && (i = due_next(&g->unsent, i, 0)) != SIZE_MAX; i++)
    send_flush(g, &g->peers[i]);
}

uint64_t node_due_ms(const struct gossip *g) {
  uint64_t due_ms = due_first(&g->due);
  if (membership_is_on(g) && g->company->due_ms < due_ms)
    due_ms = g->company->due_ms;
  return g->relay_due_ms < due_ms ? g->relay_due_ms : due_ms;
}

static int64_t wait_ms(const struct gossip *g, int64_t timeout_ms) {
  uint64_t due_ms = node_due_ms(g), now_ms = node_now(g);
  if (due_ms == TIMER_OFF)
    return timeout_ms;
  int64_t until_ms = due_ms > now_ms ? (int64_t)(due_ms - now_ms) : 0;
  return timeout_ms < 0 || until_ms < timeout_ms ? until_ms : timeout_ms;
}

void link_poll(struct gossip *g, struct link_fd *extra, size_t n_extra, int64_t timeout_ms) {
  node_tick(g);
  g->link.calls->wait(g->link.context, extra, n_extra, wait_ms(g, timeout_ms));
  node_tick(g);
}

/* ---- what the link tells ----------------------------------------------------------------------------------------------- */

/* What a frame says of its peer is most often true. */
struct peer *peer_of_conn(struct gossip *g, uint64_t conn, uint32_t index) {
  if ((index & 0xff) < g->n_peers && peer_is_live_on(&g->peers[index & 0xff], conn))
    return &g->peers[index & 0xff];
  for (size_t i = 0; i < g->n_peers; i++)
    if (peer_is_live_on(&g->peers[i], conn))
      return &g->peers[i];
  return NULL;
}

struct peer *peer_find(const struct gossip *g, const struct identity_key *key) {
  for (size_t i = 0; i < g->n_peers; i++)
    if (identity_key_equal(&g->peers[i].config->key, key))
      return &g->peers[i];
  return NULL;
}

void frame_blame(struct gossip *g, uint64_t conn, const char *address, enum err reason) {
  struct peer *p = conn_is_relayed(conn) ? &g->peers[conn_via(conn)] : peer_of_conn(g, conn, 0);
  if (p)
    peer_count(p, reason);
  else
    strangers_count(&g->strangers, address, reason, node_now(g));
}

/* BYE leaves before the connection ends. */
static void say_bye(struct gossip *g, struct peer *p, enum err reason) {
  struct message m = {.type = MESSAGE_BYE, .bye = reason == ERR_OK ? ERR_STOPPED : reason};
  send_message(g, p, &m);
  send_flush(g, p);
}

void peer_kick(struct gossip *g, struct peer *p, enum err reason) {
  say_bye(g, p, reason);
  if (!p->slots[SLOT_LIVE])
    return;
  peer_explain(g, p, ERR_NO_SESSION, "we ended the session: %s", err_sentence(reason));
  session_end(g, p, reason);
}

/* It sends more than a peer may. */
static void ban(struct gossip *g, struct peer *p) {
  say_bye(g, p, ERR_BACKLOG);
  p->banned_until_ms = node_now(g) + FLOOD_BAN_MS;
  peer_explain(g, p, ERR_BACKLOG, "it floods us with messages: no session for %d s", FLOOD_BAN_MS / 1000);
  session_end(g, p, ERR_BACKLOG);
}

/* Before a frame costs us anything. What is to be carried has an allowance of its own, because who sends it does not know how
 * much others send; what that has not room for is left unread, and counts as if it were sent for nothing. */
static bool is_paid(struct gossip *g, struct peer *payer, uint8_t type, size_t n) {
  bool is_relay = type == MESSAGE_RELAY;
  if (is_relay && relay_pays(g, payer, n))
    return true;
  if (!allowance_spend(&payer->allowance, allowance_cost(type, n), node_now(g))) {
    ban(g, payer);
    return false;
  }
  if (is_relay)
    peer_count(payer, ERR_BACKLOG);
  return !is_relay;
}

/* What came over a third is paid by the third; by its sender only when it proves to be of it. */
static bool is_paid_by_sender(struct gossip *g, struct peer *p, uint64_t conn, uint8_t type, size_t n) {
  if (!conn_is_relayed(conn) || allowance_spend(&p->allowance, allowance_cost(type, n), node_now(g)))
    return true;
  peer_kick(g, p, ERR_BACKLOG);
  return false;
}

void node_take_frame(struct gossip *g, uint64_t conn, const char *address, uint8_t *frame, size_t n) {
  struct frame_head head = {0};
  enum err e = frame_head_read(frame, n, &head);
  struct peer *payer = conn_is_relayed(conn) ? NULL : peer_of_conn(g, conn, head.session_index);
  if (payer && !is_paid(g, payer, e == ERR_OK ? head.type : 0, n))
    return;
  if (!payer && conn_is_dialled(conn) && !dial_take_frame(g, &g->peers[conn]))
    return;
  if (e != ERR_OK) {
    frame_blame(g, conn, address, e);
    return;
  }
  if (head.type == MESSAGE_HANDSHAKE_1) {
    session_on_handshake_1(g, conn, address, &head, frame, n);
  } else if (head.type == MESSAGE_HANDSHAKE_2) {
    session_on_handshake_2(g, conn, address, &head, frame, n);
  } else {
    struct peer *p = session_open(g, conn, address, &head, frame);
    if (!p || !is_paid_by_sender(g, p, conn, head.type, n))
      return;
    bool is_of_relay = head.type == MESSAGE_RELAY || head.type == MESSAGE_NOT_RELAYED;
    if (head.type != MESSAGE_RELAY)
      p->info.received_bytes += conn_frame_bytes(conn, n);
    if (is_of_relay && conn_is_relayed(conn)) /* one hop */
      peer_count(p, ERR_MESSAGE);
    else
      receive_message(g, p, head.type, frame + FRAME_HEAD_BYTES, head.n_plain);
    peer_stir(g, p);
  }
}

static void on_frame(void *context, uint64_t conn, const char *address, uint8_t *frame, size_t n) {
  struct gossip *g = context;
  g->received_bytes += n;
  node_take_frame(g, conn, address, frame, n);
}

static void on_dial(void *context, size_t peer, enum dial_event event) {
  struct gossip *g = context;
  dial_on_event(g, &g->peers[peer], event);
}

static void on_gone(void *context, uint64_t conn) {
  struct gossip *g = context;
  for (size_t i = 0; i < g->n_peers; i++)
    session_lose_conn(g, &g->peers[i], conn);
}

static void on_gate(void *context, const char *address) {
  struct gossip *g = context;
  char text[MAX_REASON_BYTES];
  snprintf(text, sizeof text, "connection from %.100s: %s", address, err_sentence(ERR_GATE));
  strangers_count(&g->strangers, address, ERR_GATE, node_now(g));
  notes_put(&g->notes, node_now(g), SIZE_MAX, ERR_GATE, text);
}

struct link_sink node_sink(struct gossip *g) {
  return (struct link_sink){g, on_frame, on_dial, on_gone, on_gate};
}

/* ---- peers ------------------------------------------------------------------------------------------------------------- */

size_t job_find(const struct gossip *g, const struct digest *job) {
  for (size_t i = 0; i < g->config.n_jobs; i++)
    if (!g->jobs[i].is_ended && digest_equal(&g->jobs[i].config->job, job))
      return i;
  return SIZE_MAX;
}

void peer_count(struct peer *p, enum err reason) {
  int drop = err_drop_index(reason);
  if (drop >= 0 && !p->info.drops)
    p->info.drops = calloc(N_DROPS, sizeof *p->info.drops);
  if (drop >= 0 && p->info.drops)
    p->info.drops[drop]++;
}

void peer_tell(struct gossip *g, struct peer *p) {
  g->n_news += !p->is_news;
  p->is_news = true;
}

/* Without memory it says nothing. */
static void sentence_set(struct peer *p, const char *sentence) {
  free(p->info.sentence);
  p->info.sentence = sentence[0] ? strdup(sentence) : NULL;
}

static const char *sentence_of(const struct peer *p) {
  return p->info.sentence ? p->info.sentence : "";
}

void peer_set_reason(struct gossip *g, struct peer *p, enum err reason, const char *sentence) {
  if (p->info.reason != reason) {
    p->info.since_ms = node_now(g);
    peer_count(p, reason);
    peer_tell(g, p);
  }
  p->info.reason = reason;
  sentence_set(p, sentence);
}

void peer_explain(struct gossip *g, struct peer *p, enum err reason, const char *format, ...) {
  char sentence[MAX_REASON_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  if (p->info.reason == reason && strcmp(sentence_of(p), sentence) == 0)
    return;
  peer_set_reason(g, p, reason, sentence);
  if (reason != ERR_OK)
    notes_put(&g->notes, node_now(g), peer_index(g, p), reason, sentence);
}

static enum err peer_init(struct gossip *g, struct peer *p, const struct gossip_peer_config *config,
                          char out_why[MAX_REASON_BYTES]) {
  p->config = config;
  p->live_ms = p->down_ms = p->info.since_ms = node_now(g);
  p->info.reason = ERR_NO_SESSION;
  sentence_set(p, config->address[0] ? "not yet connected" : "it has no address here and has not dialled us");
  for (size_t t = 0; t < N_TIMERS; t++)
    p->timers[t] = TIMER_OFF;
  fetches_init(&p->fetches, &g->budget);
  allowance_init(&p->allowance, node_now(g));
  send_forget(g, p);
  peer_tell(g, p);
  dial_later(g, p);
  enum err e = g->seals->peer_static(&config->key, p->x25519);
  if (e != ERR_OK)
    snprintf(out_why, MAX_REASON_BYTES, "%s: this is no usable key", config->name);
  return e;
}

/* ---- life -------------------------------------------------------------------------------------------------------------- */

static enum err config_check(const struct gossip_config *c, char out_why[MAX_REASON_BYTES]) {
  if (c->n_peers > MAX_PEERS || c->n_jobs > MAX_JOBS_IN_HELLO) {
    snprintf(out_why, MAX_REASON_BYTES, "at most %d peers and %d jobs are possible", MAX_PEERS, MAX_JOBS_IN_HELLO);
    return ERR_LIMIT;
  }
  MUST(c->max_members <= MAX_MEMBERS && (c->max_members == 0 || c->max_members > c->n_peers));
  for (size_t i = 0; i + 1 < c->n_peers; i++)
    MUST(identity_key_compare(&c->peers[i].key, &c->peers[i + 1].key) < 0);
  return ERR_OK;
}

static void tables_free(struct gossip *g) {
  if (!g->is_scratch_lent)
    free(g->scratch);
  free(g->peers);
  for (size_t i = 0; g->jobs && i < g->config.n_jobs; i++)
    free(g->jobs[i].with);
  free(g->jobs);
  notes_done(&g->notes);
  strangers_done(&g->strangers);
  due_done(&g->due);
  due_done(&g->unsent);
}

enum err node_new(const struct gossip_config *config, const struct gossip_events *events, struct gossip **out_node,
                  char out_why[MAX_REASON_BYTES]) {
  struct node_means means = {.seals = &seals_noise, .self = {config->identity, *identity_public(config->identity)}};
  return node_new_with(&means, config, events, out_node, out_why);
}

/* The next job, which no peer is known to run. */
static enum err job_add(struct gossip *g, const struct gossip_job_config *config, size_t n_peers) {
  size_t n = g->config.n_jobs;
  struct node_job *jobs = array_grown(g->jobs, &g->job_capacity, n, sizeof *jobs, MAX_JOBS_IN_HELLO);
  if (!jobs)
    return ERR_NO_MEMORY;
  g->jobs = jobs;
  struct job_with *with = calloc(n_peers + 1, sizeof *with);
  if (!with)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < n_peers; i++)
    with[i].reason = ERR_JOB; /* until its HELLO says otherwise */
  g->jobs[g->config.n_jobs++] = (struct node_job){.config = config, .with = with};
  return ERR_OK;
}

/* What is allocated before the peers are made. */
static enum err tables_new(struct gossip *g, const struct node_means *means, const struct gossip_config *config) {
  g->is_scratch_lent = means->scratch != NULL;
  g->scratch = means->scratch ? means->scratch : malloc(MAX_CONTROL_BYTES);
  g->peers = calloc(config->n_peers > 0 ? config->n_peers : 1, sizeof *g->peers);
  if (!g->scratch || !g->peers)
    return ERR_NO_MEMORY;
  enum err e = ERR_OK;
  for (size_t i = 0; e == ERR_OK && i < config->n_jobs; i++)
    e = job_add(g, config->jobs[i], config->n_peers);
  if (e == ERR_OK)
    e = due_init(&g->due, config->n_peers);
  return e == ERR_OK ? due_init(&g->unsent, config->n_peers) : e;
}

/* What of it stands in tables of our own is added to them. */
static void config_take(struct gossip *g, const struct gossip_config *config) {
  g->config = *config;
  g->config.jobs = NULL;
  g->config.n_jobs = 0;
  if (g->config.beat_s == 0)
    g->config.beat_s = GOSSIP_BEAT_S;
  if (g->config.version_max == 0) {
    g->config.version_min = GOSSIP_VERSION_MIN;
    g->config.version_max = GOSSIP_VERSION;
  }
}

enum err node_new_with(const struct node_means *means, const struct gossip_config *config,
                       const struct gossip_events *events, struct gossip **out_node, char out_why[MAX_REASON_BYTES]) {
  enum err e = config_check(config, out_why);
  if (e != ERR_OK)
    return e;
  struct gossip *g = calloc(1, sizeof *g);
  if (g)
    config_take(g, config);
  e = g ? tables_new(g, means, config) : ERR_NO_MEMORY;
  if (e != ERR_OK) {
    snprintf(out_why, MAX_REASON_BYTES, "%s", err_sentence(e));
    node_free(g);
    return e;
  }
  g->seals = means->seals;
  g->self = means->self;
  g->events = events;
  g->budget.limit = config->payload_max_bytes;
  strangers_init(&g->strangers, node_now(g));
  notes_init(&g->notes, config->n_peers);
  rng_init(&g->rng, random_u64());
  for (; e == ERR_OK && g->n_peers < config->n_peers; g->n_peers++)
    e = peer_init(g, &g->peers[g->n_peers], &config->peers[g->n_peers], out_why);
  if (e == ERR_OK && (e = membership_init(g)) != ERR_OK)
    snprintf(out_why, MAX_REASON_BYTES, "%s", err_sentence(e));
  if (e != ERR_OK) {
    node_free(g);
    return e;
  }
  *out_node = g;
  return ERR_OK;
}

void node_free(struct gossip *g) {
  if (!g)
    return;
  for (size_t i = 0; i < g->n_peers; i++) {
    struct peer *p = &g->peers[i];
    slots_free(g, p);
    handshake_forget(g, p);
    outbox_clear(&p->outbox);
    serves_clear(&p->serves);
    fetches_done(&p->fetches);
    free(p->other_jobs);
    free(p->dialled);
    free(p->info.sentence);
    free(p->info.drops);
  }
  membership_done(g);
  relay_done(g);
  tables_free(g);
  free(g);
}

static bool is_relayed(const struct peer *p) {
  return p->slots[SLOT_LIVE] && conn_is_relayed(p->slots[SLOT_LIVE]->conn);
}

void gossip_close(struct gossip *g, enum err reason) {
  if (!g)
    return;
  g->is_closing = true;
  membership_leave(g);
  for (size_t i = 0; i < g->n_peers; i++)
    send_flush(g, &g->peers[i]);
  for (size_t i = 0; i < g->n_peers; i++) /* first over those who relay */
    if (is_relayed(&g->peers[i]))
      say_bye(g, &g->peers[i], reason);
  for (size_t i = 0; i < g->n_peers; i++)
    if (!is_relayed(&g->peers[i]))
      say_bye(g, &g->peers[i], reason);
  g->link.calls->close(g->link.context);
  node_free(g);
}

/* ---- jobs that come and go ---------------------------------------------------------------------------------------------- */

static void tell_jobs(struct gossip *g) {
  for (size_t i = 0; i < g->n_peers; i++)
    if (g->peers[i].info.has_session)
      send_hello_again(g, &g->peers[i]);
}

enum err gossip_add_job(struct gossip *g, const struct gossip_job_config *job, uint64_t payload_bound,
                        size_t *out_index) {
  if (g->config.n_jobs == MAX_JOBS_IN_HELLO)
    return ERR_LIMIT;
  if (job_find(g, &job->job) != SIZE_MAX)
    return ERR_EXISTS;
  size_t index = g->config.n_jobs;
  enum err e = job_add(g, job, g->n_peers);
  if (e != ERR_OK)
    return e;
  if (payload_bound > g->config.payload_bound)
    g->config.payload_bound = payload_bound;
  *out_index = index;
  tell_jobs(g);
  return ERR_OK;
}

void gossip_end_job(struct gossip *g, size_t job) {
  MUST(job < g->config.n_jobs);
  if (g->jobs[job].is_ended)
    return;
  g->jobs[job].is_ended = true;
  for (size_t i = 0; i < g->n_peers; i++) {
    gossip_fetch_cancel(g, i, job);
    g->jobs[job].with[i].reason = ERR_JOB;
    g->jobs[job].with[i].is_state_due = false;
  }
  tell_jobs(g);
}

bool gossip_names_job(const struct gossip *g, size_t peer, const struct digest *job) {
  MUST(peer < g->n_peers);
  const struct peer *p = &g->peers[peer];
  if (!p->info.has_session)
    return false;
  for (size_t i = 0; i < g->config.n_jobs; i++)
    if (g->jobs[i].with[peer].is_named && digest_equal(&g->jobs[i].config->job, job))
      return true;
  for (size_t i = 0; i < p->n_other_jobs; i++)
    if (digest_equal(&p->other_jobs[i], job))
      return true;
  return false;
}

/* ---- sending ------------------------------------------------------------------------------------------------------------ */

/* The peer, when it has a session in which this job is equal. */
static struct peer *partner(struct gossip *g, size_t peer, size_t job) {
  MUST(peer < g->n_peers && job < g->config.n_jobs);
  struct peer *p = &g->peers[peer];
  return p->info.has_session && job_with(g, p, job)->reason == ERR_OK ? p : NULL;
}

void gossip_state_changed(struct gossip *g, size_t job) {
  MUST(job < g->config.n_jobs);
  for (size_t i = 0; i < g->n_peers; i++)
    if (g->peers[i].info.has_session && !g->jobs[job].is_ended) {
      g->jobs[job].with[i].is_state_due = true;
      peer_stir(g, &g->peers[i]);
    }
}

void gossip_ask(struct gossip *g, size_t peer, size_t job, enum manifest_kind kind, uint64_t first, size_t n) {
  MUST(n >= 1 && n <= MAX_ASK);
  struct peer *p = partner(g, peer, job);
  struct message m = {.type = MESSAGE_ASK,
                      .ask = {.job = g->jobs[job].config->job, .kind = kind, .first = first, .n = (uint8_t)n}};
  if (p)
    send_message(g, p, &m);
}

void gossip_offer(struct gossip *g, size_t peer, size_t job, const uint8_t manifest[MANIFEST_BYTES]) {
  struct peer *p = partner(g, peer, job);
  struct message m = {.type = MESSAGE_MANIFEST, .manifest = manifest};
  if (p)
    send_message(g, p, &m);
}

void gossip_done(struct gossip *g, size_t peer, size_t job, uint64_t sequence, enum err outcome) {
  struct peer *p = partner(g, peer, job);
  struct message m = {.type = MESSAGE_DONE,
                      .done = {.job = g->jobs[job].config->job, .sequence = sequence, .outcome = outcome}};
  if (p)
    send_message(g, p, &m);
}

void gossip_send_pool(struct gossip *g, size_t peer, size_t job, const struct wire_pool *pool) {
  struct peer *p = partner(g, peer, job);
  struct message m = {.type = MESSAGE_POOL, .pool = {.job = g->jobs[job].config->job, .words = *pool}};
  if (p)
    send_message(g, p, &m);
}

enum err gossip_send_sketch(struct gossip *g, size_t peer, size_t job, const uint8_t *bytes) {
  struct peer *p = partner(g, peer, job);
  struct message m = {.type = MESSAGE_SKETCH, .sketch = bytes};
  if (!p || !p->slots[SLOT_LIVE])
    return ERR_NO_SESSION;
  if (p->slots[SLOT_LIVE]->version < SKETCH_VERSION)
    return ERR_VERSION;
  return p->outbox.n_bytes <= MAX_OUTBOX_BYTES / 4 ? send_message_or_not(g, p, &m) : ERR_BACKLOG;
}

enum err gossip_fetch(struct gossip *g, size_t peer, size_t job, const struct manifest *m) {
  struct peer *p = partner(g, peer, job);
  if (!p)
    return ERR_NO_SESSION;
  if (m->n_payload == 0 || m->n_payload > g->config.payload_bound)
    return ERR_LENGTH;
  peer_stir(g, p);
  enum err e = fetch_start(&p->fetches, job, m, node_now(g));
  if (e != ERR_BUDGET)
    return e;
  for (size_t i = 0; i < g->n_peers; i++)
    fetches_drop_parked(&g->peers[i].fetches);
  relay_yield(g, m->n_payload);
  return fetch_start(&p->fetches, job, m, node_now(g));
}

void gossip_fetch_cancel(struct gossip *g, size_t peer, size_t job) {
  MUST(peer < g->n_peers && job < g->config.n_jobs);
  struct fetches *f = &g->peers[peer].fetches;
  peer_stir(g, &g->peers[peer]);
  fetches_cancel(f, job);
}

void gossip_ask_job(struct gossip *g, size_t peer, const struct digest *job) {
  MUST(peer < g->n_peers);
  struct message m = {.type = MESSAGE_ASK_JOB, .ask_job = {*job}};
  if (g->peers[peer].info.has_session)
    send_message(g, &g->peers[peer], &m);
}

enum err gossip_send_job_file(struct gossip *g, size_t peer, const uint8_t *bytes, size_t n) {
  MUST(peer < g->n_peers && n >= 1 && n <= JOB_FILE_MAX_BYTES);
  struct peer *p = &g->peers[peer];
  if (!p->info.has_session)
    return ERR_NO_SESSION;
  peer_stir(g, p);
  return outbox_put(&p->outbox, MESSAGE_JOB_FILE, bytes, n);
}

void gossip_count(struct gossip *g, size_t peer, enum err reason) {
  MUST(peer < g->n_peers);
  peer_count(&g->peers[peer], reason);
}

void gossip_set_boot_epoch(struct gossip *g, uint64_t boot_epoch) {
  g->config.boot_epoch = boot_epoch;
  membership_restart(g);
  for (size_t i = 0; i < g->n_peers; i++)
    peer_kick(g, &g->peers[i], ERR_STOPPED);
}

/* ---- showing ------------------------------------------------------------------------------------------------------------- */

void gossip_peer_info(const struct gossip *g, size_t peer, struct gossip_peer_info *out_info) {
  MUST(peer < g->n_peers);
  const struct peer *p = &g->peers[peer];
  const struct slot *live = p->slots[SLOT_LIVE];
  *out_info = (struct gossip_peer_info){.has_session = p->info.has_session,
                                        .reason = p->info.reason,
                                        .since_ms = p->info.since_ms,
                                        .last_heard_ms = p->info.last_heard_ms,
                                        .boot_epoch = p->info.boot_epoch,
                                        .rtt_ms = p->fetches.rtt_ms,
                                        .sent_bytes = p->info.sent_bytes,
                                        .received_bytes = p->info.received_bytes,
                                        .we_dialled = live && live->session->ends.is_initiator,
                                        .via = live && conn_is_relayed(live->conn) ? conn_via(live->conn) : SIZE_MAX,
                                        .relayed_bytes = relay_carried_bytes(g, p)};
  snprintf(out_info->sentence, sizeof out_info->sentence, "%s", sentence_of(p));
  if (p->info.drops)
    memcpy(out_info->drops, p->info.drops, sizeof out_info->drops);
}

bool gossip_reason_take(struct gossip *g, size_t *out_peer, enum err *out_reason) {
  for (size_t i = 0; g->n_news > 0; i++) {
    struct peer *p = &g->peers[i];
    if (!p->is_news)
      continue;
    p->is_news = false;
    g->n_news--;
    if (p->info.has_session)
      continue;
    *out_peer = i;
    *out_reason = p->info.reason;
    return true;
  }
  return false;
}

size_t gossip_strangers(const struct gossip *g, struct gossip_stranger *out_rows, size_t capacity) {
  return strangers_list(&g->strangers, out_rows, capacity);
}

void gossip_stranger_drops(const struct gossip *g, uint64_t out_drops[N_DROPS]) {
  memset(out_drops, 0, N_DROPS * sizeof *out_drops);
  if (g->strangers.drops)
    memcpy(out_drops, g->strangers.drops, N_DROPS * sizeof *out_drops);
}

uint64_t gossip_sent_bytes(const struct gossip *g) {
  return g->sent_bytes;
}

uint64_t gossip_received_bytes(const struct gossip *g) {
  return g->received_bytes;
}

bool gossip_note_take(struct gossip *g, struct gossip_note *out_note) {
  return notes_take(&g->notes, out_note);
}
