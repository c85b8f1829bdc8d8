#include "crypto/session.h"

#include <sodium.h>

#include "base/must.h"
#include "crypto/bulk.h"

enum err session_new(const struct session_keys *keys, const struct session_ends *ends, uint64_t now_ms,
                     struct session **out_session) {
  struct session *s = sodium_malloc(sizeof *s + sizeof *s->keys);
  if (!s)
    return ERR_NO_MEMORY;
  *s = (struct session){.ends = *ends, .created_ms = now_ms};
  s->keys[0] = *keys; /* not through a temporary, which would keep a copy on the stack */
  *out_session = s;
  return ERR_OK;
}

void session_free(struct session *s) {
  if (s)
    bulk_free(s->bulk);
  sodium_free(s);
}

bool session_wants_rekey(const struct session *s, uint64_t now_ms) {
  return now_ms - s->created_ms >= SESSION_REKEY_MS || s->n_frames >= SESSION_REKEY_FRAMES ||
         s->n_bytes >= SESSION_REKEY_BYTES;
}

bool session_is_expired(const struct session *s, uint64_t now_ms) {
  return now_ms - s->created_ms >= SESSION_EXPIRE_MS || s->n_frames >= SESSION_EXPIRE_FRAMES;
}

/* What seals and opens a long message in place of aead.h; NULL: nothing does, or the message is short. */
static struct bulk *bulk_of(struct session *s, size_t n_plain) {
  if (n_plain < BULK_MIN_BYTES)
    return NULL;
  if (!s->bulk && !s->has_no_bulk) {
    s->bulk = bulk_new();
    s->has_no_bulk = !s->bulk;
  }
  return s->bulk;
}

static void body_seal(struct session *s, uint64_t counter, const uint8_t *head, uint8_t *body, size_t n_plain) {
  struct bulk *b = bulk_of(s, n_plain);
  if (!b || !bulk_seal(b, s->keys[0].send, counter, head, FRAME_HEAD_BYTES, body, n_plain))
    aead_seal(s->keys[0].send, counter, head, FRAME_HEAD_BYTES, body, n_plain, body);
}

static enum err body_open(struct session *s, uint64_t counter, const uint8_t *head, uint8_t *body, size_t n_plain) {
  struct bulk *b = bulk_of(s, n_plain);
  enum err e = b ? bulk_open(b, s->keys[0].receive, counter, head, FRAME_HEAD_BYTES, body, n_plain) : ERR_NO_MEMORY;
  if (e != ERR_NO_MEMORY)
    return e;
  return aead_open(s->keys[0].receive, counter, head, FRAME_HEAD_BYTES, body, n_plain + AEAD_TAG_BYTES, body);
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
  body_seal(s, head.counter, frame, body, n_plain);
  session_count(s, n_plain);
  return ERR_OK;
}

enum err session_open_frame(struct session *s, uint64_t now_ms, const struct frame_head *head, uint8_t *frame) {
  MUST(head->session_index == s->ends.own_index);
  if (session_is_expired(s, now_ms))
    return ERR_KEY_EXPIRED;
  if (head->counter < s->next_receive || head->counter == UINT64_MAX)
    return ERR_REPLAY;
  enum err e = body_open(s, head->counter, frame, frame + FRAME_HEAD_BYTES, head->n_plain);
  if (e != ERR_OK)
    return e;
  s->next_receive = head->counter + 1;
  session_count(s, head->n_plain);
  return ERR_OK;
}
