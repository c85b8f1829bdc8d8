#include "base/bytes.h"

#include <string.h>

void cursor_init(struct cursor *c, const void *bytes, size_t n_bytes) {
  *c = (struct cursor){.at = bytes, .left = n_bytes};
}

const uint8_t *cursor_view(struct cursor *c, size_t n) {
  if (c->failed || n > c->left) {
    c->failed = true;
    return NULL;
  }
  const uint8_t *view = c->at;
  c->at += n;
  c->left -= n;
  return view;
}

void cursor_bytes(struct cursor *c, void *out, size_t n) {
  if (n == 0)
    return;
  const uint8_t *view = cursor_view(c, n);
  if (view)
    memcpy(out, view, n);
  else
    memset(out, 0, n);
}

static uint64_t cursor_integer(struct cursor *c, size_t n) {
  const uint8_t *view = cursor_view(c, n);
  uint64_t v = 0;
  for (size_t i = 0; view && i < n; i++)
    v |= (uint64_t)view[i] << (8 * i);
  return v;
}

uint8_t cursor_u8(struct cursor *c) {
  return (uint8_t)cursor_integer(c, 1);
}

uint16_t cursor_u16(struct cursor *c) {
  return (uint16_t)cursor_integer(c, 2);
}

uint32_t cursor_u32(struct cursor *c) {
  return (uint32_t)cursor_integer(c, 4);
}

uint64_t cursor_u64(struct cursor *c) {
  return cursor_integer(c, 8);
}

float cursor_f32(struct cursor *c) {
  uint32_t bits = cursor_u32(c);
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

double cursor_f64(struct cursor *c) {
  uint64_t bits = cursor_u64(c);
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

enum err cursor_end(const struct cursor *c) {
  if (c->failed)
    return ERR_TRUNCATED;
  return c->left ? ERR_TRAILING : ERR_OK;
}

void writer_init(struct writer *w, void *bytes, size_t capacity) {
  *w = (struct writer){.bytes = bytes, .capacity = capacity};
}

static uint8_t *writer_take(struct writer *w, size_t n) {
  if (w->failed || n > w->capacity - w->n_bytes) {
    w->failed = true;
    return NULL;
  }
  uint8_t *at = w->bytes + w->n_bytes;
  w->n_bytes += n;
  return at;
}

void writer_bytes(struct writer *w, const void *bytes, size_t n) {
  if (n == 0)
    return;
  uint8_t *at = writer_take(w, n);
  if (at)
    memcpy(at, bytes, n);
}

void writer_zeros(struct writer *w, size_t n) {
  if (n == 0)
    return;
  uint8_t *at = writer_take(w, n);
  if (at)
    memset(at, 0, n);
}

static void writer_integer(struct writer *w, uint64_t v, size_t n) {
  uint8_t *at = writer_take(w, n);
  for (size_t i = 0; at && i < n; i++)
    at[i] = (uint8_t)(v >> (8 * i));
}

void writer_u8(struct writer *w, uint8_t v) {
  writer_integer(w, v, 1);
}

void writer_u16(struct writer *w, uint16_t v) {
  writer_integer(w, v, 2);
}

void writer_u32(struct writer *w, uint32_t v) {
  writer_integer(w, v, 4);
}

void writer_u64(struct writer *w, uint64_t v) {
  writer_integer(w, v, 8);
}

void writer_f32(struct writer *w, float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  writer_u32(w, bits);
}

void writer_f64(struct writer *w, double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  writer_u64(w, bits);
}

enum err writer_end(const struct writer *w) {
  return w->failed ? ERR_LIMIT : ERR_OK;
}
