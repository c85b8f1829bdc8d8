/* What is said of mass. First byte: 0 the tail of a sum, 1 an account of a snapshot, 2 claims that one peer makes. What is taken is a
 * mass, and nobody's claim takes any away. */
#include "agent/core/mass.h"

#include <math.h>
#include <stdlib.h>

#include "base/must.h"
#include "tests/fuzz/fuzz.h"

enum { N_EDGES = 3 };

static bool is_mass(double x) {
  return isfinite(x) && x >= 0;
}

static void open(struct mass *m) {
  MUST(mass_open(N_EDGES, N_EDGES + 1, m) == ERR_OK);
  for (size_t i = 0; i < N_EDGES; i++)
    m->edges[i].peer.bytes[0] = (uint8_t)(i + 1);
}

static void feed_tail(const uint8_t *bytes, size_t n) {
  uint64_t account;
  double told;
  for (size_t k = 0; k < N_EDGES + 2; k++) {
    const struct identity_key own = {{(uint8_t)k}};
    if (mass_tail_read(bytes, n, &own, &account, &told) == ERR_OK)
      MUST(is_mass(told) && n >= MASS_ACCOUNT_BYTES);
  }
}

/* Of what is taken the same is written again, but for peers that are not there. */
static void feed_account(const uint8_t *bytes, size_t n) {
  struct mass m, again;
  open(&m);
  open(&again);
  size_t n_sums = 0;
  if (mass_read(&m, bytes, n) == ERR_OK) {
    MUST(mass_measure(bytes, n) == n && mass_sums(bytes, n) <= MAX_PEERS && m.mu > 0 && is_mass(m.written_off));
    for (size_t i = 0; i < N_EDGES; i++) {
      const struct mass_edge *e = &m.edges[i];
      size_t at = mass_sum_of(bytes, n, &e->peer);
      MUST(is_mass(e->told) && is_mass(e->taken) && is_mass(e->sum) && e->has_base == (at != SIZE_MAX));
      MUST(at == SIZE_MAX || at < mass_sums(bytes, n));
      n_sums += e->has_base;
    }
    size_t n_own = mass_bytes(&m);
    uint8_t *own = malloc(n_own);
    MUST(own);
    mass_write(&m, own);
    MUST(mass_sums(own, n_own) == n_sums && mass_read(&again, own, n_own) == ERR_OK && again.mu == m.mu &&
         again.sent == m.sent);
    free(own);
  }
  mass_done(&m);
  mass_done(&again);
}

static void feed_claims(const uint8_t *bytes, size_t n) {
  struct cursor c;
  struct mass m;
  struct mass_taken taken;
  open(&m);
  cursor_init(&c, bytes, n);
  while (c.left >= 4 * sizeof(double)) {
    const struct mass_claim claim = {cursor_f64(&c), cursor_f64(&c), cursor_u64(&c), cursor_u64(&c)};
    const double before = m.mu;
    enum err e = mass_take(&m, 0, &claim, &taken);
    MUST(m.mu >= before && isfinite(m.mu) && (e == ERR_OK || (e == ERR_MASS && m.mu == before)));
    MUST(e != ERR_OK || taken.what != MASS_INCREASE || (taken.share >= 0 && taken.share <= 1));
  }
  mass_done(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static void (*const feed[])(const uint8_t *bytes, size_t n) = {feed_tail, feed_account, feed_claims};
  if (size > 0)
    feed[data[0] % 3](data + 1, size - 1);
  return 0;
}
