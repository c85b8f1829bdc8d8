/* Swarm testing: random scenarios hold, what broke once holds (tests/sim), and a scenario that breaks becomes small. */
#include <check.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sim/swarming.h"
#include "base/must.h"
#include "crypto/random.h"
#include "tests/size.h"
#include "tests/unit/suite.h"

static void assert_holds(const struct scenario *c, const char *what) {
  struct scenario_verdict v = scenario_judge(c);
  ck_assert_msg(!v.is_broken, "%s: agent %zu at %.3f s: %s: not true that %s", what, v.first.agent,
                (double)v.first.at_us / 1e6 - (double)SIM_START_MS / 1e3, sim_invariant_name(v.first.invariant),
                sim_invariant_sentence(v.first.invariant));
}

/* 300 of them: starling sim --random 300, a step of tests/run. */
START_TEST(a_random_scenario_holds) {
  char what[64];
  struct scenario *c = scenario_random(1000 + (uint64_t)_i);
  snprintf(what, sizeof what, "starling sim --random 1 --seed %d", 1000 + _i);
  assert_holds(c, what);
  scenario_free(c);
}
END_TEST

START_TEST(what_broke_once_holds) {
  glob_t files;
  ck_assert_int_eq(glob("tests/sim/*.yaml", 0, NULL, &files), 0);
  for (size_t i = 0; i < files.gl_pathc; i++) {
    struct scenario *c;
    char why[MAX_CONFIG_WHY_BYTES] = "";
    ck_assert_msg(scenario_load(files.gl_pathv[i], &c, why) == ERR_OK, "%s", why);
    assert_holds(c, files.gl_pathv[i]);
    scenario_free(c);
  }
  globfree(&files);
}
END_TEST

/* Its text is the scenario: read again it is the same story. */
START_TEST(a_scenario_is_its_text) {
  for (uint64_t seed = 0; seed < least_or(20, 200); seed++) {
    struct scenario *c = scenario_random(seed), *again = NULL;
    char why[MAX_CONFIG_WHY_BYTES] = "", *text = scenario_text(c);
    ck_assert_msg(scenario_read("it", text, strlen(text), &again, why) == ERR_OK, "seed %d: %s", (int)seed, why);
    char *second = scenario_text(again);
    ck_assert_str_eq(text, second);
    if (seed == 3) {
      struct scenario_verdict a = scenario_judge(c), b = scenario_judge(again);
      ck_assert_uint_eq(a.trace, b.trace);
    }
    free(text);
    free(second);
    scenario_free(c);
    scenario_free(again);
  }
}
END_TEST

enum { BUG_WITHIN_MS = 120000 };

/* Agent 1 forgets on its first restart what it has committed. */
static bool spoil_restart(void *context, struct sim *s) {
  struct sim_agent *a = s->agents[1];
  (void)context;
  if (a->is_alive && a->life >= 3 && a->machine->committed.round > 0)
    a->machine->committed.round = 0;
  return s->now_ms < SIM_START_MS + BUG_WITHIN_MS;
}

static bool breaks_by_restart(void *context, const struct scenario *c) {
  if (c->n_agents < 2)
    return false;
  struct sim *s = scenario_sim(c);
  scenario_run(c, s, &(struct scenario_observer){NULL, spoil_restart});
  bool is_broken = s->n_broken > 0 && s->first_broken.invariant == SIM_INVARIANT_NO_ROUND_LOST;
  sim_free(s);
  (void)context;
  return is_broken;
}

START_TEST(a_bug_is_found_and_made_small) {
  struct scenario *c = NULL;
  for (uint64_t seed = 1; !c; seed++) {
    c = scenario_random(seed);
    if (!breaks_by_restart(NULL, c)) {
      scenario_free(c);
      c = NULL;
    }
    ck_assert_uint_le(seed, 100); /* it is found soon */
  }
  struct scenario_shrinking how = {breaks_by_restart, NULL, 200, 0};
  struct scenario *small = scenario_shrink(c, &how);
  ck_assert_uint_eq(small->n_agents, 2);
  ck_assert_uint_eq(small->n_hosts + small->n_links, 0);
  const struct scenario_event *e = small->events;
  bool is_pair = small->n_events == 2 && (e[0].action == ACTION_KILL || e[0].action == ACTION_WIPE);
  ck_assert(is_pair ? e[1].action == ACTION_START : small->n_events == 1 && e[0].action == ACTION_SPEAK);
  ck_assert_uint_eq(small->model_kib, 1);
  scenario_free(small);
  scenario_free(c);
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  TCase *tcase = tcase_create("swarming");
  tcase_add_loop_test(tcase, a_random_scenario_holds, 0, (int)sized(2, 10, 300));
  tcase_add_test(tcase, what_broke_once_holds);
  tcase_add_test(tcase, a_scenario_is_its_text);
  tcase_add_test(tcase, a_bug_is_found_and_made_small);
  return suite_run_case("swarming", tcase);
}
