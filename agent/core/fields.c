#include "agent/core/fields.h"

#include <string.h>

#include "base/must.h"

static uint64_t load(const void *at, size_t n_bytes) {
  union {
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
  } v;
  memcpy(&v, at, n_bytes);
  return n_bytes == sizeof v.u8 ? v.u8 : n_bytes == sizeof v.u16 ? v.u16 : n_bytes == sizeof v.u32 ? v.u32 : v.u64;
}

static void keep(void *at, size_t n_bytes, uint64_t value) {
  const uint8_t u8 = (uint8_t)value;
  const uint16_t u16 = (uint16_t)value;
  const uint32_t u32 = (uint32_t)value;
  const void *from = n_bytes == sizeof u8    ? (const void *)&u8
                     : n_bytes == sizeof u16 ? (const void *)&u16
                     : n_bytes == sizeof u32 ? (const void *)&u32
                                             : (const void *)&value;
  memcpy(at, from, n_bytes);
}

static void write_number(struct writer *w, size_t n_bytes, uint64_t value) {
  for (size_t i = 0; i < n_bytes; i++)
    writer_u8(w, (uint8_t)(value >> 8 * i));
}

static uint64_t read_number(struct cursor *c, size_t n_bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < n_bytes; i++)
    value |= (uint64_t)cursor_u8(c) << 8 * i;
  return value;
}

/* Of a text its length and what stands before the NUL. */
static void write_field(const struct field *f, const uint8_t *at, struct writer *w) {
  if (f->form == FIELD_NUMBER) {
    write_number(w, f->n_bytes, load(at, f->n_bytes));
  } else if (f->form == FIELD_BYTES) {
    writer_bytes(w, at, f->n_bytes);
  } else {
    size_t n = strnlen((const char *)at, f->n_bytes - 1U);
    writer_u16(w, (uint16_t)n);
    writer_bytes(w, at, n);
  }
}

void fields_write(const struct field *fields, size_t n, const void *from, struct writer *w) {
  for (size_t i = 0; i < n; i++)
    write_field(&fields[i], (const uint8_t *)from + fields[i].offset, w);
}

static void read_text(const struct field *f, struct cursor *c, uint8_t *out) {
  size_t n = cursor_u16(c);
  const uint8_t *text = n < f->n_bytes ? cursor_view(c, n) : NULL;
  if (!text || memchr(text, 0, n)) {
    c->failed = true;
    return;
  }
  memset(out, 0, f->n_bytes);
  memcpy(out, text, n);
}

static void read_field(const struct field *f, struct cursor *c, uint8_t *out) {
  if (f->form == FIELD_TEXT) {
    read_text(f, c, out);
  } else if (f->form == FIELD_BYTES) {
    cursor_bytes(c, out, f->n_bytes);
  } else {
    uint64_t value = read_number(c, f->n_bytes);
    c->failed = c->failed || value > f->max;
    if (!c->failed)
      keep(out, f->n_bytes, value);
  }
}

void fields_read(const struct field *fields, size_t n, struct cursor *c, void *out) {
  for (size_t i = 0; i < n; i++)
    read_field(&fields[i], c, (uint8_t *)out + fields[i].offset);
}
