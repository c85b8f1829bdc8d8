/* The seam between the protocol and the sockets: a table of functions. zmq_link.c is the real one, tests have one in
 * memory with virtual time. A link moves whole frames between connections and knows nothing of what they say.
 *
 * A connection is named by a number that is never used twice while its owner remembers it: the index of the peer for
 * the one connection that we dialled to it, `CONN_ACCEPTED | …` for one that came in. A link knows no others. Thread: the loop thread. */
#ifndef GOSSIP_LINK_H
#define GOSSIP_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gossip/gossip.h"

#define CONN_ACCEPTED (UINT64_C(1) << 63)
#define CONN_RELAYED (UINT64_C(1) << 62) /* neither: what we and a peer say to each other over a third (node.h) */
#define CONN_NONE UINT64_MAX

static inline bool conn_is_accepted(uint64_t conn) {
  return (conn & CONN_ACCEPTED) != 0;
}

static inline bool conn_is_relayed(uint64_t conn) {
  return conn >> 62 == CONN_RELAYED >> 62;
}

static inline bool conn_is_dialled(uint64_t conn) {
  return conn >> 62 == 0;
}

/* What became of a dial. After anything but DIAL_CONNECTED the link does nothing more by itself. */
enum dial_event {
  DIAL_CONNECTED, /* frames can be sent */
  DIAL_FAILED,    /* no connection */
  DIAL_GARBLED,   /* a connection, but not to one of us */
  DIAL_REFUSED,   /* the other side's connection gate */
  DIAL_LOST,      /* was connected */
};

/* What a link tells; called from within `wait` only. */
struct link_sink {
  void *context;
  void (*on_frame)(void *context, uint64_t conn, const char *address, uint8_t *frame, size_t n); /* may overwrite it */
  void (*on_dial)(void *context, size_t peer, enum dial_event event);
  void (*on_gone)(void *context, uint64_t conn);       /* an accepted connection ended */
  void (*on_gate)(void *context, const char *address); /* a connection was not admitted */
};

struct link_calls {
  /* The buffer of the next frame for a connection, n bytes, to be filled and sent or dropped; one at a time. ERR_BUSY: the
   * connection takes no more now, so nothing is sealed in vain; ERR_NOT_CONNECTED: it is gone; ERR_NO_MEMORY. */
  enum err (*frame_new)(void *context, uint64_t conn, size_t n, uint8_t **out_frame);
  /* Consumes the frame in any case. ERR_NOT_CONNECTED. */
  enum err (*frame_send)(void *context, uint64_t conn);
  void (*frame_drop)(void *context);

  /* Ends what was dialled before. The address may be another one each time; a name in it is resolved each time. */
  void (*dial)(void *context, size_t peer, const char *address);
  void (*hang_up)(void *context, size_t peer); /* the dialled connection, at once and without an event */
  void (*kick)(void *context, uint64_t conn);  /* an accepted connection, soon: frames sent before still leave */
  void (*set_session)(void *context, uint64_t conn, bool has_session); /* for the gate, which counts those without */

  /* Waits at most timeout_ms (−1: for ever) for frames, events, room in a connection that was full and the lent
   * descriptors, and tells the sink. */
  void (*wait)(void *context, struct link_fd *extra, size_t n_extra, int64_t timeout_ms);

  /* Ends all, within 1 s; frames sent before still leave if they can. */
  void (*close)(void *context);
};

struct link {
  void *context;
  const struct link_calls *calls;
};

#endif
