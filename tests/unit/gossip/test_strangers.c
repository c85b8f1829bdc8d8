#include "gossip/notes.h"
#include "gossip/strangers.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/suite.h"

static struct strangers s;

START_TEST(an_address_has_a_burst_and_a_rate) {
  strangers_done(&s);
  strangers_init(&s, 1000);
  for (int i = 0; i < 5; i++)
    ck_assert(strangers_allow(&s, "10.0.0.1", 1000));
  ck_assert(!strangers_allow(&s, "10.0.0.1", 1000));
  ck_assert(strangers_allow(&s, "10.0.0.2", 1000));
  ck_assert(!strangers_allow(&s, "10.0.0.1", 1049));
  ck_assert(strangers_allow(&s, "10.0.0.1", 1050));
  unsigned n = 0;
  for (uint64_t ms = 2000; ms < 12000; ms++)
    n += strangers_allow(&s, "10.0.0.1", ms);
  ck_assert_uint_ge(n, 200);
  ck_assert_uint_le(n, 205);
}
END_TEST

START_TEST(all_addresses_share_a_rate) {
  strangers_done(&s);
  strangers_init(&s, 1000);
  unsigned n = 0;
  char address[32];
  for (int i = 0; i < 1000; i++) {
    snprintf(address, sizeof address, "10.0.%d.%d", i / 250, i % 250);
    n += strangers_allow(&s, address, 1000);
  }
  ck_assert_uint_eq(n, 50);
}
END_TEST

START_TEST(what_is_counted_is_listed_by_address) {
  struct gossip_stranger rows[4];
  strangers_done(&s);
  strangers_init(&s, 1000);
  strangers_allow(&s, "10.0.0.9", 1000); /* nothing wrong with it */
  strangers_count(&s, "10.0.0.1", ERR_UNKNOWN_KEY, 1000);
  strangers_count(&s, "10.0.0.1", ERR_MAC, 1001);
  strangers_count(&s, "10.0.0.1", ERR_FRAME, 1002);
  strangers_count(&s, "10.0.0.2", ERR_GATE, 1003);
  ck_assert_uint_eq(strangers_list(&s, rows, 4), 2);
  ck_assert_str_eq(rows[0].address, "10.0.0.1");
  ck_assert_uint_eq(rows[0].n_unknown_key, 1);
  ck_assert_uint_eq(rows[0].n_handshake, 2);
  ck_assert_uint_eq(rows[0].last_ms, 1002);
  ck_assert_uint_eq(rows[1].n_gate, 1);
  ck_assert_uint_eq(strangers_list(&s, rows, 1), 1);
}
END_TEST

START_TEST(the_least_recent_makes_room) {
  struct gossip_stranger rows[MAX_STRANGERS];
  char address[32];
  strangers_done(&s);
  strangers_init(&s, 1000);
  for (unsigned i = 0; i <= MAX_STRANGERS; i++) {
    snprintf(address, sizeof address, "address-%u", i);
    strangers_count(&s, address, ERR_MAC, 1000 + i);
  }
  ck_assert_uint_eq(strangers_list(&s, rows, MAX_STRANGERS), MAX_STRANGERS);
  for (size_t i = 0; i < MAX_STRANGERS; i++)
    ck_assert_str_ne(rows[i].address, "address-0");
}
END_TEST

START_TEST(a_note_comes_once_a_minute) {
  struct notes notes;
  struct gossip_note note;
  notes_init(&notes, 2);
  notes_put(&notes, 1000, 0, ERR_NO_ANSWER, "one");
  notes_put(&notes, 2000, 0, ERR_NO_ANSWER, "two");
  notes_put(&notes, 2000, 0, ERR_UNREACHABLE, "three");
  notes_put(&notes, 2000, SIZE_MAX, ERR_NO_ANSWER, "four");
  notes_put(&notes, 61000, 0, ERR_NO_ANSWER, "five");
  static const char *const expected[] = {"one", "three", "four", "five"};
  for (size_t i = 0; i < 4; i++) {
    ck_assert(notes_take(&notes, &note));
    ck_assert_str_eq(note.text, expected[i]);
  }
  ck_assert(!notes_take(&notes, &note));
  notes_done(&notes);
}
END_TEST

START_TEST(notes_that_nobody_takes_are_bounded) {
  struct notes notes;
  struct gossip_note note;
  char text[32];
  notes_init(&notes, 0);
  for (unsigned i = 0; i < MAX_NOTES + 3; i++) {
    snprintf(text, sizeof text, "%u", i);
    notes_put(&notes, (uint64_t)i * NOTE_EVERY_MS, SIZE_MAX, ERR_GATE, text);
  }
  ck_assert(notes_take(&notes, &note));
  ck_assert_str_eq(note.text, "3");
  unsigned n = 1;
  while (notes_take(&notes, &note))
    n++;
  ck_assert_uint_eq(n, MAX_NOTES);
  notes_done(&notes);
}
END_TEST

START_TEST(a_row_with_nothing_to_tell_makes_room_first) {
  struct gossip_stranger rows[2];
  strangers_done(&s);
  strangers_init(&s, 1000);
  ck_assert_uint_eq(s.capacity, 0);
  strangers_count(&s, "bad", ERR_MAC, 1000);
  for (unsigned i = 0; i < 3 * MAX_STRANGERS; i++) {
    char address[32];
    snprintf(address, sizeof address, "address-%u", i);
    ck_assert(strangers_allow(&s, address, 2000 + i * 1000));
  }
  ck_assert_uint_eq(s.n_rows, 2);
  ck_assert_uint_eq(strangers_list(&s, rows, 2), 1);
  ck_assert_str_eq(rows[0].address, "bad");
}
END_TEST

START_TEST(rows_with_nothing_to_tell_are_forgotten_together) {
  struct gossip_stranger rows[2];
  strangers_done(&s);
  strangers_init(&s, 1000);
  for (int i = 0; i < 5; i++)
    ck_assert(strangers_allow(&s, "good", 1000));
  strangers_tidy(&s, 1200); /* its bucket is not full again */
  ck_assert(strangers_allow(&s, "good", 1200) && s.n_rows == 1);
  strangers_tidy(&s, 2000);
  ck_assert_uint_eq(s.n_rows, 0);
  ck_assert(strangers_allow(&s, "good", 2000));
  strangers_count(&s, "bad", ERR_MAC, 2000);
  strangers_tidy(&s, 100000);
  ck_assert_uint_eq(strangers_list(&s, rows, 2), 1);
  ck_assert_uint_eq(s.drops[err_drop_index(ERR_MAC)], 1);
}
END_TEST

int main(void) {
  return SUITE_RUN("strangers", an_address_has_a_burst_and_a_rate, all_addresses_share_a_rate,
                   what_is_counted_is_listed_by_address, the_least_recent_makes_room, a_note_comes_once_a_minute,
                   notes_that_nobody_takes_are_bounded, a_row_with_nothing_to_tell_makes_room_first,
                   rows_with_nothing_to_tell_are_forgotten_together);
}
