/* Whole agents under seeded trouble: lost frames, jitter, parted links, links silent in one direction, kills, full disks,
 * failed trainings. What must always hold is checked after every event (agent/sim/invariants.h); here: once all is healed, all go on together,
 * and everybody merges everybody. */
#include "base/must.h"
#include "tests/property/flock.h"
#include "tests/size.h"
#include "tests/unit/suite.h"

enum { TROUBLE_MS = 120000, HEALED_MS = 90000 };

static struct sim *random_flock(uint64_t seed) {
  struct rng r;
  rng_init(&r, seed);
  struct sim *f = flock_new(2 + (size_t)rng_below(&r, 4), 4);
  f->rng = r;
  f->default_link.jitter_us = 1000 * rng_below(&r, 100);
  f->default_link.loss = 0.02 * rng_unit(&r);
  for (size_t i = 0; i < f->n_agents; i++) {
    struct sim_agent *a = f->agents[i];
    struct round_config *own = sim_own_config(a);
    own->deadline_max_ms = 8000;
    own->meet_ms = 5000;
    own->by_samples = seed % 2;
    own->is_steps_auto = seed % 3 == 0;
    own->every_ms = seed % 5 == 0 ? 1500 : 0;
    own->full_bytes = own->link_bytes * (1 + seed % 5);
    a->samples = 20 + (uint32_t)rng_below(&r, 2000);
    a->host.training_ms = 300 + rng_below(&r, 2000);
    a->host.writing_ms = 1 + rng_below(&r, 60);
    for (size_t k = 0; k < f->n_agents; k++)
      sim_link(f, i, k)->delay_us = 1000 * (1 + rng_below(&r, 120));
  }
  return f;
}

static void trouble(struct sim *f) {
  size_t i = (size_t)rng_below(&f->rng, f->n_agents);
  struct sim_agent *a = f->agents[i];
  size_t k = a->peers[rng_below(&f->rng, a->n_peers)].agent;
  switch (rng_below(&f->rng, 8)) {
  case 0:
    if (a->is_alive)
      sim_kill(f, i);
    break;
  case 1:
  case 2:
    if (!a->is_alive)
      sim_start(f, i);
    break;
  case 3:
    sim_part(f, i, k);
    break;
  case 4:
    sim_mute(f, i, k);
    break;
  case 5:
    sim_heal(f, i, k);
    break;
  case 6:
    a->host.disk = a->host.disk == ERR_OK ? ERR_NO_SPACE : ERR_OK;
    break;
  default:
    a->fail_trainings += a->fail_trainings == 0 && rng_below(&f->rng, 4) == 0;
    break;
  }
}

static void heal_everything(struct sim *f) {
  for (size_t i = 0; i < f->n_agents; i++) {
    f->agents[i]->host.disk = ERR_OK;
    f->agents[i]->fail_trainings = 0;
    if (!f->agents[i]->is_alive)
      sim_start(f, i);
    for (size_t k = 0; k < f->n_agents; k++) {
      sim_link(f, i, k)->loss = 0;
      sim_heal(f, i, k);
    }
  }
}

static void assert_together(const struct sim *f, uint64_t seed) {
  uint64_t low = UINT64_MAX, high = 0;
  for (size_t i = 0; i < f->n_agents; i++) {
    const struct flock_told *t = flock_told(f, i, 0);
    low = t->label.round < low ? t->label.round : low;
    high = t->label.round > high ? t->label.round : high;
    ck_assert_msg(t->outcome == ROUND_MERGED && t->n_merged == f->n_agents - 1,
                  "seed %llu: agent %zu ends with outcome %d of %llu+%u, %u merged", (unsigned long long)seed, i,
                  (int)t->outcome, (unsigned long long)t->label.round, t->label.sub, t->n_merged);
    ck_assert_msg(t->at_ms + 10000 > f->now_ms, "seed %llu: agent %zu stands still in phase %s",
                  (unsigned long long)seed, i, phase_name(flock_phase(f, i)));
  }
  ck_assert_msg(high - low <= 1, "seed %llu: rounds from %llu to %llu", (unsigned long long)seed,
                (unsigned long long)low, (unsigned long long)high);
}

START_TEST(whatever_happens_all_go_on_together_once_it_is_healed) {
  struct sim *f = random_flock((uint64_t)_i);
  sim_start_all(f);
  for (uint64_t end_ms = f->now_ms + TROUBLE_MS; f->now_ms < end_ms;) {
    sim_run(f, rng_below(&f->rng, 5000));
    trouble(f);
  }
  heal_everything(f);
  sim_run(f, HEALED_MS);
  assert_together(f, (uint64_t)_i);
  flock_free(f);
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("trouble");
  tcase_add_loop_test(tcase, whatever_happens_all_go_on_together_once_it_is_healed, 1, (int)sized(4, 40, 400) + 1);
  return suite_run_case("trouble", tcase);
}
