/* The frames of a handshake. First byte: what the rest of the input is.
 *   0, 1   frame 1, frame 2 of a stranger     2, 3   a mask over an honest frame 1, frame 2
 *   4, 5   the payload of an honest frame 1, frame 2: whoever knows our key can send any */
#include "gossip/handshake.h"

#include <string.h>

#include "base/must.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

enum kind { STRANGER_1, STRANGER_2, MASK_1, MASK_2, PAYLOAD_1, PAYLOAD_2, N_KINDS };

static const struct x25519_pair *initiator, *responder;
static const struct offer honest = {.version_min = 1, .version_max = 1, .swarm = {7}, .session_index = 9};

static enum err read_1(const uint8_t *frame, size_t n, struct noise **out_noise, struct offer *out_offer) {
  struct frame_head head;
  enum err e = frame_head_read(frame, n, &head);
  if (e == ERR_OK)
    e = handshake_1_check(responder->public_key, &head, frame, n);
  return e == ERR_OK ? handshake_1_read(responder, frame, out_noise, out_offer) : e;
}

static enum err read_2(struct noise *noise, const uint8_t *frame, size_t n, struct answer *out_answer) {
  struct frame_head head;
  enum err e = frame_head_read(frame, n, &head);
  return e == ERR_OK ? handshake_2_read(noise, &head, frame, n, out_answer) : e;
}

static void check_offer(const struct offer *offer, const uint8_t payload[OFFER_BYTES]) {
  uint8_t again[OFFER_BYTES];
  offer_write(offer, again);
  MUST(memcmp(again, payload, sizeof again) == 0);
}

/* Frame 1 with any payload, as handshake_1_write makes it. */
static void payload_1(const uint8_t payload[OFFER_BYTES]) {
  uint8_t frame[HANDSHAKE_1_BYTES];
  struct frame_head head = {.type = MESSAGE_HANDSHAKE_1, .n_plain = NOISE_OVERHEAD_1 + OFFER_BYTES};
  struct noise *n, *answering = NULL;
  struct offer offer;
  MUST(noise_new_initiator("starling/1", sizeof "starling/1", initiator, responder->public_key, NULL, &n) == ERR_OK);
  frame_head_write(&head, frame);
  MUST(noise_write_1(n, payload, OFFER_BYTES, frame + FRAME_HEAD_BYTES) == ERR_OK);
  mac1_compute(responder->public_key, frame, sizeof frame - MAC1_BYTES, frame + sizeof frame - MAC1_BYTES);
  enum err e = read_1(frame, sizeof frame, &answering, &offer);
  MUST(e == ERR_OK || e == ERR_MESSAGE);
  if (e == ERR_OK)
    check_offer(&offer, payload);
  noise_free(answering);
  noise_free(n);
}

/* Frame 2 with any payload. */
static void payload_2(struct noise *asking, struct noise *answering, const uint8_t payload[ANSWER_BYTES]) {
  uint8_t frame[HANDSHAKE_2_BYTES], again[ANSWER_BYTES];
  struct frame_head head = {
      .type = MESSAGE_HANDSHAKE_2, .session_index = 9, .n_plain = NOISE_OVERHEAD_2 + ANSWER_BYTES - FRAME_TAG_BYTES};
  struct answer answer;
  frame_head_write(&head, frame);
  MUST(noise_write_2(answering, payload, ANSWER_BYTES, frame + FRAME_HEAD_BYTES) == ERR_OK);
  enum err e = read_2(asking, frame, sizeof frame, &answer);
  MUST(e == ERR_OK || e == ERR_MESSAGE);
  if (e != ERR_OK)
    return;
  answer_write(&answer, again);
  MUST(memcmp(again, payload, sizeof again) == 0);
}

static void mask_2(struct noise *asking, struct noise *answering, struct cursor *input) {
  uint8_t frame[HANDSHAKE_2_BYTES];
  struct answer answer = {.verdict = ERR_OK, .version = 1, .own = honest};
  MUST(handshake_2_write(answering, 9, &answer, frame) == ERR_OK);
  bool changed =
      mask_bytes(input, frame + FRAME_HEAD_BYTES, sizeof frame - FRAME_HEAD_BYTES); /* the head is no secret */
  MUST((read_2(asking, frame, sizeof frame, &answer) == ERR_OK) != changed);
}

/* An honest frame 1 under the mask; then, if it was let through, frame 2. */
static void exchange(enum kind kind, struct cursor *input) {
  uint8_t frame[HANDSHAKE_1_BYTES], payload[ANSWER_BYTES] = {0};
  struct noise *asking, *answering = NULL;
  struct offer offer;
  struct answer answer;
  MUST(handshake_1_write(initiator, responder->public_key, &honest, &asking, frame) == ERR_OK);
  bool changed = kind == MASK_1 && mask_bytes(input, frame, sizeof frame);
  MUST((read_1(frame, sizeof frame, &answering, &offer) == ERR_OK) != changed);
  if (kind == MASK_2)
    mask_2(asking, answering, input);
  if (kind == STRANGER_2)
    MUST(read_2(asking, input->at, input->left, &answer) != ERR_OK);
  if (kind == PAYLOAD_2) {
    mask_bytes(input, payload, sizeof payload);
    payload_2(asking, answering, payload);
  }
  noise_free(answering);
  noise_free(asking);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (initiator == NULL) {
    initiator = identity_x25519(identity_numbered(1));
    responder = identity_x25519(identity_numbered(2));
  }
  struct cursor input;
  cursor_init(&input, data, size);
  enum kind kind = cursor_u8(&input) % N_KINDS;
  uint8_t payload[OFFER_BYTES] = {0};
  struct noise *none = NULL;
  struct offer offer;
  switch (kind) {
  case STRANGER_1:
    MUST(read_1(input.at, input.left, &none, &offer) != ERR_OK);
    break;
  case PAYLOAD_1:
    mask_bytes(&input, payload, sizeof payload);
    payload_1(payload);
    break;
  default:
    exchange(kind, &input);
  }
  return 0;
}
