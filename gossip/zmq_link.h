/* The link over ZeroMQ 4.3: the only place that knows its sockets.
 *
 * One ROUTER per listen address, one DEALER per peer that we dial, without routing ids of our own; TCP and IPC, IPv4 and
 * IPv6; the NULL mechanism, since sessions authenticate and encrypt. What each option is set to and why is a table in
 * the source. A reply socket on the ZAP address is the connection gate (gate.h); it is enforced, and proven to refuse
 * and to admit before anything is bound. libzmq never dials again by itself: after one bogus answer it would stop for
 * ever, so redialling is the node's.
 *
 * Thread: the loop thread; libzmq has one I/O thread of its own. */
#ifndef GOSSIP_ZMQ_LINK_H
#define GOSSIP_ZMQ_LINK_H

#include "gossip/link.h"

struct zmq_link;

struct zmq_link_config {
  const char *const *listen;
  size_t n_listen;
  size_t n_peers; /* that may be dialled */
  uint8_t beat_s; /* a session sends something so often */
  uint64_t (*now_ms)(void *context);
  void *now_context;
};

/* Sets up and tests the gate, then binds. `why` as gossip_open. */
MUST_USE enum err zmq_link_open(const struct zmq_link_config *config, const struct link_sink *sink,
                                struct link *out_link, char out_why[MAX_REASON_BYTES]);

/* Closes the gate's reply socket: from now on nobody new enters. */
void zmq_link_shut_gate(struct zmq_link *l);

#endif
