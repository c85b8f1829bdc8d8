#include "agent/core/round_machine.h"

/* No number above this one is believed: the job's last, else one that leaves room to count on. */
static uint64_t highest_round(const struct round_machine *m) {
  return m->config.count > 0 ? m->config.count : UINT64_C(1) << 62;
}

/* The (f+1)-th highest committed round among the m peers with a session, f = ⌊m/3⌋: what f liars cannot make up. */
static uint64_t vouched_round(const struct round_machine *m) {
  uint64_t rounds[MAX_PEERS];
  size_t n = 0;
  for (size_t i = 0; i < m->config.n_peers; i++) {
    const struct round_peer *p = &m->peers[i];
    if (!p->has_session || !p->has_state || p->is_quarantined || round_peer_refusal(p) != ERR_OK)
      continue;
    size_t at = n++;
    for (; at > 0 && rounds[at - 1] < p->state.round; at--)
      rounds[at] = rounds[at - 1];
    rounds[at] = p->state.round;
  }
  uint64_t vouched = n == 0 ? 0 : rounds[n / 3];
  return vouched < highest_round(m) ? vouched : highest_round(m);
}

bool machine_should_jump(const struct round_machine *m, uint64_t now_ms) {
  return now_ms >= m->next_jump_ms && vouched_round(m) >= m->reached.round + 2;
}

/* Fetches what the live peers have now; a peer of which nothing is missing needs no copy. */
static void start(struct round_machine *m, bool adopts, uint64_t now_ms) {
  m->in_work = (struct round_label){.round = vouched_round(m)};
  m->is_adopting = adopts;
  m->started_ms = now_ms;
  m->wait_until_ms = now_ms + m->config.deadline_max_ms;
  for (size_t i = 0; i < m->config.n_peers; i++)
    if (round_peer_is_source(&m->peers[i]) && !inbox_is_current(&m->peers[i].inbox))
      inbox_want_full(&m->peers[i].inbox);
  machine_enter(m, PHASE_JUMPING);
}

void machine_jump(struct round_machine *m, uint64_t now_ms) {
  start(m, false, now_ms);
}

void machine_jump_failed(struct round_machine *m, uint64_t now_ms) {
  m->in_work = m->reached;
  m->wait_until_ms = 0;
  m->next_jump_ms = now_ms + JUMP_RETRY_MS;
  machine_enter(m, m->is_adopting ? PHASE_MEETING : PHASE_IDLE);
}

/* Peers go on meanwhile: the label is that of the end of the fetch. */
void machine_tick_jumping(struct round_machine *m, uint64_t now_ms) {
  size_t n_sources = 0, n_ready = 0;
  for (size_t i = 0; i < m->config.n_peers; i++) {
    n_sources += round_peer_is_source(&m->peers[i]);
    n_ready += round_peer_is_source(&m->peers[i]) && inbox_has_copy(&m->peers[i].inbox);
  }
  size_t n_wanted = m->is_adopting && n_sources > MAX_ADOPTED_COPIES ? MAX_ADOPTED_COPIES : n_sources;
  if (n_ready < n_wanted && now_ms < m->wait_until_ms)
    return;
  m->wait_until_ms = 0;
  if (n_ready == 0) {
    machine_jump_failed(m, now_ms);
    return;
  }
  if (vouched_round(m) > m->in_work.round)
    m->in_work.round = vouched_round(m);
  machine_start_merge(m, m->is_adopting ? JOB_ADOPT : JOB_MERGE);
}

/* Peers not met by the end are absent until their HELLO. */
void machine_tick_meeting(struct round_machine *m, uint64_t now_ms) {
  bool all_met = true;
  for (size_t i = 0; i < m->config.n_peers; i++)
    all_met = all_met && (m->peers[i].has_state || round_peer_refusal(&m->peers[i]) != ERR_OK);
  if ((!all_met && now_ms < m->wait_until_ms) || now_ms < m->next_jump_ms)
    return;
  for (size_t i = 0; i < m->config.n_peers; i++)
    m->peers[i].is_absent = !m->peers[i].has_state;
  m->wait_until_ms = 0;
  if (vouched_round(m) > 0)
    start(m, true, now_ms);
  else
    machine_enter(m, PHASE_IDLE);
}
