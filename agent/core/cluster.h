/* Who is in which group, in a job with `cluster.groups`: FlexCFL (Duan et al. 2022) without a server.
 *
 * The trainer finds this site's sketch (models/clustering/pretraining.h). It goes signed to every peer, and what is new here is passed on, so that
 * all agents come to know the same sketches and find, each alone, the same groups (models/clustering/groups.h). Peers of another
 * group weigh nothing: they stay connected, and nothing of them is fetched. A newcomer's sketch puts it where it belongs before it takes
 * its first model; one whose data have changed has a newer sketch, and everybody puts it anew.
 *
 * What others can do: a sketch is signed by its origin and bound to job, schema and contract, replaced only by a newer one, and one
 * an origin. A peer's own always has its place; of the sketches that peers pass on at most MAX_FOREIGN are kept, at most
 * MAX_FOREIGN_OF of whom the same peer introduced. A liar can have itself put where it likes, as it can train on what it likes; the
 * robust rules of the merge are against that.
 *
 * Pure but for memory. Thread: the loop's. Owner: the agent's job. */
#ifndef AGENT_CORE_CLUSTER_H
#define AGENT_CORE_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gossip/gossip.h"
#include "models/clustering/groups.h"

enum {
  MAX_FOREIGN = 255,
  MAX_FOREIGN_OF = 64,
  CLUSTER_BURST = 32, /* sketches that a peer is told at once … */
  CLUSTER_PAUSE_MS = 250,
};
_Static_assert(1 + 256 + MAX_FOREIGN <= MAX_GROUPED, "all that are known are grouped");

/* `context` is of cluster_config. */
struct cluster_ports {
  void (*sign)(void *context, struct signed_sketch *s); /* sets origin and signature */
  void (*send)(void *context, size_t peer, const uint8_t *bytes);
  /* What the peer's updates weigh, 0: nothing; when that becomes known or changes. */
  void (*affinity)(void *context, size_t peer, double affinity);
  /* The own place has changed; a sentence for people. */
  void (*moved)(void *context, const char *text);
};

struct cluster_config {
  struct groups_wish wish;
  double kappa;       /* of mixing_affinity */
  struct digest seed; /* of the job: the first weights' */
  struct swarm_id swarm;
  struct digest job, schema, contract;
  struct identity_key own;
  const struct gossip_peer_config *peers; /* [n_peers], ascending by key; borrowed */
  size_t n_peers;
  uint64_t boot_epoch;
  void *context;
};

struct cluster;

/* The table of ports is borrowed for life. ERR_NO_MEMORY. */
MUST_USE enum err cluster_new(const struct cluster_config *config, const struct cluster_ports *ports,
                              struct cluster **out_cluster);
void cluster_free(struct cluster *c);

/* The trainer has found this site's sketch, or another one than before: a new serial is signed and everybody told. */
void cluster_on_own(struct cluster *c, const struct sketch *own);

/* The boot epoch rose within this life: what is said of oneself has to be said anew. */
void cluster_on_epoch(struct cluster *c, uint64_t boot_epoch);

/* The peer runs the job in a session: it is told what is known. Its session, or the job there, has ended. */
void cluster_on_hello(struct cluster *c, size_t peer);
void cluster_on_gone(struct cluster *c, size_t peer);

/* A sketch that gossip has verified. ERR_OK: taken, or known or older, which is no fault. ERR_ENCODING: no sketch has such cells;
 * ERR_BUDGET: of so many strangers none more is kept; ERR_NO_MEMORY. */
MUST_USE enum err cluster_on_sketch(struct cluster *c, size_t peer, const struct signed_sketch *s,
                                    const uint8_t *bytes);

/* Groups anew what has changed, and tells what there is to tell. When to be called again at the latest; UINT64_MAX: after the next
 * event. */
uint64_t cluster_turn(struct cluster *c, uint64_t now_ms);

struct cluster_view {
  bool has_own; /* else there are no groups here yet */
  size_t group; /* of this agent, from 0 */
  size_t n_groups, n_members, n_known;
  double silhouette;
  uint32_t serial; /* of the own sketch */
};

void cluster_view(const struct cluster *c, struct cluster_view *out_view);

/* The peer's place; false: its sketch, or the own one, is not known. Cosine: of its sketch with the own one. */
bool cluster_peer_view(const struct cluster *c, size_t peer, size_t *out_group, double *out_cosine);

#endif
