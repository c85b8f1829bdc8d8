#include "agent/sim/learning.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/host.h"
#include "agent/run/sums.h"
#include "agent/run/trainer.h"
#include "agent/site_job.h"
#include "base/must.h"
#include "crypto/digest.h"
#include "models/merging/codec.h"

struct sim_learning {
  struct sim_trainer table; /* the first: a simulation's trainer is this */
  struct schema *schema;
  struct digest first_weights;
  struct site_job_config *jobs; /* [n], of one job file */
  struct trainer **trainers;    /* [n], NULL: not started yet */
  struct sums_roster *rosters;  /* [n], of push-sum */
  struct attackers *attackers;
  uint32_t *epoch_steps; /* [n] */
  uint32_t *tests;       /* [n] samples of its own test */
  double *right;         /* [n] of its own test, at last */
  uint64_t judged_from;
  size_t n;
  enum err fault;
  char why[MAX_PATH_BYTES + 2 * MAX_REASON_BYTES];
};

/* The structure is written to but what the simulation sees of it is not. */
static struct sim_learning *learning_of(const struct sim_agent *a) {
  return (struct sim_learning *)(uintptr_t)a->sim->trainer;
}

/* The trainer's answer; of the job what the trainer does not take with it stays. */
static void run(struct sim_agent *a, struct trainer_job *job, struct trainer_result *r) {
  struct trainer *t = learning_of(a)->trainers[a->number];
  struct pollfd done = {.fd = trainer_fd(t), .events = POLLIN};
  struct trainer_job *moved = calloc(1, sizeof *moved);
  struct trainer_result *answer;
  MUST(moved != NULL);
  *moved = *job;
  *job = (struct trainer_job){.kind = moved->kind, .label = moved->label};
  trainer_put(t, moved);
  while (!(answer = trainer_poll(t)))
    poll(&done, 1, -1);
  *r = *answer;
  free(answer);                                    /* what is in it is the result's now */
  r->seconds = (double)a->host.training_ms / 1000; /* of virtual time, so that the story hangs on no clock */
}

/* A new life has a new trainer. */
static void load(struct sim_agent *a, struct trainer_job *job, struct trainer_result *r) {
  struct sim_learning *l = learning_of(a);
  const struct site_job_config *own = &l->jobs[a->number];
  l->rosters[a->number] = (struct sums_roster){
      .own = a->key, .peers = a->others, .n_peers = a->n_peers, .n_agents = site_job_agents(own, a->n_peers)};
  const struct trainer_config config = {.site_job = own,
                                        .roster = job_is_push_sum(&own->job) ? &l->rosters[a->number] : NULL,
                                        .schema = l->schema,
                                        .init = l->first_weights,
                                        .n_copies = a->n_peers,
                                        .judged_from = l->judged_from,
                                        .tamper = attackers_tamper(l->attackers, a->number),
                                        .n_jobs = MAX_HOST_THREADS}; /* one thread */
  trainer_stop(l->trainers[a->number]);
  MUST(trainer_start(&config, &l->trainers[a->number]) == ERR_OK);
  run(a, job, r);
  l->epoch_steps[a->number] = r->epoch_steps;
  l->tests[a->number] = r->n_test;
  if (r->error == ERR_OK || l->fault != ERR_OK)
    return;
  l->fault = r->error;
  memcpy(l->why, r->sentence, sizeof l->why);
}

static void merge(struct sim_agent *a, struct trainer_job *job, struct trainer_result *r) {
  run(a, job, r);
  learning_of(a)->right[a->number] = r->local_right;
  for (size_t i = 0; i < a->n_peers; i++)
    a->peers[i].mixed = 0;
  for (size_t k = 0; k < r->n_peers; k++)
    if (r->peers[k].reason == ERR_OK && r->peers[k].use)
      a->peers[r->peers[k].peer].mixed = r->peers[k].weight;
}

static uint32_t epoch_steps(const struct sim_agent *a) {
  return learning_of(a)->epoch_steps[a->number];
}

/* An update is as long as the model makes it, and all of it is held. */
static void set_lengths(struct sim *s, const struct sim_learning *l, const struct site_job_config *job) {
  size_t n_bytes = site_job_payload_bound(job, schema_shared(l->schema));
  s->dims = (n_bytes + sizeof(double) - 1) / sizeof(double);
  s->payload_bytes = s->dims * sizeof(double);
}

/* The simulation's or the job's, with the lengths of the job's model. */
static void set_rounds(struct sim *s, const struct config *c, const struct site_job_config *job,
                       const struct sim_learning *l, bool sets_all) {
  struct round_config rounds = site_job_rounds(job, s->n_agents - 1), *config = &s->config;
  size_t n = schema_shared(l->schema);
  if (sets_all) {
    rounds.identity = config->identity;
    *config = rounds;
  }
  config->encoding = rounds.encoding;
  config->is_clustered = rounds.is_clustered;
  config->is_push_sum = rounds.is_push_sum;
  config->link_bytes = site_job_update_bound(job, n);
  config->full_bytes = site_job_full_bound(job, n);
  s->mass_is_void = rounds.is_push_sum; /* the account is the trainer's */
  config->payload_max_bytes = (uint64_t)c->payload_max_mib << 20;
}

enum err sim_learning_check(const struct site_job_config *job, const struct sim_learning_options *options,
                            size_t n_agents, char out_why[MAX_REASON_BYTES]) {
  const struct contract *c = job->job.contract;
  const bool has_classes = c->task == TASK_CLASSIFY, is_image = c->height > 0;
  if (options->n_bad >= n_agents && options->n_bad > 0) {
    snprintf(out_why, MAX_REASON_BYTES, "attackers: %zu of %zu agents; at least one is honest", options->n_bad,
             n_agents);
    return ERR_RANGE;
  }
  if (options->attack != ATTACK_NONE && options->n_bad == 0) {
    snprintf(out_why, MAX_REASON_BYTES, "attack: %s, and nobody does it; write attackers: N",
             attack_name(options->attack));
    return ERR_RANGE;
  }
  if (attack_is_on_data(options->attack) && (!has_classes || (options->attack == ATTACK_BACKDOOR && !is_image))) {
    snprintf(out_why, MAX_REASON_BYTES, "attack: %s needs a job of %s", attack_name(options->attack),
             has_classes ? "images" : "classes");
    return ERR_UNSUPPORTED;
  }
  if (options->n_groups > 1 && (!has_classes || options->n_groups > c->n_classes)) {
    snprintf(out_why, MAX_REASON_BYTES, "hidden_groups: %zu, and the job has %zu classes; write at most as many",
             options->n_groups, has_classes ? c->n_classes : 0);
    return ERR_UNSUPPORTED;
  }
  return ERR_OK;
}

static enum err open_attackers(struct sim_learning *l, const struct site_job_config *job,
                               const struct sim_learning_options *options) {
  const struct contract *c = job->job.contract;
  struct attackers_config config = {.n_agents = l->n,
                                    .n_bad = options->n_bad,
                                    .n_groups = options->n_groups,
                                    .attack = options->attack,
                                    .n_values = schema_parameters(l->schema),
                                    .row_inputs = (size_t)c->width * c->channels,
                                    .seed = job->train_seed,
                                    .rule = job->rule};
  config.rule.max_share = job->max_share;
  config.rule.n_configured = (uint32_t)l->n - 1;
  return attackers_new(&config, &l->attackers);
}

/* What an attacker sends is its own model, too: it goes back to where the others are. */
static void set_rule_of_attackers(struct sim_learning *l, const struct sim_learning_options *options) {
  enum { UNBOUNDED = 1000000 };
  for (size_t i = l->n - options->n_bad; i < l->n && options->attack != ATTACK_NONE; i++)
    l->jobs[i].rule = (struct rule_setting){.rule = RULE_MEAN, .norm_bound = UNBOUNDED};
}

static enum err open_all(struct sim_learning *l, const struct config *c, const struct site_job_config *job,
                         const struct sim_learning_options *options, struct sim *s, char why[MAX_REASON_BYTES]) {
  struct digest schema_digest, id = config_job_id(c, &job->job);
  enum err e = schema_from_arch(job->job.arch, job->job.contract, &l->schema, why);
  if (e)
    return e;
  schema_hash(l->schema, &digest_blake2b, &schema_digest);
  l->first_weights = site_job_first_weights(job, &id, &schema_digest);
  l->jobs = calloc(s->n_agents + 1, sizeof *l->jobs);
  l->trainers = calloc(s->n_agents + 1, sizeof(void *));
  l->rosters = calloc(s->n_agents + 1, sizeof *l->rosters);
  l->epoch_steps = calloc(s->n_agents + 1, sizeof *l->epoch_steps);
  l->tests = calloc(s->n_agents + 1, sizeof *l->tests);
  l->right = calloc(s->n_agents + 1, sizeof *l->right);
  if (!l->jobs || !l->trainers || !l->rosters || !l->epoch_steps || !l->tests || !l->right) {
    snprintf(why, MAX_REASON_BYTES, "%s", err_sentence(ERR_NO_MEMORY));
    return ERR_NO_MEMORY;
  }
  l->n = s->n_agents;
  l->judged_from = options->judged_from;
  e = open_attackers(l, job, options);
  if (e) {
    snprintf(why, MAX_REASON_BYTES, "%s", err_sentence(e));
    return e;
  }
  set_lengths(s, l, job);
  for (size_t i = 0; i < s->n_agents; i++) {
    l->jobs[i] = *job;
    l->jobs[i].shadow = SHADOW_OFF;
    l->jobs[i].train_seed = job->train_seed + i;
    if (job->part > 0)
      l->jobs[i].part = (uint32_t)i + 1;
    if (job->is_offset_by_part)
      l->jobs[i].job.continual.offset = (uint32_t)i;
  }
  set_rule_of_attackers(l, options);
  set_rounds(s, c, job, l, options->sets_rounds);
  s->cluster = (struct cluster_config){
      .wish = job->job.cluster.groups, .kappa = job->job.cluster.kappa, .seed = l->first_weights};
  return ERR_OK;
}

enum err sim_learning_open(const struct config *config, const struct site_job_config *job, struct sim *s,
                           const struct sim_learning_options *options, struct sim_learning **out_learning,
                           char out_why[MAX_REASON_BYTES]) {
  if (job->job.contract->scale.rule == SCALE_POOLED) {
    snprintf(out_why, MAX_REASON_BYTES, "scale: pooled is not simulated; write the numbers that the sites have found");
    return ERR_UNSUPPORTED;
  }
  if (s->n_agents > MAX_LEARNING_AGENTS) {
    snprintf(out_why, MAX_REASON_BYTES, "%zu agents cannot train here; write agents: %d or fewer", s->n_agents,
             MAX_LEARNING_AGENTS);
    return ERR_LIMIT;
  }
  enum err e = sim_learning_check(job, options, s->n_agents, out_why);
  if (e)
    return e;
  struct sim_learning *l = calloc(1, sizeof *l);
  MUST(l != NULL);
  e = open_all(l, config, job, options, s, out_why);
  if (e) {
    sim_learning_close(l);
    return e;
  }
  l->table = (struct sim_trainer){
      .load = load, .train = run, .merge = merge, .restore = run, .undo = run, .epoch_steps = epoch_steps};
  s->trainer = &l->table;
  *out_learning = l;
  return ERR_OK;
}

enum err sim_learning_fault(const struct sim_learning *l, const char **out_why) {
  *out_why = l->why;
  return l->fault;
}

struct site_job_config *sim_learning_entry(struct sim_learning *l, size_t agent) {
  MUST(agent < l->n);
  return &l->jobs[agent];
}

size_t sim_learning_tests(const struct sim_learning *l, size_t agent) {
  MUST(agent < l->n);
  return l->tests[agent];
}

double sim_learning_right(const struct sim_learning *l, size_t agent) {
  MUST(agent < l->n);
  return l->right[agent];
}

void sim_learning_close(struct sim_learning *l) {
  if (!l)
    return;
  for (size_t i = 0; i < l->n; i++)
    trainer_stop(l->trainers[i]);
  attackers_free(l->attackers);
  free(l->trainers);
  free(l->rosters);
  free(l->epoch_steps);
  free(l->tests);
  free(l->right);
  free(l->jobs);
  schema_free(l->schema);
  free(l);
}
