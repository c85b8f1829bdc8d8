#include "gossip/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crypto/random.h"

/* ---- slots ---------------------------------------------------------------------------------------------------------- */

static void slot_free(const struct gossip *g, struct slot *s) {
  if (s)
    g->seals->session_free(s->session);
  free(s);
}

static void slot_clear(const struct gossip *g, struct slot **place) {
  slot_free(g, *place);
  *place = NULL;
}

void slots_free(const struct gossip *g, struct peer *p) {
  for (size_t i = 0; i < N_SLOTS; i++)
    slot_clear(g, &p->slots[i]);
  free(p->retired);
}

/* The end of a session that was live. */
static void slot_retire(const struct gossip *g, struct peer *p, struct slot **place) {
  const struct slot *s = *place;
  if (s && !p->retired)
    p->retired = calloc(MAX_RETIRED, sizeof *p->retired);
  if (s && p->retired)
    p->retired[p->n_retired++ % MAX_RETIRED] = (struct retired){s->session->ends.own_index, s->conn};
  slot_clear(g, place);
}

/* The end of a session whose initiator has not proven its key: its first message may have been a replay. */
static void slot_disprove(struct gossip *g, struct peer *p, struct slot **place) {
  if (*place)
    peer_count(conn_blamed(g, p, (*place)->conn), ERR_HANDSHAKE);
  slot_clear(g, place);
}

/* A session index names the peer in its low byte, so that a frame finds its session without a search. */
_Static_assert(MAX_PEERS <= 256, "a peer's index fits in one byte");

static bool index_is_used(const struct peer *p, uint32_t index) {
  for (size_t i = 0; i < N_SLOTS; i++)
    if (p->slots[i] && p->slots[i]->session->ends.own_index == index)
      return true;
  return p->noise && p->noise_index == index;
}

static uint32_t index_new(const struct gossip *g, const struct peer *p) {
  uint32_t index;
  do {
    index = (uint32_t)(random_u64() << 8) | (uint32_t)peer_index(g, p);
  } while (index >> 8 == 0 || index_is_used(p, index));
  return index;
}

/* Why an index that names no session on this connection is refused, and whom it counts against. */
static void index_blame(struct gossip *g, uint32_t index, uint64_t conn, const char *address) {
  struct peer *p = (index & 0xff) < g->n_peers ? &g->peers[index & 0xff] : NULL;
  for (size_t i = 0; p && p->retired && i < MAX_RETIRED; i++)
    if (index != 0 && p->retired[i].index == index && p->retired[i].conn == conn) {
      peer_count(conn_blamed(g, p, conn), ERR_KEY_EXPIRED);
      return;
    }
  frame_blame(g, conn, address, ERR_FRAME);
}

static struct slot **slot_find(struct gossip *g, uint32_t index, uint64_t conn, struct peer **out_peer) {
  if ((index & 0xff) >= g->n_peers)
    return NULL;
  struct peer *p = &g->peers[index & 0xff];
  for (size_t i = 0; i < N_SLOTS; i++) {
    const struct slot *s = p->slots[i];
    if (s && s->session->ends.own_index == index && s->conn == conn) {
      *out_peer = p;
      return &p->slots[i];
    }
  }
  return NULL;
}

/* ---- the end -------------------------------------------------------------------------------------------------------- */

static void conn_close(struct gossip *g, struct peer *p, uint64_t conn) {
  if (conn_is_accepted(conn))
    g->link.calls->kick(g->link.context, conn);
  else if (conn_is_relayed(conn))
    relay_close(g, p, conn);
  else
    dial_stop(g, p);
}

/* The connection over which our handshake goes. */
static uint64_t noise_conn(const struct gossip *g, const struct peer *p) {
  return p->noise_via > 0 ? conn_relayed(p->noise_via - 1u, peer_index(g, p)) : peer_index(g, p);
}

/* The session, which went over conn, no longer counts: what waited is forgotten and the agent is told. */
static void session_down(struct gossip *g, struct peer *p, uint64_t conn, enum err reason) {
  static const enum timer timers[] = {TIMER_GREETING, TIMER_REKEY, TIMER_EXPIRE,
                                      TIMER_SILENCE,  TIMER_BEAT,  TIMER_STATE};
  bool was_up = p->info.has_session;
  p->info.has_session = false;
  peer_tell(g, p);
  p->is_greeted = false;
  if (!conn_is_relayed(conn) && node_now(g) - p->live_ms >= SETTLED_MS) {
    p->down_ms = node_now(g);
    p->n_dials = 0;
  }
  for (size_t i = 0; i < sizeof timers / sizeof *timers; i++)
    timer_clear(g, p, timers[i]);
  if (noise_conn(g, p) == conn || conn_is_accepted(conn))
    handshake_forget(g, p);
  send_forget(g, p);
  receive_fail_fetches(g, p, ERR_NO_SESSION);
  relay_on_down(g, p, conn);
  if (!was_up)
    return;
  membership_down(g, p);
  g->events->on_session(g->config.events_context, peer_index(g, p), false, reason);
}

void session_end(struct gossip *g, struct peer *p, enum err reason) {
  if (!p->slots[SLOT_LIVE])
    return;
  uint64_t conn = p->slots[SLOT_LIVE]->conn;
  slot_retire(g, p, &p->slots[SLOT_LIVE]);
  session_forget_previous(g, p);
  session_down(g, p, conn, reason);
  conn_close(g, p, conn);
  dial_resume(g, p);
}

static bool is_on(const struct slot *s, uint64_t conn) {
  return s && s->conn == conn;
}

void session_lose_conn(struct gossip *g, struct peer *p, uint64_t conn) {
  for (enum slot_name i = SLOT_PENDING; i < N_SLOTS; i++)
    if (is_on(p->slots[i], conn))
      slot_disprove(g, p, &p->slots[i]);
  if (is_on(p->slots[SLOT_PREVIOUS], conn))
    slot_retire(g, p, &p->slots[SLOT_PREVIOUS]);
  if (is_on(p->slots[SLOT_LIVE], conn)) {
    peer_explain(g, p, ERR_NO_SESSION, "the connection was lost");
    session_end(g, p, ERR_NO_SESSION);
  }
}

void session_expire(struct gossip *g, struct peer *p) {
  peer_explain(g, p, ERR_NO_SESSION, "the session's keys were not renewed in time");
  session_end(g, p, ERR_KEY_EXPIRED);
}

/* Some beats, and while a payload comes the time of one chunk over the slowest link that it may come by. */
static uint64_t silence_ms(const struct gossip *g, struct peer *p) {
  const struct fetch *fetch = fetch_running(&p->fetches, NULL);
  uint64_t beats_ms = p->beat_s > 0 ? MAX_BEATS_MISSED * session_beat_ms(g, p) : SILENCE_MS;
  uint64_t chunk = !fetch ? 0 : fetch->manifest.n_payload < CHUNK_BYTES ? fetch->manifest.n_payload : CHUNK_BYTES;
  return beats_ms + chunk * FETCH_RATE_MS / FETCH_RATE_BYTES;
}

static void session_heard(struct gossip *g, struct peer *p) {
  p->info.last_heard_ms = node_now(g);
  timer_set(g, p, TIMER_SILENCE, silence_ms(g, p));
  membership_heard(g, p);
}

void session_silent(struct gossip *g, struct peer *p) {
  uint64_t quiet_ms = node_now(g) - p->info.last_heard_ms, limit_ms = silence_ms(g, p);
  if (quiet_ms < limit_ms || g->late_ms > AWAY_MS) {
    timer_set(g, p, TIMER_SILENCE, quiet_ms < limit_ms ? limit_ms - quiet_ms : AWAY_GRACE_MS);
    return;
  }
  peer_explain(g, p, ERR_NO_SESSION, "nothing was heard for %d s", (int)(limit_ms / 1000));
  session_end(g, p, ERR_TIMED_OUT);
}

void session_ungreeted(struct gossip *g, struct peer *p) {
  peer_explain(g, p, ERR_NO_ANSWER, "the handshake succeeded, but it does not say HELLO");
  session_end(g, p, ERR_NO_ANSWER);
}

void session_forget_previous(struct gossip *g, struct peer *p) {
  if (!p->slots[SLOT_PREVIOUS])
    return;
  uint64_t conn = p->slots[SLOT_PREVIOUS]->conn;
  slot_retire(g, p, &p->slots[SLOT_PREVIOUS]);
  timer_clear(g, p, TIMER_PREVIOUS);
  if (p->slots[SLOT_LIVE] && p->slots[SLOT_LIVE]->conn != conn)
    conn_close(g, p, conn);
}

void session_forget_pending(struct gossip *g, struct peer *p) {
  for (enum slot_name i = SLOT_PENDING; i < N_SLOTS; i++) {
    if (!p->slots[i])
      continue;
    uint64_t age_ms = node_now(g) - p->slots[i]->begun_ms;
    if (age_ms >= PENDING_KEEP_MS)
      slot_disprove(g, p, &p->slots[i]);
    else
      timer_set(g, p, TIMER_PENDING, PENDING_KEEP_MS - age_ms);
  }
}

/* ---- the beginning --------------------------------------------------------------------------------------------------- */

/* Of two sessions with one agent a direct one stays rather than one over a third; of two alike the one that the lower key
 * began; of two from the same side the newer. */
static bool is_preferred(const struct gossip *g, const struct peer *p, const struct slot *live,
                         const struct slot *fresh) {
  if (conn_is_relayed(live->conn) != conn_is_relayed(fresh->conn))
    return conn_is_relayed(live->conn);
  bool we_are_lower = identity_key_compare(&g->self.key, &p->config->key) < 0;
  bool live_is_ours = live->session->ends.is_initiator, fresh_is_ours = fresh->session->ends.is_initiator;
  return live_is_ours == fresh_is_ours || fresh_is_ours == we_are_lower;
}

static void session_arm(struct gossip *g, struct peer *p, const struct slot *live) {
  timer_clear(g, p, TIMER_REKEY);
  if (live->session->ends.is_initiator)
    timer_set(g, p, TIMER_REKEY, SESSION_REKEY_MS);
  timer_set(g, p, TIMER_EXPIRE, SESSION_EXPIRE_MS);
  session_heard(g, p);
  if (p->slots[SLOT_PREVIOUS])
    timer_set(g, p, TIMER_PREVIOUS, PREVIOUS_KEEP_MS);
}

/* A session on a connection that had none: HELLO is its first word, and there is one connection a peer. */
static void session_begin_on(struct gossip *g, struct peer *p, uint64_t conn) {
  p->is_greeted = false;
  p->beat_s = 0;
  p->n_hellos = p->n_own_hellos = 0;
  timer_set(g, p, TIMER_GREETING, DIAL_PATIENCE_MS);
  if (!conn_is_relayed(conn)) {
    timer_clear(g, p, TIMER_DIAL);
    timer_clear(g, p, TIMER_DIAL_PATIENCE);
    timer_clear(g, p, TIMER_NO_ANSWER);
    relay_stop(g, p);
  } else {
    dial_resume(g, p);
  }
  if (conn_is_accepted(conn)) {
    g->link.calls->set_session(g->link.context, conn, true);
    dial_stop(g, p);
  }
  fetches_renew(&p->fetches);
  send_forget(g, p);
  send_hello(g, p);
}

/* `fresh`, in no place and moved in, is proven: it becomes the live session, or, when another one is preferred, ends. begins: the
 * other side speaks as in a session that is new to it. A relayed connection does not end with its sessions, so one that it
 * has lost is not renewed there. */
static bool session_adopt(struct gossip *g, struct peer *p, struct slot *fresh, bool begins) {
  struct slot *live = p->slots[SLOT_LIVE];
  uint64_t conn = fresh->conn;
  bool is_late = live && conn_is_relayed(conn) && !conn_is_relayed(live->conn) && fresh->boot_epoch < live->boot_epoch;
  bool is_restart = live && live->boot_epoch != fresh->boot_epoch && !is_late;
  if (live && !is_restart && live->conn != conn && !is_preferred(g, p, live, fresh)) {
    slot_free(g, fresh);
    conn_close(g, p, conn);
    return false;
  }
  if (is_restart)
    session_down(g, p, live->conn, ERR_NO_SESSION);
  live = p->slots[SLOT_LIVE]; /* the callbacks may have ended it */
  bool is_rekey = live && !is_restart && live->conn == conn && !(begins && conn_is_relayed(conn));
  uint64_t old_conn = live && !is_rekey && !is_restart ? live->conn : CONN_NONE;
  if (!live || is_restart || conn_is_relayed(live->conn) != conn_is_relayed(conn))
    p->live_ms = node_now(g);
  if (live) {
    slot_retire(g, p, &p->slots[SLOT_PREVIOUS]);
    p->slots[SLOT_PREVIOUS] = live;
  }
  p->slots[SLOT_LIVE] = fresh;
  session_arm(g, p, fresh);
  if (is_rekey)
    send_states(g, p); /* any frame of ours proves our key */
  else
    session_begin_on(g, p, conn);
  if (old_conn != CONN_NONE && conn_is_accepted(old_conn))
    g->link.calls->kick(g->link.context, old_conn);
  return true;
}

void session_greeted(struct gossip *g, struct peer *p) {
  bool was_up = p->info.has_session;
  timer_clear(g, p, TIMER_GREETING);
  p->is_greeted = true;
  p->info.has_session = true;
  p->info.boot_epoch = p->slots[SLOT_LIVE]->boot_epoch;
  send_beat(g, p);
  send_states(g, p);
  relay_on_up(g, p);
  if (was_up)
    return;
  membership_up(g, p);
  g->events->on_session(g->config.events_context, peer_index(g, p), true, ERR_OK);
}

/* ---- handshake, initiator -------------------------------------------------------------------------------------------- */

void handshake_forget(struct gossip *g, struct peer *p) {
  g->seals->noise_free(p->noise);
  p->noise = NULL;
  p->noise_via = 0;
  timer_clear(g, p, TIMER_HANDSHAKE);
}

static struct offer offer_of(const struct gossip *g, uint32_t index) {
  struct offer o = {.version_min = g->config.version_min,
                    .version_max = g->config.version_max,
                    .session_index = index,
                    .boot_epoch = g->config.boot_epoch};
  memcpy(o.swarm, g->config.swarm, sizeof o.swarm);
  return o;
}

/* Whether a handshake of ours can go that way. */
static bool is_way(const struct gossip *g, const struct peer *p, uint64_t conn) {
  return conn_is_relayed(conn) ? relay_conn(g, p) == conn : conn == peer_index(g, p) && p->is_connected;
}

void handshake_repeat(struct gossip *g, struct peer *p) {
  uint64_t conn = noise_conn(g, p);
  if (is_way(g, p, conn))
    handshake_over(g, p, conn);
}

void handshake_rekey(struct gossip *g, struct peer *p) {
  const struct slot *live = p->slots[SLOT_LIVE];
  if (live && is_way(g, p, live->conn))
    handshake_over(g, p, live->conn);
}

void handshake_over(struct gossip *g, struct peer *p, uint64_t conn) {
  handshake_forget(g, p);
  uint8_t frame[HANDSHAKE_1_BYTES];
  uint32_t index = index_new(g, p);
  struct offer offer = offer_of(g, index);
  enum err e = g->seals->write_1(&g->self, p->x25519, &offer, &p->noise, frame);
  timer_set(g, p, TIMER_HANDSHAKE, HANDSHAKE_RETRY_MS / 2 + rng_below(&g->rng, HANDSHAKE_RETRY_MS));
  if (e != ERR_OK) {
    peer_count(p, e);
    return;
  }
  p->noise_index = index;
  p->noise_ms = node_now(g);
  p->noise_via = conn_is_relayed(conn) ? (uint16_t)(1 + conn_via(conn)) : 0;
  send_handshake(g, p, conn, frame, sizeof frame);
}

void session_check_rekey(struct gossip *g, struct peer *p) {
  const struct slot *live = p->slots[SLOT_LIVE];
  bool is_under_way = live && p->noise && noise_conn(g, p) == live->conn;
  if (live && live->session->ends.is_initiator && !is_under_way && session_wants_rekey(live->session, node_now(g)))
    timer_set(g, p, TIMER_REKEY, 0);
}

/* Both sides of a refused handshake say the same. */
static void explain_verdict(struct gossip *g, struct peer *p, enum err verdict, const struct offer *theirs) {
  if (verdict == ERR_SWARM)
    peer_explain(g, p, ERR_SWARM, "it belongs to another swarm: `swarm` differs in the two site files");
  else
    peer_explain(g, p, ERR_VERSION, "it speaks protocol version %u to %u, we speak %u to %u", theirs->version_min,
                 theirs->version_max, g->config.version_min, g->config.version_max);
}

/* Whether we go together with whoever made the offer, and in which version. */
static enum err offer_judge(const struct gossip *g, const struct offer *theirs, uint16_t *out_version) {
  *out_version = 0;
  if (memcmp(theirs->swarm, g->config.swarm, sizeof theirs->swarm) != 0)
    return ERR_SWARM;
  uint16_t highest = theirs->version_max < g->config.version_max ? theirs->version_max : g->config.version_max;
  if (highest < theirs->version_min || highest < g->config.version_min)
    return ERR_VERSION;
  *out_version = highest;
  return ERR_OK;
}

static enum err slot_new(struct gossip *g, struct noise *n, uint64_t conn, uint32_t own_index,
                         const struct offer *theirs, uint16_t version, bool is_initiator, struct slot **out_slot) {
  struct session_ends ends = {own_index, theirs->session_index, is_initiator};
  struct slot *s = malloc(sizeof *s);
  if (!s)
    return ERR_NO_MEMORY;
  *s = (struct slot){.conn = conn, .boot_epoch = theirs->boot_epoch, .begun_ms = node_now(g), .version = version};
  enum err e = g->seals->session_new(n, &ends, node_now(g), &s->session);
  if (e == ERR_OK)
    *out_slot = s;
  else
    free(s);
  return e;
}

void session_on_handshake_2(struct gossip *g, uint64_t conn, const char *address, const struct frame_head *head,
                            const uint8_t *frame, size_t n) {
  if (conn_is_accepted(conn)) {
    frame_blame(g, conn, address, ERR_FRAME);
    return;
  }
  struct peer *p = &g->peers[conn_peer(conn)];
  if (!p->noise || noise_conn(g, p) != conn || head->session_index != p->noise_index) {
    peer_count(conn_blamed(g, p, conn), ERR_FRAME); /* the answer to an earlier try, or a replay */
    return;
  }
  struct answer answer;
  enum err e = g->seals->read_2(p->noise, head, frame, n, &answer);
  if (e != ERR_OK) {
    peer_count(conn_blamed(g, p, conn), e);
    return;
  }
  uint16_t version;
  enum err verdict = offer_judge(g, &answer.own, &version);
  if (answer.verdict != ERR_OK || verdict != ERR_OK || version != answer.version) {
    enum err reason = answer.verdict != ERR_OK ? answer.verdict : verdict != ERR_OK ? verdict : ERR_VERSION;
    explain_verdict(g, p, reason, &answer.own);
    handshake_forget(g, p);
    session_end(g, p, reason);
    conn_close(g, p, conn);
    return;
  }
  struct slot *fresh;
  e = slot_new(g, p->noise, conn, p->noise_index, &answer.own, version, true, &fresh);
  fetches_add_rtt(&p->fetches, node_now(g) - p->noise_ms);
  handshake_forget(g, p);
  if (e == ERR_OK)
    (void)session_adopt(g, p, fresh, false);
}

/* ---- handshake, responder -------------------------------------------------------------------------------------------- */

static struct peer *peer_of_static(struct gossip *g, const uint8_t x25519[X25519_BYTES]) {
  for (size_t i = 0; i < g->n_peers; i++)
    if (memcmp(g->peers[i].x25519, x25519, X25519_BYTES) == 0)
      return &g->peers[i];
  return NULL;
}

/* Of who relays each has one of two places, so that what one replays cannot push out what comes over another; the live session's
 * has one in any case. */
static struct slot **relayed_place(struct peer *p, uint64_t conn) {
  struct slot **places[] = {&p->slots[SLOT_PENDING_2], &p->slots[SLOT_PENDING_3]};
  for (size_t i = 0; i < 2; i++)
    if (is_on(*places[i], conn))
      return places[i];
  for (size_t i = 0; i < 2; i++)
    if (!*places[i])
      return places[i];
  return is_on(p->slots[SLOT_LIVE], conn) ? &p->slots[SLOT_PENDING_3] : NULL;
}

/* Where a session that is not yet proven waits: two a peer, so that a replayed message 1 cannot push out a real one
 * that comes by another connection. The second is lent to who relays. NULL: none. */
static struct slot **pending_place(struct peer *p, uint64_t conn) {
  struct slot **a = &p->slots[SLOT_PENDING], **b = &p->slots[SLOT_PENDING_2];
  if (conn_is_relayed(conn))
    return relayed_place(p, conn);
  if (is_on(*b, conn))
    return b;
  if (!*a || is_on(*a, conn))
    return a;
  return !*b || conn_is_relayed((*b)->conn) || (*b)->begun_ms <= (*a)->begun_ms ? b : a;
}

static void handshake_answer(struct gossip *g, struct peer *p, uint64_t conn, struct noise *n,
                             const struct offer *theirs) {
  uint8_t frame[HANDSHAKE_2_BYTES];
  struct answer answer = {0};
  answer.verdict = offer_judge(g, theirs, &answer.version);
  uint32_t index = answer.verdict == ERR_OK ? index_new(g, p) : 0;
  answer.own = offer_of(g, index);
  enum err e = g->seals->write_2(n, theirs->session_index, &answer, frame);
  if (e == ERR_OK && answer.verdict == ERR_OK) {
    struct slot **place = pending_place(p, conn);
    if (!place)
      return;
    slot_disprove(g, p, place);
    if (p->timers[TIMER_PENDING] == TIMER_OFF)
      timer_set(g, p, TIMER_PENDING, PENDING_KEEP_MS);
    e = slot_new(g, n, conn, index, theirs, answer.version, false, place);
  }
  if (e != ERR_OK) {
    peer_count(p, e);
    return;
  }
  send_handshake(g, p, conn, frame, sizeof frame);
  if (answer.verdict != ERR_OK && !p->slots[SLOT_LIVE])
    explain_verdict(g, p, answer.verdict, theirs);
}

/* A handshake that belongs to nobody: silence, counted by address. */
static void handshake_refuse(struct gossip *g, const char *address, enum err reason) {
  char text[MAX_REASON_BYTES];
  strangers_count(&g->strangers, address, reason, node_now(g));
  snprintf(text, sizeof text, "handshake from %.100s: %s", address, err_sentence(reason));
  notes_put(&g->notes, node_now(g), SIZE_MAX, reason, text);
}

void session_on_handshake_1(struct gossip *g, uint64_t conn, const char *address, const struct frame_head *head,
                            const uint8_t *frame, size_t n) {
  bool is_begun = conn_is_accepted(conn) || relay_may_answer(g, conn);
  enum err e = is_begun ? g->seals->check_1(&g->self, head, frame, n) : ERR_FRAME;
  if (e == ERR_OK && !strangers_allow(&g->strangers, address, node_now(g)))
    e = ERR_BACKLOG;
  struct noise *noise = NULL;
  struct offer offer;
  if (e == ERR_OK)
    e = g->seals->read_1(&g->self, frame, &noise, &offer);
  struct peer *p = e == ERR_OK ? peer_of_static(g, g->seals->static_of_peer(noise)) : NULL;
  if (p && conn_is_relayed(conn) && peer_index(g, p) != conn_peer(conn)) { /* it was said to be of another */
    p = NULL;
    e = ERR_HANDSHAKE;
  }
  if (p && peer_is_banned(g, p))
    peer_count(p, ERR_BACKLOG);
  else if (p)
    handshake_answer(g, p, conn, noise, &offer);
  else
    handshake_refuse(g, address, e == ERR_OK ? ERR_UNKNOWN_KEY : e);
  g->seals->noise_free(noise);
}

/* ---- frames ---------------------------------------------------------------------------------------------------------- */

static void slot_blame(struct gossip *g, struct peer *p, struct slot **place, enum err e) {
  struct slot *s = *place;
  peer_count(conn_blamed(g, p, s->conn), e);
  if (e == ERR_SEAL)
    s->n_bad_seals++;
  if (e != ERR_KEY_EXPIRED && s->n_bad_seals <= MAX_BAD_SEALS)
    return;
  if (place == &p->slots[SLOT_LIVE]) {
    peer_explain(g, p, ERR_NO_SESSION, "the session was ended: %s", err_sentence(e));
    session_end(g, p, e);
  } else {
    slot_clear(g, place);
  }
}

/* The session that a newer one of another boot epoch has replaced still speaks: two agents run with one key. */
static void clone_found(struct gossip *g, struct peer *p) {
  notes_put(&g->notes, node_now(g), peer_index(g, p), ERR_CLONE, err_sentence(ERR_CLONE));
  peer_count(p, ERR_CLONE);
  session_forget_previous(g, p);
}

struct peer *session_open(struct gossip *g, uint64_t conn, const char *address, const struct frame_head *head,
                          uint8_t *frame) {
  struct peer *p;
  struct slot **place = slot_find(g, head->session_index, conn, &p);
  if (!place) {
    index_blame(g, head->session_index, conn, address);
    return NULL;
  }
  enum err e = g->seals->open((*place)->session, node_now(g), head, frame);
  if (e != ERR_OK) {
    slot_blame(g, p, place, e);
    return NULL;
  }
  const struct slot *live = p->slots[SLOT_LIVE];
  if (place == &p->slots[SLOT_PREVIOUS] && (*place)->boot_epoch != live->boot_epoch) {
    if (node_now(g) - live->begun_ms >= CLONE_AFTER_MS && !conn_is_relayed(conn)) /* who relays may have kept it */
      clone_found(g, p);
    return NULL;
  }
  if (place >= &p->slots[SLOT_PENDING]) {
    if (peer_is_banned(g, p)) { /* begun before the ban */
      peer_count(p, ERR_BACKLOG);
      slot_clear(g, place);
      return NULL;
    }
    struct slot *proven = *place;
    *place = NULL;
    fetches_add_rtt(&p->fetches, node_now(g) - proven->begun_ms);
    if (!session_adopt(g, p, proven, head->type == MESSAGE_HELLO))
      return NULL;
  }
  session_heard(g, p);
  return p;
}
