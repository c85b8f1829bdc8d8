/* BLAKE2b-256 (RFC 7693) behind the base room's `struct digest_fn`: the one hash of the program. Pure; any thread. */
#ifndef CRYPTO_DIGEST_H
#define CRYPTO_DIGEST_H

#include "base/digest.h"

extern const struct digest_fn digest_blake2b;

#endif
