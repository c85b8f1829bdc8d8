/* The models under the simulator: the order of events, when a frame arrives, when work is done. */
#include <check.h>
#include <string.h>

#include "agent/sim/host.h"
#include "agent/sim/queue.h"
#include "tests/unit/suite.h"

static const uint64_t MS = 1000, S = 1000000;

START_TEST(events_come_by_time_then_as_they_were_put) {
  struct sim_queue q = {0};
  struct rng rng;
  rng_init(&rng, 3);
  for (uint32_t i = 0; i < 5000; i++)
    sim_queue_put(&q, (struct sim_event){.at_us = rng_below(&rng, 100), .n = i});
  uint64_t at_us = 0;
  uint32_t n = 0;
  for (uint32_t i = 0; i < 5000; i++) {
    ck_assert_uint_eq(sim_queue_first(&q)->at_us >= at_us, 1);
    struct sim_event e = sim_queue_take(&q);
    ck_assert(e.at_us > at_us || i == 0 || e.n > n);
    at_us = e.at_us;
    n = e.n;
  }
  ck_assert_ptr_null(sim_queue_first(&q));
  sim_queue_done(&q);
}
END_TEST

/* ---- links ---- */

struct way {
  struct sim_link link;
  struct sim_flow flow;
  struct sim_nic from, to;
  struct rng rng;
};

static struct way way_new(struct sim_link link) {
  struct way w = {.link = link};
  rng_init(&w.rng, 1);
  return w;
}

/* One that is not lost; when it arrives. */
static uint64_t send(struct way *w, uint64_t now_us, size_t n) {
  uint64_t at_us[SIM_MAX_COPIES];
  ck_assert_uint_ge(sim_link_send(&w->link, &w->flow, &w->from, &w->to, &w->rng, now_us, n, at_us), 1);
  return at_us[0];
}

START_TEST(a_link_delays_and_its_bandwidth_makes_a_queue) {
  struct way w = way_new((struct sim_link){.delay_us = 40 * MS, .bytes_per_s = 500000});
  ck_assert_uint_eq(send(&w, 0, 5000), 50 * MS);        /* 10 ms to get out */
  ck_assert_uint_eq(send(&w, 0, 5000), 60 * MS);        /* after the first */
  ck_assert_uint_eq(send(&w, 15 * MS, 500), 61 * MS);   /* after both */
  ck_assert_uint_eq(send(&w, 100 * MS, 500), 141 * MS); /* the queue is empty */
}
END_TEST

START_TEST(links_of_a_host_share_its_interface) {
  struct sim_nic sender = {.up_bytes_per_s = 1000000}, receiver = {.down_bytes_per_s = 500000}, other = {0};
  struct sim_link links[2] = {{.delay_us = MS}, {.delay_us = MS}};
  struct sim_flow flows[2] = {0};
  struct rng rng;
  uint64_t at_us[SIM_MAX_COPIES];
  rng_init(&rng, 1);
  ck_assert_uint_eq(sim_link_send(&links[0], &flows[0], &sender, &other, &rng, 0, 10000, at_us), 1);
  ck_assert_uint_eq(at_us[0], 11 * MS);
  ck_assert_uint_eq(sim_link_send(&links[1], &flows[1], &sender, &other, &rng, 0, 10000, at_us), 1);
  ck_assert_uint_eq(at_us[0], 21 * MS);
  ck_assert_uint_eq(sim_link_send(&links[0], &flows[0], &other, &receiver, &rng, S, 10000, at_us), 1);
  ck_assert_uint_eq(at_us[0], S + 21 * MS);
  ck_assert_uint_eq(sim_link_send(&links[1], &flows[1], &other, &receiver, &rng, S, 10000, at_us), 1);
  ck_assert_uint_eq(at_us[0], S + 41 * MS);
}
END_TEST

START_TEST(jitter_keeps_the_order_and_reordering_does_not) {
  for (int reorders = 0; reorders < 2; reorders++) {
    struct way w = way_new((struct sim_link){.delay_us = MS, .jitter_us = 50 * MS, .reorder = reorders ? 0.2 : 0});
    size_t n_overtaken = 0;
    uint64_t last_us = 0;
    for (uint64_t i = 0; i < 1000; i++) {
      uint64_t at_us = send(&w, i * MS, 100);
      ck_assert_uint_ge(at_us, (i + 1) * MS);
      ck_assert_uint_le(at_us, (i + 51) * MS);
      n_overtaken += at_us < last_us;
      last_us = at_us > last_us ? at_us : last_us;
    }
    ck_assert_uint_eq(n_overtaken > 100 && n_overtaken < 300, reorders != 0);
    ck_assert_uint_eq(n_overtaken == 0, reorders == 0);
  }
}
END_TEST

START_TEST(frames_are_lost_and_doubled_as_often_as_said) {
  struct way w = way_new((struct sim_link){.loss = 0.1, .duplicate = 0.3});
  uint64_t at_us[SIM_MAX_COPIES];
  size_t counts[SIM_MAX_COPIES + 1] = {0};
  for (size_t i = 0; i < 10000; i++)
    counts[sim_link_send(&w.link, &w.flow, &w.from, &w.to, &w.rng, i, 10, at_us)]++;
  ck_assert(counts[0] > 900 && counts[0] < 1100); /* ±3 standard deviations */
  ck_assert(counts[2] > 2560 && counts[2] < 2840);
  w.link.is_cut = true;
  ck_assert_uint_eq(sim_link_send(&w.link, &w.flow, &w.from, &w.to, &w.rng, 0, 10, at_us), 0);
}
END_TEST

START_TEST(a_word_of_the_connection_comes_after_its_frames) {
  struct way w = way_new((struct sim_link){.delay_us = MS, .bytes_per_s = 1000});
  uint64_t at_us = send(&w, 0, 1000);
  ck_assert_uint_eq(at_us, S + MS);
  ck_assert_uint_eq(sim_link_word(&w.link, &w.flow, &w.rng, 5), at_us);
  ck_assert_uint_eq(sim_link_word(&w.link, &w.flow, &w.rng, 2 * S), 2 * S + MS);
}
END_TEST

/* ---- hosts ---- */

START_TEST(a_host_does_one_job_after_the_other_at_its_speed) {
  struct sim_host h = {.speed = 0.5, .writing_ms = 10, .disk_bytes_per_s = 1000000};
  ck_assert_uint_eq(sim_host_compute(&h, 0, 100), 200 * MS);
  ck_assert_uint_eq(sim_host_compute(&h, 50 * MS, 100), 400 * MS);
  ck_assert_uint_eq(sim_host_write(&h, 0, 40000), 50 * MS); /* the disk is another queue */
  ck_assert_uint_eq(sim_host_write(&h, 60 * MS, 0), 70 * MS);
  sim_host_restart(&h);
  ck_assert_uint_eq(sim_host_compute(&h, 0, 100), 200 * MS);
}
END_TEST

int main(void) {
  return SUITE_RUN("sim_link", events_come_by_time_then_as_they_were_put, a_link_delays_and_its_bandwidth_makes_a_queue,
                   links_of_a_host_share_its_interface, jitter_keeps_the_order_and_reordering_does_not,
                   frames_are_lost_and_doubled_as_often_as_said, a_word_of_the_connection_comes_after_its_frames,
                   a_host_does_one_job_after_the_other_at_its_speed);
}
