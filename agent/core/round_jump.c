#include "agent/core/round_machine.h"

/* No number above this one is believed: the job's last, else one that leaves room to count on. */
static uint64_t highest_round(const struct round_machine *m) {
  return m->config->count > 0 ? m->config->count : UINT64_C(1) << 62;
}

/* One that has no place yet vouches for nothing, for its model may not be of our group. */
static bool may_vouch(const struct round_peer *p) {
  return p->has_session && p->has_state && !p->is_quarantined && round_peer_refusal(p) == ERR_OK && p->is_placed &&
         p->affinity > 0;
}

/* The (f+1)-th highest committed round among the m peers with a session, f = ⌊m/3⌋: what f liars cannot make up. With
 * fewer than three peers f is 0 and a word alone would do: with `must_prove` such a peer vouches for no more than the
 * rounds of updates that it has signed. */
static uint64_t vouched_round(const struct round_machine *m, bool must_prove) {
  uint64_t rounds[MAX_PEERS] = {0};
  size_t n = 0, n_vouching = 0;
  for (size_t i = 0; i < m->self.n_peers; i++)
    n_vouching += may_vouch(&m->peers[i]);
  for (size_t i = 0; i < m->self.n_peers; i++) {
    if (!may_vouch(&m->peers[i]))
      continue;
    uint64_t round = round_peer_vouched(&m->peers[i], must_prove && n_vouching < 3);
    size_t at = n++;
    for (; at > 0 && rounds[at - 1] < round; at--)
      rounds[at] = rounds[at - 1];
    rounds[at] = round;
  }
  uint64_t vouched = n == 0 ? 0 : rounds[n / 3];
  return vouched < highest_round(m) ? vouched : highest_round(m);
}

bool machine_should_jump(const struct round_machine *m, uint64_t now_ms) {
  return now_ms >= m->next_jump_ms && vouched_round(m, false) >= m->reached.round + JUMP_FROM;
}

/* Who publishes r + 1 has committed r. */
static uint64_t shown_round(const struct round_peer *p) {
  uint64_t shown = p->inbox.held.round > 0 ? p->inbox.held.round - 1 : 0;
  return p->state.round > shown ? p->state.round : shown;
}

/* It trains and is behind. */
static bool is_behind(const struct round_machine *m, const struct round_peer *p) {
  enum phase phase = p->state.phase;
  bool rests = p->state.finished || phase == PHASE_ALONE || phase == PHASE_PAUSED || phase == PHASE_HALTED;
  return may_vouch(p) && !rests && shown_round(p) < m->reached.round;
}

/* Each of the n hears as many vouch as we do, with us in its own place: whatever the graph of a round is, and within a group. */
bool machine_marks_time(const struct round_machine *m) {
  size_t n = 0, n_ahead = 1, n_behind = 0;
  for (size_t i = 0; i < m->self.n_peers; i++) {
    n += may_vouch(&m->peers[i]);
    n_ahead += may_vouch(&m->peers[i]) && shown_round(&m->peers[i]) >= m->reached.round;
  }
  for (size_t i = 0; i < m->self.n_peers; i++)
    n_behind += is_behind(m, &m->peers[i]);
  return n_ahead <= n / 3 && n_behind >= n - n / 3;
}

/* Fetches what the live peers have now; a peer of which nothing is missing needs no copy. */
static void start(struct round_machine *m, bool adopts, uint64_t now_ms) {
  m->in_work = (struct round_label){.round = vouched_round(m, false)};
  m->is_adopting = adopts;
  m->started_ms = now_ms;
  m->wait_until_ms = now_ms + m->config->deadline_max_ms;
  for (size_t i = 0; i < m->self.n_peers; i++) {
    struct round_peer *p = &m->peers[i];
    p->has_offered = p->is_slow_to_download = false;
    if (round_peer_is_source(p) && !inbox_is_current(&p->inbox)) {
      inbox_want_full(&p->inbox);
      machine_look_after(m, i);
    }
  }
  machine_enter(m, PHASE_JUMPING);
}

void machine_jump(struct round_machine *m, uint64_t now_ms) {
  start(m, false, now_ms);
}

static bool has_source(const struct round_machine *m) {
  for (size_t i = 0; i < m->self.n_peers; i++)
    if (round_peer_is_source(&m->peers[i]))
      return true;
  return false;
}

/* A joiner of whom nobody has a model that it could take begins with its own. */
static void give_up(struct round_machine *m) {
  m->in_work = m->reached;
  m->wait_until_ms = 0;
  machine_enter(m, m->is_adopting && has_source(m) ? PHASE_MEETING : PHASE_IDLE);
}

void machine_jump_failed(struct round_machine *m, uint64_t now_ms) {
  m->next_jump_ms = now_ms + JUMP_RETRY_MS;
  give_up(m);
}

static bool is_ready(const struct round_peer *p) {
  return round_peer_is_source(p) && inbox_has_copy(&p->inbox);
}

/* Its copy may still come: it has shown an update, or has had less time than two questions take; and one that is slow to
 * download is not waited for when there is another's. */
static bool is_hopeful(const struct round_machine *m, const struct round_peer *p, size_t n_ready, uint64_t now_ms) {
  bool is_silent = !p->has_offered && now_ms >= m->started_ms + (uint64_t)2 * ANSWER_MS;
  bool is_needed = n_ready == 0 || !p->is_slow_to_download;
  return round_peer_is_source(p) && !is_ready(p) && !is_silent && is_needed;
}

/* Whoever claims more than it has signed has to show it from now on, so that nobody jumps for the same claim again. */
static void doubt_claims(struct round_machine *m) {
  for (size_t i = 0; i < m->self.n_peers; i++) {
    struct round_peer *p = &m->peers[i];
    if (!may_vouch(p) || p->must_prove || p->state.round <= p->signed_round)
      continue;
    p->must_prove = true;
    machine_note(m, "unproved-round", i, "it claims a round of which it has no update to show");
  }
}

/* Peers go on meanwhile: the label is that of the end of the fetch. */
void machine_tick_jumping(struct round_machine *m, uint64_t now_ms) {
  size_t n_ready = 0, n_hopeful = 0;
  for (size_t i = 0; i < m->self.n_peers; i++)
    n_ready += is_ready(&m->peers[i]);
  for (size_t i = 0; i < m->self.n_peers; i++)
    n_hopeful += is_hopeful(m, &m->peers[i], n_ready, now_ms);
  bool has_enough = n_hopeful == 0 || (m->is_adopting && n_ready >= MAX_ADOPTED_COPIES);
  if (!has_enough && now_ms < m->wait_until_ms)
    return;
  uint64_t vouched = vouched_round(m, true), least = m->is_adopting ? 1 : m->reached.round + JUMP_FROM;
  m->wait_until_ms = 0;
  if (vouched < least) {
    doubt_claims(m);
    give_up(m);
  } else if (n_ready == 0) {
    machine_jump_failed(m, now_ms);
  } else {
    m->in_work.round = vouched;
    machine_start_merge(m, m->is_adopting ? JOB_ADOPT : JOB_MERGE);
  }
}

/* Work can be equal from the first round on only where the peer has counted its samples; and a joiner's first model is its group's. */
static bool is_met(const struct round_machine *m, const struct round_peer *p) {
  return p->has_state && p->is_placed && (!m->config->is_steps_auto || p->epoch_steps > 0);
}

/* Peers not met by the end are absent until their HELLO: who has said it and whose STATE is on its way is not. */
void machine_tick_meeting(struct round_machine *m, uint64_t now_ms) {
  bool all_met = true;
  if (m->awaits_scale)
    return;
  for (size_t i = 0; i < m->self.n_peers; i++)
    all_met = all_met && (is_met(m, &m->peers[i]) || round_peer_refusal(&m->peers[i]) != ERR_OK);
  if ((!all_met && now_ms < m->wait_until_ms) || now_ms < m->next_jump_ms)
    return;
  for (size_t i = 0; i < m->self.n_peers; i++)
    m->peers[i].is_absent = !m->peers[i].has_hello;
  m->wait_until_ms = 0;
  if (vouched_round(m, false) > 0)
    start(m, true, now_ms);
  else
    machine_enter(m, PHASE_IDLE);
}
