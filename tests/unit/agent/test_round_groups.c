/* The round machine where sites are grouped: whom it awaits, fetches from, merges and follows. */
#include "tests/unit/agent/swarm.h"
#include "tests/unit/suite.h"

static struct swarm *grouped_new(size_t n, uint64_t count) {
  struct swarm *s = swarm_new(n);
  for (size_t i = 0; i < n; i++) {
    s->agents[i].config.is_clustered = true;
    s->agents[i].config.count = count;
  }
  return s;
}

static void set_affinity(struct swarm *s, size_t which, size_t of, double affinity) {
  struct swarm_agent *a = &s->agents[which];
  round_set_affinity(a->machine, peer_index(a, of), affinity);
}

/* As agents place their peers whose groups are of[]. */
static void place(struct swarm *s, size_t which, size_t n, const size_t *of) {
  for (size_t k = 0; k < n; k++)
    if (k != which)
      set_affinity(s, which, k, of[which] == of[k]);
}

static void start_all(struct swarm *s, size_t n, const size_t *of) {
  for (size_t i = 0; i < n; i++) {
    swarm_start(s, i);
    place(s, i, n, of);
  }
}

static const size_t two_groups[] = {0, 1, 0, 1, 0};

START_TEST(peers_of_another_group_are_neither_merged_nor_fetched) {
  struct swarm *s = grouped_new(4, 20);
  start_all(s, 4, two_groups);
  swarm_run(s, 200000);
  for (size_t i = 0; i < 4; i++) {
    const struct swarm_agent *a = &s->agents[i];
    ck_assert_uint_eq(a->n_story, 20);
    for (size_t r = 0; r < 20; r++) {
      ck_assert_int_eq(a->story[r].outcome, ROUND_MERGED);
      ck_assert_uint_eq(a->story[r].n_merged, 1);
      for (size_t k = 0; k < 4; k++)
        if (k != i) {
          bool is_alike = two_groups[i] == two_groups[k];
          ck_assert_int_eq(a->story[r].reasons[k], is_alike ? ERR_OK : ERR_GROUP);
          ck_assert(is_alike ? a->story[r].weights[k] > 0 : a->story[r].weights[k] == 0);
        }
    }
    ck_assert(a->copies[peer_index(a, (i + 1) % 4)] == 0); /* nothing of it came */
    ck_assert_int_eq(swarm_phase(s, i), PHASE_FINISHED);
  }
  swarm_free(s);
}
END_TEST

START_TEST(affinity_is_a_factor_of_the_weight) {
  struct swarm *s = grouped_new(2, 3);
  for (size_t i = 0; i < 2; i++) {
    swarm_start(s, i);
    set_affinity(s, i, 1 - i, 0.25);
  }
  swarm_run(s, 60000);
  ck_assert(s->agents[0].story[2].weights[1] == 0.25 / 2);
  swarm_free(s);
}
END_TEST

START_TEST(who_is_alone_in_its_group_goes_on) {
  static const size_t alone[] = {0, 1, 1};
  struct swarm *s = grouped_new(3, 20);
  start_all(s, 3, alone);
  swarm_run(s, 200000);
  ck_assert_int_eq(swarm_phase(s, 0), PHASE_FINISHED);
  ck_assert_uint_eq(swarm_round(s, 0), 20);
  ck_assert_uint_eq(s->agents[0].story[19].n_merged, 0);
  ck_assert_int_eq(round_end(s->agents[0].machine, s->now_ms), ROUND_ENDED);
  swarm_free(s);
}
END_TEST

START_TEST(who_changes_groups_is_merged_by_the_others) {
  static const size_t after[] = {0, 1, 0, 0, 1};
  struct swarm *s = grouped_new(5, 0);
  start_all(s, 5, two_groups);
  swarm_run(s, 15000);
  uint64_t before = swarm_round(s, 0);
  ck_assert_uint_ge(before, 5);
  for (size_t i = 0; i < 5; i++)
    place(s, i, 5, after);
  swarm_run(s, 10000);
  for (size_t i = 0; i < 5; i++)
    for (size_t k = 0; k < 5; k++)
      if (k != i)
        ck_assert_int_eq(swarm_told(s, i, 0)->reasons[k], after[i] == after[k] ? ERR_OK : ERR_GROUP);
  swarm_free(s);
}
END_TEST

START_TEST(a_meeting_lasts_until_peers_are_placed) {
  struct swarm *s = grouped_new(2, 0);
  swarm_start(s, 0);
  swarm_start(s, 1);
  set_affinity(s, 0, 1, 1);
  swarm_run(s, 5000);
  ck_assert_int_eq(swarm_phase(s, 1), PHASE_MEETING);
  set_affinity(s, 1, 0, 1);
  swarm_run(s, 5000);
  ck_assert_uint_ge(swarm_round(s, 1), 1);
  ck_assert_int_eq(swarm_told(s, 1, 0)->reasons[0], ERR_OK);
  swarm_free(s);
}
END_TEST

START_TEST(who_has_no_place_is_not_merged) {
  struct swarm *s = grouped_new(3, 0);
  for (size_t i = 0; i < 3; i++)
    swarm_start(s, i);
  set_affinity(s, 0, 1, 1);
  set_affinity(s, 1, 0, 1);
  swarm_run(s, 60000); /* the meeting ends by its time */
  ck_assert_uint_ge(swarm_round(s, 0), 2);
  ck_assert_int_eq(swarm_told(s, 0, 0)->reasons[1], ERR_OK);
  ck_assert_int_eq(swarm_told(s, 0, 0)->reasons[2], ERR_GROUP);
  swarm_free(s);
}
END_TEST

START_TEST(a_joiner_takes_the_model_of_its_group) {
  struct swarm *s = grouped_new(5, 0);
  for (size_t i = 0; i < 4; i++) {
    swarm_start(s, i);
    place(s, i, 5, two_groups);
  }
  s->agents[0].x = s->agents[2].x = 0;
  swarm_run(s, 60000);
  uint64_t before = swarm_round(s, 0);
  swarm_start(s, 4);
  place(s, 4, 5, two_groups);
  swarm_run(s, 10000);
  const struct swarm_agent *joiner = &s->agents[4];
  ck_assert_uint_ge(joiner->n_story, 1);
  ck_assert_int_eq(joiner->story[0].outcome, ROUND_ADOPTED);
  ck_assert_uint_ge(joiner->story[0].label.round, before);
  ck_assert(joiner->copies[1] == 0 && joiner->copies[3] == 0);
  swarm_free(s);
}
END_TEST

/* Who is elsewhere may not be followed, and of who has no place nobody knows. */
START_TEST(a_joiner_without_a_source_begins_by_itself) {
  struct swarm *s = grouped_new(3, 0);
  swarm_start(s, 0);
  swarm_start(s, 1);
  set_affinity(s, 0, 1, 1);
  set_affinity(s, 1, 0, 1);
  swarm_run(s, 60000);
  ck_assert_uint_ge(swarm_round(s, 0), 2);
  swarm_start(s, 2);
  set_affinity(s, 2, 0, 0);
  swarm_run(s, 60000);
  const struct swarm_agent *joiner = &s->agents[2];
  ck_assert_uint_ge(joiner->n_story, 1);
  ck_assert_int_eq(joiner->story[0].outcome, ROUND_SHORT);
  set_affinity(s, 2, 1, 1); /* now it knows one */
  set_affinity(s, 1, 2, 1);
  swarm_run(s, 60000);
  ck_assert_uint_ge(swarm_round(s, 2) + 1, swarm_round(s, 1));
  swarm_free(s);
}
END_TEST

START_TEST(who_waits_alone_and_hears_that_peers_are_elsewhere_goes_on) {
  struct swarm *s = grouped_new(2, 0);
  swarm_start(s, 0);
  swarm_run(s, 200000);
  ck_assert_int_eq(swarm_phase(s, 0), PHASE_ALONE);
  set_affinity(s, 0, 1, 0);
  swarm_run(s, 20000);
  ck_assert_int_ne(swarm_phase(s, 0), PHASE_ALONE);
  ck_assert_uint_ge(swarm_round(s, 0), 2);
  swarm_free(s);
}
END_TEST

START_TEST(news_of_another_group_are_nobodys_return) {
  static const size_t groups[] = {0, 1, 0};
  struct swarm *s = grouped_new(3, 0);
  for (size_t i = 0; i < 2; i++) {
    swarm_start(s, i);
    place(s, i, 3, groups);
  }
  swarm_run(s, 200000);
  ck_assert_int_eq(swarm_phase(s, 0), PHASE_ALONE); /* the third never came */
  swarm_kill(s, 1);
  swarm_start(s, 1);
  place(s, 1, 3, groups);
  uint64_t before = s->agents[0].n_story;
  swarm_run(s, 20000);
  ck_assert_int_eq(swarm_phase(s, 0), PHASE_ALONE);
  ck_assert_uint_eq(s->agents[0].n_story, before);
  swarm_free(s);
}
END_TEST

int main(void) {
  return SUITE_RUN_WITHIN(
      "round_groups", 60, peers_of_another_group_are_neither_merged_nor_fetched, affinity_is_a_factor_of_the_weight,
      who_is_alone_in_its_group_goes_on, who_changes_groups_is_merged_by_the_others,
      a_meeting_lasts_until_peers_are_placed, who_has_no_place_is_not_merged, a_joiner_takes_the_model_of_its_group,
      a_joiner_without_a_source_begins_by_itself, who_waits_alone_and_hears_that_peers_are_elsewhere_goes_on,
      news_of_another_group_are_nobodys_return);
}
