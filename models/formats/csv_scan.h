/* CSV as fields and rows (RFC 4180: comma, double quotes, LF or CRLF, a header line; a UTF-8 byte order mark is skipped),
 * before anybody says what they mean. Room-internal.
 *
 * Fields stream: memory is one field. What the visitor returns ends the scan. Pure but for the file; one thread. */
#ifndef MODELS_FORMATS_CSV_SCAN_H
#define MODELS_FORMATS_CSV_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/formats/data_file.h"
#include "models/task.h"

/* Where a scan is, for the visitor. */
struct csv_scan {
  struct data_place *why;
  uint64_t line;     /* being read, from 1 */
  uint64_t row_line; /* where the present row began */
  size_t field;      /* number from 0 of the present field; when a row ends, how many it had */
  uint64_t n_rows;   /* that ended, without the header */
  bool in_header;
};

struct csv_visitor {
  enum err (*field)(void *context, const char *text, size_t n); /* borrowed for the call; n ≤ MAX_CSV_FIELD_BYTES */
  enum err (*row)(void *context);                               /* after its last field; the header is the first row */
  void *context;
};

/* Visits every field and row. On failure *why has line and column (the field's number), or what the visitor wrote there.
 * ERR_SYNTAX: a quote out of place or never closed, NUL; ERR_TRUNCATED: empty or without rows; ERR_LIMIT:
 * MAX_CSV_FIELD_BYTES, MAX_SAMPLES; ERR_NO_MEMORY; those of data_open and of the visitor. */
MUST_USE enum err csv_scan_file(struct csv_scan *s, const char *path, const struct csv_visitor *visitor,
                                struct data_place *why);

/* The place of a failure: the present field, a column of the present line (0: the line), the line where the row began. */
struct data_place *csv_at_field(struct csv_scan *s);
struct data_place *csv_at(struct csv_scan *s, uint64_t column);
struct data_place *csv_at_row(struct csv_scan *s);

/* Text of a field as it may be shown in one line: cut, without control characters. */
enum { CSV_SHOWN_BYTES = 48 };
struct csv_shown {
  char text[CSV_SHOWN_BYTES + 4];
};
struct csv_shown csv_show(const char *text, size_t n);

/* Whether a field is one of the ways to write that a value is missing: "", "NA", "nan", "null", "?" … */
bool csv_is_missing(const char *text, size_t n);

/* The next of the names in a field, with SET_SEPARATOR between them and blanks around them; *at begins as 0. Names without
 * letters are passed over; false: no more. */
struct csv_name {
  const char *text;
  size_t n;
};
bool csv_next_name(const char *text, size_t n, size_t *at, struct csv_name *out_name);

/* Whether the n bytes are this name. */
bool csv_text_is(const char *text, size_t n, const char *name);

#endif
