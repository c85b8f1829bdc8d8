#include "gossip/serve.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum err serves_add(struct serves *s, size_t job, const struct message_get *get) {
  struct serve range = {job, get->root, get->n_payload, get->first, get->first + get->count};
  for (size_t i = 0; i < s->n; i++) {
    const struct serve *r = &s->ranges[i];
    if (r->job == job && digest_equal(&r->root, &range.root) && r->next <= range.next && range.end <= r->end)
      return ERR_OK;
  }
  if (s->n == MAX_SERVES)
    return ERR_BACKLOG;
  struct serve *ranges = array_grown(s->ranges, &s->capacity, s->n, sizeof *ranges, MAX_SERVES);
  if (!ranges)
    return ERR_NO_MEMORY;
  s->ranges = ranges;
  s->ranges[s->n++] = range;
  return ERR_OK;
}

void serves_clear(struct serves *s) {
  free(s->ranges);
  *s = (struct serves){0};
}

const struct serve *serves_first(const struct serves *s) {
  return s->n ? &s->ranges[0] : NULL;
}

static void serves_remove(struct serves *s, size_t i) {
  s->n--;
  memmove(&s->ranges[i], &s->ranges[i + 1], (s->n - i) * sizeof *s->ranges);
}

void serves_advance(struct serves *s) {
  if (++s->ranges[0].next == s->ranges[0].end)
    serves_remove(s, 0);
}

void serves_drop(struct serves *s, const struct digest *root) {
  for (size_t i = s->n; i-- > 0;)
    if (digest_equal(&s->ranges[i].root, root))
      serves_remove(s, i);
}

uint64_t serve_offset(const struct serve *r) {
  return (uint64_t)r->next * CHUNK_BYTES;
}

size_t serve_bytes(const struct serve *r) {
  uint64_t left = r->n_payload - serve_offset(r);
  return left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
}
