#include "store/query.h"

#include <stdio.h>
#include <string.h>

#include "base/must.h"

static bool is_good(int result) {
  return result == SQLITE_OK || result == SQLITE_ROW || result == SQLITE_DONE;
}

static void query_note(struct query *q, int result) {
  if (is_good(q->result))
    q->result = result;
}

struct query query_begin(struct database *d, enum statement which) {
  MUST(d->statements[which] != NULL && !sqlite3_stmt_busy(d->statements[which]));
  return (struct query){.database = d, .statement = d->statements[which]};
}

bool query_next(struct query *q) {
  if (is_good(q->result) && q->result != SQLITE_DONE)
    q->result = sqlite3_step(q->statement);
  q->at = 0;
  return q->result == SQLITE_ROW;
}

enum err query_end(struct query *q) {
  enum err e = database_error(q->database, q->result);
  sqlite3_reset(q->statement);
  sqlite3_clear_bindings(q->statement);
  return e;
}

enum err query_run(struct query *q) {
  (void)query_next(q);
  return query_end(q);
}

void bind_u64(struct query *q, uint64_t v) {
  bind_i64(q, (int64_t)v);
}

void bind_i64(struct query *q, int64_t v) {
  query_note(q, sqlite3_bind_int64(q->statement, ++q->at, v));
}

void bind_f64(struct query *q, double v) {
  query_note(q, sqlite3_bind_double(q->statement, ++q->at, v));
}

void bind_null(struct query *q) {
  query_note(q, sqlite3_bind_null(q->statement, ++q->at));
}

void bind_text(struct query *q, const char *text) {
  query_note(q, sqlite3_bind_text(q->statement, ++q->at, text, -1, SQLITE_STATIC));
}

void bind_blob(struct query *q, const void *bytes, size_t n_bytes) {
  query_note(q, sqlite3_bind_blob64(q->statement, ++q->at, bytes, n_bytes, SQLITE_STATIC));
}

void bind_digest(struct query *q, const struct digest *digest) {
  bind_blob(q, digest_is_zero(digest) ? NULL : digest->bytes, DIGEST_BYTES);
}

uint64_t column_u64(struct query *q) {
  return (uint64_t)column_i64(q);
}

int64_t column_i64(struct query *q) {
  return sqlite3_column_int64(q->statement, q->at++);
}

double column_f64(struct query *q) {
  int column = q->at++;
  if (sqlite3_column_type(q->statement, column) == SQLITE_NULL)
    return __builtin_nan("");
  return sqlite3_column_double(q->statement, column);
}

void column_text(struct query *q, char *out_text, size_t capacity) {
  const unsigned char *text = sqlite3_column_text(q->statement, q->at++);
  snprintf(out_text, capacity, "%s", text != NULL ? (const char *)text : "");
}

bool column_fixed(struct query *q, void *out_bytes, size_t n_bytes) {
  int column = q->at++;
  const void *bytes = sqlite3_column_blob(q->statement, column);
  if (bytes != NULL && (size_t)sqlite3_column_bytes(q->statement, column) == n_bytes) {
    memcpy(out_bytes, bytes, n_bytes);
    return true;
  }
  if (bytes != NULL)
    q->result = SQLITE_CORRUPT;
  memset(out_bytes, 0, n_bytes);
  return false;
}

bool column_digest(struct query *q, struct digest *out_digest) {
  return column_fixed(q, out_digest->bytes, DIGEST_BYTES);
}

size_t column_blob(struct query *q, uint8_t *out_bytes, size_t capacity) {
  int column = q->at++;
  const void *bytes = sqlite3_column_blob(q->statement, column);
  size_t n_bytes = (size_t)sqlite3_column_bytes(q->statement, column);
  if (n_bytes > capacity) {
    q->result = SQLITE_CORRUPT;
    return 0;
  }
  if (n_bytes > 0)
    memcpy(out_bytes, bytes, n_bytes);
  return n_bytes;
}

enum err word_find(const char *const *words, size_t n, const char *word, size_t *out_index) {
  for (size_t i = 0; i < n; i++) {
    if (strcmp(words[i], word) == 0) {
      *out_index = i;
      return ERR_OK;
    }
  }
  return ERR_CORRUPT;
}
