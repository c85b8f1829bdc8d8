#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/must.h"
#include "store/filesystem.h"
#include "store/migration.h"
#include "store/reason.h"
#include "store/room.h"

enum { LOCK_RETRY_NS = 20 * 1000 * 1000, MAX_LOCK_TRIES = 100 /* two seconds */ };

/* What the steps of an opening share. */
struct opening {
  const struct store_config *config;
  struct store *store;
  char database_path[MAX_PATH_BYTES];
  bool created; /* the state directory is new */
  char *warning, *why;
};

static const char database_name[] = "state.db";
static const char log_name[] = "state.db-wal";

static enum err explain_errno(const struct opening *o, const char *what) {
  enum err e = files_errno(errno);
  reason_set(o->why, "%s%s: %s", reason_path(o->config->state_dir), what, strerror(errno));
  return e;
}

static enum err path_refused(const struct opening *o) {
  reason_set(o->why, "%s: the path of the state directory is longer than %d bytes: choose a shorter one",
             reason_path(o->config->state_dir), MAX_STATE_DIR_BYTES);
  return ERR_LIMIT;
}

static enum err step_path(struct opening *o) {
  int n = snprintf(o->database_path, sizeof o->database_path, "%s/%s", o->config->state_dir, database_name);
  return n > 0 && (size_t)n < sizeof o->database_path ? ERR_OK : path_refused(o);
}

static enum err step_create_directory(struct opening *o) {
  o->created = mkdir(o->config->state_dir, 0700) == 0;
  return o->created || errno == EEXIST ? ERR_OK : explain_errno(o, "");
}

static enum err step_open_directory(struct opening *o) {
  o->store->state_fd = open(o->config->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (o->store->state_fd < 0)
    return explain_errno(o, "");
  char *absolute = realpath(o->config->state_dir, NULL);
  bool is_long = absolute && strlen(absolute) > MAX_STATE_DIR_BYTES;
  free(absolute);
  return is_long ? path_refused(o) : ERR_OK;
}

static enum err step_filesystem(struct opening *o) {
  return filesystem_check(o->store->state_fd, o->config->state_dir, o->warning, o->why);
}

static enum err lock_refused(const struct opening *o) {
  char pid[16] = "";
  ssize_t n = pread(o->store->lock_fd, pid, sizeof pid - 1, 0);
  pid[n > 0 ? strspn(pid, "0123456789") : 0] = '\0';
  reason_set(o->why, "%s is in use by the agent with process id %s: stop it first", reason_path(o->config->state_dir),
             pid[0] != '\0' ? pid : "(unknown)");
  return ERR_LOCKED;
}

/* A verb without an agent holds it for a moment, and an agent that starts then must not end for that. */
static bool lock_patiently(int fd) {
  const struct timespec retry = {0, LOCK_RETRY_NS};
  bool is_mine = flock(fd, LOCK_EX | LOCK_NB) == 0;
  for (int i = 0; !is_mine && errno == EWOULDBLOCK && i < MAX_LOCK_TRIES; i++) {
    nanosleep(&retry, NULL);
    is_mine = flock(fd, LOCK_EX | LOCK_NB) == 0;
  }
  return is_mine;
}

/* The lock goes with the process, however it ends. Its text is for people; on a full disk it stays empty. */
static enum err step_lock(struct opening *o) {
  struct store *s = o->store;
  s->lock_fd = openat(s->state_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (s->lock_fd < 0)
    return explain_errno(o, "/lock");
  if (!lock_patiently(s->lock_fd))
    return errno == EWOULDBLOCK ? lock_refused(o) : explain_errno(o, "/lock");
  if (ftruncate(s->lock_fd, 0) == 0)
    dprintf(s->lock_fd, "%ld\n", (long)getpid());
  return ERR_OK;
}

static enum err step_files(struct opening *o) {
  enum err e = files_open(&o->store->files, o->store->state_fd, !o->store->read_only, o->config->digest);
  return e == ERR_OK ? ERR_OK : explain_errno(o, "/files");
}

static enum err database_create(struct opening *o) {
  if (files_any(&o->store->files)) {
    reason_set(o->why,
               "%s is missing or empty but files/ is not: put back a backup, or move the directory away to start "
               "again",
               reason_path(o->database_path));
    return ERR_CORRUPT;
  }
  int fd = openat(o->store->state_fd, database_name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return explain_errno(o, "/state.db");
  close(fd);
  return ERR_OK;
}

/* A first start makes the file, readable by its owner alone; a database that was lost is no first start. */
static enum err step_database_file(struct opening *o) {
  struct stat status;
  if (fstatat(o->store->state_fd, database_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT ? database_create(o) : explain_errno(o, "/state.db");
  if (!S_ISREG(status.st_mode)) {
    reason_set(o->why, "%s is not a regular file", reason_path(o->database_path));
    return ERR_CORRUPT;
  }
  return status.st_size == 0 ? database_create(o) : ERR_OK;
}

static enum err step_database(struct opening *o) {
  return database_open(&o->store->database, o->database_path, DATABASE_WRITE, o->why);
}

static enum err step_check(struct opening *o) {
  return database_check(&o->store->database, o->database_path, o->why);
}

static enum err step_migrate(struct opening *o) {
  return migration_run(&o->store->database, o->database_path, &schema_newest, o->why);
}

static enum err step_prepare(struct opening *o) {
  return database_prepare(&o->store->database, o->database_path, o->why);
}

/* out_epoch is 0 when the database has no owner yet. */
static enum err agent_read(struct store *s, uint8_t out_identity[32], uint64_t *out_epoch) {
  struct query q = query_begin(&s->database, SQL_AGENT_GET);
  bool found = query_next(&q) && column_fixed(&q, out_identity, 32);
  *out_epoch = found ? column_u64(&q) : 0;
  return query_end(&q);
}

static uint64_t epoch_after(uint64_t epoch, uint32_t lower) {
  return ((epoch >> 32) + 1) << 32 | lower;
}

static enum err step_identity(struct opening *o) {
  uint8_t identity[32];
  uint64_t epoch;
  enum err e = agent_read(o->store, identity, &epoch);
  if (e != ERR_OK)
    return database_explain(e, o->database_path, o->why);
  if (epoch != 0 && memcmp(identity, o->config->identity, sizeof identity) != 0) {
    reason_set(o->why, "%s belongs to another identity: use its key, or another state directory",
               reason_path(o->database_path));
    return ERR_FOREIGN;
  }
  o->store->epoch = epoch_after(epoch, o->config->random);
  return ERR_OK;
}

/* A start: a new boot epoch, and what was running was interrupted. */
static enum err start_body(struct store *s, const void *argument) {
  const uint8_t *identity = argument;
  struct query set = query_begin(&s->database, SQL_AGENT_SET);
  bind_blob(&set, identity, 32);
  bind_u64(&set, s->epoch);
  enum err e = query_run(&set);
  if (e != ERR_OK)
    return e;
  struct query interrupt = query_begin(&s->database, SQL_INTERRUPT);
  return query_run(&interrupt);
}

static enum err step_start(struct opening *o) {
  enum err e = room_transaction(o->store, start_body, o->config->identity);
  if (e == ERR_OK)
    e = database_checkpoint(&o->store->database);
  return e == ERR_OK ? ERR_OK : database_explain(e, o->database_path, o->why);
}

static enum err directory_sync(const struct opening *o, const char *name) {
  int fd = openat(o->store->state_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return explain_errno(o, "");
  enum err e = fsync(fd) == 0 ? ERR_OK : explain_errno(o, "");
  close(fd);
  return e;
}

/* The names in the state directory, and its own when it is new. */
static enum err step_sync(struct opening *o) {
  enum err e = directory_sync(o, ".");
  return e == ERR_OK && o->created ? directory_sync(o, "..") : e;
}

static bool log_is_empty(const struct store *s) {
  struct stat status;
  return fstatat(s->state_fd, log_name, &status, 0) != 0 || status.st_size == 0;
}

/* Reading needs the index of the log, state.db-shm, which SQLite cannot make on a read-only file system. Without a log
 * nobody writes and the main file is the whole truth. */
static enum err step_database_read(struct opening *o) {
  struct database *d = &o->store->database;
  enum err e = database_open(d, o->database_path, DATABASE_READ, o->why);
  if (e != ERR_READ_ONLY && e != ERR_PERMISSION && e != ERR_NOT_FOUND)
    return e;
  if (faccessat(o->store->state_fd, database_name, R_OK, 0) != 0)
    return explain_errno(o, "/state.db");
  if (!log_is_empty(o->store)) {
    reason_set(o->why,
               "%s: its log holds rounds and cannot be read on a read-only file system: copy the directory to a "
               "writable one",
               reason_path(o->database_path));
    return ERR_READ_ONLY;
  }
  database_close(d);
  o->why[0] = '\0';
  return database_open(d, o->database_path, DATABASE_READ_IMMUTABLE, o->why);
}

static enum err step_version(struct opening *o) {
  return migration_check(&o->store->database, o->database_path, &schema_newest, o->why);
}

static enum err step_epoch(struct opening *o) {
  uint8_t identity[32];
  enum err e = agent_read(o->store, identity, &o->store->epoch);
  return e == ERR_OK ? ERR_OK : database_explain(e, o->database_path, o->why);
}

typedef enum err opening_step(struct opening *o);

static opening_step *const write_steps[] = {
    step_path,    step_create_directory, step_open_directory, step_filesystem, step_lock,
    step_files,   step_database_file,    step_database,       step_check,      step_migrate,
    step_prepare, step_identity,         step_sync,           step_start,
};

static opening_step *const read_steps[] = {
    step_path, step_open_directory, step_files, step_database_read, step_version, step_prepare, step_epoch,
};

static enum err store_open_by(opening_step *const *steps, size_t n_steps, struct opening *o, struct store **out_store) {
  struct store *s = calloc(1, sizeof *s);
  if (s == NULL)
    return ERR_NO_MEMORY;
  s->state_fd = s->lock_fd = s->files.dir_fd = -1;
  s->keep_last = o->config->keep_last;
  s->keep_best = o->config->keep_best;
  s->max_bytes = o->config->max_bytes;
  s->read_only = steps == read_steps;
  o->store = s;
  for (size_t i = 0; i < n_steps; i++) {
    enum err e = steps[i](o);
    FAULT_POINT("opening-step");
    if (e != ERR_OK) {
      store_close(s);
      return e;
    }
  }
  *out_store = s;
  return ERR_OK;
}

enum err store_open(const struct store_config *config, struct store **out_store, char out_warning[MAX_REASON_BYTES],
                    char out_why[MAX_REASON_BYTES]) {
  MUST(config->keep_last >= 1);
  struct opening o = {.config = config, .warning = out_warning, .why = out_why};
  out_warning[0] = out_why[0] = '\0';
  return store_open_by(write_steps, sizeof write_steps / sizeof *write_steps, &o, out_store);
}

enum err store_open_read_only(const char *state_dir, const struct digest_fn *digest, struct store **out_store,
                              char out_why[MAX_REASON_BYTES]) {
  struct store_config config = {.state_dir = state_dir, .digest = digest, .keep_last = 1};
  struct opening o = {.config = &config, .why = out_why};
  out_why[0] = '\0';
  return store_open_by(read_steps, sizeof read_steps / sizeof *read_steps, &o, out_store);
}

void store_close(struct store *s) {
  if (s == NULL)
    return;
  database_close(&s->database);
  files_close(&s->files);
  if (s->lock_fd >= 0)
    close(s->lock_fd);
  if (s->state_fd >= 0)
    close(s->state_fd);
  free(s);
}

enum err store_identity(struct store *s, uint8_t out_identity[32]) {
  uint8_t identity[32];
  uint64_t epoch;
  enum err e = agent_read(s, identity, &epoch);
  if (e == ERR_OK && epoch == 0)
    e = ERR_NOT_FOUND;
  if (e == ERR_OK)
    memcpy(out_identity, identity, sizeof identity);
  return e;
}

uint64_t store_boot_epoch(const struct store *s) {
  return s->epoch;
}

static enum err epoch_body(struct store *s, const void *argument) {
  const uint64_t *epoch = argument;
  struct query q = query_begin(&s->database, SQL_EPOCH_SET);
  bind_u64(&q, *epoch);
  return query_run(&q);
}

enum err store_raise_epoch(struct store *s, uint64_t above, uint64_t *out_epoch) {
  uint64_t highest = above > s->epoch ? above : s->epoch;
  if (highest >> 32 >= INT32_MAX)
    return ERR_RANGE;
  uint64_t epoch = epoch_after(highest, (uint32_t)s->epoch);
  enum err e = room_transaction(s, epoch_body, &epoch);
  if (e == ERR_OK)
    *out_epoch = s->epoch = epoch;
  return e;
}
