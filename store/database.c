#include "store/database.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/fault_point.h"
#include "base/must.h"
#include "store/files.h"
#include "store/reason.h"

enum { BUSY_TIMEOUT_MS = 2000, URI_BYTES = 3 * MAX_PATH_BYTES + 32 };

static const char *const statement_texts[N_STATEMENTS] = {
#define X(symbol, text) [SQL_##symbol] = (text),
    STATEMENT_LIST(X)
#undef X
};

/* What every connection sets and then reads back. */
static const struct {
  const char *name, *value, *read_back;
  bool writer_only;
} pragmas[] = {
    {"journal_mode", "WAL", "wal", true},
    {"synchronous", "FULL", "2", false},
    {"foreign_keys", "ON", "1", false},
    {"trusted_schema", "OFF", "0", false},
    {"cell_size_check", "ON", "1", false},
    {"mmap_size", "0", "0", false},
    {"temp_store", "MEMORY", "2", false},
    {"wal_autocheckpoint", "1000", "1000", true},
    {"journal_size_limit", "8388608", "8388608", true},
};

static const struct {
  int option, value;
} switches[] = {
    {SQLITE_DBCONFIG_DEFENSIVE, 1},
    {SQLITE_DBCONFIG_ENABLE_FKEY, 1},
    {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
    {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
    {SQLITE_DBCONFIG_DQS_DDL, 0},
    {SQLITE_DBCONFIG_DQS_DML, 0},
};

static const struct {
  int id, value;
} limits[] = {
    {SQLITE_LIMIT_LENGTH, 1 << 20},     {SQLITE_LIMIT_SQL_LENGTH, 1 << 16}, {SQLITE_LIMIT_COLUMN, 64},
    {SQLITE_LIMIT_EXPR_DEPTH, 64},      {SQLITE_LIMIT_COMPOUND_SELECT, 8},  {SQLITE_LIMIT_FUNCTION_ARG, 8},
    {SQLITE_LIMIT_VARIABLE_NUMBER, 32}, {SQLITE_LIMIT_ATTACHED, 1},         {SQLITE_LIMIT_TRIGGER_DEPTH, 4},
    {SQLITE_LIMIT_WORKER_THREADS, 0},
};

static const struct {
  int result;
  enum err e;
} errors[] = {
    {SQLITE_OK, ERR_OK},
    {SQLITE_ROW, ERR_OK},
    {SQLITE_DONE, ERR_OK},
    {SQLITE_FULL, ERR_NO_SPACE},
    {SQLITE_READONLY, ERR_READ_ONLY},
    {SQLITE_NOMEM, ERR_NO_MEMORY},
    {SQLITE_CORRUPT, ERR_CORRUPT},
    {SQLITE_NOTADB, ERR_CORRUPT},
    {SQLITE_ERROR, ERR_CORRUPT}, /* the statement does not fit the tables */
    {SQLITE_SCHEMA, ERR_CORRUPT},
    {SQLITE_MISMATCH, ERR_CORRUPT},
    {SQLITE_CONSTRAINT, ERR_EXISTS},
    {SQLITE_BUSY, ERR_BUSY},
    {SQLITE_LOCKED, ERR_BUSY},
    {SQLITE_TOOBIG, ERR_LIMIT},
    {SQLITE_PERM, ERR_PERMISSION},
    {SQLITE_AUTH, ERR_PERMISSION},
};

/* The errno of the write that failed last, of the log or else of the main file. */
static int write_errno(const struct database *d) {
  sqlite3_file *log = NULL;
  int errno_value = 0;
  sqlite3_file_control(d->sqlite, NULL, SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (log != NULL && log->pMethods != NULL)
    log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &errno_value);
  if (errno_value == 0)
    sqlite3_file_control(d->sqlite, NULL, SQLITE_FCNTL_LAST_ERRNO, &errno_value);
  return errno_value;
}

/* A write that met a full or read-only disk happens before anything is synced: the database is as it was. So is the index
 * of the log, which is rebuilt at need. */
static enum err io_error(const struct database *d, int result) {
  if (result == SQLITE_IOERR_SHMSIZE)
    return ERR_NO_SPACE;
  enum err cause = result == SQLITE_IOERR_WRITE ? files_errno(write_errno(d)) : ERR_IO;
  return cause == ERR_NO_SPACE || cause == ERR_READ_ONLY ? cause : ERR_IO;
}

enum err database_error(const struct database *d, int result) {
  MUST((result & 0xff) != SQLITE_MISUSE && (result & 0xff) != SQLITE_RANGE);
  if ((result & 0xff) == SQLITE_CANTOPEN)
    return files_errno(sqlite3_system_errno(d->sqlite));
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].result == (result & 0xff))
      return errors[i].e;
  return io_error(d, result);
}

enum err database_explain(enum err e, const char *path, char out_why[MAX_REASON_BYTES]) {
  const char *shown = reason_path(path);
  switch (e) {
  case ERR_CORRUPT:
    reason_set(out_why, "%s is damaged: put back a backup, or move its directory away to start again", shown);
    return e;
  case ERR_BUSY:
    reason_set(out_why, "%s is held by another program: close it", shown);
    return ERR_LOCKED;
  case ERR_NO_SPACE:
    reason_set(out_why, "%s: no space left on the device: free some, the agent then goes on", shown);
    return e;
  case ERR_READ_ONLY:
    reason_set(out_why, "%s is on a read-only file system: mount it writable", shown);
    return e;
  case ERR_PERMISSION:
    reason_set(out_why, "%s: access is not allowed: run as its owner", shown);
    return e;
  default:
    reason_set(out_why, "%s: %s", shown, err_sentence(e));
    return e;
  }
}

enum err database_run(struct database *d, const char *sql) {
  return database_error(d, sqlite3_exec(d->sqlite, sql, NULL, NULL, NULL));
}

/* Prepared, or before database_prepare by its text. */
static enum err run_once(struct database *d, enum statement which) {
  sqlite3_stmt *statement = d->statements[which];
  if (statement == NULL)
    return database_run(d, statement_texts[which]);
  enum err e = database_error(d, sqlite3_step(statement));
  sqlite3_reset(statement);
  return e;
}

enum err database_begin(struct database *d) {
  return run_once(d, SQL_BEGIN);
}

enum err database_end(struct database *d, enum err e) {
  FAULT_POINT("commit-begins");
  if (e == ERR_OK)
    e = run_once(d, SQL_COMMIT);
  if (!sqlite3_get_autocommit(d->sqlite)) /* SQLite may have taken it back by itself */
    sqlite3_exec(d->sqlite, "ROLLBACK", NULL, NULL, NULL);
  return e;
}

/* The text of the first column of the first row, "" when there is none. */
static enum err database_text(struct database *d, const char *sql, char *out_text, size_t capacity) {
  sqlite3_stmt *statement = NULL;
  int result = sqlite3_prepare_v2(d->sqlite, sql, -1, &statement, NULL);
  if (result == SQLITE_OK)
    result = sqlite3_step(statement);
  if (result == SQLITE_ROW || result == SQLITE_DONE) {
    const unsigned char *text = result == SQLITE_ROW ? sqlite3_column_text(statement, 0) : NULL;
    snprintf(out_text, capacity, "%s", text != NULL ? (const char *)text : "");
    if (text == NULL && sqlite3_errcode(d->sqlite) == SQLITE_NOMEM)
      result = SQLITE_NOMEM;
  }
  enum err e = database_error(d, result);
  sqlite3_finalize(statement);
  return e;
}

enum err database_number(struct database *d, const char *sql, sqlite3_int64 *out_number) {
  sqlite3_stmt *statement = NULL;
  int result = sqlite3_prepare_v2(d->sqlite, sql, -1, &statement, NULL);
  if (result == SQLITE_OK)
    result = sqlite3_step(statement);
  if (result == SQLITE_ROW)
    *out_number = sqlite3_column_int64(statement, 0);
  enum err e = database_error(d, result);
  sqlite3_finalize(statement);
  return e;
}

static enum err pragma_set(struct database *d, size_t i, char out_why[MAX_REASON_BYTES]) {
  char sql[64], text[64];
  snprintf(sql, sizeof sql, "PRAGMA %s = %s", pragmas[i].name, pragmas[i].value);
  enum err e = database_run(d, sql);
  if (e != ERR_OK)
    return e;
  snprintf(sql, sizeof sql, "PRAGMA %s", pragmas[i].name);
  if ((e = database_text(d, sql, text, sizeof text)) != ERR_OK)
    return e;
  if (strcmp(text, pragmas[i].read_back) == 0)
    return ERR_OK;
  reason_set(out_why, "SQLite %s does not keep %s=%s here (it says \"%s\"): move the state directory to a local disk",
             sqlite3_libversion(), pragmas[i].name, pragmas[i].value, text);
  return ERR_UNSUPPORTED;
}

static enum err switch_set(struct database *d, size_t i, char out_why[MAX_REASON_BYTES]) {
  int now = -1;
  if (sqlite3_db_config(d->sqlite, switches[i].option, switches[i].value, &now) == SQLITE_OK &&
      now == switches[i].value)
    return ERR_OK;
  reason_set(out_why, "SQLite %s does not keep its safety switch %d at %d: use another version", sqlite3_libversion(),
             switches[i].option, switches[i].value);
  return ERR_UNSUPPORTED;
}

static enum err settings_set(struct database *d, bool writes, char out_why[MAX_REASON_BYTES]) {
  for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
    enum err e = switch_set(d, i, out_why);
    if (e != ERR_OK)
      return e;
  }
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
    sqlite3_limit(d->sqlite, limits[i].id, limits[i].value);
  for (size_t i = 0; i < sizeof pragmas / sizeof *pragmas; i++) {
    enum err e = writes || !pragmas[i].writer_only ? pragma_set(d, i, out_why) : ERR_OK;
    if (e != ERR_OK)
      return e;
  }
  return ERR_OK;
}

/* A path as an SQLite URI: what has a meaning there is escaped. */
static bool uri_write(const char *path, const char *query, char *out_uri, size_t capacity) {
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-";
  size_t n = (size_t)snprintf(out_uri, capacity, *path == '/' ? "file://" : "file:");
  for (; *path != '\0' && n + strlen(query) + 4 < capacity; path++) {
    if (strchr(plain, *path) != NULL)
      out_uri[n++] = *path;
    else
      n += (size_t)snprintf(out_uri + n, capacity - n, "%%%02X", (unsigned)(unsigned char)*path);
  }
  snprintf(out_uri + n, capacity - n, "%s", query);
  return *path == '\0';
}

enum err database_open(struct database *d, const char *path, enum database_mode mode, char out_why[MAX_REASON_BYTES]) {
  static const struct {
    const char *query;
    int flags;
  } modes[] = {
      [DATABASE_WRITE] = {"", SQLITE_OPEN_READWRITE},
      [DATABASE_READ] = {"", SQLITE_OPEN_READONLY},
      [DATABASE_READ_IMMUTABLE] = {"?immutable=1", SQLITE_OPEN_READONLY},
  };
  char uri[URI_BYTES];
  sqlite3_int64 version;
  *d = (struct database){0};
  if (!uri_write(path, modes[mode].query, uri, sizeof uri))
    return database_explain(ERR_LIMIT, path, out_why);
  int flags = modes[mode].flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  enum err e = database_error(d, sqlite3_open_v2(uri, &d->sqlite, flags, NULL));
  if (e == ERR_OK)
    sqlite3_busy_timeout(d->sqlite, BUSY_TIMEOUT_MS); /* the first read may meet a reader that restores the log */
  if (e == ERR_OK)
    e = database_number(d, "PRAGMA user_version", &version); /* the first read: locks, log, header */
  if (e == ERR_OK)
    e = settings_set(d, mode == DATABASE_WRITE, out_why);
  return e == ERR_OK || e == ERR_UNSUPPORTED ? e : database_explain(e, path, out_why);
}

void database_close(struct database *d) {
  for (size_t i = 0; i < N_STATEMENTS; i++)
    sqlite3_finalize(d->statements[i]);
  sqlite3_close(d->sqlite);
  *d = (struct database){0};
}

enum err database_check(struct database *d, const char *path, char out_why[MAX_REASON_BYTES]) {
  char verdict[64] = "";
  enum err e = ERR_OK;
  for (int i = 0; i < 2 && e == ERR_OK && strcmp(verdict, "ok") != 0; i++) /* a want of memory passes, damage stays */
    e = database_text(d, "PRAGMA integrity_check(1)", verdict, sizeof verdict);
  if (e == ERR_OK && strcmp(verdict, "ok") != 0)
    e = ERR_CORRUPT;
  return e == ERR_OK ? ERR_OK : database_explain(e, path, out_why);
}

enum err database_prepare(struct database *d, const char *path, char out_why[MAX_REASON_BYTES]) {
  for (size_t i = 0; i < N_STATEMENTS; i++) {
    int result =
        sqlite3_prepare_v3(d->sqlite, statement_texts[i], -1, SQLITE_PREPARE_PERSISTENT, &d->statements[i], NULL);
    if (result != SQLITE_OK)
      return database_explain(database_error(d, result), path, out_why);
  }
  return ERR_OK;
}

enum err database_checkpoint(struct database *d) {
  int result = sqlite3_wal_checkpoint_v2(d->sqlite, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
  enum err e = database_error(d, result);
  return e == ERR_BUSY || e == ERR_NO_SPACE ? ERR_OK : e; /* a reader or a full disk only postpones it */
}
