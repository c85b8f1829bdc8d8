#include "base/bytes.h"
#include "crypto/key_file.h"
#include "crypto/random.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A directory of its own for each test, an identity, and a place for a key file in it. */
struct place {
  char dir[64], path[128], why[MAX_REASON_BYTES];
  struct identity *id;
};

static void place_open(struct place *p) {
  memset(p, 0, sizeof *p);
  snprintf(p->dir, sizeof p->dir, "/tmp/starling-key-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(p->dir));
  snprintf(p->path, sizeof p->path, "%s/agent.key", p->dir);
  ck_assert_int_eq(identity_new(&p->id), ERR_OK);
}

static int entry_remove(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
  (void)st;
  (void)kind;
  (void)ftw;
  return remove(path);
}

static void place_close(struct place *p) {
  ck_assert_int_eq(nftw(p->dir, entry_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
  identity_free(p->id);
}

static void place_create(struct place *p, const char *passphrase) {
  ck_assert_msg(key_file_create(p->path, p->id, passphrase, p->why) == ERR_OK, "%s", p->why);
}

/* Changes one base64 digit, counted from the end of the file; returns what stood there. */
static int place_damage(const struct place *p, long at, int digit) {
  FILE *file = fopen(p->path, "r+b");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_eq(fseek(file, at, SEEK_END), 0);
  int was = fgetc(file);
  ck_assert_int_eq(fseek(file, at, SEEK_END), 0);
  fputc(was == digit ? 'A' : digit, file);
  ck_assert_int_eq(fclose(file), 0);
  return was;
}

static void assert_opens_with(struct place *p, const char *path, const char *credentials_dir,
                              const struct passphrase_source *source) {
  struct identity *id = NULL;
  ck_assert_msg(key_file_open(path, credentials_dir, source, &id, p->why) == ERR_OK, "%s", p->why);
  ck_assert(identity_key_equal(identity_public(id), identity_public(p->id)));
  identity_free(id);
}

static void assert_opens(struct place *p, const char *path, const char *credentials_dir) {
  assert_opens_with(p, path, credentials_dir, NULL);
}

/* Refused with this error, and the sentence contains these words. */
static void assert_refused_with(struct place *p, const char *credentials_dir, const struct passphrase_source *source,
                                enum err expected, const char *words) {
  struct identity *id = NULL;
  p->why[0] = '\0';
  enum err e = key_file_open(p->path, credentials_dir, source, &id, p->why);
  ck_assert_msg(e == expected, "%s: %s", err_name(e), p->why);
  ck_assert_msg(strstr(p->why, words) != NULL, "\"%s\" is not in \"%s\"", words, p->why);
  ck_assert_ptr_null(id);
}

static void assert_refused(struct place *p, enum err expected, const char *words) {
  assert_refused_with(p, NULL, NULL, expected, words);
}

static void text_put(const struct place *p, const char *text) {
  int fd = open(p->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
}

START_TEST(created_and_opened) {
  struct place p;
  struct stat st;
  place_open(&p);
  place_create(&p, NULL);
  ck_assert_int_eq(stat(p.path, &st), 0);
  ck_assert_uint_eq(st.st_mode & 07777, 0600);
  ck_assert_uint_eq(st.st_nlink, 1);
  assert_opens(&p, p.path, NULL);
  place_close(&p);
}
END_TEST

START_TEST(never_overwrites_and_leaves_nothing_behind) {
  struct place p;
  struct identity *other = NULL;
  place_open(&p);
  place_create(&p, NULL);
  ck_assert_int_eq(identity_new(&other), ERR_OK);
  ck_assert_int_eq(key_file_create(p.path, other, NULL, p.why), ERR_EXISTS);
  identity_free(other);
  assert_opens(&p, p.path, NULL);
  ck_assert_int_eq(unlink(p.path), 0);
  ck_assert_msg(rmdir(p.dir) == 0, "a temporary file was left");
  ck_assert_int_eq(mkdir(p.dir, 0700), 0);
  place_close(&p);
}
END_TEST

START_TEST(a_link_in_the_way_is_not_followed_when_creating) {
  struct place p;
  char target[192];
  place_open(&p);
  snprintf(target, sizeof target, "%s/elsewhere", p.dir);
  ck_assert_int_eq(symlink(target, p.path), 0);
  ck_assert_int_eq(key_file_create(p.path, p.id, NULL, p.why), ERR_EXISTS);
  ck_assert_int_ne(access(target, F_OK), 0);
  place_close(&p);
}
END_TEST

START_TEST(a_missing_directory_is_named) {
  struct place p;
  place_open(&p);
  ck_assert_int_eq(key_file_create("/tmp/starling-none/agent.key", p.id, NULL, p.why), ERR_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(p.why, "directory"));
  place_close(&p);
}
END_TEST

START_TEST(a_missing_file) {
  struct place p;
  place_open(&p);
  assert_refused(&p, ERR_NOT_FOUND, "No such file");
  place_close(&p);
}
END_TEST

START_TEST(modes_are_judged) {
  static const struct {
    mode_t mode;
    enum err expected;
    const char *words;
  } cases[] = {{0600, ERR_OK, NULL},
               {0400, ERR_OK, NULL},
               {0644, ERR_PERMISSION, "chmod 600"},
               {0640, ERR_PERMISSION, "chmod 600"},
               {0440, ERR_PERMISSION, "chmod 600"},
               {0604, ERR_PERMISSION, "chmod 600"},
               {0601, ERR_PERMISSION, "chmod 600"},
               {0620, ERR_PERMISSION, "may write"},
               {0602, ERR_PERMISSION, "may write"}};
  struct place p;
  place_open(&p);
  place_create(&p, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ck_assert_int_eq(chmod(p.path, cases[i].mode), 0);
    if (cases[i].expected == ERR_OK)
      assert_opens(&p, p.path, NULL);
    else
      assert_refused(&p, cases[i].expected, cases[i].words);
  }
  place_close(&p);
}
END_TEST

START_TEST(another_owner_is_refused) {
  struct place p;
  place_open(&p);
  place_create(&p, NULL);
  if (geteuid() != 0)
    printf("SKIPPED another_owner_is_refused: only root can give a file away\n");
  else {
    ck_assert_int_eq(chown(p.path, 12345, 12345), 0);
    assert_refused(&p, ERR_PERMISSION, "chown");
  }
  place_close(&p);
}
END_TEST

/* As Kubernetes lays a secret out: key -> ..data/key, ..data -> ..2024, all links. */
static void place_project(struct place *p, mode_t mode) {
  char dir[160], data[160], target[192];
  snprintf(dir, sizeof dir, "%s/..2024", p->dir);
  snprintf(data, sizeof data, "%s/..data", p->dir);
  snprintf(target, sizeof target, "%s/agent.key", dir);
  place_create(p, NULL);
  ck_assert_int_eq(mkdir(dir, 0700), 0);
  ck_assert_int_eq(rename(p->path, target), 0);
  ck_assert_int_eq(symlink("..2024", data), 0);
  ck_assert_int_eq(symlink("..data/agent.key", p->path), 0);
  ck_assert_int_eq(chmod(target, mode), 0);
}

START_TEST(links_are_followed_and_the_target_is_judged) {
  struct place p;
  place_open(&p);
  place_project(&p, 0600);
  assert_opens(&p, p.path, NULL);
  char target[192];
  snprintf(target, sizeof target, "%s/..2024/agent.key", p.dir);
  ck_assert_int_eq(chmod(target, 0444), 0);
  assert_refused(&p, ERR_PERMISSION, "chmod 600");
  place_close(&p);
}
END_TEST

START_TEST(the_credentials_directory_is_trusted) {
  struct place p;
  char other[160];
  place_open(&p);
  place_project(&p, 0440);
  assert_opens(&p, p.path, p.dir);
  assert_refused_with(&p, "/tmp/starling-none", NULL, ERR_PERMISSION, "chmod 600");
  snprintf(other, sizeof other, "%.*s", (int)strlen(p.dir) - 1, p.dir); /* a prefix of the name is no parent */
  assert_refused_with(&p, other, NULL, ERR_PERMISSION, "chmod 600");
  place_close(&p);
}
END_TEST

START_TEST(a_link_out_of_the_credentials_directory_is_not_trusted) {
  struct place p;
  char credentials[160], link_path[192];
  place_open(&p);
  place_create(&p, NULL);
  ck_assert_int_eq(chmod(p.path, 0440), 0);
  snprintf(credentials, sizeof credentials, "%s/credentials", p.dir);
  snprintf(link_path, sizeof link_path, "%s/agent.key", credentials);
  ck_assert_int_eq(mkdir(credentials, 0700), 0);
  ck_assert_int_eq(symlink(p.path, link_path), 0);
  memcpy(p.path, link_path, sizeof p.path);
  assert_refused_with(&p, credentials, NULL, ERR_PERMISSION, "chmod 600");
  place_close(&p);
}
END_TEST

START_TEST(what_others_may_write_is_refused_even_among_credentials) {
  struct place p;
  place_open(&p);
  place_create(&p, NULL);
  ck_assert_int_eq(chmod(p.path, 0460), 0);
  assert_refused_with(&p, p.dir, NULL, ERR_PERMISSION, "may write");
  place_close(&p);
}
END_TEST

enum { MOUNT_OK, MOUNT_WRONG, MOUNT_UNAVAILABLE };

/* In a mount name space of its own: a key of another user on a read-only mount, with this mode. */
static int read_only_mount_judges(struct place *p, mode_t mode, enum err expected) {
  struct identity *id = NULL;
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("none", p->dir, "tmpfs", 0, NULL) != 0)
    return MOUNT_UNAVAILABLE;
  if (key_file_create(p->path, p->id, NULL, p->why) != ERR_OK || chown(p->path, 12345, 12345) != 0 ||
      chmod(p->path, mode) != 0 || mount("none", p->dir, "none", MS_REMOUNT | MS_RDONLY, NULL) != 0)
    return MOUNT_UNAVAILABLE;
  enum err e = key_file_open(p->path, NULL, NULL, &id, p->why);
  identity_free(id);
  return e == expected ? MOUNT_OK : MOUNT_WRONG;
}

static void assert_read_only_mount(mode_t mode, enum err expected) {
  struct place p;
  place_open(&p);
  fflush(stdout);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0)
    _exit(read_only_mount_judges(&p, mode, expected));
  int status = 0;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFEXITED(status));
  ck_assert_int_ne(WEXITSTATUS(status), MOUNT_WRONG);
  if (WEXITSTATUS(status) == MOUNT_UNAVAILABLE)
    printf("SKIPPED a read-only mount with mode %04o: no mount name space may be made here\n", (unsigned)mode);
  place_close(&p);
}

START_TEST(a_read_only_mount_is_trusted_unless_all_may_read) {
  assert_read_only_mount(0440, ERR_OK);
  assert_read_only_mount(0400, ERR_OK);
  assert_read_only_mount(0444, ERR_PERMISSION);
  assert_read_only_mount(0460, ERR_PERMISSION);
}
END_TEST

START_TEST(what_is_no_regular_file_is_refused_at_once) {
  struct place p;
  place_open(&p);
  ck_assert_int_eq(mkfifo(p.path, 0600), 0);
  assert_refused(&p, ERR_PERMISSION, "not a regular file");
  ck_assert_int_eq(unlink(p.path), 0);
  ck_assert_int_eq(mkdir(p.path, 0700), 0);
  assert_refused(&p, ERR_PERMISSION, "not a regular file");
  place_close(&p);
}
END_TEST

START_TEST(too_large_is_refused) {
  struct place p;
  place_open(&p);
  text_put(&p, "untrusted comment: x\n");
  ck_assert_int_eq(truncate(p.path, MAX_KEY_FILE_BYTES + 1), 0);
  assert_refused(&p, ERR_LIMIT, "larger");
  place_close(&p);
}
END_TEST

START_TEST(every_truncation_is_refused) {
  struct place p;
  struct stat st;
  place_open(&p);
  place_create(&p, NULL);
  ck_assert_int_eq(stat(p.path, &st), 0);
  for (off_t n = st.st_size - 2; n >= 0; n--) { /* the last newline is not needed */
    struct identity *id = NULL;
    ck_assert_int_eq(truncate(p.path, n), 0);
    enum err e = key_file_open(p.path, NULL, NULL, &id, p.why);
    ck_assert_msg(e == ERR_TRUNCATED || e == ERR_SYNTAX, "%ld: %s", (long)n, err_name(e));
  }
  assert_refused(&p, ERR_TRUNCATED, "empty");
  place_close(&p);
}
END_TEST

START_TEST(other_texts_are_refused) {
  struct place p;
  place_open(&p);
  text_put(&p, "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n");
  assert_refused(&p, ERR_SYNTAX, "not a Starling key file");
  text_put(&p, "untrusted comment: starling secret key\nRWQ\n");
  assert_refused(&p, ERR_TRUNCATED, "too early");
  char text[400] = "untrusted comment: starling secret key\n";
  memset(text + strlen(text), '*', 176);
  text_put(&p, text);
  assert_refused(&p, ERR_SYNTAX, "base64");
  place_close(&p);
}
END_TEST

START_TEST(text_after_the_key_is_refused) {
  struct place p;
  place_open(&p);
  place_create(&p, NULL);
  FILE *file = fopen(p.path, "ab");
  ck_assert_ptr_nonnull(file);
  fputs("\n\n", file);
  ck_assert_int_eq(fclose(file), 0);
  assert_opens(&p, p.path, NULL);
  file = fopen(p.path, "ab");
  fputs("more", file);
  ck_assert_int_eq(fclose(file), 0);
  assert_refused(&p, ERR_SYNTAX, "second line");
  place_close(&p);
}
END_TEST

/* Of the 176 digits the first six name the algorithms, all others are under the checksum. */
START_TEST(damage_anywhere_is_noticed) {
  struct place p;
  place_open(&p);
  place_create(&p, NULL);
  for (long digit = 0; digit < 176; digit++) {
    struct identity *id = NULL;
    int was = place_damage(&p, digit - 177, 'B');
    enum err e = key_file_open(p.path, NULL, NULL, &id, p.why);
    ck_assert_msg(e == ERR_CORRUPT || (digit < 6 && e == ERR_TOO_NEW), "%ld: %s", digit, err_name(e));
    place_damage(&p, digit - 177, was);
  }
  assert_opens(&p, p.path, NULL);
  place_close(&p);
}
END_TEST

/* ---- passphrases ---- */

static enum err give(void *context, char out_passphrase[MAX_PASSPHRASE_BYTES]) {
  snprintf(out_passphrase, MAX_PASSPHRASE_BYTES, "%s", (const char *)context);
  return ERR_OK;
}

static enum err give_nothing(void *context, char out_passphrase[MAX_PASSPHRASE_BYTES]) {
  (void)context;
  out_passphrase[0] = '\0';
  return ERR_NOT_FOUND;
}

static char right[] = "correct horse", wrong[] = "correct house";

START_TEST(a_passphrase_opens_and_only_the_right_one) {
  struct place p;
  struct passphrase_source good = {give, right}, bad = {give, wrong}, none = {give_nothing, NULL};
  place_open(&p);
  place_create(&p, right);
  assert_opens_with(&p, p.path, NULL, &good);
  assert_refused_with(&p, NULL, &bad, ERR_PASSPHRASE, "passphrase is wrong");
  assert_refused_with(&p, NULL, NULL, ERR_PASSPHRASE, "none was given");
  assert_refused_with(&p, NULL, &none, ERR_NOT_FOUND, "could not be read");
  place_damage(&p, -10, 'B');
  assert_refused_with(&p, NULL, &good, ERR_PASSPHRASE, "damaged");
  place_close(&p);
}
END_TEST

START_TEST(a_source_is_not_asked_when_no_passphrase_is_needed) {
  struct place p;
  struct passphrase_source none = {give_nothing, NULL};
  place_open(&p);
  place_create(&p, "");
  assert_opens_with(&p, p.path, NULL, &none);
  place_close(&p);
}
END_TEST

START_TEST(a_passphrase_that_is_too_long_is_refused) {
  struct place p;
  char passphrase[MAX_PASSPHRASE_BYTES + 1];
  memset(passphrase, 'x', sizeof passphrase - 1);
  passphrase[sizeof passphrase - 1] = '\0';
  place_open(&p);
  ck_assert_int_eq(key_file_create(p.path, p.id, passphrase, p.why), ERR_LIMIT);
  ck_assert_int_ne(access(p.path, F_OK), 0);
  place_close(&p);
}
END_TEST

/* The Argon2id cost stands in the file, so it is foreign input: bounded before anything is allocated. */
START_TEST(an_absurd_argon2_cost_is_refused) {
  static const struct {
    uint64_t ops, memory_bytes;
  } costs[] = {{0, 64 << 20}, {17, 64 << 20}, {UINT64_MAX, 64 << 20}, {2, 0}, {2, (256 << 20) + 1}, {2, UINT64_MAX}};
  struct passphrase_source good = {give, right};
  struct place p;
  place_open(&p);
  for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
    char text[256] = "untrusted comment: x\n";
    uint8_t record[132];
    struct writer w;
    writer_init(&w, record, sizeof record);
    writer_bytes(&w, "EdAr", 4);
    writer_zeros(&w, 16);
    writer_u64(&w, costs[i].ops);
    writer_u64(&w, costs[i].memory_bytes);
    writer_zeros(&w, 96);
    ck_assert_uint_eq(w.n_bytes, sizeof record);
    sodium_bin2base64(text + strlen(text), 177, record, sizeof record, sodium_base64_VARIANT_ORIGINAL);
    text_put(&p, text);
    assert_refused_with(&p, NULL, &good, ERR_RANGE, "Argon2id cost");
  }
  place_close(&p);
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  return SUITE_RUN("crypto/key_file", created_and_opened, never_overwrites_and_leaves_nothing_behind,
                   a_link_in_the_way_is_not_followed_when_creating, a_missing_directory_is_named, a_missing_file,
                   modes_are_judged, another_owner_is_refused, links_are_followed_and_the_target_is_judged,
                   the_credentials_directory_is_trusted, a_link_out_of_the_credentials_directory_is_not_trusted,
                   what_others_may_write_is_refused_even_among_credentials,
                   a_read_only_mount_is_trusted_unless_all_may_read, what_is_no_regular_file_is_refused_at_once,
                   too_large_is_refused, every_truncation_is_refused, other_texts_are_refused,
                   text_after_the_key_is_refused, damage_anywhere_is_noticed, a_passphrase_opens_and_only_the_right_one,
                   a_source_is_not_asked_when_no_passphrase_is_needed, a_passphrase_that_is_too_long_is_refused,
                   an_absurd_argon2_cost_is_refused);
}
