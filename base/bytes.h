/* Bytes read and written in order: the one way in which structures become bytes and bytes structures.
 *
 * Both ends have a sticky error: after the first read or write outside the bounds every further one does nothing (reads
 * give zeros), so a whole structure is read without a check a line and judged once at the end. All integers are
 * little-endian. Neither type owns its memory. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Reading. */
struct cursor {
  const uint8_t *at;
  size_t left;
  bool failed;
};

void cursor_init(struct cursor *c, const void *bytes, size_t n_bytes);
uint8_t cursor_u8(struct cursor *c);
uint16_t cursor_u16(struct cursor *c);
uint32_t cursor_u32(struct cursor *c);
uint64_t cursor_u64(struct cursor *c);
float cursor_f32(struct cursor *c);  /* IEEE-754 binary32, any bit pattern */
double cursor_f64(struct cursor *c); /* IEEE-754 binary64, any bit pattern */

/* Copies n bytes to out, zeros when they are not there. */
void cursor_bytes(struct cursor *c, void *out, size_t n);

/* Borrows the next n bytes; NULL when they are not there. */
const uint8_t *cursor_view(struct cursor *c, size_t n);

/* Judges the whole: ERR_TRUNCATED when a read went past the end, ERR_TRAILING when bytes are left. */
MUST_USE enum err cursor_end(const struct cursor *c);

/* Writing into a buffer of fixed capacity. */
struct writer {
  uint8_t *bytes;
  size_t capacity;
  size_t n_bytes;
  bool failed;
};

void writer_init(struct writer *w, void *bytes, size_t capacity);
void writer_u8(struct writer *w, uint8_t v);
void writer_u16(struct writer *w, uint16_t v);
void writer_u32(struct writer *w, uint32_t v);
void writer_u64(struct writer *w, uint64_t v);
void writer_f32(struct writer *w, float v);
void writer_f64(struct writer *w, double v);
void writer_bytes(struct writer *w, const void *bytes, size_t n);
void writer_zeros(struct writer *w, size_t n);

/* ERR_LIMIT when something did not fit. */
MUST_USE enum err writer_end(const struct writer *w);

#endif
