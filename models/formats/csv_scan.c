#include "models/formats/csv_scan.h"

#include <csv.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"

enum { READ_BYTES = 16 * 1024 };

struct run {
  struct csv_scan *s;
  const struct csv_visitor *visitor;
  struct csv_parser parser;
  enum err e; /* sticky: libcsv cannot be stopped from a callback */
};

struct data_place *csv_at(struct csv_scan *s, uint64_t column) {
  s->why->line = s->line;
  s->why->column = column;
  return s->why;
}

struct data_place *csv_at_field(struct csv_scan *s) {
  return csv_at(s, s->field + 1);
}

struct data_place *csv_at_row(struct csv_scan *s) {
  csv_at_field(s)->line = s->row_line;
  return s->why;
}

struct csv_shown csv_show(const char *text, size_t n) {
  struct csv_shown s = {{0}};
  size_t n_shown = n < CSV_SHOWN_BYTES ? n : CSV_SHOWN_BYTES;
  for (size_t i = 0; i < n_shown; i++)
    s.text[i] = iscntrl((unsigned char)text[i]) ? '?' : text[i];
  if (n > n_shown)
    memcpy(s.text + n_shown, "...", 3);
  return s;
}

bool csv_next_name(const char *text, size_t n, size_t *at, struct csv_name *out_name) {
  while (*at < n) {
    size_t from = *at, to = from;
    while (to < n && text[to] != SET_SEPARATOR)
      to++;
    *at = to < n ? to + 1 : n;
    while (from < to && (text[from] == ' ' || text[from] == '\t'))
      from++;
    while (to > from && (text[to - 1] == ' ' || text[to - 1] == '\t'))
      to--;
    *out_name = (struct csv_name){text + from, to - from};
    if (to > from)
      return true;
  }
  return false;
}

bool csv_text_is(const char *text, size_t n, const char *name) {
  return strlen(name) == n && memcmp(text, name, n) == 0;
}

bool csv_is_missing(const char *text, size_t n) {
  static const char *const words[] = {"", "na", "n/a", "nan", "null", "none", "nil", "?", "-"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strlen(words[i]) == n && strncasecmp(text, words[i], n) == 0)
      return true;
  return false;
}

static void on_field(void *field, size_t n, void *context) {
  struct run *r = context;
  if (r->e != ERR_OK)
    return;
  const char *text = field == NULL ? "" : field;
  if (n > MAX_CSV_FIELD_BYTES)
    r->e = data_fault(csv_at_field(r->s), ERR_LIMIT, "the field is longer than %d bytes", MAX_CSV_FIELD_BYTES);
  else
    r->e = r->visitor->field(r->visitor->context, text, n);
  r->s->field++;
}

static void on_row(int terminator, void *context) {
  (void)terminator;
  struct run *r = context;
  struct csv_scan *s = r->s;
  if (r->e != ERR_OK)
    return;
  if (s->n_rows == MAX_SAMPLES) {
    r->e = data_fault(csv_at(s, 0), ERR_LIMIT, "the file has more than %d rows; divide it", MAX_SAMPLES);
    return;
  }
  r->e = r->visitor->row(r->visitor->context);
  s->n_rows += !s->in_header;
  s->in_header = false;
  s->field = 0;
}

/* One line or a piece of a long one, so that callbacks know the line's number. */
static enum err feed(struct run *r, const char *piece, size_t n) {
  struct csv_scan *s = r->s;
  if (memchr(piece, '\0', n) != NULL)
    return data_fault(csv_at(s, 0), ERR_SYNTAX, "the line has a NUL byte; save the file as UTF-8 text");
  if (s->field == 0 && r->parser.entry_pos == 0)
    s->row_line = s->line;
  size_t n_parsed = csv_parse(&r->parser, piece, n, on_field, on_row, r);
  if (r->e != ERR_OK)
    return r->e;
  if (n_parsed != n)
    return csv_error(&r->parser) == CSV_ENOMEM
               ? data_fault(csv_at_field(s), ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY))
               : data_fault(csv_at_field(s), ERR_SYNTAX,
                            "a quote is out of place; quote the whole field, double inner quotes");
  if (r->parser.entry_pos > MAX_CSV_FIELD_BYTES)
    return data_fault(csv_at_row(s), ERR_LIMIT, "the field is longer than %d bytes; is its quote closed?",
                      MAX_CSV_FIELD_BYTES);
  if (piece[n - 1] == '\n')
    s->line++;
  return ERR_OK;
}

static enum err feed_lines(struct run *r, const char *bytes, size_t n) {
  enum err e = ERR_OK;
  while (e == ERR_OK && n > 0) {
    const char *end = memchr(bytes, '\n', n);
    size_t n_piece = end == NULL ? n : (size_t)(end - bytes) + 1;
    e = feed(r, bytes, n_piece);
    bytes += n_piece;
    n -= n_piece;
  }
  return e;
}

static enum err feed_file(struct run *r, int fd) {
  char buffer[READ_BYTES];
  static const char mark[] = "\xef\xbb\xbf";
  for (bool first = true;; first = false) {
    size_t n = 0, skip = 0;
    enum err e = fd_read_full(fd, buffer, READ_BYTES, &n);
    if (e != ERR_OK)
      return data_fault(csv_at(r->s, 0), e, "reading failed: %s", err_sentence(e));
    if (first && n >= 3 && memcmp(buffer, mark, 3) == 0)
      skip = 3;
    e = feed_lines(r, buffer + skip, n - skip);
    if (e != ERR_OK || n < READ_BYTES)
      return e;
  }
}

static enum err finish(struct run *r) {
  struct csv_scan *s = r->s;
  int failed = csv_fini(&r->parser, on_field, on_row, r);
  if (r->e != ERR_OK)
    return r->e;
  if (failed)
    return data_fault(csv_at_row(s), ERR_SYNTAX, "the file ends inside a quoted field; close the quote");
  s->line = 0;
  if (s->in_header)
    return data_fault(csv_at(s, 0), ERR_TRUNCATED, "it is empty; a header line and rows are needed");
  if (s->n_rows == 0)
    return data_fault(csv_at(s, 0), ERR_TRUNCATED, "it has a header and no rows; add samples");
  return ERR_OK;
}

enum err csv_scan_file(struct csv_scan *s, const char *path, const struct csv_visitor *visitor,
                       struct data_place *why) {
  int fd;
  uint64_t n_file_bytes;
  enum err e = data_open(path, why, &fd, &n_file_bytes);
  if (e != ERR_OK)
    return e;
  *s = (struct csv_scan){.why = why, .line = 1, .row_line = 1, .in_header = true};
  struct run r = {.s = s, .visitor = visitor};
  if (csv_init(&r.parser, CSV_STRICT | CSV_STRICT_FINI) == 0) {
    e = feed_file(&r, fd);
    if (e == ERR_OK)
      e = finish(&r);
    csv_free(&r.parser);
  } else {
    e = data_fault(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  }
  close(fd);
  return e;
}
