#include "agent/stream.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static char folder[64];

static void set_up(void) {
  strcpy(folder, "/tmp/starling-stream-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
  (void)st, (void)kind, (void)at;
  return remove(path);
}

static void tear_down(void) {
  nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *path_of(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void put(const char *name, const char *mode, const char *text) {
  FILE *f = fopen(path_of(name), mode);
  ck_assert_ptr_nonnull(f);
  fputs(text, f);
  ck_assert_int_eq(fclose(f), 0);
}

static struct stream_look look_at(const char *path) {
  struct stream_look look;
  struct data_place why;
  enum err e = stream_look(path, &look, &why);
  ck_assert_msg(e == ERR_OK, "%s", why.sentence);
  return look;
}

/* What is read of it, as a text. */
static const char *read_all(const char *path, const struct stream_look *look) {
  static char text[4096];
  struct data_place why;
  char as[STREAM_PATH_BYTES];
  int fd = -1;
  enum err e = stream_open(path, look, &fd, as, &why);
  ck_assert_msg(e == ERR_OK, "%s", why.sentence);
  FILE *f = fopen(as, "r");
  ck_assert_ptr_nonnull(f);
  text[fread(text, 1, sizeof text - 1, f)] = '\0';
  fclose(f);
  close(fd);
  return text;
}

START_TEST(a_file_that_grows_gives_whole_lines) {
  char lost[MAX_REASON_BYTES];
  put("d.csv", "w", "a,b\n1,2\n3,");
  struct stream_look first = look_at(path_of("d.csv"));
  ck_assert_str_eq(read_all(path_of("d.csv"), &first), "a,b\n1,2\n");
  struct stream_look same = look_at(path_of("d.csv"));
  ck_assert(!stream_differs(&first, &same, lost));
  put("d.csv", "a", "4\n5,6\n");
  ck_assert_str_eq(read_all(path_of("d.csv"), &first), "a,b\n1,2\n"); /* what came after the look waits */
  struct stream_look more = look_at(path_of("d.csv"));
  ck_assert(stream_differs(&first, &more, lost));
  ck_assert_str_eq(lost, "");
  ck_assert_str_eq(read_all(path_of("d.csv"), &more), "a,b\n1,2\n3,4\n5,6\n");
  stream_look_done(&first);
  stream_look_done(&same);
  stream_look_done(&more);
}
END_TEST

START_TEST(a_folder_is_its_files_by_name) {
  char lost[MAX_REASON_BYTES];
  put("2.csv", "w", "a,b\n3,4\n");
  put("1.csv", "w", "a,b\n1,2\n");
  put(".3.csv.part", "w", "a,b\n9,9\n");
  ck_assert_int_eq(mkdir(path_of("sub"), 0700), 0);
  struct stream_look first = look_at(folder);
  ck_assert_uint_eq(first.n, 2);
  ck_assert_str_eq(read_all(folder, &first), "a,b\n1,2\n3,4\n");
  put("3.csv", "w", "a,b\n");
  put("4.csv", "w", "a,b\n5,6\n7");
  struct stream_look more = look_at(folder);
  ck_assert(stream_differs(&first, &more, lost));
  ck_assert_str_eq(lost, "");
  ck_assert_str_eq(read_all(folder, &more), "a,b\n1,2\n3,4\n5,6\n");
  stream_look_done(&first);
  stream_look_done(&more);
}
END_TEST

START_TEST(what_is_lost_is_told_in_one_line) {
  char lost[MAX_REASON_BYTES];
  put("d.csv", "w", "a,b\n1,2\n3,4\n");
  struct stream_look before = look_at(path_of("d.csv"));
  ck_assert_int_eq(truncate(path_of("d.csv"), 8), 0);
  struct stream_look now = look_at(path_of("d.csv"));
  ck_assert(stream_differs(&before, &now, lost));
  ck_assert_ptr_nonnull(strstr(lost, "d.csv has become shorter"));
  stream_look_done(&now);
  put("new", "w", "a,b\n1,2\n3,4\n5,6\n");
  char from[128];
  snprintf(from, sizeof from, "%s", path_of("new"));
  ck_assert_int_eq(rename(from, path_of("d.csv")), 0); /* rotated */
  now = look_at(path_of("d.csv"));
  ck_assert(stream_differs(&before, &now, lost));
  ck_assert_ptr_nonnull(strstr(lost, "d.csv is another file now"));
  stream_look_done(&now);
  stream_look_done(&before);
  before = look_at(folder);
  ck_assert_int_eq(unlink(path_of("d.csv")), 0);
  now = look_at(folder);
  ck_assert(stream_differs(&before, &now, lost));
  ck_assert_ptr_nonnull(strstr(lost, "d.csv is gone"));
  stream_look_done(&now);
  stream_look_done(&before);
}
END_TEST

/* Of the same length under the same name. */
START_TEST(what_is_written_over_is_seen) {
  char lost[MAX_REASON_BYTES];
  const struct timespec early[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}}, later[2] = {{.tv_sec = 1000}, {1000, 1}};
  put("d.csv", "w", "a,b\n1,2\n");
  ck_assert_int_eq(utimensat(AT_FDCWD, path_of("d.csv"), early, 0), 0);
  struct stream_look before = look_at(path_of("d.csv"));
  put("d.csv", "r+", "a,b\n3,4\n");
  ck_assert_int_eq(utimensat(AT_FDCWD, path_of("d.csv"), later, 0), 0);
  struct stream_look now = look_at(path_of("d.csv"));
  ck_assert(stream_differs(&before, &now, lost));
  ck_assert_str_eq(lost, "");
  stream_look_done(&now);
  stream_look_done(&before);
}
END_TEST

/* Longer than what is read at once, and lines across its ends. */
START_TEST(a_large_file_is_whole) {
  enum { WIDTH = 63, N_ROWS = 2 * MAX_STREAM_HEAD_BYTES / (WIDTH + 1) };
  struct data_place why;
  char as[STREAM_PATH_BYTES], line[WIDTH + 8];
  int fd = -1;
  FILE *f = fopen(path_of("d.csv"), "w");
  ck_assert_ptr_nonnull(f);
  fputs("a\n", f);
  for (int i = 0; i < N_ROWS; i++)
    fprintf(f, "%0*d\n", WIDTH, i);
  fputs("9999", f);
  ck_assert_int_eq(fclose(f), 0);
  struct stream_look look = look_at(path_of("d.csv"));
  ck_assert_int_eq(stream_open(path_of("d.csv"), &look, &fd, as, &why), ERR_OK);
  f = fopen(as, "r");
  ck_assert_ptr_nonnull(f);
  ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
  for (int i = 0; i < N_ROWS; i++)
    if (!fgets(line, sizeof line, f) || strlen(line) != WIDTH + 1 || strtol(line, NULL, 10) != i)
      ck_abort_msg("row %d: %s", i, line);
  ck_assert_ptr_null(fgets(line, sizeof line, f));
  fclose(f);
  close(fd);
  stream_look_done(&look);
}
END_TEST

/* It is as long at the look, and not when it is read. */
START_TEST(what_is_cut_off_meanwhile_is_an_error) {
  struct data_place why;
  char as[STREAM_PATH_BYTES];
  int fd = -1;
  put("d.csv", "w", "a,b\n1,2\n3,4\n");
  struct stream_look look = look_at(path_of("d.csv"));
  put("d.csv", "w", "a,b\n5,6\n");
  ck_assert_int_eq(stream_open(path_of("d.csv"), &look, &fd, as, &why), ERR_TRUNCATED);
  ck_assert_ptr_nonnull(strstr(why.sentence, "cut off"));
  ck_assert_int_eq(fd, -1);
  stream_look_done(&look);
}
END_TEST

START_TEST(what_cannot_be_read_says_why) {
  struct stream_look look;
  struct data_place why;
  char as[STREAM_PATH_BYTES];
  int fd = -1;
  ck_assert_int_eq(stream_look(path_of("none.csv"), &look, &why), ERR_NOT_FOUND);
  ck_assert_int_eq(stream_look("/dev/null", &look, &why), ERR_UNSUPPORTED);
  put("1.csv", "w", "a,b");
  look = look_at(folder);
  ck_assert_int_eq(stream_open(folder, &look, &fd, as, &why), ERR_SYNTAX);
  ck_assert_ptr_nonnull(strstr(why.sentence, "no line of columns"));
  stream_look_done(&look);
  put("1.csv", "w", "a,b\n1,2\n");
  put("2.csv", "w", "b,a\n1,2\n");
  look = look_at(folder);
  ck_assert_int_eq(stream_open(folder, &look, &fd, as, &why), ERR_SYNTAX);
  ck_assert_ptr_nonnull(strstr(why.path, "2.csv"));
  ck_assert_ptr_nonnull(strstr(why.sentence, "the same columns"));
  ck_assert_int_eq(fd, -1);
  stream_look_done(&look);
}
END_TEST

int main(void) {
  return SUITE_RUN_AROUND("stream", 0, set_up, tear_down, a_file_that_grows_gives_whole_lines,
                          a_folder_is_its_files_by_name, what_is_lost_is_told_in_one_line, what_is_written_over_is_seen,
                          a_large_file_is_whole, what_is_cut_off_meanwhile_is_an_error, what_cannot_be_read_says_why);
}
