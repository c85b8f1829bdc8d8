/* Frames under a session. First byte: 0 the rest is a stranger's frame, 1 a mask over a sealed one, 2 a story of frames.
 * A frame opens only when we sealed it, nobody changed it, and none with its counter or a later one opened before. */
#include "crypto/frame.h"

#include <string.h>

#include "base/must.h"
#include "crypto/session.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

enum { STRANGER, MASK, STORY, N_KINDS };
enum { N_KEPT = 8, PLAIN_BYTES = 40, KEPT_BYTES = FRAME_HEAD_BYTES + PLAIN_BYTES + FRAME_TAG_BYTES, TYPE = 17 };

/* The two ends of one session. */
struct ends {
  struct session *sender, *receiver;
};

static struct ends ends_new(void) {
  static const struct session_keys forth = {{1}, {2}, {3}}, back = {{2}, {1}, {3}};
  static const struct session_ends out = {.own_index = 1, .peer_index = 2}, in = {.own_index = 2, .peer_index = 1};
  struct ends e;
  MUST(random_open() == ERR_OK);
  MUST(session_new(&forth, &out, 0, &e.sender) == ERR_OK && session_new(&back, &in, 0, &e.receiver) == ERR_OK);
  return e;
}

static void seal(struct ends *e, uint8_t frame[KEPT_BYTES]) {
  memset(frame + FRAME_HEAD_BYTES, TYPE, PLAIN_BYTES);
  MUST(session_seal(e->sender, 0, TYPE, frame, PLAIN_BYTES) == ERR_OK);
}

static enum err open_bytes(struct ends *e, const uint8_t *bytes, size_t n) {
  static uint8_t frame[MAX_FRAME_BYTES];
  struct frame_head head;
  if (n > sizeof frame)
    return ERR_FRAME;
  memcpy(frame, bytes, n);
  enum err result = frame_head_read(frame, n, &head);
  if (result == ERR_OK && head.session_index != e->receiver->ends.own_index)
    return ERR_FRAME; /* it chooses no session */
  return result == ERR_OK ? session_open_frame(e->receiver, 0, &head, frame) : result;
}

/* Each byte: bits 0-2 which of the kept frames arrives, bit 3 that a new one is sealed in its place first, bits 4-7 what
 * is flipped in one of its bytes. */
static void tell_story(struct ends *e, struct cursor *input) {
  static uint8_t kept[N_KEPT][KEPT_BYTES];
  uint64_t counters[N_KEPT], next = 0, lowest = 0;
  for (size_t i = 0; i < N_KEPT; i++) {
    seal(e, kept[i]);
    counters[i] = next++;
  }
  while (input->left > 0) {
    uint8_t step = cursor_u8(input), frame[KEPT_BYTES];
    size_t i = step % N_KEPT;
    if (step & 8) {
      seal(e, kept[i]);
      counters[i] = next++;
    }
    memcpy(frame, kept[i], sizeof frame);
    frame[(size_t)step * 7 % sizeof frame] ^= step >> 4;
    bool is_good = step >> 4 == 0 && counters[i] >= lowest;
    MUST((open_bytes(e, frame, sizeof frame) == ERR_OK) == is_good);
    if (is_good)
      lowest = counters[i] + 1;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ends e = ends_new();
  struct cursor input;
  cursor_init(&input, data, size);
  uint8_t kind = cursor_u8(&input) % N_KINDS, frame[KEPT_BYTES];
  if (kind == STRANGER)
    MUST(open_bytes(&e, input.at, input.left) != ERR_OK);
  if (kind == MASK) {
    seal(&e, frame);
    bool changed = mask_bytes(&input, frame, sizeof frame);
    MUST((open_bytes(&e, frame, sizeof frame) == ERR_OK) != changed);
  }
  if (kind == STORY)
    tell_story(&e, &input);
  session_free(e.sender);
  session_free(e.receiver);
  return 0;
}
