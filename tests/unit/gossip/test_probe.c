#include "gossip/probe.h"

#include <string.h>

#include "tests/unit/suite.h"

enum { BEAT = 1000, START = 1000000 };

/* Lets time pass in steps of 100 ms; how many questions and misses there were. */
struct watch {
  struct probe probe;
  struct probe_self self;
  uint64_t now_ms, missed_ms;
  size_t n_helpers; /* that are asked: 0 … n − 1 */
  size_t answering; /* one of them, or somebody else */
  bool answers, vouches;
  unsigned n_asked, n_missed;
};

static struct watch watch_new(void) {
  struct watch w = {.now_ms = START, .n_helpers = 3, .answers = true};
  probe_heard(&w.probe, &w.self, BEAT, w.now_ms);
  return w;
}

static void pass(struct watch *w, uint64_t ms) {
  for (uint64_t end_ms = w->now_ms + ms; w->now_ms < end_ms;) {
    w->now_ms += 100;
    enum probe_step step = probe_tick(&w->probe, &w->self, BEAT, w->now_ms);
    if (step == PROBE_ASK) {
      w->n_asked++;
      for (size_t i = 0; i < w->n_helpers; i++)
        probe_asked(&w->probe, i);
      if (w->answers)
        probe_answer(&w->probe, w->answering, w->vouches, BEAT, w->now_ms);
    }
    if (step == PROBE_MISS) {
      w->n_missed++;
      w->missed_ms = w->now_ms;
    }
  }
}

static void hear(struct watch *w) {
  probe_heard(&w->probe, &w->self, BEAT, w->now_ms);
}

START_TEST(who_beats_is_not_asked_after) {
  struct watch w = watch_new();
  for (int i = 0; i < 100; i++) {
    pass(&w, BEAT);
    hear(&w);
  }
  ck_assert_uint_eq(w.n_asked, 0);
  ck_assert_uint_eq(w.n_missed, 0);
}
END_TEST

START_TEST(who_is_silent_is_asked_after_thrice_then_missed) {
  struct watch w = watch_new();
  pass(&w, 2400);
  ck_assert_uint_eq(w.n_asked, 0);
  pass(&w, 10000);
  ck_assert_uint_eq(w.n_asked, PROBE_TRIES);
  ck_assert_uint_eq(w.n_missed, 1);
  ck_assert_uint_eq(w.missed_ms, START + 4000);
  ck_assert_uint_eq(w.self.health, 0);
}
END_TEST

START_TEST(one_beat_that_was_lost_means_nothing) {
  struct watch w = watch_new();
  for (int i = 0; i < 100; i++) {
    pass(&w, (uint64_t)2 * BEAT);
    hear(&w);
  }
  ck_assert_uint_eq(w.n_asked, 0);
}
END_TEST

START_TEST(whom_others_hear_is_not_missed_and_asked_after_more_and_more_rarely) {
  struct watch w = watch_new();
  w.vouches = true;
  pass(&w, (uint64_t)600 * BEAT);
  ck_assert_uint_eq(w.n_missed, 0);
  ck_assert_uint_le(w.n_asked, 5 + 600 / PROBE_MAX_REST_BEATS);
  ck_assert_uint_ge(w.n_asked, 600 / PROBE_MAX_REST_BEATS);
  w.vouches = false; /* now it is gone */
  pass(&w, (uint64_t)40 * BEAT);
  ck_assert_uint_eq(w.n_missed, 1);
}
END_TEST

/* It always proves to be there, over others, and yet we never hear it: a deaf pair. */
START_TEST(a_deaf_pair_makes_no_storm) {
  struct watch w = watch_new();
  for (int s = 0; s < 3600; s++) {
    unsigned before = w.n_missed;
    pass(&w, 1000);
    if (w.n_missed > before)
      probe_spoke(&w.probe, BEAT, w.now_ms);
  }
  ck_assert_uint_ge(w.n_missed, 3);
  ck_assert_uint_le(w.n_missed, 8);
}
END_TEST

START_TEST(one_that_comes_and_goes_is_missed_less_than_once_a_minute) {
  struct watch w = watch_new();
  for (int s = 0; s < 600; s += 10) {
    pass(&w, 9000);
    hear(&w);
    pass(&w, 1000);
  }
  ck_assert_uint_ge(w.n_missed, 1);
  ck_assert_uint_le(w.n_missed, 9);
}
END_TEST

START_TEST(whom_nobody_answers_doubts_itself) {
  struct watch w = watch_new();
  w.answers = false;
  pass(&w, 5000);
  ck_assert_uint_eq(w.self.health, 1);
  hear(&w); /* a beat later it is better again */
  ck_assert_uint_eq(w.self.health, 0);
  w.self.health = 3;
  hear(&w);
  uint64_t heard_ms = w.now_ms;
  w.n_asked = 0;
  pass(&w, 9000);
  ck_assert_uint_eq(w.n_asked, 0);
  pass(&w, 2000);
  ck_assert_uint_eq(w.n_asked, 1);
  ck_assert_uint_gt(w.now_ms, heard_ms + 10000 - 1);
}
END_TEST

START_TEST(without_anybody_to_ask_nothing_is_wrong_with_us) {
  struct watch w = watch_new();
  w.n_helpers = 0;
  w.answers = false;
  pass(&w, 5000);
  ck_assert_uint_eq(w.n_missed, 1);
  ck_assert_uint_eq(w.self.health, 0);
}
END_TEST

START_TEST(who_was_never_heard_or_has_left_is_not_missed) {
  struct watch w = watch_new();
  probe_left(&w.probe);
  pass(&w, 100000);
  ck_assert_uint_eq(w.n_asked + w.n_missed, 0);
  w.probe = (struct probe){0};
  pass(&w, 100000);
  ck_assert_uint_eq(w.n_asked + w.n_missed, 0);
  ck_assert_uint_eq(probe_due_ms(&w.probe), PROBE_NEVER);
}
END_TEST

START_TEST(an_answer_without_a_question_does_not_count) {
  struct watch w = watch_new();
  pass(&w, 2000);
  probe_answer(&w.probe, 0, true, BEAT, w.now_ms);
  pass(&w, 600);
  ck_assert_uint_eq(w.n_asked, 1);
}
END_TEST

START_TEST(an_answer_of_who_was_not_asked_does_not_count) {
  struct watch w = watch_new();
  w.vouches = true;
  w.answering = 3;
  pass(&w, 12400);
  ck_assert_uint_eq(w.n_missed, 1);
  ck_assert_uint_eq(w.self.health, 1); /* nor is it a sign that we are well */
}
END_TEST

START_TEST(time_in_which_we_stood_still_is_not_its_silence) {
  struct watch w = watch_new();
  w.now_ms += 60000;
  probe_slept(&w.probe, 60000);
  pass(&w, 2000);
  ck_assert_uint_eq(w.n_asked, 0);
  pass(&w, 600);
  ck_assert_uint_eq(w.n_asked, 1);
}
END_TEST

int main(void) {
  return SUITE_RUN("probe", who_beats_is_not_asked_after, who_is_silent_is_asked_after_thrice_then_missed,
                   one_beat_that_was_lost_means_nothing,
                   whom_others_hear_is_not_missed_and_asked_after_more_and_more_rarely, a_deaf_pair_makes_no_storm,
                   one_that_comes_and_goes_is_missed_less_than_once_a_minute, whom_nobody_answers_doubts_itself,
                   without_anybody_to_ask_nothing_is_wrong_with_us, who_was_never_heard_or_has_left_is_not_missed,
                   an_answer_without_a_question_does_not_count, an_answer_of_who_was_not_asked_does_not_count,
                   time_in_which_we_stood_still_is_not_its_silence);
}
