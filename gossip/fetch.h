/* Fetching payloads from one peer: what to GET next, what has arrived, what has failed.
 *
 * GET is the only credit: at most a window of bytes is asked for at any time, 256 KiB at first, doubled while a GET is
 * answered within 250 ms, at most 2 MiB, halved when its answer takes more than 1 s, at least a chunk, so that on a slow
 * link nothing waits long behind chunks. A GET is repeated when nothing has come for max(2 s, 4 times what an answer
 * takes, its wait in the sender's queue included), each time twice as long. Below 16 KiB/s for 10 s the running fetch is
 * parked: it has failed, but keeps its bytes, and goes on where it stood when the same payload is fetched again.
 *
 * Payloads are received in the order in which they were asked for. Memory is reserved in the budget before the first
 * GET. Pure, time is an argument; the loop thread. */
#ifndef GOSSIP_FETCH_H
#define GOSSIP_FETCH_H

#include "gossip/message.h"

enum {
  MAX_FETCHES = KEEP_PAYLOADS + 1, /* all links that a peer keeps and a full copy */
  MAX_WINDOW_CHUNKS = MAX_FETCH_WINDOW_BYTES / CHUNK_BYTES,
  FETCH_PROMPT_MS = 250,
  FETCH_SLOW_MS = 1000,
  FETCH_FIRST_ANSWER_MS = 1000, /* until one was measured: a chunk at 16 KiB/s takes 4 s */
  FETCH_REPEAT_MS = 2000,
  FETCH_RATE_MS = 10 * 1000,
  FETCH_RATE_BYTES = FETCH_RATE_MS / 1000 * 16 * 1024,
};

/* Receive memory of all peers together. */
struct fetch_budget {
  uint64_t limit, used; /* bytes */
  uint64_t held_bytes; /* of each payload, from its beginning; 0: all. Others are for nodes whose agent reads no more */
};

enum fetch_step { FETCH_FREE, FETCH_RUNNING, FETCH_PARKED };

struct fetch {
  enum fetch_step step;
  size_t job;
  struct manifest manifest;
  uint8_t *payload; /* manifest.n_payload bytes, or what is held of them */
  uint8_t *have;    /* a bit a chunk */
  uint32_t n_chunks, n_have;
  uint64_t turn; /* lower is served first */
};

/* One chunk that was asked for. */
struct fetch_request {
  struct fetch *fetch;
  uint32_t index;
  bool is_last;  /* of its GET */
  bool is_again; /* a repetition: the answer may be that to the first, and tells no time */
  uint64_t sent_ms;
};

/* What is fetched or parked, and what was asked for: there only while something is. */
struct fetch_table {
  struct fetch slots[MAX_FETCHES];
  size_t n_used; /* slots that are not free */
  struct fetch_request requests[MAX_WINDOW_CHUNKS];
  size_t n_requests;
  uint64_t next_turn;
  uint64_t progress_ms;         /* of the last chunk, or of the first GET */
  unsigned n_repeats;           /* since then */
  uint64_t rate_ms, rate_bytes; /* beginning of the 10 s in work and what came in them */
};

/* What is known of the way to a peer, and what is fetched by it now. */
struct fetches {
  struct fetch_budget *budget;
  struct fetch_table *table; /* NULL: nothing */
  double rtt_ms;             /* smoothed; < 0: unknown */
  double answer_ms;          /* from a GET to a chunk of it: the longest of late, which fades */
  size_t window;             /* chunks */
};

void fetches_init(struct fetches *f, struct fetch_budget *budget);
void fetches_done(struct fetches *f);

/* Starts or resumes. ERR_BUSY: it runs already, or too many do; ERR_BUDGET; ERR_NO_MEMORY. n_payload was checked. */
MUST_USE enum err fetch_start(struct fetches *f, size_t job, const struct manifest *m, uint64_t now_ms);

/* The next GET that the window allows, false when there is none. Nothing changes before `fetch_asked` says that it was
 * sent. */
bool fetch_next(struct fetches *f, struct message_get *out_get, struct fetch **out_fetch);
void fetch_asked(struct fetches *f, struct fetch *fetch, const struct message_get *get, uint64_t now_ms);

/* A chunk. ERR_REPLAY: it is of nothing that is fetched, or here already; ERR_MESSAGE: its length or index is wrong. `*out_complete`:
 * the fetch whose last chunk it was, else NULL. */
MUST_USE enum err fetch_chunk(struct fetches *f, const struct message_chunk *chunk, uint64_t now_ms,
                              struct fetch **out_complete);

/* Hands the payload of a complete fetch over and frees its place. */
uint8_t *fetch_take(struct fetches *f, struct fetch *fetch);

/* Ends a fetch: keeps what came for a later one, or frees it. */
void fetch_park(struct fetches *f, struct fetch *fetch);
void fetch_drop(struct fetches *f, struct fetch *fetch);

/* Drops every fetch of a job. */
void fetches_cancel(struct fetches *f, size_t job);

/* The running fetch of this root, or the one that is received now (root NULL); NULL when there is none. */
struct fetch *fetch_running(struct fetches *f, const struct digest *root);

/* Frees what is parked: the memory is wanted. */
void fetches_drop_parked(struct fetches *f);

/* Forgets what was asked for, so that it is asked again: the connection changed. */
void fetches_renew(struct fetches *f);

/* Repeats what is due; the fetch that is too slow, or NULL. */
struct fetch *fetches_tick(struct fetches *f, uint64_t now_ms);

/* When the next tick is due; UINT64_MAX: never. */
uint64_t fetches_due_ms(const struct fetches *f);

/* A round trip was measured. */
void fetches_add_rtt(struct fetches *f, uint64_t rtt_ms);

#endif
