#include "crypto/identity.h"
#include "crypto/random.h"
#include "tests/unit/crypto/vectors.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

static const char domain[] = "starling/v1/test";

static struct identity *identity_of(uint8_t fill) {
  uint8_t seed[IDENTITY_SEED_BYTES];
  struct identity *id = NULL;
  memset(seed, fill, sizeof seed);
  ck_assert_int_eq(identity_from_seed(seed, &id), ERR_OK);
  return id;
}

START_TEST(public_key_as_rfc_8032) {
  uint8_t seed[IDENTITY_SEED_BYTES], expected[32], back[IDENTITY_SEED_BYTES];
  bytes_from_hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", seed, sizeof seed);
  bytes_from_hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", expected, sizeof expected);
  struct identity *id = NULL;
  ck_assert_int_eq(identity_from_seed(seed, &id), ERR_OK);
  ck_assert_mem_eq(identity_public(id)->bytes, expected, sizeof expected);
  identity_seed(id, back);
  ck_assert_mem_eq(back, seed, sizeof seed);
  identity_free(id);
}
END_TEST

START_TEST(fresh_identities_differ) {
  struct identity *a = NULL, *b = NULL;
  ck_assert_int_eq(identity_new(&a), ERR_OK);
  ck_assert_int_eq(identity_new(&b), ERR_OK);
  ck_assert(!identity_key_equal(identity_public(a), identity_public(b)));
  ck_assert_int_eq(identity_key_check(identity_public(a)), ERR_OK);
  identity_free(a);
  identity_free(b);
  identity_free(NULL);
}
END_TEST

/* The kernel refuses to write there, too, and says so without a signal. */
START_TEST(the_secret_is_in_read_only_memory) {
  struct identity *id = identity_of(1);
  int zeros = open("/dev/zero", O_RDONLY);
  ck_assert_int_ge(zeros, 0);
  ck_assert_int_eq(read(zeros, (void *)(uintptr_t)identity_x25519(id)->secret, 1), -1);
  ck_assert_int_eq(errno, EFAULT);
  close(zeros);
  identity_free(id);
}
END_TEST

START_TEST(both_ways_to_the_x25519_key_agree) {
  for (uint8_t fill = 0; fill < 20; fill++) {
    struct identity *id = identity_of(fill);
    uint8_t from_public[X25519_BYTES];
    ck_assert_int_eq(identity_key_x25519(identity_public(id), from_public), ERR_OK);
    ck_assert_mem_eq(from_public, identity_x25519(id)->public_key, X25519_BYTES);
    identity_free(id);
  }
}
END_TEST

START_TEST(a_signature_verifies_only_as_it_was_made) {
  struct identity *id = identity_of(1), *other = identity_of(2);
  const struct identity_key *key = identity_public(id);
  struct signature s;
  identity_sign(id, domain, "bytes", 5, &s);
  ck_assert_int_eq(signature_verify(key, domain, "bytes", 5, &s), ERR_OK);
  ck_assert_int_eq(signature_verify(key, domain, "byteS", 5, &s), ERR_SIGNATURE);
  ck_assert_int_eq(signature_verify(key, domain, "bytes", 4, &s), ERR_SIGNATURE);
  ck_assert_int_eq(signature_verify(key, "starling/v1/tesu", "bytes", 5, &s), ERR_SIGNATURE);
  ck_assert_int_eq(signature_verify(identity_public(other), domain, "bytes", 5, &s), ERR_SIGNATURE);
  identity_free(id);
  identity_free(other);
}
END_TEST

START_TEST(domain_and_bytes_do_not_run_together) {
  struct identity *id = identity_of(1);
  struct signature s;
  identity_sign(id, "ab", "c", 1, &s);
  ck_assert_int_eq(signature_verify(identity_public(id), "a", "bc", 2, &s), ERR_SIGNATURE);
  ck_assert_int_eq(signature_verify(identity_public(id), "abc", "", 0, &s), ERR_SIGNATURE);
  identity_free(id);
}
END_TEST

START_TEST(no_bit_of_a_signature_may_flip) {
  struct identity *id = identity_of(1);
  struct signature s;
  identity_sign(id, domain, "bytes", 5, &s);
  for (size_t bit = 0; bit / 8 < SIGNATURE_BYTES; bit++) {
    s.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    ck_assert_int_eq(signature_verify(identity_public(id), domain, "bytes", 5, &s), ERR_SIGNATURE);
    s.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  identity_free(id);
}
END_TEST

START_TEST(unusable_keys_are_refused) {
  static const char *const keys[] = {
      "0000000000000000000000000000000000000000000000000000000000000000", /* order 4 */
      "0100000000000000000000000000000000000000000000000000000000000000", /* the neutral element */
      "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", /* order 2 */
      "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", /* order 8 */
      "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", /* order 8 */
      "3b5b475c4b82dd1572799fc546f4c6c03e478c6654aa4c7f945b347ea32af60d", /* a good key plus a point of order 8 */
      "0200000000000000000000000000000000000000000000000000000000000000", /* no point */
  };
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    struct identity_key key;
    uint8_t converted[X25519_BYTES], untouched[X25519_BYTES];
    memset(converted, 0xa5, sizeof converted);
    memcpy(untouched, converted, sizeof converted);
    bytes_from_hex(keys[i], key.bytes, sizeof key.bytes);
    ck_assert_msg(identity_key_check(&key) == ERR_RANGE, "%s", keys[i]);
    ck_assert_int_eq(identity_key_x25519(&key, converted), ERR_RANGE);
    ck_assert_mem_eq(converted, untouched, sizeof converted);
  }
}
END_TEST

START_TEST(keys_are_ordered_by_their_bytes) {
  struct identity_key low = {{0}}, high = {{0}};
  low.bytes[1] = 0xff;
  high.bytes[0] = 1;
  ck_assert_int_lt(identity_key_compare(&low, &high), 0);
  ck_assert_int_gt(identity_key_compare(&high, &low), 0);
  ck_assert_int_eq(identity_key_compare(&low, &low), 0);
}
END_TEST

START_TEST(fresh_pairs_differ_and_are_wiped) {
  static const struct x25519_pair zero;
  struct x25519_pair a, b, again;
  x25519_pair_new(&a);
  x25519_pair_new(&b);
  ck_assert_mem_ne(a.public_key, b.public_key, X25519_BYTES);
  x25519_pair_from_secret(a.secret, &again);
  ck_assert_mem_eq(&again, &a, sizeof a);
  x25519_pair_wipe(&a);
  ck_assert_mem_eq(&a, &zero, sizeof a);
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  return SUITE_RUN("crypto/identity", public_key_as_rfc_8032, fresh_identities_differ,
                   the_secret_is_in_read_only_memory, both_ways_to_the_x25519_key_agree,
                   a_signature_verifies_only_as_it_was_made, domain_and_bytes_do_not_run_together,
                   no_bit_of_a_signature_may_flip, unusable_keys_are_refused, keys_are_ordered_by_their_bytes,
                   fresh_pairs_differ_and_are_wiped);
}
