#include "tests/unit/store/fixture.h"
#include "tests/unit/suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static struct store *open_capped(struct fixture *f, uint64_t max_bytes) {
  struct store *s = NULL;
  struct store_config config = {.state_dir = f->state,
                                .digest = &lanes,
                                .keep_last = 3,
                                .keep_best = 2,
                                .max_bytes = max_bytes,
                                .random = 0xc0ffee,
                                .identity = {7}};
  enum err e = store_open(&config, &s, f->warning, f->why);
  ck_assert_msg(e == ERR_OK, "%s", f->why);
  return s;
}

/* In the folder of files. */
static size_t files_count(const struct fixture *f) {
  size_t n = 0;
  DIR *folder = opendir(fixture_path(f, "files"));
  ck_assert_ptr_nonnull(folder);
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
    n += entry->d_name[0] != '.';
  closedir(folder);
  return n;
}

static struct store_room measured(struct store *s) {
  struct store_room room;
  ck_assert_int_eq(store_measure(s, &room), ERR_OK);
  return room;
}

START_TEST(what_is_used_and_what_is_free) {
  struct fixture f = fixture_new();
  struct store *s = open_capped(&f, 0);
  static const uint8_t ballast[100000];
  uint64_t before = measured(s).used_bytes;
  ck_assert_uint_gt(before, 4096); /* the database */
  file_write(fixture_path(&f, "ballast"), ballast, sizeof ballast);
  ck_assert_uint_eq(measured(s).used_bytes, before + sizeof ballast);
  const struct timespec long_ago[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
  ck_assert_int_eq(utimensat(AT_FDCWD, f.state, long_ago, 0), 0);
  ck_assert_uint_eq(measured(s).used_bytes, before + sizeof ballast);
  ck_assert_int_eq(truncate(fixture_path(&f, "ballast"), 2 * sizeof ballast), 0);
  ck_assert_uint_eq(measured(s).used_bytes, before + 2 * sizeof ballast); /* though the folder's time is the same */
  rounds_run(s, 1, 2);
  ck_assert_uint_ge(measured(s).used_bytes, before + sizeof ballast + 6 * (uint64_t)ROUND_BYTES);
  struct statvfs fs;
  ck_assert_int_eq(statvfs(f.state, &fs), 0);
  ck_assert_uint_le(measured(s).free_bytes, (uint64_t)fs.f_blocks * fs.f_frsize);
  ck_assert_uint_gt(measured(s).free_bytes, 0);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(keeping_few_lets_go_at_once_and_is_taken_back) {
  struct fixture f = fixture_new();
  struct store *s = open_capped(&f, 0);
  bool changed;
  rounds_run(s, 1, 10);
  ck_assert_int_eq(store_pin(s, &job_one, (struct round_label){.round = 9}, "", 0, &changed), ERR_OK);
  size_t before = files_count(&f);
  ck_assert_int_eq(store_keep_few(s, true), ERR_OK);
  ck_assert_uint_lt(files_count(&f), before);
  rounds_run(s, 11, 14);
  ck_assert_int_eq(store_keep_few(s, true), ERR_OK);
  struct store_model models[16];
  size_t n;
  ck_assert_int_eq(store_models(s, &job_one, models, 16, &n), ERR_OK);
  ck_assert_uint_eq(n, 2); /* the pinned and the newest */
  ck_assert_int_eq(store_keep_few(s, false), ERR_OK);
  rounds_run(s, 15, 20);
  ck_assert_int_eq(store_models(s, &job_one, models, 16, &n), ERR_OK);
  ck_assert_uint_ge(n, 4);
  store_close(s);

  char why[MAX_REASON_BYTES];
  struct store_resume from;
  s = open_capped(&f, 0);
  ck_assert_int_eq(store_resume(s, &job_one, &from, why), ERR_OK);
  ck_assert_uint_eq(from.committed.round, 20);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(the_cap_refuses_like_a_full_disk) {
  struct fixture f = fixture_new();
  struct store *s = open_capped(&f, 4096);
  ck_assert_int_eq(round_publish(s, 1, 1), ERR_NO_SPACE);
  ck_assert_uint_eq(files_count(&f), 0);
  store_close(s);
  s = open_capped(&f, 0);
  ck_assert_int_eq(round_publish(s, 1, 1), ERR_OK);
  store_close(s);
  s = open_capped(&f, 4096);
  ck_assert_int_eq(round_commit(s, 1), ERR_NO_SPACE);
  ck_assert_int_eq(round_commit(s, 1), ERR_NO_SPACE); /* as often as it is tried */
  store_close(s);
  s = open_capped(&f, 100 << 20);
  ck_assert_int_eq(round_commit(s, 1), ERR_OK);
  ck_assert_int_eq(round_publish(s, 2, 2), ERR_OK);
  store_close(s);
  fixture_free(&f);
}
END_TEST

int main(void) {
  return SUITE_RUN("store/usage", what_is_used_and_what_is_free, keeping_few_lets_go_at_once_and_is_taken_back,
                   the_cap_refuses_like_a_full_disk);
}
