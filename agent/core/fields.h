/* Members of a structure as bytes and back, by a table: what a table does not name is not touched. Numbers stand at the length
 * of the member, little-endian, and are refused above the most that it may be. Pure; any thread. */
#ifndef AGENT_CORE_FIELDS_H
#define AGENT_CORE_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum field_form {
  FIELD_NUMBER, /* unsigned, bool or enum of 1, 2, 4 or 8 bytes; also of a signed or floating one the bits */
  FIELD_BYTES,  /* as they are */
  FIELD_TEXT,   /* an array of char that holds its NUL */
};

struct field {
  uint16_t offset, n_bytes;
  enum field_form form;
  uint64_t max; /* of a number */
};

/* The most that a time and a length of bytes may be: there is room to count on. */
#define MAX_TIME_MS (UINT64_MAX / 4)
#define MAX_LENGTH (UINT64_C(1) << 40)

#define FIELD_OF(type, member, form, max)                                                                              \
  { offsetof(type, member), sizeof(((type *)NULL)->member), form, max }
#define FIELD_UP_TO(type, member, max) FIELD_OF(type, member, FIELD_NUMBER, max)
#define FIELD_ANY(type, member) FIELD_OF(type, member, FIELD_NUMBER, UINT64_MAX)
#define FIELD_BOOL(type, member) FIELD_OF(type, member, FIELD_NUMBER, 1)
#define FIELD_ERR(type, member) FIELD_OF(type, member, FIELD_NUMBER, ERR_COUNT - 1)
#define FIELD_RAW(type, member) FIELD_OF(type, member, FIELD_BYTES, 0)
/* Members are no expressions. NOLINTBEGIN(bugprone-macro-parentheses) */
#define FIELD_LABEL(type, member) FIELD_ANY(type, member.round), FIELD_ANY(type, member.sub)
#define FIELD_MARK(type, member) FIELD_ANY(type, member.boot_epoch), FIELD_ANY(type, member.sequence)
#define FIELD_POSITION(type, member)                                                                                   \
  FIELD_ANY(type, member.boot_epoch), FIELD_ANY(type, member.sequence), FIELD_RAW(type, member.chain)
/* NOLINTEND(bugprone-macro-parentheses) */

void fields_write(const struct field *fields, size_t n, const void *from, struct writer *w);

/* A value that may not be makes the cursor fail; what was read before it is in `out`. */
void fields_read(const struct field *fields, size_t n, struct cursor *c, void *out);

#define FIELDS_WRITE(fields, from, w) fields_write(fields, sizeof(fields) / sizeof *(fields), from, w)
#define FIELDS_READ(fields, c, out) fields_read(fields, sizeof(fields) / sizeof *(fields), c, out)

#endif
