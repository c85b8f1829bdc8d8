#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/clock.h"
#include "agent/run/log.h"
#include "agent/run/parts.h"
#include "agent/site_job.h"
#include "agent/text.h"
#include "base/must.h"
#include "crypto/names.h"

enum { MAX_NEW_A_MINUTE = 4, MINUTE_MS = 60 * 1000, OFFER_AGAIN_MS = 100 };

/* ---- what is known -------------------------------------------------------------------------------------------------- */

struct known_file *book_find(struct agent *a, const struct digest *job) {
  for (size_t i = 0; i < a->book.n; i++)
    if (digest_equal(&a->book.files[i].file.job, job))
      return &a->book.files[i];
  return NULL;
}

/* The one of a name and version. Verbs say no more than that, so there is one, whatever its run_label: the first stands. */
static struct known_file *find_named(struct agent *a, const char *name, uint32_t version) {
  for (size_t i = 0; i < a->book.n; i++)
    if (strcmp(a->book.files[i].file.name, name) == 0 && a->book.files[i].file.version == version)
      return &a->book.files[i];
  return NULL;
}

/* A copy of the signed object: the entry's text is in it. ERR_LIMIT, ERR_NO_MEMORY. */
static enum err add(struct agent *a, const struct job_file *f, enum job_file_state state,
                    const struct site_job_config *configured, struct known_file **out) {
  if (a->book.n == STORE_MAX_JOB_FILES)
    return ERR_LIMIT;
  uint8_t *bytes = malloc(JOB_FILE_MAX_BYTES);
  if (!bytes)
    return ERR_NO_MEMORY;
  struct writer w;
  writer_init(&w, bytes, JOB_FILE_MAX_BYTES);
  job_file_write(f, &w);
  MUST(writer_end(&w) == ERR_OK);
  uint8_t *fitted = realloc(bytes, w.n_bytes);
  if (fitted)
    bytes = fitted;
  struct known_file *k = &a->book.files[a->book.n++];
  *k = (struct known_file){.bytes = bytes, .n_bytes = w.n_bytes, .state = state, .configured = configured};
  MUST(job_file_read(bytes, w.n_bytes, &k->file) == ERR_OK);
  if (out)
    *out = k;
  return ERR_OK;
}

/* A job file of this swarm with a text, not yet signed. */
static struct job_file file_of(const struct agent *a, const struct job_config *job, const char *text, size_t n_text) {
  struct job_file f = {.swarm = a->swarm, .version = job->version, .text = text, .n_text = n_text};
  memcpy(f.name, job->name, sizeof f.name);
  memcpy(f.run_label, job->run_label, sizeof f.run_label);
  return f;
}

/* The text is a job file of the name, version and label that stand beside it. */
static enum err judge_text(const struct agent *a, const struct job_file *f, char why[MAX_CONFIG_WHY_BYTES]) {
  struct site_job_config *read;
  char label[JOB_WORDS_BYTES];
  job_words_write(f->name, f->version, label);
  enum err e = config_read_job(a->config, NULL, label, f->text, f->n_text, &read, why);
  if (e != ERR_OK)
    return e;
  bool fits = strcmp(read->job.name, f->name) == 0 && read->job.version == f->version &&
              strcmp(read->job.run_label, f->run_label) == 0;
  config_job_free(read);
  if (fits)
    return ERR_OK;
  snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: the text is of another job, version or label", label);
  return ERR_MESSAGE;
}

/* ---- at start ------------------------------------------------------------------------------------------------------- */

/* The site's own: signed by this agent, for whoever has no copy yet. */
static enum err add_configured(struct agent *a) {
  enum err e = ERR_OK;
  for (size_t i = 0; i < a->config->n_jobs && e == ERR_OK; i++) {
    const struct site_job_config *s = &a->config->jobs[i];
    struct job_file f = file_of(a, &s->job, s->job.text, s->job.n_text);
    if (f.n_text == 0 || f.n_text > MAX_JOB_TEXT_BYTES) {
      log_event(
          LOG_WARNING, "job-file-long", NULL,
          LOG_FIELDS(log_text("job", f.name), log_text("text", "peers cannot pull it: it is longer than 48 KiB")));
      f.text = "#"; /* its id and state are kept all the same */
      f.n_text = 1;
    }
    job_file_sign(&f, a->identity);
    struct known_file *k;
    e = add(a, &f, JOB_FILE_ACCEPTED, s, &k);
    if (e == ERR_OK && s->job.n_text > MAX_JOB_TEXT_BYTES)
      k->n_bytes = 0;
  }
  return e;
}

/* What a former run stored is judged again: the rules may have changed. The signature was checked when it came in. */
static enum err add_stored(struct agent *a, const struct store_job_file *row, char why[MAX_CONFIG_WHY_BYTES]) {
  struct known_file *known = find_named(a, row->name, row->version);
  if (known && digest_equal(&known->file.job, &row->digest))
    known->state = row->state == JOB_FILE_STOPPED ? JOB_FILE_STOPPED : JOB_FILE_ACCEPTED;
  if (known)
    return ERR_OK;
  struct site_job_config *read;
  char words[JOB_WORDS_BYTES];
  job_words_write(row->name, row->version, words);
  enum err e = config_read_job(a->config, NULL, words, row->text, strlen(row->text), &read, why);
  if (e != ERR_OK) {
    log_event(LOG_ERROR, "job-file-unread", NULL, LOG_FIELDS(log_text("text", why)));
    why[0] = '\0';
    return ERR_OK;
  }
  struct job_file f = file_of(a, &read->job, row->text, strlen(row->text));
  config_job_free(read);
  f.job = job_id(&a->swarm, f.name, f.version, f.run_label);
  memcpy(f.proposer.bytes, row->proposer, sizeof f.proposer.bytes);
  memcpy(f.signature.bytes, row->signature, sizeof f.signature.bytes);
  return digest_equal(&f.job, &row->digest) ? add(a, &f, row->state, NULL, NULL) : ERR_OK;
}

static enum err read_stored(struct agent *a, char why[MAX_CONFIG_WHY_BYTES]) {
  struct store_job_file *rows = calloc(STORE_MAX_JOB_FILES, sizeof *rows);
  size_t n = 0;
  enum err e = rows ? store_job_file_list(a->store, rows, STORE_MAX_JOB_FILES, &n) : ERR_NO_MEMORY;
  for (size_t i = 0; i < n && e == ERR_OK; i++) {
    e = add_stored(a, &rows[i], why);
    if (e == ERR_LIMIT)
      e = ERR_OK;
  }
  if (rows)
    store_job_files_free(rows, n);
  free(rows);
  return e;
}

enum err book_open(struct agent *a, char why[MAX_CONFIG_WHY_BYTES]) {
  a->book.peers = calloc(a->config->n_peers + 1, sizeof *a->book.peers);
  if (!a->book.peers)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < a->config->n_peers; i++)
    a->book.peers[i] = (struct book_peer){.next = SIZE_MAX, .ask_at_ms = UINT64_MAX};
  enum err e = add_configured(a);
  return e == ERR_OK ? read_stored(a, why) : e;
}

void book_close(struct agent *a) {
  for (size_t i = 0; i < a->book.n; i++)
    free(a->book.files[i].bytes);
  free(a->book.peers);
}

/* ---- writing, and what follows ---------------------------------------------------------------------------------------- */

struct file_call {
  struct agent_call call;
  uint64_t client; /* 0: nobody waits */
  struct store_job_file row;
  bool is_configured, is_new;
  struct site_job_config *start; /* of the job that is to start; NULL */
  char event[MAX_NAME_BYTES], peer[MAX_NAME_BYTES], text[MAX_REASON_BYTES];
  bool changed;
};

static enum err run_file(struct store *store, struct scribe_call *call) {
  struct file_call *c = (struct file_call *)call;
  bool is_put = false, is_set = false;
  enum err e = store_job_file_put(store, &c->row, &is_put);
  if (e == ERR_EXISTS && c->is_configured)
    e = ERR_OK; /* the file of the site has changed since: only the state counts */
  if (e == ERR_OK)
    e = store_job_file_set_state(store, &c->row.digest, c->row.state, &is_set);
  c->changed = is_put || is_set;
  return e == ERR_OK && c->changed ? store_event(store, c->row.at_unix_s, c->event, c->peer, c->text) : e;
}

static void drop_file(struct scribe_call *call) {
  struct file_call *c = (struct file_call *)call;
  free(c->row.text);
  config_job_free(c->start);
  free(c);
}

static void stop_job(struct agent *a, const struct digest *id) {
  for (size_t i = 0; i < a->n_jobs; i++)
    if (digest_equal(&a->jobs[i]->id, id))
      job_stop(a->jobs[i]);
}

static void file_written(struct agent *a, struct agent_call *call, enum err e) {
  struct file_call *c = (struct file_call *)call;
  struct known_file *k = book_find(a, &c->row.digest);
  char why[MAX_CONFIG_WHY_BYTES] = "";
  if (e == ERR_OK && k) {
    k->state = c->row.state;
    log_event(LOG_INFO, c->event, c->peer[0] ? c->peer : NULL, LOG_FIELDS(log_text("text", c->text)));
    if (k->state == JOB_FILE_STOPPED) {
      stop_job(a, &k->file.job);
      k->fault[0] = '\0';
    }
    if (c->start) {
      struct site_job_config *start = c->start;
      c->start = NULL; /* now the job's */
      k->fault[0] = '\0';
      e = agent_start_job(a, start, why);
    }
  }
  if (c->client == 0 && e != ERR_OK)
    log_event(LOG_ERROR, c->event, NULL, LOG_FIELDS(log_text("text", why[0] ? why : err_sentence(e))));
  if (c->client == 0)
    return;
  if (e == ERR_OK)
    control_answer(a->control, c->client, json_pack("{s:b, s:s}", "changed", 1, "text", c->text));
  else
    control_fail(a->control, c->client, e, why[0] ? why : err_sentence(e), NULL);
}

/* Writes an entry's new state; `start` is moved. */
static enum err write_file(struct agent *a, uint64_t client, const struct known_file *k, enum job_file_state state,
                           struct site_job_config *start, const char *peer) {
  static const char *const events[] = {
      [JOB_FILE_PROPOSED] = "job-proposed", [JOB_FILE_ACCEPTED] = "job-accepted", [JOB_FILE_STOPPED] = "job-stopped"};
  struct file_call *c = calloc(1, sizeof *c);
  char *text = c ? text_copy(k->file.text, k->file.n_text) : NULL;
  if (!text) {
    free(c);
    config_job_free(start);
    return ERR_NO_MEMORY;
  }
  *c = (struct file_call){
      .call = {.scribe = {run_file, drop_file}, .done = file_written},
      .client = client,
      .is_configured = k->configured != NULL,
      .start = start,
      .row = {
          .digest = k->file.job, .version = k->file.version, .state = state, .text = text, .at_unix_s = time(NULL)}};
  memcpy(c->row.name, k->file.name, sizeof c->row.name);
  memcpy(c->row.proposer, k->file.proposer.bytes, sizeof c->row.proposer);
  memcpy(c->row.signature, k->file.signature.bytes, sizeof c->row.signature);
  snprintf(c->event, sizeof c->event, "%s", events[state]);
  snprintf(c->peer, sizeof c->peer, "%s", peer ? peer : "");
  snprintf(c->text, sizeof c->text, "%s@%" PRIu32 ", signed by %s", k->file.name, k->file.version,
           agent_name_of_key(a, &k->file.proposer));
  agent_call(a, &c->call);
  return ERR_OK;
}

/* ---- accepting and stopping ------------------------------------------------------------------------------------------- */

/* What the job would run with here. */
static enum err read_for_site(const struct agent *a, const struct known_file *k, struct site_job_config **out,
                              char why[MAX_CONFIG_WHY_BYTES]) {
  const struct site_job_config *settings = k->configured ? k->configured : site_job_newest(a->config, k->file.name);
  char label[JOB_WORDS_BYTES];
  job_words_write(k->file.name, k->file.version, label);
  if (!settings) {
    snprintf(why, MAX_CONFIG_WHY_BYTES,
             "%s has no job %s to take data and settings from; write an entry for it under jobs and restart",
             a->config->path, k->file.name);
    return ERR_NOT_FOUND;
  }
  return config_read_job(a->config, settings, label, k->file.text, k->file.n_text, out, why);
}

void book_change(struct agent *a, uint64_t client, struct known_file *k, enum job_file_state state, bool only_checks) {
  char why[MAX_CONFIG_WHY_BYTES] = "";
  struct site_job_config *start = NULL;
  enum err e = ERR_OK;
  if (k->state == state || only_checks) {
    if (k->state != state && state == JOB_FILE_ACCEPTED)
      e = read_for_site(a, k, &start, why);
    config_job_free(start);
    if (client != 0 && e == ERR_OK)
      control_answer(a->control, client, json_pack("{s:b, s:s}", "changed", k->state != state, "text", ""));
    else if (client != 0)
      control_fail(a->control, client, e, why[0] ? why : err_sentence(e), NULL);
    return;
  }
  if (state == JOB_FILE_ACCEPTED)
    e = read_for_site(a, k, &start, why);
  if (e == ERR_OK)
    e = write_file(a, client, k, state, start, NULL);
  if (e != ERR_OK && client != 0)
    control_fail(a->control, client, e, why[0] ? why : err_sentence(e), NULL);
  else if (e != ERR_OK)
    log_event(LOG_ERROR, "job-cannot-start", NULL, LOG_FIELDS(log_text("text", why[0] ? why : err_sentence(e))));
}

void book_propose(struct agent *a, uint64_t client, const char *text, bool only_checks) {
  struct site_job_config *read = NULL;
  struct known_file *known = NULL;
  char why[MAX_CONFIG_WHY_BYTES] = "";
  size_t n_text = strlen(text);
  enum err e = n_text == 0 || n_text > MAX_JOB_TEXT_BYTES
                   ? ERR_LIMIT
                   : config_read_job(a->config, NULL, "the proposed job", text, n_text, &read, why);
  bool is_new = false;
  if (e == ERR_OK) {
    struct job_file f = file_of(a, &read->job, text, n_text);
    job_file_sign(&f, a->identity);
    known = find_named(a, f.name, f.version);
    is_new = !known;
    if (known && (known->file.n_text != n_text || memcmp(known->file.text, text, n_text) != 0)) {
      e = ERR_EXISTS;
      snprintf(why, sizeof why, "%s@%" PRIu32 " is known with other contents; write a higher version", f.name,
               f.version);
    }
    if (is_new && !only_checks)
      e = add(a, &f, JOB_FILE_PROPOSED, NULL, &known);
    if (e == ERR_LIMIT)
      snprintf(why, sizeof why, "%d job files are known here, and more are not kept", STORE_MAX_JOB_FILES);
  }
  config_job_free(read);
  if (e == ERR_OK && is_new && !only_checks)
    e = write_file(a, client, known, JOB_FILE_PROPOSED, NULL, NULL);
  else if (e == ERR_OK)
    control_answer(a->control, client, json_pack("{s:b, s:s}", "changed", is_new, "text", ""));
  if (e != ERR_OK)
    control_fail(a->control, client, e, why[0] ? why : err_sentence(e), NULL);
}

/* ---- peers ------------------------------------------------------------------------------------------------------------ */

void book_on_session(struct agent *a, size_t peer, bool is_up) {
  static const struct digest all = {{0}};
  struct book_peer *p = &a->book.peers[peer];
  p->next = SIZE_MAX;
  p->ask_at_ms = UINT64_MAX;
  if (is_up)
    gossip_ask_job(a->gossip, peer, &all);
}

void book_on_ask(struct agent *a, size_t peer, const struct digest *job) {
  if (digest_is_zero(job)) {
    a->book.peers[peer].next = 0;
    return;
  }
  const struct known_file *k = book_find(a, job);
  if (k && k->n_bytes > 0)
    (void)!gossip_send_job_file(a->gossip, peer, k->bytes, k->n_bytes); /* it may ask again */
}

/* Whether the peer may bring one more now; what it may not it is asked for later. */
static bool may_bring(struct agent *a, size_t peer) {
  struct book_peer *p = &a->book.peers[peer];
  uint64_t now_ms = clock_ms();
  if (now_ms - p->minute_ms >= MINUTE_MS) {
    p->minute_ms = now_ms;
    p->n_new = 0;
  }
  if (p->n_new == MAX_NEW_A_MINUTE) {
    p->ask_at_ms = p->minute_ms + MINUTE_MS;
    return false;
  }
  p->n_new++;
  return true;
}

static bool is_trusted(const struct agent *a, const struct identity_key *proposer) {
  for (size_t i = 0; i < a->config->n_accept_keys; i++)
    if (identity_key_equal(proposer, &a->config->accept_keys[i]))
      return true;
  return false;
}

/* The same job with another text: the first one stands, whoever signed the second. */
static void judge_again(struct agent *a, size_t peer, const struct known_file *k, const struct job_file *f) {
  if (k->n_bytes == 0 || (k->file.n_text == f->n_text && memcmp(k->file.text, f->text, f->n_text) == 0))
    return;
  char text[MAX_REASON_BYTES];
  snprintf(text, sizeof text, "its %s@%" PRIu32 " has other contents than the one here, which stands", f->name,
           f->version);
  agent_write_event(a, "job-file-differs", a->peers[peer].name, text);
}

void book_on_file(struct agent *a, size_t peer, const struct job_file *f, const uint8_t *bytes, size_t n) {
  (void)bytes, (void)n;
  char why[MAX_CONFIG_WHY_BYTES] = "";
  struct known_file *k = find_named(a, f->name, f->version);
  if (k) {
    judge_again(a, peer, k, f);
    return;
  }
  enum err e = may_bring(a, peer) ? ERR_OK : ERR_BACKLOG;
  if (e == ERR_OK)
    e = judge_text(a, f, why);
  if (e == ERR_OK)
    e = add(a, f, JOB_FILE_PROPOSED, NULL, &k);
  if (e != ERR_OK) {
    gossip_count(a->gossip, peer, err_drop_index(e) >= 0 ? e : e == ERR_LIMIT ? ERR_BUDGET : ERR_MESSAGE);
    if (e != ERR_BACKLOG)
      log_event(LOG_WARNING, "job-file-refused", a->peers[peer].name,
                LOG_FIELDS(log_text("text", why[0] ? why : err_sentence(e))));
    return;
  }
  if (write_file(a, 0, k, JOB_FILE_PROPOSED, NULL, a->peers[peer].name) == ERR_OK && is_trusted(a, &f->proposer))
    book_change(a, 0, k, JOB_FILE_ACCEPTED, false);
}

/* Every one that is proposed or accepted, as fast as the link takes them; not back to who signed it. */
static void offer(struct agent *a, size_t peer) {
  struct book_peer *p = &a->book.peers[peer];
  for (; p->next < a->book.n; p->next++) {
    const struct known_file *k = &a->book.files[p->next];
    if (k->state == JOB_FILE_STOPPED || k->n_bytes == 0 || identity_key_equal(&k->file.proposer, &a->peers[peer].key))
      continue;
    if (gossip_send_job_file(a->gossip, peer, k->bytes, k->n_bytes) != ERR_OK)
      return;
  }
}

uint64_t book_turn(struct agent *a, uint64_t now_ms) {
  static const struct digest all = {{0}};
  uint64_t due_ms = UINT64_MAX;
  for (size_t i = 0; i < a->config->n_peers; i++) {
    struct book_peer *p = &a->book.peers[i];
    if (p->ask_at_ms <= now_ms) {
      p->ask_at_ms = UINT64_MAX;
      gossip_ask_job(a->gossip, i, &all);
    }
    if (p->next < a->book.n)
      offer(a, i);
    uint64_t next_ms = p->next < a->book.n ? now_ms + OFFER_AGAIN_MS : p->ask_at_ms;
    due_ms = next_ms < due_ms ? next_ms : due_ms;
  }
  return due_ms;
}
