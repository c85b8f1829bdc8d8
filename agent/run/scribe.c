#include "agent/run/scribe.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/file.h"
#include "agent/run/mailbox.h"
#include "base/must.h"

struct scribe {
  struct store *store; /* the scribe thread's while that runs */
  bool keeps_few;      /* the scribe thread's */
  struct mailbox *jobs, *results;
  pthread_t thread;
  size_t n_unanswered;   /* loop thread */
  struct scribe_job end; /* its address ends the thread */
};

/* ---- scribe thread ---- */

static void close_file(int *fd) {
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

static void close_files(struct scribe_result *result) {
  close_file(&result->payload_fd);
  close_file(&result->copy_fd);
}

static enum err open_file(struct scribe *s, const struct digest *name, int *out_fd) {
  uint64_t n_bytes;
  return store_file_open(s->store, name, out_fd, &n_bytes);
}

/* The store names its files; the newest outbox entry is the publication that has just become durable. */
static enum err open_published(struct scribe *s, const struct digest *job, struct scribe_result *result) {
  struct store_outbox_entry entry;
  size_t n;
  enum err e = store_outbox(s->store, job, &entry, 1, &n);
  if (e != ERR_OK)
    return e;
  MUST(n == 1);
  if (entry.has_payload && (e = open_file(s, &entry.payload, &result->payload_fd)) != ERR_OK)
    return e;
  return entry.has_copy ? open_file(s, &entry.half, &result->copy_fd) : ERR_OK;
}

static enum err publish(struct scribe *s, struct scribe_job *job, struct scribe_result *result) {
  enum err e = job->before ? store_turn(s->store, &job->before->commitment, &job->publication)
                           : store_publish(s->store, &job->publication);
  result->has_committed = job->before != NULL;
  return e == ERR_OK ? open_published(s, &job->publication.job, result) : e;
}

static enum err commit(struct scribe *s, struct scribe_job *job, struct scribe_result *result) {
  (void)result;
  return store_commit(s->store, &job->commitment);
}

static enum err note_event(struct scribe *s, struct scribe_job *job, struct scribe_result *result) {
  (void)result;
  return store_event(s->store, job->at_unix_s, job->event_name, job->event_peer, job->event_text);
}

static enum err measure(struct scribe *s, struct scribe_job *job, struct scribe_result *result) {
  (void)result;
  enum err e = job->keeps_few == s->keeps_few ? ERR_OK : store_keep_few(s->store, job->keeps_few);
  if (e == ERR_OK)
    s->keeps_few = job->keeps_few;
  return e;
}

static enum err raise_epoch(struct scribe *s, struct scribe_job *job, struct scribe_result *result) {
  return store_raise_epoch(s->store, job->above, &result->boot_epoch);
}

static enum err query_rounds(struct scribe *s, const struct digest *of_job, uint64_t from_round, size_t capacity,
                             struct scribe_result *result) {
  result->rounds = calloc(capacity, sizeof *result->rounds);
  if (result->rounds == NULL)
    return ERR_NO_MEMORY;
  return store_rounds(s->store, of_job, from_round, result->rounds, capacity, &result->n_rounds);
}

static enum err query_one(struct scribe *s, const struct digest *of_job, struct round_label label,
                          struct scribe_result *result) {
  result->rounds = calloc(1, sizeof *result->rounds);
  result->contributions = calloc(MAX_PEERS, sizeof *result->contributions);
  if (result->rounds == NULL || result->contributions == NULL)
    return ERR_NO_MEMORY;
  enum err e = store_round_find(s->store, of_job, label, result->rounds, result->contributions, MAX_PEERS,
                                &result->n_contributions);
  result->n_rounds = e == ERR_OK;
  return e;
}

static enum err load_file(struct scribe *s, const struct digest *name, size_t max_bytes, struct buffer *out) {
  if (digest_is_zero(name))
    return ERR_GONE;
  return store_file_load(s->store, name, max_bytes, &out->bytes, &out->n_bytes);
}

/* Whoever wrote the file for us has no more use for it. */
static enum err take_file(const struct scribe_job *job, struct buffer *out) {
  char *bytes = NULL;
  enum err e = file_read(job->path, job->max_bytes, &bytes, &out->n_bytes);
  if (e == ERR_OK)
    out->bytes = (uint8_t *)bytes; /* now the caller's */
  unlink(job->path);
  return e;
}

static enum err load_model(struct scribe *s, struct scribe_job *job, struct scribe_result *result) {
  struct digest model, half;
  if (job->path != NULL)
    return take_file(job, &result->model);
  enum err e = store_model_files(s->store, &job->of_job, job->label, &model, &half);
  if (e == ERR_OK)
    e = load_file(s, &model, job->max_bytes, &result->model);
  return e == ERR_OK ? load_file(s, &half, job->max_bytes, &result->half) : e;
}

static enum err roll_back(struct scribe *s, struct scribe_job *job, struct scribe_result *result) {
  bool changed;
  return store_roll_back(s->store, &job->of_job, job->label, job->note, job->at_unix_s, &result->roll_back, &changed);
}

static enum err change(struct scribe *s, struct scribe_job *job, struct scribe_result *result) {
  result->client = job->client;
  result->label = job->label;
  switch (job->change) {
  case CHANGE_PIN:
    return store_pin(s->store, &job->of_job, job->label, job->note, job->at_unix_s, &result->changed);
  case CHANGE_UNPIN:
    return store_unpin(s->store, &job->of_job, job->label, &result->changed);
  case CHANGE_SERVE:
    return store_serve(s->store, &job->of_job, job->serve, job->label, job->at_unix_s, &result->changed);
  }
  return ERR_UNSUPPORTED;
}

static enum err query(struct scribe *s, struct scribe_job *job, struct scribe_result *result) {
  result->client = job->client;
  result->label = job->label;
  if (job->one_round)
    return query_one(s, &job->of_job, job->label, result);
  if (job->n_rounds == 0 || job->n_rounds > SCRIBE_MAX_ROUNDS)
    return ERR_RANGE;
  return query_rounds(s, &job->of_job, job->from_round, job->n_rounds, result);
}

static enum err query_events(struct scribe *s, struct scribe_job *job, struct scribe_result *result) {
  uint64_t last = 0;
  result->client = job->client;
  result->wait_until_ms = job->wait_until_ms;
  result->events = calloc(SCRIBE_MAX_EVENTS, sizeof *result->events);
  if (result->events == NULL)
    return ERR_NO_MEMORY;
  enum err e = job->is_after ? ERR_OK : store_event_last(s->store, &last);
  if (e != ERR_OK)
    return e;
  uint64_t after = job->is_after ? job->after_id : last > job->n_rows ? last - job->n_rows : 0;
  e = store_events(s->store, after, result->events, SCRIBE_MAX_EVENTS, &result->n_events);
  result->after_id = result->n_events > 0 ? result->events[result->n_events - 1].id : after;
  return e;
}

static uint64_t published_bytes(const struct scribe_job *job) {
  return job->kind == SCRIBE_PUBLISH ? job->publication.n_payload + job->publication.n_half : 0;
}

/* Its commitment, alone or with a publication; NULL: none. */
static const struct store_commitment *commitment_of(const struct scribe_job *job) {
  return job->kind == SCRIBE_COMMIT ? &job->commitment : job->before ? &job->before->commitment : NULL;
}

static uint64_t committed_bytes(const struct scribe_job *job) {
  const struct store_commitment *c = commitment_of(job);
  return c ? c->n_model + c->n_own_half + c->n_shadow : 0;
}

static double shadow_seconds(const struct scribe_job *job, double seconds) {
  const struct store_commitment *c = commitment_of(job);
  return c ? seconds * (double)c->n_shadow / (double)(committed_bytes(job) + published_bytes(job)) : 0;
}

static enum err call(struct scribe *s, struct scribe_job *job, struct scribe_result *result) {
  result->call = job->call;
  job->call = NULL; /* now the result's */
  return result->call->run(s->store, result->call);
}

static struct scribe_result *answer(struct scribe *s, struct scribe_job *job) {
  static enum err (*const run[])(struct scribe *, struct scribe_job *, struct scribe_result *) = {
      [SCRIBE_PUBLISH] = publish,         [SCRIBE_COMMIT] = commit,       [SCRIBE_EVENT] = note_event,
      [SCRIBE_RAISE_EPOCH] = raise_epoch, [SCRIBE_QUERY] = query,         [SCRIBE_EVENTS] = query_events,
      [SCRIBE_LOAD_MODEL] = load_model,   [SCRIBE_ROLL_BACK] = roll_back, [SCRIBE_CHANGE] = change,
      [SCRIBE_MEASURE] = measure,         [SCRIBE_CALL] = call,
  };
  struct scribe_result *result = calloc(1, sizeof *result);
  MUST(result != NULL); /* nothing is lost by a restart, and there is no other way to answer */
  *result = (struct scribe_result){.kind = job->kind, .owner = job->owner, .payload_fd = -1, .copy_fd = -1};
  double start = clock_s();
  result->error = run[job->kind](s, job, result);
  result->shadow_seconds = shadow_seconds(job, clock_s() - start);
  if (job->kind == SCRIBE_PUBLISH || job->kind == SCRIBE_COMMIT || job->kind == SCRIBE_MEASURE)
    result->has_room = store_measure(s->store, &result->room) == ERR_OK;
  result->n_published = published_bytes(job);
  result->n_committed = committed_bytes(job);
  if (result->error != ERR_OK)
    close_files(result);
  if (err_is_temporary(result->error))
    result->job = job; /* now the result's */
  else
    scribe_job_free(job);
  return result;
}

static void *scribe_main(void *context) {
  struct scribe *s = context;
  struct scribe_job *job;
  while ((job = mailbox_take(s->jobs)) != &s->end)
    mailbox_put(s->results, answer(s, job));
  return NULL;
}

/* ---- loop thread ---- */

static void scribe_free(struct scribe *s) {
  mailbox_free(s->jobs);
  mailbox_free(s->results);
  free(s);
}

enum err scribe_start(struct store **store, struct scribe **out_scribe) {
  struct scribe *s = calloc(1, sizeof *s);
  if (s == NULL)
    return ERR_NO_MEMORY;
  s->store = *store;
  enum err e;
  if ((e = mailbox_new(SCRIBE_RING + 1, &s->jobs)) != ERR_OK || (e = mailbox_new(SCRIBE_RING, &s->results)) != ERR_OK)
    goto out;
  int status = pthread_create(&s->thread, NULL, scribe_main, s);
  if (status != 0) {
    e = err_from_errno(status);
    goto out;
  }
  *store = NULL; /* now the scribe's */
  *out_scribe = s;
  s = NULL;
out:
  if (s != NULL)
    scribe_free(s);
  return e;
}

void scribe_put(struct scribe *s, struct scribe_job *job) {
  bool may_wait = !scribe_kind_is_of_round(job->kind) && job->kind != SCRIBE_CALL;
  if (may_wait && s->n_unanswered >= SCRIBE_RING - SCRIBE_RESERVED) {
    scribe_job_free(job);
    return;
  }
  s->n_unanswered++;
  MUST(s->n_unanswered <= SCRIBE_RING);
  mailbox_put(s->jobs, job);
}

struct scribe_result *scribe_poll(struct scribe *s) {
  struct scribe_result *result = mailbox_poll(s->results);
  if (result != NULL)
    s->n_unanswered--;
  return result;
}

int scribe_fd(const struct scribe *s) {
  return mailbox_fd(s->results);
}

void scribe_stop(struct scribe *s) {
  if (s == NULL)
    return;
  mailbox_put(s->jobs, &s->end);
  pthread_join(s->thread, NULL);
  for (struct scribe_result *result; (result = scribe_poll(s)) != NULL;) {
    close_files(result);
    scribe_result_free(result);
  }
  store_close(s->store);
  scribe_free(s);
}
