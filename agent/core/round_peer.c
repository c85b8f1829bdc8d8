#include "agent/core/round_peer.h"

enum err round_peer_refused(const struct round_peer *p) {
  if (p->job_reason != ERR_OK)
    return p->job_reason;
  bool is_refused = p->link_reason == ERR_VERSION || p->link_reason == ERR_SWARM || p->link_reason == ERR_REFUSED;
  return is_refused ? p->link_reason : ERR_OK;
}

enum err round_peer_refusal(const struct round_peer *p) {
  enum err refused = round_peer_refused(p);
  return refused == ERR_OK && !p->is_followed ? ERR_NOT_NEIGHBOUR : refused;
}

bool round_peer_is_elsewhere(const struct round_peer *p) {
  return p->is_placed && p->affinity <= 0;
}

/* Why nothing of it may be merged, however fresh it is. */
static enum err exclusion_of(const struct round_peer *p) {
  if (p->is_quarantined)
    return ERR_QUARANTINED;
  if (round_peer_refusal(p) != ERR_OK)
    return round_peer_refusal(p);
  if (round_peer_is_elsewhere(p))
    return ERR_GROUP;
  return p->has_state && !p->state.follows && !p->is_one_way ? ERR_NOT_FOLLOWING : ERR_OK;
}

enum err round_peer_standing(const struct round_peer *p) {
  if (exclusion_of(p) != ERR_OK)
    return exclusion_of(p);
  bool is_resting = p->has_state && inbox_is_current(&p->inbox);
  if (is_resting && p->state.finished)
    return ERR_FINISHED;
  if (is_resting && (p->state.phase == PHASE_PAUSED || p->state.phase == PHASE_HALTED))
    return ERR_PAUSED;
  if (p->is_absent)
    return ERR_ABSENT;
  return p->is_slow ? ERR_SLOW : ERR_OK;
}

bool round_peer_has_spoken(const struct round_peer *p, struct round_label label) {
  const struct inbox *in = &p->inbox;
  uint64_t said = in->held.round > in->none_round ? in->held.round : in->none_round;
  bool is_newer = label.sub == 0 || chain_is_past(chain_mark(&in->held.position), p->seen);
  bool is_past = p->has_state && p->state.round_in_work > label.round && inbox_is_current(in);
  return said > label.round || (said == label.round && is_newer) || is_past;
}

uint64_t round_peer_vouched(const struct round_peer *p, bool must_prove) {
  bool is_proved = p->state.round <= p->signed_round || !(must_prove || p->must_prove);
  return is_proved ? p->state.round : p->signed_round;
}

bool round_peer_is_source(const struct round_peer *p) {
  return p->has_session && p->has_state && !p->is_quarantined && round_peer_refusal(p) == ERR_OK && p->is_placed &&
         p->affinity > 0 && p->state.round > 0 && p->inbox.newest.sequence > 0;
}

enum err round_peer_missing_reason(const struct round_peer *p) {
  enum err standing = round_peer_standing(p);
  if (!p->has_session && p->link_reason != ERR_OK && (standing == ERR_OK || standing == ERR_ABSENT))
    return p->link_reason;
  if (standing != ERR_OK)
    return standing;
  if (!p->has_session)
    return ERR_NO_SESSION;
  return p->inbox.none_round > p->inbox.held.round ? ERR_NO_UPDATE : ERR_LATE;
}

enum err round_peer_copy_check(const struct round_peer *p) {
  if (exclusion_of(p) != ERR_OK)
    return exclusion_of(p);
  if (!p->is_chosen && !p->is_one_way)
    return ERR_NOT_NEIGHBOUR;
  if (!p->is_placed)
    return ERR_GROUP;
  if (p->next.mark.sequence == 0)
    return round_peer_missing_reason(p);
  if (p->next.samples == 0)
    return ERR_ZERO_SAMPLES;
  return p->next.samples > MAX_SAMPLES ? ERR_ABSURD_SAMPLES : ERR_OK;
}

bool round_peer_has_advanced(const struct round_peer *p) {
  return chain_is_past(p->next.mark, p->merged);
}

enum err round_peer_gather_ended(struct round_peer *p, bool was_awaited) {
  p->has_news = false;
  p->seen = chain_mark(&p->inbox.held.position);
  if (p->is_heard) {
    p->missed_without_session = p->missed_with_session = 0;
    return ERR_OK;
  }
  if (!was_awaited)
    return ERR_OK;
  if (p->has_session) {
    p->is_slow = ++p->missed_with_session >= SLOW_AFTER;
    return p->is_slow ? ERR_SLOW : ERR_OK;
  }
  p->is_absent = ++p->missed_without_session >= ABSENT_AFTER;
  return p->is_absent ? ERR_ABSENT : ERR_OK;
}
