/* The clock of the agent: monotonic, so that a wall clock that jumps changes nothing but times that are shown. Any
 * thread. */
#ifndef AGENT_CLOCK_H
#define AGENT_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "base/must.h"

static inline double clock_s(void) {
  struct timespec now;
  MUST(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline uint64_t clock_ms(void) {
  struct timespec now;
  MUST(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

#endif
