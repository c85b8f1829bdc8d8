#include "agent/run/scribe.h"
#include "crypto/digest.h"
#include "tests/unit/suite.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_MS = 20000, PAYLOAD_BYTES = 3000, HALF_BYTES = 5000, COPY_OFFSET = 1000, COPY_BYTES = 4000 };

static const struct digest the_job = {{7}};

/* A scribe on a store in a folder of its own. */
struct desk {
  char folder[32];
  struct scribe *scribe;
  uint64_t boot_epoch;
};

static void desk_reopen(struct desk *d) {
  const struct store_config config = {
      .state_dir = d->folder, .identity = {1}, .digest = &digest_tree, .keep_last = 3, .random = 5};
  char warning[MAX_REASON_BYTES], why[MAX_REASON_BYTES];
  struct store *store;
  enum err e = store_open(&config, &store, warning, why);
  ck_assert_msg(e == ERR_OK, "%s", why);
  d->boot_epoch = store_boot_epoch(store);
  ck_assert_int_eq(scribe_start(&store, &d->scribe), ERR_OK);
  ck_assert_ptr_null(store); /* it is the scribe's */
}

static void desk_open(struct desk *d) {
  *d = (struct desk){.folder = "/tmp/starling-XXXXXX"};
  ck_assert_ptr_nonnull(mkdtemp(d->folder));
  desk_reopen(d);
}

static void desk_close(struct desk *d) {
  char command[64];
  scribe_stop(d->scribe);
  snprintf(command, sizeof command, "rm -r %s", d->folder);
  ck_assert_int_eq(system(command), 0); // NOLINT(cert-env33-c): our own folder
}

static struct scribe_result *next_result(struct desk *d) {
  struct pollfd fd = {.fd = scribe_fd(d->scribe), .events = POLLIN};
  ck_assert_int_eq(poll(&fd, 1, ANSWER_MS), 1);
  struct scribe_result *r = scribe_poll(d->scribe);
  ck_assert_ptr_nonnull(r);
  return r;
}

static struct scribe_result *run(struct desk *d, struct scribe_job *job) {
  enum scribe_job_kind kind = job->kind;
  scribe_put(d->scribe, job);
  struct scribe_result *r = next_result(d);
  ck_assert_int_eq(r->kind, kind);
  return r;
}

static struct scribe_job *job_new(enum scribe_job_kind kind) {
  struct scribe_job *job = calloc(1, sizeof *job);
  ck_assert_ptr_nonnull(job);
  job->kind = kind;
  return job;
}

static struct buffer buffer_of(size_t n_bytes, unsigned seed) {
  struct buffer b = {malloc(n_bytes), n_bytes};
  ck_assert_ptr_nonnull(b.bytes);
  for (size_t i = 0; i < n_bytes; i++)
    b.bytes[i] = (uint8_t)(i * 7 + seed + (i >> 8));
  return b;
}

enum publication_kind { FULL, DIFFERENCE, NONE };

/* Round r has sequence r. */
static struct scribe_job *publication(const struct desk *d, uint64_t round, enum publication_kind kind) {
  struct scribe_job *job = job_new(SCRIBE_PUBLISH);
  memset(job->manifest, (int)round, sizeof job->manifest);
  struct store_publication *p = &job->publication;
  *p = (struct store_publication){
      .job = the_job,
      .label = {round, 0},
      .boot_epoch = d->boot_epoch,
      .sequence = round,
      .chain = {{(uint8_t)round}},
      .manifest = job->manifest,
      .n_manifest = sizeof job->manifest,
  };
  if (kind == NONE)
    return job;
  job->payload = buffer_of(PAYLOAD_BYTES, (unsigned)round);
  job->half = buffer_of(HALF_BYTES, (unsigned)round + 100);
  p->payload = job->payload.bytes;
  p->n_payload = job->payload.n_bytes;
  p->half = job->half.bytes;
  p->n_half = job->half.n_bytes;
  p->copy_offset = COPY_OFFSET;
  p->n_copy = kind == DIFFERENCE ? COPY_BYTES : 0;
  return job;
}

static struct scribe_job *commitment(uint64_t round) {
  struct scribe_job *job = job_new(SCRIBE_COMMIT);
  job->model = buffer_of(100, (unsigned)round + 200);
  job->contributions = calloc(2, sizeof *job->contributions);
  for (uint8_t i = 0; i < 2; i++)
    job->contributions[i] = (struct store_contribution){
        .origin = {i}, .name = "mec", .reason = i == 0 ? ERR_OK : ERR_LATE, .weight = 0.5, .arrival_ms = -1};
  job->commitment = (struct store_commitment){
      .job = the_job,
      .label = {round, 0},
      .model = job->model.bytes,
      .n_model = job->model.n_bytes,
      .contributions = job->contributions,
      .n_contributions = 2,
  };
  return job;
}

static void run_ok(struct desk *d, struct scribe_job *job) {
  struct scribe_result *r = run(d, job);
  ck_assert_int_eq(r->error, ERR_OK);
  ck_assert_ptr_null(r->job);
  int *fds[] = {&r->payload_fd, &r->copy_fd};
  for (size_t i = 0; i < 2; i++) {
    if (*fds[i] >= 0)
      close(*fds[i]);
    *fds[i] = -1;
  }
  scribe_result_free(r);
}

static void check_file(int *fd, struct buffer expected) {
  uint8_t bytes[HALF_BYTES + 1];
  ck_assert_int_eq(pread(*fd, bytes, sizeof bytes, 0), (ssize_t)expected.n_bytes);
  ck_assert_mem_eq(bytes, expected.bytes, expected.n_bytes);
  close(*fd);
  *fd = -1; /* taken */
  free(expected.bytes);
}

START_TEST(a_publication_comes_back_as_descriptors) {
  struct desk d;
  desk_open(&d);
  struct scribe_result *r = run(&d, publication(&d, 1, FULL));
  ck_assert_int_eq(r->error, ERR_OK);
  check_file(&r->payload_fd, buffer_of(PAYLOAD_BYTES, 1));
  ck_assert_int_eq(r->copy_fd, -1); /* a full payload is its own copy */
  scribe_result_free(r);
  run_ok(&d, commitment(1));

  r = run(&d, publication(&d, 2, DIFFERENCE));
  ck_assert_int_eq(r->error, ERR_OK);
  check_file(&r->payload_fd, buffer_of(PAYLOAD_BYTES, 2));
  check_file(&r->copy_fd, buffer_of(HALF_BYTES, 102));
  scribe_result_free(r);
  run_ok(&d, commitment(2));

  r = run(&d, publication(&d, 3, NONE));
  ck_assert_int_eq(r->error, ERR_OK);
  ck_assert(r->payload_fd == -1 && r->copy_fd == -1);
  scribe_result_free(r);
  desk_close(&d);
}
END_TEST

START_TEST(jobs_are_answered_in_order) {
  struct desk d;
  desk_open(&d);
  scribe_put(d.scribe, publication(&d, 1, FULL));
  scribe_put(d.scribe, commitment(1));
  scribe_put(d.scribe, publication(&d, 2, DIFFERENCE));
  static const enum scribe_job_kind kinds[] = {SCRIBE_PUBLISH, SCRIBE_COMMIT, SCRIBE_PUBLISH};
  for (size_t i = 0; i < 3; i++) {
    struct scribe_result *r = next_result(&d);
    ck_assert_int_eq(r->kind, kinds[i]);
    ck_assert_int_eq(r->error, ERR_OK);
    if (r->payload_fd >= 0)
      close(r->payload_fd);
    if (r->copy_fd >= 0)
      close(r->copy_fd);
    r->payload_fd = r->copy_fd = -1;
    scribe_result_free(r);
  }
  desk_close(&d);
}
END_TEST

START_TEST(a_failure_has_its_error_and_no_descriptor) {
  struct desk d;
  desk_open(&d);
  struct scribe_job *job = publication(&d, 1, FULL);
  job->publication.boot_epoch++;
  struct scribe_result *r = run(&d, job);
  ck_assert_int_eq(r->error, ERR_RANGE);
  ck_assert(r->payload_fd == -1 && r->copy_fd == -1 && r->job == NULL);
  scribe_result_free(r);
  r = run(&d, commitment(5));
  ck_assert_int_eq(r->error, ERR_NOT_FOUND);
  scribe_result_free(r);
  desk_close(&d);
}
END_TEST

START_TEST(what_was_committed_is_there_after_a_restart) {
  struct desk d;
  desk_open(&d);
  for (uint64_t round = 1; round <= 3; round++) {
    run_ok(&d, publication(&d, round, round == 1 ? FULL : DIFFERENCE));
    run_ok(&d, commitment(round));
  }
  uint64_t epoch = d.boot_epoch;
  scribe_stop(d.scribe);
  desk_reopen(&d);
  ck_assert_uint_gt(d.boot_epoch, epoch);

  struct scribe_job *job = job_new(SCRIBE_QUERY);
  job->of_job = the_job;
  job->client = 42;
  job->n_rounds = 2;
  struct scribe_result *r = run(&d, job);
  ck_assert_int_eq(r->error, ERR_OK);
  ck_assert_uint_eq(r->client, 42);
  ck_assert_uint_eq(r->n_rounds, 2);
  ck_assert_uint_eq(r->rounds[0].label.round, 2);
  ck_assert_uint_eq(r->rounds[1].label.round, 3);
  ck_assert(r->rounds[1].committed);
  scribe_result_free(r);
  desk_close(&d);
}
END_TEST

static struct scribe_job *question(uint64_t round, uint32_t sub) {
  struct scribe_job *job = job_new(SCRIBE_QUERY);
  job->of_job = the_job;
  job->client = 9;
  job->one_round = true;
  job->label = (struct round_label){round, sub};
  return job;
}

START_TEST(one_round_comes_with_its_peers) {
  struct desk d;
  desk_open(&d);
  for (uint64_t round = 1; round <= 3; round++) {
    run_ok(&d, publication(&d, round, FULL));
    run_ok(&d, commitment(round));
  }
  struct scribe_result *r = run(&d, question(2, 0));
  ck_assert_int_eq(r->error, ERR_OK);
  ck_assert_uint_eq(r->n_rounds, 1);
  ck_assert_uint_eq(r->rounds[0].label.round, 2);
  ck_assert_uint_eq(r->n_contributions, 2);
  ck_assert_int_eq(r->contributions[0].reason, ERR_OK);
  ck_assert_int_eq(r->contributions[1].reason, ERR_LATE);
  scribe_result_free(r);
  static const struct round_label missing[] = {{4, 0}, {2, 1}, {0, 0}};
  for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
    r = run(&d, question(missing[i].round, missing[i].sub));
    ck_assert_int_eq(r->error, ERR_NOT_FOUND);
    ck_assert_uint_eq(r->client, 9);
    ck_assert_uint_eq(r->n_rounds, 0);
    scribe_result_free(r);
  }
  desk_close(&d);
}
END_TEST

START_TEST(a_query_has_a_bound) {
  static const uint32_t sizes[] = {0, SCRIBE_MAX_ROUNDS + 1, UINT32_MAX};
  struct desk d;
  desk_open(&d);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct scribe_job *job = job_new(SCRIBE_QUERY);
    job->of_job = the_job;
    job->n_rounds = sizes[i];
    struct scribe_result *r = run(&d, job);
    ck_assert_int_eq(r->error, ERR_RANGE);
    scribe_result_free(r);
  }
  desk_close(&d);
}
END_TEST

START_TEST(raises_the_epoch_above_what_was_seen) {
  struct desk d;
  desk_open(&d);
  struct scribe_job *job = job_new(SCRIBE_RAISE_EPOCH);
  job->above = d.boot_epoch + ((uint64_t)9 << 32);
  uint64_t above = job->above;
  struct scribe_result *r = run(&d, job);
  ck_assert_int_eq(r->error, ERR_OK);
  ck_assert_uint_gt(r->boot_epoch >> 32, above >> 32);
  scribe_result_free(r);
  desk_close(&d);
}
END_TEST

START_TEST(events_that_nobody_reads_never_crowd_out_a_publication) {
  struct desk d;
  desk_open(&d);
  for (int i = 0; i < 200; i++) {
    struct scribe_job *job = job_new(SCRIBE_EVENT);
    snprintf(job->event_name, sizeof job->event_name, "session-up");
    snprintf(job->event_peer, sizeof job->event_peer, "mec-%d", i);
    scribe_put(d.scribe, job);
  }
  scribe_put(d.scribe, publication(&d, 1, NONE));
  for (size_t i = 0; i <= SCRIBE_RING - SCRIBE_RESERVED; i++) {
    struct scribe_result *r = next_result(&d);
    ck_assert_int_eq(r->kind, i < SCRIBE_RING - SCRIBE_RESERVED ? SCRIBE_EVENT : SCRIBE_PUBLISH);
    ck_assert_int_eq(r->error, ERR_OK);
    scribe_result_free(r);
  }
  ck_assert_ptr_null(scribe_poll(d.scribe));
  desk_close(&d);
}
END_TEST

START_TEST(a_stop_finishes_what_was_put) {
  struct desk d;
  desk_open(&d);
  scribe_put(d.scribe, publication(&d, 1, DIFFERENCE));
  scribe_put(d.scribe, commitment(1));
  scribe_stop(d.scribe);
  desk_reopen(&d);
  struct scribe_result *r = run(&d, question(1, 0));
  ck_assert_int_eq(r->error, ERR_OK);
  ck_assert(r->rounds[0].committed);
  scribe_result_free(r);
  desk_close(&d);
  scribe_stop(NULL);
}
END_TEST

static struct scribe_job *about(enum scribe_job_kind kind, uint64_t round) {
  struct scribe_job *job = job_new(kind);
  job->of_job = the_job;
  job->label.round = round;
  job->client = 9;
  job->at_unix_s = 7;
  job->max_bytes = HALF_BYTES;
  return job;
}

/* Every change of models, and that it is said whether anything changed. */
START_TEST(models_are_loaded_changed_and_gone_back_to) {
  struct desk d;
  desk_open(&d);
  for (uint64_t round = 1; round <= 5; round++) {
    run_ok(&d, publication(&d, round, FULL));
    run_ok(&d, commitment(round));
  }
  static const enum model_change changes[] = {CHANGE_PIN, CHANGE_SERVE, CHANGE_UNPIN};
  for (size_t i = 0; i < 2 * sizeof changes / sizeof *changes; i++) {
    struct scribe_job *job = about(SCRIBE_CHANGE, 4);
    job->change = changes[i / 2];
    job->serve = SERVE_PINNED;
    struct scribe_result *r = run(&d, job);
    ck_assert(r->error == ERR_OK && r->client == 9 && r->label.round == 4);
    ck_assert_int_eq(r->changed, i % 2 == 0); /* the same again changes nothing */
    scribe_result_free(r);
  }
  struct scribe_result *r = run(&d, about(SCRIBE_LOAD_MODEL, 4));
  struct buffer model = buffer_of(100, 204), half = buffer_of(HALF_BYTES, 104);
  ck_assert_int_eq(r->error, ERR_OK);
  ck_assert_mem_eq(r->model.bytes, model.bytes, model.n_bytes);
  ck_assert_mem_eq(r->half.bytes, half.bytes, half.n_bytes);
  free(model.bytes);
  free(half.bytes);
  scribe_result_free(r);
  r = run(&d, about(SCRIBE_LOAD_MODEL, 1)); /* no longer kept */
  ck_assert_int_eq(r->error, ERR_NOT_FOUND);
  scribe_result_free(r);
  char elsewhere[] = "/tmp/test_scribe_XXXXXX"; /* a file is read once, up to its bound, and gone */
  for (size_t bound = 3; bound <= 4; bound++) {
    int fd = mkstemp(elsewhere);
    ck_assert(fd >= 0 && write(fd, "x\0yz", 4) == 4 && close(fd) == 0);
    struct scribe_job *load = about(SCRIBE_LOAD_MODEL, 0);
    load->path = strdup(elsewhere);
    load->max_bytes = bound;
    r = run(&d, load);
    ck_assert_int_eq(r->error, bound == 4 ? ERR_OK : ERR_LIMIT);
    ck_assert(bound < 4 || (r->model.n_bytes == 4 && memcmp(r->model.bytes, "x\0yz", 4) == 0));
    ck_assert_int_ne(access(elsewhere, F_OK), 0);
    scribe_result_free(r);
    snprintf(elsewhere, sizeof elsewhere, "/tmp/test_scribe_XXXXXX");
  }
  struct scribe_job *back = about(SCRIBE_ROLL_BACK, 4);
  snprintf(back->note, sizeof back->note, "bad sensor");
  r = run(&d, back);
  ck_assert(r->error == ERR_OK && r->roll_back.label.round == 5 && r->roll_back.label.sub == 1);
  ck_assert_str_eq(r->roll_back.note, "bad sensor");
  scribe_result_free(r);
  desk_close(&d);
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/scribe", a_publication_comes_back_as_descriptors, jobs_are_answered_in_order,
                   a_failure_has_its_error_and_no_descriptor, what_was_committed_is_there_after_a_restart,
                   one_round_comes_with_its_peers, a_query_has_a_bound, raises_the_epoch_above_what_was_seen,
                   events_that_nobody_reads_never_crowd_out_a_publication, a_stop_finishes_what_was_put,
                   models_are_loaded_changed_and_gone_back_to);
}
