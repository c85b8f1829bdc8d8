#include "crypto/aead.h"
#include "crypto/random.h"
#include "tests/unit/crypto/vectors.h"
#include "tests/unit/suite.h"

/* RFC 8439, appendix A.5: its nonce is 0^32 and then eight bytes, our counter. */
static const char key_hex[] = "1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0";
static const char ad_hex[] = "f33388860000000000004e91";
static const char plain[] = "Internet-Drafts are draft documents valid for a maximum of six months and may be updated, "
                            "replaced, or obsoleted by other documents at any time. It is inappropriate to use "
                            "Internet-Drafts as reference material or to cite them other than as "
                            "/\xe2\x80\x9cwork in progress./\xe2\x80\x9d";
static const char sealed_hex[] =
    "64a0861575861af460f062c79be643bd5e805cfd345cf389f108670ac76c8cb24c6cfc18755d43eea09ee94e382d26b0bdb7b73c321b0100"
    "d4f03b7f355894cf332f830e710b97ce98c8a84abd0b948114ad176e008d33bd60f982b1ff37c8559797a06ef4f0ef61c186324e2b350638"
    "3606907b6a7c02b0f9f6157b53c867e4b9166c767b804d46a59b5216cde7a4e99040c5a40433225ee282a1b0a06c523eaf4534d7f83fa115"
    "5b0047718cbc546a0d072b04b3564eea1b422273f548271a0bb2316053fa76991955ebd63159434ecebb4e466dae5a1073a6727627097a10"
    "49e617d91d361094fa68f0ff77987130305beaba2eda04df997b714d6c6f2c29a6ad5cb4022b02709beead9d67890cbb22392336fea1851f"
    "38";
static const uint64_t counter = 0x0807060504030201u;

enum { N_PLAIN = sizeof plain - 1, N_SEALED = N_PLAIN + AEAD_TAG_BYTES, N_AD = 12 };

struct example {
  uint8_t key[AEAD_KEY_BYTES], ad[N_AD], sealed[N_SEALED];
};

static struct example example_read(void) {
  struct example x;
  ck_assert_uint_eq(bytes_from_hex(key_hex, x.key, sizeof x.key), sizeof x.key);
  ck_assert_uint_eq(bytes_from_hex(ad_hex, x.ad, sizeof x.ad), sizeof x.ad);
  ck_assert_uint_eq(bytes_from_hex(sealed_hex, x.sealed, sizeof x.sealed), sizeof x.sealed);
  return x;
}

START_TEST(seals_as_rfc_8439) {
  struct example x = example_read();
  uint8_t sealed[N_SEALED];
  memcpy(sealed, plain, N_PLAIN);
  aead_seal(x.key, counter, x.ad, N_AD, sealed, N_PLAIN, sealed);
  ck_assert_mem_eq(sealed, x.sealed, N_SEALED);
}
END_TEST

START_TEST(opens_in_place) {
  struct example x = example_read();
  ck_assert_int_eq(aead_open(x.key, counter, x.ad, N_AD, x.sealed, N_SEALED, x.sealed), ERR_OK);
  ck_assert_mem_eq(x.sealed, plain, N_PLAIN);
}
END_TEST

START_TEST(refuses_what_differs) {
  struct example x = example_read();
  uint8_t out[N_PLAIN];
  ck_assert_int_eq(aead_open(x.key, counter + 1, x.ad, N_AD, x.sealed, N_SEALED, out), ERR_SEAL);
  ck_assert_int_eq(aead_open(x.key, counter, x.ad, N_AD - 1, x.sealed, N_SEALED, out), ERR_SEAL);
  ck_assert_int_eq(aead_open(x.key, counter, x.ad, N_AD, x.sealed, N_SEALED - 1, out), ERR_SEAL);
  ck_assert_int_eq(aead_open(x.key, counter, x.ad, N_AD, x.sealed, AEAD_TAG_BYTES - 1, out), ERR_SEAL);
  x.key[31] ^= 1;
  ck_assert_int_eq(aead_open(x.key, counter, x.ad, N_AD, x.sealed, N_SEALED, out), ERR_SEAL);
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  return SUITE_RUN("crypto/aead", seals_as_rfc_8439, opens_in_place, refuses_what_differs);
}
