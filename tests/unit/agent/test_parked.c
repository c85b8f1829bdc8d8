#include "agent/run/parked.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

/* Stands for the agent: one mark, and who was answered. */
struct agent {
  uint64_t mark;
  uint64_t answered[64];
  size_t n;
  struct parking *parks_again; /* an answer that has nothing to say waits on */
};

static uint64_t mark_of(const struct agent *a, const json_t *request) {
  ck_assert(json_is_object(request));
  return a->mark;
}

static void answer(struct agent *a, uint64_t client, const json_t *request, uint64_t until_ms);

static const struct parked_kind kind = {mark_of, answer};

static void park(struct agent *a, struct parking *p, uint64_t client, uint64_t until_ms) {
  json_t *request = json_pack("{s:s}", "ask", "status");
  parking_put(a, p, &(struct parked){&kind, client, a->mark, until_ms, request});
  json_decref(request);
}

static void answer(struct agent *a, uint64_t client, const json_t *request, uint64_t until_ms) {
  ck_assert_str_eq(json_string_value(json_object_get(request, "ask")), "status");
  a->answered[a->n++] = client;
  if (a->parks_again && until_ms > 0)
    park(a, a->parks_again, client, until_ms);
}

START_TEST(news_or_the_time_answers) {
  struct agent a = {.mark = 5};
  struct parking p = {0};
  ck_assert_uint_eq(parking_due_ms(&p), UINT64_MAX);
  park(&a, &p, 1, 2000);
  park(&a, &p, 2, 1500);
  ck_assert_uint_eq(parking_due_ms(&p), 1500);
  parking_turn(&a, &p, 1499);
  ck_assert_uint_eq(a.n, 0);
  parking_turn(&a, &p, 1500);
  ck_assert_uint_eq(a.n, 1);
  ck_assert_uint_eq(a.answered[0], 2);
  a.mark = 6;
  parking_turn(&a, &p, 1600);
  ck_assert_uint_eq(a.n, 2);
  ck_assert_uint_eq(a.answered[1], 1);
  ck_assert_uint_eq(p.n, 0);
}
END_TEST

START_TEST(an_answer_may_wait_on_without_turning_for_ever) {
  struct parking p = {0};
  struct agent a = {.mark = 5, .parks_again = &p};
  park(&a, &p, 1, 2000);
  park(&a, &p, 2, 2000);
  a.mark = 6;
  parking_turn(&a, &p, 1000);
  ck_assert_uint_eq(a.n, 2);
  ck_assert_uint_eq(p.n, 2);
  parking_turn(&a, &p, 1000);
  ck_assert_uint_eq(a.n, 2);
  parking_done(&p);
}
END_TEST

START_TEST(when_all_places_are_taken_the_oldest_is_answered) {
  struct parking p = {0};
  struct agent a = {.mark = 5, .parks_again = &p};
  for (uint64_t i = 0; i < MAX_PARKED + 3; i++)
    park(&a, &p, i, 2000);
  ck_assert_uint_eq(p.n, MAX_PARKED);
  ck_assert_uint_eq(a.n, 3);
  for (uint64_t i = 0; i < 3; i++)
    ck_assert_uint_eq(a.answered[i], i);
  parking_done(&p);
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/parked", news_or_the_time_answers, an_answer_may_wait_on_without_turning_for_ever,
                   when_all_places_are_taken_the_oldest_is_answered);
}
