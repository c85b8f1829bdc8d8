/* Whole agents in virtual time: the swarm in one process.
 *
 * Each is a real round machine over a real gossip node: real handshakes, sealed frames, HELLO, STATE, ASK, GET, signed
 * manifests. Four things are made of memory: the clock; the link (link.h: delay, jitter, bandwidth, loss, cuts by direction);
 * the host (host.h: speed, pauses, disk); and what trainer and scribe do: a vector of doubles that is pulled towards a goal
 * of the agent's own, encoded and merged by the real formula, and a store that says what is durable at an instant, so that
 * an agent can be killed at any time, started again, rolled back or copied. One queue of events, one seed: the same
 * story every time, and one hash of it. Of a handshake only the secret keys differ from run to run; nothing hangs on them.
 *
 * What must always hold (invariants.h) is checked after every event of an agent and told to the watch.
 *
 *   queue.h       events in virtual time
 *   link.h        when a frame arrives; host.h: when work is done
 *   wires.c       connections over links: gossip's seam (gossip/link.h)
 *   ports.c       ties gossip and round machine together, as agent/run does
 *   numbers.c     what the trainer does
 *   disk.c        what the scribe does
 *   invariants.h  what must hold
 *   sim.c         making, life, time
 *
 * The structures are open: a scenario sets what it likes between events. random_open must have been called. Without memory the
 * process ends. One thread; several simulations can be in one process. */
#ifndef AGENT_SIM_SIM_H
#define AGENT_SIM_SIM_H

#include "agent/core/cluster.h"
#include "agent/core/mass.h"
#include "agent/core/round_machine.h"
#include "agent/sim/host.h"
#include "agent/sim/invariants.h"
#include "agent/sim/link.h"
#include "agent/sim/queue.h"
#include "base/rng.h"
#include "gossip/gossip.h"

enum {
  SIM_BATCH = 32,
  SIM_NAME_BYTES = 26,
  SIM_HEARTBEAT_MS = 4000, /* a connection over a cut link ends after so long */
  SIM_START_MS = 1000000,  /* what the clock shows in the beginning */
  SIM_KEEP_MODELS = 3,     /* as store.keep_last */
  SIM_MEMBERS_UP_TO =
      256, /* agents: beyond, that all know of all is what fills the memory, and they know of their peers alone */
};

struct sim;

/* What closes frames and signs. */
enum sim_fidelity {
  SIM_SEALED,   /* the deployed agent's handshakes, ciphers and signatures */
  SIM_PROTOCOL, /* none (plain.h): the same frames at the same times, for thousands of agents */
};

/* One own publication as the store keeps it. */
struct sim_kept {
  struct round_label label;
  struct position position;
  uint8_t manifest[MANIFEST_BYTES], copy_manifest[MANIFEST_BYTES];
  struct digest payload_root, copy_root;
  struct buffer payload, copy; /* empty: none; what is held of them */
};

/* The newest place of another agent's chain that was merged. */
struct sim_merged {
  size_t agent;
  struct position position;
};

/* A committed model that can be gone back to. */
struct sim_model {
  struct round_label label;
  struct buffer half, model;
};

/* What outlives a kill. */
struct sim_durable {
  uint64_t boot_epoch;
  struct sim_kept *kept; /* [n_kept], at most KEEP_PAYLOADS, oldest first */
  size_t n_kept, kept_capacity;
  bool has_commit, is_gathering;
  struct round_label committed, published;
  struct buffer half, model;
  struct sim_model *models; /* [n_models], oldest first, at most SIM_KEEP_MODELS */
  size_t n_models, model_capacity;
  struct store_roll_back *back; /* the last one; NULL: none */
  struct sim_merged *merged;    /* [n_merged] */
  size_t n_merged;
};

/* What was published once. */
struct sim_used {
  struct round_label label;
  bool has_payload;
  uint64_t boot_epoch, sequence;
  struct digest copy;
};

/* Another agent as one has it in its configuration. */
struct sim_peer {
  size_t agent;
  bool is_dialled; /* its address is known */
  uint64_t wire;   /* the connection that was dialled last */
  uint8_t *proof;  /* [MANIFEST_BYTES]: its newest manifest, to show it, if it forgets; NULL: none */
  double *copy;    /* [dims], the trainer's */
  uint64_t applied_epoch, applied_sequence; /* its place in this life */
  double mixed;                             /* its weight in the last merge */
};

struct sim_link_to {
  size_t to;
  struct sim_flow flow;
  struct sim_link *own; /* NULL: the simulation's default */
};

struct sim_agent {
  struct sim *sim;
  size_t number;
  char name[SIM_NAME_BYTES]; /* "agent17" */
  bool is_alive;
  uint64_t life;
  struct identity *identity; /* SIM_PROTOCOL: NULL */
  struct identity_key key;
  struct gossip *node;
  struct round_machine *machine;

  /* before the start; peers ascend by key, as agents do by number */
  uint16_t version_min, version_max; /* of the protocol that it speaks; 0: all of this program */
  struct round_config *own_config;   /* NULL: the simulation's */
  size_t n_peers;
  struct sim_peer *peers;
  uint32_t samples;

  struct cluster *cluster; /* of this life; NULL unless the simulation's sites are grouped */

  /* at any time */
  struct sim_host host;
  uint32_t fail_trainings;  /* so many more end with fail_with */
  enum err fail_with;       /* ERR_NON_FINITE */
  uint32_t corrupt;         /* so many of its next chunks are broken */
  bool merge_is_not_finite; /* the next one */
  void (*lie)(struct wire_state *state);
  void (*lie_in_hello)(struct hello_job *hello, size_t to);
  void (*lie_in_manifest)(struct manifest *m);

  /* its trainer: [dims] */
  double *x, *copy, *pending; /* one block */
  bool has_pending;
  struct mass mass; /* of push-sum, since JOB_LOAD */

  struct sim_durable durable;

  /* inside */
  struct sim_link_to *links; /* ascending by `to`: those that were used or asked for */
  size_t n_links;
  uint64_t *wires; /* that are open at this end */
  size_t n_wires, wire_capacity;
  struct gossip_peer_config *others; /* [n_peers]: who the peers are, of this life */
  const struct sim_event *arriving;
  bool is_touched;
  uint64_t wake_ms;
  bool was_gathering;
  uint64_t gather_until_ms;
  struct round_label started_from, moved_at; /* moved_at: what was committed then … */
  uint64_t moved_ms;                         /* … and not later than this nothing kept it from going on */
  struct sim_used *used;
  size_t n_used;

  /* seen */
  size_t n_trainings, n_asked_full, n_chains, n_jumps, n_commits;
  bool has_lied; /* or was copied */
  uint32_t last_steps;
  double last_rate_scale;
};

/* A connection. Its number is index | generation << 32, so that a slot is used again and a number is not. */
struct sim_wire {
  bool is_open;
  uint32_t generation;
  size_t from, to, peer; /* peer: index of `to` at `from` */
  uint64_t used_us;      /* by the last frame */
};

/* What trains: numbers (numbers.c), or whatever else fills the results of jobs. `r` has the job's kind and label. */
struct sim_trainer {
  void (*load)(struct sim_agent *a, struct trainer_job *job, struct trainer_result *r);
  void (*train)(struct sim_agent *a, struct trainer_job *job, struct trainer_result *r);
  void (*merge)(struct sim_agent *a, struct trainer_job *job, struct trainer_result *r); /* JOB_MERGE, JOB_ADOPT */
  void (*restore)(struct sim_agent *a, struct trainer_job *job, struct trainer_result *r);
  void (*undo)(struct sim_agent *a, struct trainer_job *job, struct trainer_result *r);
  uint32_t (*epoch_steps)(const struct sim_agent *a);
};
extern const struct sim_trainer sim_numbers;

/* Whoever looks on; each may be NULL. */
struct sim_watch {
  void *context;
  void (*broken)(void *context, const struct sim_agent *a, enum sim_invariant i);
  void (*committed)(void *context, const struct sim_agent *a, const struct store_commitment *c);
  void (*made)(void *context, struct sim_agent *a); /* its round machine, which is not started yet */
  /* As round_ports.note; `about` is an agent or SIZE_MAX. */
  void (*noted)(void *context, const struct sim_agent *a, const char *name, size_t about, const char *text);
};

struct sim_broken {
  enum sim_invariant invariant;
  size_t agent;
  uint64_t at_us;
};

struct sim {
  enum sim_fidelity fidelity;
  size_t max_members; /* that an agent knows of (gossip_config); 0: none. For those that start from now on */
  bool relays;        /* over others (gossip_config); no by default. For those that start from now on */
  uint64_t now_us, now_ms;
  struct sim_queue queue;
  struct sim_agent **agents; /* [n_agents] */
  size_t n_agents, dims;
  size_t n_tail;          /* bytes behind the numbers of a sum; 0: updates are no sums */
  bool mass_is_void;      /* a disk was put back or copied: mass may be made and lost */
  uint64_t payload_bytes; /* that an update is said to have; more than what is held: SIM_PROTOCOL only */
  const struct sim_trainer *trainer;
  struct sim_link default_link; /* of pairs that are not asked for */
  struct sim_wire *wires;
  uint32_t *free_wires;
  size_t n_wires, n_free_wires, wire_capacity;
  uint8_t outgoing[MAX_FRAME_BYTES], incoming[MAX_FRAME_BYTES], scratch[MAX_FRAME_BYTES]; /* of all nodes */
  size_t n_outgoing;
  uint64_t seed;
  struct rng rng;
  struct gossip_job_config job;
  struct round_config config; /* of all agents that have none of their own */
  /* With config.is_clustered, which a trainer that finds sketches sets: how sites are grouped; who and whose is filled in. */
  struct cluster_config cluster;
  struct sim_watch watch;
  /* Is this frame lost, beside what the link model says? NULL: no. */
  bool (*lose)(struct sim *s, size_t from, size_t to, uint8_t type);
  uint64_t n_events, n_frames, n_starts;
  struct { /* the event that was handled last; n: bytes of a frame */
    uint32_t agent, n;
    uint8_t kind;
  } last;
  uint64_t n_broken;
  struct sim_broken first_broken;
  uint64_t trace; /* hash of every event and commit so far */
};

/* ---- making: n agents without peers; nobody runs ---- */

/* dims: numbers in the model, of 8 bytes each. */
struct sim *sim_new(size_t n, size_t dims, uint64_t seed); /* SIM_SEALED */
struct sim *sim_new_as(enum sim_fidelity fidelity, size_t n, size_t dims, uint64_t seed);

/* SIM_PROTOCOL with updates that are said to have payload_bytes: fetched, sent and written at that length, of which 8 · dims
 * bytes are held and merged. */
struct sim *sim_new_protocol(size_t n, size_t dims, uint64_t payload_bytes, uint64_t seed);
void sim_free(struct sim *s);

/* From now on all agents give sums, once, before the first start. */
void sim_push_sum(struct sim *s);

/* What all hold and what is on its way among them, and how many agents that is the mass of: those that have something to go on
 * from. */
double sim_mass(const struct sim *s, size_t *out_n);

/* `which` lists `other` and has its address; it does not list it any more. Before a start. */
void sim_learn(struct sim *s, size_t which, size_t other);
void sim_forget(struct sim *s, size_t which, size_t other);

/* Both list each other and dial; nothing where they do already, or are one. Before a start. */
void sim_meet(struct sim *s, size_t a, size_t b);

/* What the agent's rounds go by; a copy of its own, to be changed before its start. One that starts without peers gets such a copy, in
 * which it waits for nobody. */
const struct round_config *sim_config(const struct sim_agent *a);
struct round_config *sim_own_config(struct sim_agent *a);

/* SIZE_MAX: not listed. */
size_t sim_peer_index(const struct sim_agent *a, size_t other);

/* The link of a pair in one direction, to be looked at and changed. */
struct sim_link *sim_link(struct sim *s, size_t from, size_t to);

/* It is like all others again, and nothing waits in its queue. */
void sim_link_reset(struct sim *s, size_t from, size_t to);

/* ---- life ---- */

void sim_start(struct sim *s, size_t which);
void sim_start_all(struct sim *s);
void sim_kill(struct sim *s, size_t which); /* as kill -9 */

/* A copy of what is durable, and its way back (NULL: an empty disk). Free with sim_durable_free. */
struct sim_durable *sim_back_up(const struct sim *s, size_t which);
void sim_restore(struct sim *s, size_t which, const struct sim_durable *backup);
void sim_durable_free(struct sim_durable *d);

/* Another agent with the same key, peers and disk; it is not started. Its number. */
size_t sim_clone(struct sim *s, size_t which);

/* The host stands still and handles nothing for so long; then everything at once. */
void sim_pause(struct sim *s, size_t which, uint64_t for_ms);

/* The host's monotonic clock leaps ahead, as that of a machine that was stopped and moved does: what was to wait is due at once. */
void sim_leap(struct sim *s, size_t which, uint64_t by_ms);

/* It is to go back to its n-th newest model, as `starling models rollback` asks it to. ERR_NOT_FOUND: it keeps no such; ERR_BUSY: it
 * goes back already. */
MUST_USE enum err sim_roll_back(struct sim *s, size_t which, size_t n);

/* What its clock says. */
static inline uint64_t sim_clock_ms(const struct sim_agent *a) {
  return a->sim->now_ms + a->host.clock_ahead_ms;
}

/* ---- links ---- */

/* Both directions, and what stands ends at once; or one direction without a word. */
void sim_part(struct sim *s, size_t a, size_t b);
void sim_mute(struct sim *s, size_t from, size_t to);
void sim_heal(struct sim *s, size_t a, size_t b);

/* ---- time ---- */

/* Handles the next event. False: it is later than until_ms, which is now the time. */
bool sim_step(struct sim *s, uint64_t until_ms);
void sim_run(struct sim *s, uint64_t for_ms);

#endif
