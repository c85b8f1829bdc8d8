/* Gossip: authenticated peers, the messages between them, and payloads fetched in pieces.
 *
 * Everything that crosses the wire is here and is written down field by field in PROTOCOL.md; nothing here knows what a
 * float is or when a round ends. The agent lends callbacks (struct gossip_events) and answers for its jobs; gossip owns
 * the sockets, the sessions, the redial supervisor, the connection gate and the receive memory.
 *
 * Thread: the loop thread only, callbacks included. A callback may call any sending function, never gossip_close.
 * Owner: the agent, from open to close. Time is what config.now_ms says (monotonic, milliseconds).
 * Peers are addressed by their index in the config (ascending public key), jobs by theirs. */
#ifndef GOSSIP_GOSSIP_H
#define GOSSIP_GOSSIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/limits.h"
#include "crypto/identity.h"
#include "crypto/job_file.h"
#include "crypto/manifest.h"
#include "crypto/signed_sketch.h"

struct gossip;

enum { GOSSIP_VERSION = 4, GOSSIP_VERSION_MIN = 1, GOSSIP_BEAT_S = 1, GOSSIP_BEAT_METERED_S = 25 };

/* ---- what it is told at start ------------------------------------------------------------------------------------- */

struct gossip_peer_config {
  struct identity_key key;
  const char *name;
  const char *address; /* tcp://host:port or ipc://path, < MAX_ADDRESS_BYTES; "" = it dials us */
};

struct gossip_job_config {
  struct digest job;
  struct digest file;      /* job file: a difference is only shown */
  struct digest schema;    /* a difference refuses the job */
  struct digest contract;  /* a difference refuses the job */
  const char *schema_text; /* canonical lines, ≤ MAX_SCHEMA_TEXT_BYTES; sent once to a peer that differs */
  const char *contract_text;
};

/* Sessions over a third: none; one's own; and those of two peers, too. */
enum gossip_relay { GOSSIP_RELAY_OFF, GOSSIP_RELAY_ASK, GOSSIP_RELAY_CARRY };

struct gossip_config {
  const struct identity *identity;
  uint8_t swarm[16];
  uint64_t boot_epoch;
  const char *const *listen; /* tcp://host:port, ipc://path */
  size_t n_listen;
  const struct gossip_peer_config *peers; /* ascending by key, without duplicates, not ourselves; borrowed for life */
  size_t n_peers;
  const struct gossip_job_config *const *jobs; /* borrowed for life, all but the array itself */
  size_t n_jobs;                               /* 0: it only asks for job files */
  uint64_t payload_max_bytes;                  /* receive memory in total */
  uint64_t payload_bound;                      /* the longest payload that any job's encoding can have */
  uint8_t beat_s;                              /* a sign of life goes to each peer so often; 0 = GOSSIP_BEAT_S */
  uint16_t version_min, version_max;           /* protocol versions that it speaks; 0 = all of this program */
  size_t max_members;           /* that it knows of, itself included; ≤ MAX_MEMBERS; 0: no membership */
  const char *name, *addresses; /* what it says of itself (crypto/statement.h); NULL: nothing */
  enum gossip_relay relay;
  uint64_t (*now_ms)(void *context);
  void *now_context;
  void *events_context;
};

/* ---- words on the wire -------------------------------------------------------------------------------------------- */

/* Position in a chain of updates; ordered by (boot_epoch, sequence); sequence 0 = nothing yet. */
struct position {
  uint64_t boot_epoch, sequence;
  struct digest chain;
};

/* One job of a HELLO. */
struct hello_job {
  uint64_t round; /* last committed */
  uint32_t sub;
  struct position newest; /* own newest publication */
  bool has_proof;         /* the newest manifest that the sender holds of the receiver (rolled-back stores) */
  uint8_t proof[MANIFEST_BYTES];
};

enum phase {
  PHASE_LOADING,
  PHASE_MEETING,
  PHASE_IDLE,
  PHASE_TRAINING,
  PHASE_PUBLISHING,
  PHASE_GATHERING,
  PHASE_MERGING,
  PHASE_COMMITTING,
  PHASE_JUMPING,
  PHASE_ALONE,
  PHASE_PAUSED,
  PHASE_HALTED,
  PHASE_FINISHED,
  N_PHASES
};

/* "training"; static. */
const char *phase_name(enum phase p);

/* What an agent wants its peers to know for a while, beside its place. */
enum notice_kind { NOTICE_NONE, NOTICE_ROLLED_BACK, N_NOTICES };

enum { NOTICE_TEXT_BYTES = 161 /* with the final NUL */ };

struct wire_notice {
  enum notice_kind kind;
  uint64_t round; /* ROLLED_BACK: it went back to the model of this round */
  uint32_t sub;
  char text[NOTICE_TEXT_BYTES]; /* why; no control characters, from outside: show it escaped */
};

/* One job of a STATE: a level, sent every 5 s (or beat, if that is longer) and at each change. */
struct wire_state {
  bool follows;    /* we follow you in this job */
  uint16_t degree; /* configured, not revoked peers of the job */
  enum phase phase;
  uint64_t round; /* last committed */
  uint32_t sub;
  uint64_t round_in_work; /* = round when nothing is in work */
  uint32_t sub_in_work;
  struct position newest;            /* own newest publication */
  uint32_t progress, progress_total; /* batches of the training in work, or 0 of 0 */
  uint32_t epoch_steps;              /* steps that one pass over its training samples takes; 0: not known yet */
  bool finished;
  struct wire_notice notice;
};

/* One job of a POOL: figures of which pooled scaling is made. Two arrays of n little-endian f64, whose values the receiver
 * judges: means and sums of squared deviations of `count` training samples or, `is_frozen`, the means and standard
 * deviations in use (count 0). */
enum { MAX_POOL_PAIRS = 3000, POOL_PAIR_BYTES = 16 };
struct wire_pool {
  bool is_frozen;
  uint64_t count;       /* ≥ 1 unless frozen */
  uint16_t n;           /* 1 … MAX_POOL_PAIRS */
  const uint8_t *bytes; /* borrowed for the call: n · POOL_PAIR_BYTES */
};

/* ---- what it tells ------------------------------------------------------------------------------------------------ */

/* `context` is config.events_context. */
struct gossip_events {
  /* A session with the peer began (is_up) or ended; reason is ERR_OK or why. Both sides have said HELLO when is_up. */
  void (*on_session)(void *context, size_t peer, bool is_up, enum err reason);

  /* The peer runs this job with equal schema and contract: its HELLO. For a job that it lacks or that differs,
   * on_refused_job tells ERR_JOB, ERR_SCHEMA or ERR_CONTRACT instead, again when the first difference is known. */
  void (*on_hello)(void *context, size_t peer, size_t job, const struct hello_job *hello);
  void (*on_refused_job)(void *context, size_t peer, size_t job, enum err reason);

  void (*on_state)(void *context, size_t peer, size_t job, const struct wire_state *state);

  /* A manifest of the peer: canonical, signed by it, origin is the peer, of this job, schema, contract and swarm, length
   * within the bound. `bytes` are its MANIFEST_BYTES. The receiver decides whether to fetch. */
  void (*on_manifest)(void *context, size_t peer, size_t job, const struct manifest *m, const uint8_t *bytes);

  /* A fetch is complete: m->length bytes in key order. The payload is moved: the callee frees it. Its root has not been
   * checked (the trainer does that once, off this thread). */
  void (*on_payload)(void *context, size_t peer, size_t job, const struct manifest *m, uint8_t *payload);

  /* A fetch ended without a payload: ERR_GONE, ERR_NO_SESSION, ERR_TIMED_OUT, ERR_BUDGET … */
  void (*on_fetch_failed)(void *context, size_t peer, size_t job, const struct manifest *m, enum err reason);

  /* ASK was answered without a manifest: ERR_NOT_YET, ERR_GONE, ERR_REFUSED …; `first` as asked. */
  void (*on_answer)(void *context, size_t peer, size_t job, uint64_t first, enum err reason);

  /* The peer says what became of our update. */
  void (*on_done)(void *context, size_t peer, size_t job, uint64_t sequence, enum err outcome);

  void (*on_pool)(void *context, size_t peer, size_t job, const struct wire_pool *pool);

  /* Whether a sketch of one of our jobs, whose signature is not checked yet, is news: the others are dropped, and cost no check. */
  bool (*wants_sketch)(void *context, size_t peer, size_t job, const struct signed_sketch *s);

  /* A sketch that is: of this swarm, job, schema and contract, signed by its origin, which may be anybody; the peer
   * tells it, or passes it on. `bytes` are its SIGNED_SKETCH_BYTES. */
  void (*on_sketch)(void *context, size_t peer, size_t job, const struct signed_sketch *s, const uint8_t *bytes);

  /* The peer wants the job file (zeros: every one that is offered): gossip_send_job_file. */
  void (*on_ask_job)(void *context, size_t peer, const struct digest *job);

  /* A job file of this swarm, signed by this agent or by one of its peers, of whatever job; f borrows from `bytes`, its
   * n canonical bytes. Whether the text is one is for the agent to judge. */
  void (*on_job_file)(void *context, size_t peer, const struct job_file *f, const uint8_t *bytes, size_t n);

  /* ---- questions that the agent answers at once ---- */

  /* Own words for a HELLO to the peer. */
  void (*fill_hello)(void *context, size_t peer, size_t job, struct hello_job *out_hello);
  void (*fill_state)(void *context, size_t peer, size_t job, struct wire_state *out_state);

  /* The i-th manifest (MANIFEST_BYTES) that answers ASK(kind, first, n): links from `first` on in sequence order, or the
   * newest full copy (kind MANIFEST_FULL). ERR_OK; ERR_NOT_YET: not published; ERR_GONE: no longer kept;
   * ERR_NOT_FOUND: no i-th answer (the answer is complete). */
  enum err (*find_manifest)(void *context, size_t peer, size_t job, enum manifest_kind kind, uint64_t first, size_t i,
                            uint8_t out_bytes[MANIFEST_BYTES]);

  /* n bytes from offset of the payload with this root into out (the outgoing frame itself). ERR_GONE, ERR_RANGE. */
  enum err (*read_payload)(void *context, size_t job, const struct digest *root, uint64_t offset, uint8_t *out,
                           size_t n);
};

/* ---- life --------------------------------------------------------------------------------------------------------- */

/* Sets up the gate with its self-test, binds every listen address, dials every peer that has one. On failure `why` names
 * the address and the cause (ERR_SYNTAX, ERR_BUSY: in use, ERR_PERMISSION, ERR_IO). The table of events and config strings are kept. */
MUST_USE enum err gossip_open(const struct gossip_config *config, const struct gossip_events *events,
                              struct gossip **out_gossip, char out_why[MAX_REASON_BYTES]);

/* Says BYE to every session, closes within 1 s. */
void gossip_close(struct gossip *g, enum err reason);

/* The one poll of the loop thread: waits at most timeout_ms (−1 = until something happens or an own timer is due) for the
 * sockets, the own timers and the descriptors lent; handles what arrived (callbacks run here); sets `ready` of each
 * descriptor. Interrupted by a signal: returns early. */
struct link_fd {
  int fd;
  bool want_write; /* wait for writability too */
  bool ready;
};

void link_poll(struct gossip *g, struct link_fd *extra, size_t n_extra, int64_t timeout_ms);

/* ---- sending: best effort, never blocks; without a session nothing is sent ------------------------------------------ */

/* Our state changed: STATE goes to every peer with a session (fill_state is asked for each). Coalesced per poll. */
void gossip_state_changed(struct gossip *g, size_t job);

/* ASK for links from `first` on (kind difference, n ≤ MAX_ASK) or the newest full copy (kind full, first 0, n 1). */
void gossip_ask(struct gossip *g, size_t peer, size_t job, enum manifest_kind kind, uint64_t first, size_t n);

/* MANIFEST, unasked, to one peer. */
void gossip_offer(struct gossip *g, size_t peer, size_t job, const uint8_t manifest[MANIFEST_BYTES]);

/* Begins to GET the payload of m from the peer: reserves m->length, ERR_BUDGET when that does not fit now (ask later),
 * ERR_BUSY when as many fetches run with this peer as may, ERR_LENGTH above the bound, ERR_NO_SESSION. */
MUST_USE enum err gossip_fetch(struct gossip *g, size_t peer, size_t job, const struct manifest *m);

/* Ends the peer's fetches of the job silently and frees what they hold. */
void gossip_fetch_cancel(struct gossip *g, size_t peer, size_t job);

/* DONE: what became of the peer's update. */
void gossip_done(struct gossip *g, size_t peer, size_t job, uint64_t sequence, enum err outcome);

/* POOL: statistics or frozen numbers of a job. Best effort, as a level: said again in each new session. */
void gossip_send_pool(struct gossip *g, size_t peer, size_t job, const struct wire_pool *pool);

/* SKETCH: the own signed sketch, or another's that is passed on; SIGNED_SKETCH_BYTES. Sketches take no more than a quarter
 * of what may wait for a peer: ERR_BACKLOG, as ERR_NO_MEMORY, is to be said again later. ERR_NO_SESSION; ERR_VERSION: it
 * knows no sketches. */
MUST_USE enum err gossip_send_sketch(struct gossip *g, size_t peer, size_t job, const uint8_t *bytes);

/* Counts a reason against a peer (shown in `peer list`): what the agent's own checks refuse. */
void gossip_count(struct gossip *g, size_t peer, enum err reason);

/* The store's epoch was raised (rolled-back store): used from the next handshake on; sessions are renewed. */
void gossip_set_boot_epoch(struct gossip *g, uint64_t boot_epoch);

/* ---- jobs that come and go ------------------------------------------------------------------------------------------ */

/* One more job from now on: peers are told by another HELLO, and those that run it say HELLO in return. It and its
 * texts are borrowed for life; payload_bound as in the config, for this job. ERR_LIMIT: MAX_JOBS_IN_HELLO since the start; ERR_EXISTS; ERR_NO_MEMORY. */
MUST_USE enum err gossip_add_job(struct gossip *g, const struct gossip_job_config *job, uint64_t payload_bound,
                                 size_t *out_index);

/* The job runs no more: peers are told. Its index stays taken, its callbacks end. */
void gossip_end_job(struct gossip *g, size_t job);

/* Whether the peer has a session and its HELLO names the job, be it one of ours or not. */
bool gossip_names_job(const struct gossip *g, size_t peer, const struct digest *job);

/* Asks for one job file, or, with zeros, for every one that the peer offers. */
void gossip_ask_job(struct gossip *g, size_t peer, const struct digest *job);

/* Sends a signed job file. ERR_BACKLOG: too much waits for the peer, later; ERR_NO_SESSION, ERR_NO_MEMORY. */
MUST_USE enum err gossip_send_job_file(struct gossip *g, size_t peer, const uint8_t *bytes, size_t n);

/* ---- showing ------------------------------------------------------------------------------------------------------ */

struct gossip_peer_info {
  bool has_session;
  enum err reason;                 /* ERR_OK with a session of equal job, else why not */
  char sentence[MAX_REASON_BYTES]; /* what a person reads: first difference, remedy; "" when alive */
  uint64_t since_ms;               /* now − since = time in this state */
  uint64_t last_heard_ms;          /* 0 = never */
  uint64_t boot_epoch;
  double rtt_ms;                       /* < 0 = unknown */
  uint64_t sent_bytes, received_bytes; /* frames, after encryption */
  uint64_t drops[N_DROPS];
  bool we_dialled;
  size_t via;             /* the peer over which the session goes; SIZE_MAX: none, or there is no session */
  uint64_t relayed_bytes; /* that we carried for it: what it sent to others over us, and they to it */
};

void gossip_peer_info(const struct gossip *g, size_t peer, struct gossip_peer_info *out_info);

/* The next peer without a session of which the agent does not know why, and why; false: it knows all. on_session says only
 * that a session began or ended. */
bool gossip_reason_take(struct gossip *g, size_t *out_peer, enum err *out_reason);

/* Strangers: connections and handshakes that belong to no configured key, by address (the most recent ones). */
struct gossip_stranger {
  char address[MAX_ADDRESS_BYTES];
  uint64_t n_unknown_key, n_handshake, n_gate;
  uint64_t last_ms;
};

size_t gossip_strangers(const struct gossip *g, struct gossip_stranger *out_rows, size_t capacity);

/* What was refused from connections without a session of the sender, by reason, all addresses together. With the drops of
 * the peers, everything that was refused is counted once. */
void gossip_stranger_drops(const struct gossip *g, uint64_t out_drops[N_DROPS]);

/* Who belongs to the swarm (members.h): oneself, the peers, and whom they told of, ascending by key. Being listed admits
 * nobody: sessions are for peers alone. */
enum member_state {
  MEMBER_ABSENT, /* configured, and nothing was heard of it since the start */
  MEMBER_ALIVE,
  MEMBER_SUSPECT,
  MEMBER_DEAD,
  MEMBER_LEFT, /* by its own word */
  N_MEMBER_STATES
};

/* "suspect"; static. */
const char *member_state_name(enum member_state s);

struct gossip_member {
  struct identity_key key;
  bool is_self, is_peer;
  enum member_state state;
  uint64_t since_ms;                 /* of the state */
  uint64_t boot_epoch;               /* 0: it has not said anything yet */
  uint32_t refutation;               /* how often it was wrongly accused since it started */
  char name[MAX_NAME_BYTES];         /* what it calls itself; "" */
  char addresses[MAX_ADDRESS_BYTES]; /* where it says that it listens, one space between two; "" */
};

size_t gossip_n_members(const struct gossip *g);
void gossip_member(const struct gossip *g, size_t i, struct gossip_member *out_member);

/* False: the key is not among them. */
bool gossip_find_member(const struct gossip *g, const struct identity_key *key, struct gossip_member *out_member);

/* How many are in each state. */
void gossip_count_members(const struct gossip *g, size_t out_counts[N_MEMBER_STATES]);

/* All bytes of frames since open. */
uint64_t gossip_sent_bytes(const struct gossip *g);
uint64_t gossip_received_bytes(const struct gossip *g);

/* Of those sent, what others said to each other over us. */
uint64_t gossip_relayed_bytes(const struct gossip *g);

/* Words about the link for the log, rate-limited by (peer, reason): the agent prints them. */
struct gossip_note {
  size_t peer; /* SIZE_MAX: a stranger */
  enum err reason;
  char text[MAX_REASON_BYTES];
};

/* Takes the oldest waiting note; false when none waits. */
bool gossip_note_take(struct gossip *g, struct gossip_note *out_note);

#endif
