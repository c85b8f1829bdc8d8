#include "base/rng.h"

#include "base/bytes.h"
#include "base/must.h"

static uint64_t rotate_left(uint64_t v, int n) {
  return v << n | v >> (64 - n);
}

static const uint64_t golden_gamma = 0x9e3779b97f4a7c15u;

uint64_t rng_mix(uint64_t h) {
  h += golden_gamma;
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
  h = (h ^ h >> 27) * 0x94d049bb133111ebu;
  return h ^ h >> 31;
}

/* The next number of splitmix64, whose state moves by the golden gamma. */
static uint64_t splitmix64(uint64_t *state) {
  uint64_t result = rng_mix(*state);
  *state += golden_gamma;
  return result;
}

void rng_init(struct rng *r, uint64_t seed) {
  for (size_t i = 0; i < 4; i++)
    r->s[i] = splitmix64(&seed);
}

void rng_init_digest(struct rng *r, const struct digest *seed) {
  struct cursor c;
  cursor_init(&c, seed->bytes, DIGEST_BYTES);
  uint64_t folded = 0;
  for (size_t i = 0; i < 4; i++) {
    folded ^= cursor_u64(&c);
    r->s[i] = splitmix64(&folded);
  }
}

uint64_t rng_u64(struct rng *r) {
  uint64_t *s = r->s;
  uint64_t result = rotate_left(s[1] * 5, 7) * 9;
  uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = rotate_left(s[3], 45);
  return result;
}

uint64_t rng_below(struct rng *r, uint64_t bound) {
  MUST(bound > 0);
  for (;;) {
    uint64_t v = rng_u64(r);
    if (v >= bound || v >= (0 - bound) % bound) /* not below 2^64 mod bound, which is seldom worth a division */
      return v % bound;
  }
}

double rng_unit(struct rng *r) {
  return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

void rng_shuffle(struct rng *r, uint32_t *items, size_t n) {
  for (size_t i = n; i > 1; i--) {
    size_t j = (size_t)rng_below(r, i);
    uint32_t held = items[i - 1];
    items[i - 1] = items[j];
    items[j] = held;
  }
}
