#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "gossip/node.h"
#include "tests/property/flock_parts.h"

static struct flock_wire *wire_of(struct flock_agent *a, uint64_t conn) {
  struct flock *f = a->flock;
  if (conn_is_accepted(conn)) {
    struct flock_wire *w = &f->wires[conn & ~CONN_ACCEPTED];
    return w->is_open ? w : NULL;
  }
  for (size_t i = f->n_wires; i-- > 0;)
    if (f->wires[i].is_open && f->wires[i].from == a->number && f->wires[i].peer == conn)
      return &f->wires[i];
  return NULL;
}

static uint64_t conn_at(const struct flock *f, const struct flock_wire *w, size_t end) {
  return w->from == end ? w->peer : CONN_ACCEPTED | (uint64_t)(w - f->wires);
}

/* When what is sent now is there; order is kept. */
static uint64_t arrival(struct flock *f, size_t from, size_t to, size_t n) {
  struct flock_link *l = &f->links[from][to];
  uint64_t at = f->now_ms + l->delay_ms;
  if (f->jitter_ms > 0)
    at += (uint64_t)(f->jitter_ms * rng_unit(&f->rng));
  if (at < l->last_ms)
    at = l->last_ms;
  if (l->bytes_per_s > 0)
    at += n * 1000 / l->bytes_per_s;
  l->last_ms = at;
  return at;
}

static void put(struct flock *f, size_t to, struct flock_event e) {
  e.agent = to;
  e.life = f->agents[to].life;
  flock_push(f, e);
}

/* The end that closes it is not told. */
static void wire_close(struct flock *f, struct flock_wire *w, size_t by) {
  if (!w || !w->is_open)
    return;
  w->is_open = false;
  if (w->from != by)
    put(f, w->from,
        (struct flock_event){
            .at_ms = arrival(f, w->to, w->from, 0), .kind = FLOCK_DIAL, .conn = w->peer, .dial = DIAL_LOST});
  if (w->to != by)
    put(f, w->to,
        (struct flock_event){.at_ms = arrival(f, w->from, w->to, 0), .kind = FLOCK_GONE, .conn = conn_at(f, w, w->to)});
}

void flock_close_wires(struct flock *f, size_t a, size_t b) {
  for (size_t i = 0; i < f->n_wires; i++) {
    struct flock_wire *w = &f->wires[i];
    bool is_between =
        (w->from == a && (b == SIZE_MAX || w->to == b)) || (w->to == a && (b == SIZE_MAX || w->from == b));
    if (is_between)
      wire_close(f, w, b == SIZE_MAX ? a : SIZE_MAX);
  }
}

static enum err frame_new(void *context, uint64_t conn, size_t n, uint8_t **out_frame) {
  struct flock_agent *a = context;
  HOLDS(n <= MAX_FRAME_BYTES);
  if (!wire_of(a, conn))
    return ERR_NOT_CONNECTED;
  a->flock->n_outgoing = n;
  *out_frame = a->flock->outgoing;
  return ERR_OK;
}

static void frame_drop(void *context) {
  ((struct flock_agent *)context)->flock->n_outgoing = 0;
}

static enum err frame_send(void *context, uint64_t conn) {
  struct flock_agent *a = context;
  struct flock *f = a->flock;
  const struct flock_wire *w = wire_of(a, conn);
  if (!w)
    return ERR_NOT_CONNECTED;
  size_t to = w->from == a->number ? w->to : w->from;
  f->n_frames++;
  bool is_lost = f->links[a->number][to].is_cut || (f->loss > 0 && rng_unit(&f->rng) < f->loss) ||
                 (f->lose && f->lose(f, a->number, to, f->outgoing[4]));
  if (is_lost)
    return ERR_OK;
  uint8_t *copy = malloc(f->n_outgoing);
  MUST(copy != NULL);
  memcpy(copy, f->outgoing, f->n_outgoing);
  put(f, to,
      (struct flock_event){.at_ms = arrival(f, a->number, to, f->n_outgoing),
                           .kind = FLOCK_FRAME,
                           .conn = conn_at(f, w, to),
                           .data = copy,
                           .n = f->n_outgoing});
  return ERR_OK;
}

static void dial(void *context, size_t peer, const char *address) {
  struct flock_agent *a = context;
  struct flock *f = a->flock;
  size_t to = strtoul(address + strlen("tcp://10.0.0."), NULL, 10);
  HOLDS(to < f->n_agents);
  bool works = f->agents[to].is_alive && !f->links[a->number][to].is_cut && !f->links[to][a->number].is_cut;
  if (works) {
    f->wires = realloc(f->wires, (f->n_wires + 1) * sizeof *f->wires);
    MUST(f->wires != NULL);
    f->wires[f->n_wires++] = (struct flock_wire){true, a->number, to, peer};
  }
  put(f, a->number,
      (struct flock_event){.at_ms = arrival(f, to, a->number, 0),
                           .kind = FLOCK_DIAL,
                           .conn = peer,
                           .dial = works ? DIAL_CONNECTED : DIAL_FAILED});
}

static void hang_up(void *context, size_t peer) {
  struct flock_agent *a = context;
  wire_close(a->flock, wire_of(a, peer), a->number);
}

static void kick(void *context, uint64_t conn) {
  struct flock_agent *a = context;
  wire_close(a->flock, wire_of(a, conn), SIZE_MAX);
}

static void set_session(void *context, uint64_t conn, bool has_session) {
  (void)context;
  (void)conn;
  (void)has_session;
}

static void deliver(void *context, struct link_fd *extra, size_t n_extra, int64_t timeout_ms) {
  struct flock_agent *a = context;
  const struct flock_event *e = a->arriving;
  (void)extra;
  (void)n_extra;
  (void)timeout_ms;
  if (!e)
    return;
  a->arriving = NULL;
  struct link_sink sink = node_sink(a->node);
  if (e->kind == FLOCK_FRAME)
    sink.on_frame(sink.context, e->conn, "10.0.0.9", e->data, e->n);
  else if (e->kind == FLOCK_DIAL)
    sink.on_dial(sink.context, (size_t)e->conn, e->dial);
  else
    sink.on_gone(sink.context, e->conn);
}

static void close_all(void *context) {
  struct flock_agent *a = context;
  flock_close_wires(a->flock, a->number, SIZE_MAX);
}

struct link flock_link_table(struct flock_agent *a) {
  return (struct link){a, frame_new, frame_send, frame_drop, dial, hang_up, kick, set_session, deliver, close_all};
}

void flock_part(struct flock *f, size_t a, size_t b) {
  f->links[a][b].is_cut = f->links[b][a].is_cut = true;
  flock_close_wires(f, a, b);
}

void flock_mute(struct flock *f, size_t from, size_t to) {
  f->links[from][to].is_cut = true;
  put(f, from, (struct flock_event){.at_ms = f->now_ms + FLOCK_HEARTBEAT_MS, .kind = FLOCK_HEARTBEAT, .conn = to});
}

void flock_heal(struct flock *f, size_t a, size_t b) {
  f->links[a][b].is_cut = f->links[b][a].is_cut = false;
}
