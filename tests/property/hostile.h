/* What tests of a hostile wire share: frames made by hand, put into a node as if they had come by a connection, and
 * everything that the node refused, by reason. */
#ifndef TESTS_PROPERTY_HOSTILE_H
#define TESTS_PROPERTY_HOSTILE_H

#include "gossip/handshake.h"
#include "tests/unit/gossip/world.h"

struct counts {
  uint64_t by[N_DROPS];
};

/* Of all peers and of strangers. */
static inline struct counts counts_of(const struct agent *a) {
  struct counts c;
  gossip_stranger_drops(a->node, c.by);
  for (size_t i = 0; i < a->config.n_peers; i++) {
    struct gossip_peer_info info;
    gossip_peer_info(a->node, i, &info);
    for (size_t k = 0; k < N_DROPS; k++)
      c.by[k] += info.drops[k];
  }
  return c;
}

static inline uint64_t counted(const struct agent *a, enum err reason) {
  return counts_of(a).by[err_drop_index(reason)];
}

static inline uint64_t counted_all(const struct agent *a) {
  struct counts c = counts_of(a);
  uint64_t sum = 0;
  for (size_t k = 0; k < N_DROPS; k++)
    sum += c.by[k];
  return sum;
}

/* How often a handler of the agent was called. */
static inline unsigned n_handled(const struct agent *a) {
  unsigned n = 0;
  for (size_t i = 0; i < MAX_AGENTS; i++) {
    const struct heard *h = &a->heard[i];
    n += h->n_up + h->n_down + h->n_hello + h->n_refused_job + h->n_state + h->n_manifest + h->n_payload + h->n_failed +
         h->n_answer + h->n_done;
  }
  return n;
}

static inline struct slot *live_of(struct agent *a, const struct agent *other) {
  return a->node->peers[peer_of(a, other)].slots[SLOT_LIVE];
}

/* A copy of the frame arrives at once: opening is in place. */
static inline void inject(struct agent *to, uint64_t conn, const uint8_t *frame, size_t n) {
  static uint8_t copy[MAX_FRAME_BYTES];
  struct link_sink sink = node_sink(to->node);
  memcpy(copy, frame, n);
  sink.on_frame(sink.context, conn, "10.9.9.9", copy, n);
}

/* A message as a frame of the live session; its length. */
static inline size_t message_seal(struct agent *from, const struct agent *to, const struct message *m,
                                  uint8_t out_frame[MAX_FRAME_BYTES]) {
  struct writer w;
  writer_init(&w, out_frame + FRAME_HEAD_BYTES, MAX_FRAME_PLAIN_BYTES);
  message_write(m, &w);
  ck_assert_int_eq(writer_end(&w), ERR_OK);
  enum err e = session_seal(live_of(from, to)->session, world_now(from->world), (uint8_t)m->type, out_frame, w.n_bytes);
  ck_assert_int_eq(e, ERR_OK);
  return frame_bytes(w.n_bytes);
}

static inline size_t done_seal(struct agent *from, const struct agent *to, uint64_t sequence,
                               uint8_t out_frame[MAX_FRAME_BYTES]) {
  struct message m = {.type = MESSAGE_DONE, .done = {.job = from->job.job, .sequence = sequence}};
  return message_seal(from, to, &m, out_frame);
}

/* An attacker's own connection to `to`; what is sent to it is lost. */
static inline uint64_t conn_foreign(struct world *w, struct agent *to) {
  ck_assert_uint_lt(w->n_wires, MAX_WIRES);
  w->wires[w->n_wires] = (struct wire){.is_open = true, .from = to, .to = to, .peer = SIZE_MAX};
  return CONN_ACCEPTED | w->n_wires++;
}

/* Keeps the last frame of a type and loses it or not; frames to an attacker are lost. */
struct catch {
  enum message_type type;
  bool loses;
  size_t n;
  uint8_t frame[MAX_FRAME_BYTES];
};

static inline unsigned catch_filter(struct world *w, struct agent *from, struct agent *to, const uint8_t *frame,
                                    size_t n) {
  struct catch *c = w->filter_context;
  if (from == to)
    return 0;
  if (frame_type(frame) != c->type)
    return 1;
  memcpy(c->frame, frame, n);
  c->n = n;
  return c->loses ? 0 : 1;
}

static inline void catch_start(struct world *w, struct catch *c) {
  w->filter = catch_filter;
  w->filter_context = c;
}

/* `a` dials `b`; nothing has been said yet. */
static inline struct world *strangers_new(struct catch *c) {
  struct world *w = world_new(2, false);
  only_called_by(&w->agents[1], &w->agents[0]);
  catch_start(w, c);
  world_start(w);
  return w;
}

/* `a` has dialled `b` and they have met. */
static inline struct world *met_new(void) {
  struct world *w = world_new(2, false);
  only_called_by(&w->agents[1], &w->agents[0]);
  world_start(w);
  world_run(w, 100);
  ck_assert(info_of(&w->agents[0], &w->agents[1]).has_session && info_of(&w->agents[1], &w->agents[0]).has_session);
  return w;
}

#endif
