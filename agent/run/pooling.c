/* Pooled scaling between the trainer, which measures and standardises, the pool, which decides, and the peers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock.h"
#include "agent/core/pool.h"
#include "agent/run/log.h"
#include "agent/run/parts.h"
#include "base/must.h"

enum err pooling_start(struct agent_job *j) {
  const struct agent *a = j->agent;
  const struct contract *c = j->config->job.contract;
  if (c->scale.rule != SCALE_POOLED)
    return ERR_OK;
  return pool_new(a->config->n_peers, agent_n_before(a), contract_n_measured(c), &j->pool);
}

static void tell(struct agent_job *j, size_t peer) {
  struct wire_pool words;
  if (pool_words(j->pool, &words))
    gossip_send_pool(j->agent->gossip, peer, j->index, &words);
}

static void tell_all(struct agent_job *j) {
  for (size_t i = 0; i < j->agent->config->n_peers; i++)
    tell(j, i);
}

static void refuse_others(struct agent_job *j) {
  for (size_t i = 0; i < j->agent->config->n_peers; i++) {
    if (!pool_differs(j->pool, i))
      continue;
    round_on_refused_job(j->round, i, ERR_POOL, clock_ms());
    gossip_count(j->agent->gossip, i, ERR_POOL);
    log_event(LOG_WARNING, err_name(ERR_POOL), j->agent->peers[i].name,
              LOG_FIELDS(log_text("job", j->config->job.name), log_text("text", err_sentence(ERR_POOL))));
    agent_write_event(j->agent, err_name(ERR_POOL), j->agent->peers[i].name, err_sentence(ERR_POOL));
  }
}

/* What can be decided now. */
static void decide(struct agent_job *j) {
  const struct scale *frozen;
  if (pool_close(j->pool, &frozen)) {
    struct trainer_job *job = calloc(1, sizeof *job);
    MUST(job != NULL && scale_copy(frozen, &job->scale) == ERR_OK);
    job->kind = JOB_SCALE;
    trainer_put(j->trainer, job);
    tell_all(j);
    log_event(LOG_INFO, "pool-closed", NULL,
              LOG_FIELDS(log_text("job", j->config->job.name),
                         log_text("text", "every site has told its means: the scaling of the features is fixed")));
  }
  refuse_others(j);
}

void pooling_on_loaded(struct agent_job *j, const struct trainer_result *r) {
  if (!j->pool)
    return;
  enum err e = r->scale.n > 0 ? pool_set_frozen(j->pool, &r->scale) : pool_set_own(j->pool, &r->stats);
  MUST(e == ERR_OK); /* a few numbers: without memory for them the process ends, and a restart costs nothing */
  tell_all(j);
  decide(j);
}

void pooling_on_hello(struct agent_job *j, size_t peer) {
  if (!j->pool)
    return;
  pool_set_live(j->pool, peer, true);
  tell(j, peer);
}

void pooling_on_gone(struct agent_job *j, size_t peer) {
  if (!j->pool)
    return;
  pool_set_live(j->pool, peer, false);
  decide(j); /* it is not waited for */
}

void pooling_on_words(struct agent_job *j, size_t peer, const struct wire_pool *words) {
  enum err e = j->pool ? pool_on_words(j->pool, peer, words) : ERR_MESSAGE;
  if (e != ERR_OK)
    gossip_count(j->agent->gossip, peer, e);
  else
    decide(j);
}

bool pooling_waits(const struct agent_job *j, char *out_names, size_t capacity) {
  size_t n = 0;
  out_names[0] = '\0';
  for (size_t i = 0; j->pool && i < j->agent->config->n_peers && n < capacity; i++)
    if (pool_lacks(j->pool, i))
      n += (size_t)snprintf(out_names + n, capacity - n, "%s%s", n ? ", " : "", j->agent->peers[i].name);
  return n > 0;
}
