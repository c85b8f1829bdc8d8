/* Full copies: their root and signature are made when a peer asks, once, from the bytes that the file has. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/run/log.h"
#include "agent/run/parts.h"
#include "crypto/digest.h"
#include "crypto/merkle.h"
#include "tests/unit/agent/site_folder.h"
#include "tests/unit/suite.h"

enum { BEFORE = 100, COPY = 40 * CHUNK_BYTES + 12, FILE_BYTES = BEFORE + COPY + 50, ROUND = 5, SEQUENCE = 7 };

static const struct gossip_job_config the_job = {.job = {{3}}, .schema_text = "", .contract_text = ""};

struct bench {
  struct site_folder folder;
  struct config *config;
  struct gossip_peer_config peer;
  struct agent a;
  struct agent_job job;
  uint64_t awaited[1];
  uint8_t *file; /* what stands in it */
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

static void open_peer(struct bench *b) {
  char why[MAX_REASON_BYTES];
  struct identity *peer = identity_numbered(1);
  b->peer = (struct gossip_peer_config){*identity_public(peer), "peer", ""};
  identity_free(peer);
  const struct gossip_job_config *jobs[] = {&the_job};
  struct gossip_config config = {.identity = b->a.identity,
                                 .peers = &b->peer,
                                 .n_peers = 1,
                                 .jobs = jobs,
                                 .n_jobs = 1,
                                 .payload_max_bytes = 1 << 20,
                                 .payload_bound = 1 << 20,
                                 .now_ms = read_clock,
                                 .events_context = &b->a};
  enum err e = gossip_open(&config, &agent_gossip_events, &b->a.gossip, why);
  ck_assert_msg(e == ERR_OK, "%s", why);
}

static struct store *store_of(const struct bench *b) {
  char why[MAX_REASON_BYTES], warning[MAX_REASON_BYTES];
  struct store_config config = {.state_dir = b->config->state_dir, .digest = &digest_tree, .keep_last = 2, .random = 1};
  struct store *store;
  enum err e = store_open(&config, &store, warning, why);
  ck_assert_msg(e == ERR_OK, "%s", why);
  return store;
}

static void open_store(struct bench *b) {
  struct store *store = store_of(b);
  ck_assert_int_eq(scribe_start(&store, &b->a.scribe), ERR_OK);
}

static void write_link(const struct bench *b, uint64_t sequence, uint8_t out_bytes[MANIFEST_BYTES]) {
  struct manifest m = {.kind = MANIFEST_DIFFERENCE,
                       .encoding = ENCODING_F32,
                       .job = {{3}},
                       .origin = *identity_public(b->a.identity),
                       .boot_epoch = 1,
                       .sequence = sequence,
                       .round = sequence - SEQUENCE + ROUND,
                       .local_steps = 1,
                       .samples = 1,
                       .mu = 1,
                       .chain = {{9}},
                       .payload_root = {{8}},
                       .n_payload = 4};
  manifest_sign(&m, b->a.identity);
  manifest_write(&m, out_bytes);
}

/* A half that n_bytes are left of, published with a link. */
static void publish(struct bench *b, uint64_t sequence, size_t n_bytes) {
  struct scribe_job job = {.publication = {.copy_offset = BEFORE, .n_copy = COPY}};
  write_link(b, sequence, job.manifest);
  outbox_prepare(&b->job.outbox, &job);
  int fd = memfd_create("half", MFD_CLOEXEC);
  ck_assert_int_eq(write(fd, b->file, n_bytes), (ssize_t)n_bytes);
  struct scribe_result written = {.payload_fd = -1, .copy_fd = fd};
  outbox_publish(&b->job.outbox, &written);
}

static struct bench *bench_new(void) {
  char why[MAX_CONFIG_WHY_BYTES];
  struct bench *b = calloc(1, sizeof *b);
  ck_assert_int_eq(random_open(), ERR_OK);
  log_set(LOG_ERROR, LOG_TEXT);
  b->folder = site_folder_new(GOOD_SITE "peers: [ { name: mec-03, key: @1 } ]\n", GOOD_JOB);
  ck_assert_int_eq(config_load(b->folder.site, NULL, &b->config, why), ERR_OK);
  b->a = (struct agent){.config = b->config, .identity = identity_numbered(9)};
  b->job = (struct agent_job){.agent = &b->a, .awaited_copies = b->awaited};
  outbox_init(&b->job.outbox);
  b->file = malloc(FILE_BYTES);
  for (size_t i = 0; i < FILE_BYTES; i++)
    b->file[i] = (uint8_t)(i * 7 + (i >> 8));
  open_peer(b);
  open_store(b);
  return b;
}

static void bench_free(struct bench *b) {
  gossip_close(b->a.gossip, ERR_STOPPED);
  scribe_stop(b->a.scribe);
  outbox_done(&b->job.outbox);
  identity_free(b->a.identity);
  config_free(b->config);
  site_folder_free(&b->folder);
  free(b->file);
  free(b);
}

static enum err find(struct bench *b, uint64_t round, struct manifest *out) {
  uint8_t bytes[MANIFEST_BYTES];
  enum err e = copies_find(&b->job, 0, round, bytes);
  if (e == ERR_OK) {
    ck_assert_int_eq(manifest_read(bytes, sizeof bytes, out), ERR_OK);
    ck_assert_int_eq(manifest_verify(out), ERR_OK);
  }
  return e;
}

/* What the one call that is with the scribe comes to. */
static enum err settle(struct bench *b) {
  struct scribe_result *r = NULL;
  while (!r) {
    struct pollfd fd = {.fd = scribe_fd(b->a.scribe), .events = POLLIN};
    ck_assert_int_eq(poll(&fd, 1, 10000), 1);
    r = scribe_poll(b->a.scribe);
  }
  ck_assert_int_eq(r->kind, SCRIBE_CALL);
  enum err e = r->error;
  agent_take_call(&b->a, r);
  scribe_result_free(r);
  return e;
}

static bool is_idle(const struct bench *b) {
  struct pollfd fd = {.fd = scribe_fd(b->a.scribe), .events = POLLIN};
  return poll(&fd, 1, 50) == 0;
}

START_TEST(a_copy_is_signed_when_it_is_asked_for) {
  struct bench *b = bench_new();
  struct manifest m;
  struct digest root;
  uint8_t read[COPY];
  ck_assert_int_eq(find(b, ROUND, &m), ERR_NOT_YET); /* nothing was published */
  ck_assert(is_idle(b));
  publish(b, SEQUENCE, FILE_BYTES);
  ck_assert(is_idle(b)); /* nobody asked */
  ck_assert_int_eq(find(b, ROUND, &m), ERR_NOT_YET);
  ck_assert_uint_eq(b->awaited[0], SEQUENCE);
  ck_assert_int_eq(find(b, ROUND, &m), ERR_NOT_YET); /* again: it is under way */
  ck_assert_int_eq(settle(b), ERR_OK);
  ck_assert(is_idle(b));
  ck_assert_uint_eq(b->awaited[0], 0);
  ck_assert_int_eq(find(b, ROUND, &m), ERR_OK);
  ck_assert(m.kind == MANIFEST_FULL && m.sequence == SEQUENCE && m.round == ROUND && m.n_payload == COPY);
  merkle_root(&digest_blake2b, b->file + BEFORE, COPY, &root);
  ck_assert(digest_equal(&m.payload_root, &root));
  ck_assert_int_eq(outbox_read(&b->job.outbox, &root, 0, read, COPY), ERR_OK);
  ck_assert_mem_eq(read, b->file + BEFORE, COPY);
  bench_free(b);
}
END_TEST

START_TEST(each_round_has_its_copy) {
  struct bench *b = bench_new();
  struct manifest m;
  publish(b, SEQUENCE, FILE_BYTES);
  publish(b, SEQUENCE + 1, FILE_BYTES);
  ck_assert_int_eq(find(b, ROUND, &m), ERR_NOT_YET);
  ck_assert_int_eq(settle(b), ERR_OK);
  ck_assert_int_eq(find(b, ROUND, &m), ERR_OK);
  ck_assert_uint_eq(m.sequence, SEQUENCE);
  ck_assert_int_eq(find(b, UINT64_MAX, &m), ERR_NOT_YET); /* the newest is another */
  ck_assert_int_eq(settle(b), ERR_OK);
  ck_assert_int_eq(find(b, UINT64_MAX, &m), ERR_OK);
  ck_assert_uint_eq(m.sequence, SEQUENCE + 1);
  bench_free(b);
}
END_TEST

START_TEST(a_file_that_is_cut_is_no_copy) {
  struct bench *b = bench_new();
  struct manifest m;
  publish(b, SEQUENCE, FILE_BYTES - 51);
  ck_assert_int_eq(find(b, ROUND, &m), ERR_NOT_YET);
  ck_assert_int_eq(settle(b), ERR_GONE);
  ck_assert_uint_eq(b->awaited[0], 0);
  ck_assert_int_eq(find(b, ROUND, &m), ERR_GONE); /* and it is not read again */
  ck_assert_ptr_null(scribe_poll(b->a.scribe));
  bench_free(b);
}
END_TEST

/* Of a former run, as the store has it. */
static void publish_before(struct bench *b) {
  uint8_t link[MANIFEST_BYTES];
  scribe_stop(b->a.scribe);
  struct store *s = store_of(b);
  write_link(b, SEQUENCE, link);
  const struct store_publication p = {.job = the_job.job,
                                      .label = {ROUND, 0},
                                      .boot_epoch = store_boot_epoch(s),
                                      .sequence = SEQUENCE,
                                      .chain = {{9}},
                                      .manifest = link,
                                      .n_manifest = sizeof link,
                                      .payload = (const uint8_t *)"link",
                                      .n_payload = 4,
                                      .half = b->file,
                                      .n_half = FILE_BYTES,
                                      .copy_offset = BEFORE,
                                      .n_copy = COPY};
  ck_assert_int_eq(store_publish(s, &p), ERR_OK);
  store_close(s);
}

static void start_again(struct bench *b) {
  struct store *s = store_of(b);
  outbox_done(&b->job.outbox);
  ck_assert_int_eq(outbox_load(&b->job.outbox, s, &the_job.job), ERR_OK);
  ck_assert_uint_eq(b->job.outbox.n_entries, 1);
  ck_assert_int_eq(scribe_start(&s, &b->a.scribe), ERR_OK);
}

static int change_half(const char *path, const struct stat *status, int kind, struct FTW *at) {
  (void)at;
  if (kind != FTW_F || status->st_size != FILE_BYTES)
    return 0;
  ck_assert_int_eq(chmod(path, 0600), 0);
  FILE *file = fopen(path, "r+");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_eq(fseek(file, BEFORE + COPY / 2, SEEK_SET), 0);
  int c = fgetc(file);
  ck_assert_int_eq(fseek(file, BEFORE + COPY / 2, SEEK_SET), 0);
  ck_assert_int_ne(fputc(c ^ 1, file), EOF);
  ck_assert_int_eq(fclose(file), 0);
  return 1;
}

/* Another root under the same sequence would be a second word of the same agent. */
START_TEST(one_whose_byte_is_changed_is_no_copy) {
  struct bench *b = bench_new();
  struct manifest m;
  publish_before(b);
  start_again(b);
  ck_assert_int_eq(find(b, ROUND, &m), ERR_NOT_YET);
  ck_assert_int_eq(settle(b), ERR_OK);
  ck_assert_int_eq(find(b, ROUND, &m), ERR_OK);
  scribe_stop(b->a.scribe);
  ck_assert_int_eq(nftw(b->config->state_dir, change_half, 8, FTW_PHYS), 1);
  start_again(b);
  ck_assert_int_eq(find(b, ROUND, &m), ERR_GONE);
  bench_free(b);
}
END_TEST

START_TEST(one_that_is_forgotten_meanwhile_is_not_offered) {
  struct bench *b = bench_new();
  struct manifest m;
  publish(b, SEQUENCE, FILE_BYTES);
  ck_assert_int_eq(find(b, ROUND, &m), ERR_NOT_YET);
  for (uint64_t i = 1; i <= KEEP_PAYLOADS; i++)
    publish(b, SEQUENCE + i, FILE_BYTES);
  ck_assert_ptr_null(outbox_find(&b->job.outbox, SEQUENCE));
  ck_assert_int_eq(settle(b), ERR_OK);
  ck_assert_uint_eq(b->awaited[0], 0);
  bench_free(b);
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/copies", a_copy_is_signed_when_it_is_asked_for, each_round_has_its_copy,
                   a_file_that_is_cut_is_no_copy, one_whose_byte_is_changed_is_no_copy,
                   one_that_is_forgotten_meanwhile_is_not_offered);
}
