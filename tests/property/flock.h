/* A flock: whole agents in virtual time. Each is a real round machine over a real gossip node: real handshakes, sealed
 * frames, HELLO, STATE, ASK, GET, signed manifests. Three things are made of memory: the link (delay, loss, bandwidth, cut
 * and heal by direction), the trainer (a vector of doubles that is pulled towards a goal of the agent's own, encoded and
 * merged by the real formula) and the store (what is durable at an instant, so that an agent can be killed at any time,
 * started again, rolled back or copied). One queue of events, one seed: the same story every time.
 *
 * What must always hold is checked after every event: labels only go up, no gather is longer than its deadline, one payload
 * a (round, sub) of an epoch, one a sequence, memory within its budget, and after every link applied the receiver's copy
 * has the bits of the sender's public copy, so that nothing is applied twice or left out. */
#ifndef TESTS_PROPERTY_FLOCK_H
#define TESTS_PROPERTY_FLOCK_H

#include <check.h>

#include "agent/core/round_machine.h"
#include "base/rng.h"
#include "gossip/gossip.h"
#include "gossip/link.h"

/* ck_assert tells the runner of every success, which costs more than the flock. */
#define HOLDS(condition) ((condition) ? (void)0 : ck_abort_msg("%s:%d: %s", __FILE__, __LINE__, #condition))

enum { FLOCK_BATCH = 32, FLOCK_MAX = 8, FLOCK_STORY = 1024, FLOCK_NOTES = 512 };

struct flock;

/* One own publication as the store keeps it. */
struct flock_kept {
  struct round_label label;
  struct position position;
  uint8_t manifest[MANIFEST_BYTES], copy_manifest[MANIFEST_BYTES];
  struct digest payload_root, copy_root;
  struct buffer payload, copy; /* empty: none */
};

/* What outlives a kill. */
struct flock_durable {
  uint64_t boot_epoch;
  struct flock_kept kept[KEEP_PAYLOADS]; /* oldest first */
  size_t n_kept;
  bool has_commit, is_gathering;
  struct round_label committed, published;
  struct buffer half, model;
  struct position merged[FLOCK_MAX]; /* by agent */
};

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

/* What was published once: nothing else may be under the same label or sequence. */
struct flock_used {
  struct round_label label;
  uint64_t boot_epoch, sequence;
  struct digest root, copy;
};

struct flock_agent {
  struct flock *flock;
  size_t number;
  bool is_alive;
  uint64_t life;
  struct identity *identity;
  struct gossip *node;
  struct round_machine *machine;

  /* before the start; peers ascend by key, as agents do by number */
  struct round_config config;
  size_t n_peers, peers[FLOCK_MAX];
  bool dials[FLOCK_MAX]; /* by agent */
  uint64_t loading_ms, training_ms, writing_ms;
  uint64_t step_ms; /* if not 0: a training takes that by its steps */
  uint32_t samples;

  /* at any time */
  uint32_t fail_trainings;  /* so many more end with fail_with */
  enum err fail_with;       /* ERR_NON_FINITE */
  uint32_t corrupt;         /* so many of its next chunks are broken */
  bool merge_is_not_finite; /* the next one */
  enum err disk;            /* what every write answers */
  void (*lie)(struct wire_state *state);
  void (*lie_in_hello)(struct hello_job *hello, size_t to);
  void (*lie_in_manifest)(struct manifest *m);

  /* its trainer: [dims] */
  double *x, *copy, *pending, *copies[FLOCK_MAX]; /* by peer */
  bool has_pending;
  uint64_t trainer_free_ms, scribe_free_ms;

  struct flock_durable durable;

  /* inside */
  struct gossip_job_config job;
  struct identity_key keys[FLOCK_MAX];
  const char *names[FLOCK_MAX];
  char (*name_texts)[MAX_NAME_BYTES];
  uint8_t proofs[FLOCK_MAX][MANIFEST_BYTES]; /* by peer */
  bool has_proof[FLOCK_MAX];
  struct flock_event *arriving;
  bool is_touched;
  uint64_t wake_ms;
  bool was_gathering;
  uint64_t gather_until_ms, deadline_ms;

  /* seen */
  struct flock_told *story;
  size_t n_story;
  struct flock_note *notes;
  size_t n_notes;
  struct flock_used *used;
  size_t n_used;
  size_t n_trainings, n_asked_full, n_chains, n_jumps;
  uint32_t last_steps;
  double last_rate_scale;
};

struct flock_link {
  uint64_t delay_ms, last_ms;
  uint64_t bytes_per_s; /* 0: any */
  bool is_cut;          /* frames are lost, nobody can dial, and a connection ends after FLOCK_HEARTBEAT_MS */
};

enum { FLOCK_HEARTBEAT_MS = 4000 };

struct flock_wire {
  bool is_open;
  size_t from, to, peer; /* peer: index of `to` at `from` */
};

struct flock {
  uint64_t now_ms, order;
  struct flock_event *heap;
  size_t n_heap, heap_capacity;
  struct flock_agent agents[FLOCK_MAX];
  size_t n_agents, dims;
  struct flock_link links[FLOCK_MAX][FLOCK_MAX]; /* from, to */
  struct flock_wire *wires;
  size_t n_wires;
  uint8_t outgoing[MAX_FRAME_BYTES];
  size_t n_outgoing;
  struct rng rng;
  double jitter_ms, loss; /* of every link */
  /* Is this frame lost? */
  bool (*lose)(struct flock *f, size_t from, size_t to, uint8_t type);
  uint64_t n_frames, n_starts;
};

/* ---- making: n agents that all list and dial each other; nobody runs ---- */

/* dims: numbers in the model. */
struct flock *flock_new(size_t n, size_t dims);
void flock_free(struct flock *f);

/* `which` does not list `other` (any more): before a start. flock_learn is the way back. */
void flock_forget(struct flock *f, size_t which, size_t other);
void flock_learn(struct flock *f, size_t which, size_t other);

/* ---- life ---- */

void flock_start(struct flock *f, size_t which);
void flock_start_all(struct flock *f);
void flock_kill(struct flock *f, size_t which); /* as kill -9 */

/* A copy of what is durable, and its way back. Free with flock_durable_free. */
struct flock_durable *flock_back_up(const struct flock *f, size_t which);
void flock_restore(struct flock *f, size_t which, const struct flock_durable *backup);
void flock_durable_free(struct flock_durable *d);

/* Another agent with the same key, peers and disk; it is not started. Its number. */
size_t flock_clone(struct flock *f, size_t which);

/* ---- links ---- */

/* Both directions, and what stands ends at once; or one direction without a word. */
void flock_part(struct flock *f, size_t a, size_t b);
void flock_mute(struct flock *f, size_t from, size_t to);
void flock_heal(struct flock *f, size_t a, size_t b);

/* ---- time ---- */

void flock_run(struct flock *f, uint64_t for_ms);
/* Until the agent has committed the round, is in the phase (tested after every event); false: not within limit_ms. */
bool flock_until_round(struct flock *f, size_t which, uint64_t round, uint64_t limit_ms);
bool flock_until_phase(struct flock *f, size_t which, enum phase phase, uint64_t limit_ms);

/* ---- asking ---- */

struct round_label flock_committed(const struct flock *f, size_t which);
enum phase flock_phase(const struct flock *f, size_t which);
size_t flock_noted(const struct flock *f, size_t which, const char *name);
const struct flock_note *flock_last_note(const struct flock *f, size_t which, const char *name);
/* Committed rounds, newest first. */
const struct flock_told *flock_told(const struct flock *f, size_t which, size_t from_end);
size_t flock_count_reason(const struct flock *f, size_t which, size_t first_told, size_t about, enum err reason);
/* Why `about` is not waited for (ERR_OK: it is). */
enum err flock_standing(const struct flock *f, size_t which, size_t about);
uint64_t flock_dropped(const struct flock *f, size_t which, size_t about, enum err reason);
/* The largest distance of a living agent's committed model from their mean, in any number. */
double flock_spread(const struct flock *f);

#endif
