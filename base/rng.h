/* A seeded random generator (xoshiro256**, Blackman & Vigna 2018; seeded through splitmix64): same seed, same story, on
 * every host. Never for secrets: those come from the crypto room. Pure; the caller's storage; one thread at a time. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"

struct rng {
  uint64_t s[4];
};

void rng_init(struct rng *r, uint64_t seed);

/* Seeds from a hash, so that a stream can be named by what it is for. */
void rng_init_digest(struct rng *r, const struct digest *seed);

uint64_t rng_u64(struct rng *r);

/* One step of splitmix64 (Steele, Lea, Flood 2014): a bijection in which each bit of h changes about half of the result's. */
uint64_t rng_mix(uint64_t h);

/* Uniform in 0 … bound − 1 without bias (by rejection); bound ≥ 1. */
uint64_t rng_below(struct rng *r, uint64_t bound);

/* Uniform in [0, 1), 53 bits. */
double rng_unit(struct rng *r);

/* Fisher–Yates over n indices. */
void rng_shuffle(struct rng *r, uint32_t *items, size_t n);

#endif
