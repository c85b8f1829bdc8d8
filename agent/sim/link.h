/* The link model: when what is sent arrives, if it does.
 *
 * A frame leaves by its host's own interface, which all links of the host share, then by the link of the pair, travels the
 * link's delay and jitter, and comes in by the receiver's interface:
 *
 *   sender's up ─> link of the pair ─> delay + jitter ─> receiver's down
 *
 * Each of the three is a queue of whole frames, first come first served, without an end: frames are at most a chunk, and
 * protocol windows bound what is under way. Frames of one direction keep their order, as in a TCP connection, but for those
 * that `reorder` picks: they overtake. A duplicate arrives right after its first copy. Pure but for the generator. */
#ifndef AGENT_SIM_LINK_H
#define AGENT_SIM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

/* An interface of a host. 0: as fast as one likes. */
struct sim_nic {
  uint64_t up_bytes_per_s, down_bytes_per_s;
  uint64_t up_free_us, down_free_us; /* inside */
};

/* One direction of a pair. */
struct sim_link {
  uint64_t delay_us, jitter_us;    /* jitter: evenly 0 … jitter_us more */
  uint64_t bytes_per_s;            /* 0: as many as one likes */
  double loss, duplicate, reorder; /* of a frame, 0 … 1 */
  uint64_t nat_idle_us;            /* a connection that was silent for longer is forgotten on the way; 0: never */
  bool is_cut;                     /* nothing arrives and nobody can dial */
};

/* What is under way in one direction of a pair; zeros in the beginning. */
struct sim_flow {
  uint64_t free_us, last_us; /* when the link's queue is empty, the last arrival in order */
};

enum { SIM_MAX_COPIES = 2 };

/* A frame of n bytes is sent now: how many copies arrive (0: it is lost), and when. */
size_t sim_link_send(const struct sim_link *l, struct sim_flow *flow, struct sim_nic *from, struct sim_nic *to,
                     struct rng *rng, uint64_t now_us, size_t n, uint64_t out_at_us[SIM_MAX_COPIES]);

/* When a word of the connection itself (it is up, it has ended) is at the other end: after everything before. */
uint64_t sim_link_word(const struct sim_link *l, struct sim_flow *flow, struct rng *rng, uint64_t now_us);

#endif
