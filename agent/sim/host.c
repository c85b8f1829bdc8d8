#include "agent/sim/host.h"

enum { US_PER_MS = 1000, US_PER_S = 1000000 };

static uint64_t after(uint64_t *free_us, uint64_t now_us, uint64_t takes_us) {
  return *free_us = (*free_us > now_us ? *free_us : now_us) + takes_us;
}

uint64_t sim_host_compute(struct sim_host *h, uint64_t now_us, uint64_t work_ms) {
  return after(&h->trainer_free_us, now_us, (uint64_t)((double)(work_ms * US_PER_MS) / h->speed));
}

uint64_t sim_host_write(struct sim_host *h, uint64_t now_us, size_t n_bytes) {
  uint64_t takes_us = h->writing_ms * US_PER_MS;
  if (h->disk_bytes_per_s > 0)
    takes_us += n_bytes * US_PER_S / h->disk_bytes_per_s;
  return after(&h->disk_free_us, now_us, takes_us);
}

void sim_host_restart(struct sim_host *h) {
  h->trainer_free_us = h->disk_free_us = h->paused_until_us = 0;
}
