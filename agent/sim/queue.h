/* Events in virtual time: a binary heap. Of two events at one time the one that was put first comes first, so that the
 * order is total and one seed has one story. Times are microseconds: a frame of 100 bytes takes 200 of them at 4 Mbit/s.
 * What a rush of
 * them took is given back. Caller's storage, zero-initialised; no thread of its own. */
#ifndef AGENT_SIM_QUEUE_H
#define AGENT_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sim_event_kind {
  SIM_WAKE,
  SIM_FRAME,     /* conn, wire; from: the agent that sent it; data, n */
  SIM_DIAL,      /* conn: the peer's index; wire; dial: what became of it */
  SIM_GONE,      /* conn: an accepted connection */
  SIM_TRAINED,   /* data: the trainer's job, whose time has passed */
  SIM_DURABLE,   /* data: the scribe's job, which the disk has done */
  SIM_WRITTEN,   /* data: the scribe's result */
  SIM_HEARTBEAT, /* agent, conn: the two ends of a cut link; whoever is connected over it notices now */
  N_SIM_EVENT_KINDS
};

struct sim_event {
  uint64_t at_us, order; /* order: the queue's */
  uint64_t life;         /* of the agent when it was put: one that was killed since has no use for it */
  uint64_t conn, wire;   /* as the agent names the connection, as the simulator does */
  void *data;
  uint32_t n, agent, from;
  uint8_t kind, dial;
};

struct sim_queue {
  struct sim_event *heap;
  size_t n, capacity;
  uint64_t n_put;
};

/* Ends the process without memory. */
void sim_queue_put(struct sim_queue *q, struct sim_event e);

/* The next one, borrowed; NULL: none. */
const struct sim_event *sim_queue_first(const struct sim_queue *q);
struct sim_event sim_queue_take(struct sim_queue *q);

/* The caller has freed what the events hold. */
void sim_queue_done(struct sim_queue *q);

#endif
