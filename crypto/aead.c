#include "crypto/aead.h"

#include <sodium.h>

#include "base/bytes.h"

void aead_nonce_write(uint64_t counter, uint8_t out_nonce[AEAD_NONCE_BYTES]) {
  struct writer w;
  writer_init(&w, out_nonce, AEAD_NONCE_BYTES);
  writer_u32(&w, 0);
  writer_u64(&w, counter);
}

void aead_seal(const uint8_t key[AEAD_KEY_BYTES], uint64_t counter, const void *ad, size_t n_ad, const void *plain,
               size_t n, uint8_t *out_sealed) {
  uint8_t nonce[AEAD_NONCE_BYTES];
  aead_nonce_write(counter, nonce);
  crypto_aead_chacha20poly1305_ietf_encrypt(out_sealed, NULL, plain, n, ad, n_ad, NULL, nonce, key);
}

enum err aead_open(const uint8_t key[AEAD_KEY_BYTES], uint64_t counter, const void *ad, size_t n_ad,
                   const uint8_t *sealed, size_t n_sealed, void *out_plain) {
  uint8_t nonce[AEAD_NONCE_BYTES];
  aead_nonce_write(counter, nonce);
  int rc = crypto_aead_chacha20poly1305_ietf_decrypt(out_plain, NULL, NULL, sealed, n_sealed, ad, n_ad, nonce, key);
  return rc == 0 ? ERR_OK : ERR_SEAL;
}
