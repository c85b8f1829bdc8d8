/* One run of a prepared statement. Parameters are bound and columns read in order, with a sticky error, like the cursor
 * of base/bytes.h; query_end judges the whole and makes the statement ready for its next run.
 *
 *   struct query q = query_begin(d, SQL_JOB_FIND);
 *   bind_digest(&q, job);
 *   if (query_next(&q))
 *     *out_id = column_u64(&q);
 *   return query_end(&q);
 *
 * Bound bytes are borrowed until query_end. */
#ifndef STORE_QUERY_H
#define STORE_QUERY_H

#include <stdint.h>

#include "base/digest.h"
#include "store/database.h"

struct query {
  struct database *database;
  sqlite3_stmt *statement;
  int at;     /* parameters bound, then columns read */
  int result; /* of SQLite; the first that is not good stays */
};

struct query query_begin(struct database *d, enum statement which);
bool query_next(struct query *q); /* true: a row is there */
MUST_USE enum err query_end(struct query *q);
MUST_USE enum err query_run(struct query *q); /* for statements without rows: next and end */

void bind_u64(struct query *q, uint64_t v);
void bind_i64(struct query *q, int64_t v);
void bind_f64(struct query *q, double v); /* NULL when not a number */
void bind_null(struct query *q);
void bind_text(struct query *q, const char *text);
void bind_blob(struct query *q, const void *bytes, size_t n_bytes); /* NULL for NULL */
void bind_digest(struct query *q, const struct digest *digest);     /* NULL for zeros */

uint64_t column_u64(struct query *q);
int64_t column_i64(struct query *q);
double column_f64(struct query *q);                                       /* not a number for NULL */
void column_text(struct query *q, char *out_text, size_t capacity);       /* cut to fit */
bool column_fixed(struct query *q, void *out_bytes, size_t n_bytes);      /* false and zeros for NULL; else exactly n */
bool column_digest(struct query *q, struct digest *out_digest);           /* the same */
size_t column_blob(struct query *q, uint8_t *out_bytes, size_t capacity); /* its length, 0 for NULL */

/* Where a word stands in a list of stable names. ERR_CORRUPT: this version never wrote it. */
MUST_USE enum err word_find(const char *const *words, size_t n, const char *word, size_t *out_index);

#endif
