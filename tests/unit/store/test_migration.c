/* Bringing an older database up: one that version 1 left, and artificial steps. */
#include "store/migration.h"

#include <sqlite3.h>

#include "tests/unit/store/fixture.h"
#include "tests/unit/suite.h"

static const char *const good_steps[] = {"SELECT 1", "SELECT 1", "SELECT 1",
                                         "ALTER TABLE event ADD COLUMN level INTEGER NOT NULL DEFAULT 0"};
static const char *const bad_steps[] = {
    "SELECT 1", "SELECT 1", "SELECT 1",
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

static void newest_with_rounds(struct fixture *f) {
  struct store *s = fixture_open(f);
  rounds_run(s, 1, 3);
  ck_assert_int_eq(store_event(s, 5, "X", NULL, "kept"), ERR_OK);
  store_close(s);
}

static char *text_read(const char *path) {
  FILE *file = fopen(path, "r");
  ck_assert_ptr_nonnull(file);
  char *text = calloc(1, 1 << 16);
  size_t n = fread(text, 1, (1 << 16) - 1, file);
  ck_assert(n > 0 && feof(file));
  fclose(file);
  return text;
}

/* What version 1 left behind: its rows, and the files that they name. */
static void version_one_make(struct fixture *f) {
  char *sql = text_read("tests/unit/store/version_1.sql");
  sqlite3 *db;
  ck_assert_int_eq(mkdir(f->state, 0700), 0);
  ck_assert_int_eq(mkdir(fixture_path(f, "files"), 0700), 0);
  ck_assert_int_eq(sqlite3_open(fixture_path(f, "state.db"), &db), SQLITE_OK);
  ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
  free(sql);
  for (uint64_t r = 1; r <= 5; r++) {
    struct round_bytes b = round_bytes((struct round_label){.round = r});
    const uint8_t *const files[] = {b.payload, b.half, b.model};
    for (size_t i = 0; i < 3; i++) {
      struct digest name = digest_bytes(files[i], ROUND_BYTES);
      file_write(digest_path(f, &name), files[i], ROUND_BYTES);
    }
  }
}

/* The text of every table, index and view, in the order of their names. */
static char *schema_of(struct fixture *f) {
  sqlite3 *db;
  sqlite3_stmt *statement;
  ck_assert_int_eq(sqlite3_open(fixture_path(f, "state.db"), &db), SQLITE_OK);
  ck_assert_int_eq(sqlite3_prepare_v2(db,
                                      "SELECT group_concat(name || '=' || coalesce(sql, ''), char(10)) FROM"
                                      " (SELECT name, sql FROM sqlite_schema ORDER BY name)",
                                      -1, &statement, NULL),
                   SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
  char *all = strdup((const char *)sqlite3_column_text(statement, 0));
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return all;
}

START_TEST(a_database_of_version_one_is_brought_up) {
  struct fixture f = fixture_new(), new = fixture_new();
  version_one_make(&f);
  struct store *s = NULL;
  ck_assert_int_eq(store_open_read_only(f.state, &lanes, &s, f.why), ERR_UNSUPPORTED);
  s = fixture_open(&f);
  struct store_resume resume = resume_at(s);
  ck_assert(resume.at == RESUME_PUBLISHED && !resume.fell_back && digest_is_zero(&resume.shadow));
  ck_assert(resume.committed.round == 4 && resume.published.round == 5 && resume.sequence == 5);
  struct store_round r;
  struct store_contribution peers[4];
  size_t n;
  ck_assert_int_eq(store_round_find(s, &job_one, (struct round_label){.round = 4}, &r, peers, 4, &n), ERR_OK);
  ck_assert(r.committed && r.metrics.has_local && r.metrics.local_headline == 0.75 && !r.metrics.has_validation);
  ck_assert(n == 2 && peers[0].reason == ERR_OK && peers[1].reason == ERR_LATE);
  ck_assert_int_eq(access(fixture_path(&f, "state.db.v1.bak"), F_OK), 0);
  ck_assert_int_eq(round_commit(s, 5), ERR_OK);
  rounds_run(s, 6, 7);
  store_close(s);
  struct database d = database_of(&f);
  ck_assert_int_eq(number(&d, "SELECT count(*) FROM contribution"), 2);
  ck_assert_int_eq(number(&d, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
  ck_assert_int_eq(number(&d, "PRAGMA user_version"), 4);
  database_close(&d);

  store_close(fixture_open(&new));
  char *brought = schema_of(&f), *made = schema_of(&new);
  ck_assert_str_eq(brought, made); /* no trace of where it came from */
  free(brought);
  free(made);
  fixture_free(&f);
  fixture_free(&new);
}
END_TEST

START_TEST(a_step_keeps_the_rows_and_leaves_a_backup) {
  struct fixture f = fixture_new();
  struct schema five = {.create = schema_newest.create, .steps = good_steps, .n_steps = 4};
  newest_with_rounds(&f);
  struct database d = database_of(&f);
  file_write(fixture_path(&f, "state.db.v4.bak"), "half a backup", 13); /* of an attempt that was cut off */
  ck_assert_int_eq(migration_check(&d, fixture_path(&f, "state.db"), &five, f.why), ERR_UNSUPPORTED);
  ck_assert_int_eq(migration_run(&d, fixture_path(&f, "state.db"), &five, f.why), ERR_OK);
  ck_assert_int_eq(migration_check(&d, fixture_path(&f, "state.db"), &five, f.why), ERR_OK);
  ck_assert_int_eq(number(&d, "PRAGMA user_version"), 5);
  ck_assert_int_eq(number(&d, "SELECT count(*) FROM event WHERE level = 0 AND text = 'kept'"), 1);
  ck_assert_int_eq(number(&d, "SELECT count(*) FROM commitment"), 3);
  ck_assert_int_eq(migration_run(&d, fixture_path(&f, "state.db"), &five, f.why), ERR_OK); /* nothing left to do */
  database_close(&d);

  struct store *s = NULL; /* the older program */
  ck_assert_int_eq(fixture_try(&f, 7, &s), ERR_TOO_NEW);
  char from[256];
  snprintf(from, sizeof from, "%s/state.db.v4.bak", f.state);
  ck_assert_int_eq(rename(from, fixture_path(&f, "state.db")), 0);
  s = fixture_open(&f);
  ck_assert_uint_eq(resume_at(s).committed.round, 3);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(a_step_that_fails_takes_all_back) {
  struct fixture f = fixture_new();
  struct schema six = {.create = schema_newest.create, .steps = bad_steps, .n_steps = 5};
  newest_with_rounds(&f);
  struct database d = database_of(&f);
  ck_assert_int_eq(migration_run(&d, fixture_path(&f, "state.db"), &six, f.why), ERR_CORRUPT);
  ck_assert_int_eq(number(&d, "PRAGMA user_version"), 4);
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
  struct schema five = {
      .create = "CREATE TABLE event (id INTEGER PRIMARY KEY, level INTEGER) STRICT", .steps = good_steps, .n_steps = 4};
  ck_assert_int_eq(mkdir(f.state, 0700), 0);
  file_write(fixture_path(&f, "state.db"), "", 0);
  struct database d = database_of(&f);
  ck_assert_int_eq(migration_run(&d, fixture_path(&f, "state.db"), &five, f.why), ERR_OK);
  ck_assert_int_eq(number(&d, "PRAGMA user_version"), 5);
  ck_assert_int_ne(access(fixture_path(&f, "state.db.v4.bak"), F_OK), 0);
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
  return SUITE_RUN("migration", a_database_of_version_one_is_brought_up, a_step_keeps_the_rows_and_leaves_a_backup,
                   a_step_that_fails_takes_all_back, a_new_database_is_made_at_the_newest_version, settings_hold);
}
