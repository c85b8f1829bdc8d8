/* A flock: a simulated swarm (agent/sim/sim.h) for tests. Every agent lists and dials every other one, whatever an agent
 * commits and notes is kept, and an invariant that does not hold ends the test. */
#ifndef TESTS_PROPERTY_FLOCK_H
#define TESTS_PROPERTY_FLOCK_H

#include <check.h>

#include "agent/sim/sim.h"

/* ck_assert tells the runner of every success, which costs more than the flock. */
#define HOLDS(condition) ((condition) ? (void)0 : ck_abort_msg("%s:%d: %s", __FILE__, __LINE__, #condition))

enum { FLOCK_MAX = 8, FLOCK_STORY = 1024, FLOCK_NOTES = 512 };

/* One committed round. Arrays by agent. */
struct flock_told {
  struct round_label label;
  enum round_outcome outcome;
  uint32_t n_merged;
  enum err reasons[FLOCK_MAX];
  uint32_t lags[FLOCK_MAX];
  double weights[FLOCK_MAX];
  int64_t arrivals_ms[FLOCK_MAX];
  double model; /* its first number */
  uint64_t at_ms;
};

struct flock_note {
  char name[32], text[MAX_REASON_BYTES];
  size_t about; /* agent; SIZE_MAX: nobody */
  uint64_t at_ms;
};

/* What an agent committed and noted. */
struct flock_story {
  struct flock_told *told;
  size_t n_told;
  struct flock_note *notes;
  size_t n_notes;
};

/* n ≤ FLOCK_MAX agents, clones too; dims: numbers in the model. Nobody runs. */
struct sim *flock_new(size_t n, size_t dims);
void flock_free(struct sim *f);

/* Until the agent has committed the round, is in the phase (tested after every event); false: not within limit_ms. */
bool flock_until_round(struct sim *f, size_t which, uint64_t round, uint64_t limit_ms);
bool flock_until_phase(struct sim *f, size_t which, enum phase phase, uint64_t limit_ms);

/* ---- asking ---- */

struct round_label flock_committed(const struct sim *f, size_t which);
enum phase flock_phase(const struct sim *f, size_t which);
struct flock_story *flock_story(const struct sim_agent *a);
size_t flock_noted(const struct sim *f, size_t which, const char *name);
const struct flock_note *flock_last_note(const struct sim *f, size_t which, const char *name);
/* Committed rounds, newest first. */
const struct flock_told *flock_told(const struct sim *f, size_t which, size_t from_end);
size_t flock_count_reason(const struct sim *f, size_t which, size_t first_told, size_t about, enum err reason);
/* Why `about` is not waited for (ERR_OK: it is). */
enum err flock_standing(const struct sim *f, size_t which, size_t about);
uint64_t flock_dropped(const struct sim *f, size_t which, size_t about, enum err reason);
/* The largest distance of a living agent's committed model from their mean, in any number. */
double flock_spread(const struct sim *f);

#endif
