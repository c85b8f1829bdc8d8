#include <unistd.h>

#include "tests/unit/gossip/world.h"

static void assert_up(struct agent *a, struct agent *b) {
  struct gossip_peer_info ab = info_of(a, b), ba = info_of(b, a);
  ck_assert_msg(ab.has_session && ba.has_session, "%s / %s", ab.sentence, ba.sentence);
  ck_assert_int_eq(ab.reason, ERR_OK);
  ck_assert_int_eq(ba.reason, ERR_OK);
}

START_TEST(a_handshake_gives_both_sides_a_session) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  only_called_by(b, a);
  world_start(w);
  world_run(w, 100);
  assert_up(a, b);
  ck_assert_uint_eq(heard_by(a, b)->n_up, 1);
  ck_assert_uint_eq(heard_by(b, a)->n_up, 1);
  ck_assert_uint_eq(heard_by(a, b)->n_hello, 1);
  ck_assert_uint_eq(heard_by(a, b)->hello.round, 1);
  ck_assert_uint_ge(heard_by(b, a)->n_state, 1);
  ck_assert(heard_by(b, a)->state.follows);
  ck_assert_uint_eq(info_of(a, b).boot_epoch, 101);
  ck_assert(info_of(a, b).we_dialled && !info_of(b, a).we_dialled);
  ck_assert_int_eq((int)info_of(a, b).rtt_ms, 10);
  world_free(w);
}
END_TEST

int main(void) {
  return SUITE_RUN("sessions", a_handshake_gives_both_sides_a_session);
}
