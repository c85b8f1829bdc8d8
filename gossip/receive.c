#include "gossip/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gossip/difference.h"

/* The own job that a message is about, when both sides run it alike; SIZE_MAX: the message is dropped. */
static size_t common_job(const struct gossip *g, const struct peer *p, const struct digest *job) {
  size_t i = job_find(g, job);
  return i != SIZE_MAX && job_with(g, p, i)->reason == ERR_OK ? i : SIZE_MAX;
}

/* A signed object that does not count. */
static void refuse(struct gossip *g, struct peer *p, const char *what, enum err reason) {
  char text[MAX_REASON_BYTES];
  snprintf(text, sizeof text, "%s was refused: %s", what, err_sentence(reason));
  peer_count(p, reason);
  notes_put(&g->notes, node_now(g), peer_index(g, p), reason, text);
}

/* ---- HELLO and SCHEMA ------------------------------------------------------------------------------------------------ */

static const struct hello_entry *hello_find(const struct message_hello *h, const struct digest *job) {
  for (size_t i = 0; i < h->n_jobs; i++)
    if (digest_equal(&h->jobs[i].job, job))
      return &h->jobs[i];
  return NULL;
}

static enum err job_judge(const struct gossip *g, size_t job, const struct hello_entry *theirs) {
  const struct gossip_job_config *ours = g->jobs[job].config;
  if (!theirs || g->jobs[job].is_ended)
    return ERR_JOB;
  if (!digest_equal(&ours->schema, &theirs->schema))
    return ERR_SCHEMA;
  return digest_equal(&ours->contract, &theirs->contract) ? ERR_OK : ERR_CONTRACT;
}

/* Whether the other side's SCHEMA will name the first difference. */
static bool has_difference(enum err reason) {
  return reason == ERR_SCHEMA || reason == ERR_CONTRACT;
}

/* The first job, which says why the peer takes no part; SIZE_MAX: it does, by one that is equal, or there is none to take
 * part in: who runs none comes for job files. */
static size_t job_that_refuses(const struct gossip *g, const struct peer *p) {
  size_t first = SIZE_MAX;
  for (size_t i = 0; i < g->config.n_jobs; i++) {
    if (g->jobs[i].is_ended)
      continue;
    if (job_with(g, p, i)->reason == ERR_OK)
      return SIZE_MAX;
    first = first == SIZE_MAX ? i : first;
  }
  return first;
}

static void explain_jobs(struct gossip *g, struct peer *p) {
  size_t job = job_that_refuses(g, p);
  enum err reason = job == SIZE_MAX ? ERR_OK : job_with(g, p, job)->reason;
  if (!has_difference(reason))
    peer_explain(g, p, reason, "%s", reason == ERR_OK ? "" : err_sentence(reason));
  else if (reason != p->info.reason || !job_with(g, p, job)->is_difference_known)
    peer_set_reason(g, p, reason, err_sentence(reason)); /* SCHEMA says more, and is noted */
}

static void on_hello_job(struct gossip *g, struct peer *p, size_t job, const struct hello_entry *theirs) {
  if (theirs && job_with(g, p, job)->reason == ERR_OK) {
    if (!digest_equal(&g->jobs[job].config->file, &theirs->file))
      notes_put(&g->notes, node_now(g), peer_index(g, p), ERR_JOB,
                "its job file differs, though not in schema and contract");
    g->events->on_hello(g->config.events_context, peer_index(g, p), job, &theirs->words);
    return;
  }
  if (job_with(g, p, job)->reason != ERR_JOB)
    send_schema(g, p, job);
  g->events->on_refused_job(g->config.events_context, peer_index(g, p), job, job_with(g, p, job)->reason);
}

/* Without memory it names none: whoever wants a job file asks again in the next session. */
static void name_jobs(struct gossip *g, struct peer *p, const struct message_hello *hello) {
  bool is_ours[MAX_JOBS_IN_HELLO] = {false};
  size_t n_others = hello->n_jobs;
  for (size_t i = 0; i < g->config.n_jobs; i++) {
    const struct hello_entry *entry = hello_find(hello, &g->jobs[i].config->job);
    job_with(g, p, i)->is_named = entry != NULL;
    n_others -= entry && !is_ours[entry - hello->jobs];
    if (entry)
      is_ours[entry - hello->jobs] = true;
  }
  free(p->other_jobs);
  p->other_jobs = n_others > 0 ? calloc(n_others, sizeof *p->other_jobs) : NULL;
  p->n_other_jobs = 0;
  for (size_t i = 0; p->other_jobs && i < hello->n_jobs; i++)
    if (!is_ours[i])
      p->other_jobs[p->n_other_jobs++] = hello->jobs[i].job;
}

/* The first one opens the session to everything else; a later one tells of jobs that came or went. Whoever learns from it of
 * a job that both run says HELLO in return, for the other side lacks the same. */
static void on_hello(struct gossip *g, struct peer *p, const struct message *m) {
  enum err before[MAX_JOBS_IN_HELLO] = {ERR_OK};
  size_t n_jobs = g->config.n_jobs; /* the agent may add more when it is told */
  bool is_first = !p->is_greeted, is_news = false;
  if (p->n_hellos == MAX_HELLOS) {
    peer_count(p, ERR_MESSAGE);
    return;
  }
  p->n_hellos++;
  name_jobs(g, p, &m->hello);
  for (size_t i = 0; i < n_jobs; i++) {
    before[i] = is_first ? ERR_JOB : job_with(g, p, i)->reason;
    job_with(g, p, i)->reason = job_judge(g, i, hello_find(&m->hello, &g->jobs[i].config->job));
    if (before[i] != job_with(g, p, i)->reason)
      job_with(g, p, i)->is_difference_known = false;
    is_news |= before[i] == ERR_JOB && job_with(g, p, i)->reason != ERR_JOB;
  }
  explain_jobs(g, p);
  if (is_first)
    session_greeted(g, p);
  else if (is_news)
    send_hello_again(g, p); /* before what the agent says of the job, which would be dropped */
  for (size_t i = 0; i < n_jobs && p->info.has_session; i++)
    if (!g->jobs[i].is_ended && (is_first || before[i] != job_with(g, p, i)->reason))
      on_hello_job(g, p, i, hello_find(&m->hello, &g->jobs[i].config->job));
}

static void on_schema(struct gossip *g, struct peer *p, const struct message *m) {
  const struct message_schema *theirs = &m->schema;
  size_t job = job_find(g, &theirs->job);
  if (job == SIZE_MAX || job_with(g, p, job)->is_difference_known)
    return;
  enum err reason = job_with(g, p, job)->reason;
  if (!has_difference(reason))
    return;
  job_with(g, p, job)->is_difference_known = true;
  bool is_schema = reason == ERR_SCHEMA;
  const struct gossip_job_config *ours = g->jobs[job].config;
  char words[MAX_REASON_BYTES];
  bool is_found = difference_find(
      text_whole_lines(is_schema ? ours->schema_text : ours->contract_text, MAX_SCHEMA_TEXT_BYTES),
      (struct text){is_schema ? theirs->schema : theirs->contract, is_schema ? theirs->n_schema : theirs->n_contract},
      words);
  if (!is_found)
    snprintf(words, sizeof words, "the hashes differ, the first 16 KiB of the texts do not");
  if (job_that_refuses(g, p) == SIZE_MAX) /* it takes part in another one */
    notes_put(&g->notes, node_now(g), peer_index(g, p), reason, words);
  else
    peer_explain(g, p, reason, "%s", words);
  g->events->on_refused_job(g->config.events_context, peer_index(g, p), job, reason);
}

/* ---- STATE, ASK and MANIFEST ------------------------------------------------------------------------------------------ */

static void on_state(struct gossip *g, struct peer *p, const struct message *m) {
  size_t job = common_job(g, p, &m->state.job);
  if (job != SIZE_MAX)
    g->events->on_state(g->config.events_context, peer_index(g, p), job, &m->state.words);
}

static void answer_without(struct gossip *g, struct peer *p, const struct message_ask *ask, enum err reason) {
  struct message m = {.type = MESSAGE_NOT_YET, .not_yet = {.job = ask->job, .kind = ask->kind, .first = ask->first}};
  if (reason != ERR_NOT_YET)
    m = (struct message){.type = MESSAGE_REFUSED,
                         .refused = {.job = ask->job, .reason = reason, .kind = ask->kind, .first = ask->first}};
  send_message(g, p, &m);
}

static void on_ask(struct gossip *g, struct peer *p, const struct message *m) {
  const struct message_ask *ask = &m->ask;
  size_t job = common_job(g, p, &ask->job);
  if (job == SIZE_MAX) {
    answer_without(g, p, ask, ERR_JOB);
    return;
  }
  uint8_t bytes[MANIFEST_BYTES];
  for (size_t i = 0; i < ask->n; i++) {
    enum err e =
        g->events->find_manifest(g->config.events_context, peer_index(g, p), job, ask->kind, ask->first, i, bytes);
    if (e == ERR_NOT_FOUND)
      return;
    if (e != ERR_OK) {
      answer_without(g, p, ask, e);
      return;
    }
    gossip_offer(g, peer_index(g, p), job, bytes);
  }
}

static void on_not_yet(struct gossip *g, struct peer *p, const struct message *m) {
  size_t job = common_job(g, p, &m->not_yet.job);
  if (job != SIZE_MAX)
    g->events->on_answer(g->config.events_context, peer_index(g, p), job, m->not_yet.first, ERR_NOT_YET);
}

static enum err manifest_judge(const struct gossip *g, const struct peer *p, const struct manifest *m,
                               size_t *out_job) {
  if (memcmp(m->swarm.bytes, g->config.swarm, sizeof m->swarm.bytes) != 0)
    return ERR_SWARM;
  size_t job = common_job(g, p, &m->job);
  if (job == SIZE_MAX)
    return ERR_JOB;
  if (!digest_equal(&m->schema, &g->jobs[job].config->schema))
    return ERR_SCHEMA;
  if (!digest_equal(&m->contract, &g->jobs[job].config->contract))
    return ERR_CONTRACT;
  if (!identity_key_equal(&m->origin, &p->config->key))
    return ERR_ORIGIN;
  if (g->seals->verify_manifest(m) != ERR_OK)
    return ERR_SIGNATURE;
  *out_job = job;
  return m->n_payload <= g->config.payload_bound ? ERR_OK : ERR_LENGTH;
}

static void on_manifest(struct gossip *g, struct peer *p, const struct message *m) {
  struct manifest manifest;
  size_t job = 0;
  enum err e = manifest_read(m->manifest, MANIFEST_BYTES, &manifest);
  if (e == ERR_OK)
    e = manifest_judge(g, p, &manifest, &job);
  if (e == ERR_OK) {
    g->events->on_manifest(g->config.events_context, peer_index(g, p), job, &manifest, m->manifest);
    return;
  }
  refuse(g, p, "a manifest", e);
}

/* ---- GET and CHUNK ---------------------------------------------------------------------------------------------------- */

static void on_get(struct gossip *g, struct peer *p, const struct message *m) {
  size_t job = common_job(g, p, &m->get.job);
  if (job == SIZE_MAX)
    return;
  enum err e = serves_add(&p->serves, job, &m->get);
  if (e != ERR_OK)
    peer_count(p, e);
}

static void on_chunk(struct gossip *g, struct peer *p, const struct message *m) {
  struct fetch *complete = NULL;
  enum err e = m->chunk.n_siblings == 0 ? fetch_chunk(&p->fetches, &m->chunk, node_now(g), &complete) : ERR_MESSAGE;
  if (e == ERR_OK)
    allowance_return(&p->allowance, allowance_cost(MESSAGE_CHUNK, frame_bytes(CHUNK_HEAD_BYTES + m->chunk.n_data)));
  else if (e != ERR_REPLAY) /* a repeated GET is answered twice */
    peer_count(p, e);
  if (!complete)
    return;
  struct manifest manifest = complete->manifest;
  size_t job = complete->job;
  uint8_t *payload = fetch_take(&p->fetches, complete);
  g->events->on_payload(g->config.events_context, peer_index(g, p), job, &manifest,
                        payload); /* the payload is the agent's */
}

static void fail_fetch(struct gossip *g, struct peer *p, struct fetch *fetch, bool keeps, enum err reason) {
  struct manifest manifest = fetch->manifest;
  size_t job = fetch->job;
  if (keeps)
    fetch_park(&p->fetches, fetch);
  else
    fetch_drop(&p->fetches, fetch);
  g->events->on_fetch_failed(g->config.events_context, peer_index(g, p), job, &manifest, reason);
}

void receive_fail_fetches(struct gossip *g, struct peer *p, enum err reason) {
  for (struct fetch *fetch; (fetch = fetch_running(&p->fetches, NULL));)
    fail_fetch(g, p, fetch, true, reason);
}

void receive_fetch_tick(struct gossip *g, struct peer *p) {
  struct fetch *slow = fetches_tick(&p->fetches, node_now(g));
  if (slow)
    fail_fetch(g, p, slow, true, ERR_TIMED_OUT);
}

static void on_refused(struct gossip *g, struct peer *p, const struct message *m) {
  size_t job = common_job(g, p, &m->refused.job);
  if (job == SIZE_MAX)
    return;
  if (!m->refused.is_get) {
    g->events->on_answer(g->config.events_context, peer_index(g, p), job, m->refused.first, m->refused.reason);
    return;
  }
  struct fetch *fetch = fetch_running(&p->fetches, &m->refused.root);
  if (fetch)
    fail_fetch(g, p, fetch, false, m->refused.reason);
}

/* ---- job files ---------------------------------------------------------------------------------------------------------- */

static void on_ask_job(struct gossip *g, struct peer *p, const struct message *m) {
  g->events->on_ask_job(g->config.events_context, peer_index(g, p), &m->ask_job.job);
}

static bool is_known_key(const struct gossip *g, const struct identity_key *key) {
  return identity_key_equal(key, &g->self.key) || peer_find(g, key);
}

static enum err job_file_judge(const struct gossip *g, const struct job_file *f) {
  if (memcmp(f->swarm.bytes, g->config.swarm, sizeof f->swarm.bytes) != 0)
    return ERR_SWARM;
  if (!is_known_key(g, &f->proposer))
    return ERR_ORIGIN;
  return g->seals->verify_job_file(f);
}

static void on_job_file(struct gossip *g, struct peer *p, const struct message *m) {
  struct job_file f;
  enum err e = job_file_read(m->job_file.bytes, m->job_file.n, &f);
  if (e == ERR_OK)
    e = job_file_judge(g, &f);
  else
    e = err_drop_index(e) >= 0 ? e : ERR_MESSAGE;
  if (e == ERR_OK) {
    g->events->on_job_file(g->config.events_context, peer_index(g, p), &f, m->job_file.bytes, m->job_file.n);
    return;
  }
  refuse(g, p, "a job file", e);
}

/* ---- DONE, BYE and BEAT ------------------------------------------------------------------------------------------------ */

static void on_done(struct gossip *g, struct peer *p, const struct message *m) {
  size_t job = common_job(g, p, &m->done.job);
  if (job != SIZE_MAX)
    g->events->on_done(g->config.events_context, peer_index(g, p), job, m->done.sequence, m->done.outcome);
}

static void on_bye(struct gossip *g, struct peer *p, const struct message *m) {
  if (m->bye == ERR_STOPPED)
    peer_explain(g, p, ERR_NO_SESSION, "it was stopped");
  else
    peer_explain(g, p, ERR_REFUSED, "it ended the session: %s", err_sentence(m->bye));
  session_end(g, p, m->bye);
}

/* The peer may have become slower or faster than we thought: what is planned follows. */
static void on_beat(struct gossip *g, struct peer *p, const struct message *m) {
  if (p->beat_s == m->beat_s)
    return;
  p->beat_s = m->beat_s;
  timer_set(g, p, TIMER_BEAT, session_beat_ms(g, p));
}

/* ---- POOL ---------------------------------------------------------------------------------------------------------------- */

static void on_pool(struct gossip *g, struct peer *p, const struct message *m) {
  size_t job = common_job(g, p, &m->pool.job);
  if (job != SIZE_MAX)
    g->events->on_pool(g->config.events_context, peer_index(g, p), job, &m->pool.words);
}

/* ---- SKETCH -------------------------------------------------------------------------------------------------------------- */

static enum err sketch_judge(const struct gossip *g, const struct peer *p, const struct signed_sketch *s,
                             size_t *out_job) {
  if (memcmp(s->swarm.bytes, g->config.swarm, sizeof s->swarm.bytes) != 0)
    return ERR_SWARM;
  size_t job = common_job(g, p, &s->job);
  if (job == SIZE_MAX)
    return ERR_JOB;
  if (!digest_equal(&s->schema, &g->jobs[job].config->schema))
    return ERR_SCHEMA;
  if (!digest_equal(&s->contract, &g->jobs[job].config->contract))
    return ERR_CONTRACT;
  *out_job = job;
  return ERR_OK;
}

static void on_sketch(struct gossip *g, struct peer *p, const struct message *m) {
  struct signed_sketch s;
  size_t job = 0;
  enum err e = signed_sketch_read(m->sketch, SIGNED_SKETCH_BYTES, &s);
  if (e == ERR_OK)
    e = sketch_judge(g, p, &s, &job);
  if (e == ERR_OK && !g->events->wants_sketch(g->config.events_context, peer_index(g, p), job, &s))
    return; /* it came before, over others */
  if (e == ERR_OK)
    e = g->seals->verify_sketch(&s);
  if (e == ERR_OK) {
    g->events->on_sketch(g->config.events_context, peer_index(g, p), job, &s, m->sketch);
    return;
  }
  refuse(g, p, "a sketch", e);
}

/* ---- the table ---------------------------------------------------------------------------------------------------------- */

void receive_message(struct gossip *g, struct peer *p, uint8_t type, const uint8_t *plain, size_t n) {
  static void (*const handlers[MESSAGE_END])(struct gossip *, struct peer *, const struct message *) = {
      [MESSAGE_HELLO] = on_hello,
      [MESSAGE_STATE] = on_state,
      [MESSAGE_ASK] = on_ask,
      [MESSAGE_MANIFEST] = on_manifest,
      [MESSAGE_NOT_YET] = on_not_yet,
      [MESSAGE_REFUSED] = on_refused,
      [MESSAGE_GET] = on_get,
      [MESSAGE_CHUNK] = on_chunk,
      [MESSAGE_SCHEMA] = on_schema,
      [MESSAGE_DONE] = on_done,
      [MESSAGE_BYE] = on_bye,
      [MESSAGE_BEAT] = on_beat,
      [MESSAGE_ASK_JOB] = on_ask_job,
      [MESSAGE_JOB_FILE] = on_job_file,
      [MESSAGE_POOL] = on_pool,
      [MESSAGE_NEWS] = membership_on_news,
      [MESSAGE_SYNC] = membership_on_sync,
      [MESSAGE_LIST] = membership_on_list,
      [MESSAGE_SEEK] = membership_on_seek,
      [MESSAGE_FOUND] = membership_on_found,
      [MESSAGE_RELAY] = relay_on_relay,
      [MESSAGE_NOT_RELAYED] = relay_on_not_relayed,
      [MESSAGE_SKETCH] = on_sketch,
  };
  struct message m;
  bool is_known = p->slots[SLOT_LIVE]->version >= message_version(type);
  enum err e = is_known ? message_read(type, plain, n, &m) : ERR_FRAME;
  if (e == ERR_OK && message_version(type) == MEMBERS_VERSION && !membership_is_on(g))
    return; /* a bystander, who only comes for job files */
  bool is_early = e == ERR_OK && !p->info.has_session && m.type != MESSAGE_HELLO && m.type != MESSAGE_BYE;
  if (is_early) /* HELLO comes first, unless it was lost with a connection or at who relays */
    peer_count(conn_blamed(g, p, p->slots[SLOT_LIVE]->conn), ERR_NO_SESSION);
  if (e != ERR_OK)
    peer_count(p, e);
  else if (!is_early)
    handlers[m.type](g, p, &m);
}
