/* The seam between the protocol and its ciphers: a table of what proves who is who and what closes a frame.
 *
 * `seals_noise` is the real one and the only one of this room: Noise IK handshakes (handshake.h), frames sealed under their
 * keys (crypto/session.h), Ed25519 signatures. node_new takes it and gossip_open nothing else, whatever the configuration
 * and the peer say: nothing on the wire names a table. The simulator has one without ciphers for nodes of its own
 * (agent/sim/plain.c), which go over memory only. Lengths of frames do not depend on the table.
 *
 * Thread and errors: as of the functions that the real table has here. */
#ifndef GOSSIP_SEALS_H
#define GOSSIP_SEALS_H

#include "crypto/session.h"
#include "gossip/handshake.h"

/* Who a node is. */
struct node_self {
  const struct identity *identity; /* borrowed; NULL for a table without ciphers */
  struct identity_key key;
};

struct seals {
  /* What a peer's key is in a handshake. ERR_RANGE: it is none. */
  enum err (*peer_static)(const struct identity_key *key, uint8_t out_static[X25519_BYTES]);

  /* A handshake, `struct noise` being the table's own: as handshake_1_write … handshake_2_read. */
  enum err (*write_1)(const struct node_self *own, const uint8_t responder[X25519_BYTES], const struct offer *offer,
                      struct noise **out_noise, uint8_t out_frame[HANDSHAKE_1_BYTES]);
  enum err (*check_1)(const struct node_self *own, const struct frame_head *head, const uint8_t *frame, size_t n);
  enum err (*read_1)(const struct node_self *own, const uint8_t frame[HANDSHAKE_1_BYTES], struct noise **out_noise,
                     struct offer *out_offer);
  enum err (*write_2)(struct noise *n, uint32_t initiator_index, const struct answer *answer,
                      uint8_t out_frame[HANDSHAKE_2_BYTES]);
  enum err (*read_2)(struct noise *n, const struct frame_head *head, const uint8_t *frame, size_t n_frame,
                     struct answer *out_answer);
  const uint8_t *(*static_of_peer)(const struct noise *n); /* responder, after read_1 */
  void (*noise_free)(struct noise *n);                     /* takes NULL */

  /* The session of a finished handshake. ERR_NO_MEMORY. */
  enum err (*session_new)(struct noise *n, const struct session_ends *ends, uint64_t now_ms,
                          struct session **out_session);
  void (*session_free)(struct session *s); /* takes NULL */
  enum err (*seal)(struct session *s, uint64_t now_ms, uint8_t type, uint8_t *frame, size_t n_plain);
  enum err (*open)(struct session *s, uint64_t now_ms, const struct frame_head *head, uint8_t *frame);

  /* ERR_SIGNATURE. */
  enum err (*verify_manifest)(const struct manifest *m);
  enum err (*verify_job_file)(const struct job_file *f);
  enum err (*verify_sketch)(const struct signed_sketch *s);

  /* How the table of members signs and checks; `own` is borrowed for its life. */
  struct members_seal (*members_seal)(const struct node_self *own);
};

extern const struct seals seals_noise;

#endif
