/* How long a gather waits: D = clamp(1.5 × p95 of the last arrivals, min, max), counted from the moment our own payload
 * is durable. A missing update is sampled as 2·D until it arrives, then with its true lateness. Before there are enough
 * samples D = 5 s + 3 × our own last training time, clamped too. Without memory a sample is not kept. Pure: time is an
 * argument. */
#ifndef AGENT_CORE_DEADLINE_H
#define AGENT_CORE_DEADLINE_H

#include <stddef.h>
#include <stdint.h>

enum { DEADLINE_SAMPLES = 32, DEADLINE_ENOUGH = 8 };

struct deadline {
  uint64_t min_ms, max_ms;
  uint32_t *arrivals_ms; /* ring, at most DEADLINE_SAMPLES */
  size_t capacity;
  uint64_t n_arrivals; /* ever; the ring holds the last ones */
};

void deadline_init(struct deadline *d, uint64_t min_ms, uint64_t max_ms);
void deadline_done(struct deadline *d);

/* Samples an arrival, at most UINT32_MAX. Returns its number, by which deadline_correct finds it if it was kept. */
uint64_t deadline_sample(struct deadline *d, uint64_t arrival_ms);

/* Replaces a sample, if the ring still holds it, by what became known later. */
void deadline_correct(struct deadline *d, uint64_t number, uint64_t arrival_ms);

/* D for the next gather. */
uint64_t deadline_ms(const struct deadline *d, uint64_t last_training_ms);

#endif
