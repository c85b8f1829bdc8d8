#include <unistd.h>

#include "tests/unit/gossip/world.h"

START_TEST(two_agents_meet_and_a_payload_arrives_whole) {
  struct world *w = world_new(2, true);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  only_called_by(b, a);
  agent_publish(a, 5 * 1000 * 1000, 1);
  b->fetches = true;
  world_start(w);
  WORLD_UNTIL(w, heard_by(a, b)->n_up == 1 && heard_by(b, a)->n_up == 1, 2000);
  uint64_t t0 = world_now(w);
  gossip_offer(a->node, peer_of(a, b), 0, a->published_bytes);
  WORLD_UNTIL(w, heard_by(b, a)->n_payload == 1, 5000);
  fprintf(stderr, "%d ms\n", (int)(world_now(w) - t0));
  ck_assert_mem_eq(heard_by(b, a)->payload, a->payload, a->published.n_payload);
  world_free(w);
}
END_TEST

START_TEST(simult) {
  struct world *w = world_new(3, true);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  uint64_t t0 = world_now(w);
  world_start(w);
  fprintf(stderr, "open %d ms\n", (int)(world_now(w) - t0));
  WORLD_UNTIL(w, heard_by(a, b)->n_up == 1 && heard_by(b, a)->n_up == 1, 2000);
  fprintf(stderr, "up %d ms\n", (int)(world_now(w) - t0));
  world_pass(w, 500);
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++)
      if (i != j) {
        struct gossip_peer_info x = info_of(&w->agents[i], &w->agents[j]);
        fprintf(stderr, "%d-%d up=%d dialled=%d ups=%u downs=%u %s\n", i, j, x.has_session, x.we_dialled,
                w->agents[i].heard[j].n_up, w->agents[i].heard[j].n_down, x.sentence);
      }
  t0 = world_now(w);
  world_free(w);
  fprintf(stderr, "close %d ms\n", 0);
}
END_TEST

int main(void) {
  return SUITE_RUN("zmq_link", two_agents_meet_and_a_payload_arrives_whole, simult);
}
