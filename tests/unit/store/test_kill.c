/* kill -9 at random moments, STORE_KILLS times (40): a child publishes and commits and tells each acknowledged step; after its end nothing that
 * it told is lost, nothing is half there, and the next child goes on. */
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <time.h>

#define FIXTURE_ROUND_BYTES 17000 /* files that are written over when nothing names them any more */
#include "tests/unit/store/fixture.h"
#include "tests/unit/suite.h"

enum { MAX_STEPS = 8, MAX_DELAY_US = 3000 };

/* Told over the pipe, once the store has acknowledged it; round 0: it is open. */
struct step {
  uint64_t round;
  uint64_t committed; /* 0: published */
};

static void tell(int fd, uint64_t round, bool committed) {
  struct step step = {.round = round, .committed = committed};
  if (write(fd, &step, sizeof step) != (ssize_t)sizeof step)
    _exit(1);
}

static void child_run(struct fixture *f, int fd) {
  struct store *s = NULL;
  struct store_resume r;
  if (fixture_try(f, 7, &s) != ERR_OK || store_resume(s, &job_one, &r, f->why) != ERR_OK || r.fell_back)
    _exit(1);
  tell(fd, 0, false);
  bool published = r.at == RESUME_PUBLISHED;
  for (uint64_t round = r.committed.round + 1, sequence = r.sequence;; round++, published = false) {
    if (!published && round_publish(s, round, ++sequence) != ERR_OK)
      _exit(1);
    tell(fd, round, false);
    if (round_commit(s, round) != ERR_OK)
      _exit(1);
    tell(fd, round, true);
  }
}

/* The last step that a child told before it was killed. */
static struct step child_run_and_kill(struct fixture *f, struct rng *rng) {
  int ends[2];
  ck_assert_int_eq(pipe(ends), 0);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    close(ends[0]);
    child_run(f, ends[1]);
  }
  close(ends[1]);
  struct step step = {0}, last = {0};
  for (uint64_t n = rng_below(rng, MAX_STEPS); n > 0; n--) { /* none: killed while it opens */
    ck_assert_int_eq(read(ends[0], &last, sizeof last), (ssize_t)sizeof last);
  }
  struct timespec delay = {.tv_nsec = (long)rng_below(rng, MAX_DELAY_US) * 1000};
  nanosleep(&delay, NULL);
  kill(child, SIGKILL);
  while (read(ends[0], &step, sizeof step) == (ssize_t)sizeof step)
    last = step;
  close(ends[0]);
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(WIFSIGNALED(status), "the child could not go on");
  return last;
}

static void assert_file(struct store *s, const struct digest *name, const uint8_t *expected) {
  uint8_t *bytes;
  size_t n_bytes;
  ck_assert_int_eq(store_file_load(s, name, ROUND_BYTES, &bytes, &n_bytes), ERR_OK);
  ck_assert_uint_eq(n_bytes, ROUND_BYTES);
  ck_assert_mem_eq(bytes, expected, ROUND_BYTES);
  free(bytes);
}

static void assert_outbox(struct store *s, uint64_t newest) {
  struct store_outbox_entry entries[KEEP_PAYLOADS];
  size_t n;
  ck_assert_int_eq(store_outbox(s, &job_one, entries, KEEP_PAYLOADS, &n), ERR_OK);
  ck_assert_uint_eq(n, newest < KEEP_PAYLOADS ? newest : KEEP_PAYLOADS);
  for (size_t i = 0; i < n; i++) {
    struct round_bytes b = round_bytes(entries[i].label);
    ck_assert_uint_eq(entries[i].sequence, newest - i); /* one payload a round: they go in step */
    ck_assert_uint_eq(entries[i].label.round, newest - i);
    ck_assert_mem_eq(entries[i].manifest, b.manifest, sizeof b.manifest);
    assert_file(s, &entries[i].payload, b.payload);
  }
}

/* Everything that was told is there, at most the one step after it too; the number of steps that stand. */
static uint64_t assert_whole(struct fixture *f, uint64_t n_told) {
  struct store *s = fixture_open(f);
  struct store_resume r = resume_at(s);
  uint64_t n_steps = 2 * r.committed.round + (r.at == RESUME_PUBLISHED);
  ck_assert(!r.fell_back);
  ck_assert_uint_ge(n_steps, n_told);
  ck_assert_uint_le(n_steps, n_told + 1);
  ck_assert_uint_eq(r.sequence, (n_steps + 1) / 2);
  if (r.at != RESUME_FRESH) {
    uint64_t round = r.at == RESUME_PUBLISHED ? r.published.round : r.committed.round;
    struct round_bytes b = round_bytes((struct round_label){.round = round});
    assert_file(s, &r.half, b.half);
    if (r.at == RESUME_COMMITTED)
      assert_file(s, &r.model, b.model);
  }
  assert_outbox(s, r.sequence);
  store_close(s);
  return n_steps;
}

START_TEST(nothing_acknowledged_is_lost) {
  struct fixture f = fixture_new();
  struct rng rng;
  uint64_t n_steps = 0;
  const char *wish = getenv("STORE_KILLS");
  unsigned n_kills = wish != NULL ? (unsigned)strtoul(wish, NULL, 10) : 40;
  rng_init(&rng, 20240501);
  for (unsigned cycle = 0; cycle < n_kills; cycle++) {
    struct step last = child_run_and_kill(&f, &rng);
    uint64_t n_told = 2 * last.round - (last.committed == 0);
    n_steps = assert_whole(&f, last.round > 0 && n_told > n_steps ? n_told : n_steps);
  }
  ck_assert_uint_gt(n_steps, n_kills / 2); /* the kills hit rounds, not only openings */
  struct store *s = fixture_open(&f);
  ck_assert_uint_gt(store_boot_epoch(s) >> 32, n_kills);
  store_close(s);
  fixture_free(&f);
}
END_TEST

int main(void) {
  return SUITE_RUN("kill", nothing_acknowledged_is_lost);
}
