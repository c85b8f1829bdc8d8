/* Properties of swarms under random cuts, kills, delays, full disks and failed trainings; swarm.h checks after every event
 * that committed labels never go back, gathers end in time, queues stay bounded and no label gets two payloads. Here: once
 * everything is healed, all go on together. */
#include "tests/size.h"
#include "tests/unit/agent/swarm.h"
#include "tests/unit/suite.h"

enum { TROUBLE_MS = 150000, HEALED_MS = 60000 };

static struct swarm *random_swarm(uint64_t seed) {
  struct rng r;
  rng_init(&r, seed);
  size_t n = 2 + (size_t)rng_below(&r, 4);
  struct swarm *s = swarm_new(n);
  s->rng = r;
  s->jitter = (double)rng_below(&r, 200);
  for (size_t i = 0; i < n; i++) {
    struct swarm_agent *a = &s->agents[i];
    a->config.count = 0;
    a->config.deadline_max_ms = 8000;
    a->config.meet_ms = 5000;
    a->config.min_peers = 1 + (uint32_t)(seed % 3 == 0 && n > 2);
    a->config.by_samples = seed % 2;
    a->config.hold_ms = (seed + i) % 3 * 800; /* some trainings are as brief */
    a->config.full_bytes = (size_t)(1 + seed % 5) * PAYLOAD_BYTES;
    a->config.payload_max_bytes = (uint64_t)40 * PAYLOAD_BYTES;
    a->training_ms = 300 + rng_below(&r, 2000);
    a->writing_ms = 1 + rng_below(&r, 60);
    for (size_t j = 0; j < n; j++)
      s->links[i][j].delay_ms = 1 + rng_below(&r, 150);
  }
  if (n == 5) { /* a ring */
    static const size_t chords[5][2] = {{0, 2}, {0, 3}, {1, 3}, {1, 4}, {2, 4}};
    for (size_t i = 0; i < 5; i++)
      swarm_unlink(s, chords[i][0], chords[i][1]);
  }
  return s;
}

static size_t swarm_size(const struct swarm *s) {
  size_t n = 0;
  while (n < SWARM_MAX && s->agents[n].is_member)
    n++;
  return n;
}

static void trouble(struct swarm *s) {
  size_t n = swarm_size(s);
  size_t i = (size_t)rng_below(&s->rng, n);
  struct swarm_agent *a = &s->agents[i];
  size_t j = a->peers[rng_below(&s->rng, a->n_peers)];
  switch (rng_below(&s->rng, 8)) {
  case 0:
  case 1:
    if (a->is_alive)
      swarm_kill(s, i);
    break;
  case 2:
  case 3:
    if (!a->is_alive)
      swarm_start(s, i);
    break;
  case 4:
    swarm_cut(s, i, j);
    break;
  case 5:
    swarm_heal(s, i, j);
    break;
  case 6:
    a->disk = a->disk == ERR_OK ? ERR_NO_SPACE : ERR_OK;
    break;
  default:
    s->links[i][j].lose[WIRE_STATE + rng_below(&s->rng, N_WIRES - WIRE_STATE)]++;
    a->fail_trainings += a->fail_trainings == 0 && rng_below(&s->rng, 8) == 0;
    break;
  }
}

static void heal_everything(struct swarm *s) {
  size_t n = swarm_size(s);
  for (size_t i = 0; i < n; i++) {
    s->agents[i].disk = ERR_OK;
    if (!s->agents[i].is_alive)
      swarm_start(s, i);
    for (size_t j = 0; j < n; j++) {
      memset(s->links[i][j].lose, 0, sizeof s->links[i][j].lose);
      if (peer_index(&s->agents[i], j) != SIZE_MAX)
        swarm_heal(s, i, j);
    }
  }
}

static void assert_together(const struct swarm *s, uint64_t seed) {
  size_t n = swarm_size(s);
  uint64_t low = UINT64_MAX, high = 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t round = swarm_round(s, i);
    low = round < low ? round : low;
    high = round > high ? round : high;
    ck_assert_msg(swarm_told(s, i, 0)->outcome == ROUND_MERGED, "seed %llu: agent %zu ends with outcome %d of %llu+%u",
                  (unsigned long long)seed, i, swarm_told(s, i, 0)->outcome, (unsigned long long)round,
                  swarm_told(s, i, 0)->label.sub);
    ck_assert_msg(swarm_told(s, i, 0)->at_ms + 15000 > s->now_ms, "seed %llu: agent %zu stands still in phase %s",
                  (unsigned long long)seed, i, phase_name(swarm_phase(s, i)));
  }
  ck_assert_msg(high - low <= n / 2, "seed %llu: rounds from %llu to %llu", (unsigned long long)seed,
                (unsigned long long)low, (unsigned long long)high);
}

START_TEST(whatever_happens_all_go_on_together_once_it_is_healed) {
  for (uint64_t seed = 1; seed <= sized(40, 300, 300); seed++) {
    struct swarm *s = random_swarm(seed);
    swarm_start_all(s);
    while (s->now_ms < TROUBLE_MS) {
      swarm_run(s, rng_below(&s->rng, 3000));
      trouble(s);
    }
    heal_everything(s);
    swarm_run(s, HEALED_MS);
    assert_together(s, seed);
    swarm_free(s);
  }
}
END_TEST

int main(void) {
  return SUITE_RUN("round_random", whatever_happens_all_go_on_together_once_it_is_healed);
}
