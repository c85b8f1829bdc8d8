#include "crypto/at_rest.h"

#include <string.h>

#include "crypto/random.h"
#include "tests/unit/suite.h"

enum { N = 1000 };

static struct at_rest_key key_of(uint8_t seed, const char *purpose) {
  const uint8_t bytes[IDENTITY_SEED_BYTES] = {seed};
  struct identity *id = NULL;
  struct at_rest_key key;
  ck_assert_int_eq(identity_from_seed(bytes, &id), ERR_OK);
  at_rest_key_of(id, purpose, &key);
  identity_free(id);
  return key;
}

static void fill(uint8_t *bytes, size_t n) {
  for (size_t i = 0; i < n; i++)
    bytes[i] = (uint8_t)(i * 7);
}

START_TEST(what_is_sealed_opens_with_the_same_identity_and_purpose_alone) {
  const struct at_rest_key key = key_of(1, "replay"), foreign = key_of(2, "replay"), other = key_of(1, "ledger");
  uint8_t plain[N], sealed[N + AT_REST_MORE_BYTES], opened[N];
  fill(plain, N);
  at_rest_seal(&key, plain, N, sealed);
  ck_assert_int_eq(at_rest_open(&key, sealed, sizeof sealed, opened), ERR_OK);
  ck_assert_mem_eq(opened, plain, N);
  ck_assert_int_eq(at_rest_open(&foreign, sealed, sizeof sealed, opened), ERR_SEAL);
  ck_assert_int_eq(at_rest_open(&other, sealed, sizeof sealed, opened), ERR_SEAL);
}
END_TEST

START_TEST(every_bit_counts) {
  const struct at_rest_key key = key_of(1, "replay");
  uint8_t plain[40], sealed[40 + AT_REST_MORE_BYTES], opened[40];
  fill(plain, sizeof plain);
  at_rest_seal(&key, plain, sizeof plain, sealed);
  for (size_t i = 0; i < sizeof sealed; i++) {
    sealed[i] ^= 0x10;
    ck_assert_int_eq(at_rest_open(&key, sealed, sizeof sealed, opened), ERR_SEAL);
    sealed[i] ^= 0x10;
  }
  for (size_t n = 0; n < sizeof sealed; n++)
    ck_assert_int_eq(at_rest_open(&key, sealed, n, opened), ERR_SEAL);
}
END_TEST

START_TEST(equal_bytes_are_sealed_to_equal_ones_and_others_share_nothing) {
  const struct at_rest_key key = key_of(1, "replay");
  uint8_t plain[N], a[N + AT_REST_MORE_BYTES], b[N + AT_REST_MORE_BYTES];
  fill(plain, N);
  at_rest_seal(&key, plain, N, a);
  at_rest_seal(&key, plain, N, b);
  ck_assert_mem_eq(a, b, sizeof a);
  plain[N - 1] ^= 1;
  at_rest_seal(&key, plain, N, b);
  size_t n_equal = 0;
  for (size_t i = 0; i < sizeof a; i++)
    n_equal += a[i] == b[i];
  ck_assert_uint_lt(n_equal, sizeof a / 50); /* 1 in 256 by chance: the key stream is another */
}
END_TEST

START_TEST(nothing_is_sealed_too) {
  const struct at_rest_key key = key_of(1, "replay");
  uint8_t sealed[AT_REST_MORE_BYTES], opened[1];
  at_rest_seal(&key, "", 0, sealed);
  ck_assert_int_eq(at_rest_open(&key, sealed, sizeof sealed, opened), ERR_OK);
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  return SUITE_RUN("at_rest", what_is_sealed_opens_with_the_same_identity_and_purpose_alone, every_bit_counts,
                   equal_bytes_are_sealed_to_equal_ones_and_others_share_nothing, nothing_is_sealed_too);
}
