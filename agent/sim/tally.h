/* What a simulated swarm did, agent by agent, from its commits. A watch of a simulation (sim.h). */
#ifndef AGENT_SIM_TALLY_H
#define AGENT_SIM_TALLY_H

#include "agent/sim/sim.h"

struct sim_tally_row {
  uint64_t n_rounds, n_short, n_jumps; /* commitments: merged, of too few peers, jumped or adopted */
  uint64_t first_ms, last_ms;          /* of its commitments, by the clock of the simulation */
  uint64_t sent_bytes, received_bytes; /* until the last commitment */
  /* as its peers saw it, once a round of each of them */
  uint64_t n_merged, n_left_out;
  uint64_t n_reasons[ERR_COUNT]; /* why it was left out */
  uint64_t n_last;               /* it was the last of those that were waited for and came */
  uint64_t n_arrivals, arrivals_ms;
  bool has_headline; /* of the last model: on the common test set, else its own */
  double headline;
};

struct sim_tally {
  struct sim_tally_row *rows; /* [n] */
  size_t n;
};

/* Watches s from now on. Without memory the process ends. */
void sim_tally_watch(struct sim_tally *t, struct sim *s);

/* The same for a watch of one's own that tells it of each commitment. */
void sim_tally_add(struct sim_tally *t, const struct sim_agent *a, const struct store_commitment *c);
void sim_tally_done(struct sim_tally *t);

/* Seconds from commitment to commitment; 0: fewer than two. */
double sim_tally_round_s(const struct sim_tally_row *r);

/* Mean time after its peers' own updates that its own came; 0: none came. */
double sim_tally_arrival_s(const struct sim_tally_row *r);

/* Why it was left out most often; ERR_OK: never. */
enum err sim_tally_reason(const struct sim_tally_row *r);

#endif
