/* The two frames of a handshake: Noise IK messages in the shape of frames (crypto/frame.h).
 *
 *   1  head (index 0) ‖ noise message 1 with an `offer` ‖ mac1 over all before it
 *   2  head (the initiator's index) ‖ noise message 2 with an `answer`
 *
 * The prologue is "starling/1\0". Pure but for the randomness of a fresh ephemeral key; any thread. */
#ifndef GOSSIP_HANDSHAKE_H
#define GOSSIP_HANDSHAKE_H

#include "crypto/frame.h"
#include "crypto/noise.h"
#include "gossip/message.h"

enum {
  HANDSHAKE_1_BYTES = FRAME_HEAD_BYTES + NOISE_OVERHEAD_1 + OFFER_BYTES + MAC1_BYTES,
  HANDSHAKE_2_BYTES = FRAME_HEAD_BYTES + NOISE_OVERHEAD_2 + ANSWER_BYTES,
};

/* Initiator, first frame. ERR_NO_MEMORY, ERR_HANDSHAKE (a key of low order). `own` must outlive the noise. */
MUST_USE enum err handshake_1_write(const struct x25519_pair *own, const uint8_t responder[X25519_BYTES],
                                    const struct offer *offer, struct noise **out_noise,
                                    uint8_t out_frame[HANDSHAKE_1_BYTES]);

/* Responder: whether the frame of n bytes, whose head is good, was made by somebody who knows our key; costs no scalar
 * multiplication. ERR_FRAME, ERR_MAC. */
MUST_USE enum err handshake_1_check(const uint8_t own[X25519_BYTES], const struct frame_head *head,
                                    const uint8_t *frame, size_t n);

/* Responder: reads a checked frame. The result may be a replay: the initiator has proven its key only when a frame
 * opens under the session. ERR_NO_MEMORY, ERR_HANDSHAKE, ERR_MESSAGE. */
MUST_USE enum err handshake_1_read(const struct x25519_pair *own, const uint8_t frame[HANDSHAKE_1_BYTES],
                                   struct noise **out_noise, struct offer *out_offer);

/* Responder, second frame. ERR_HANDSHAKE. */
MUST_USE enum err handshake_2_write(struct noise *n, uint32_t initiator_index, const struct answer *answer,
                                    uint8_t out_frame[HANDSHAKE_2_BYTES]);

/* Initiator: reads the frame of n bytes, whose head is good. On failure the handshake goes on waiting.
 * ERR_FRAME, ERR_HANDSHAKE, ERR_MESSAGE. */
MUST_USE enum err handshake_2_read(struct noise *noise, const struct frame_head *head, const uint8_t *frame, size_t n,
                                   struct answer *out_answer);

#endif
