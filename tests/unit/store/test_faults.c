/* Every write and every sync of a round, and of an opening, fails once: the error is the promised one, what was
 * acknowledged stays, and the work can be finished. The calls of this program are caught here, SQLite's included. */
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/size.h"
#define FIXTURE_ROUND_BYTES 17000 /* files that are written over when nothing names them any more */
#include "tests/unit/store/fixture.h"
#include "tests/unit/suite.h"

enum call { NO_CALL, CALL_WRITE, CALL_SYNC };

static struct {
  enum call call;
  unsigned at, seen; /* the at-th call fails */
  int errno_value;
} fault;

static bool fault_strikes(enum call call) {
  if (call != fault.call || ++fault.seen != fault.at)
    return false;
  errno = fault.errno_value;
  return true;
}

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): libc's are reserved
ssize_t write(int fd, const void *bytes, size_t n_bytes) {
  return fault_strikes(CALL_WRITE) ? -1 : syscall(SYS_write, fd, bytes, n_bytes);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n_bytes, off64_t offset) {
  return fault_strikes(CALL_WRITE) ? -1 : syscall(SYS_pwrite64, fd, bytes, n_bytes, offset);
}

int fsync(int fd) {
  return fault_strikes(CALL_SYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
  return fault_strikes(CALL_SYNC) ? -1 : (int)syscall(SYS_fdatasync, fd);
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

static const struct failure {
  enum call call;
  int errno_value;
  enum err expected;
  bool everywhere; /* at every call, when opening too; else at every third of a round */
} failures[] = {
    {CALL_WRITE, ENOSPC, ERR_NO_SPACE, true},  {CALL_WRITE, EDQUOT, ERR_NO_SPACE, false},
    {CALL_WRITE, EFBIG, ERR_NO_SPACE, false},  {CALL_WRITE, EIO, ERR_IO, true},
    {CALL_WRITE, EROFS, ERR_READ_ONLY, false}, {CALL_SYNC, EIO, ERR_IO, true},
    {CALL_SYNC, ENOSPC, ERR_IO, false}, /* after a sync nothing is known, whatever the reason */
};

enum { N_FAILURES = sizeof failures / sizeof *failures };

static void fault_arm(const struct failure *f, unsigned at) {
  fault.call = f->call;
  fault.errno_value = f->errno_value;
  fault.at = at;
  fault.seen = 0;
}

/* Whether the fault struck. */
static bool fault_disarm(void) {
  bool struck = fault.seen >= fault.at;
  fault.call = NO_CALL;
  return struck;
}

static enum err round_run(struct store *s, uint64_t round, uint64_t sequence) {
  enum err e = round_publish(s, round, sequence);
  return e == ERR_OK ? round_commit(s, round) : e;
}

/* What a restart does with that round. */
static void round_resumed(struct store *s, uint64_t round, bool was_published) {
  struct store_resume r = resume_at(s);
  ck_assert(!r.fell_back);
  ck_assert_uint_ge(r.committed.round, round - 1);
  ck_assert(!was_published || r.at == RESUME_PUBLISHED || r.committed.round == round);
  if (r.at == RESUME_PUBLISHED)
    ck_assert_int_eq(round_commit(s, round), ERR_OK);
  else if (r.committed.round == round - 1)
    ck_assert_int_eq(round_run(s, round, r.sequence + 1), ERR_OK);
  ck_assert_uint_eq(resume_at(s).committed.round, round);
}

/* How much later the next one strikes. */
static unsigned next_call(const struct failure *failure) {
  return (unsigned)(failure->everywhere ? sized(3, 1, 1) : sized(7, 3, 3));
}

/* In that round, which is the third or one that writes over what the rounds before let go. False when it has fewer such
 * calls. */
static bool fail_once(const struct failure *failure, unsigned at, uint64_t round) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, round - 1);
  fault_arm(failure, at);
  enum err published = round_publish(s, round, round);
  enum err e = published == ERR_OK ? round_commit(s, round) : published;
  bool struck = fault_disarm();
  if (!struck) {
    ck_assert_int_eq(e, ERR_OK);
  } else if (failure->expected != ERR_IO) {
    ck_assert_msg(e == failure->expected, "call %d, errno %d, at %u: %s", (int)failure->call, failure->errno_value, at,
                  err_name(e));
    ck_assert_int_eq(round_run(s, round, round), ERR_OK); /* publishing the same again is fine */
  } else {
    ck_assert_int_eq(e, ERR_IO);
    ck_assert_int_eq(round_run(s, round, round), ERR_IO); /* never tried again */
    ck_assert_int_eq(store_event(s, 1, "X", NULL, NULL), ERR_IO);
    store_close(s);
    s = fixture_open(&f);
    round_resumed(s, round, published == ERR_OK);
  }
  ck_assert_uint_eq(resume_at(s).committed.round, round);
  store_close(s);
  fixture_free(&f);
  return struck;
}

START_TEST(every_call_of_a_round_fails_once) {
  for (size_t i = 0; i < N_FAILURES; i++)
    for (uint64_t round = 3; round <= (uint64_t)sized(3, 10, 10); round += 7) {
      unsigned at = 1;
      while (fail_once(&failures[i], at, round))
        at += next_call(&failures[i]);
      ck_assert_uint_gt(at, failures[i].call == CALL_SYNC ? 7 : 10); /* files, folder, log: all were met */
    }
}
END_TEST

/* Both or none of them, and it can be finished. */
static void turn_resumed(struct store *s, uint64_t round) {
  struct store_resume r = resume_at(s);
  ck_assert(!r.fell_back && r.at == RESUME_PUBLISHED);
  ck_assert_uint_eq(r.published.round, r.committed.round + 1);
  ck_assert(r.committed.round == round || r.committed.round == round - 1);
  if (r.committed.round < round)
    ck_assert_int_eq(round_turn(s, round, r.sequence + 1), ERR_OK);
}

static bool fail_turn_once(const struct failure *failure, unsigned at, uint64_t round) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, round - 1);
  ck_assert_int_eq(round_publish(s, round, round), ERR_OK);
  fault_arm(failure, at);
  enum err e = round_turn(s, round, round + 1);
  bool struck = fault_disarm();
  ck_assert_int_eq(e, struck ? failure->expected : ERR_OK);
  if (struck && failure->expected != ERR_IO) {
    ck_assert_uint_eq(resume_at(s).committed.round, round - 1);
    ck_assert_int_eq(round_turn(s, round, round + 1), ERR_OK);
  } else if (struck) {
    ck_assert_int_eq(round_turn(s, round, round + 1), ERR_IO); /* never tried again */
  }
  store_close(s);
  s = fixture_open(&f);
  turn_resumed(s, round);
  ck_assert_int_eq(round_commit(s, round + 1), ERR_OK);
  store_close(s);
  fixture_free(&f);
  return struck;
}

START_TEST(every_call_of_a_turn_fails_once) {
  for (size_t i = 0; i < N_FAILURES; i++) {
    unsigned at = 1;
    while (fail_turn_once(&failures[i], at, 3))
      at += next_call(&failures[i]);
    ck_assert_uint_gt(at, failures[i].call == CALL_SYNC ? 4 : 7);
  }
}
END_TEST

/* What may be done to models, one after the other; the next one where the one before stands already. */
static enum err change_models(struct store *s) {
  struct store_roll_back done;
  bool changed;
  enum err e;
  if ((e = store_pin(s, &job_one, (struct round_label){.round = 2}, "kept", 7, &changed)) != ERR_OK ||
      (e = store_serve(s, &job_one, SERVE_PINNED, (struct round_label){.round = 2}, 7, &changed)) != ERR_OK ||
      (e = store_roll_back(s, &job_one, (struct round_label){.round = 2}, "why", 7, &done, &changed)) != ERR_OK)
    return e;
  return store_unpin(s, &job_one, (struct round_label){.round = 2}, &changed);
}

/* Whole or not at all: the newest commitment is 3, or what went back to 2. */
static void models_are_whole(struct store *s) {
  struct store_roll_back last;
  struct store_resume r = resume_at(s);
  struct round_bytes b = round_bytes((struct round_label){.round = r.committed.sub == 1 ? 2 : 3});
  struct digest model = digest_bytes(b.model, sizeof b.model);
  ck_assert(!r.fell_back && r.committed.round == 3 && digest_equal(&r.model, &model));
  ck_assert(digest_is_zero(&r.chain) == (r.committed.sub == 1));
  ck_assert_int_eq(store_roll_back_last(s, &job_one, &last), r.committed.sub == 1 ? ERR_OK : ERR_NOT_FOUND);
}

static bool fail_change_once(const struct failure *failure, unsigned at) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 3);
  fault_arm(failure, at);
  enum err e = change_models(s);
  bool struck = fault_disarm();
  ck_assert_int_eq(e, struck ? failure->expected : ERR_OK);
  if (failure->expected != ERR_IO || !struck)
    models_are_whole(s);
  store_close(s);
  s = fixture_open(&f);
  models_are_whole(s);
  ck_assert_int_eq(change_models(s), ERR_OK); /* and it can be finished */
  ck_assert_uint_eq(resume_at(s).committed.sub, 1);
  store_close(s);
  fixture_free(&f);
  return struck;
}

START_TEST(every_call_of_a_change_of_models_fails_once) {
  for (size_t i = 0; i < N_FAILURES; i++) {
    unsigned at = 1;
    while (fail_change_once(&failures[i], at))
      at += next_call(&failures[i]);
    ck_assert_uint_gt(at, failures[i].call == CALL_SYNC ? 3 : 4);
  }
}
END_TEST

/* A first start (last = 0) or the start after a few rounds. */
static bool fail_opening_once(const struct failure *failure, unsigned at, uint64_t last) {
  struct fixture f = fixture_new();
  if (last > 0) {
    struct store *s = fixture_open(&f);
    rounds_run(s, 1, last);
    store_close(s);
  }
  struct store *s = NULL;
  fault_arm(failure, at);
  enum err e = fixture_try(&f, 7, &s);
  bool struck = fault_disarm();
  if (e != ERR_OK) {
    ck_assert_ptr_null(s);
    ck_assert_msg(e == ERR_IO || e == failure->expected || e == err_from_errno(failure->errno_value) ||
                      (e == ERR_NO_SPACE && failure->call == CALL_WRITE), /* SQLite keeps no errno of its index */
                  "%s", err_name(e));
    ck_assert_str_ne(f.why, "");
    s = fixture_open(&f);
  }
  ck_assert_uint_eq(resume_at(s).committed.round, last);
  rounds_run(s, last + 1, last + 1);
  store_close(s);
  fixture_free(&f);
  return struck;
}

START_TEST(every_call_of_an_opening_fails_once) {
  for (size_t i = 0; i < N_FAILURES; i++)
    for (uint64_t last = 0; failures[i].everywhere && last <= 2; last += 2)
      for (unsigned at = 1; fail_opening_once(&failures[i], at, last); at += next_call(&failures[i]))
        ;
}
END_TEST

/* ---- a real small disk, for those who may mount one */

static void fill_up(const struct fixture *f) {
  static uint8_t zeros[4096];
  int fd = open(fixture_path(f, "ballast"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  while (write(fd, zeros, sizeof zeros) > 0)
    ;
  close(fd);
}

static int full_disk(struct fixture *f) {
  struct store *s = fixture_open(f);
  rounds_run(s, 1, 2);
  fill_up(f);
  enum err e = ERR_OK;
  uint64_t r = 3; /* the log's file may have room for some */
  while (r < 100 && (e = round_publish(s, r, r)) == ERR_OK && (e = round_commit(s, r)) == ERR_OK)
    r++;
  ck_assert_int_eq(e, ERR_NO_SPACE);
  ck_assert_uint_ge(resume_at(s).committed.round, r - 1);
  ck_assert_int_ne(round_publish(s, 1000, 1000), ERR_OK); /* still full, still alive */
  ck_assert_int_eq(unlink(fixture_path(f, "ballast")), 0);
  ck_assert_int_eq(round_publish(s, r, r), ERR_OK);
  ck_assert_int_eq(round_commit(s, r), ERR_OK);
  fill_up(f);
  store_close(s);
  s = NULL;
  e = fixture_try(f, 7, &s); /* SQLite may not even open there */
  ck_assert(e == ERR_OK || e == ERR_NO_SPACE);
  store_close(s);
  ck_assert_int_eq(unlink(fixture_path(f, "ballast")), 0);
  s = fixture_open(f);
  ck_assert_uint_eq(resume_at(s).committed.round, r);
  store_close(s);
  return 0;
}

static int read_only_disk(struct fixture *f) {
  struct store *s = fixture_open(f);
  rounds_run(s, 1, 2);
  store_close(s);
  s = NULL;
  ck_assert_int_eq(mount("tmpfs", f->state, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
  ck_assert_int_eq(fixture_try(f, 7, &s), ERR_READ_ONLY);
  ck_assert_int_eq(store_open_read_only(f->state, &lanes, &s, f->why), ERR_OK);
  ck_assert_uint_eq(resume_at(s).committed.round, 2);
  store_close(s);
  return 0;
}

/* Runs a check on a small disk of its own, in a mount namespace of its own, or says why not. */
static void on_small_disk(const char *name, int (*check)(struct fixture *f)) {
  enum { CANNOT_MOUNT = 77 };
  struct fixture f = fixture_new();
  ck_assert_int_eq(mkdir(f.state, 0700), 0);
  pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", f.state, "tmpfs", 0, "size=2m") != 0)
      _exit(CANNOT_MOUNT);
    _exit(check(&f));
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFEXITED(status));
  if (WEXITSTATUS(status) == CANNOT_MOUNT)
    printf("%s ... skipped: it needs the right to mount a file system\n", name);
  else
    ck_assert_int_eq(WEXITSTATUS(status), 0);
  fixture_free(&f);
}

START_TEST(a_full_disk_halts_and_heals) {
  on_small_disk("a_full_disk_halts_and_heals", full_disk);
}
END_TEST

START_TEST(a_read_only_disk_is_said_and_can_be_read) {
  on_small_disk("a_read_only_disk_is_said_and_can_be_read", read_only_disk);
}
END_TEST

int main(void) {
  return SUITE_RUN("faults", every_call_of_a_round_fails_once, every_call_of_a_turn_fails_once,
                   every_call_of_a_change_of_models_fails_once, every_call_of_an_opening_fails_once,
                   a_full_disk_halts_and_heals, a_read_only_disk_is_said_and_can_be_read);
}
