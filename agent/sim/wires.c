#include <stdlib.h>
#include <string.h>

#include "agent/sim/parts.h"
#include "base/must.h"
#include "gossip/message.h"
#include "gossip/node.h"

enum { US_PER_MS = 1000, GENERATION_BITS = 31, TYPE_AT = 4 /* in a frame */ };

/* ---- the table of connections ---- */

static uint64_t number_of(const struct sim *s, const struct sim_wire *w) {
  return (uint64_t)(w - s->wires) | (uint64_t)w->generation << 32;
}

/* NULL: it is not open any more. */
static struct sim_wire *wire_numbered(struct sim *s, uint64_t number) {
  struct sim_wire *w = number == SIM_NO_WIRE ? NULL : &s->wires[(uint32_t)number];
  return w && w->is_open && w->generation == number >> 32 ? w : NULL;
}

static struct sim_wire *wire_of(const struct sim_agent *a, uint64_t conn) {
  return wire_numbered(a->sim, conn_is_accepted(conn) ? conn & ~CONN_ACCEPTED : a->peers[conn].wire);
}

static void list_add(struct sim_agent *a, uint64_t number) {
  if (a->n_wires == a->wire_capacity) {
    a->wire_capacity = a->wire_capacity ? 2 * a->wire_capacity : 4;
    a->wires = realloc(a->wires, a->wire_capacity * sizeof *a->wires);
    MUST(a->wires != NULL);
  }
  a->wires[a->n_wires++] = number;
}

static void list_remove(struct sim_agent *a, uint64_t number) {
  size_t i = 0;
  while (i < a->n_wires && a->wires[i] != number)
    i++;
  MUST(i < a->n_wires);
  memmove(a->wires + i, a->wires + i + 1, (--a->n_wires - i) * sizeof *a->wires);
}

static uint32_t slot_take(struct sim *s) {
  if (s->n_free_wires > 0)
    return s->free_wires[--s->n_free_wires];
  if (s->n_wires == s->wire_capacity) {
    s->wire_capacity = s->wire_capacity ? 2 * s->wire_capacity : 64;
    s->wires = realloc(s->wires, s->wire_capacity * sizeof *s->wires);
    s->free_wires = realloc(s->free_wires, s->wire_capacity * sizeof *s->free_wires);
    MUST(s->wires != NULL && s->free_wires != NULL);
  }
  s->wires[s->n_wires] = (struct sim_wire){0};
  return (uint32_t)s->n_wires++;
}

static void wire_open(struct sim_agent *from, size_t peer, size_t to) {
  struct sim *s = from->sim;
  uint32_t slot = slot_take(s);
  struct sim_wire *w = &s->wires[slot];
  uint32_t generation = (w->generation + 1) & ((UINT32_C(1) << GENERATION_BITS) - 1);
  *w = (struct sim_wire){true, generation, from->number, to, peer, s->now_us};
  from->peers[peer].wire = number_of(s, w);
  list_add(from, number_of(s, w));
  list_add(s->agents[to], number_of(s, w));
}

/* ---- what goes over them ---- */

/* When a word of the connection arrives. */
static uint64_t word_us(struct sim *s, size_t from, size_t to) {
  struct sim_link_to *l = sim_link_to(s, from, to);
  return sim_link_word(sim_link_of(s, l), &l->flow, &s->rng, s->now_us);
}

static void put_dial(struct sim_agent *a, size_t peer, uint64_t wire, enum dial_event event) {
  uint64_t at_us = word_us(a->sim, a->peers[peer].agent, a->number);
  sim_put(a, at_us, (struct sim_event){.kind = SIM_DIAL, .conn = peer, .wire = wire, .dial = (uint8_t)event});
}

/* The end that closes it is not told. */
static void wire_close(struct sim *s, struct sim_wire *w, size_t by) {
  uint64_t number = number_of(s, w);
  w->is_open = false;
  list_remove(s->agents[w->from], number);
  list_remove(s->agents[w->to], number);
  s->free_wires[s->n_free_wires++] = (uint32_t)(w - s->wires);
  if (w->from != by)
    put_dial(s->agents[w->from], w->peer, number, DIAL_LOST);
  if (w->to != by)
    sim_put(s->agents[w->to], word_us(s, w->from, w->to),
            (struct sim_event){.kind = SIM_GONE, .conn = CONN_ACCEPTED | number});
}

void sim_close_wires(struct sim *s, size_t a, size_t b) {
  struct sim_agent *agent = s->agents[a];
  for (size_t i = 0; i < agent->n_wires;) {
    struct sim_wire *w = wire_numbered(s, agent->wires[i]);
    size_t other = w->from == a ? w->to : w->from;
    if (b == SIZE_MAX || other == b)
      wire_close(s, w, b == SIZE_MAX ? a : SIZE_MAX);
    else
      i++;
  }
}

static bool is_cut(struct sim *s, size_t a, size_t b) {
  return sim_link_of(s, sim_link_to(s, a, b))->is_cut || sim_link_of(s, sim_link_to(s, b, a))->is_cut;
}

void sim_heartbeat_missed(struct sim *s, size_t a, size_t b) {
  if (is_cut(s, a, b))
    sim_close_wires(s, a, b);
}

static enum err frame_new(void *context, uint64_t conn, size_t n, uint8_t **out_frame) {
  struct sim_agent *a = context;
  MUST(n <= MAX_FRAME_BYTES);
  if (!wire_of(a, conn))
    return ERR_NOT_CONNECTED;
  a->sim->n_outgoing = n;
  *out_frame = a->sim->outgoing;
  return ERR_OK;
}

static void frame_drop(void *context) {
  ((struct sim_agent *)context)->sim->n_outgoing = 0;
}

/* Of a frame of n bytes, how many of its first ones go with the event, before its tag: of a chunk without cipher only what is
 * held of a payload. */
static size_t carried(const struct sim *s, uint8_t type, size_t n) {
  size_t body = n - FRAME_TAG_BYTES, held = FRAME_HEAD_BYTES + CHUNK_HEAD_BYTES + sim_held(s, UINT64_MAX);
  return s->fidelity == SIM_PROTOCOL && type == MESSAGE_CHUNK && held < body ? held : body;
}

static void put_frame(struct sim *s, const struct sim_wire *w, size_t to, uint64_t at_us) {
  size_t n = carried(s, s->outgoing[TYPE_AT], s->n_outgoing);
  uint8_t *copy = malloc(n + FRAME_TAG_BYTES);
  MUST(copy != NULL && s->n_outgoing >= FRAME_HEAD_BYTES + FRAME_TAG_BYTES);
  memcpy(copy, s->outgoing, n);
  memcpy(copy + n, s->outgoing + s->n_outgoing - FRAME_TAG_BYTES, FRAME_TAG_BYTES);
  uint64_t wire = number_of(s, w);
  sim_put(s->agents[to], at_us,
          (struct sim_event){.kind = SIM_FRAME,
                             .conn = to == w->from ? w->peer : CONN_ACCEPTED | wire,
                             .wire = wire,
                             .from = (uint32_t)(to == w->from ? w->to : w->from),
                             .data = copy,
                             .n = (uint32_t)s->n_outgoing});
}

/* The way has forgotten the connection: what is sent by it is answered by a reset. */
static bool is_forgotten(struct sim *s, struct sim_wire *w, const struct sim_link *l) {
  bool is_forgotten = l->nat_idle_us > 0 && s->now_us - w->used_us > l->nat_idle_us;
  if (!is_forgotten)
    w->used_us = s->now_us;
  return is_forgotten;
}

static enum err frame_send(void *context, uint64_t conn) {
  struct sim_agent *a = context;
  struct sim *s = a->sim;
  struct sim_wire *w = wire_of(a, conn);
  if (!w)
    return ERR_NOT_CONNECTED;
  size_t to = w->from == a->number ? w->to : w->from;
  struct sim_link_to *l = sim_link_to(s, a->number, to);
  s->n_frames++;
  if (s->lose && s->lose(s, a->number, to, s->outgoing[TYPE_AT]))
    return ERR_OK;
  if (is_forgotten(s, w, sim_link_of(s, l))) {
    wire_close(s, w, SIZE_MAX);
    return ERR_OK;
  }
  uint64_t at_us[SIM_MAX_COPIES];
  size_t n = sim_link_send(sim_link_of(s, l), &l->flow, &a->host.nic, &s->agents[to]->host.nic, &s->rng, s->now_us,
                           s->n_outgoing, at_us);
  for (size_t i = 0; i < n; i++)
    put_frame(s, w, to, at_us[i]);
  return ERR_OK;
}

static void hang_up(void *context, size_t peer) {
  struct sim_agent *a = context;
  struct sim_wire *w = wire_numbered(a->sim, a->peers[peer].wire);
  a->peers[peer].wire = SIM_NO_WIRE;
  if (w)
    wire_close(a->sim, w, a->number);
}

/* Where its listener is follows from who it is: addresses are for people. */
static void dial(void *context, size_t peer, const char *address) {
  struct sim_agent *a = context;
  struct sim *s = a->sim;
  size_t to = a->peers[peer].agent;
  (void)address;
  hang_up(a, peer);
  bool works = s->agents[to]->is_alive && !is_cut(s, a->number, to);
  if (works)
    wire_open(a, peer, to);
  put_dial(a, peer, a->peers[peer].wire, works ? DIAL_CONNECTED : DIAL_FAILED);
}

static void kick(void *context, uint64_t conn) {
  struct sim_agent *a = context;
  struct sim_wire *w = wire_of(a, conn);
  if (w)
    wire_close(a->sim, w, SIZE_MAX);
}

static void set_session(void *context, uint64_t conn, bool has_session) {
  (void)context;
  (void)conn;
  (void)has_session;
}

/* The end that dialled knows its connection by the peer: what comes of an earlier one is not for it. */
static bool is_of_earlier_wire(const struct sim_agent *a, const struct sim_event *e) {
  return !conn_is_accepted(e->conn) && a->peers[e->conn].wire != e->wire;
}

/* The frame as it was sent, in the buffer that all share. */
static uint8_t *unfold(struct sim *s, const struct sim_event *e) {
  const uint8_t *bytes = e->data;
  size_t n = carried(s, bytes[TYPE_AT], e->n);
  memcpy(s->incoming, bytes, n);
  memcpy(s->incoming + e->n - FRAME_TAG_BYTES, bytes + n, FRAME_TAG_BYTES);
  return s->incoming;
}

static void deliver(void *context, struct link_fd *extra, size_t n_extra, int64_t timeout_ms) {
  struct sim_agent *a = context;
  const struct sim_event *e = a->arriving;
  (void)extra;
  (void)n_extra;
  (void)timeout_ms;
  a->arriving = NULL;
  if (!e || is_of_earlier_wire(a, e))
    return;
  struct link_sink sink = node_sink(a->node);
  if (e->kind == SIM_FRAME)
    sink.on_frame(sink.context, e->conn, a->sim->agents[e->from]->name, unfold(a->sim, e), e->n);
  else if (e->kind == SIM_DIAL)
    sink.on_dial(sink.context, (size_t)e->conn, (enum dial_event)e->dial);
  else
    sink.on_gone(sink.context, e->conn);
}

void sim_arrive(struct sim_agent *a, const struct sim_event *e) {
  a->arriving = e;
  link_poll(a->node, NULL, 0, 0);
}

static void close_all(void *context) {
  struct sim_agent *a = context;
  sim_close_wires(a->sim, a->number, SIZE_MAX);
}

const struct link_calls sim_link_calls = {frame_new, frame_send,  frame_drop, dial,     hang_up,
                                          kick,      set_session, deliver,    close_all};

/* ---- what a scenario does to links ---- */

void sim_part(struct sim *s, size_t a, size_t b) {
  sim_link(s, a, b)->is_cut = true;
  sim_link(s, b, a)->is_cut = true;
  sim_close_wires(s, a, b);
}

void sim_mute(struct sim *s, size_t from, size_t to) {
  sim_link(s, from, to)->is_cut = true;
  sim_put(s->agents[from], s->now_us + (uint64_t)SIM_HEARTBEAT_MS * US_PER_MS,
          (struct sim_event){.kind = SIM_HEARTBEAT, .conn = to});
}

void sim_heal(struct sim *s, size_t a, size_t b) {
  sim_link(s, a, b)->is_cut = false;
  sim_link(s, b, a)->is_cut = false;
}
