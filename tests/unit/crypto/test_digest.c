#include "crypto/digest.h"
#include "tests/unit/crypto/vectors.h"
#include "tests/unit/suite.h"

static void assert_digest(const void *bytes, size_t n, const char *hex) {
  uint8_t expected[DIGEST_BYTES] = {0};
  bytes_from_hex(hex, expected, sizeof expected);
  struct digest whole = digest_of(&digest_blake2b, bytes, n);
  ck_assert_mem_eq(whole.bytes, expected, DIGEST_BYTES);

  struct digest_state state;
  struct digest pieces;
  digest_blake2b.init(&state);
  for (size_t i = 0; i < n; i += 7)
    digest_blake2b.add(&state, (const uint8_t *)bytes + i, n - i < 7 ? n - i : 7);
  digest_blake2b.end(&state, &pieces);
  ck_assert_mem_eq(pieces.bytes, expected, DIGEST_BYTES);
}

START_TEST(blake2b_256_of_known_inputs) {
  uint8_t long_input[1280];
  for (size_t i = 0; i < sizeof long_input; i++)
    long_input[i] = (uint8_t)i;
  assert_digest("", 0, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
  assert_digest("abc", 3, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
  assert_digest(long_input, sizeof long_input, "82628cbfc9689e234b0923a531f4578fe2e7138a03e2f81ed6cde97517336650");
}
END_TEST

START_TEST(adding_nothing_changes_nothing) {
  struct digest_state state;
  struct digest digest, expected = digest_of(&digest_blake2b, "abc", 3);
  digest_blake2b.init(&state);
  digest_blake2b.add(&state, NULL, 0);
  digest_blake2b.add(&state, "abc", 3);
  digest_blake2b.add(&state, NULL, 0);
  digest_blake2b.end(&state, &digest);
  ck_assert(digest_equal(&digest, &expected));
}
END_TEST

int main(void) {
  return SUITE_RUN("crypto/digest", blake2b_256_of_known_inputs, adding_nothing_changes_nothing);
}
