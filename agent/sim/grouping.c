/* Groups of sites in a simulation, tied as run/clustering.c ties them. */
#include "agent/sim/parts.h"
#include "agent/sim/plain.h"
#include "base/must.h"

static void sign(void *context, struct signed_sketch *s) {
  const struct sim_agent *a = context;
  if (a->identity)
    signed_sketch_sign(s, a->identity);
  else
    plain_sign_sketch(s, &a->key);
}

static enum err send(void *context, size_t peer, const uint8_t *bytes) {
  const struct sim_agent *a = context;
  return gossip_send_sketch(a->node, peer, SIM_JOB, bytes);
}

static void set_affinity(void *context, size_t peer, double affinity) {
  struct sim_agent *a = context;
  round_set_affinity(a->machine, peer, affinity);
}

static void tell_place(void *context, bool is_alone, const char *text) {
  sim_note(context, is_alone ? "group-alone" : "group", SIZE_MAX, text);
}

void sim_group_start(struct sim_agent *a) {
  static const struct cluster_ports ports = {.sign = sign, .send = send, .affinity = set_affinity, .moved = tell_place};
  const struct round_config *rules = sim_config(a);
  if (!rules->is_clustered)
    return;
  struct cluster_config config = a->sim->cluster;
  config.swarm = rules->identity.swarm;
  config.job = rules->identity.job;
  config.schema = rules->identity.schema;
  config.contract = rules->identity.contract;
  config.own = a->key;
  config.peers = a->others;
  config.n_peers = a->n_peers;
  config.boot_epoch = a->durable.boot_epoch;
  config.patience_ms = rules->meet_ms;
  config.context = a;
  MUST(cluster_new(&config, &ports, &a->cluster) == ERR_OK);
}

void sim_group_end(struct sim_agent *a) {
  cluster_free(a->cluster);
  a->cluster = NULL;
}

void sim_group_on_result(struct sim_agent *a, const struct trainer_result *r) {
  if (a->cluster && r->has_sketch)
    cluster_on_own(a->cluster, &r->sketch);
  else if (a->cluster && r->sketch_note[0] != '\0')
    cluster_on_no_own(a->cluster);
}

void sim_group_on_epoch(struct sim_agent *a, uint64_t boot_epoch) {
  if (a->cluster)
    cluster_on_epoch(a->cluster, boot_epoch);
}

void sim_group_on_session(struct sim_agent *a, size_t peer, bool is_there) {
  if (a->cluster && is_there)
    cluster_on_hello(a->cluster, peer);
  else if (a->cluster)
    cluster_on_gone(a->cluster, peer);
}

bool sim_group_wants(struct sim_agent *a, size_t peer, const struct signed_sketch *s) {
  return !a->cluster || cluster_wants(a->cluster, peer, s);
}

void sim_group_on_sketch(struct sim_agent *a, size_t peer, const struct signed_sketch *s, const uint8_t *bytes) {
  enum err e = a->cluster ? cluster_on_sketch(a->cluster, peer, s, bytes) : ERR_MESSAGE;
  if (e != ERR_OK && err_drop_index(e) >= 0)
    gossip_count(a->node, peer, e);
}

uint64_t sim_group_turn(struct sim_agent *a) {
  return a->cluster ? cluster_turn(a->cluster, sim_clock_ms(a)) : UINT64_MAX;
}
