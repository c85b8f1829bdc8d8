/* Bringing an older database up, with an artificial step. */
#include "store/migration.h"

#include "tests/unit/store/fixture.h"
#include "tests/unit/suite.h"

static const char *const good_steps[] = {"ALTER TABLE event ADD COLUMN level INTEGER NOT NULL DEFAULT 0"};
static const char *const bad_steps[] = {
    "ALTER TABLE event ADD COLUMN level INTEGER NOT NULL DEFAULT 0; DELETE FROM agent",
    "ALTER TABLE no_such_table ADD COLUMN x"};

static struct database database_of(struct fixture *f) {
  struct database d;
  ck_assert_int_eq(database_open(&d, fixture_path(f, "state.db"), DATABASE_WRITE, f->why), ERR_OK);
  return d;
}

static sqlite3_int64 number(struct database *d, const char *sql) {
  sqlite3_int64 n = -1;
  ck_assert_int_eq(database_number(d, sql, &n), ERR_OK);
  return n;
}

static void version_one_with_rounds(struct fixture *f) {
  struct store *s = fixture_open(f);
  rounds_run(s, 1, 3);
  ck_assert_int_eq(store_event(s, 5, "X", NULL, "kept"), ERR_OK);
  store_close(s);
}

START_TEST(a_step_keeps_the_rows_and_leaves_a_backup) {
  struct fixture f = fixture_new();
  struct schema two = {.create = schema_newest.create, .steps = good_steps, .n_steps = 1};
  version_one_with_rounds(&f);
  struct database d = database_of(&f);
  file_write(fixture_path(&f, "state.db.v1.bak"), "half a backup", 13); /* of an attempt that was cut off */
  ck_assert_int_eq(migration_check(&d, fixture_path(&f, "state.db"), &two, f.why), ERR_UNSUPPORTED);
  ck_assert_int_eq(migration_run(&d, fixture_path(&f, "state.db"), &two, f.why), ERR_OK);
  ck_assert_int_eq(migration_check(&d, fixture_path(&f, "state.db"), &two, f.why), ERR_OK);
  ck_assert_int_eq(number(&d, "PRAGMA user_version"), 2);
  ck_assert_int_eq(number(&d, "SELECT count(*) FROM event WHERE level = 0 AND text = 'kept'"), 1);
  ck_assert_int_eq(number(&d, "SELECT count(*) FROM commitment"), 3);
  ck_assert_int_eq(migration_run(&d, fixture_path(&f, "state.db"), &two, f.why), ERR_OK); /* nothing left to do */
  database_close(&d);

  struct store *s = NULL; /* the older program */
  ck_assert_int_eq(fixture_try(&f, 7, &s), ERR_TOO_NEW);
  char from[256];
  snprintf(from, sizeof from, "%s/state.db.v1.bak", f.state);
  ck_assert_int_eq(rename(from, fixture_path(&f, "state.db")), 0);
  s = fixture_open(&f);
  ck_assert_uint_eq(resume_at(s).committed.round, 3);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(a_step_that_fails_takes_all_back) {
  struct fixture f = fixture_new();
  struct schema three = {.create = schema_newest.create, .steps = bad_steps, .n_steps = 2};
  version_one_with_rounds(&f);
  struct database d = database_of(&f);
  ck_assert_int_eq(migration_run(&d, fixture_path(&f, "state.db"), &three, f.why), ERR_CORRUPT);
  ck_assert_int_eq(number(&d, "PRAGMA user_version"), 1);
  database_close(&d);
  struct store *s = fixture_open(&f);
  ck_assert_uint_eq(resume_at(s).committed.round, 3);
  ck_assert_uint_eq(store_boot_epoch(s) >> 32, 2);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(a_new_database_is_made_at_the_newest_version) {
  struct fixture f = fixture_new();
  struct schema two = {
      .create = "CREATE TABLE event (id INTEGER PRIMARY KEY, level INTEGER) STRICT", .steps = good_steps, .n_steps = 1};
  ck_assert_int_eq(mkdir(f.state, 0700), 0);
  file_write(fixture_path(&f, "state.db"), "", 0);
  struct database d = database_of(&f);
  ck_assert_int_eq(migration_run(&d, fixture_path(&f, "state.db"), &two, f.why), ERR_OK);
  ck_assert_int_eq(number(&d, "PRAGMA user_version"), 2);
  ck_assert_int_ne(access(fixture_path(&f, "state.db.v1.bak"), F_OK), 0);
  database_close(&d);
  fixture_free(&f);
}
END_TEST

START_TEST(settings_hold) {
  struct fixture f = fixture_new();
  store_close(fixture_open(&f));
  struct database d = database_of(&f);
  ck_assert_int_eq(number(&d, "PRAGMA synchronous"), 2);
  ck_assert_int_eq(number(&d, "PRAGMA foreign_keys"), 1);
  ck_assert_int_eq(number(&d, "PRAGMA trusted_schema"), 0);
  ck_assert_int_eq(number(&d, "PRAGMA mmap_size"), 0);
  ck_assert_int_eq(number(&d, "SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'"), 1);
  ck_assert_int_eq(number(&d, "SELECT count(*) FROM sqlite_schema s JOIN pragma_table_list t ON t.name = s.name"
                              " WHERE s.type = 'table' AND s.name NOT LIKE 'sqlite_%' AND NOT t.strict"),
                   0);
  ck_assert_int_ne(database_run(&d, "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = ''"), ERR_OK);
  ck_assert_int_eq(database_run(&d, "INSERT INTO publication (job, sequence, epoch, round, sub, chain, copy_offset,"
                                    " n_copy, n_samples) VALUES (77, 1, 1, 1, 0, zeroblob(32), 0, 0, 0)"),
                   ERR_EXISTS); /* no such job: a broken constraint */
  database_close(&d);
  fixture_free(&f);
}
END_TEST

int main(void) {
  return SUITE_RUN("migration", a_step_keeps_the_rows_and_leaves_a_backup, a_step_that_fails_takes_all_back,
                   a_new_database_is_made_at_the_newest_version, settings_hold);
}
