#include <math.h>
#include <stdlib.h>

#include "agent/core/mass.h"
#include "tests/unit/suite.h"

enum { N = 3 };

static struct mass of(size_t n) {
  struct mass m;
  ck_assert_int_eq(mass_open(n, n + 1, &m), ERR_OK);
  for (size_t i = 0; i < n; i++)
    m.edges[i].peer.bytes[0] = (uint8_t)(i + 1);
  return m;
}

static struct mass_claim claim(uint64_t sequence, double sum, double told) {
  return (struct mass_claim){.sum = sum, .told = told, .account = 1, .sequence = sequence};
}

static double take(struct mass *m, uint64_t sequence, double sum, double told) {
  struct mass_taken taken;
  const struct mass_claim c = claim(sequence, sum, told);
  ck_assert_int_eq(mass_take(m, 0, &c, &taken), ERR_OK);
  return taken.share;
}

START_TEST(equal_parts_are_given_and_one_stays) {
  struct mass m = of(N);
  const bool told[N] = {true, false, true};
  struct push p = mass_push(&m, told);
  ck_assert_uint_eq(p.n_told, 2);
  ck_assert_double_eq_tol(p.amount, 1.0 / 3, 1e-15);
  ck_assert_double_eq_tol(m.mu, 1.0 / 3, 1e-15);
  ck_assert_double_eq(m.mu, p.rest);
  ck_assert_double_eq_tol(m.sent, 4.0 / 3, 1e-15);
  ck_assert_double_eq(m.edges[0].told + m.edges[2].told + m.mu, 1);
  ck_assert_double_eq(m.edges[1].told, 0);
  ck_assert_double_eq_tol(mass_rate(&m), 3, 1e-12);
  p = mass_take_back(&m);
  ck_assert_uint_eq(p.n_told, 2);
  ck_assert_double_eq(m.mu, 1);
  ck_assert_double_eq(m.sent, 1);
  ck_assert_double_eq(m.edges[2].told, 0);
  mass_done(&m);
}
END_TEST

START_TEST(the_last_thousandth_is_kept) {
  struct mass m = of(1);
  const bool told[1] = {true};
  for (int i = 0; i < 50; i++)
    mass_push(&m, told);
  ck_assert(m.mu >= MASS_LEAST);
  ck_assert_uint_eq(mass_push(&m, told).n_told, 0);
  ck_assert_double_eq(mass_rate(&m), MASS_RATE_MOST);
  mass_done(&m);
}
END_TEST

START_TEST(the_first_sum_is_where_taking_begins) {
  struct mass m = of(N);
  ck_assert_double_eq(take(&m, 5, 7, 2), 0);
  ck_assert_double_eq(m.mu, 1);
  ck_assert_double_eq(take(&m, 6, 7.5, 2.5), 1);
  ck_assert_double_eq(m.mu, 1.5);
  ck_assert_double_eq(take(&m, 6, 7.5, 2.5), 0); /* again, or an older one */
  ck_assert_double_eq(take(&m, 5, 7, 2), 0);
  ck_assert_double_eq(m.mu, 1.5);
  ck_assert_double_eq(take(&m, 9, 9.5, 3), 0.25); /* two that are lost, and one of four parts was for us */
  ck_assert_double_eq(m.mu, 2);
  mass_done(&m);
}
END_TEST

START_TEST(a_new_beginning_is_another_base) {
  struct mass m = of(N);
  take(&m, 5, 7, 2);
  struct mass_claim anew = claim(6, 1, 0);
  struct mass_taken taken;
  anew.account = 2;
  ck_assert_int_eq(mass_take(&m, 0, &anew, &taken), ERR_OK);
  ck_assert_int_eq(taken.what, MASS_BASE);
  ck_assert_double_eq(take(&m, 7, 7.5, 2.5), 0); /* of the time before */
  ck_assert_double_eq(m.mu, 1);
  mass_done(&m);
}
END_TEST

START_TEST(lies_are_refused) {
  static const struct {
    double sum, told;
  } lies[] = {
      {NAN, 2.5}, {INFINITY, 2.5}, {-1, 2.5}, {0, 0},
      {7.5, NAN}, {7.5, INFINITY}, {7.5, -1}, {7.5, 2.6}, /* more than it grew by */
      {6.9, 2},                                           /* it fell */
      {7.5, 1.9},                                         /* what it told fell */
      {11.1, 6},                                          /* two pushes of four agents' mass at most: 4 */
  };
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    struct mass m = of(N);
    struct mass_taken taken;
    take(&m, 5, 7, 2);
    const struct mass_claim c = claim(7, lies[i].sum, lies[i].told);
    ck_assert_int_eq(mass_take(&m, 0, &c, &taken), ERR_MASS);
    ck_assert_double_eq(m.mu, 1);
    ck_assert_double_eq(take(&m, 7, 7.5, 2.5), 1); /* the truth still counts */
    mass_done(&m);
  }
}
END_TEST

START_TEST(a_tail_tells_each_its_own) {
  struct mass m = of(N);
  uint8_t bytes[MASS_ACCOUNT_BYTES + 2 * MASS_TOLD_BYTES];
  double told;
  uint64_t account;
  m.account = 77;
  ck_assert_uint_eq(mass_tail_bytes(&m), MASS_ACCOUNT_BYTES);
  mass_push(&m, (const bool[]){true, false, true});
  ck_assert_uint_eq(mass_tail_bytes(&m), sizeof bytes);
  mass_tail_write(&m, bytes);
  for (size_t i = 0; i < N; i++) {
    ck_assert_int_eq(mass_tail_read(bytes, sizeof bytes, &m.edges[i].peer, &account, &told), ERR_OK);
    ck_assert_uint_eq(account, 77);
    ck_assert_double_eq(told, m.edges[i].told);
  }
  ck_assert_int_eq(mass_tail_read(bytes, sizeof bytes - 1, &m.edges[0].peer, &account, &told), ERR_ENCODING);
  memcpy(bytes + MASS_ACCOUNT_BYTES + MASS_TOLD_BYTES, bytes + MASS_ACCOUNT_BYTES, 32); /* one is there twice */
  ck_assert_int_eq(mass_tail_read(bytes, sizeof bytes, &m.edges[0].peer, &account, &told), ERR_ENCODING);
  mass_done(&m);
}
END_TEST

START_TEST(it_comes_back_by_the_keys) {
  struct mass m = of(N), other = of(N);
  take(&m, 5, 7, 2);
  mass_push(&m, (const bool[]){true, true, true});
  size_t n = mass_bytes(&m);
  uint8_t *bytes = malloc(n);
  ck_assert_ptr_nonnull(bytes);
  mass_write(&m, bytes);
  other.edges[1].peer.bytes[0] = 9; /* a new one in place of the second */
  ck_assert_int_eq(mass_read(&other, bytes, n), ERR_OK);
  ck_assert_double_eq(other.mu, m.mu);
  ck_assert_double_eq(other.sent, m.sent);
  ck_assert_uint_eq(mass_measure(bytes, n), n);
  ck_assert_uint_eq(mass_measure(bytes, n - 1), 0);
  ck_assert_uint_eq(mass_sums(bytes, n), 1);
  ck_assert_uint_eq(mass_sum_of(bytes, n, &m.edges[0].peer), 0);
  ck_assert_uint_eq(mass_sum_of(bytes, n, &m.edges[2].peer), SIZE_MAX);
  ck_assert_uint_eq(mass_sum_of(bytes, n, &other.edges[1].peer), SIZE_MAX);
  ck_assert_double_eq(other.edges[0].taken, 2);
  ck_assert(other.edges[0].has_base && other.edges[0].sequence == 5);
  ck_assert_double_eq(other.edges[1].told, 0);
  ck_assert_double_eq(other.edges[2].told, m.edges[2].told);
  for (size_t cut = 0; cut < n; cut++)
    ck_assert_int_eq(mass_read(&other, bytes, cut), ERR_TRUNCATED);
  static const double bad[] = {NAN, 0, -1, INFINITY};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    memcpy(bytes + 8, &bad[i], sizeof *bad);
    ck_assert_int_eq(mass_read(&other, bytes, n), ERR_CORRUPT);
  }
  ck_assert_double_eq(other.mu, m.mu);
  free(bytes);
  mass_done(&m);
  mass_done(&other);
}
END_TEST

START_TEST(who_lost_its_state_begins_with_one) {
  struct mass m = of(N);
  take(&m, 5, 7, 2);
  mass_push(&m, (const bool[]){true, true, true});
  double sent = m.sent, lost = m.mu;
  mass_begin_anew(&m, 3);
  ck_assert_uint_eq(m.account, 3);
  ck_assert_double_eq(m.mu, 1);
  ck_assert_double_eq(m.sent, sent);
  ck_assert_double_eq(m.written_off, lost);
  ck_assert_uint_eq(mass_tail_bytes(&m), MASS_ACCOUNT_BYTES);
  ck_assert_double_eq(take(&m, 6, 7.5, 2.5), 0);
  mass_done(&m);
}
END_TEST

int main(void) {
  return SUITE_RUN("mass", equal_parts_are_given_and_one_stays, the_last_thousandth_is_kept,
                   the_first_sum_is_where_taking_begins, a_new_beginning_is_another_base, lies_are_refused,
                   a_tail_tells_each_its_own, it_comes_back_by_the_keys, who_lost_its_state_begins_with_one);
}
