/* Randomness for secrets and identifiers, from the kernel. For reproducible streams see base/rng.h. */
#ifndef CRYPTO_RANDOM_H
#define CRYPTO_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Starts the crypto library; the first call of the program into this room, from main, before any ZeroMQ context exists
 * (libzmq uses the same library and two first calls may race). Calling it again is harmless. ERR_IO: no entropy. */
MUST_USE enum err random_open(void);

void random_bytes(void *out, size_t n);
uint64_t random_u64(void);

#endif
