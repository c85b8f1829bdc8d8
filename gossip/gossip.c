#include "gossip/gossip.h"

#include "gossip/node.h"
#include "gossip/zmq_link.h"

enum err gossip_open(const struct gossip_config *config, const struct gossip_events *events, struct gossip **out_gossip,
                     char out_why[MAX_REASON_BYTES]) {
  struct gossip *g;
  enum err e = node_new(config, events, &g, out_why);
  if (e != ERR_OK)
    return e;
  struct zmq_link_config link = {.listen = config->listen,
                                 .n_listen = config->n_listen,
                                 .n_peers = config->n_peers,
                                 .beat_s = g->config.beat_s,
                                 .now_ms = config->now_ms,
                                 .now_context = config->now_context};
  struct link_sink sink = node_sink(g);
  e = zmq_link_open(&link, &sink, &g->link, out_why);
  if (e != ERR_OK) {
    node_free(g);
    return e;
  }
  *out_gossip = g;
  return ERR_OK;
}
