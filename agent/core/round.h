/* The round machine: train → publish → gather → merge → commit, one instance a job.
 *
 *   LOADING ─loaded─> MEETING ─met─> IDLE ─> TRAINING ─> PUBLISHING ─durable─> GATHERING ─all heard|deadline─> MERGING ─┐
 *                        │            ^ ^                                                                              │
 *                        └─> JUMPING ─┘ └──────────────────────── COMMITTING <───────────────────────────────────────────┘
 *
 * It never waits for a peer known to be absent, ends every gather by its deadline, and says for every peer of every round
 * whether it was merged or why not. A round number is a label that counts merges with the swarm; rounds without enough
 * peers are local sub-rounds ("418+2"), and after alone_rounds of them the agent stops training until somebody is back.
 * Training of the next round runs beside the commit of this one; nothing of it leaves before that commit is durable. Where trainings
 * are briefer than a sync the commit waits for the end of the training, and is written with what is then published.
 *
 * What is trained after r+s carries the label (r+1, s); its commit is r+1, or r+(s+1) where too few peers took part. A peer
 * takes part when its copy moved since the last merge, or when a full copy had brought it to the round in work before: else
 * who jumped into the middle of a round would stay one behind for ever. Within sub-rounds of one number a peer is heard by
 * whatever is newer than the last gather. A jump takes the label that is vouched for when its copies are here; one that
 * fails is tried again after a round of training. With f = ⌊m/3⌋ liars among m peers tolerated, one or two peers have to be
 * trusted: there a word is not enough, the number must be that of an update which its owner has signed and whose copy it
 * serves, so that a lie costs its author a provable signature; three peers are the least that outvote one. The same bound
 * would keep a swarm apart after most of it was down for a while: the few that went on are ahead and nobody may follow so few.
 * So an agent of whose m ≥ 3 peers at least m − f train behind it, with so many peers of their own that they may not follow
 * those who are ahead, marks time: it goes on in sub-rounds under its number until they have come up. f liars alone cannot
 * hold it back.
 * An agent leaves ALONE when a peer with a session says HELLO or publishes.
 * With steps auto a training does the median of the steps in one epoch over ourselves and the peers whose number is known,
 * of an even number the lower of the two middle ones: so work is equal where sites are not, the largest site does not set
 * the pace, and a lone peer's lie cannot make us do more than one epoch of our own. The number is fixed when the training
 * starts. A halved rate lasts until a training succeeds. A full copy that was not asked for and starts no chain is ignored.
 *
 * Pure: events and the time come in, what is to be done goes out through struct round_ports. A port must not call back
 * into the machine. The same object runs under the real loop and under a simulated one. Thread: the loop's. */
#ifndef AGENT_CORE_ROUND_H
#define AGENT_CORE_ROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/deadline.h"
#include "agent/core/inbox.h"
#include "agent/core/round_peer.h"
#include "agent/core/topology.h"
#include "agent/core/work.h"
#include "base/err.h"
#include "crypto/manifest.h"
#include "gossip/gossip.h"
#include "store/store.h"

/* Of every own manifest. */
struct round_identity {
  struct swarm_id swarm;
  struct digest job, schema, contract;
};

/* What a job asks for; equal agents may share one. */
struct round_config {
  struct round_identity identity;
  uint8_t encoding;              /* of differences */
  size_t link_bytes, full_bytes; /* of a difference at most, of a full copy */
  uint64_t payload_max_bytes;    /* of all that waits */
  size_t snapshot_max_bytes;     /* of half or model */
  uint64_t count;                /* the last round; 0 = for ever */
  uint32_t min_peers, alone_rounds, staleness_max;
  bool by_samples; /* weights by sample counts instead of Metropolis */
  double max_share;
  uint64_t deadline_min_ms, deadline_max_ms, meet_ms, linger_ms;
  uint64_t every_ms; /* between the starts of two trainings, at least */
  /* A commit waits at most so long for the training beside it, if the last one took no longer: both are then one write. 0:
   * never. */
  uint64_t hold_ms;
  bool is_pooled;               /* JOB_LOAD may answer without a scale: then nothing starts before JOB_SCALE is done */
  bool is_clustered;            /* peers are merged once round_set_affinity has placed them, and met then */
  struct job_topology topology; /* of oneself and the peers: who is followed, waited for and merged; passes its check */
  bool is_push_sum;             /* updates are sums (agent/core/mass.h) */
  bool is_steps_auto;           /* the swarm's median of steps in an epoch, instead of the job file's number */
};

/* Who runs it, with whom. */
struct round_self {
  const struct gossip_peer_config *peers; /* [n_peers], ascending by key; borrowed */
  size_t n_peers;
  uint64_t boot_epoch;
  void *context;   /* of the ports */
  size_t n_before; /* peers whose keys are below our own; what the topology hangs on */
};

enum round_input_kind {
  INPUT_START,
  INPUT_SESSION,
  INPUT_HELLO,
  INPUT_REFUSED_JOB,
  INPUT_STATE,
  INPUT_MANIFEST,
  INPUT_PAYLOAD,
  INPUT_FAILED,
  INPUT_AFFINITY,
  INPUT_DONE,
  INPUT_TRAINED,
  INPUT_WRITTEN,
  INPUT_EPOCH_RISES,
  INPUT_EPOCH_ROSE,
  INPUT_ROLL_BACK,
  INPUT_IMPORT,
  INPUT_TIGHT,
  INPUT_TRAFFIC,
  INPUT_RELEASE,
  INPUT_TICK, /* that does something */
  N_ROUND_INPUTS
};

/* One call of a function below, before it does anything: its arguments, borrowed. */
struct round_input {
  enum round_input_kind kind;
  uint64_t now_ms; /* 0: the event has none */
  size_t peer;     /* SIZE_MAX: none */
  bool flag;       /* SESSION: it is up. HELLO: with a proof. TIGHT */
  enum err reason; /* of SESSION, REFUSED_JOB, FAILED; DONE: the outcome */
  /* START: lengths of half and model. DONE: the sequence. EPOCH_…: above, boot epoch. TRAFFIC: sent, received. ROLL_BACK: at. AFFINITY: the
   * bits of the number */
  uint64_t first, second;
  struct round_label label; /* ROLL_BACK */
  /* START: store_resume and positions [n]. HELLO: hello_job and the proof's manifest. STATE: wire_state. MANIFEST, PAYLOAD:
   * manifest. TRAINED: trainer_result. WRITTEN: scribe_result. ROLL_BACK: the note. IMPORT: the path */
  const void *what, *more;
  size_t n;
};

/* `context` is round_self's. */
struct round_ports {
  struct inbox_ports inbox;                              /* ask, fetch, cancel */
  void (*train)(void *context, struct trainer_job *job); /* moved */
  void (*write)(void *context, struct scribe_job *job);  /* moved */
  void (*sign)(void *context, struct manifest *m, uint8_t out_bytes[MANIFEST_BYTES]);
  void (*offer)(void *context, const uint8_t manifest[MANIFEST_BYTES]); /* to every peer with a session */
  void (*state_changed)(void *context);
  void (*done)(void *context, size_t peer, uint64_t sequence, enum err outcome);
  void (*count)(void *context, size_t peer, enum err reason);
  /* Something worth a log line and a row: a stable name, the peer it is about (SIZE_MAX: none), a sentence. */
  void (*note)(void *context, const char *name, size_t peer, const char *text);
  /* What comes in, between two events of the machine; NULL: nobody listens. */
  void (*hear)(void *context, const struct round_input *input);
};

struct round_machine;

/* The configuration and the table of ports are borrowed for life. ERR_NO_MEMORY. */
MUST_USE enum err round_new(const struct round_config *config, const struct round_self *self,
                            const struct round_ports *ports, struct round_machine **out_machine);
void round_free(struct round_machine *m);

/* It ends: a commit that waits is written now. */
void round_release(struct round_machine *m);

/* Starts from what the store knows: puts JOB_LOAD with the two files' bytes (moved; empty when there are none).
 * `positions` [n_peers]: newest merged place of each peer, zeros when none. */
void round_start(struct round_machine *m, const struct store_resume *resume, struct buffer half, struct buffer model,
                 const struct position *positions, uint64_t now_ms);

/* ---- events ---- */

void round_on_session(struct round_machine *m, size_t peer, bool is_up, enum err reason, uint64_t now_ms);
/* proof: the manifest of ours that the peer holds, verified as ours by the caller; NULL when it sent none. */
void round_on_hello(struct round_machine *m, size_t peer, const struct hello_job *hello, const struct manifest *proof,
                    uint64_t now_ms);
void round_on_refused_job(struct round_machine *m, size_t peer, enum err reason, uint64_t now_ms);
void round_on_state(struct round_machine *m, size_t peer, const struct wire_state *state, uint64_t now_ms);

/* The newest round of which the peer is given a full copy: the one that it has in work, so that what it merges does not hang on
 * when it asks, as it does after a restart. UINT64_MAX: any, for one that is so far behind that it jumps. */
uint64_t round_copy_for(const struct round_machine *m, size_t peer);
void round_on_manifest(struct round_machine *m, size_t peer, const struct manifest *manifest, uint64_t now_ms);
void round_on_payload(struct round_machine *m, size_t peer, const struct manifest *manifest, uint8_t *payload,
                      uint64_t now_ms);
void round_on_failed(struct round_machine *m, size_t peer, enum err reason, uint64_t now_ms);
void round_on_done(struct round_machine *m, size_t peer, uint64_t sequence, enum err outcome, uint64_t now_ms);

/* Results are moved in. A failed load ends the job: the caller reads the sentence before and stops. */
void round_on_trained(struct round_machine *m, struct trainer_result *result, uint64_t now_ms);
void round_on_written(struct round_machine *m, struct scribe_result *result, uint64_t now_ms);

/* Another job of the agent has proof that the store was rolled back: the boot epoch, which all share, is to rise above
 * `above`, and nothing is published until it rose. */
void round_epoch_rises(struct round_machine *m, uint64_t above);
void round_epoch_rose(struct round_machine *m, uint64_t boot_epoch);

/* To be taken back to a kept model as soon as the machine is between rounds: not while an update of it is out or a commit
 * under way, so within a training and a gather. The round number stays, the next payload starts a chain, peers are told why.
 * The same again changes nothing; ERR_BUSY while another one waits; ERR_LIMIT: the note is too long; ERR_NO_MEMORY. What becomes of it
 * is in round_roll_back_view. ERR_UNSUPPORTED: with push-sum, where mass given since cannot be had back; what is imported goes
 * on with the mass that it finds. */
MUST_USE enum err round_on_roll_back(struct round_machine *m, struct round_label to, const char *note,
                                     int64_t at_unix_s);

/* To go on, at the same time as for a roll-back, from a model that was trained elsewhere: the bytes of a snapshot in a file, which
 * the scribe reads. It is committed as the next sub-round, adopted; what peers hold of us stays, so that the next payload is the
 * way there. ERR_BUSY while another one or a roll-back waits; ERR_LIMIT: the path is too long; ERR_NO_MEMORY. */
MUST_USE enum err round_on_import(struct round_machine *m, const char *path);

/* Of the last roll-back or import. */
struct round_roll_back_view {
  bool is_pending;
  enum err error; /* why the last one was refused; ERR_OK: it is done, or there was none */
  struct round_label to;
  struct round_label label; /* of the last one's commitment, zeros: none since the start */
};

void round_roll_back_view(const struct round_machine *m, struct round_roll_back_view *out_view);

/* "rolled back to 380: bad sensor". The text is from outside: show it escaped. */
void notice_text(const struct wire_notice *n, char out_text[MAX_REASON_BYTES]);

/* What a peer's weight is multiplied by, 0 … 1, in a job that is clustered (agent/core/cluster.h). 0: it is of another group:
 * it stays connected and is not awaited, nothing of it is fetched or merged, no number of its is followed, and it is told that we do not
 * follow it. A peer that has no place yet is fetched and awaited, and not merged. min_peers then counts no more peers than are not of another
 * group. */
void round_set_affinity(struct round_machine *m, size_t peer, double affinity);

/* While it is tight there is no room for an update: rounds are trained and merged, but published as none. */
void round_set_tight(struct round_machine *m, bool is_tight);

/* Time passed. Returns when to be called again at the latest (UINT64_MAX: on the next event only). */
uint64_t round_tick(struct round_machine *m, uint64_t now_ms);

/* ---- what it says of itself ---- */

void round_fill_state(const struct round_machine *m, size_t peer, struct wire_state *out_state);
/* Whether the topology lets us take its updates in some round: of whom a copy is kept. And it ours: who does not is offered none. */
bool round_follows(const struct round_machine *m, size_t peer);
bool round_is_follower(const struct round_machine *m, size_t peer);

void round_fill_hello(const struct round_machine *m, size_t peer, struct hello_job *out_hello);

/* Bytes sent and received since the start, for the next commit's row. */
void round_set_traffic(struct round_machine *m, uint64_t sent_bytes, uint64_t received_bytes);

struct round_view {
  enum phase phase;
  struct round_label committed, in_work;
  bool is_halted;
  enum err halted_reason;
  uint64_t closes_at_ms; /* of the gather; 0 = none */
  uint64_t starts_at_ms; /* of the next training, which waits for its time; 0 = none does */
  uint32_t steps;        /* of the training in work or the last one; 0 = none yet */
  uint32_t n_samples, n_test, n_global_test;
  uint64_t samples_bytes, streamed_bytes; /* of all sets, in memory and on disk */
  bool has_loss;                          /* the training of the round last merged was since the start */
  double train_loss;
  struct store_metrics metrics;  /* of the last merge */
  uint32_t n_merged, n_expected; /* of the last merge */
  uint64_t rounds_alone;
};

void round_view(const struct round_machine *m, struct round_view *out_view);

struct round_peer_view {
  enum err standing;  /* ERR_OK: awaited; else why not */
  bool is_waited_for; /* in the gather that runs now */
  bool has_state;
  struct peer_state state;
  struct wire_notice notice;
  uint64_t copy_round;
  enum err last_reason; /* in the last merge */
  double last_weight;
  uint32_t last_lag;
  uint8_t last_fate; /* what the rule made of it: enum fate (models/merging/rule.h) */
  double last_share,
      last_distance; /* with which weight its difference went in, and how long that was; 0: it took no part */
};

void round_peer_view(const struct round_machine *m, size_t peer, struct round_peer_view *out_view);

enum round_end { ROUND_GOES_ON, ROUND_ENDED, ROUND_ENDED_SHORT, ROUND_FAILED };

/* Whether the job is over: finished and every live follower has the last payload or `linger` passed; short when it had to
 * end alone or the last round had too few peers; failed when the data could not be loaded. */
enum round_end round_end(const struct round_machine *m, uint64_t now_ms);

#endif
