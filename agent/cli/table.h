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

struct column {
  const char *heading;
  const char *key; /* "job.round": a path through objects */
  enum column_form form;
};

/* The value at a path, borrowed; NULL when it is not there. */
const json_t *json_at(const json_t *object, const char *path);

/* How a headline is printed that stands at a path: its metric stands beside it. */
enum column_form headline_form(const json_t *row, const char *path);

/* One value as people read it. */
void value_print(const json_t *value, enum column_form form, FILE *out);

void table_print(const struct column *columns, size_t n_columns, const json_t *rows, bool is_tsv, FILE *out);

#endif
