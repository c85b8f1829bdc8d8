/* An outlook: what a swarm of so many sites would do, from a short simulation of it and the mixing matrix of the whole.
 *
 * The time of a round hangs on model, line, training and degree, not on how many agents there are: a few more than the
 * degree, OUTLOOK_SIMULATED at least, are simulated, without ciphers and with payloads that are only said to be long.
 *
 * How many rounds the swarm takes to agree follows from the second largest eigenvalue l of W' = I - g (I - W), W the
 * Metropolis weights of all agents, g the gamma of the merge times the share of updates that come in time: a difference
 * shrinks by l a round (Boyd, Ghosh, Prabhakar and Shah, Randomized Gossip Algorithms, 2006, section II). Pure but for
 * memory, without which the process ends. */
#ifndef AGENT_SIM_OUTLOOK_H
#define AGENT_SIM_OUTLOOK_H

#include "agent/sim/scenario.h"

enum {
  OUTLOOK_SIMULATED = 24,
  OUTLOOK_ROUNDS = 8,
  OUTLOOK_WARM_UP = 3, /* rounds until the deadlines know the swarm */
  MAX_OUTLOOK_ROUNDS = 1000000,
};

/* Two kinds of host: most, and those that are slow. */
enum outlook_kind { OUTLOOK_ORDINARY, OUTLOOK_SLOW, N_OUTLOOK_KINDS };

struct outlook_order {
  uint64_t n_agents, degree;  /* peers of each */
  uint64_t payload_bytes;     /* an update */
  uint64_t payload_max_bytes; /* memory of an agent for those that wait (round_config) */
  double gamma;               /* of the merge (models/merging/codec.h) */
  double rate_kbit, delay_ms; /* of each site's line, both ways; 0: as fast as one likes */
  double training_s;
  double slow_share, slow_speed; /* 0 … 1 of the agents have so much of the speed */
  struct scenario_round round;
  uint64_t seed;
};

struct outlook_row {
  uint64_t n_agents;           /* that were simulated */
  double round_s, round_p95_s; /* from commitment to commitment: median, 95th percentile */
  double left_out;             /* share of its updates that peers merged without */
  double last, arrival_s;      /* share of its updates that came last; mean, after the peer's own */
};

struct outlook {
  double round_s, round_p95_s;
  double left_out;           /* share of all updates */
  double round_bytes;        /* sent by an agent in a round, mean */
  double training_share;     /* of a round of an ordinary host */
  uint64_t consensus_rounds; /* until a difference is down to a hundredth; MAX_OUTLOOK_ROUNDS: not within so many */
  double consensus_s;
  uint64_t n_simulated;
  struct outlook_row rows[N_OUTLOOK_KINDS];
};

struct outlook outlook_of(const struct outlook_order *order);

#endif
