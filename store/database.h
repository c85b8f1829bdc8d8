/* SQLite, set up so that a committed transaction survives a power cut and a damaged file cannot do harm: WAL with
 * synchronous=FULL, foreign keys and defensive settings, each read back, and small limits. */
#ifndef STORE_DATABASE_H
#define STORE_DATABASE_H

#include <sqlite3.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/limits.h"
#include "store/statements.h"

struct database {
  sqlite3 *sqlite;
  sqlite3_stmt *statements[N_STATEMENTS];
};

enum database_mode { DATABASE_WRITE, DATABASE_READ, DATABASE_READ_IMMUTABLE };

/* Opens an existing file (which may be empty) and checks its settings; statements are not prepared yet. ERR_CORRUPT when
 * it is no database, ERR_LOCKED when another program holds it, ERR_UNSUPPORTED when a setting does not hold. The object
 * is to be closed in every case. */
MUST_USE enum err database_open(struct database *d, const char *path, enum database_mode mode,
                                char out_why[MAX_REASON_BYTES]);
void database_close(struct database *d);

/* The whole file is read and judged. */
MUST_USE enum err database_check(struct database *d, const char *path, char out_why[MAX_REASON_BYTES]);

/* Prepares every statement; ERR_CORRUPT when the tables are not those of this version. */
MUST_USE enum err database_prepare(struct database *d, const char *path, char out_why[MAX_REASON_BYTES]);

/* Moves what the log holds into the main file, so that a lost log cannot take it back. */
MUST_USE enum err database_checkpoint(struct database *d);

/* A transaction that writes: begun at once, ended by committing when e is ERR_OK and by taking back otherwise. */
MUST_USE enum err database_begin(struct database *d);
MUST_USE enum err database_end(struct database *d, enum err e);

/* SQL without parameters or results; an integer result of one row. */
MUST_USE enum err database_run(struct database *d, const char *sql);
MUST_USE enum err database_number(struct database *d, const char *sql, sqlite3_int64 *out_number);

/* The error for an SQLite result code that d just returned. */
enum err database_error(const struct database *d, int result);

/* Says in words what opening ran into; returns e, with ERR_BUSY as ERR_LOCKED. */
enum err database_explain(enum err e, const char *path, char out_why[MAX_REASON_BYTES]);

#endif
