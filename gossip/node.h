/* Inside of gossip: the peers, their sessions and timers, without a socket. What a link (link.h) brings and what the
 * clock says goes in, frames and callbacks come out; gossip.h is implemented on top. Room-internal, but for the simulator
 * (agent/sim), which makes nodes over links of its own.
 *
 *   dial.c      dialling and redialling, reasons why there is no session
 *   sessions.c  handshakes, which session is the peer's, rekeying, the end
 *   receive.c   a table of messages and what each does
 *   membership.c  who is there: ties members.h and probe.h to sessions and messages
 *   relay.c     sessions that go over a third, and those of others that go over us
 *   send.c      what waits for a peer and when it leaves
 *   node.c      timers, the poll, the functions of gossip.h */
#ifndef GOSSIP_NODE_H
#define GOSSIP_NODE_H

#include "base/due.h"
#include "base/rng.h"
#include "gossip/allowance.h"
#include "gossip/fetch.h"
#include "gossip/gate.h"
#include "gossip/handshake.h"
#include "gossip/link.h"
#include "gossip/notes.h"
#include "gossip/outbox.h"
#include "gossip/probe.h"
#include "gossip/seals.h"
#include "gossip/serve.h"
#include "gossip/strangers.h"

enum {
  DIAL_PATIENCE_MS = 5000, /* from a dial, and from a connection, to a session */
  DIAL_BACK_OFF_MIN_MS = 200,
  DIAL_BRISK_MS = 60 * 1000, /* a peer that was lost so recently is dialled about every second: */
  DIAL_BRISK_BACK_OFF_MAX_MS = 400,
  DIAL_BRISK_PATIENCE_MS = 1000, /* or, if that is longer, so many round trips */
  DIAL_BRISK_ROUND_TRIPS = 8,
  DIAL_BACK_OFF_MAX_MS = 30 * 1000,
  NO_ANSWER_MS = 3000, /* connected and no session: said in words */
  HANDSHAKE_RETRY_MS = 1000,
  PREVIOUS_KEEP_MS = 10 * 1000, /* the session before, for frames in flight */
  CLONE_AFTER_MS = 1000,        /* later than that nothing is in flight */
  MAX_BEATS_MISSED = 4,
  SILENCE_MS = 15 * 1000, /* before the first beat */
  AWAY_MS = 500,          /* a timer so late means that this process stood still and has not read what has come … */
  AWAY_GRACE_MS = 1000,   /* … which it does first */
  STATE_EVERY_MS = 5000,
  FLOOD_BAN_MS = 60 * 1000, /* no session for a peer that floods (allowance.h) */
  SETTLED_MS = 5000,        /* a session that lasted so long ends the back-off */
  FLUSH_MIN_MS = 1,         /* a full connection is tried again, less and less often */
  FLUSH_MAX_MS = 16,
  PENDING_KEEP_MS = DIAL_PATIENCE_MS, /* an answered handshake whose initiator does not prove its key */
  MAX_BAD_SEALS = 3,
  MAX_CHUNKS_AT_ONCE = 16,                     /* to one peer, before the next has its turn */
  MAX_HELLOS = 64,                             /* each way in a session: the list of jobs changes by people's hands */
  SYNC_BEATS = 30,                             /* so often tables of members are compared, with one peer */
  COMPARE_BEATS = 10,                          /* a comparison in which nothing comes for so long is over, … */
  COMPARE_MAX_BEATS = 60,                      /* … or may be, if others wait */
  LONG_LIST = 128,                             /* rows: such lists are sent in one comparison at a time */
  MAX_SYNC_PAGES = 2 * MAX_MEMBERS / MAX_NEWS, /* what one comparison may bring about */
};

enum timer {
  TIMER_DIAL,
  TIMER_DIAL_PATIENCE,
  TIMER_NO_ANSWER,
  TIMER_HANDSHAKE,
  TIMER_GREETING, /* HELLO is overdue */
  TIMER_REKEY,
  TIMER_EXPIRE,
  TIMER_PREVIOUS,
  TIMER_PENDING,
  TIMER_SILENCE,
  TIMER_BEAT,
  TIMER_STATE,
  TIMER_FETCH,
  TIMER_FLUSH,
  TIMER_PROBE,
  N_TIMERS
};

#define TIMER_OFF DUE_NEVER

enum slot_name { SLOT_LIVE, SLOT_PREVIOUS, SLOT_PENDING, SLOT_PENDING_2, SLOT_PENDING_3, N_SLOTS };

/* A session and the connection that it belongs to: a frame that comes by another one is not of it. */
struct slot {
  struct session *session;
  uint64_t conn;
  uint64_t boot_epoch;
  uint64_t begun_ms;
  uint16_t version; /* of the protocol */
  unsigned n_bad_seals;
};

/* A session that is over: what still comes under its index is told from what never had a session. */
struct retired {
  uint32_t index; /* 0: none */
  uint64_t conn;
};

enum { MAX_RETIRED = 4 };

/* Of struct gossip_peer_info, what is not reckoned when it is asked for. */
struct peer_info {
  bool has_session;
  enum err reason;
  char *sentence; /* own; NULL: "" */
  uint64_t since_ms, last_heard_ms, boot_epoch;
  uint64_t sent_bytes, received_bytes;
  uint64_t *drops; /* [N_DROPS]; NULL: none yet */
};

/* One of our jobs and a peer. */
struct job_with {
  enum err reason;          /* of the live session; ERR_OK: equal */
  bool is_difference_known; /* the first one */
  bool is_named;            /* by its last HELLO */
  bool is_state_due;
};

struct node_job {
  const struct gossip_job_config *config;
  bool is_ended;         /* a job that runs no more keeps its index */
  struct job_with *with; /* [n_peers] */
};

/* What membership keeps of a peer. */
struct companion {
  struct probe probe;
  uint64_t told;         /* the newest change of the table of members that it was told */
  unsigned n_sync_pages; /* that one comparison may still bring about */
  struct digest listed;  /* what it listed last in it; zeros: nothing */
  bool is_compare_due;   /* another comparison is under way */
};

/* What a node with membership keeps beside the table of members. */
struct company {
  struct probe_self probing;
  uint64_t due_ms, sync_ms;                    /* due: of the next tick that does something */
  size_t comparing;                            /* with this peer … */
  uint64_t compare_begun_ms, compare_until_ms; /* … which is over then; 0: with nobody */
  struct companion of[];                       /* [n_peers] */
};

struct peer {
  const struct gossip_peer_config *config;
  uint8_t x25519[X25519_BYTES];
  struct peer_info info; /* has_session: both have said HELLO */

  bool is_news;      /* why it has no session: the agent has not taken it yet */
  bool is_greeted;   /* the live session's HELLO has come */
  bool is_connected; /* the connection that we dialled stands */
  bool is_beat_due;
  bool relays_first; /* when there is room: in turns what is carried to it and our chunks */
  uint8_t beat_s;    /* as the peer announced it in this session; 0: not yet */
  uint8_t flush_wait_ms;
  uint8_t n_hellos, n_own_hellos; /* of the live session */
  uint32_t noise_index;
  uint16_t noise_via; /* 1 + the peer over which it goes; 0: over the connection that we dialled */

  struct slot *slots[N_SLOTS]; /* NULL: empty */
  struct retired *retired;     /* [MAX_RETIRED]; NULL: none yet, or no memory */
  size_t n_retired;            /* in all; the newest ones are kept */
  uint64_t live_ms;            /* since when there is a live session without a gap */
  uint64_t down_ms;            /* since when there was no settled session: the measure of the back-off */
  unsigned n_dials;            /* since then */
  unsigned n_strange;          /* frames that came by the dialled connection without a session */
  char *dialled;               /* own: the address of the last dial, if it was another than the configured one */
  struct noise *noise;         /* our handshake in flight */
  uint64_t noise_ms;

  struct digest *other_jobs; /* that its last HELLO named and that are none of ours … */
  size_t n_other_jobs;       /* … as long as the session is up */

  struct allowance allowance;
  uint64_t banned_until_ms; /* 0: it is not */
  struct outbox outbox;
  struct serves serves;
  struct fetches fetches;

  uint64_t timers[N_TIMERS]; /* when; TIMER_OFF. Changed by timer_put only */
};

struct gossip {
  struct gossip_config config; /* peers: NULL, they are in the table below */
  const struct seals *seals;
  struct node_self self;
  struct node_job *jobs; /* [config.n_jobs] */
  size_t job_capacity;
  const struct gossip_events *events; /* borrowed */
  struct link link;
  struct peer *peers; /* ascending by key */
  size_t n_peers;
  struct due due;    /* of each peer: its earliest timer */
  struct due unsent; /* of each peer: 0, when something of it may have to be sent */
  size_t n_news;     /* peers whose reason is news */
  uint64_t late_ms;  /* by how much the timer that is being handled was missed */
  struct fetch_budget budget;
  struct strangers strangers;
  struct notes notes;
  struct rng rng;          /* jitter */
  struct members *members; /* NULL: there is no membership … */
  struct company *company; /* … nor this */
  struct relay *relay;     /* NULL: none was needed yet */
  uint64_t relay_due_ms;
  uint64_t sent_bytes, received_bytes;
  uint8_t *scratch; /* [MAX_CONTROL_BYTES] */
  bool is_scratch_lent;
  bool is_closing;
};

/* ---- node.c --------------------------------------------------------------------------------------------------------- */

/* A node without a link: the caller sets `link` before the first poll. ERR_LIMIT (peers, jobs), ERR_NO_MEMORY, and what
 * identity_key_x25519 says of a peer's key. */
MUST_USE enum err node_new(const struct gossip_config *config, const struct gossip_events *events,
                           struct gossip **out_node, char out_why[MAX_REASON_BYTES]);

/* The same with what else the caller has, for nodes that are not opened by gossip_open: ciphers, or none, and memory that the
 * nodes of one thread share. */
struct node_means {
  const struct seals *seals;
  struct node_self self;
  uint8_t *scratch; /* [MAX_CONTROL_BYTES], lent; NULL: one of its own */
};
MUST_USE enum err node_new_with(const struct node_means *means, const struct gossip_config *config,
                                const struct gossip_events *events, struct gossip **out_node,
                                char out_why[MAX_REASON_BYTES]);
void node_free(struct gossip *g);

/* What a link tells is given to this. */
struct link_sink node_sink(struct gossip *g);

/* Whether its live session goes over the connection. */
static inline bool peer_is_live_on(const struct peer *p, uint64_t conn) {
  return p->slots[SLOT_LIVE] && p->slots[SLOT_LIVE]->conn == conn;
}

static inline uint64_t node_now(const struct gossip *g) {
  return g->config.now_ms(g->config.now_context);
}

static inline bool peer_is_banned(const struct gossip *g, const struct peer *p) {
  return node_now(g) < p->banned_until_ms;
}

static inline size_t peer_index(const struct gossip *g, const struct peer *p) {
  return (size_t)(p - g->peers);
}

static inline struct companion *companion_of(const struct gossip *g, const struct peer *p) {
  return &g->company->of[peer_index(g, p)];
}

static inline struct job_with *job_with(const struct gossip *g, const struct peer *p, size_t job) {
  return &g->jobs[job].with[peer_index(g, p)];
}

/* Own index of a job that runs, or SIZE_MAX. */
size_t job_find(const struct gossip *g, const struct digest *job);

void timer_put(struct gossip *g, struct peer *p, enum timer t, uint64_t at_ms);
void timer_set(struct gossip *g, struct peer *p, enum timer t, uint64_t in_ms);
void timer_clear(struct gossip *g, struct peer *p, enum timer t);

/* Something may have to be sent to the peer: the next tick looks. */
void peer_stir(struct gossip *g, struct peer *p);

/* The earliest timer of all peers and of the table of members. */
uint64_t node_due_ms(const struct gossip *g);

void peer_count(struct peer *p, enum err reason);

/* A frame, whoever brought it. */
void node_take_frame(struct gossip *g, uint64_t conn, const char *address, uint8_t *frame, size_t n);

/* The peer with this key; NULL: none. */
struct peer *peer_find(const struct gossip *g, const struct identity_key *key);

/* Whose live session uses the connection; NULL: nobody's. `index`: the session that a frame by it names. */
struct peer *peer_of_conn(struct gossip *g, uint64_t conn, uint32_t index);

/* Counts against the peer whose live session uses the connection, else against the address. */
void frame_blame(struct gossip *g, uint64_t conn, const char *address, enum err reason);

/* Why it has no session is news for the agent. */
void peer_tell(struct gossip *g, struct peer *p);

/* Why there is no session, or of what kind it is: counted where the reason is a new one; explain also notes it for the log. */
void peer_set_reason(struct gossip *g, struct peer *p, enum err reason, const char *sentence);
void peer_explain(struct gossip *g, struct peer *p, enum err reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Ends the peer's session and connection with a BYE; the supervisor may dial again. */
void peer_kick(struct gossip *g, struct peer *p, enum err reason);

/* ---- dial.c ---------------------------------------------------------------------------------------------------------- */

static inline bool peer_is_dialled(const struct peer *p) {
  return p->config->address[0] != '\0';
}

/* An eighth of the time since then, within the bounds, ± 50 %. */
uint64_t peer_back_off_ms(struct gossip *g, uint64_t since_ms, uint64_t min_ms, uint64_t max_ms);

void dial_now(struct gossip *g, struct peer *p);           /* TIMER_DIAL */
void dial_give_up(struct gossip *g, struct peer *p);       /* TIMER_DIAL_PATIENCE */
void dial_say_no_answer(struct gossip *g, struct peer *p); /* TIMER_NO_ANSWER */

/* Ends the dialled connection, if any, and plans the next one when nothing else stands. */
void dial_stop(struct gossip *g, struct peer *p);
void dial_later(struct gossip *g, struct peer *p);
/* The same, unless dialling goes on already. */
void dial_resume(struct gossip *g, struct peer *p);

void dial_on_event(struct gossip *g, struct peer *p, enum dial_event event);

/* A frame has come by the dialled connection, which has no session; false: one too many, the connection is ended. */
bool dial_take_frame(struct gossip *g, struct peer *p);

/* ---- sessions.c ------------------------------------------------------------------------------------------------------ */

/* The sessions are freed and nobody is told. */
void slots_free(const struct gossip *g, struct peer *p);

/* Sends handshake message 1; again when due. */
void handshake_over(struct gossip *g, struct peer *p, uint64_t conn);
void handshake_repeat(struct gossip *g, struct peer *p); /* TIMER_HANDSHAKE: the same way */
void handshake_rekey(struct gossip *g, struct peer *p);  /* TIMER_REKEY: the way of the live session */
void handshake_forget(struct gossip *g, struct peer *p);

void session_on_handshake_1(struct gossip *g, uint64_t conn, const char *address, const struct frame_head *head,
                            const uint8_t *frame, size_t n);
void session_on_handshake_2(struct gossip *g, uint64_t conn, const char *address, const struct frame_head *head,
                            const uint8_t *frame, size_t n);

/* Opens a frame in place; the peer, when it is the live session's or one that has just become it, else NULL. */
struct peer *session_open(struct gossip *g, uint64_t conn, const char *address, const struct frame_head *head,
                          uint8_t *frame);

/* HELLO has come: the session counts from now on. */
void session_greeted(struct gossip *g, struct peer *p);

/* Ends the live session and its connection, tells the agent, plans a redial. `reason` is for the agent; what people see
 * was explained before. */
void session_end(struct gossip *g, struct peer *p, enum err reason);

/* The connection is gone: whatever used it ends. */
void session_lose_conn(struct gossip *g, struct peer *p, uint64_t conn);

void session_expire(struct gossip *g, struct peer *p);          /* TIMER_EXPIRE */
void session_forget_previous(struct gossip *g, struct peer *p); /* TIMER_PREVIOUS */
void session_forget_pending(struct gossip *g, struct peer *p);  /* TIMER_PENDING */
void session_silent(struct gossip *g, struct peer *p);          /* TIMER_SILENCE */

/* Frames go and come at the pace of the slower side. */
static inline uint64_t session_beat_ms(const struct gossip *g, const struct peer *p) {
  return 1000 * (uint64_t)(p->beat_s > g->config.beat_s ? p->beat_s : g->config.beat_s);
}
void session_ungreeted(struct gossip *g, struct peer *p); /* TIMER_GREETING */

/* Arms a new handshake when the keys have worked enough. */
void session_check_rekey(struct gossip *g, struct peer *p);

/* ---- send.c ---------------------------------------------------------------------------------------------------------- */

/* Waits for the peer; does nothing without a live session. */
void send_message(struct gossip *g, struct peer *p, const struct message *m);
/* For what can be said again: it counts nothing. ERR_NO_SESSION, ERR_BACKLOG, ERR_NO_MEMORY. */
MUST_USE enum err send_message_or_not(struct gossip *g, struct peer *p, const struct message *m);
void send_hello(struct gossip *g, struct peer *p);

/* The list of jobs has changed. A peer that was told MAX_HELLOS times gets a new session. */
void send_hello_again(struct gossip *g, struct peer *p);
void send_schema(struct gossip *g, struct peer *p, size_t job);

/* BEAT is due. */
void send_beat(struct gossip *g, struct peer *p); /* TIMER_BEAT */

/* STATE of every job is due. */
void send_states(struct gossip *g, struct peer *p); /* TIMER_STATE */

/* Sends what waits, as far as the connection takes it. */
void send_flush(struct gossip *g, struct peer *p); /* TIMER_FLUSH */

/* Nothing waits any more. */
void send_forget(struct gossip *g, struct peer *p);

/* Seals `frame`, begun by link.frame_new, under the peer's live session and sends it. */
MUST_USE enum err send_frame(struct gossip *g, struct peer *p, uint8_t type, uint8_t *frame, size_t n_plain);

/* Sends a handshake frame. */
void send_handshake(struct gossip *g, struct peer *p, uint64_t conn, const uint8_t *frame, size_t n);

/* ---- membership.c ----------------------------------------------------------------------------------------------------- */

MUST_USE enum err membership_init(struct gossip *g);
void membership_done(struct gossip *g);

static inline bool membership_is_on(const struct gossip *g) {
  return g->members != NULL;
}

/* A session with both HELLOs began; one has ended. */
void membership_up(struct gossip *g, struct peer *p);
void membership_down(struct gossip *g, struct peer *p);

/* A frame of the peer has opened. */
void membership_heard(struct gossip *g, struct peer *p);

void membership_probe(struct gossip *g, struct peer *p); /* TIMER_PROBE */

/* Suspicions, refutations, comparisons of tables; the next one is due at company.due_ms. */
void membership_tick(struct gossip *g);

/* The own epoch was raised. */
void membership_restart(struct gossip *g);

/* Says farewell: the statement leaves with the next flush. */
void membership_leave(struct gossip *g);

/* The next NEWS for the peer; false: there is none. *out_told is its `told` once it was sent. */
bool membership_news(struct gossip *g, const struct peer *p, struct message *out_message, uint64_t *out_told);

/* Where the peer says that it is, if not where the configuration says; k-th, round and round. */
bool membership_address(const struct gossip *g, const struct peer *p, size_t k, char out_address[MAX_ADDRESS_BYTES]);

void membership_on_news(struct gossip *g, struct peer *p, const struct message *m);
void membership_on_sync(struct gossip *g, struct peer *p, const struct message *m);
void membership_on_list(struct gossip *g, struct peer *p, const struct message *m);
void membership_on_seek(struct gossip *g, struct peer *p, const struct message *m);
void membership_on_found(struct gossip *g, struct peer *p, const struct message *m);

/* ---- relay.c ---------------------------------------------------------------------------------------------------------
 *
 * Two peers that cannot reach each other, and a third that has a session with both. The session of the two goes through
 * it as it stands, handshake and sealed frames as RELAY messages, so that the third sees only ciphertext and everything that
 * is said in a session is the same. For the two it is a connection like others, named after the third and the peer; for
 * the third it is a queue (relay_queue.h).
 *
 *   - The lower key begins it, when no session stands and the direct way has had its chance; then it asks its neighbours in
 *     turn, and less and less often. Dialling goes on, and a direct session wins over a relayed one.
 *   - One hop: what was carried goes no further, and what comes over a relayed connection carries nothing.
 *   - What does not authenticate on such a connection counts against who carried it, and ends no more than the session. */

enum {
  RELAY_AFTER_DIALS_MS = 5000, /* without a session, a peer that is dialled here … */
  RELAY_AFTER_MS = 1000,       /* … and one that is not */
  RELAY_PATIENCE_MS = DIAL_PATIENCE_MS,
  RELAY_BACK_OFF_MIN_MS = 1000,
  RELAY_BACK_OFF_MAX_MS = 60 * 1000,
  MAX_RELAYS_ASKED = 4, /* at once, when each refuses at once */
};

static inline uint64_t conn_relayed(size_t via, size_t peer) {
  return CONN_RELAYED | (uint64_t)via << 8 | (uint64_t)peer;
}

/* Whose connection it is, of one that we dialled or that is relayed. */
static inline size_t conn_peer(uint64_t conn) {
  return (size_t)(conn & 0xff);
}

/* The index of who carries it. */
static inline size_t conn_via(uint64_t conn) {
  return (size_t)(conn >> 8 & 0xff);
}

/* Who is counted for what does not authenticate: the peer, or who carried it. */
static inline struct peer *conn_blamed(struct gossip *g, struct peer *p, uint64_t conn) {
  return conn_is_relayed(conn) ? &g->peers[conn_via(conn)] : p;
}

/* As the functions of a link: a relayed connection's frame stands in one for who carries it. */
MUST_USE enum err conn_frame_new(struct gossip *g, uint64_t conn, size_t n, uint8_t **out_frame);
MUST_USE enum err conn_frame_send(struct gossip *g, uint64_t conn);
void conn_frame_drop(struct gossip *g);

/* Bytes on the wire of a frame of n bytes. */
size_t conn_frame_bytes(uint64_t conn, size_t n);

/* Whether a handshake may be begun with us over it. */
bool relay_may_answer(const struct gossip *g, uint64_t conn);

/* The relayed connection that we try or have with the peer; CONN_NONE. */
uint64_t relay_conn(const struct gossip *g, const struct peer *p);

/* It is over: another way is tried, soon when it had worked. */
void relay_close(struct gossip *g, struct peer *p, uint64_t conn);

/* No relay is tried any more: there is a direct session. */
void relay_stop(struct gossip *g, struct peer *p);

/* The peer has a session with both HELLOs: it may be a way to others, and is the next one to be asked where it has not just failed. */
void relay_on_up(struct gossip *g, const struct peer *p);

/* The peer's session, which went over conn, is over. */
void relay_on_down(struct gossip *g, struct peer *p, uint64_t conn);

/* Tries what is due at relay_due_ms; 0: who is to be tried has changed. */
void relay_tick(struct gossip *g);

/* A frame of this type and size from the peer's session; false: it is one too many to be carried. */
bool relay_pays(struct gossip *g, struct peer *p, size_t n_frame);

void relay_on_relay(struct gossip *g, struct peer *p, const struct message *m);
void relay_on_not_relayed(struct gossip *g, struct peer *p, const struct message *m);

/* Sends to the peer what others sent to it over us, as far as the connection takes it. */
MUST_USE enum err relay_flush(struct gossip *g, struct peer *p);

/* Own payloads come first: what is carried gives up as much memory as n bytes of one lack. */
void relay_yield(struct gossip *g, uint64_t n);

/* What is carried for the peer. */
uint64_t relay_carried_bytes(const struct gossip *g, const struct peer *p);
void relay_done(struct gossip *g);

/* ---- receive.c ------------------------------------------------------------------------------------------------------- */

void receive_message(struct gossip *g, struct peer *p, uint8_t type, const uint8_t *plain, size_t n);

/* Every fetch of the peer has failed; what came is kept for a later one. */
void receive_fail_fetches(struct gossip *g, struct peer *p, enum err reason);
void receive_fetch_tick(struct gossip *g, struct peer *p); /* TIMER_FETCH */

#endif
