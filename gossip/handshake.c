#include "gossip/handshake.h"

static const char prologue[] = "starling/1"; /* with its NUL */

enum { MAC1_AT = HANDSHAKE_1_BYTES - MAC1_BYTES };

enum err handshake_1_write(const struct x25519_pair *own, const uint8_t responder[X25519_BYTES],
                           const struct offer *offer, struct noise **out_noise, uint8_t out_frame[HANDSHAKE_1_BYTES]) {
  struct noise *n = NULL;
  enum err e = noise_new_initiator(prologue, sizeof prologue, own, responder, NULL, &n);
  if (e != ERR_OK)
    return e;
  struct frame_head head = {.type = MESSAGE_HANDSHAKE_1, .n_plain = NOISE_OVERHEAD_1 + OFFER_BYTES};
  uint8_t payload[OFFER_BYTES];
  frame_head_write(&head, out_frame);
  offer_write(offer, payload);
  e = noise_write_1(n, payload, sizeof payload, out_frame + FRAME_HEAD_BYTES);
  if (e != ERR_OK) {
    noise_free(n);
    return e;
  }
  mac1_compute(responder, out_frame, MAC1_AT, out_frame + MAC1_AT);
  *out_noise = n;
  return ERR_OK;
}

enum err handshake_1_check(const uint8_t own[X25519_BYTES], const struct frame_head *head, const uint8_t *frame,
                           size_t n) {
  if (n != HANDSHAKE_1_BYTES || head->session_index != 0 || head->counter != 0)
    return ERR_FRAME;
  return mac1_check(own, frame, MAC1_AT, frame + MAC1_AT);
}

enum err handshake_1_read(const struct x25519_pair *own, const uint8_t frame[HANDSHAKE_1_BYTES],
                          struct noise **out_noise, struct offer *out_offer) {
  struct noise *n = NULL;
  uint8_t payload[OFFER_BYTES];
  size_t n_payload;
  enum err e = noise_new_responder(prologue, sizeof prologue, own, NULL, &n);
  if (e == ERR_OK)
    e = noise_read_1(n, frame + FRAME_HEAD_BYTES, NOISE_OVERHEAD_1 + OFFER_BYTES, payload, sizeof payload, &n_payload);
  if (e == ERR_OK)
    e = offer_read(payload, n_payload, out_offer);
  if (e != ERR_OK) {
    noise_free(n);
    return e;
  }
  *out_noise = n;
  return ERR_OK;
}

enum err handshake_2_write(struct noise *n, uint32_t initiator_index, const struct answer *answer,
                           uint8_t out_frame[HANDSHAKE_2_BYTES]) {
  struct frame_head head = {.type = MESSAGE_HANDSHAKE_2,
                            .session_index = initiator_index,
                            .n_plain = HANDSHAKE_2_BYTES - FRAME_HEAD_BYTES - FRAME_TAG_BYTES};
  uint8_t payload[ANSWER_BYTES];
  frame_head_write(&head, out_frame);
  answer_write(answer, payload);
  return noise_write_2(n, payload, sizeof payload, out_frame + FRAME_HEAD_BYTES);
}

enum err handshake_2_read(struct noise *noise, const struct frame_head *head, const uint8_t *frame, size_t n,
                          struct answer *out_answer) {
  if (n != HANDSHAKE_2_BYTES || head->counter != 0)
    return ERR_FRAME;
  uint8_t payload[ANSWER_BYTES];
  size_t n_payload;
  enum err e = noise_read_2(noise, frame + FRAME_HEAD_BYTES, n - FRAME_HEAD_BYTES, payload, sizeof payload, &n_payload);
  return e == ERR_OK ? answer_read(payload, n_payload, out_answer) : e;
}
