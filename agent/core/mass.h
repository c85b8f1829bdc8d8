/* The mass of push-sum: how much an agent holds, what it has given to whom, what it has taken of whom.
 *
 * For each peer there is one number that only grows, what it was told so far, and the same number at the other end,
 * what it has taken: their difference is on its way. A message that is lost, late, doubled or old changes neither, so
 * that
 *
 *   Σ μ of all agents + Σ on its way = the number of agents
 *
 * holds whatever happens between them. A peer that is not reached is told no more, and what is on its way to it
 * waits for it. Who begins anew begins another account with mass 1: what it held, and what was on its way to it, is
 * written off. An account has a number, the boot epoch in which it began, that is higher than that of any before it.
 * What is told is told by a part of a sum (models/merging/push_sum.h) whose own mass is the manifest's mu. Of an
 * increase of the sum, a peer that was told all of it takes all, and one that was told less that much less. Nobody
 * gives away so much that less than MASS_LEAST stays with it: z = u/μ is never a division by less.
 *
 * Source: rule of running sums, Hadjicostis et al. 2016. Pure; whoever has it. */
#ifndef AGENT_CORE_MASS_H
#define AGENT_CORE_MASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/limits.h"
#include "crypto/identity.h"
#include "models/merging/push_sum.h"

#define MASS_LEAST 1e-3
#define MASS_RATE_MOST 4.0 /* by which a rate is multiplied at most */

enum {
  MASS_ACCOUNT_BYTES = 8,   /* a sum's tail begins with its account */
  MASS_TOLD_BYTES = 32 + 8, /* and goes on for each peer that was ever told: key, what it was told f64 */
  MASS_TAIL_BYTES_MOST = MASS_ACCOUNT_BYTES + MAX_PEERS * MASS_TOLD_BYTES,
};

struct mass_edge {
  struct identity_key peer;
  double told;                /* to it so far */
  bool has_base;              /* a sum of its was taken: */
  double taken, sum;          /* what it told us until then, the mass of that sum … */
  uint64_t account, sequence; /* … and its place */
  double told_before;         /* the last push */
};

struct mass {
  uint64_t account;   /* 0: nothing was given yet */
  double mu, sent;    /* held; of the own sum, which begins with 1 */
  double written_off; /* by oneself: it was on its way, and is taken by nobody */
  size_t n_agents;    /* in the job, at most */
  size_t n_edges;
  struct mass_edge *edges; /* ascending by key */
  struct {
    bool is_known;
    struct push push;
    double sent;
  } before; /* the last push */
};

/* Of one that begins, with n edges whose peers the caller names, ascending by key. ERR_NO_MEMORY. */
MUST_USE enum err mass_open(size_t n, size_t n_agents, struct mass *out_mass);
void mass_done(struct mass *m);

/* Gives an equal part to each of those marked [n_edges]; to none if too little would stay. What it gives, for the
 * arrays. */
struct push mass_push(struct mass *m, const bool *is_told);

/* The last push never left; what it was. */
struct push mass_take_back(struct mass *m);

/* What is said of a sum. */
struct mass_claim {
  double sum;  /* its mass */
  double told; /* to us so far */
  uint64_t account, sequence;
};

enum mass_taking {
  MASS_NOTHING,  /* it is not newer than what was taken */
  MASS_BASE,     /* the first one, or of a new account: what comes after it counts */
  MASS_INCREASE, /* `share` of what the sum grew by is ours, and so much mass */
};

struct mass_taken {
  enum mass_taking what;
  double share;
};

/* ERR_MASS, with nothing changed: numbers that are not finite, or that fell; more than the sum grew by; a sum that
 * grew by more than so many pushes can give where all agents together have as much mass as there are agents. */
MUST_USE enum err mass_take(struct mass *m, size_t edge, const struct mass_claim *claim, struct mass_taken *out_taken);

/* The own state was lost or is an old one: nobody knows any more what was given and taken since. Another account
 * begins. */
void mass_begin_anew(struct mass *m, uint64_t account);

/* By what the learning rate is multiplied, so that the step is of u. */
double mass_rate(const struct mass *m);

/* What was told, as the tail of the own sum: for every peer that was ever told something. */
size_t mass_tail_bytes(const struct mass *m);
void mass_tail_write(const struct mass *m, uint8_t *out_bytes);

/* The account, and what it says that `own` was told; 0 if nothing. ERR_ENCODING: no such tail. */
MUST_USE enum err mass_tail_read(const uint8_t *bytes, size_t n_bytes, const struct identity_key *own,
                                 uint64_t *out_account, double *out_told);

/* All of it, for a snapshot. Reading finds each peer by its key: one that is not ours is left, with what waited for
 * it written off, one that is new has nothing. ERR_CORRUPT, ERR_TRUNCATED, ERR_TRAILING: *m is as it was. */
size_t mass_bytes(const struct mass *m);
void mass_write(const struct mass *m, uint8_t *out_bytes);
MUST_USE enum err mass_read(struct mass *m, const uint8_t *bytes, size_t n_bytes);

/* Of one that mass_read takes: how long it is (0: none begins there); of how many peers a sum was taken, and which of
 * these, in the order of the account, is that of a peer (SIZE_MAX: none was taken). */
size_t mass_measure(const uint8_t *bytes, size_t n_bytes);
size_t mass_sums(const uint8_t *bytes, size_t n_bytes);
size_t mass_sum_of(const uint8_t *bytes, size_t n_bytes, const struct identity_key *peer);
#define MASS_BYTES_MOST (40 + MAX_PEERS * 80) /* mass_bytes of so many peers */

#endif
