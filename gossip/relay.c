#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "crypto/key_text.h"
#include "gossip/node.h"
#include "gossip/relay_queue.h"

/* Of each peer. */
struct relay_row {
  struct allowance sent; /* of what it gives us to carry, and carries to us */
  struct allowance
      received; /* of what is carried to it, and what we give it to carry: it has no more room for us than that */
  uint64_t carried_bytes;

  bool is_open;     /* a relayed connection with it is tried or stands … */
  size_t via;       /* … over this one; else the one that was tried last */
  uint64_t next_ms; /* open: when patience ends; else when the next is tried */
  uint64_t down_ms; /* since when there was no settled relayed session */
  size_t n_asked;   /* at once */
  bool has_settled; /* the relayed session over `via` has lasted */
};

struct relay {
  struct relay_row *rows; /* [n_peers] */
  bool *has_failed;       /* [n_peers][n_peers]: the last try to reach the one over the other led nowhere */
  struct relay_queue queue;
  uint64_t carried_bytes;
  uint8_t *outgoing; /* the frame that is being made for who carries it */
  size_t n_outgoing; /* its plaintext */
};

static void relay_free(struct relay *r) {
  free(r->rows);
  free(r->has_failed);
  free(r);
}

/* False: no memory. */
static bool relay_init(struct gossip *g) {
  if (g->relay)
    return true;
  struct relay *r = calloc(1, sizeof *r);
  if (!r)
    return false;
  r->rows = calloc(g->n_peers + 1, sizeof *r->rows);
  r->has_failed = calloc(g->n_peers * g->n_peers + 1, sizeof *r->has_failed); /* n_peers ≤ MAX_PEERS */
  if (!r->rows || !r->has_failed) {
    relay_free(r);
    return false;
  }
  for (size_t i = 0; i < g->n_peers; i++) {
    allowance_init(&r->rows[i].sent, node_now(g));
    allowance_init(&r->rows[i].received, node_now(g));
    r->rows[i].via = i;
  }
  relay_queue_init(&r->queue, &g->budget);
  g->relay = r;
  return true;
}

void relay_yield(struct gossip *g, uint64_t n) {
  if (g->relay)
    relay_queue_yield(&g->relay->queue, n);
}

void relay_done(struct gossip *g) {
  if (!g->relay)
    return;
  relay_queue_done(&g->relay->queue);
  relay_free(g->relay);
  g->relay = NULL;
}

static struct relay_row *row_of(const struct gossip *g, const struct peer *p) {
  return &g->relay->rows[peer_index(g, p)];
}

static bool *has_failed(const struct gossip *g, const struct peer *p, size_t via) {
  return &g->relay->has_failed[peer_index(g, p) * g->n_peers + via];
}

uint64_t relay_carried_bytes(const struct gossip *g, const struct peer *p) {
  return g->relay ? row_of(g, p)->carried_bytes : 0;
}

uint64_t gossip_relayed_bytes(const struct gossip *g) {
  return g->relay ? g->relay->carried_bytes : 0;
}

/* ERR_OK: frames can be carried from or to it. */
static enum err neighbour_judge(const struct peer *p) {
  const struct slot *live = p->slots[SLOT_LIVE];
  if (!p->info.has_session || !live || conn_is_relayed(live->conn))
    return ERR_NO_SESSION;
  return live->version >= RELAY_VERSION ? ERR_OK : ERR_VERSION;
}

/* Units of a RELAY of n bytes. */
static uint64_t relay_cost(size_t n_plain) {
  return allowance_cost(MESSAGE_RELAY, frame_bytes(n_plain));
}

/* ---- a connection over a third --------------------------------------------------------------------------------------- */

size_t conn_frame_bytes(uint64_t conn, size_t n) {
  return conn_is_relayed(conn) ? frame_bytes(RELAY_HEAD_BYTES + n) : n;
}

static void head_write(uint8_t out[RELAY_HEAD_BYTES], const struct identity_key *key, enum relay_way way) {
  memcpy(out, key->bytes, sizeof key->bytes);
  out[RELAY_HEAD_BYTES - 1] = way == RELAY_FROM;
}

enum err conn_frame_new(struct gossip *g, uint64_t conn, size_t n, uint8_t **out_frame) {
  if (!conn_is_relayed(conn))
    return g->link.calls->frame_new(g->link.context, conn, n, out_frame);
  const struct peer *via = &g->peers[conn_via(conn)];
  if (neighbour_judge(via) != ERR_OK)
    return ERR_NOT_CONNECTED;
  MUST(n <= MAX_RELAYED_BYTES);
  uint8_t *frame;
  enum err e =
      g->link.calls->frame_new(g->link.context, via->slots[SLOT_LIVE]->conn, conn_frame_bytes(conn, n), &frame);
  if (e != ERR_OK)
    return e;
  head_write(frame + FRAME_HEAD_BYTES, &g->peers[conn_peer(conn)].config->key, RELAY_TO);
  g->relay->outgoing = frame;
  g->relay->n_outgoing = RELAY_HEAD_BYTES + n;
  *out_frame = frame + FRAME_HEAD_BYTES + RELAY_HEAD_BYTES;
  return ERR_OK;
}

void conn_frame_drop(struct gossip *g) {
  g->link.calls->frame_drop(g->link.context);
}

/* Seals a RELAY under the neighbour's live session and sends it. */
static enum err send_relay(struct gossip *g, const struct peer *p, uint8_t *frame, size_t n_plain) {
  const struct slot *live = p->slots[SLOT_LIVE];
  enum err e = g->seals->seal(live->session, node_now(g), MESSAGE_RELAY, frame, n_plain);
  if (e != ERR_OK) {
    g->link.calls->frame_drop(g->link.context);
    return e;
  }
  return g->link.calls->frame_send(g->link.context, live->conn);
}

enum err conn_frame_send(struct gossip *g, uint64_t conn) {
  if (!conn_is_relayed(conn))
    return g->link.calls->frame_send(g->link.context, conn);
  struct peer *via = &g->peers[conn_via(conn)];
  (void)allowance_try(&row_of(g, via)->received, relay_cost(g->relay->n_outgoing), node_now(g));
  enum err e = send_relay(g, via, g->relay->outgoing, g->relay->n_outgoing);
  return e == ERR_OK ? ERR_OK : ERR_NOT_CONNECTED;
}

/* ---- which way to a peer -------------------------------------------------------------------------------------------- */

bool relay_may_answer(const struct gossip *g, uint64_t conn) {
  return conn_is_relayed(conn) && identity_key_compare(&g->peers[conn_peer(conn)].config->key, &g->self.key) < 0;
}

uint64_t relay_conn(const struct gossip *g, const struct peer *p) {
  const struct relay_row *row = g->relay ? row_of(g, p) : NULL;
  return row && row->is_open ? conn_relayed(row->via, peer_index(g, p)) : CONN_NONE;
}

/* Whether it is for us to look for a way to it. */
static bool is_sought(const struct gossip *g, const struct peer *p) {
  return !p->slots[SLOT_LIVE] && identity_key_compare(&g->self.key, &p->config->key) < 0;
}

static size_t count_neighbours(const struct gossip *g) {
  size_t n = 0;
  for (size_t i = 0; i < g->n_peers; i++)
    n += neighbour_judge(&g->peers[i]) == ERR_OK;
  return n;
}

static uint64_t wait_ms(struct gossip *g, const struct peer *p) {
  const struct relay_row *row = row_of(g, p);
  uint64_t since_ms = row->down_ms > p->down_ms ? row->down_ms : p->down_ms;
  return peer_back_off_ms(g, since_ms, RELAY_BACK_OFF_MIN_MS, RELAY_BACK_OFF_MAX_MS);
}

/* The one that was tried leads nowhere; is_quick: it said so itself, so the next is asked at once. */
static void route_fail(struct gossip *g, struct peer *p, bool is_quick) {
  struct relay_row *row = row_of(g, p);
  size_t n_neighbours = count_neighbours(g);
  row->is_open = false;
  *has_failed(g, p, row->via) = !row->has_settled;
  if (p->noise_via > 0)
    handshake_forget(g, p);
  bool is_more = is_quick && row->n_asked < MAX_RELAYS_ASKED && row->n_asked < n_neighbours;
  if (!is_more)
    row->n_asked = 0;
  row->next_ms = node_now(g) + (is_more ? 0 : wait_ms(g, p));
  g->relay_due_ms = 0;
}

void relay_close(struct gossip *g, struct peer *p, uint64_t conn) {
  if (relay_conn(g, p) == conn)
    route_fail(g, p, false);
}

void relay_stop(struct gossip *g, struct peer *p) {
  if (!g->relay)
    return;
  if (p->noise_via > 0)
    handshake_forget(g, p);
  row_of(g, p)->is_open = false;
}

/* Who led nowhere has its turn when it comes: else one that swallows what it is given and comes again and again would be the only
 * one that is asked. */
void relay_on_up(struct gossip *g, const struct peer *p) {
  size_t via = peer_index(g, p);
  g->relay_due_ms = 0;
  for (size_t i = 0; g->relay && neighbour_judge(p) == ERR_OK && i < g->n_peers; i++) {
    struct relay_row *row = &g->relay->rows[i];
    if (row->is_open || *has_failed(g, &g->peers[i], via))
      continue;
    row->via = (via + g->n_peers - 1) % g->n_peers; /* it is the next */
    row->next_ms = node_now(g);
    row->n_asked = 0;
  }
}

void relay_on_down(struct gossip *g, struct peer *p, uint64_t conn) {
  g->relay_due_ms = 0;
  if (!g->relay)
    return;
  if (conn_is_relayed(conn) && node_now(g) - p->live_ms >= SETTLED_MS) {
    row_of(g, p)->down_ms = node_now(g);
    row_of(g, p)->n_asked = 0;
    row_of(g, p)->has_settled = true;
  }
  relay_queue_forget(&g->relay->queue, peer_index(g, p));
  for (size_t i = 0; i < g->n_peers; i++) {
    uint64_t over = conn_relayed(peer_index(g, p), i);
    session_lose_conn(g, &g->peers[i], over);
    relay_close(g, &g->peers[i], over);
  }
}

/* The neighbour after the one that was tried last. */
static void route_open(struct gossip *g, struct peer *p) {
  struct relay_row *row = row_of(g, p);
  for (size_t i = 1; i <= g->n_peers; i++) {
    size_t via = (row->via + i) % g->n_peers;
    if (neighbour_judge(&g->peers[via]) != ERR_OK)
      continue;
    row->via = via;
    row->is_open = true;
    row->has_settled = false;
    row->n_asked++;
    row->next_ms = node_now(g) + RELAY_PATIENCE_MS;
    handshake_over(g, p, relay_conn(g, p));
    return;
  }
}

/* When something is to be done for a peer that is sought. */
static uint64_t route_due_ms(const struct gossip *g, const struct peer *p) {
  uint64_t first_ms = p->down_ms + (peer_is_dialled(p) ? RELAY_AFTER_DIALS_MS : RELAY_AFTER_MS);
  uint64_t next_ms = g->relay ? row_of(g, p)->next_ms : 0;
  if (p->banned_until_ms > first_ms)
    first_ms = p->banned_until_ms;
  return next_ms > first_ms ? next_ms : first_ms;
}

static void route_tick(struct gossip *g, struct peer *p) {
  struct relay_row *row = row_of(g, p);
  if (row->is_open)
    route_fail(g, p, false);
  else if (p->timers[TIMER_NO_ANSWER] != TIMER_OFF) /* the direct way has just come further */
    row->next_ms = p->timers[TIMER_NO_ANSWER];
  else
    route_open(g, p);
}

void relay_tick(struct gossip *g) {
  uint64_t now_ms = node_now(g), due_ms = DUE_NEVER;
  if (g->relay_due_ms > now_ms)
    return;
  bool is_useful = g->config.relay != GOSSIP_RELAY_OFF && !g->is_closing && count_neighbours(g) > 0;
  for (size_t i = 0; is_useful && i < g->n_peers; i++) {
    struct peer *p = &g->peers[i];
    if (is_sought(g, p) && route_due_ms(g, p) <= now_ms && relay_init(g))
      route_tick(g, p);
    uint64_t next_ms = is_sought(g, p) ? route_due_ms(g, p) : DUE_NEVER;
    if (next_ms <= now_ms) /* without memory: again a little later */
      next_ms = now_ms + 1;
    due_ms = next_ms < due_ms ? next_ms : due_ms;
  }
  uint64_t queue_ms = g->relay ? relay_queue_tick(&g->relay->queue, now_ms) : DUE_NEVER;
  g->relay_due_ms = queue_ms < due_ms ? queue_ms : due_ms;
}

/* ---- what is carried ------------------------------------------------------------------------------------------------- */

bool relay_pays(struct gossip *g, struct peer *p, size_t n_frame) {
  return relay_init(g) && allowance_try(&row_of(g, p)->sent, allowance_cost(MESSAGE_RELAY, n_frame), node_now(g));
}

static enum err carry(struct gossip *g, const struct peer *from, const struct message_relay *m) {
  struct peer *to = peer_find(g, &m->key);
  if (g->config.relay != GOSSIP_RELAY_CARRY || !to || to == from)
    return ERR_REFUSED;
  enum err e = neighbour_judge(to);
  if (e != ERR_OK)
    return e;
  size_t n = RELAY_HEAD_BYTES + m->n_frame;
  uint8_t *bytes;
  if (!relay_init(g) || !allowance_try(&row_of(g, to)->received, relay_cost(n), node_now(g)))
    return ERR_BACKLOG;
  if (relay_queue_put(&g->relay->queue, peer_index(g, from), peer_index(g, to), n, node_now(g), &bytes) != ERR_OK) {
    allowance_return(&row_of(g, to)->received, relay_cost(n));
    return ERR_BACKLOG;
  }
  if (g->relay_due_ms > node_now(g) + RELAY_KEEP_MS)
    g->relay_due_ms = node_now(g) + RELAY_KEEP_MS;
  head_write(bytes, &from->config->key, RELAY_FROM);
  memcpy(bytes + RELAY_HEAD_BYTES, m->frame, m->n_frame);
  row_of(g, from)->carried_bytes += frame_bytes(n);
  peer_stir(g, to);
  return ERR_OK;
}

enum err relay_flush(struct gossip *g, struct peer *p) {
  const struct relay_item *item;
  for (size_t i = 0; g->relay && (item = relay_queue_first(&g->relay->queue, peer_index(g, p))); i++) {
    if (i == MAX_CHUNKS_AT_ONCE) {
      timer_set(g, p, TIMER_FLUSH, 0);
      break;
    }
    uint8_t *frame;
    size_t n = frame_bytes(item->n);
    enum err e = g->link.calls->frame_new(g->link.context, p->slots[SLOT_LIVE]->conn, n, &frame);
    if (e != ERR_OK)
      return e;
    memcpy(frame + FRAME_HEAD_BYTES, item->bytes, item->n);
    e = send_relay(g, p, frame, item->n);
    if (e != ERR_OK)
      return e;
    relay_queue_drop(&g->relay->queue, peer_index(g, p));
    row_of(g, p)->carried_bytes += n;
    g->relay->carried_bytes += n;
    g->sent_bytes += n;
  }
  return ERR_OK;
}

/* What was carried here: as if it had come by a connection of its own. */
static void deliver(struct gossip *g, struct peer *via, const struct message_relay *m) {
  if (g->config.relay == GOSSIP_RELAY_OFF) {
    peer_count(via, ERR_REFUSED);
    return;
  }
  const struct peer *from = peer_find(g, &m->key);
  if (!from || from == via) {
    peer_count(via, ERR_UNKNOWN_KEY);
    return;
  }
  char key[KEY_TEXT_BYTES], address[GATE_ADDRESS_BYTES];
  key_text_write(&via->config->key, key);
  int n = snprintf(address, sizeof address, "peer %.9s, which relays ", key);
  key_text_write(&from->config->key, key);
  snprintf(address + n, sizeof address - (size_t)n, "%.9s", key);
  uint8_t *frame = malloc(m->n_frame); /* it is opened in place */
  if (!frame) {
    peer_count(via, ERR_BACKLOG);
    return;
  }
  memcpy(frame, m->frame, m->n_frame);
  node_take_frame(g, conn_relayed(peer_index(g, via), peer_index(g, from)), address, frame, m->n_frame);
  free(frame);
}

void relay_on_relay(struct gossip *g, struct peer *p, const struct message *m) {
  if (m->relay.way == RELAY_FROM) {
    deliver(g, p, &m->relay);
    return;
  }
  enum err e = carry(g, p, &m->relay);
  struct message answer = {.type = MESSAGE_NOT_RELAYED, .not_relayed = {.key = m->relay.key, .reason = e}};
  if (e != ERR_OK && neighbour_judge(p) == ERR_OK) /* it may have come by a way that has just gone */
    send_message(g, p, &answer);
}

/* Of a frame that was lost alone nothing more is heard: messages are repeated by their own rules. */
void relay_on_not_relayed(struct gossip *g, struct peer *p, const struct message *m) {
  struct peer *to = peer_find(g, &m->not_relayed.key);
  if (!to) {
    peer_count(p, ERR_MESSAGE);
    return;
  }
  peer_count(p, m->not_relayed.reason);
  if (m->not_relayed.reason == ERR_BACKLOG)
    return;
  uint64_t conn = conn_relayed(peer_index(g, p), peer_index(g, to));
  bool is_tried = relay_conn(g, to) == conn && !peer_is_live_on(to, conn);
  session_lose_conn(g, to, conn);
  if (is_tried)
    route_fail(g, to, true);
}
