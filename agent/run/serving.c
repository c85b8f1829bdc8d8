#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/run/log.h"
#include "agent/run/parts.h"
#include "base/must.h"

/* ---- which -------------------------------------------------------------------------------------------------------- */

static struct serving *find(const struct agent *a, const char *name) {
  for (size_t i = 0; i < a->n_serving; i++)
    if (strcmp(a->serving[i].name, name) == 0)
      return (struct serving *)&a->serving[i];
  return NULL;
}

/* The word that was said about the name; NULL when there is no room, which cannot be: names are jobs'. */
static struct serving *add(struct agent *a, const char *name) {
  struct serving *s = find(a, name);
  if (s || a->n_serving == MAX_JOBS_IN_HELLO)
    return s;
  s = &a->serving[a->n_serving++];
  *s = (struct serving){.version = 0};
  snprintf(s->name, sizeof s->name, "%s", name);
  return s;
}

/* The version that serves among the running ones: what was said, else the oldest. NULL: none runs. */
static struct agent_job *serving_job(const struct agent *a, const char *name) {
  const struct serving *s = find(a, name);
  struct agent_job *oldest = NULL;
  for (size_t i = 0; i < a->n_jobs; i++) {
    struct agent_job *j = a->jobs[i];
    if (j->is_stopped || strcmp(j->config->job.name, name) != 0)
      continue;
    if (s && s->version == j->config->job.version)
      return j;
    if (!oldest || j->config->job.version < oldest->config->job.version)
      oldest = j;
  }
  return oldest;
}

bool serving_is(const struct agent_job *j) {
  return serving_job(j->agent, j->config->job.name) == j;
}

const char *serving_note(const struct agent *a, const char *name) {
  const struct serving *s = find(a, name);
  return s ? s->note : "";
}

enum err serving_open(struct agent *a) {
  enum err e = ERR_OK;
  for (size_t i = 0; i < a->config->n_jobs && e == ERR_OK; i++) {
    struct serving *s = add(a, a->config->jobs[i].job.name);
    MUST(s != NULL);
    e = store_serving_job(a->store, s->name, &s->version);
  }
  return e;
}

/* ---- another one -------------------------------------------------------------------------------------------------- */

struct serve_call {
  struct agent_call call;
  uint64_t client;
  char name[MAX_NAME_BYTES], text[MAX_REASON_BYTES];
  uint32_t version;
  bool changed;
};

static enum err run_serve(struct store *store, struct scribe_call *call) {
  struct serve_call *c = (struct serve_call *)call;
  int64_t now = time(NULL);
  enum err e = store_serve_job(store, c->name, c->version, now, &c->changed);
  return e == ERR_OK && c->changed ? store_event(store, now, "serving", "", c->text) : e;
}

static void drop_serve(struct scribe_call *call) {
  free(call);
}

static void serve_written(struct agent *a, struct agent_call *call, enum err e) {
  struct serve_call *c = (struct serve_call *)call;
  if (e == ERR_OK && c->changed)
    log_event(LOG_INFO, "serving", NULL, LOG_FIELDS(log_text("text", c->text)));
  if (c->client == 0)
    return;
  if (e == ERR_OK)
    control_answer(a->control, c->client, json_pack("{s:b, s:s}", "changed", c->changed, "text", c->text));
  else
    control_fail(a->control, c->client, e, err_sentence(e), NULL);
}

void serving_set(struct agent *a, uint64_t client, const struct agent_job *j, const char *text, bool only_checks) {
  const struct job_config *job = &j->config->job;
  struct serving *s = add(a, job->name);
  struct serve_call *c = calloc(1, sizeof *c);
  if (only_checks || !c || !s) {
    if (client != 0 && c)
      control_answer(a->control, client,
                     json_pack("{s:b, s:s}", "changed", !s || s->version != job->version, "text", text));
    else if (client != 0)
      control_fail(a->control, client, ERR_NO_MEMORY, err_sentence(ERR_NO_MEMORY), NULL);
    free(c);
    return;
  }
  *c = (struct serve_call){
      .call = {.scribe = {run_serve, drop_serve}, .done = serve_written}, .client = client, .version = job->version};
  snprintf(c->name, sizeof c->name, "%s", job->name);
  snprintf(c->text, sizeof c->text, "%s", text);
  s->version = job->version;
  s->note[0] = '\0';
  agent_call(a, &c->call);
}

/* ---- by itself ------------------------------------------------------------------------------------------------------ */

size_t serving_ready(const struct agent_job *j) {
  size_t n = 0;
  for (size_t i = 0; i < j->agent->config->n_peers; i++) {
    struct round_peer_view view;
    if (!gossip_names_job(j->agent->gossip, i, &j->id))
      continue;
    round_peer_view(j->round, i, &view);
    n += view.has_state && view.state.round >= 1;
  }
  return n;
}

bool serving_mean(const struct agent_job *j, double *out_mean) {
  double sum = 0;
  for (size_t i = 0; i < j->n_headlines; i++)
    sum += j->headlines[i];
  *out_mean = sum / SERVING_ROUNDS;
  return j->n_headlines == SERVING_ROUNDS && !__builtin_isnan(sum);
}

void serving_on_commit(struct agent_job *j) {
  struct round_view v;
  round_view(j->round, &v);
  if (!v.metrics.has_validation)
    return;
  memmove(j->headlines + 1, j->headlines, (SERVING_ROUNDS - 1) * sizeof *j->headlines);
  j->headlines[0] = v.metrics.validation_headline;
  if (j->n_headlines < SERVING_ROUNDS)
    j->n_headlines++;
}

/* A newer version against the one that serves: it takes over, or the note says why not. */
static void judge(struct agent_job *j, const struct agent_job *now) {
  const struct job_config *job = &j->config->job;
  struct agent *a = j->agent;
  struct serving *s = add(a, job->name);
  double mean, mean_now;
  size_t n_ready = serving_ready(j);
  bool is_measured = serving_mean(j, &mean), is_now_measured = serving_mean(now, &mean_now);
  MUST(s != NULL);
  if (n_ready < job->activate_ready) {
    snprintf(s->note, sizeof s->note, "%s@%" PRIu32 ": %zu of %" PRIu32 " peers are ready", job->name, job->version,
             n_ready, job->activate_ready);
  } else if (!digest_equal(&j->data_digest, &now->data_digest)) {
    snprintf(s->note, sizeof s->note,
             "%s@%" PRIu32 " cannot be compared, its contract differs: `starling job serve %s@%" PRIu32
             "` is for people",
             job->name, job->version, job->name, job->version);
  } else if (!is_measured || !is_now_measured) {
    snprintf(s->note, sizeof s->note,
             "%s@%" PRIu32 ": three rounds on the validation split are wanted of both versions", job->name,
             job->version);
  } else if (mean < mean_now) {
    snprintf(s->note, sizeof s->note, "%s@%" PRIu32 " is worse here: %.3f against %.3f", job->name, job->version, mean,
             mean_now);
  } else {
    char text[MAX_REASON_BYTES];
    snprintf(text, sizeof text, "serving %s@%" PRIu32 ": %.3f against %.3f", job->name, job->version, mean, mean_now);
    serving_set(a, 0, j, text, false);
  }
}

void serving_judge(struct agent *a) {
  for (size_t i = 0; i < a->n_jobs; i++) {
    struct agent_job *j = a->jobs[i];
    const struct agent_job *now = j->is_stopped ? NULL : serving_job(a, j->config->job.name);
    if (now && j->config->job.activate_ready > 0 && j->config->job.version > now->config->job.version)
      judge(j, now);
  }
}
