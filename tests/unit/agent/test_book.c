/* The book of job files: what a peer may bring, and what it may not change. */
#include <inttypes.h>
#include <poll.h>

#include "agent/clock.h"
#include "agent/run/log.h"
#include "agent/run/parts.h"
#include "crypto/digest.h"
#include "tests/unit/agent/site_folder.h"
#include "tests/unit/suite.h"

#define TEXT_OF(version) GOOD_JOB "version: " #version "\n"

struct bench {
  struct site_folder folder;
  struct config *config;
  struct gossip_peer_config peer;
  struct identity *signer; /* the peer */
  struct agent a;
};

static uint64_t read_clock(void *context) {
  (void)context;
  return clock_ms();
}

static struct identity *identity_numbered(uint8_t n) {
  uint8_t seed[IDENTITY_SEED_BYTES] = {n};
  struct identity *id;
  ck_assert_int_eq(identity_from_seed(seed, &id), ERR_OK);
  return id;
}

static void open_store(struct bench *b) {
  char why[MAX_CONFIG_WHY_BYTES] = "", warning[MAX_REASON_BYTES];
  struct store_config config = {.state_dir = b->config->state_dir, .digest = &digest_tree, .keep_last = 2, .random = 1};
  enum err e = store_open(&config, &b->a.store, warning, why);
  ck_assert_msg(e == ERR_OK, "%s", why);
  ck_assert_int_eq(book_open(&b->a, why), ERR_OK);
  ck_assert_int_eq(serving_open(&b->a), ERR_OK);
  ck_assert_int_eq(scribe_start(&b->a.store, &b->a.scribe), ERR_OK);
}

static struct bench *bench_new(void) {
  char why[MAX_CONFIG_WHY_BYTES];
  struct bench *b = calloc(1, sizeof *b);
  ck_assert_int_eq(random_open(), ERR_OK);
  log_set(LOG_ERROR, LOG_TEXT);
  b->folder = site_folder_new(GOOD_SITE "peers: [ { name: mec-03, key: @1 } ]\n", GOOD_JOB);
  ck_assert_int_eq(config_load(b->folder.site, NULL, &b->config, why), ERR_OK);
  b->signer = identity_numbered(1);
  b->peer = (struct gossip_peer_config){*identity_public(b->signer), "mec-03", ""};
  b->a = (struct agent){
      .config = b->config, .identity = identity_numbered(9), .swarm = swarm_id(b->config->swarm), .peers = &b->peer};
  struct gossip_config config = {
      .identity = b->a.identity, .peers = &b->peer, .n_peers = 1, .now_ms = read_clock, .events_context = &b->a};
  enum err e = gossip_open(&config, &agent_gossip_events, &b->a.gossip, why);
  ck_assert_msg(e == ERR_OK, "%s", why);
  open_store(b);
  return b;
}

static void bench_free(struct bench *b) {
  gossip_close(b->a.gossip, ERR_STOPPED);
  scribe_stop(b->a.scribe);
  book_close(&b->a);
  identity_free(b->a.identity);
  identity_free(b->signer);
  config_free(b->config);
  site_folder_free(&b->folder);
  free(b);
}

/* Until the scribe has nothing more to say. */
static void settle(struct bench *b, size_t n_results) {
  for (; n_results > 0; n_results--) {
    struct pollfd fd = {.fd = scribe_fd(b->a.scribe), .events = POLLIN};
    ck_assert_int_eq(poll(&fd, 1, 10000), 1);
    struct scribe_result *r = scribe_poll(b->a.scribe);
    if (!r) {
      n_results++;
      continue;
    }
    if (r->kind == SCRIBE_CALL)
      agent_take_call(&b->a, r);
    scribe_result_free(r);
  }
}

static struct job_file file_of(struct bench *b, uint32_t version, const char *text) {
  struct job_file f = {
      .swarm = b->a.swarm, .name = "inspection", .version = version, .text = text, .n_text = strlen(text)};
  job_file_sign(&f, b->signer);
  return f;
}

static const struct known_file *bring(struct bench *b, uint32_t version, const char *text) {
  struct job_file f = file_of(b, version, text);
  book_on_file(&b->a, 0, &f, NULL, 0);
  return book_find(&b->a, &f.job);
}

static uint64_t dropped(struct bench *b, enum err reason) {
  struct gossip_peer_info info;
  gossip_peer_info(b->a.gossip, 0, &info);
  return info.drops[err_drop_index(reason)];
}

START_TEST(what_a_peer_brings_is_proposed_and_stored) {
  struct bench *b = bench_new();
  ck_assert_uint_eq(b->a.book.n, 1); /* the site's own */
  const struct known_file *k = bring(b, 2, TEXT_OF(2));
  ck_assert_ptr_nonnull(k);
  ck_assert_int_eq(k->state, JOB_FILE_PROPOSED);
  settle(b, 1);
  bring(b, 2, TEXT_OF(2)); /* again: nothing */
  ck_assert_uint_eq(b->a.book.n, 2);
  struct store *s;
  struct store_job_file rows[4];
  char why[MAX_REASON_BYTES];
  size_t n = 0;
  ck_assert_int_eq(store_open_read_only(b->config->state_dir, &digest_tree, &s, why), ERR_OK);
  ck_assert_int_eq(store_job_file_list(s, rows, 4, &n), ERR_OK);
  ck_assert_uint_eq(n, 1);
  ck_assert_str_eq(rows[0].text, TEXT_OF(2));
  ck_assert_int_eq(rows[0].state, JOB_FILE_PROPOSED);
  store_job_files_free(rows, n);
  store_close(s);
  bench_free(b);
}
END_TEST

START_TEST(what_is_known_is_not_replaced) {
  struct bench *b = bench_new();
  const struct known_file *k = bring(b, 2, TEXT_OF(2));
  ck_assert_ptr_eq(bring(b, 2, TEXT_OF(2) "train: { batch: 8 }\n"), k);
  ck_assert_uint_eq(k->file.n_text, strlen(TEXT_OF(2)));
  const struct known_file *own = bring(b, 1, GOOD_JOB "train: { batch: 8 }\n");
  ck_assert_ptr_nonnull(own->configured);
  ck_assert_uint_eq(b->a.book.n, 2);
  bench_free(b);
}
END_TEST

/* Verbs say NAME@VERSION and no more: a second one that only they could not tell from the first never enters. */
START_TEST(another_run_label_is_no_other_name) {
  struct bench *b = bench_new();
  struct job_file f = file_of(b, 1, GOOD_JOB "run_label: again\n");
  snprintf(f.run_label, sizeof f.run_label, "again");
  job_file_sign(&f, b->signer);
  book_on_file(&b->a, 0, &f, NULL, 0);
  ck_assert_uint_eq(b->a.book.n, 1);
  ck_assert_ptr_nonnull(bring(b, 2, TEXT_OF(2)));
  f = file_of(b, 2, TEXT_OF(2) "run_label: again\n");
  snprintf(f.run_label, sizeof f.run_label, "again");
  job_file_sign(&f, b->signer);
  book_on_file(&b->a, 0, &f, NULL, 0);
  ck_assert_uint_eq(b->a.book.n, 2);
  bench_free(b);
}
END_TEST

START_TEST(a_stopped_job_stays_stopped_whoever_brings_it_again) {
  struct bench *b = bench_new();
  struct known_file *k = (struct known_file *)bring(b, 2, TEXT_OF(2));
  book_change(&b->a, 0, k, JOB_FILE_STOPPED, false);
  settle(b, 2);
  ck_assert_int_eq(k->state, JOB_FILE_STOPPED);
  ck_assert_ptr_eq(bring(b, 2, TEXT_OF(2)), k);
  ck_assert_int_eq(k->state, JOB_FILE_STOPPED);
  scribe_stop(b->a.scribe);
  book_close(&b->a);
  b->a.book = (struct book){.n = 0};
  open_store(b); /* and after a restart */
  struct job_file f = file_of(b, 2, TEXT_OF(2));
  ck_assert_int_eq(book_find(&b->a, &f.job)->state, JOB_FILE_STOPPED);
  ck_assert_ptr_nonnull(bring(b, 2, TEXT_OF(2)));
  ck_assert_int_eq(book_find(&b->a, &f.job)->state, JOB_FILE_STOPPED);
  bench_free(b);
}
END_TEST

START_TEST(a_text_that_is_no_job_file_of_that_name_is_refused) {
  static const char *const texts[] = {"x",
                                      "- 1\n",
                                      TEXT_OF(3),
                                      "job: other\n" TEXT_OF(2),
                                      TEXT_OF(2) "data: { train: /etc/shadow }\n",
                                      TEXT_OF(2) "run_label: night\n"};
  struct bench *b = bench_new();
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    b->a.book.peers[0].n_new = 0;
    ck_assert_msg(bring(b, 2, texts[i]) == NULL, "%s", texts[i]);
  }
  ck_assert_uint_eq(dropped(b, ERR_MESSAGE), sizeof texts / sizeof *texts);
  ck_assert_uint_eq(b->a.book.n, 1);
  bench_free(b);
}
END_TEST

static const struct known_file *bring_version(struct bench *b, uint32_t version) {
  char text[512];
  snprintf(text, sizeof text, GOOD_JOB "version: %" PRIu32 "\n", version);
  return bring(b, version, text);
}

START_TEST(four_new_ones_a_minute_and_64_in_all) {
  struct bench *b = bench_new();
  for (uint32_t v = 2; v < 6; v++)
    ck_assert_ptr_nonnull(bring_version(b, v));
  ck_assert_ptr_null(bring_version(b, 6));
  ck_assert_uint_eq(dropped(b, ERR_BACKLOG), 1);
  ck_assert_uint_eq(b->a.book.peers[0].ask_at_ms, b->a.book.peers[0].minute_ms + 60000); /* asked for later */
  ck_assert_ptr_nonnull(bring_version(b, 2));                                            /* what is known is not new */
  ck_assert_uint_eq(dropped(b, ERR_BACKLOG), 1);
  settle(b, 4);
  b->a.book.peers[0].minute_ms -= 60000;
  for (uint32_t v = 6; v < STORE_MAX_JOB_FILES + 1; v++) {
    b->a.book.peers[0].n_new = 0;
    ck_assert_ptr_nonnull(bring_version(b, v));
    settle(b, 1);
  }
  ck_assert_uint_eq(b->a.book.n, STORE_MAX_JOB_FILES);
  b->a.book.peers[0].n_new = 0;
  ck_assert_ptr_null(bring_version(b, 500));
  ck_assert_uint_eq(dropped(b, ERR_BUDGET), 1);
  bench_free(b);
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/book", what_a_peer_brings_is_proposed_and_stored, what_is_known_is_not_replaced,
                   another_run_label_is_no_other_name, a_stopped_job_stays_stopped_whoever_brings_it_again,
                   a_text_that_is_no_job_file_of_that_name_is_refused, four_new_ones_a_minute_and_64_in_all);
}
