/* The seal of aead.h for long messages, by libcrypto (OpenSSL 3): the same bytes, since RFC 8439 leaves no choice, two to three times as
 * fast as libsodium's (3.0 to 1.3 GB/s on one core of a 2 GHz x86-64 with AVX-512). It costs 3 MB of memory, mostly shared pages, so
 * it is loaded for the first long message.
 *
 * The key is in libcrypto's heap while a call runs, not after it. One thread at a time. */
#ifndef CRYPTO_BULK_H
#define CRYPTO_BULK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "crypto/aead.h"

enum { BULK_MIN_BYTES = 4096 }; /* shorter ones gain nothing */

struct bulk;

/* NULL: not installed, or no memory: aead.h does the same. */
struct bulk *bulk_new(void);

/* Takes NULL. */
void bulk_free(struct bulk *b);

/* As aead_seal, in place: n + AEAD_TAG_BYTES at `message`. false: no memory; the message is untouched. */
MUST_USE bool bulk_seal(struct bulk *b, const uint8_t key[AEAD_KEY_BYTES], uint64_t counter, const void *ad,
                        size_t n_ad, uint8_t *message, size_t n);

/* As aead_open, in place: `n` without the tag. ERR_NO_MEMORY: the message is untouched. ERR_SEAL: it is void. */
MUST_USE enum err bulk_open(struct bulk *b, const uint8_t key[AEAD_KEY_BYTES], uint64_t counter, const void *ad,
                            size_t n_ad, uint8_t *message, size_t n);

#endif
