#include "agent/sim/link.h"

enum { US_PER_S = 1000000 };

/* Through a queue that is free at *free_us: when the last byte is through. */
static uint64_t pass(uint64_t *free_us, uint64_t bytes_per_s, uint64_t at_us, size_t n) {
  if (bytes_per_s == 0)
    return at_us;
  if (at_us < *free_us)
    at_us = *free_us;
  return *free_us = at_us + n * US_PER_S / bytes_per_s;
}

static bool happens(struct rng *rng, double probability) {
  return probability > 0 && rng_unit(rng) < probability;
}

static uint64_t travel(const struct sim_link *l, struct rng *rng) {
  return l->delay_us + (l->jitter_us > 0 ? (uint64_t)((double)l->jitter_us * rng_unit(rng)) : 0);
}

size_t sim_link_send(const struct sim_link *l, struct sim_flow *flow, struct sim_nic *from, struct sim_nic *to,
                     struct rng *rng, uint64_t now_us, size_t n, uint64_t out_at_us[SIM_MAX_COPIES]) {
  uint64_t at_us = pass(&from->up_free_us, from->up_bytes_per_s, now_us, n);
  if (l->is_cut || happens(rng, l->loss))
    return 0;
  at_us = pass(&flow->free_us, l->bytes_per_s, at_us, n) + travel(l, rng);
  bool overtakes = happens(rng, l->reorder);
  if (!overtakes && at_us < flow->last_us)
    at_us = flow->last_us;
  at_us = pass(&to->down_free_us, to->down_bytes_per_s, at_us, n);
  if (!overtakes)
    flow->last_us = at_us;
  out_at_us[0] = out_at_us[1] = at_us;
  return happens(rng, l->duplicate) ? 2 : 1;
}

uint64_t sim_link_word(const struct sim_link *l, struct sim_flow *flow, struct rng *rng, uint64_t now_us) {
  uint64_t at_us = now_us + travel(l, rng);
  if (at_us < flow->last_us)
    at_us = flow->last_us;
  return flow->last_us = at_us;
}
