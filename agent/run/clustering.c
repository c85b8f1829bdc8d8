/* Groups of sites between the trainer, which finds the own sketch, the table, which finds the groups, the round machine and the peers. */
#include "agent/clock.h"
#include "agent/core/cluster.h"
#include "agent/run/log.h"
#include "agent/run/parts.h"
#include "agent/site_job.h"

static void sign(void *context, struct signed_sketch *s) {
  const struct agent_job *j = context;
  signed_sketch_sign(s, j->agent->identity);
}

static enum err send(void *context, size_t peer, const uint8_t *bytes) {
  const struct agent_job *j = context;
  return gossip_send_sketch(j->agent->gossip, peer, j->index, bytes);
}

static void set_affinity(void *context, size_t peer, double affinity) {
  struct agent_job *j = context;
  round_set_affinity(j->round, peer, affinity);
}

static void tell_place(void *context, bool is_alone, const char *text) {
  struct agent_job *j = context;
  const char *name = is_alone ? "group-alone" : "group";
  log_event(is_alone ? LOG_WARNING : LOG_INFO, name, NULL,
            LOG_FIELDS(log_text("job", j->config->job.name), log_text("text", text)));
  agent_write_event(j->agent, name, NULL, text);
}

enum err clustering_start(struct agent_job *j) {
  static const struct cluster_ports ports = {.sign = sign, .send = send, .affinity = set_affinity, .moved = tell_place};
  const struct agent *a = j->agent;
  const struct cluster_settings *settings = &j->config->job.cluster;
  if (!settings->is_on)
    return ERR_OK;
  const struct cluster_config config = {.wish = settings->groups,
                                        .kappa = settings->kappa,
                                        .seed = site_job_first_weights(j->config, &j->id, &j->schema_digest),
                                        .swarm = a->swarm,
                                        .job = j->id,
                                        .schema = j->schema_digest,
                                        .contract = j->contract_digest,
                                        .own = *identity_public(a->identity),
                                        .peers = a->peers,
                                        .n_peers = a->config->n_peers,
                                        .boot_epoch = a->boot_epoch,
                                        .patience_ms = (uint64_t)(j->config->meet_s * 1000),
                                        .context = j};
  return cluster_new(&config, &ports, &j->cluster);
}

void clustering_on_result(struct agent_job *j, const struct trainer_result *r) {
  if (!j->cluster)
    return;
  if (r->has_sketch)
    cluster_on_own(j->cluster, &r->sketch);
  if (r->sketch_note[0] == '\0')
    return;
  cluster_on_no_own(j->cluster);
  log_event(LOG_WARNING, "no-group", NULL,
            LOG_FIELDS(log_text("job", j->config->job.name), log_text("text", r->sketch_note)));
  agent_write_event(j->agent, "no-group", NULL, r->sketch_note);
}

void clustering_on_epoch(struct agent_job *j, uint64_t boot_epoch) {
  if (j->cluster)
    cluster_on_epoch(j->cluster, boot_epoch);
}

void clustering_on_hello(struct agent_job *j, size_t peer) {
  if (j->cluster)
    cluster_on_hello(j->cluster, peer);
}

void clustering_on_gone(struct agent_job *j, size_t peer) {
  if (j->cluster)
    cluster_on_gone(j->cluster, peer);
}

/* What comes to a job without groups is judged, and counts against who sent it. */
bool clustering_wants(struct agent_job *j, size_t peer, const struct signed_sketch *s) {
  return !j->cluster || cluster_wants(j->cluster, peer, s);
}

void clustering_on_sketch(struct agent_job *j, size_t peer, const struct signed_sketch *s, const uint8_t *bytes) {
  enum err e = j->cluster ? cluster_on_sketch(j->cluster, peer, s, bytes) : ERR_MESSAGE;
  if (e != ERR_OK && err_drop_index(e) >= 0)
    gossip_count(j->agent->gossip, peer, e);
}

uint64_t clustering_turn(struct agent_job *j, uint64_t now_ms) {
  return j->cluster ? cluster_turn(j->cluster, now_ms) : UINT64_MAX;
}
