#include "gossip/seals.h"

static enum err write_1(const struct node_self *own, const uint8_t responder[X25519_BYTES], const struct offer *offer,
                        struct noise **out_noise, uint8_t out_frame[HANDSHAKE_1_BYTES]) {
  return handshake_1_write(identity_x25519(own->identity), responder, offer, out_noise, out_frame);
}

static enum err check_1(const struct node_self *own, const struct frame_head *head, const uint8_t *frame, size_t n) {
  return handshake_1_check(identity_x25519(own->identity)->public_key, head, frame, n);
}

static enum err read_1(const struct node_self *own, const uint8_t frame[HANDSHAKE_1_BYTES], struct noise **out_noise,
                       struct offer *out_offer) {
  return handshake_1_read(identity_x25519(own->identity), frame, out_noise, out_offer);
}

static enum err session_of(struct noise *n, const struct session_ends *ends, uint64_t now_ms,
                           struct session **out_session) {
  struct session_keys keys;
  noise_split(n, &keys);
  enum err e = session_new(&keys, ends, now_ms, out_session);
  session_keys_wipe(&keys);
  return e;
}

static struct members_seal members_seal(const struct node_self *own) {
  return members_seal_of(own->identity);
}

const struct seals seals_noise = {
    .peer_static = identity_key_x25519,
    .write_1 = write_1,
    .check_1 = check_1,
    .read_1 = read_1,
    .write_2 = handshake_2_write,
    .read_2 = handshake_2_read,
    .static_of_peer = noise_peer_static,
    .noise_free = noise_free,
    .session_new = session_of,
    .session_free = session_free,
    .seal = session_seal,
    .open = session_open_frame,
    .verify_manifest = manifest_verify,
    .verify_job_file = job_file_verify,
    .verify_sketch = signed_sketch_verify,
    .members_seal = members_seal,
};
