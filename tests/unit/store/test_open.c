/* Opening: who may, what is refused and in which words, what readers see. */
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "tests/unit/store/fixture.h"
#include "tests/unit/suite.h"

static void sql_run(const char *path, const char *sql) {
  sqlite3 *db = NULL;
  ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
  ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
}

static sqlite3_int64 sql_number(const char *path, const char *sql) {
  sqlite3 *db = NULL;
  sqlite3_stmt *statement = NULL;
  ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
  sqlite3_int64 number = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return number;
}

static void assert_refused(struct fixture *f, enum err expected, const char *word) {
  struct store *s = NULL;
  ck_assert_int_eq(fixture_try(f, 7, &s), expected);
  ck_assert_ptr_null(s);
  ck_assert_msg(strstr(f->why, word) != NULL, "\"%s\" is not in: %s", word, f->why);
}

/* Leaves a store behind as kill -9 does: log and all. */
static void rounds_run_and_die(struct fixture *f, uint64_t last) {
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    struct store *s = NULL;
    if (fixture_try(f, 7, &s) != ERR_OK)
      _exit(1);
    for (uint64_t r = 1; r <= last; r++)
      if (round_publish(s, r, r) != ERR_OK || round_commit(s, r) != ERR_OK)
        _exit(1);
    raise(SIGSTOP);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
  ck_assert(WIFSTOPPED(status));
  kill(child, SIGKILL);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
}

START_TEST(a_first_start_makes_private_files) {
  struct fixture f = fixture_new();
  umask(0);
  store_close(fixture_open(&f));
  static const struct {
    const char *name;
    mode_t mode;
  } made[] = {{"", 0700}, {"files", 0700}, {"state.db", 0600}, {"lock", 0600}};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
    struct stat status;
    ck_assert_int_eq(stat(fixture_path(&f, made[i].name), &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, made[i].mode);
  }
  fixture_free(&f);
}
END_TEST

START_TEST(the_boot_epoch_rises_at_every_start) {
  struct fixture f = fixture_new();
  for (uint64_t start = 1; start <= 3; start++) {
    struct store *s = fixture_open(&f);
    ck_assert_uint_eq(store_boot_epoch(s), start << 32 | 0xc0ffee);
    store_close(s);
  }
  fixture_free(&f);
}
END_TEST

START_TEST(the_boot_epoch_can_be_raised) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  uint64_t epoch = 0;
  ck_assert_int_eq(store_raise_epoch(s, 41ULL << 32 | 5, &epoch), ERR_OK);
  ck_assert_uint_eq(epoch, 42ULL << 32 | 0xc0ffee);
  ck_assert_uint_eq(store_boot_epoch(s), epoch);
  ck_assert_int_eq(store_raise_epoch(s, 1, &epoch), ERR_OK); /* never lower */
  ck_assert_uint_eq(epoch >> 32, 43);
  ck_assert_int_eq(store_raise_epoch(s, UINT64_MAX, &epoch), ERR_RANGE);
  store_close(s);
  s = fixture_open(&f);
  ck_assert_uint_eq(store_boot_epoch(s) >> 32, 44);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(a_lost_log_does_not_bring_an_epoch_back) {
  struct fixture f = fixture_new();
  rounds_run_and_die(&f, 2);
  ck_assert_int_eq(unlink(fixture_path(&f, "state.db-wal")), 0);
  struct store *s = fixture_open(&f);
  ck_assert_uint_eq(store_boot_epoch(s) >> 32, 2);
  ck_assert_int_eq(resume_at(s).at, RESUME_FRESH); /* rolled back, and consistent */
  ck_assert_uint_eq(resume_at(s).sequence, 0);
  rounds_run(s, 1, 2);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(a_second_agent_is_locked_out_by_name) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  char pid[16];
  snprintf(pid, sizeof pid, "%ld", (long)getpid());
  assert_refused(&f, ERR_LOCKED, pid);
  store_close(s);
  store_close(fixture_open(&f));
  fixture_free(&f);
}
END_TEST

START_TEST(another_program_at_the_database_is_named) {
  struct fixture f = fixture_new();
  store_close(fixture_open(&f));
  sqlite3 *db = NULL;
  ck_assert_int_eq(sqlite3_open(fixture_path(&f, "state.db"), &db), SQLITE_OK);
  ck_assert_int_eq(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  assert_refused(&f, ERR_LOCKED, "another program");
  sqlite3_close(db);
  store_close(fixture_open(&f));
  fixture_free(&f);
}
END_TEST

/* In a child: holds the database so that nobody else may even read, says so, and lets go after a moment. */
static pid_t hold_for_a_moment(const char *path) {
  int said[2];
  char byte;
  ck_assert_int_eq(pipe(said), 0);
  pid_t pid = fork();
  if (pid == 0) {
    sqlite3 *db = NULL;
    bool holds =
        sqlite3_open(path, &db) == SQLITE_OK &&
        sqlite3_exec(db, "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT", NULL, NULL, NULL) == SQLITE_OK;
    holds = write(said[1], "x", holds) == 1;
    usleep(500000);
    sqlite3_close(db);
    _exit(!holds);
  }
  close(said[1]);
  ck_assert_int_eq(read(said[0], &byte, 1), 1);
  close(said[0]);
  return pid;
}

/* As a reader does that restores the log after a crash, just when the agent starts again. */
START_TEST(who_holds_the_database_for_a_moment_is_waited_for) {
  struct fixture f = fixture_new();
  int status;
  store_close(fixture_open(&f));
  pid_t pid = hold_for_a_moment(fixture_path(&f, "state.db"));
  store_close(fixture_open(&f));
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert_int_eq(status, 0);
  fixture_free(&f);
}
END_TEST

/* As a verb does that writes without an agent, just when the agent starts. */
START_TEST(who_holds_the_lock_for_a_moment_is_waited_for) {
  struct fixture f = fixture_new();
  int said[2], status;
  char byte;
  ck_assert_int_eq(pipe(said), 0);
  store_close(fixture_open(&f));
  pid_t pid = fork();
  if (pid == 0) {
    struct store *s = NULL;
    bool holds = fixture_try(&f, 7, &s) == ERR_OK;
    holds = write(said[1], "x", holds) == 1;
    usleep(300000);
    store_close(s);
    _exit(!holds);
  }
  close(said[1]);
  ck_assert_int_eq(read(said[0], &byte, 1), 1);
  close(said[0]);
  store_close(fixture_open(&f));
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert_int_eq(status, 0);
  fixture_free(&f);
}
END_TEST

START_TEST(another_identity_is_foreign) {
  struct fixture f = fixture_new();
  store_close(fixture_open(&f));
  struct store *s = NULL;
  ck_assert_int_eq(fixture_try(&f, 8, &s), ERR_FOREIGN);
  ck_assert_ptr_nonnull(strstr(f.why, "another identity"));
  s = fixture_open(&f);
  ck_assert_uint_eq(store_boot_epoch(s) >> 32, 2); /* the refused one used none */
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(another_programs_database_is_foreign) {
  struct fixture f = fixture_new();
  ck_assert_int_eq(mkdir(f.state, 0700), 0);
  sql_run(fixture_path(&f, "state.db"), "CREATE TABLE bookmarks (url TEXT)");
  assert_refused(&f, ERR_FOREIGN, "another program");
  ck_assert_int_eq(sql_number(fixture_path(&f, "state.db"), "SELECT count(*) FROM sqlite_schema"), 1);
  fixture_free(&f);
}
END_TEST

START_TEST(a_newer_database_is_left_alone) {
  struct fixture f = fixture_new();
  store_close(fixture_open(&f));
  sql_run(fixture_path(&f, "state.db"), "PRAGMA user_version = 99");
  assert_refused(&f, ERR_TOO_NEW, "newer program");
  struct store *reader = NULL;
  ck_assert_int_eq(store_open_read_only(f.state, &lanes, &reader, f.why), ERR_TOO_NEW);
  ck_assert_int_eq(sql_number(fixture_path(&f, "state.db"), "PRAGMA user_version"), 99);
  fixture_free(&f);
}
END_TEST

/* Files that are no database any more. */
START_TEST(a_damaged_database_is_corrupt) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 30);
  store_close(s);
  const char *path = fixture_path(&f, "state.db");
  struct stat status;
  ck_assert_int_eq(stat(path, &status), 0);

  static uint8_t page[4096];
  memset(page, 0xa5, sizeof page);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  ck_assert_int_eq(pwrite(fd, page, sizeof page, 2 * (off_t)sizeof page), (ssize_t)sizeof page);
  close(fd);
  assert_refused(&f, ERR_CORRUPT, "backup");

  ck_assert_int_eq(truncate(path, status.st_size / 2), 0);
  assert_refused(&f, ERR_CORRUPT, "backup");
  ck_assert_int_eq(truncate(path, 0), 0);
  assert_refused(&f, ERR_CORRUPT, "files/ is not");
  ck_assert_int_eq(unlink(path), 0);
  assert_refused(&f, ERR_CORRUPT, "files/ is not");
  file_write(path, "dear diary,\n", 12);
  assert_refused(&f, ERR_CORRUPT, "backup");
  fixture_free(&f);
}
END_TEST

START_TEST(tables_of_another_shape_are_corrupt) {
  struct fixture f = fixture_new();
  store_close(fixture_open(&f));
  sql_run(fixture_path(&f, "state.db"), "DROP TABLE position");
  assert_refused(&f, ERR_CORRUPT, "backup");
  fixture_free(&f);
}
END_TEST

START_TEST(a_state_directory_that_cannot_be) {
  struct fixture f = fixture_new();
  file_write(f.state, "x", 1);
  assert_refused(&f, ERR_NOT_FOUND, "Not a directory");
  ck_assert_int_eq(unlink(f.state), 0);
  char parent[sizeof f.state];
  memcpy(parent, f.state, sizeof parent);
  snprintf(f.state, sizeof f.state, "%s/missing/state", f.base);
  assert_refused(&f, ERR_NOT_FOUND, "No such file");
  fixture_free(&f);
}
END_TEST

/* Runs a check as a user who owns nothing, in a child; the reader is that user's own when root runs the tests. */
static int as_nobody(int (*check)(struct fixture *f), struct fixture *f) {
  pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
      _exit(99);
    _exit(check(f));
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static int try_to_open(struct fixture *f) {
  struct store *s = NULL;
  return (int)fixture_try(f, 7, &s);
}

static int try_to_read(struct fixture *f) {
  struct store *s = NULL;
  enum err e = store_open_read_only(f->state, &lanes, &s, f->why);
  if (e != ERR_OK)
    return (int)e;
  struct store_round rounds[8];
  size_t n;
  e = store_rounds(s, &job_one, 0, rounds, 8, &n);
  store_close(s);
  return e == ERR_OK && n == 3 && f->why[0] == '\0' ? 0 : 98;
}

START_TEST(no_permission_is_said) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 3);
  store_close(s);
  ck_assert_int_eq(chmod(f.base, 0755), 0);
  ck_assert_int_eq(chmod(f.state, 0), 0);
  ck_assert_int_eq(as_nobody(try_to_open, &f), ERR_PERMISSION);
  ck_assert_int_eq(as_nobody(try_to_read, &f), ERR_PERMISSION);
  ck_assert_int_eq(chmod(f.state, 0700), 0);
  fixture_free(&f);
}
END_TEST

/* A directory that may be read but not written is like a read-only file system. */
START_TEST(a_reader_needs_no_writable_directory) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 3);
  store_close(s);
  ck_assert_int_eq(chmod(f.base, 0755), 0);
  ck_assert_int_eq(chmod(f.state, 0555), 0);
  ck_assert_int_eq(chmod(fixture_path(&f, "files"), 0555), 0);
  ck_assert_int_eq(chmod(fixture_path(&f, "state.db"), 0444), 0);
  ck_assert_int_eq(as_nobody(try_to_read, &f), 0);
  ck_assert_int_eq(chmod(f.state, 0755), 0);
  file_write(fixture_path(&f, "state.db-wal"), "unreadable", 10); /* a log that only recovery could read */
  ck_assert_int_eq(chmod(f.state, 0555), 0);
  ck_assert_int_eq(as_nobody(try_to_read, &f), ERR_READ_ONLY);
  ck_assert_int_eq(chmod(f.state, 0700), 0);
  fixture_free(&f);
}
END_TEST

START_TEST(a_reader_sees_the_running_and_the_dead) {
  struct fixture f = fixture_new();
  struct store *reader = NULL;
  ck_assert_int_eq(store_open_read_only(f.state, &lanes, &reader, f.why), ERR_NOT_FOUND);
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 2);
  ck_assert_int_eq(store_open_read_only(f.state, &lanes, &reader, f.why), ERR_OK);
  ck_assert_uint_eq(store_boot_epoch(reader), store_boot_epoch(s));
  rounds_run(s, 3, 3);
  ck_assert_uint_eq(resume_at(reader).committed.round, 3); /* short reads: it sees what was committed meanwhile */
  ck_assert_int_eq(round_publish(reader, 4, 4), ERR_READ_ONLY);
  ck_assert_int_eq(store_event(reader, 1, "X", NULL, NULL), ERR_READ_ONLY);
  store_close(reader);
  store_close(s);
  fixture_free(&f);

  f = fixture_new();
  rounds_run_and_die(&f, 3);
  ck_assert_int_eq(try_to_read(&f), 0); /* out of the log */
  s = fixture_open(&f);
  ck_assert_uint_eq(resume_at(s).committed.round, 3);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(strange_characters_in_the_path) {
  struct fixture f = fixture_new();
  snprintf(f.state, sizeof f.state, "%s/a?b#c%%41 d", f.base);
  store_close(fixture_open(&f));
  ck_assert_int_eq(access(fixture_path(&f, "state.db"), F_OK), 0);
  fixture_free(&f);
}
END_TEST

START_TEST(events_are_a_ring) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  for (int i = 0; i < 3; i++)
    ck_assert_int_eq(store_event(s, 1700000000 + i, "ROLLED-BACK", "mec-02", "it holds a newer manifest of ours"),
                     ERR_OK);
  store_close(s);
  sql_run(fixture_path(&f, "state.db"),
          "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 10000)"
          " INSERT INTO event (at_unix_s, name, peer, text) SELECT i, 'X', '', '' FROM n");
  s = fixture_open(&f);
  ck_assert_int_eq(store_event(s, 1700000003, "LAST", NULL, NULL), ERR_OK);
  store_close(s);
  ck_assert_int_eq(sql_number(fixture_path(&f, "state.db"), "SELECT count(*) FROM event"), 10000);
  ck_assert_int_eq(sql_number(fixture_path(&f, "state.db"), "SELECT max(at_unix_s) FROM event"), 1700000003);
  fixture_free(&f);
}
END_TEST

int main(void) {
  return SUITE_RUN("open", a_first_start_makes_private_files, the_boot_epoch_rises_at_every_start,
                   the_boot_epoch_can_be_raised, a_lost_log_does_not_bring_an_epoch_back,
                   a_second_agent_is_locked_out_by_name, another_program_at_the_database_is_named,
                   who_holds_the_database_for_a_moment_is_waited_for, who_holds_the_lock_for_a_moment_is_waited_for,
                   another_identity_is_foreign, another_programs_database_is_foreign, a_newer_database_is_left_alone,
                   a_damaged_database_is_corrupt, tables_of_another_shape_are_corrupt, a_state_directory_that_cannot_be,
                   no_permission_is_said, a_reader_needs_no_writable_directory, a_reader_sees_the_running_and_the_dead,
                   strange_characters_in_the_path, events_are_a_ring);
}
