#include "crypto/session.h"

#include <sodium.h>

#include "base/must.h"
#include "crypto/aead.h"

enum err session_new(const struct session_keys *keys, const struct session_ends *ends, uint64_t now_ms,
                     struct session **out_session) {
  struct session *s = sodium_malloc(sizeof *s);
  if (!s)
    return ERR_NO_MEMORY;
  *s = (struct session){.ends = *ends, .created_ms = now_ms};
  s->keys = *keys; /* not through a temporary, which would keep a copy on the stack */
  *out_session = s;
  return ERR_OK;
}

void session_free(struct session *s) {
  sodium_free(s);
}

bool session_wants_rekey(const struct session *s, uint64_t now_ms) {
  return now_ms - s->created_ms >= SESSION_REKEY_MS || s->n_frames >= SESSION_REKEY_FRAMES ||
         s->n_bytes >= SESSION_REKEY_BYTES;
}

bool session_is_expired(const struct session *s, uint64_t now_ms) {
  return now_ms - s->created_ms >= SESSION_EXPIRE_MS || s->n_frames >= SESSION_EXPIRE_FRAMES;
}

static void session_count(struct session *s, size_t n_plain) {
  s->n_frames++;
  s->n_bytes += n_plain;
}

enum err session_seal(struct session *s, uint64_t now_ms, uint8_t type, uint8_t *frame, size_t n_plain) {
  MUST(n_plain <= MAX_FRAME_PLAIN_BYTES);
  if (session_is_expired(s, now_ms))
    return ERR_KEY_EXPIRED;
  struct frame_head head = {
      .type = type, .session_index = s->ends.peer_index, .n_plain = (uint32_t)n_plain, .counter = s->next_send++};
  uint8_t *body = frame + FRAME_HEAD_BYTES;
  frame_head_write(&head, frame);
  aead_seal(s->keys.send, head.counter, frame, FRAME_HEAD_BYTES, body, n_plain, body);
  session_count(s, n_plain);
  return ERR_OK;
}

enum err session_open_frame(struct session *s, uint64_t now_ms, const struct frame_head *head, uint8_t *frame) {
  MUST(head->session_index == s->ends.own_index);
  if (session_is_expired(s, now_ms))
    return ERR_KEY_EXPIRED;
  if (head->counter < s->next_receive || head->counter == UINT64_MAX)
    return ERR_REPLAY;
  uint8_t *body = frame + FRAME_HEAD_BYTES;
  enum err e =
      aead_open(s->keys.receive, head->counter, frame, FRAME_HEAD_BYTES, body, head->n_plain + AEAD_TAG_BYTES, body);
  if (e != ERR_OK)
    return e;
  s->next_receive = head->counter + 1;
  session_count(s, head->n_plain);
  return ERR_OK;
}
