/* The messages: structures to plaintext bytes and back, and the two payloads of the handshake. PROTOCOL.md is the same
 * in words.
 *
 * One structure has one encoding: what was read, written again, gives the same bytes (a reason of a newer version
 * excepted, which is read as ERR_REFUSED). Everything read is within the bounds stated here; nothing is allocated.
 * Pure; any thread. */
#ifndef GOSSIP_MESSAGE_H
#define GOSSIP_MESSAGE_H

#include "base/bytes.h"
#include "crypto/job_file.h"
#include "gossip/members.h"

/* The type in a frame's head. */
enum message_type {
  MESSAGE_HANDSHAKE_1 = 1,
  MESSAGE_HANDSHAKE_2 = 2,
  MESSAGE_HELLO = 16,
  MESSAGE_STATE,
  MESSAGE_ASK,
  MESSAGE_MANIFEST,
  MESSAGE_NOT_YET,
  MESSAGE_REFUSED,
  MESSAGE_GET,
  MESSAGE_CHUNK,
  MESSAGE_SCHEMA,
  MESSAGE_DONE,
  MESSAGE_BYE,
  MESSAGE_BEAT,
  MESSAGE_ASK_JOB,
  MESSAGE_JOB_FILE,
  MESSAGE_POOL,
  MESSAGE_NEWS, /* this and the next: since version 2 */
  MESSAGE_SYNC,
  MESSAGE_LIST,
  MESSAGE_SEEK,
  MESSAGE_FOUND,
  MESSAGE_RELAY, /* this and the next: since version 3 */
  MESSAGE_NOT_RELAYED,
  MESSAGE_SKETCH, /* since version 4 */
  MESSAGE_END,    /* one past the last */
};

enum {
  ROOT_PREFIX_BYTES = 16,
  MAX_SIBLINGS = 16,
  MAX_BEAT_S = 60,
  CHUNK_HEAD_BYTES = ROOT_PREFIX_BYTES + 4 + 1,
  MAX_CONTROL_BYTES = JOB_FILE_MAX_BYTES, /* every message but CHUNK and RELAY */
  MEMBERS_VERSION = 2,                    /* of the protocol: it knows NEWS to FOUND */
  RELAY_VERSION = 3,                      /* … RELAY and NOT-RELAYED */
  SKETCH_VERSION = 4,                     /* … SKETCH */
  RELAY_HEAD_BYTES = 32 + 1,
  MAX_RELAYED_BYTES = MAX_FRAME_PLAIN_BYTES - RELAY_HEAD_BYTES, /* of a frame inside */
  OFFER_BYTES = 32,
  ANSWER_BYTES = 35,
};

/* The version of the protocol that a type of message came with. */
static inline uint16_t message_version(uint8_t type) {
  static const struct {
    uint8_t first;
    uint16_t version;
  } since[] = {{MESSAGE_SKETCH, SKETCH_VERSION}, {MESSAGE_RELAY, RELAY_VERSION}, {MESSAGE_NEWS, MEMBERS_VERSION}};
  for (size_t i = 0; i < sizeof since / sizeof *since; i++)
    if (type >= since[i].first)
      return since[i].version;
  return 1;
}

/* Payload of handshake message 1. */
struct offer {
  uint16_t version_min, version_max;
  uint8_t swarm[16];
  uint32_t session_index; /* chosen by the sender, who receives under it; never 0 */
  uint64_t boot_epoch;
};

/* Payload of handshake message 2. */
struct answer {
  enum err verdict; /* ERR_OK: a session stands; ERR_VERSION or ERR_SWARM: none, session_index is 0 */
  uint16_t version; /* chosen; 0 without a session */
  struct offer own; /* the responder's */
};

struct message_hello {
  size_t n_jobs;
  struct hello_entry {
    struct digest job, file, schema, contract;
    struct hello_job words;
  } jobs[MAX_JOBS_IN_HELLO]; /* no job twice */
};

struct message_state {
  struct digest job;
  struct wire_state words;
};

struct message_ask {
  struct digest job;
  enum manifest_kind kind; /* difference or full */
  uint64_t first;          /* full: 0 */
  uint8_t n;               /* 1 … MAX_ASK; full: 1 */
};

struct message_not_yet {
  struct digest job;
  enum manifest_kind kind;
  uint64_t first;
};

/* Answers an ASK (by kind and first) or a GET (by root); what is not used is zero. */
struct message_refused {
  struct digest job;
  bool is_get;
  enum err reason;
  enum manifest_kind kind;
  uint64_t first;
  struct digest root;
};

struct message_get {
  struct digest job, root;
  uint64_t n_payload;    /* bytes of the whole payload, as the manifest says: it decides the last chunk's length */
  uint32_t first, count; /* chunks, within the payload */
};

struct message_chunk {
  uint8_t root_prefix[ROOT_PREFIX_BYTES];
  uint32_t index;
  uint8_t n_siblings;
  const uint8_t *siblings; /* n_siblings digests */
  const uint8_t *data;
  size_t n_data; /* 1 … CHUNK_BYTES */
};

/* Texts are printable (no control byte but the newline) and not NUL-terminated. */
struct message_schema {
  struct digest job;
  const char *schema, *contract;
  uint16_t n_schema, n_contract; /* ≤ MAX_SCHEMA_TEXT_BYTES each */
};

struct message_done {
  struct digest job;
  uint64_t sequence;
  enum err outcome; /* ERR_OK: merged */
};

struct message_ask_job {
  struct digest job; /* zeros: every one that is offered */
};

/* The signed object, not yet read: its form is judged with its content. */
struct message_job_file {
  const uint8_t *bytes;
  size_t n; /* 1 … JOB_FILE_MAX_BYTES */
};

struct message_pool {
  struct digest job;
  struct wire_pool words; /* bytes: 2·n f64 */
};

/* Statements and accusations, not yet read: their form is judged with their content. */
struct message_news {
  size_t n; /* 1 … MAX_NEWS */
  struct news items[MAX_NEWS];
};

struct message_sync {
  uint8_t hash[MEMBERS_HASH_BYTES]; /* of the sender's table of members */
};

struct message_list {
  bool wants_list;                     /* the receiver's in return, if it has less */
  uint16_t n;                          /* ≤ MAX_MEMBERS */
  const uint8_t (*rows)[LISTED_BYTES]; /* ascending by key */
};

struct message_seek {
  struct identity_key key; /* is it there? */
};

struct message_found {
  struct identity_key key;
  bool is_there;
};

/* A frame of the session of two others, or of one other and the receiver: who carries it cannot read it. */
enum relay_way {
  RELAY_TO,  /* to be carried on to the key */
  RELAY_FROM /* carried here from the key; goes no further */
};

struct message_relay {
  struct identity_key key;
  enum relay_way way;
  const uint8_t *frame;
  size_t n_frame; /* FRAME_HEAD_BYTES + FRAME_TAG_BYTES … MAX_RELAYED_BYTES */
};

/* A RELAY to the key went no further: no-session, version, refused, or backlog, when only this frame is lost. */
struct message_not_relayed {
  struct identity_key key;
  enum err reason; /* not ERR_OK */
};

struct message {
  enum message_type type;
  union {
    struct message_hello hello;
    struct message_state state;
    struct message_ask ask;
    const uint8_t *manifest; /* MANIFEST_BYTES */
    const uint8_t *sketch;   /* SIGNED_SKETCH_BYTES, not yet read */
    struct message_not_yet not_yet;
    struct message_refused refused;
    struct message_get get;
    struct message_chunk chunk;
    struct message_schema schema;
    struct message_done done;
    enum err bye;
    uint8_t beat_s; /* 1 … MAX_BEAT_S */
    struct message_ask_job ask_job;
    struct message_job_file job_file;
    struct message_pool pool;
    struct message_news news;
    struct message_sync sync;
    struct message_list list;
    struct message_seek seek;
    struct message_found found;
    struct message_relay relay;
    struct message_not_relayed not_relayed;
  };
};

/* Reads the plaintext of a frame. Views in the result borrow from `bytes`. ERR_FRAME: no such type. ERR_MESSAGE: not
 * canonical, truncated, trailing bytes or out of bounds. */
MUST_USE enum err message_read(uint8_t type, const uint8_t *bytes, size_t n, struct message *out_message);

/* Writes the plaintext; what is outside the bounds is our own bug. The writer's own error says what did not fit. */
void message_write(const struct message *m, struct writer *w);

/* ERR_MESSAGE: not exactly OFFER_BYTES, or an index or version of 0, or an empty range of versions. */
MUST_USE enum err offer_read(const uint8_t *bytes, size_t n, struct offer *out_offer);
void offer_write(const struct offer *o, uint8_t out_bytes[OFFER_BYTES]);
MUST_USE enum err answer_read(const uint8_t *bytes, size_t n, struct answer *out_answer);
void answer_write(const struct answer *a, uint8_t out_bytes[ANSWER_BYTES]);

/* A reason as one byte: 0 ERR_OK, 1 + drop index, 255 ERR_STOPPED and every other fault. */
uint8_t reason_code(enum err reason);
enum err reason_from_code(uint8_t code);

#endif
