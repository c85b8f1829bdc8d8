#include "models/csv_reader.h"

#include <csv.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "models/number.h"

enum { READ_BYTES = 16 * 1024, SHOWN_BYTES = 48 };

/* What a column is for: a feature's number, or one of these. */
enum { COLUMN_IGNORED = -1, COLUMN_LABEL = -2 };

struct csv_run {
  const struct contract *contract;
  const struct sample_sink *sink;
  struct data_place *why;
  struct csv_parser parser;
  bool has_parser;
  enum err e;        /* sticky: libcsv cannot be stopped from a callback */
  uint64_t line;     /* being fed */
  uint64_t row_line; /* where the present row began */
  uint64_t n_rows;
  double lo, hi;

  bool in_header;
  bool has_label;
  int32_t *columns; /* [MAX_CSV_COLUMNS], n_columns of them used */
  size_t n_columns;
  size_t n_ignored;
  bool *found; /* [n_features] */

  size_t field;        /* number from 0 of the next field of this row */
  enum err row_e;      /* a field's first fault; told at the row's end, for a decimal comma is a field too many */
  float *inputs;       /* [n_features] of this row */
  size_t group_column; /* of holdout_by, SIZE_MAX: none */
  char *group;         /* [MAX_CSV_FIELD_BYTES] its text in this row */
  struct sample sample;
};

/* A failure at the present field (or line, with column 0). */
static struct data_place *at(struct csv_run *r, uint64_t column) {
  r->why->line = r->line;
  r->why->column = column;
  return r->why;
}

static struct data_place *at_field(struct csv_run *r) {
  return at(r, r->field + 1);
}

static struct data_place *at_row(struct csv_run *r) {
  at_field(r)->line = r->row_line;
  return r->why;
}

/* Text of a field as it may be shown in one line. */
struct shown {
  char text[SHOWN_BYTES + 4];
};

static struct shown show(const char *text, size_t n) {
  struct shown s = {{0}};
  size_t n_shown = n < SHOWN_BYTES ? n : SHOWN_BYTES;
  for (size_t i = 0; i < n_shown; i++)
    s.text[i] = iscntrl((unsigned char)text[i]) ? '?' : text[i];
  if (n > n_shown)
    memcpy(s.text + n_shown, "...", 3);
  return s;
}

static bool text_is(const char *text, size_t n, const char *name) {
  return strlen(name) == n && memcmp(text, name, n) == 0;
}

static enum err header_field(struct csv_run *r, const char *text, size_t n) {
  if (r->n_columns == MAX_CSV_COLUMNS)
    return data_fault(at_field(r), ERR_LIMIT, "the header has more than %d columns", MAX_CSV_COLUMNS);
  const struct contract *c = r->contract;
  int32_t use = COLUMN_IGNORED;
  bool again = false;
  if (text_is(text, n, c->label)) {
    use = COLUMN_LABEL;
    again = r->has_label;
    r->has_label = true;
  }
  for (size_t i = 0; use == COLUMN_IGNORED && i < c->n_features; i++)
    if (text_is(text, n, c->features[i].name)) {
      use = (int32_t)i;
      again = r->found[i];
      r->found[i] = true;
    }
  if (c->holdout_by[0] != '\0' && text_is(text, n, c->holdout_by)) {
    again = again || r->group_column != SIZE_MAX;
    r->group_column = r->n_columns;
  }
  if (again)
    return data_fault(at_field(r), ERR_SYNTAX, "column \"%s\" stands twice in the header; rename one of them",
                      show(text, n).text);
  r->columns[r->n_columns++] = use;
  r->n_ignored += use == COLUMN_IGNORED && r->group_column != r->n_columns - 1;
  return ERR_OK;
}

/* The label's column by its number, where no header has its name. */
static void find_label_by_number(struct csv_run *r) {
  double number;
  const char *label = r->contract->label;
  if (r->has_label || number_read(label, strlen(label), &number) != ERR_OK || number != floor(number) || number < 1 ||
      number > (double)r->n_columns)
    return;
  int32_t *column = &r->columns[(size_t)number - 1];
  if (*column != COLUMN_IGNORED || r->group_column == (size_t)number - 1)
    return;
  *column = COLUMN_LABEL;
  r->has_label = true;
  r->n_ignored--;
}

static enum err header_end(struct csv_run *r) {
  find_label_by_number(r);
  const struct contract *c = r->contract;
  const char *hint = r->n_columns == 1 ? "are its fields separated by commas?" : "add it or correct the job file";
  for (size_t i = 0; i < c->n_features; i++)
    if (!r->found[i])
      return data_fault(at(r, 0), ERR_SYNTAX, "the header has no column \"%s\"; %s", c->features[i].name, hint);
  if (!r->has_label)
    return data_fault(at(r, 0), ERR_SYNTAX, "the header has no label column \"%s\"; %s", c->label, hint);
  if (c->holdout_by[0] != '\0' && r->group_column == SIZE_MAX)
    return data_fault(at(r, 0), ERR_SYNTAX, "the header has no column \"%s\", which holdout_by names; %s",
                      c->holdout_by, hint);
  r->in_header = false;
  return ERR_OK;
}

static bool is_missing(const char *text, size_t n) {
  static const char *const words[] = {"", "na", "n/a", "nan", "null", "none", "nil", "?", "-"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strlen(words[i]) == n && strncasecmp(text, words[i], n) == 0)
      return true;
  return false;
}

static enum err read_value(struct csv_run *r, const char *name, const char *text, size_t n, double lo, double hi,
                           float *out_value) {
  double value;
  enum err e = number_read(text, n, &value);
  if (e == ERR_OK && isfinite((float)value) && value >= lo && value <= hi) {
    *out_value = (float)value;
    return ERR_OK;
  }
  struct shown shown = show(text, n);
  if (is_missing(text, n))
    return data_fault(at_field(r), ERR_SYNTAX, "\"%s\" is missing; fill it in or leave the row out", name);
  if (e == ERR_SYNTAX && memchr(text, ',', n) != NULL)
    return data_fault(at_field(r), ERR_SYNTAX, "\"%s\" is %s; write decimals with a point", name, shown.text);
  if (e == ERR_SYNTAX)
    return data_fault(at_field(r), ERR_SYNTAX, "\"%s\" is %s, not a number; write it as 21.5", name, shown.text);
  if (e == ERR_OK && isfinite((float)value))
    return data_fault(at_field(r), ERR_RANGE, "\"%s\" is %s, the contract allows %g to %g; check its unit", name,
                      shown.text, lo, hi);
  return data_fault(at_field(r), ERR_RANGE, "\"%s\" is %s, too large or long for a number", name, shown.text);
}

static enum err read_label(struct csv_run *r, const char *text, size_t n) {
  const struct contract *c = r->contract;
  if (c->task == TASK_REGRESS)
    return read_value(r, c->label, text, n, -INFINITY, INFINITY, &r->sample.target);
  for (size_t i = 0; i < c->n_classes; i++)
    if (text_is(text, n, c->classes[i].text)) {
      r->sample.label = (uint16_t)i;
      return ERR_OK;
    }
  if (n == 0)
    return data_fault(at_field(r), ERR_SYNTAX, "\"%s\" is missing; fill it in or leave the row out", c->label);
  return data_fault(at_field(r), ERR_RANGE, "class \"%s\" is not in the contract; correct it or add it to the job file",
                    show(text, n).text);
}

/* Kept, since the field's text is gone at the row's end. */
static enum err read_group(struct csv_run *r, const char *text, size_t n) {
  if (is_missing(text, n))
    return data_fault(at_field(r), ERR_SYNTAX,
                      "\"%s\" is missing, which holdout_by names; fill it in or leave the row out",
                      r->contract->holdout_by);
  memcpy(r->group, text, n); /* n ≤ MAX_CSV_FIELD_BYTES */
  r->sample.group = r->group;
  r->sample.n_group = n;
  return ERR_OK;
}

static enum err row_field(struct csv_run *r, const char *text, size_t n) {
  if (r->field >= r->n_columns)
    return data_fault(
        at_field(r), ERR_SYNTAX,
        "the row has more fields than the header's %zu; quote text with commas, write decimals with a point",
        r->n_columns);
  int32_t use = r->columns[r->field];
  if (r->field == r->group_column && r->row_e == ERR_OK)
    r->row_e = read_group(r, text, n);
  if (use == COLUMN_IGNORED || r->row_e != ERR_OK)
    return ERR_OK;
  if (use == COLUMN_LABEL)
    r->row_e = read_label(r, text, n);
  else
    r->row_e = read_value(r, r->contract->features[use].name, text, n, r->lo, r->hi, &r->inputs[use]);
  return ERR_OK;
}

static enum err row_end(struct csv_run *r) {
  if (r->field != r->n_columns)
    return data_fault(at_field(r), ERR_SYNTAX, "the row has %zu fields, the header %zu; complete or remove the row",
                      r->field, r->n_columns);
  if (r->row_e != ERR_OK)
    return r->row_e;
  if (r->n_rows == MAX_SAMPLES)
    return data_fault(at(r, 0), ERR_LIMIT, "the file has more than %d rows; divide it", MAX_SAMPLES);
  enum err e = sample_put(r->sink, r->n_rows++, &r->sample);
  return e == ERR_OK ? e : data_fault(at(r, 0), e, "%s", err_sentence(e));
}

static void on_field(void *field, size_t n, void *context) {
  struct csv_run *r = context;
  if (r->e != ERR_OK)
    return;
  const char *text = field == NULL ? "" : field;
  if (n > MAX_CSV_FIELD_BYTES)
    r->e = data_fault(at_field(r), ERR_LIMIT, "the field is longer than %d bytes", MAX_CSV_FIELD_BYTES);
  else
    r->e = r->in_header ? header_field(r, text, n) : row_field(r, text, n);
  r->field++;
}

static void on_row(int terminator, void *context) {
  (void)terminator;
  struct csv_run *r = context;
  if (r->e != ERR_OK)
    return;
  r->e = r->in_header ? header_end(r) : row_end(r);
  r->field = 0;
}

/* One line or a piece of a long one, so that callbacks know the line's number. */
static enum err feed(struct csv_run *r, const char *piece, size_t n) {
  if (memchr(piece, '\0', n) != NULL)
    return data_fault(at(r, 0), ERR_SYNTAX, "the line has a NUL byte; save the file as UTF-8 text");
  if (r->field == 0 && r->parser.entry_pos == 0)
    r->row_line = r->line;
  size_t n_parsed = csv_parse(&r->parser, piece, n, on_field, on_row, r);
  if (r->e != ERR_OK)
    return r->e;
  if (n_parsed != n)
    return csv_error(&r->parser) == CSV_ENOMEM
               ? data_fault(at_field(r), ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY))
               : data_fault(at_field(r), ERR_SYNTAX,
                            "a quote is out of place; quote the whole field, double inner quotes");
  if (r->parser.entry_pos > MAX_CSV_FIELD_BYTES)
    return data_fault(at_row(r), ERR_LIMIT, "the field is longer than %d bytes; is its quote closed?",
                      MAX_CSV_FIELD_BYTES);
  if (piece[n - 1] == '\n')
    r->line++;
  return ERR_OK;
}

static enum err feed_lines(struct csv_run *r, const char *bytes, size_t n) {
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

static enum err read_full(int fd, char *out, size_t capacity, size_t *out_n) {
  size_t n = 0;
  while (n < capacity) {
    ssize_t got = read(fd, out + n, capacity - n);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return err_from_errno(errno);
    if (got == 0)
      break;
    n += (size_t)got;
  }
  *out_n = n;
  return ERR_OK;
}

static enum err feed_file(struct csv_run *r, int fd) {
  char buffer[READ_BYTES];
  static const char mark[] = "\xef\xbb\xbf";
  for (bool first = true;; first = false) {
    size_t n = 0, skip = 0;
    enum err e = read_full(fd, buffer, READ_BYTES, &n);
    if (e != ERR_OK)
      return data_fault(at(r, 0), e, "reading failed: %s", err_sentence(e));
    if (first && n >= 3 && memcmp(buffer, mark, 3) == 0)
      skip = 3;
    e = feed_lines(r, buffer + skip, n - skip);
    if (e != ERR_OK || n < READ_BYTES)
      return e;
  }
}

static enum err finish(struct csv_run *r) {
  int failed = csv_fini(&r->parser, on_field, on_row, r);
  if (r->e != ERR_OK)
    return r->e;
  if (failed)
    return data_fault(at_row(r), ERR_SYNTAX, "the file ends inside a quoted field; close the quote");
  r->line = 0;
  if (r->in_header)
    return data_fault(at(r, 0), ERR_TRUNCATED, "it is empty; a header line and rows are needed");
  if (r->n_rows == 0)
    return data_fault(at(r, 0), ERR_TRUNCATED, "it has a header and no rows; add samples");
  return ERR_OK;
}

static enum err run_init(struct csv_run *r) {
  const struct contract *c = r->contract;
  if (c->n_features == 0)
    return data_fault(r->why, ERR_RANGE, "a CSV file needs `features` in the job file, which has an image instead");
  contract_range(c, &r->lo, &r->hi);
  r->has_parser = csv_init(&r->parser, CSV_STRICT | CSV_STRICT_FINI) == 0;
  r->columns = malloc(MAX_CSV_COLUMNS * sizeof *r->columns);
  r->found = calloc(c->n_features, sizeof *r->found);
  r->inputs = calloc(c->n_features, sizeof *r->inputs);
  r->group = malloc(MAX_CSV_FIELD_BYTES);
  r->group_column = SIZE_MAX;
  r->sample.floats = r->inputs;
  if (!r->has_parser || r->columns == NULL || r->found == NULL || r->inputs == NULL || r->group == NULL)
    return data_fault(r->why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  return ERR_OK;
}

static void run_done(struct csv_run *r) {
  free(r->group);
  free(r->inputs);
  free(r->found);
  free(r->columns);
  if (r->has_parser)
    csv_free(&r->parser);
}

enum err csv_read(const char *path, const struct contract *contract, const struct sample_sink *sink,
                  size_t *out_n_ignored_columns, struct data_place *why) {
  int fd;
  uint64_t n_file_bytes;
  enum err e = data_open(path, why, &fd, &n_file_bytes);
  if (e != ERR_OK)
    return e;
  struct csv_run r = {.contract = contract, .sink = sink, .why = why, .line = 1, .in_header = true};
  e = run_init(&r);
  if (e == ERR_OK)
    e = feed_file(&r, fd);
  if (e == ERR_OK)
    e = finish(&r);
  if (e == ERR_OK)
    *out_n_ignored_columns = r.n_ignored;
  run_done(&r);
  close(fd);
  return e;
}
