/* Merkle leaves of four chunks at once: BLAKE2b-256 (RFC 7693) in four lanes of a vector register, about three times as
 * fast as one after the other, where the CPU has AVX2. The root of a payload is computed by its sender and by every
 * receiver, and hashing is the dearest thing that happens to its bytes. The results are those of merkle_leaf. Pure; any
 * thread. */
#ifndef CRYPTO_LEAVES_H
#define CRYPTO_LEAVES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/limits.h"

enum { LEAVES_AT_ONCE = 4, LEAVES_BYTES = LEAVES_AT_ONCE * CHUNK_BYTES };

/* Whether this CPU can. */
bool leaves_supported(void);

/* Of LEAVES_BYTES: whole chunks that follow each other. Only where supported. */
void leaves_hash(const uint8_t *chunks, struct digest out_leaves[LEAVES_AT_ONCE]);

#endif
