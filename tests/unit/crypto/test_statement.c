#include <string.h>

#include "crypto/random.h"
#include "crypto/statement.h"
#include "tests/unit/crypto/vectors.h"
#include "tests/unit/suite.h"

enum { AT_SWARM = 1, AT_EPOCH = 49, AT_FLAGS = 61, AT_NAME = 63, AT_ADDRESSES = 70 };

static const char addresses[] = "tcp://10.0.0.7:7411 tcp://[fd00::7]:7411";

static struct identity *identity_sample(void) {
  uint8_t seed[IDENTITY_SEED_BYTES];
  struct identity *id = NULL;
  for (unsigned i = 0; i < sizeof seed; i++)
    seed[i] = (uint8_t)i;
  ck_assert_int_eq(random_open(), ERR_OK);
  ck_assert_int_eq(identity_from_seed(seed, &id), ERR_OK);
  return id;
}

static struct statement sample(void) {
  struct statement s = {.swarm = swarm_id("k3vz-7qd2"), .incarnation = {0x0102030405060708, 2}, .name = "mec-07"};
  struct identity *id = identity_sample();
  memcpy(s.addresses, addresses, sizeof addresses);
  statement_sign(&s, id);
  identity_free(id);
  return s;
}

static struct accusation sample_accusation(void) {
  struct accusation a = {.swarm = swarm_id("k3vz-7qd2"), .incarnation = {0x0102030405060708, 2}};
  struct identity *id = identity_sample();
  memset(a.accused.bytes, 0x66, sizeof a.accused.bytes);
  accusation_sign(&a, id);
  identity_free(id);
  return a;
}

static uint8_t bytes[STATEMENT_MAX_BYTES + 1];

START_TEST(golden) {
  struct statement s = sample();
  size_t n = statement_write(&s, bytes);
  assert_golden("statement", bytes, n);
  struct identity *id = identity_sample();
  s = (struct statement){.swarm = s.swarm, .incarnation = {1, 3}, .leaves = true};
  statement_sign(&s, id);
  identity_free(id);
  n = statement_write(&s, bytes);
  assert_golden("statement_leaves", bytes, n);
  struct accusation a = sample_accusation();
  accusation_write(&a, bytes);
  assert_golden("accusation", bytes, ACCUSATION_BYTES);
}
END_TEST

START_TEST(written_and_read_back) {
  struct statement s = sample(), back;
  size_t n = statement_write(&s, bytes);
  ck_assert_int_eq(statement_read(bytes, n, &back), ERR_OK);
  ck_assert_int_eq(statement_verify(&back), ERR_OK);
  ck_assert_str_eq(back.name, "mec-07");
  ck_assert_str_eq(back.addresses, addresses);
  ck_assert(!back.leaves && back.incarnation.refutation == 2);
  struct accusation a = sample_accusation(), again;
  accusation_write(&a, bytes);
  ck_assert_int_eq(accusation_read(bytes, ACCUSATION_BYTES, &again), ERR_OK);
  ck_assert_int_eq(accusation_verify(&again), ERR_OK);
}
END_TEST

START_TEST(cut_or_longer_is_refused) {
  struct statement s = sample(), back;
  size_t n = statement_write(&s, bytes);
  for (size_t k = 0; k < n; k++)
    ck_assert_int_ne(statement_read(bytes, k, &back), ERR_OK);
  ck_assert_int_eq(statement_read(bytes, n + 1, &back), ERR_TRAILING);
  struct accusation a = sample_accusation(), again;
  accusation_write(&a, bytes);
  for (size_t k = 0; k < ACCUSATION_BYTES; k++)
    ck_assert_int_ne(accusation_read(bytes, k, &again), ERR_OK);
  ck_assert_int_eq(accusation_read(bytes, ACCUSATION_BYTES + 1, &again), ERR_TRAILING);
}
END_TEST

/* Not one bit can be changed. */
START_TEST(what_was_changed_does_not_verify) {
  struct statement s = sample(), back;
  size_t n = statement_write(&s, bytes);
  for (size_t i = 0; i < n; i++) {
    bytes[i] ^= 1;
    ck_assert(statement_read(bytes, n, &back) != ERR_OK || statement_verify(&back) == ERR_SIGNATURE);
    bytes[i] ^= 1;
  }
  struct accusation a = sample_accusation(), again;
  accusation_write(&a, bytes);
  for (size_t i = 0; i < ACCUSATION_BYTES; i++) {
    bytes[i] ^= 1;
    ck_assert(accusation_read(bytes, ACCUSATION_BYTES, &again) != ERR_OK || accusation_verify(&again) == ERR_SIGNATURE);
    bytes[i] ^= 1;
  }
}
END_TEST

static void assert_refused(size_t at, uint8_t value, enum err expected) {
  struct statement s = sample(), back;
  size_t n = statement_write(&s, bytes);
  bytes[at] = value;
  ck_assert_int_eq(statement_read(bytes, n, &back), expected);
}

START_TEST(the_form_is_checked_before_the_signature) {
  assert_refused(0, 2, ERR_VERSION);
  assert_refused(AT_FLAGS, 2, ERR_MESSAGE);
  assert_refused(AT_NAME, '\n', ERR_MESSAGE);
  assert_refused(AT_NAME, '\0', ERR_MESSAGE);
  assert_refused(AT_ADDRESSES, 'T', ERR_MESSAGE);
  assert_refused(AT_ADDRESSES + 6, ';', ERR_MESSAGE);
  struct statement s = sample(), back;
  size_t n = statement_write(&s, bytes);
  memset(bytes + AT_EPOCH, 0, 8);
  ck_assert_int_eq(statement_read(bytes, n, &back), ERR_MESSAGE);
  struct accusation a = sample_accusation(), again;
  a.accused = a.accuser;
  accusation_write(&a, bytes);
  ck_assert_int_eq(accusation_read(bytes, ACCUSATION_BYTES, &again), ERR_MESSAGE);
}
END_TEST

START_TEST(an_address_names_a_host_and_a_port) {
  static const char *const good[] = {"tcp://a:1", "tcp://10.0.0.7:7411", "tcp://[fe80::1%eth0]:7411",
                                     "tcp://mec-7.lan:65535"};
  static const char *const bad[] = {"",           "tcp://",        "tcp://a",        "tcp://:7411",       "tcp://a:",
                                    "tcp://a:1x", "ipc:///tmp/x",  "tcp://a:123456", "tcp://eth0;a:7411", "tcp://a b:1",
                                    "udp://a:1",  "tcp://a/b:7411"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    ck_assert_msg(statement_is_address(good[i]), "%s", good[i]);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    ck_assert_msg(!statement_is_address(bad[i]), "%s", bad[i]);
}
END_TEST

START_TEST(incarnations_are_ordered_by_life_then_refutation) {
  struct incarnation a = {1, 9}, b = {2, 0}, c = {2, 1};
  ck_assert_int_lt(incarnation_compare(&a, &b), 0);
  ck_assert_int_lt(incarnation_compare(&b, &c), 0);
  ck_assert_int_gt(incarnation_compare(&c, &a), 0);
  ck_assert_int_eq(incarnation_compare(&c, &c), 0);
}
END_TEST

int main(void) {
  return SUITE_RUN("statement", golden, written_and_read_back, cut_or_longer_is_refused,
                   what_was_changed_does_not_verify, the_form_is_checked_before_the_signature,
                   an_address_names_a_host_and_a_port, incarnations_are_ordered_by_life_then_refutation);
}
