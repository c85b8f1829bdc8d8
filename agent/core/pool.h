/* Pooled scaling: one mean and sd for each feature, of the training samples of all sites together, found once.
 *
 * Each agent measures its own training split, tells its peers count, mean and M2 (the sum of squared deviations), and closes
 * the pool when it has those of every configured peer: merged in the order of the public keys, so that all get the same
 * bits where all have the same peers. Closed numbers are frozen: they are kept with the model and told to peers. Who comes
 * without numbers to peers that have frozen ones takes those, when all peers that run the job now say the same. Peers whose
 * frozen numbers differ from ours, as they must where not every site has every other as a peer, learn another model: the
 * job is refused with them.
 *
 * Pure. Thread: the loop's. Owner: the agent's job. */
#ifndef AGENT_CORE_POOL_H
#define AGENT_CORE_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "gossip/gossip.h"
#include "models/data/scale.h"

struct pool;

/* n_before: how many of the peers, which are in the order of their keys, stand before ourselves. n: pairs, at most
 * MAX_POOL_PAIRS. ERR_NO_MEMORY. */
MUST_USE enum err pool_new(size_t n_peers, size_t n_before, size_t n, struct pool **out_pool);
void pool_free(struct pool *p);

/* What the own training split gave (copied), or what was kept with the model: frozen. ERR_NO_MEMORY. */
MUST_USE enum err pool_set_own(struct pool *p, const struct scale_stats *own);
MUST_USE enum err pool_set_frozen(struct pool *p, const struct scale *scale);

/* A peer's words. ERR_MESSAGE: not as many pairs as ours, or a mean or deviation that no samples have;
 * ERR_ABSURD_SAMPLES: above MAX_SAMPLES; ERR_NON_FINITE; ERR_NO_MEMORY. Nothing is kept then. */
MUST_USE enum err pool_on_words(struct pool *p, size_t peer, const struct wire_pool *words);

/* Whether the peer runs the job in a session: since its HELLO, until it ends either. Frozen numbers are forgotten at each
 * change, for it says them again; statistics are not. */
void pool_set_live(struct pool *p, size_t peer, bool is_live);

/* Closes the pool or takes the peers' numbers when that can be: true at the one call that freezes, *out_scale borrowed. */
bool pool_close(struct pool *p, const struct scale **out_scale);

/* Whether the peer has frozen other numbers than ours. */
bool pool_differs(const struct pool *p, size_t peer);

/* Whether the pool waits for this peer's statistics. */
bool pool_lacks(const struct pool *p, size_t peer);

/* Own words, borrowed from the pool until the next call: frozen numbers, else statistics; false: neither is known. */
bool pool_words(struct pool *p, struct wire_pool *out_words);

#endif
