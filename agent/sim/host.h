/* The host model: how long work takes, and what the disk says of it. Trainer and disk each do one job after the other, as
 * the agent's trainer and scribe do. Pure. */
#ifndef AGENT_SIM_HOST_H
#define AGENT_SIM_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "agent/sim/link.h"
#include "base/err.h"

struct sim_host {
  double speed;         /* of its processor: work takes 1/speed of the times below; 1 */
  uint64_t loading_ms;  /* data and model, at a start */
  uint64_t training_ms; /* of a round … */
  uint64_t step_ms;     /* … or, if not 0, of a step */
  uint64_t merging_ms;
  uint64_t writing_ms;       /* a transaction: what fsync costs */
  uint64_t disk_bytes_per_s; /* 0: as many as one likes */
  enum err disk;             /* what every write answers: ERR_NO_SPACE, ERR_READ_ONLY … */
  uint64_t clock_ahead_ms;   /* of its monotonic clock before the simulation's: it leapt */
  uint64_t paused_until_us;  /* it stands still: nothing is handled before */
  struct sim_nic nic;
  uint64_t trainer_free_us, disk_free_us; /* inside */
};

/* When a job of so much work, begun now or when the one before is done, is done. */
uint64_t sim_host_compute(struct sim_host *h, uint64_t now_us, uint64_t work_ms);
uint64_t sim_host_write(struct sim_host *h, uint64_t now_us, size_t n_bytes);

/* The process is new: what was under way is gone. */
void sim_host_restart(struct sim_host *h);

#endif
