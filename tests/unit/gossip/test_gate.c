#include "gossip/gate.h"

#include <stdio.h>
#include <stdlib.h>

#include "gossip/link.h"
#include "tests/unit/suite.h"

static struct gate *gate_new(void) {
  return calloc(1, sizeof(struct gate));
}

/* Accepted and admitted. */
static bool enter(struct gate *g, int fd, const char *address) {
  ck_assert_ptr_nonnull(gate_add(g, fd, address, 1000));
  return gate_admit(g, address);
}

START_TEST(an_address_has_eight_without_a_session) {
  struct gate *g = gate_new();
  for (int fd = 0; fd < MAX_GATE_PER_ADDRESS; fd++)
    ck_assert(enter(g, fd, "10.0.0.1"));
  ck_assert(!enter(g, 100, "10.0.0.1"));
  ck_assert(enter(g, 101, "10.0.0.2"));
  gate_set_session(gate_find_fd(g, 3), true, 1000);
  gate_remove(g, gate_find_fd(g, 100));
  ck_assert(enter(g, 102, "10.0.0.1"));
  ck_assert(!enter(g, 103, "10.0.0.1"));
  free(g);
}
END_TEST

START_TEST(all_addresses_have_32_together) {
  struct gate *g = gate_new();
  char address[GATE_ADDRESS_BYTES];
  for (int fd = 0; fd < MAX_GATE_TOTAL; fd++) {
    snprintf(address, sizeof address, "10.0.0.%d", fd / 4);
    ck_assert(enter(g, fd, address));
  }
  ck_assert(!enter(g, 100, "10.1.1.1"));
  gate_remove(g, gate_find_fd(g, 0));
  gate_remove(g, gate_find_fd(g, 100));
  ck_assert(enter(g, 101, "10.1.1.1"));
  free(g);
}
END_TEST

START_TEST(sessions_do_not_count) {
  struct gate *g = gate_new();
  for (int fd = 0; fd < MAX_PEERS; fd++) {
    ck_assert(enter(g, fd, "ipc"));
    gate_set_session(gate_find_fd(g, fd), true, 1000);
  }
  ck_assert(enter(g, 1000, "ipc"));
  free(g);
}
END_TEST

START_TEST(nobody_is_admitted_who_was_not_accepted) {
  struct gate *g = gate_new();
  ck_assert(!gate_admit(g, "10.0.0.1"));
  ck_assert(enter(g, 1, "10.0.0.1"));
  ck_assert(!gate_admit(g, "10.0.0.1"));
  free(g);
}
END_TEST

START_TEST(half_open_connections_are_bounded) {
  struct gate *g = gate_new();
  for (int fd = 0; fd < MAX_GATE_HALF_OPEN; fd++)
    ck_assert_ptr_nonnull(gate_add(g, fd, "10.0.0.1", 1000));
  ck_assert_ptr_null(gate_add(g, 500, "10.0.0.2", 1000));
  ck_assert(gate_admit(g, "10.0.0.1"));
  ck_assert_ptr_nonnull(gate_add(g, 500, "10.0.0.2", 1000));
  free(g);
}
END_TEST

START_TEST(patience_ends_once) {
  struct gate *g = gate_new();
  ck_assert_uint_eq(gate_due_ms(g), UINT64_MAX);
  ck_assert(enter(g, 1, "10.0.0.1"));
  ck_assert(enter(g, 2, "10.0.0.1"));
  gate_set_session(gate_find_fd(g, 2), true, 1000);
  ck_assert_uint_eq(gate_due_ms(g), 1000 + GATE_PATIENCE_MS);
  ck_assert_ptr_null(gate_overdue(g, 999 + GATE_PATIENCE_MS));
  ck_assert_int_eq(gate_overdue(g, 1000 + GATE_PATIENCE_MS)->fd, 1);
  ck_assert_ptr_null(gate_overdue(g, 1000 + GATE_PATIENCE_MS));
  gate_set_session(gate_find_fd(g, 2), false, 20000);
  ck_assert_uint_eq(gate_due_ms(g), 20000 + GATE_PATIENCE_MS);
  gate_kick(gate_find_fd(g, 2), 21000);
  ck_assert_uint_eq(gate_due_ms(g), 21000 + GATE_KICK_MS);
  free(g);
}
END_TEST

START_TEST(a_connection_is_found_by_what_is_known_of_it) {
  struct gate *g = gate_new();
  gate_add(g, 7, "a", 0)->conn = CONN_ACCEPTED | 1;
  gate_add(g, 8, "b", 0)->conn = CONN_ACCEPTED | 2;
  ck_assert_int_eq(gate_find_conn(g, CONN_ACCEPTED | 2)->fd, 8);
  ck_assert_str_eq(gate_find_fd(g, 7)->address, "a");
  gate_remove(g, gate_find_fd(g, 7));
  ck_assert_ptr_null(gate_find_fd(g, 7));
  ck_assert_int_eq(gate_find_conn(g, CONN_ACCEPTED | 2)->fd, 8);
  free(g);
}
END_TEST

START_TEST(few_frames_come_without_a_session) {
  struct gate g = {0};
  struct gate_row *row = gate_add(&g, 1, "10.0.0.1", 100);
  for (int i = 0; i < MAX_GATE_FRAMES; i++)
    ck_assert(gate_take_frame(row, 100));
  ck_assert(!gate_take_frame(row, 100));
  ck_assert_uint_eq(gate_due_ms(&g), 100);
  gate_set_session(row, true, 100);
  for (int i = 0; i < 10 * MAX_GATE_FRAMES; i++)
    ck_assert(gate_take_frame(row, 100));
}
END_TEST

int main(void) {
  return SUITE_RUN("gate", few_frames_come_without_a_session, an_address_has_eight_without_a_session,
                   all_addresses_have_32_together, sessions_do_not_count, nobody_is_admitted_who_was_not_accepted,
                   half_open_connections_are_bounded, patience_ends_once, a_connection_is_found_by_what_is_known_of_it);
}
