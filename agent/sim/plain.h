/* Sessions and signatures without ciphers, for swarms of thousands: frames of the same lengths, the same counters, ages and
 * refusals, who is who taken at his word. A handshake is two frames that name both keys, a seal 16 bytes that name the
 * session, a signature a hash of what is signed with its author's key. Nothing of it keeps anybody out: it is for nodes over
 * links of memory, made by node_new_with in this folder and nowhere else (tests/lint/layers), and what it writes no real node
 * takes (tests/unit/agent/test_sim.c). One thread. */
#ifndef AGENT_SIM_PLAIN_H
#define AGENT_SIM_PLAIN_H

#include "gossip/seals.h"

extern const struct seals plain_seals;

/* Keys ascend by number. */
struct identity_key plain_key(size_t number);

/* Sets origin and signature. */
void plain_sign(struct manifest *m, const struct identity_key *own);
void plain_sign_sketch(struct signed_sketch *s, const struct identity_key *own);

#endif
