/* Who is in which group, in a job with `cluster.groups`: FlexCFL (Duan et al. 2022) without a server.
 *
 * The trainer finds this site's sketch (models/clustering/pretraining.h). It goes signed to every peer, and what is new here is passed on, so that
 * all agents come to know the same sketches and find, each alone, the same groups (models/clustering/groups.h). Peers of another
 * group weigh nothing: they stay connected, and nothing of them is fetched. A newcomer's sketch puts it where it belongs before it takes
 * its first model; one whose data have changed has a newer sketch, and everybody puts it anew.
 *
 * Grouped are this agent and its configured peers, and nobody else: keys cost nothing, so that one peer could pass on any number of
 * invented ones and divide all others by them. Sketches of strangers are ignored and not passed on. Agents with the same
 * peers find the same groups; where each is configured with a part of the swarm each groups those whom it knows.
 *
 * What others can do: a sketch is signed by its origin and bound to job, schema and contract, replaced only by a newer one, and one
 * an origin; SKETCH_BURST newer ones are taken at once, then one in SKETCH_EVERY_MS, the newest of those that came
 * meanwhile. Groups are found REGROUP_BURST times at once, then once in REGROUP_MS, and who is with us is told at most once in
 * MOVED_MS, when it has changed. A liar can have itself put where it likes, as it can train on what it likes; the robust rules of the merge are against that. One that
 * withholds its sketch counts as of another group once it has had patience_ms in its session, and so does one that is not
 * there if anybody else's is known by then: nobody waits for them, and a sketch that comes later puts them where they
 * belong. Without an own sketch there are no groups: peers, who have none of us, follow us no more, and this agent goes on
 * alone.
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
  CLUSTER_BURST = 32, /* sketches that a peer is told at once … */
  CLUSTER_PAUSE_MS = 250,
  REGROUP_SPACE_MS = 100, /* sketches that come together are one change */
  REGROUP_BURST = 8,      /* times at once, and one more each … */
  REGROUP_MS = 2000,
  SKETCH_BURST = 3, /* of one origin, and one more each … */
  SKETCH_EVERY_MS = 10 * 1000,
  MOVED_MS = 10 * 1000,
  PATIENCE_LEAST_MS = 5000,
};
_Static_assert(1 + MAX_PEERS <= MAX_GROUPED, "all that are known are grouped");

/* `context` is of cluster_config. */
struct cluster_ports {
  void (*sign)(void *context, struct signed_sketch *s); /* sets origin and signature */
  /* ERR_BACKLOG, ERR_NO_MEMORY: it is said again later. */
  enum err (*send)(void *context, size_t peer, const uint8_t *bytes);
  /* What the peer's updates weigh, 0: nothing; when that becomes known or changes. */
  void (*affinity)(void *context, size_t peer, double affinity);
  /* Others are with us than before; a sentence for people. Alone: nobody is, though there are others. */
  void (*moved)(void *context, bool is_alone, const char *text);
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
  uint64_t patience_ms; /* PATIENCE_LEAST_MS if it is less */
  void *context;
};

struct cluster;

/* The table of ports is borrowed for life. ERR_NO_MEMORY. */
MUST_USE enum err cluster_new(const struct cluster_config *config, const struct cluster_ports *ports,
                              struct cluster **out_cluster);
void cluster_free(struct cluster *c);

/* The trainer has found this site's sketch, or another one than before: a new serial is signed and everybody told. */
void cluster_on_own(struct cluster *c, const struct sketch *own);

/* It has found none and will not before its data change: whatever there was stands. */
void cluster_on_no_own(struct cluster *c);

/* The boot epoch rose within this life: what is said of oneself has to be said anew. */
void cluster_on_epoch(struct cluster *c, uint64_t boot_epoch);

/* The peer runs the job in a session: it is told what is known. Its session, or the job there, has ended. */
void cluster_on_hello(struct cluster *c, size_t peer);
void cluster_on_gone(struct cluster *c, size_t peer);

/* Whether it says anything new: of a peer, and newer than what is known. It need not be verified yet; what is not wanted
 * never need be. */
bool cluster_wants(struct cluster *c, size_t peer, const struct signed_sketch *s);

/* A sketch that gossip has verified. ERR_OK: taken, or not wanted, which is no fault. ERR_ENCODING: no sketch has such cells;
 * ERR_NO_MEMORY. */
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
