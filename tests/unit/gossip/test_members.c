#include "gossip/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crypto/random.h"
#include "tests/unit/suite.h"

/* Agents 0 … N − 1 by ascending key; tables know each other by what their tests carry over. */
enum { N = 5, EPOCH = 7 };

static const uint64_t START = 1000000, BEAT = 1000;

static struct identity *ids[N];
static struct members tables[N];
static uint64_t now_ms;

static int by_key(const void *a, const void *b) {
  const struct identity *const *x = a, *const *y = b;
  return identity_key_compare(identity_public(*x), identity_public(*y));
}

static struct identity *identity_numbered(uint16_t n) {
  uint8_t seed[IDENTITY_SEED_BYTES] = {(uint8_t)n, (uint8_t)(n >> 8)};
  struct identity *id;
  ck_assert_int_eq(identity_from_seed(seed, &id), ERR_OK);
  return id;
}

static void setup(void) {
  ck_assert_int_eq(random_open(), ERR_OK);
  now_ms = START;
  for (size_t i = 0; i < N; i++)
    ids[i] = identity_numbered((uint16_t)(i + 1));
  qsort(ids, N, sizeof ids[0], by_key); // NOLINT(bugprone-sizeof-expression): an array of pointers
}

/* A table whose peers are `first` … `first` + n − 1. */
static struct members *table_open(size_t i, size_t first, size_t n) {
  struct identity_key keys[N];
  char address[40];
  for (size_t k = 0; k < n; k++)
    keys[k] = *identity_public(ids[first + k]);
  snprintf(address, sizeof address, "tcp://10.0.0.%zu:7411", i);
  struct members_config config = {.key = *identity_public(ids[i]),
                                  .swarm = {{9}},
                                  .boot_epoch = EPOCH,
                                  .name = "site",
                                  .addresses = address,
                                  .peers = keys,
                                  .n_peers = n,
                                  .max = MAX_MEMBERS,
                                  .beat_ms = BEAT,
                                  .seal = members_seal_of(ids[i])};
  members_done(&tables[i]);
  ck_assert_int_eq(members_init(&tables[i], &config, now_ms), ERR_OK);
  return &tables[i];
}

static void teardown(void) {
  for (size_t i = 0; i < N; i++) {
    members_done(&tables[i]);
    identity_free(ids[i]);
  }
}

static const struct member *row(const struct members *m, size_t who) {
  const struct member *found = members_find(m, identity_public(ids[who]));
  ck_assert_ptr_nonnull(found);
  return found;
}

static void assert_state(const struct members *m, size_t who, enum member_state s) {
  ck_assert_str_eq(member_state_name(row(m, who)->state), member_state_name(s));
}

static enum err take(struct members *m, uint32_t from, const struct news *item) {
  return item->kind == NEWS_STATEMENT ? members_take_statement(m, from, item->bytes, item->n, now_ms)
                                      : members_take_accusation(m, from, item->bytes, item->n, now_ms);
}

/* All that `from` has, in pages as small as can be; how many items. */
static size_t tell(const struct members *from, struct members *to) {
  uint64_t told = 0;
  size_t n_items = 0;
  for (struct news item; told < from->change;) {
    size_t n = members_news(from, 99, &told, &item, 1);
    if (n > 0)
      ck_assert_int_eq(take(to, 1, &item), ERR_OK);
    n_items += n;
  }
  return n_items;
}

static void pass(struct members *m, uint64_t ms) {
  now_ms += ms;
  (void)members_tick(m, now_ms);
}

/* Statements of everybody in the table 0, whose peers are 1 and 2. */
static struct members *all_told(void) {
  struct members *m = table_open(0, 1, 2);
  for (size_t i = 1; i < N; i++)
    tell(table_open(i, 0, 1), m);
  return m;
}

/* `who` has missed `whom`, and says so. */
static struct news accusation(size_t who, size_t whom, struct incarnation incarnation) {
  static uint8_t bytes[ACCUSATION_BYTES];
  struct accusation a = {.swarm = {{9}}, .accused = *identity_public(ids[whom]), .incarnation = incarnation};
  accusation_sign(&a, ids[who]);
  accusation_write(&a, bytes);
  return (struct news){NEWS_ACCUSATION, bytes, ACCUSATION_BYTES};
}

static enum err accuse(struct members *m, size_t who, size_t whom) {
  struct news item = accusation(who, whom, row(m, whom)->incarnation);
  return take(m, 1, &item);
}

START_TEST(peers_are_absent_until_they_say_something) {
  struct members *m = table_open(0, 1, 2);
  assert_state(m, 0, MEMBER_ALIVE);
  assert_state(m, 1, MEMBER_ABSENT);
  ck_assert_ptr_null(members_find(m, identity_public(ids[3])));
  tell(table_open(1, 0, 1), m);
  assert_state(m, 1, MEMBER_ALIVE);
  assert_state(m, 2, MEMBER_ABSENT);
  char address[MAX_ADDRESS_BYTES];
  ck_assert(members_address(row(m, 1), 5, address));
  ck_assert_str_eq(address, "tcp://10.0.0.1:7411");
  ck_assert(!members_address(row(m, 2), 0, address));
}
END_TEST

START_TEST(a_stranger_is_listed_and_told_further_once) {
  struct members *m = table_open(0, 1, 2), *other = table_open(4, 0, 1);
  ck_assert_uint_eq(tell(other, m), 1);
  assert_state(m, 4, MEMBER_ALIVE);
  ck_assert(!row(m, 4)->is_peer);
  struct news items[4];
  uint64_t told = 0;
  ck_assert_uint_eq(members_news(m, 2, &told, items, 4), 2); /* oneself and the stranger */
  ck_assert_uint_eq(told, m->change);
  ck_assert_uint_eq(members_news(m, 2, &told, items, 4), 0);
  told = 1;
  ck_assert_uint_eq(members_news(m, 1, &told, items, 4), 0); /* that is where it came from */
  uint64_t change = m->change;
  tell(other, m); /* nothing new */
  ck_assert_uint_eq(m->change, change);
}
END_TEST

START_TEST(forged_foreign_and_broken_words_do_not_count) {
  struct members *m = table_open(0, 1, 2);
  struct statement s = {.swarm = {{9}}, .incarnation = {EPOCH, 0}};
  uint8_t bytes[STATEMENT_MAX_BYTES];
  statement_sign(&s, ids[3]);
  s.key = *identity_public(ids[4]);
  size_t n = statement_write(&s, bytes);
  ck_assert_int_eq(members_take_statement(m, 1, bytes, n, now_ms), ERR_SIGNATURE);
  ck_assert_int_eq(members_take_statement(m, 1, bytes, n - 1, now_ms), ERR_MESSAGE);
  s.swarm.bytes[0] = 8;
  statement_sign(&s, ids[3]);
  n = statement_write(&s, bytes);
  ck_assert_int_eq(members_take_statement(m, 1, bytes, n, now_ms), ERR_SWARM);
  s = (struct statement){.swarm = {{9}}, .incarnation = {EPOCH + 1, 0}};
  statement_sign(&s, ids[0]);
  n = statement_write(&s, bytes);
  ck_assert_int_eq(members_take_statement(m, 1, bytes, n, now_ms), ERR_CLONE);
  ck_assert_uint_eq(m->n, 3);
}
END_TEST

START_TEST(one_accuser_makes_a_suspect_two_a_suspicion) {
  struct members *m = all_told();
  ck_assert_int_eq(accuse(m, 1, 3), ERR_OK);
  assert_state(m, 3, MEMBER_SUSPECT);
  pass(m, 100 * BEAT);
  assert_state(m, 3, MEMBER_SUSPECT);
  ck_assert_int_eq(accuse(m, 1, 3), ERR_OK); /* the same one again */
  pass(m, 100 * BEAT);
  assert_state(m, 3, MEMBER_SUSPECT);
  ck_assert_int_eq(accuse(m, 2, 3), ERR_OK);
  pass(m, members_suspicion_ms(m) - 1);
  assert_state(m, 3, MEMBER_SUSPECT);
  pass(m, 1);
  assert_state(m, 3, MEMBER_DEAD);
}
END_TEST

START_TEST(an_accusation_must_be_signed_by_a_member_and_of_this_incarnation) {
  struct members *m = all_told();
  struct news item = accusation(1, 3, (struct incarnation){EPOCH, 1});
  ck_assert_int_eq(take(m, 1, &item), ERR_OK);
  assert_state(m, 3, MEMBER_ALIVE);
  item = accusation(1, 3, (struct incarnation){EPOCH, 0});
  ((uint8_t *)(uintptr_t)item.bytes)[ACCUSATION_BYTES - 1] ^= 1;
  ck_assert_int_eq(take(m, 1, &item), ERR_SIGNATURE);
  assert_state(m, 3, MEMBER_ALIVE);
  struct members *alone = table_open(0, 3, 1);
  tell(&tables[3], alone);
  item = accusation(1, 3, (struct incarnation){EPOCH, 0});
  ck_assert_int_eq(take(alone, 0, &item), ERR_OK); /* who says that? */
  assert_state(alone, 3, MEMBER_ALIVE);
}
END_TEST

START_TEST(a_newer_incarnation_ends_every_suspicion) {
  struct members *m = all_told();
  (void)!accuse(m, 1, 3);
  (void)!accuse(m, 2, 3);
  pass(m, 2 * members_suspicion_ms(m));
  assert_state(m, 3, MEMBER_DEAD);
  struct members *accused = &tables[3];
  struct news item = accusation(1, 3, (struct incarnation){EPOCH, 0});
  tell(&tables[1], accused); /* it has to know its accuser */
  ck_assert_int_eq(take(accused, 0, &item), ERR_OK);
  (void)members_tick(accused, now_ms);
  ck_assert_uint_eq(accused->own.incarnation.refutation, 1);
  tell(accused, m);
  assert_state(m, 3, MEMBER_ALIVE);
  (void)!accuse(m, 1, 3);
  assert_state(m, 3, MEMBER_ALIVE); /* so soon it is not heard about the same one */
  now_ms += ACCUSE_AGAIN_MS;
  (void)!accuse(m, 1, 3);
  assert_state(m, 3, MEMBER_SUSPECT);
  members_restart(accused, EPOCH + 1, now_ms);
  tell(accused, m);
  assert_state(m, 3, MEMBER_ALIVE);
}
END_TEST

START_TEST(refutations_come_at_most_every_two_seconds) {
  struct members *m = all_told();
  for (size_t i = 1; i < N; i++) {
    struct news item = accusation(i, 0, m->own.incarnation);
    ck_assert_int_eq(take(m, 1, &item), ERR_OK);
    (void)members_tick(m, now_ms);
  }
  ck_assert_uint_eq(m->own.incarnation.refutation, 1);
  ck_assert_uint_eq(members_tick(m, now_ms), now_ms + REFUTE_EVERY_MS);
  pass(m, REFUTE_EVERY_MS);
  ck_assert_uint_eq(m->own.incarnation.refutation, 2);
  ck_assert_uint_eq(members_tick(m, now_ms), MEMBERS_NEVER);
}
END_TEST

START_TEST(a_session_says_more_than_others) {
  struct members *m = all_told();
  members_session(m, 0, true, now_ms);
  (void)!accuse(m, 2, 1);
  (void)!accuse(m, 3, 1);
  pass(m, 100 * BEAT);
  assert_state(m, 1, MEMBER_ALIVE);
  members_session(m, 0, false, now_ms);
  assert_state(m, 1, MEMBER_SUSPECT);
  pass(m, members_suspicion_ms(m));
  assert_state(m, 1, MEMBER_DEAD);
  members_session(m, 0, true, now_ms);
  assert_state(m, 1, MEMBER_ALIVE);
}
END_TEST

START_TEST(an_own_missed_probe_is_enough_and_is_told) {
  struct members *m = all_told();
  uint64_t told = m->change;
  struct news item;
  members_miss(m, 0, false, now_ms);
  assert_state(m, 1, MEMBER_SUSPECT);
  ck_assert_uint_eq(members_news(m, 99, &told, &item, 1), 0);
  members_miss(m, 0, true, now_ms);
  ck_assert_uint_eq(members_news(m, 99, &told, &item, 1), 1);
  ck_assert_int_eq(item.kind, NEWS_ACCUSATION);
  ck_assert_uint_eq(members_tick(m, now_ms), now_ms + members_suspicion_ms(m));
  pass(m, members_suspicion_ms(m));
  assert_state(m, 1, MEMBER_DEAD);
  ck_assert_int_eq(take(&tables[3], 0, &item), ERR_OK); /* it does not know either of the two */
}
END_TEST

START_TEST(who_leaves_is_not_suspected) {
  struct members *m = all_told();
  members_leave(&tables[1], now_ms);
  tell(&tables[1], m);
  assert_state(m, 1, MEMBER_LEFT);
  members_miss(m, 0, true, now_ms);
  (void)!accuse(m, 2, 1);
  (void)!accuse(m, 3, 1);
  pass(m, 100 * BEAT);
  assert_state(m, 1, MEMBER_LEFT);
  tables[1].own.leaves = false;
  members_restart(&tables[1], EPOCH + 1, now_ms);
  tell(&tables[1], m);
  assert_state(m, 1, MEMBER_ALIVE);
}
END_TEST

START_TEST(who_talks_too_much_of_itself_is_heard_once_a_second) {
  struct members *m = all_told();
  for (unsigned i = 0; i < 20; i++) {
    members_restart(&tables[3], EPOCH + 1 + i, now_ms);
    tell(&tables[3], m);
  }
  ck_assert_uint_lt(row(m, 3)->incarnation.boot_epoch, EPOCH + 5);
  now_ms += 1000;
  tell(&tables[3], m);
  ck_assert_uint_eq(row(m, 3)->incarnation.boot_epoch, EPOCH + 20);
}
END_TEST

static unsigned n_checked;

static enum err count_statement(void *context, const struct statement *s) {
  (void)context, (void)s;
  n_checked++;
  return ERR_OK;
}

static enum err count_accusation(void *context, const struct accusation *a) {
  (void)context, (void)a;
  n_checked++;
  return ERR_OK;
}

static void count_checks(struct members *m) {
  m->config.seal.verify_statement = count_statement;
  m->config.seal.verify_accusation = count_accusation;
  n_checked = 0;
}

/* Signatures are what costs. */
START_TEST(what_would_not_count_is_not_checked) {
  struct members *m = all_told();
  count_checks(m);
  for (unsigned i = 0; i < 20; i++)
    (void)!accuse(m, 1, 3);
  ck_assert_uint_eq(n_checked, 1);
  members_restart(&tables[3], EPOCH + 1, now_ms);
  tell(&tables[3], m);
  ck_assert_uint_eq(n_checked, 2);
  for (unsigned i = 0; i < 20; i++)
    (void)!accuse(m, 1, 3); /* so soon */
  ck_assert_uint_eq(n_checked, 2);
  for (size_t i = 0; i < 20; i++)
    (void)!accuse(m, 1 + i % 4, 0); /* one is enough to refute all */
  ck_assert_uint_eq(n_checked, 3);
  for (unsigned i = 0; i < 20; i++) {
    members_restart(&tables[3], EPOCH + 2 + i, now_ms);
    tell(&tables[3], m);
  }
  ck_assert_uint_le(n_checked, 3 + STATEMENT_BURST);
}
END_TEST

/* Pages over the list of the other one, until both say that nothing is missing. */
static unsigned compare(struct members *a, struct members *b, size_t page) {
  unsigned n_pages = 0;
  for (bool is_more = true, is_behind = true; is_more || is_behind; n_pages++) {
    static uint8_t rows[MAX_MEMBERS][LISTED_BYTES];
    struct news items[8];
    size_t n_rows = members_list(b, rows, MAX_MEMBERS);
    size_t n = members_lacking(a, (const uint8_t(*)[LISTED_BYTES])rows, n_rows, items, page, &is_more, &is_behind);
    for (size_t i = 0; i < n; i++)
      ck_assert_int_eq(take(b, 0, &items[i]), ERR_OK);
    struct members *other = a;
    a = b;
    b = other;
    ck_assert_uint_lt(n_pages, 50);
  }
  return n_pages;
}

START_TEST(comparing_makes_two_tables_equal) {
  struct members *a = all_told(), *b = &tables[4];
  (void)!accuse(a, 1, 3);
  (void)!accuse(a, 2, 3);
  members_restart(b, EPOCH + 3, now_ms);
  ck_assert_mem_ne(a->hash, b->hash, MEMBERS_HASH_BYTES);
  compare(a, b, 2);
  ck_assert_mem_eq(a->hash, b->hash, MEMBERS_HASH_BYTES);
  ck_assert_uint_eq(row(a, 4)->incarnation.boot_epoch, EPOCH + 3);
  assert_state(b, 3, MEMBER_SUSPECT);
  ck_assert_uint_eq(row(b, 3)->n_accusers, 2);
  ck_assert_uint_eq(compare(a, b, 2), 1);
}
END_TEST

START_TEST(what_a_peer_can_introduce_is_bounded) {
  struct members *m = table_open(0, 1, 2);
  struct statement s = {.swarm = {{9}}, .incarnation = {EPOCH, 0}};
  uint8_t bytes[STATEMENT_MAX_BYTES];
  unsigned n_refused = 0;
  m->config.max = 40;
  count_checks(m);
  for (uint16_t i = 0; i < 60; i++) {
    struct identity *id = identity_numbered(1000 + i);
    statement_sign(&s, id);
    identity_free(id);
    size_t n = statement_write(&s, bytes);
    n_refused += members_take_statement(m, 1, bytes, n, now_ms) == ERR_BUDGET;
  }
  ck_assert_uint_eq(m->n, 40);
  ck_assert_uint_eq(n_refused, 60 - 37);
  ck_assert_uint_eq(n_checked, 37);
}
END_TEST

START_TEST(one_peer_introduces_no_more_than_its_share) {
  struct members *m = table_open(0, 1, 2);
  count_checks(m);
  struct statement s = {.swarm = {{9}}, .incarnation = {EPOCH, 0}};
  uint8_t bytes[STATEMENT_MAX_BYTES];
  unsigned n_refused = 0;
  for (unsigned i = 0; i < MAX_INTRODUCED + 10; i++) {
    memcpy(s.key.bytes, &i, sizeof i);
    n_refused += members_take_statement(m, 1, bytes, statement_write(&s, bytes), now_ms) == ERR_BUDGET;
  }
  ck_assert_uint_eq(n_refused, 10);
  ck_assert_uint_eq(n_checked, MAX_INTRODUCED); /* nor is the rest checked */
  ck_assert_int_eq(members_take_statement(m, 0, bytes, statement_write(&s, bytes), now_ms), ERR_OK);
  ck_assert_uint_eq(m->n, 3 + MAX_INTRODUCED + 1);
}
END_TEST

/* Who is gone of those whom a peer told of makes room for others whom it tells of, and nobody else's. */
START_TEST(a_share_is_used_again_when_somebody_of_it_is_gone) {
  struct members *m = table_open(0, 1, 2);
  count_checks(m);
  struct statement s = {.swarm = {{9}}, .incarnation = {EPOCH, 0}, .leaves = true};
  uint8_t bytes[STATEMENT_MAX_BYTES];
  struct identity_key foreign = {{0xff}}, gone = {{0}};
  s.key = foreign;
  ck_assert_int_eq(members_take_statement(m, 0, bytes, statement_write(&s, bytes), now_ms), ERR_OK);
  pass(m, 1000);
  for (unsigned i = 0; i <= MAX_INTRODUCED; i++) {
    memset(&s.key, 0, sizeof s.key);
    memcpy(s.key.bytes + 1, &i, sizeof i);
    s.leaves = i == 7;
    if (s.leaves)
      gone = s.key;
    ck_assert_int_eq(members_take_statement(m, 1, bytes, statement_write(&s, bytes), now_ms), ERR_OK);
  }
  ck_assert_ptr_null(members_find(m, &gone));
  ck_assert_ptr_nonnull(members_find(m, &foreign));
  ck_assert_ptr_nonnull(members_find(m, &s.key));
  s.key.bytes[0] = 1;
  ck_assert_int_eq(members_take_statement(m, 1, bytes, statement_write(&s, bytes), now_ms), ERR_BUDGET);
}
END_TEST

/* Others know of a dead one that has made room here: what they tell of it is that it is dead. */
START_TEST(a_dead_one_that_made_room_comes_back_accused) {
  struct members *m = all_told(), *other = table_open(1, 0, 1);
  tell(m, other);
  for (size_t i = 2; i <= 4; i += 2) {
    ck_assert_int_eq(accuse(m, i, 3), ERR_OK);
    ck_assert_int_eq(accuse(other, i, 3), ERR_OK);
  }
  pass(m, members_suspicion_ms(m));
  assert_state(m, 3, MEMBER_DEAD);
  m->config.max = m->n;
  struct identity *id = identity_numbered(1000);
  struct statement s = {.swarm = {{9}}, .incarnation = {EPOCH, 0}};
  uint8_t bytes[STATEMENT_MAX_BYTES];
  statement_sign(&s, id);
  identity_free(id);
  ck_assert_int_eq(members_take_statement(m, 1, bytes, statement_write(&s, bytes), now_ms), ERR_OK);
  ck_assert_ptr_null(members_find(m, identity_public(ids[3])));
  m->config.max++;
  compare(m, other, 3);
  assert_state(m, 3, MEMBER_SUSPECT);
  pass(m, members_suspicion_ms(m));
  assert_state(m, 3, MEMBER_DEAD);
}
END_TEST

START_TEST(who_is_gone_makes_room) {
  struct members *m = all_told();
  m->config.max = m->n;
  members_leave(&tables[3], now_ms);
  tell(&tables[3], m);
  struct identity *id = identity_numbered(1000);
  struct statement s = {.swarm = {{9}}, .incarnation = {EPOCH, 0}};
  uint8_t bytes[STATEMENT_MAX_BYTES];
  statement_sign(&s, id);
  size_t n = statement_write(&s, bytes);
  ck_assert_int_eq(members_take_statement(m, 1, bytes, n, now_ms), ERR_OK);
  ck_assert_ptr_null(members_find(m, identity_public(ids[3])));
  ck_assert_ptr_nonnull(members_find(m, identity_public(id)));
  identity_free(id);
}
END_TEST

/* Two beats for a power of ten. */
START_TEST(a_suspicion_grows_with_the_logarithm_of_the_swarm) {
  struct members *m = table_open(0, 1, 2);
  static const struct {
    size_t n;
    uint64_t ms;
  } cases[] = {{2, 3000}, {16, 3000}, {64, 4200}, {1000, 6000}, {10000, 8400}};
  size_t n = m->n;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    m->n = cases[i].n;
    ck_assert_uint_eq(members_suspicion_ms(m), cases[i].ms);
  }
  m->n = n;
}
END_TEST

int main(void) {
  const TTest *const tests[] = {
      peers_are_absent_until_they_say_something,
      a_stranger_is_listed_and_told_further_once,
      forged_foreign_and_broken_words_do_not_count,
      one_accuser_makes_a_suspect_two_a_suspicion,
      an_accusation_must_be_signed_by_a_member_and_of_this_incarnation,
      a_newer_incarnation_ends_every_suspicion,
      refutations_come_at_most_every_two_seconds,
      a_session_says_more_than_others,
      an_own_missed_probe_is_enough_and_is_told,
      who_leaves_is_not_suspected,
      who_talks_too_much_of_itself_is_heard_once_a_second,
      what_would_not_count_is_not_checked,
      comparing_makes_two_tables_equal,
      what_a_peer_can_introduce_is_bounded,
      one_peer_introduces_no_more_than_its_share,
      who_is_gone_makes_room,
      a_share_is_used_again_when_somebody_of_it_is_gone,
      a_dead_one_that_made_room_comes_back_accused,
      a_suspicion_grows_with_the_logarithm_of_the_swarm,
  };
  TCase *tcase = tcase_create("members");
  tcase_add_checked_fixture(tcase, setup, teardown);
  for (size_t i = 0; i < sizeof tests / sizeof tests[0];
       i++) // NOLINT(bugprone-sizeof-expression): an array of pointers
    tcase_add_test(tcase, tests[i]);
  return suite_run_case("members", tcase);
}
