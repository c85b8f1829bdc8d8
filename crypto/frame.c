#include "crypto/frame.h"

#include <string.h>

#include "base/bytes.h"
#include "base/must.h"

static const char magic[4] = {'S', 'T', 'L', '1'};

void frame_head_write(const struct frame_head *head, uint8_t out_bytes[FRAME_HEAD_BYTES]) {
  struct writer w;
  writer_init(&w, out_bytes, FRAME_HEAD_BYTES);
  writer_bytes(&w, magic, sizeof magic);
  writer_u8(&w, head->type);
  writer_zeros(&w, 3);
  writer_u32(&w, head->session_index);
  writer_u32(&w, head->n_plain);
  writer_u64(&w, head->counter);
  MUST(writer_end(&w) == ERR_OK && w.n_bytes == FRAME_HEAD_BYTES);
}

enum err frame_head_read(const uint8_t *frame, size_t n, struct frame_head *out_head) {
  struct cursor c;
  cursor_init(&c, frame, n);
  const uint8_t *start = cursor_view(&c, sizeof magic);
  struct frame_head head = {.type = cursor_u8(&c)};
  uint8_t flags = cursor_u8(&c);
  uint16_t zero = cursor_u16(&c);
  head.session_index = cursor_u32(&c);
  head.n_plain = cursor_u32(&c);
  head.counter = cursor_u64(&c);
  if (c.failed || memcmp(start, magic, sizeof magic) != 0 || flags != 0 || zero != 0 ||
      head.n_plain > MAX_FRAME_PLAIN_BYTES || n != frame_bytes(head.n_plain))
    return ERR_FRAME;
  *out_head = head;
  return ERR_OK;
}
