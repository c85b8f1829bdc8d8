#include "agent/core/inbox.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

enum { LINK = 100, FULL = 250, EPOCH = 7 };

struct wire {
  size_t n_asked, n_fetched;
  enum manifest_kind kind; /* of the last question */
  uint64_t first;
  size_t n;
  struct manifest fetched;
  enum err answer;
};

static void port_ask(void *context, size_t peer, enum manifest_kind kind, uint64_t first, size_t n) {
  struct wire *w = context;
  ck_assert_uint_eq(peer, 3);
  w->n_asked++;
  w->kind = kind;
  w->first = first;
  w->n = n;
}

static enum err port_fetch(void *context, size_t peer, const struct manifest *m) {
  struct wire *w = context;
  ck_assert_uint_eq(peer, 3);
  if (w->answer != ERR_OK)
    return w->answer;
  w->n_fetched++;
  w->fetched = *m;
  return ERR_OK;
}

static bool has_no_memory;

/* In place of libc's: what grows. */
void *grow_array(void *old, size_t n, size_t size) __asm__("reallocarray");

void *grow_array(void *old, size_t n, size_t size) {
  return has_no_memory ? NULL : realloc(old, n * size);
}

static struct inbox in;
static struct wire wire;
static uint64_t now_ms;

static void pump(void) {
  const struct inbox_ports ports = {.ask = port_ask, .fetch = port_fetch};
  inbox_pump(&in, &ports, &wire, now_ms, 1000);
}

/* The origin's chain: difference(s) is the manifest of sequence s, full(s) the copy after it. Round = sequence. */
static struct digest root(uint64_t sequence, uint8_t kind) {
  struct digest d = {{kind, (uint8_t)sequence}};
  return d;
}

static struct digest chain(uint64_t sequence) {
  struct digest payload = root(1, MANIFEST_FULL);
  struct digest c = chain_start(&payload);
  for (uint64_t s = 2; s <= sequence; s++) {
    payload = root(s, MANIFEST_DIFFERENCE);
    c = chain_next(&c, &payload);
  }
  return c;
}

static struct manifest manifest(enum manifest_kind kind, uint64_t sequence) {
  return (struct manifest){
      .kind = kind, .boot_epoch = EPOCH, .sequence = sequence, .round = sequence, .samples = 10, .degree = 2};
}

static struct manifest difference(uint64_t sequence) {
  struct manifest m = manifest(MANIFEST_DIFFERENCE, sequence);
  m.chain = chain(sequence - 1);
  m.payload_root = root(sequence, MANIFEST_DIFFERENCE);
  m.n_payload = LINK;
  return m;
}

static struct manifest full(uint64_t sequence) {
  struct manifest m = manifest(MANIFEST_FULL, sequence);
  m.chain = chain(sequence);
  m.payload_root = root(sequence, MANIFEST_FULL);
  m.n_payload = FULL;
  return m;
}

static struct manifest none(uint64_t sequence, uint64_t last_payload) {
  struct manifest m = manifest(MANIFEST_NONE, sequence);
  m.chain = chain(last_payload);
  return m;
}

static void setup(void) {
  inbox_init(&in, 3, LINK, FULL);
  wire = (struct wire){0};
  now_ms = 1000;
}

static void teardown(void) {
  inbox_done(&in);
}

static void tell(struct manifest m, enum err expected) {
  ck_assert_int_eq(inbox_manifest(&in, &m), expected);
  pump();
}

static void deliver(void) {
  struct manifest m = wire.fetched;
  inbox_payload(&in, &m, malloc(m.n_payload));
  pump();
}

/* Applies what is taken for the round; the link at `bad` fails. */
static size_t merge(uint64_t round, size_t bad) {
  size_t n;
  struct link_in *links = inbox_take(&in, round, &n);
  size_t n_applied = bad < n ? bad : n;
  struct chain_place place = n_applied > 0 ? link_place(&links[n_applied - 1].manifest) : in.copy;
  inbox_applied(&in, &place, n_applied, bad < n ? ERR_ROOT : ERR_OK);
  for (size_t i = 0; i < n; i++)
    free(links[i].payload);
  free(links);
  return n;
}

static void start_chain(void) {
  tell(full(1), ERR_OK);
  deliver();
  ck_assert_uint_eq(merge(1, SIZE_MAX), 1);
}

static void newest(uint64_t sequence) {
  struct position p = {.boot_epoch = EPOCH, .sequence = sequence};
  inbox_newest(&in, &p);
  pump();
}

START_TEST(nothing_is_asked_of_who_has_nothing) {
  pump();
  ck_assert_uint_eq(wire.n_asked, 0);
  ck_assert(inbox_is_current(&in));
  ck_assert(!inbox_has_copy(&in));
}
END_TEST

START_TEST(first_contact_asks_for_the_full_copy_and_fetches_it_at_once) {
  newest(5);
  ck_assert_uint_eq(wire.n_asked, 1);
  ck_assert_int_eq(wire.kind, MANIFEST_FULL);
  ck_assert_uint_eq(wire.first, 0);
  tell(full(5), ERR_OK);
  ck_assert_uint_eq(wire.n_fetched, 1);
  deliver();
  ck_assert(inbox_is_current(&in));
  ck_assert_uint_eq(in.held.round, 5);
  ck_assert_uint_eq(inbox_bytes(&in), FULL);
}
END_TEST

START_TEST(a_question_without_an_answer_is_repeated) {
  newest(5);
  pump();
  ck_assert_uint_eq(wire.n_asked, 1);
  now_ms += ANSWER_MS;
  pump();
  ck_assert_uint_eq(wire.n_asked, 2);
  inbox_failed(&in, ERR_NOT_YET, now_ms);
  pump();
  ck_assert_uint_eq(wire.n_asked, 2);
  now_ms += RETRY_MS;
  pump();
  ck_assert_uint_eq(wire.n_asked, 3);
}
END_TEST

START_TEST(an_answer_that_is_of_no_use_is_not_asked_for_again_at_once) {
  start_chain();
  newest(2);
  ck_assert_uint_eq(wire.n_asked, 1);
  for (int i = 0; i < 3; i++)
    tell(full(1), ERR_OK); /* held already */
  ck_assert_uint_eq(wire.n_asked, 1);
  now_ms += ANSWER_MS;
  pump();
  ck_assert_uint_eq(wire.n_asked, 2);
}
END_TEST

START_TEST(a_full_copy_newer_than_the_links_told_before_is_fetched) {
  tell(difference(7), ERR_OK);
  tell(difference(8), ERR_OK);
  ck_assert_int_eq(wire.kind, MANIFEST_FULL);
  tell(full(8), ERR_OK);
  ck_assert_uint_eq(wire.n_fetched, 1);
  tell(difference(9), ERR_OK);
  deliver();
  ck_assert_uint_eq(wire.fetched.sequence, 9);
  deliver();
  ck_assert(inbox_is_current(&in));
  ck_assert_uint_eq(merge(9, SIZE_MAX), 2);
}
END_TEST

START_TEST(a_full_copy_is_taken_though_the_offers_are_full) {
  for (uint64_t s = 2; s < 2 + KEEP_PAYLOADS; s++)
    tell(difference(s), ERR_OK);
  tell(full(1 + KEEP_PAYLOADS), ERR_OK);
  ck_assert_uint_eq(wire.n_fetched, 1);
  deliver();
  ck_assert(inbox_is_current(&in));
}
END_TEST

START_TEST(links_are_fetched_in_order_and_later_rounds_wait) {
  start_chain();
  tell(difference(3), ERR_OK);
  ck_assert_uint_eq(wire.n_fetched, 1); /* the full one */
  ck_assert_int_eq(wire.kind, MANIFEST_DIFFERENCE);
  ck_assert_uint_eq(wire.first, 2);
  ck_assert_uint_eq(wire.n, 2);
  tell(difference(2), ERR_OK);
  tell(difference(3), ERR_OK); /* again */
  deliver();
  deliver();
  ck_assert_uint_eq(wire.n_fetched, 3);
  ck_assert_uint_eq(in.held.position.sequence, 3);
  ck_assert_uint_eq(merge(2, SIZE_MAX), 1);
  ck_assert_uint_eq(in.copy.round, 2);
  ck_assert_uint_eq(merge(2, SIZE_MAX), 0);
  ck_assert_uint_eq(merge(3, SIZE_MAX), 1);
  ck_assert_uint_eq(in.copy.round, 3);
}
END_TEST

START_TEST(fewer_bytes_decide_between_links_and_the_full_copy) {
  for (uint64_t missing = 1; missing <= 4; missing++) {
    teardown();
    setup();
    start_chain();
    newest(1 + missing);
    ck_assert_int_eq(wire.kind, missing * LINK > FULL ? MANIFEST_FULL : MANIFEST_DIFFERENCE);
  }
}
END_TEST

START_TEST(what_is_gone_is_replaced_by_the_full_copy) {
  start_chain();
  newest(3);
  ck_assert_int_eq(wire.kind, MANIFEST_DIFFERENCE);
  inbox_failed(&in, ERR_GONE, now_ms);
  now_ms += RETRY_MS;
  pump();
  ck_assert_int_eq(wire.kind, MANIFEST_FULL);
}
END_TEST

START_TEST(a_link_of_another_chain_leads_to_the_full_copy) {
  start_chain();
  struct manifest other = difference(2);
  other.chain.bytes[0] ^= 1;
  tell(other, ERR_CHAIN);
  ck_assert_int_eq(wire.kind, MANIFEST_FULL);
  ck_assert_uint_eq(wire.n_asked, 1);
}
END_TEST

START_TEST(a_full_copy_that_was_not_needed_conflates_nothing) {
  start_chain();
  tell(difference(2), ERR_OK);
  tell(full(3), ERR_OK); /* a late answer */
  tell(difference(3), ERR_OK);
  deliver();
  deliver();
  ck_assert_uint_eq(wire.fetched.kind, MANIFEST_DIFFERENCE);
  ck_assert_uint_eq(merge(2, SIZE_MAX), 1);
  ck_assert_uint_eq(merge(3, SIZE_MAX), 1);
}
END_TEST

START_TEST(a_new_chain_under_a_higher_epoch_is_taken) {
  start_chain();
  struct manifest m = full(1);
  m.boot_epoch = EPOCH + 1;
  m.sequence = 9;
  tell(m, ERR_OK);
  ck_assert_uint_eq(wire.fetched.sequence, 9);
  deliver();
  ck_assert(inbox_is_current(&in));
  tell(difference(2), ERR_REPLAY);
}
END_TEST

START_TEST(old_differences_are_replays_and_resends_are_welcome) {
  start_chain();
  tell(difference(2), ERR_OK);
  deliver();
  tell(difference(2), ERR_OK);
  tell(difference(3), ERR_OK);
  deliver();
  tell(difference(2), ERR_REPLAY);
  ck_assert_uint_eq(wire.n_fetched, 3);
}
END_TEST

START_TEST(two_roots_at_one_position_are_an_equivocation) {
  start_chain();
  tell(difference(2), ERR_OK);
  struct manifest other = difference(2);
  other.payload_root.bytes[5] ^= 1;
  tell(other, ERR_EQUIVOCATION);
  struct manifest next_epoch = other;
  next_epoch.boot_epoch++;
  ck_assert_int_ne(inbox_manifest(&in, &next_epoch), ERR_EQUIVOCATION);
  struct manifest copy = full(2); /* another kind */
  ck_assert_int_ne(inbox_manifest(&in, &copy), ERR_EQUIVOCATION);
}
END_TEST

START_TEST(kind_none_moves_the_sequence_and_no_copy) {
  start_chain();
  tell(none(2, 1), ERR_OK);
  ck_assert_uint_eq(in.held.position.sequence, 2);
  ck_assert_uint_eq(in.copy.position.sequence, 1);
  ck_assert_uint_eq(in.none_round, 2);
  ck_assert(inbox_is_current(&in));
  struct manifest m = manifest(MANIFEST_DIFFERENCE, 3);
  m.chain = chain(1);
  m.payload_root = root(2, MANIFEST_DIFFERENCE);
  m.n_payload = LINK;
  tell(m, ERR_OK);
  deliver();
  ck_assert_uint_eq(merge(3, SIZE_MAX), 1);
  ck_assert_uint_eq(in.copy.position.sequence, 3);
}
END_TEST

START_TEST(a_failed_link_breaks_the_copy_until_a_full_one_comes) {
  start_chain();
  tell(difference(2), ERR_OK);
  deliver();
  tell(difference(3), ERR_OK);
  deliver();
  ck_assert_uint_eq(merge(2, 0), 1);
  ck_assert_uint_eq(in.n_broken, 1);
  ck_assert_uint_eq(in.n_queue, 0);
  ck_assert(!inbox_has_copy(&in));
  pump();
  ck_assert_int_eq(wire.kind, MANIFEST_FULL);
  tell(full(3), ERR_OK);
  deliver();
  ck_assert_uint_eq(merge(2, 0), 1);
  ck_assert_uint_eq(in.n_broken, 2);
  pump();
  tell(full(3), ERR_OK);
  deliver();
  ck_assert_uint_eq(merge(2, SIZE_MAX), 1);
  ck_assert_uint_eq(in.n_broken, 0);
  ck_assert_uint_eq(in.copy.round, 3);
}
END_TEST

START_TEST(the_copy_before_kinds_none_heals_a_broken_one) {
  start_chain();
  tell(none(2, 1), ERR_OK);
  inbox_want_full(&in);
  pump();
  ck_assert_int_eq(wire.kind, MANIFEST_FULL);
  tell(full(1), ERR_OK); /* the newest there is */
  deliver();
  ck_assert_uint_eq(wire.first, 2);
  ck_assert_int_eq(wire.kind, MANIFEST_DIFFERENCE);
  tell(none(2, 1), ERR_OK);
  ck_assert(inbox_is_current(&in));
}
END_TEST

START_TEST(a_full_queue_stops_fetching_but_not_the_full_copy) {
  start_chain();
  for (uint64_t s = 2; s < 2 + KEEP_PAYLOADS; s++) {
    tell(difference(s), ERR_OK);
    deliver();
  }
  ck_assert_uint_eq(in.n_queue, KEEP_PAYLOADS);
  size_t n_fetched = wire.n_fetched, n_asked = wire.n_asked;
  tell(difference(2 + KEEP_PAYLOADS), ERR_OK);
  ck_assert_uint_eq(wire.n_fetched, n_fetched);
  ck_assert_uint_eq(wire.n_asked, n_asked);
  ck_assert(!inbox_is_current(&in));
  inbox_want_full(&in);
  pump();
  ck_assert_uint_eq(wire.n_asked, n_asked + 1);
  tell(full(2 + KEEP_PAYLOADS), ERR_OK);
  deliver();
  ck_assert_uint_eq(in.n_queue, 1);
  ck_assert(inbox_is_current(&in));
}
END_TEST

START_TEST(a_full_copy_takes_the_place_of_links_without_more_memory) {
  start_chain();
  tell(difference(2), ERR_OK);
  deliver();
  inbox_want_full(&in);
  pump();
  tell(full(3), ERR_OK);
  has_no_memory = true;
  deliver();
  has_no_memory = false;
  ck_assert_uint_eq(in.n_queue, 1);
  ck_assert_int_eq(in.queue[0].manifest.kind, MANIFEST_FULL);
  ck_assert(inbox_is_current(&in));
}
END_TEST

START_TEST(without_room_it_is_fetched_later) {
  struct manifest m = full(1);
  m.n_payload = 2000;
  tell(m, ERR_OK);
  ck_assert_uint_eq(wire.n_fetched, 0);
  const struct inbox_ports ports = {.ask = port_ask, .fetch = port_fetch};
  wire.answer = ERR_BUDGET;
  now_ms += RETRY_MS;
  inbox_pump(&in, &ports, &wire, now_ms, 2000);
  wire.answer = ERR_OK;
  inbox_pump(&in, &ports, &wire, now_ms, 2000);
  ck_assert_uint_eq(wire.n_fetched, 0);
  now_ms += RETRY_MS;
  inbox_pump(&in, &ports, &wire, now_ms, 2000);
  ck_assert_uint_eq(wire.n_fetched, 1);
}
END_TEST

/* The queue of a jump in which the peer went on is as long as the room: it has to give way to the newer copy. */
START_TEST(without_room_for_both_what_waits_gives_way_to_the_full_copy) {
  const struct inbox_ports ports = {.ask = port_ask, .fetch = port_fetch};
  tell(full(1), ERR_OK);
  deliver();
  size_t n_fetched = wire.n_fetched;
  inbox_want_full(&in);
  struct manifest m = full(30);
  ck_assert_int_eq(inbox_manifest(&in, &m), ERR_OK);
  inbox_pump(&in, &ports, &wire, now_ms, m.n_payload); /* room for both */
  ck_assert_uint_eq(wire.n_fetched, n_fetched + 1);
  ck_assert_uint_eq(in.n_queue, 1);
  inbox_failed(&in, ERR_TIMED_OUT, now_ms);
  now_ms += RETRY_MS;
  ck_assert_int_eq(inbox_manifest(&in, &m), ERR_OK);
  inbox_pump(&in, &ports, &wire, now_ms, 0);
  ck_assert_uint_eq(wire.n_fetched, n_fetched + 2);
  ck_assert_uint_eq(in.n_queue, 0);
  ck_assert_uint_eq(inbox_bytes(&in), m.n_payload);
  ck_assert(!inbox_has_copy(&in));
  deliver();
  ck_assert(inbox_is_current(&in));
}
END_TEST

START_TEST(a_lost_session_forgets_what_was_under_way_and_keeps_what_waits) {
  start_chain();
  tell(difference(2), ERR_OK);
  deliver();
  tell(difference(3), ERR_OK);
  ck_assert(in.is_fetching);
  inbox_disconnected(&in);
  ck_assert_uint_eq(in.n_queue, 1);
  ck_assert_uint_eq(inbox_bytes(&in), LINK);
  pump();
  ck_assert_uint_eq(wire.first, 3);
}
END_TEST

/* Each sum is all that there was before it. */
static struct manifest sum(uint64_t sequence) {
  struct manifest m = manifest(MANIFEST_SUM, sequence);
  m.payload_root = root(sequence, MANIFEST_SUM);
  m.chain = chain_start(&m.payload_root);
  m.n_payload = FULL;
  return m;
}

START_TEST(a_sum_goes_on_from_whatever_was_there) {
  in.takes_sums = true;
  newest(3);
  ck_assert_int_eq(wire.kind, MANIFEST_FULL);
  tell(sum(3), ERR_OK);
  deliver();
  ck_assert(inbox_has_copy(&in) && inbox_is_current(&in));
  ck_assert_uint_eq(merge(3, SIZE_MAX), 1);
  tell(sum(7), ERR_OK); /* what was lost between is in it */
  ck_assert_uint_eq(wire.n_fetched, 2);
  deliver();
  ck_assert_uint_eq(in.held.position.sequence, 7);
  ck_assert_uint_eq(merge(6, SIZE_MAX), 0); /* of a later round */
  tell(sum(5), ERR_REPLAY);
  struct manifest after = manifest(MANIFEST_NONE, 8);
  after.chain = in.held.position.chain;
  tell(after, ERR_OK);
  ck_assert_uint_eq(in.held.position.sequence, 8);
  ck_assert_uint_eq(merge(7, 0), 1); /* it is broken: the same is got again */
  ck_assert(!inbox_has_copy(&in));
  now_ms += ANSWER_MS;
  pump();
  ck_assert_int_eq(wire.kind, MANIFEST_FULL);
  tell(sum(7), ERR_OK);
  deliver();
  ck_assert(inbox_has_copy(&in));
}
END_TEST

START_TEST(sums_and_differences_do_not_mix) {
  tell(sum(1), ERR_ENCODING);
  in.takes_sums = true;
  tell(full(1), ERR_ENCODING);
  tell(difference(2), ERR_ENCODING);
  ck_assert_uint_eq(wire.n_fetched, 0);
  tell(sum(1), ERR_OK);
  ck_assert_uint_eq(wire.n_fetched, 1);
}
END_TEST

START_TEST(a_full_queue_of_sums_loses_the_oldest) {
  in.takes_sums = true;
  for (uint64_t s = 1; s <= KEEP_PAYLOADS; s++) {
    tell(sum(s), ERR_OK);
    deliver();
  }
  inbox_want_full(&in);
  tell(sum(KEEP_PAYLOADS + 1), ERR_OK);
  deliver();
  ck_assert_uint_eq(in.n_queue, KEEP_PAYLOADS);
  ck_assert_uint_eq(in.queue[0].manifest.sequence, 2);
  ck_assert_uint_eq(in.held.position.sequence, KEEP_PAYLOADS + 1);
}
END_TEST

START_TEST(without_room_for_both_a_sum_that_is_needed_takes_the_place) {
  const struct inbox_ports ports = {.ask = port_ask, .fetch = port_fetch};
  in.takes_sums = true;
  tell(sum(1), ERR_OK);
  deliver();
  struct manifest m = sum(5);
  ck_assert_int_eq(inbox_manifest(&in, &m), ERR_OK);
  inbox_pump(&in, &ports, &wire, now_ms, 0);
  ck_assert_uint_eq(in.n_queue, 1); /* the round takes it first */
  inbox_want_full(&in);
  now_ms += RETRY_MS;
  inbox_pump(&in, &ports, &wire, now_ms, 0);
  ck_assert_uint_eq(in.n_queue, 0);
  deliver();
  ck_assert(inbox_has_copy(&in) && inbox_is_current(&in));
}
END_TEST

int main(void) {
  return SUITE_RUN_AROUND(
      "inbox", 0, setup, teardown, nothing_is_asked_of_who_has_nothing,
      first_contact_asks_for_the_full_copy_and_fetches_it_at_once, a_question_without_an_answer_is_repeated,
      an_answer_that_is_of_no_use_is_not_asked_for_again_at_once,
      a_full_copy_newer_than_the_links_told_before_is_fetched, a_full_copy_is_taken_though_the_offers_are_full,
      links_are_fetched_in_order_and_later_rounds_wait, fewer_bytes_decide_between_links_and_the_full_copy,
      what_is_gone_is_replaced_by_the_full_copy, a_link_of_another_chain_leads_to_the_full_copy,
      a_full_copy_that_was_not_needed_conflates_nothing, a_new_chain_under_a_higher_epoch_is_taken,
      old_differences_are_replays_and_resends_are_welcome, two_roots_at_one_position_are_an_equivocation,
      kind_none_moves_the_sequence_and_no_copy, a_failed_link_breaks_the_copy_until_a_full_one_comes,
      the_copy_before_kinds_none_heals_a_broken_one, a_full_queue_stops_fetching_but_not_the_full_copy,
      a_full_copy_takes_the_place_of_links_without_more_memory, without_room_it_is_fetched_later,
      without_room_for_both_what_waits_gives_way_to_the_full_copy,
      a_lost_session_forgets_what_was_under_way_and_keeps_what_waits, a_sum_goes_on_from_whatever_was_there,
      sums_and_differences_do_not_mix, a_full_queue_of_sums_loses_the_oldest,
      without_room_for_both_a_sum_that_is_needed_takes_the_place);
}
