/* Jobs that come and go while sessions stand, and the files that describe them. */
#include "tests/unit/gossip/world.h"

static struct gossip_job_config another_job(const struct agent *a) {
  struct gossip_job_config job = a->job;
  job.job = digest_filled(9);
  return job;
}

static size_t add_job(struct agent *a, const struct gossip_job_config *job) {
  size_t index = SIZE_MAX;
  ck_assert_int_eq(gossip_add_job(a->node, job, 1 << 20, &index), ERR_OK);
  return index;
}

static struct world *pair_new(void) {
  struct world *w = world_new(2, false);
  only_called_by(&w->agents[1], &w->agents[0]);
  world_start(w);
  world_run(w, 100);
  ck_assert(info_of(&w->agents[0], &w->agents[1]).has_session);
  return w;
}

START_TEST(a_job_that_comes_later_is_common_once_both_run_it) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct gossip_job_config job = another_job(a);
  ck_assert_uint_eq(add_job(a, &job), 1);
  world_run(w, 100);
  ck_assert(gossip_names_job(b->node, peer_of(b, a), &job.job));
  ck_assert(!gossip_names_job(a->node, peer_of(a, b), &job.job));
  ck_assert_uint_eq(heard_by(a, b)->n_hello, 1); /* of the first job only */
  ck_assert_uint_eq(add_job(b, &job), 1);
  world_run(w, 100);
  ck_assert(gossip_names_job(a->node, peer_of(a, b), &job.job));
  ck_assert_uint_eq(heard_by(a, b)->n_hello, 2);
  ck_assert_uint_eq(heard_by(b, a)->n_hello, 2);
  unsigned n = heard_by(b, a)->n_state;
  gossip_state_changed(a->node, 1);
  world_run(w, 100);
  ck_assert_uint_eq(heard_by(b, a)->n_state, n + 1);
  ck_assert_uint_eq(heard_by(a, b)->n_down, 0);
  ck_assert_uint_le(w->n_by_type[MESSAGE_HELLO], 6); /* two at first, two changes, and answers to them */
  world_free(w);
}
END_TEST

/* Whoever answers a HELLO with one of its own says that before anything else about the job. */
START_TEST(what_is_said_at_once_of_a_job_that_comes_later_is_heard) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct gossip_job_config job = another_job(a);
  a->pools = b->pools = true;
  add_job(a, &job);
  world_run(w, 100);
  add_job(b, &job);
  world_run(w, 100);
  ck_assert_uint_eq(heard_by(a, b)->n_pool, 1);
  ck_assert_uint_eq(heard_by(b, a)->n_pool, 1);
  world_free(w);
}
END_TEST

START_TEST(a_job_that_has_ended_is_not_why_a_peer_takes_no_part) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct gossip_job_config job = another_job(a), other = job;
  gossip_end_job(a->node, 0);
  add_job(a, &job);
  other.contract = digest_filled(77);
  add_job(b, &other);
  world_run(w, 100);
  ck_assert_int_eq(info_of(a, b).reason, ERR_CONTRACT);
  world_free(w);
}
END_TEST

START_TEST(a_job_that_differs_is_refused_when_it_comes) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct gossip_job_config job = another_job(a), other = job;
  add_job(a, &job);
  other.contract = digest_filled(77);
  add_job(b, &other);
  world_run(w, 100);
  ck_assert_int_eq(heard_by(a, b)->refused_job, ERR_CONTRACT);
  ck_assert_int_eq(heard_by(b, a)->refused_job, ERR_CONTRACT);
  ck_assert_int_eq(info_of(a, b).reason, ERR_OK); /* the first one is equal */
  world_run(w, NOTE_EVERY_MS);
  struct gossip_job_config third = other, bent = other;
  third.job = bent.job = digest_filled(10);
  bent.contract_text = "contract: 1\nclass 1: \"ok\"\nclass 2: \"bent\"\n";
  add_job(b, &bent);
  third.contract = digest_filled(78);
  add_job(a, &third);
  world_run(w, 100);
  ck_assert_int_eq(info_of(a, b).reason, ERR_OK);
  struct gossip_note note = {0};
  while (strstr(note.text, "bent") == NULL)
    ck_assert(gossip_note_take(a->node, &note));
  ck_assert_int_eq(note.reason, ERR_CONTRACT);
  world_free(w);
}
END_TEST

START_TEST(a_job_that_ends_is_told_and_stays_ended) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  gossip_end_job(b->node, 0);
  gossip_end_job(b->node, 0);
  world_run(w, 100);
  ck_assert_int_eq(heard_by(a, b)->refused_job, ERR_JOB);
  ck_assert(!gossip_names_job(a->node, peer_of(a, b), &a->job.job));
  ck_assert(gossip_names_job(b->node, peer_of(b, a), &a->job.job)); /* which still runs it */
  unsigned n = heard_by(a, b)->n_state, m = heard_by(b, a)->n_state;
  gossip_state_changed(a->node, 0);
  gossip_state_changed(b->node, 0);
  world_run(w, 6000);
  ck_assert_uint_eq(heard_by(a, b)->n_state, n);
  ck_assert_uint_eq(heard_by(b, a)->n_state, m);
  ck_assert_uint_eq(add_job(b, &b->job), 1); /* under a new index */
  world_run(w, 100);
  gossip_state_changed(b->node, 1);
  world_run(w, 100);
  ck_assert_uint_gt(heard_by(a, b)->n_state, n);
  world_free(w);
}
END_TEST

START_TEST(who_changes_its_jobs_too_often_gets_a_new_session) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  for (unsigned i = 0; i < MAX_HELLOS; i++)
    send_hello_again(a->node, &a->node->peers[peer_of(a, b)]);
  world_run(w, 1000);
  ck_assert_uint_eq(heard_by(b, a)->n_down, 1);
  ck_assert_uint_eq(heard_by(b, a)->n_up, 2);
  for (unsigned i = 0; i < MAX_HELLOS + 5; i++) { /* somebody else's program */
    send_hello(a->node, &a->node->peers[peer_of(a, b)]);
    world_run(w, 10);
  }
  ck_assert_uint_eq(info_of(b, a).drops[err_drop_index(ERR_MESSAGE)], 6);
  ck_assert(info_of(b, a).has_session);
  world_free(w);
}
END_TEST

START_TEST(jobs_are_bounded) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0];
  struct gossip_job_config jobs[MAX_JOBS_IN_HELLO + 1];
  size_t index;
  ck_assert_int_eq(gossip_add_job(a->node, &a->job, 1, &index), ERR_EXISTS);
  for (unsigned i = 1; i <= MAX_JOBS_IN_HELLO; i++) {
    jobs[i] = a->job;
    jobs[i].job = digest_filled((uint8_t)(100 + i));
  }
  for (unsigned i = 1; i < MAX_JOBS_IN_HELLO; i++)
    add_job(a, &jobs[i]);
  ck_assert_int_eq(gossip_add_job(a->node, &jobs[MAX_JOBS_IN_HELLO], 1, &index), ERR_LIMIT);
  world_run(w, 100);
  ck_assert(info_of(a, &w->agents[1]).has_session);
  world_free(w);
}
END_TEST

/* ---- job files ---- */

static const char text[] = "job: inspection\nversion: 2\n";

static struct job_file file_of(const struct agent *signer) {
  struct job_file f = {.swarm = {{7}}, .name = "inspection", .version = 2, .text = text, .n_text = sizeof text - 1};
  job_file_sign(&f, signer->identity);
  return f;
}

static uint8_t bytes[JOB_FILE_MAX_BYTES];

static enum err send_file(struct agent *from, struct agent *to, const struct job_file *f) {
  struct writer w;
  writer_init(&w, bytes, sizeof bytes);
  job_file_write(f, &w);
  return gossip_send_job_file(from->node, peer_of(from, to), bytes, w.n_bytes);
}

START_TEST(a_job_file_is_asked_for_and_sent) {
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct digest all = {0};
  gossip_ask_job(a->node, peer_of(a, b), &all);
  world_run(w, 100);
  ck_assert_uint_eq(heard_by(b, a)->n_ask_job, 1);
  ck_assert(digest_is_zero(&heard_by(b, a)->asked_job));
  struct job_file f = file_of(b);
  ck_assert_int_eq(send_file(b, a, &f), ERR_OK);
  f = file_of(a); /* one's own comes back from whoever heard of it */
  f.version = 3;
  job_file_sign(&f, a->identity);
  world_run(w, 100);
  ck_assert_uint_eq(heard_by(a, b)->n_job_file, 1);
  ck_assert_uint_eq(heard_by(a, b)->job_file_version, 2);
  ck_assert_int_eq(send_file(b, a, &f), ERR_OK);
  world_run(w, 100);
  ck_assert_uint_eq(heard_by(a, b)->n_job_file, 2);
  ck_assert_uint_eq(heard_by(a, b)->job_file_version, 3);
  world_free(w);
}
END_TEST

START_TEST(who_runs_no_job_gets_job_files_too) {
  struct world *w = world_new(2, false);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct digest all = {0};
  a->config.n_jobs = 0;
  a->config.jobs = NULL;
  world_start(w);
  world_run(w, 1000);
  ck_assert(info_of(a, b).has_session);
  ck_assert_int_eq(info_of(a, b).reason, ERR_OK);
  gossip_ask_job(a->node, peer_of(a, b), &all);
  struct job_file f = file_of(b);
  ck_assert_int_eq(send_file(b, a, &f), ERR_OK);
  world_run(w, 100);
  ck_assert_uint_eq(heard_by(b, a)->n_ask_job, 1);
  ck_assert_uint_eq(heard_by(a, b)->n_job_file, 1);
  world_free(w);
}
END_TEST

static void forge(struct job_file *f, const struct agent *b) {
  (void)b;
  f->signature.bytes[3] ^= 1;
}

static void other_swarm(struct job_file *f, const struct agent *b) {
  f->swarm.bytes[0] = 8;
  job_file_sign(f, b->identity);
}

static void stranger(struct job_file *f, const struct agent *b) {
  (void)b;
  struct identity *id = identity_numbered(77);
  job_file_sign(f, id);
  identity_free(id);
}

static void other_job(struct job_file *f, const struct agent *b) {
  (void)b;
  f->job.bytes[0] ^= 1;
}

START_TEST(a_job_file_that_nobody_here_stands_for_is_refused) {
  static const struct {
    void (*spoil)(struct job_file *f, const struct agent *b);
    enum err expected;
  } cases[] = {{forge, ERR_SIGNATURE}, {other_swarm, ERR_SWARM}, {stranger, ERR_ORIGIN}, {other_job, ERR_JOB}};
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct job_file f = file_of(b);
    cases[i].spoil(&f, b);
    ck_assert_int_eq(send_file(b, a, &f), ERR_OK);
    world_run(w, 100);
    ck_assert_uint_eq(info_of(a, b).drops[err_drop_index(cases[i].expected)], 1);
    struct gossip_note note;
    ck_assert(gossip_note_take(a->node, &note));
    ck_assert_int_eq(note.reason, cases[i].expected);
  }
  ck_assert_int_eq(gossip_send_job_file(b->node, peer_of(b, a), (const uint8_t *)"\1junk", 5), ERR_OK);
  world_run(w, 100);
  ck_assert_uint_eq(info_of(a, b).drops[err_drop_index(ERR_MESSAGE)], 1);
  ck_assert_uint_eq(heard_by(a, b)->n_job_file, 0);
  ck_assert(info_of(a, b).has_session);
  world_free(w);
}
END_TEST

START_TEST(large_ones_wait_for_room) {
  static char large[MAX_JOB_TEXT_BYTES];
  memset(large, 'x', sizeof large);
  struct world *w = pair_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct job_file f = file_of(b);
  f.text = large;
  f.n_text = sizeof large;
  job_file_sign(&f, b->identity);
  ck_assert_int_eq(send_file(b, a, &f), ERR_OK);
  ck_assert_int_eq(send_file(b, a, &f), ERR_OK);
  ck_assert_int_eq(send_file(b, a, &f), ERR_BACKLOG);
  ck_assert_uint_eq(info_of(b, a).drops[err_drop_index(ERR_BACKLOG)], 0); /* nobody's fault */
  world_run(w, 100);
  ck_assert_int_eq(send_file(b, a, &f), ERR_OK);
  world_run(w, 100);
  ck_assert_uint_eq(heard_by(a, b)->n_job_file, 3);
  world_free(w);
}
END_TEST

int main(void) {
  return SUITE_RUN("jobs", a_job_that_comes_later_is_common_once_both_run_it,
                   what_is_said_at_once_of_a_job_that_comes_later_is_heard,
                   a_job_that_has_ended_is_not_why_a_peer_takes_no_part, a_job_that_differs_is_refused_when_it_comes,
                   a_job_that_ends_is_told_and_stays_ended, who_changes_its_jobs_too_often_gets_a_new_session,
                   jobs_are_bounded, a_job_file_is_asked_for_and_sent, who_runs_no_job_gets_job_files_too,
                   a_job_file_that_nobody_here_stands_for_is_refused, large_ones_wait_for_room);
}
