#include "gossip/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- when ----------------------------------------------------------------------------------------------------------- */

/* A session over a third does not end the search for a direct one. */
static bool has_direct_session(const struct peer *p) {
  return p->slots[SLOT_LIVE] && !conn_is_relayed(p->slots[SLOT_LIVE]->conn);
}

/* Lost not long ago: it will be back soon. */
static bool is_brisk(const struct gossip *g, const struct peer *p) {
  return node_now(g) - p->down_ms < DIAL_BRISK_MS;
}

uint64_t peer_back_off_ms(struct gossip *g, uint64_t since_ms, uint64_t min_ms, uint64_t max_ms) {
  uint64_t wait_ms = (node_now(g) - since_ms) / 8;
  wait_ms = wait_ms < min_ms ? min_ms : wait_ms > max_ms ? max_ms : wait_ms;
  return wait_ms / 2 + rng_below(&g->rng, wait_ms + 1);
}

/* At once, then after the back-off since the last settled session: at most half a second in the first minute, every 30 s after a
 * long time. */
static uint64_t wait_ms(struct gossip *g, const struct peer *p) {
  if (p->n_dials == 0)
    return 0;
  uint64_t max_ms = is_brisk(g, p) ? DIAL_BRISK_BACK_OFF_MAX_MS : DIAL_BACK_OFF_MAX_MS;
  uint64_t in_ms = peer_back_off_ms(g, p->down_ms, DIAL_BACK_OFF_MIN_MS, max_ms);
  return in_ms < DIAL_BACK_OFF_MAX_MS ? in_ms : DIAL_BACK_OFF_MAX_MS;
}

void dial_later(struct gossip *g, struct peer *p) {
  if (!peer_is_dialled(p) || has_direct_session(p) || g->is_closing)
    return;
  uint64_t banned_ms = peer_is_banned(g, p) ? p->banned_until_ms - node_now(g) : 0, in_ms = wait_ms(g, p);
  timer_set(g, p, TIMER_DIAL, in_ms > banned_ms ? in_ms : banned_ms);
}

void dial_resume(struct gossip *g, struct peer *p) {
  if (!p->is_connected && p->timers[TIMER_DIAL] == TIMER_OFF && p->timers[TIMER_DIAL_PATIENCE] == TIMER_OFF)
    dial_later(g, p);
}

/* Of the last dial. */
static const char *address_of(const struct peer *p) {
  return p->dialled ? p->dialled : p->config->address;
}

/* Why there is no session; where one goes over a third there is nothing to explain. */
static void __attribute__((format(printf, 4, 5)))
dial_explain(struct gossip *g, struct peer *p, enum err reason, const char *format, ...) {
  char sentence[MAX_REASON_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  if (!p->slots[SLOT_LIVE])
    peer_explain(g, p, reason, "%s", sentence);
}

/* ---- how ------------------------------------------------------------------------------------------------------------ */

/* The dialled connection does not exist any more. */
static void dial_clear(struct gossip *g, struct peer *p) {
  p->is_connected = false;
  timer_clear(g, p, TIMER_DIAL);
  timer_clear(g, p, TIMER_DIAL_PATIENCE);
  timer_clear(g, p, TIMER_NO_ANSWER);
  if (p->noise_via == 0)
    handshake_forget(g, p);
}

/* How long a connection may take. What a link drops the kernel sends again after 1, 3, 7 … s, so a link that has healed
 * is found sooner by a new try than by waiting for the old one. */
static uint64_t patience_ms(const struct gossip *g, const struct peer *p) {
  double trips_ms = DIAL_BRISK_ROUND_TRIPS * p->fetches.rtt_ms; /* negative: it was never met */
  if (!is_brisk(g, p) || trips_ms < 0 || trips_ms > DIAL_PATIENCE_MS)
    return DIAL_PATIENCE_MS;
  return trips_ms > DIAL_BRISK_PATIENCE_MS ? (uint64_t)trips_ms : DIAL_BRISK_PATIENCE_MS;
}

/* The configured address first, then in turn with those where the peer itself says that it is, if it has moved. */
static void choose_address(const struct gossip *g, struct peer *p) {
  bool is_second = p->n_dials % 2 == 0;
  char other[MAX_ADDRESS_BYTES];
  free(p->dialled);
  p->dialled = is_second && membership_address(g, p, p->n_dials / 2 - 1, other) ? strdup(other) : NULL;
}

void dial_now(struct gossip *g, struct peer *p) {
  p->n_dials++;
  choose_address(g, p);
  timer_set(g, p, TIMER_DIAL_PATIENCE, patience_ms(g, p));
  g->link.calls->dial(g->link.context, peer_index(g, p), address_of(p));
}

void dial_stop(struct gossip *g, struct peer *p) {
  if (!peer_is_dialled(p))
    return;
  dial_clear(g, p);
  g->link.calls->hang_up(g->link.context, peer_index(g, p));
  dial_later(g, p);
}

void dial_give_up(struct gossip *g, struct peer *p) {
  if (!p->is_connected)
    dial_explain(g, p, ERR_UNREACHABLE, "no connection to %s: nothing answers there", address_of(p));
  dial_stop(g, p);
}

void dial_say_no_answer(struct gossip *g, struct peer *p) {
  dial_explain(g, p, ERR_NO_ANSWER,
               "connected to %s, no session: its key differs from the config or it does not know ours", address_of(p));
}

/* ---- what became of it ----------------------------------------------------------------------------------------------- */

static void on_connected(struct gossip *g, struct peer *p) {
  p->is_connected = true;
  p->n_strange = 0;
  timer_set(g, p, TIMER_DIAL_PATIENCE, DIAL_PATIENCE_MS);
  timer_set(g, p, TIMER_NO_ANSWER, NO_ANSWER_MS);
  handshake_over(g, p, peer_index(g, p));
}

static void explain_failure(struct gossip *g, struct peer *p, enum dial_event event) {
  const char *address = address_of(p);
  if (event == DIAL_FAILED)
    dial_explain(g, p, ERR_UNREACHABLE, "no connection to %s", address);
  else if (event == DIAL_GARBLED)
    dial_explain(g, p, ERR_NO_ANSWER, "what answers at %s is not an agent", address);
  else if (event == DIAL_REFUSED)
    dial_explain(g, p, ERR_GATE, "%s takes no more connections without a session now", address);
}

void dial_on_event(struct gossip *g, struct peer *p, enum dial_event event) {
  if (event == DIAL_CONNECTED) {
    on_connected(g, p);
    return;
  }
  dial_clear(g, p);
  session_lose_conn(g, p, peer_index(g, p));
  if (has_direct_session(p))
    return;
  explain_failure(g, p, event);
  dial_later(g, p);
}

bool dial_take_frame(struct gossip *g, struct peer *p) {
  if (!p->is_connected || ++p->n_strange <= MAX_GATE_FRAMES)
    return true;
  dial_explain(g, p, ERR_NO_ANSWER, "what answers at %s floods us and is not the peer", address_of(p));
  dial_stop(g, p);
  return false;
}
