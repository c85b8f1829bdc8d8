#include "crypto/bulk.h"
#include "crypto/random.h"
#include "tests/unit/suite.h"

enum { MAX_BYTES = 70000, N_AD = 24 };

static const uint64_t counter = 0x0807060504030201u;

static struct {
  struct bulk *bulk;
  uint8_t key[AEAD_KEY_BYTES], ad[N_AD], plain[MAX_BYTES];
  uint8_t sealed[MAX_BYTES + AEAD_TAG_BYTES];
} t;

static void set_up(void) {
  ck_assert_ptr_nonnull(t.bulk = bulk_new());
  for (size_t i = 0; i < MAX_BYTES; i++)
    t.plain[i] = (uint8_t)(i * 7 + i / 256);
  for (size_t i = 0; i < AEAD_KEY_BYTES; i++)
    t.key[i] = (uint8_t)(200 + i);
  for (size_t i = 0; i < N_AD; i++)
    t.ad[i] = (uint8_t)(100 + i);
}

static void tear_down(void) {
  bulk_free(t.bulk);
}

static void seal(size_t n) {
  memcpy(t.sealed, t.plain, n);
  ck_assert(bulk_seal(t.bulk, t.key, counter, t.ad, N_AD, t.sealed, n));
}

static enum err open_sealed(size_t n) {
  return bulk_open(t.bulk, t.key, counter, t.ad, N_AD, t.sealed, n);
}

static const size_t lengths[] = {0, 1, 63, 64, 65, 511, 512, 513, 4095, 4096, 4097, 65536, 66560, 69999};

START_TEST(seals_as_aead_to_the_byte) {
  static uint8_t expected[MAX_BYTES + AEAD_TAG_BYTES];
  size_t n = lengths[_i];
  seal(n);
  aead_seal(t.key, counter, t.ad, N_AD, t.plain, n, expected);
  ck_assert_mem_eq(t.sealed, expected, n + AEAD_TAG_BYTES);
}
END_TEST

START_TEST(opens_what_aead_sealed) {
  size_t n = lengths[_i];
  aead_seal(t.key, counter, t.ad, N_AD, t.plain, n, t.sealed);
  ck_assert_int_eq(open_sealed(n), ERR_OK);
  ck_assert_mem_eq(t.sealed, t.plain, n);
}
END_TEST

START_TEST(refuses_what_differs) {
  enum { N = 5000 };
  uint8_t *const bytes[] = {t.key + 31,       t.ad,         t.ad + N_AD - 1,  t.sealed,
                            t.sealed + N - 1, t.sealed + N, t.sealed + N + 15};
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
    seal(N);
    *bytes[i] ^= 1;
    ck_assert_int_eq(open_sealed(N), ERR_SEAL);
    if (bytes[i] < t.sealed || bytes[i] > t.sealed + N + AEAD_TAG_BYTES)
      *bytes[i] ^= 1;
  }
  seal(N);
  ck_assert_int_eq(bulk_open(t.bulk, t.key, counter + 1, t.ad, N_AD, t.sealed, N), ERR_SEAL);
  seal(N);
  ck_assert_int_eq(bulk_open(t.bulk, t.key, counter, t.ad, N_AD - 1, t.sealed, N), ERR_SEAL);
  seal(N);
  ck_assert_int_eq(open_sealed(N), ERR_OK); /* and goes on */
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  TCase *tcase = tcase_create("all");
  tcase_add_checked_fixture(tcase, set_up, tear_down);
  tcase_add_loop_test(tcase, seals_as_aead_to_the_byte, 0, sizeof lengths / sizeof *lengths);
  tcase_add_loop_test(tcase, opens_what_aead_sealed, 0, sizeof lengths / sizeof *lengths);
  tcase_add_test(tcase, refuses_what_differs);
  return suite_run_case("crypto/bulk", tcase);
}
