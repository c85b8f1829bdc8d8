/* Tables: rows of JSON objects seen through a list of columns.
 *
 * For people the columns are aligned and values have units (accuracies in percent, 2.9 MB, 3m10s); as TSV the same columns
 * come without heading and with the values as they stand in the JSON. Missing and null are "-". */
#ifndef AGENT_CLI_TABLE_H
#define AGENT_CLI_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum column_form {
  FORM_TEXT,
  FORM_COUNT,    /* whole number */
  FORM_LOSS,     /* four significant digits */
  FORM_PERCENT,  /* of a fraction */
  FORM_SCORE,    /* three decimals */
  FORM_HEADLINE, /* by the "metric" beside it: accuracy in percent, others as a score */
  FORM_BYTES,    /* 1 kB = 1000 B */
  FORM_DURATION, /* seconds */
};

/* TSV has every column, so that its lines keep their shape; for people a table must fit a terminal. */
enum column_need {
  COLUMN_FORM = 0xf,      /* the bits of the form */
  COLUMN_IF_ANY = 1 << 4, /* for people only where a row has something in it: not "-", 0 or no */
  COLUMN_IN_TSV = 1 << 5, /* never for people: the view says it in another way, or JSON is the place for it */
};

struct column {
  const char *heading;
  const char *key; /* "job.round": a path through objects; "a|b": b where a is blank */
  unsigned form;   /* enum column_form, | COLUMN_… when it is not seen always */
};

/* The value at a path, borrowed; NULL when it is not there. */
const json_t *json_at(const json_t *object, const char *path);

/* How a headline is printed that stands at a path: its metric stands beside it. */
enum column_form headline_form(const json_t *row, const char *path);

/* One value as people read it. */
void value_print(const json_t *value, enum column_form form, FILE *out);

/* Columns that the first n_bytes of a text take: characters, of which those beyond ASCII are taken as one each. */
size_t text_width(const char *text, size_t n_bytes);

/* Columns of the terminal that `out` is; 0 when it is none. */
size_t terminal_width(FILE *out);

/* A text in lines of at most `width` columns that begin at column `indent`, where the first one stands already; broken at
 * blanks; width 0: one line. Ends with a new line. */
void text_flow(const char *text, size_t indent, size_t width, FILE *out);

/* Prints the rows. On a terminal a text in the last column goes on in lines of its own. */
void table_print(const struct column *columns, size_t n_columns, const json_t *rows, bool is_tsv, FILE *out);

#endif
