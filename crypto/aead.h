/* ChaCha20-Poly1305 (RFC 8439) as Noise uses it: nonce = 0^32 ‖ counter u64, little-endian. A counter is used once a key.
 * Input and output may be the same buffer. Pure; any thread. */
#ifndef CRYPTO_AEAD_H
#define CRYPTO_AEAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { AEAD_KEY_BYTES = 32, AEAD_TAG_BYTES = 16, AEAD_NONCE_BYTES = 12 };

void aead_nonce_write(uint64_t counter, uint8_t out_nonce[AEAD_NONCE_BYTES]);

/* Writes n + AEAD_TAG_BYTES. */
void aead_seal(const uint8_t key[AEAD_KEY_BYTES], uint64_t counter, const void *ad, size_t n_ad, const void *plain,
               size_t n, uint8_t *out_sealed);

/* `n_sealed` counts the tag; writes n_sealed − AEAD_TAG_BYTES. ERR_SEAL: too short or not authentic; the output is void. */
MUST_USE enum err aead_open(const uint8_t key[AEAD_KEY_BYTES], uint64_t counter, const void *ad, size_t n_ad,
                            const uint8_t *sealed, size_t n_sealed, void *out_plain);

#endif
