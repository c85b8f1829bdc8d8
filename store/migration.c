#include "store/migration.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "store/files.h"
#include "store/reason.h"

enum { APPLICATION_ID = 0x53746172 }; /* "Star" */

/* The SQL files, byte by byte, with a final NUL */
static const char schema_text[] = {
#include "store/schema_sql.inc"
};

static const char step_1_to_2[] = {
#include "store/step_1_to_2_sql.inc"
};

static const char step_2_to_3[] = {
#include "store/step_2_to_3_sql.inc"
};

static const char step_3_to_4[] = {
#include "store/step_3_to_4_sql.inc"
};

static const char *const steps[] = {step_1_to_2, step_2_to_3, step_3_to_4};

const struct schema schema_newest = {.create = schema_text, .steps = steps, .n_steps = sizeof steps / sizeof *steps};

struct version {
  sqlite3_int64 number, application, n_objects;
};

static enum err version_read(struct database *d, struct version *out_version) {
  enum err e = database_number(d, "PRAGMA user_version", &out_version->number);
  if (e == ERR_OK)
    e = database_number(d, "PRAGMA application_id", &out_version->application);
  if (e == ERR_OK)
    e = database_number(d, "SELECT count(*) FROM sqlite_schema", &out_version->n_objects);
  return e;
}

static bool is_new(const struct version *v) {
  return v->number == 0 && v->application == 0 && v->n_objects == 0;
}

/* Ours, and not newer than this program? */
static enum err version_judge(const struct version *v, const char *path, const struct schema *schema,
                              char out_why[MAX_REASON_BYTES]) {
  sqlite3_int64 newest = (sqlite3_int64)schema->n_steps + 1;
  if (v->application != APPLICATION_ID) {
    reason_set(out_why, "%s is the database of another program: choose another state directory", reason_path(path));
    return ERR_FOREIGN;
  }
  if (v->number > newest) {
    reason_set(out_why, "%s has version %lld and this program knows %lld: use the newer program, or its backup",
               reason_path(path), (long long)v->number, (long long)newest);
    return ERR_TOO_NEW;
  }
  return v->number >= 1 ? ERR_OK : database_explain(ERR_CORRUPT, path, out_why);
}

static enum err version_write(struct database *d, size_t number) {
  char sql[96];
  snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %zu", APPLICATION_ID, number);
  return database_run(d, sql);
}

/* SQLite leaves the copy in the kernel's hands. */
static enum err file_sync(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return files_errno(errno);
  enum err e = fsync(fd) == 0 ? ERR_OK : ERR_IO;
  close(fd);
  return e;
}

static enum err backup_write(struct database *d, const char *path, sqlite3_int64 version) {
  char backup[MAX_PATH_BYTES + 32];
  snprintf(backup, sizeof backup, "%s.v%lld.bak", path, (long long)version);
  if (unlink(backup) != 0 && errno != ENOENT) /* of an attempt that did not end */
    return files_errno(errno);
  char *sql = sqlite3_mprintf("VACUUM INTO %Q", backup);
  if (sql == NULL)
    return ERR_NO_MEMORY;
  enum err e = database_run(d, sql);
  sqlite3_free(sql);
  FAULT_POINT("backup-written");
  return e == ERR_OK ? file_sync(backup) : e;
}

static enum err steps_run(struct database *d, const struct schema *schema, size_t from_version) {
  enum err e = database_begin(d);
  if (e != ERR_OK)
    return e;
  for (size_t i = from_version - 1; e == ERR_OK && i < schema->n_steps; i++) {
    FAULT_POINT("migration-step");
    e = database_run(d, schema->steps[i]);
  }
  if (e == ERR_OK)
    e = version_write(d, schema->n_steps + 1);
  return database_end(d, e);
}

static enum err create_run(struct database *d, const struct schema *schema) {
  enum err e = database_begin(d);
  if (e != ERR_OK)
    return e;
  e = database_run(d, schema->create);
  if (e == ERR_OK)
    e = version_write(d, schema->n_steps + 1);
  return database_end(d, e);
}

enum err migration_run(struct database *d, const char *path, const struct schema *schema,
                       char out_why[MAX_REASON_BYTES]) {
  struct version v;
  enum err e = version_read(d, &v);
  if (e == ERR_OK && is_new(&v))
    e = create_run(d, schema);
  else if (e == ERR_OK && (e = version_judge(&v, path, schema, out_why)) != ERR_OK)
    return e;
  else if (e == ERR_OK && (size_t)v.number <= schema->n_steps)
    if ((e = backup_write(d, path, v.number)) == ERR_OK)
      e = steps_run(d, schema, (size_t)v.number);
  return e == ERR_OK ? ERR_OK : database_explain(e, path, out_why);
}

enum err migration_check(struct database *d, const char *path, const struct schema *schema,
                         char out_why[MAX_REASON_BYTES]) {
  struct version v;
  enum err e = version_read(d, &v);
  if (e != ERR_OK)
    return database_explain(e, path, out_why);
  if ((e = version_judge(&v, path, schema, out_why)) != ERR_OK)
    return e;
  if ((size_t)v.number == schema->n_steps + 1)
    return ERR_OK;
  reason_set(out_why, "%s has the older version %lld: start the agent once, it brings it up", reason_path(path),
             (long long)v.number);
  return ERR_UNSUPPORTED;
}
