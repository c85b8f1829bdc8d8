/* How often one thing about one peer may be logged, so that nobody outside fills the log: a token bucket (ITU-T I.371) a
 * pair of event and peer, three lines at once and then one a minute. The lines left out are counted and told by the next
 * one. Pure: the time comes in. One thread at a time. */
#ifndef AGENT_RUN_LOG_LIMIT_H
#define AGENT_RUN_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

enum {
  LOG_LIMIT_BURST = 3,
  LOG_LIMIT_MS = 60000, /* one more line */
  LOG_LIMIT_SETS = 256,
  LOG_LIMIT_WAYS = 4, /* pairs of one set; a new one takes the place of the one unused for longest */
};

struct log_limit_pair {
  uint64_t hash; /* 0 = free */
  uint64_t last_ms;
  uint32_t credit_ms; /* LOG_LIMIT_MS buy a line */
  uint32_t n_left_out;
};

/* Zero-initialised: nothing logged yet. */
struct log_limit {
  struct log_limit_pair pairs[LOG_LIMIT_SETS][LOG_LIMIT_WAYS];
};

/* Whether the line may be written, and then how many like it were left out since the last one. */
bool log_limit_take(struct log_limit *l, const char *event, const char *peer, uint64_t now_ms,
                    uint32_t *out_n_left_out);

#endif
