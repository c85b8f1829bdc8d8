/* Push-sum of a deployed job: the account of mass (agent/core/mass.h) and the learner's sums (models/learner_sums.h)
 * as the trainer has them. Thread: the trainer's, but for sums_open and sums_done. Owner: the trainer.
 *
 * Payload of kind sum: S f32 ‖ the account's tail (gossip/PROTOCOL.md). */
#ifndef AGENT_RUN_SUMS_H
#define AGENT_RUN_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/mass.h"
#include "agent/core/work.h"
#include "base/err.h"
#include "gossip/gossip.h"
#include "models/learner.h"

/* Whom there are sums with. */
struct sums_roster {
  struct identity_key own;
  const struct gossip_peer_config *peers; /* [n_peers], ascending by key */
  size_t n_peers;
  size_t n_agents; /* in the job, at most */
  const size_t
      *copy_of; /* of each peer its copy, SIZE_MAX: none; NULL: the one of its number. For the life of the sums */
};

struct sums {
  bool is_on;
  struct identity_key own;
  const size_t *copy_of;
  size_t n_copies;
  struct mass mass;
  struct learner_ledger ledger; /* for the learner's config */
  double *gathered;             /* u of the merge in work */
};

/* An account that begins. *s stays where it is: the ledger points at it. ERR_NO_MEMORY. */
MUST_USE enum err sums_open(const struct sums_roster *roster, size_t n_copies, struct sums *s);
void sums_done(struct sums *s);

/* Of JOB_TRAIN, in this order: the account that may begin; by what the rate is multiplied; what is given, as a
 * payload that the caller frees. Errors as learner_push; nothing is given then. */
void sums_begin(struct sums *s, const struct trainer_job *job);
MUST_USE enum err sums_push(struct sums *s, struct learner *l, const struct trainer_job *job,
                            struct buffer *out_payload);

/* What was given last did not leave: the account's part, as when the learner undoes its training; and the learner's,
 * too. */
void sums_take_back(struct sums *s);
void sums_push_back(struct sums *s, struct learner *l);

/* Of JOB_MERGE and JOB_ADOPT: begin, each peer's sum, end. A payload whose root was found right. ERR_LENGTH,
 * ERR_ENCODING, ERR_NON_FINITE, ERR_MASS: nothing of it is taken. sums_gather_end: ERR_MERGE_REFUSED: x is unchanged. */
MUST_USE enum err sums_gather_begin(struct sums *s, struct learner *l);
MUST_USE enum err sums_gather(struct sums *s, struct learner *l, size_t peer, const struct link_in *link);
MUST_USE enum err sums_gather_end(struct sums *s, struct learner *l);

/* A joiner's start, of these peers. ERR_NO_MEMORY; ERR_NOT_FOUND: none of them has given a sum. */
MUST_USE enum err sums_adopt(const struct sums *s, struct learner *l, const size_t *peers, size_t n_peers);

/* As it is now. */
struct mass_figures sums_figures(const struct sums *s);

#endif
