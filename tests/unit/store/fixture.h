/* What the tests of the store share: a directory of their own, a hash of their own (the room does not know crypto) and
 * rounds whose bytes follow from their label. */
#ifndef TESTS_UNIT_STORE_FIXTURE_H
#define TESTS_UNIT_STORE_FIXTURE_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "store/store.h"

/* ---- a 256-bit hash: four FNV-1a lanes; the state is four words and a length */

static inline void lanes_init(struct digest_state *state) {
  static const uint64_t seeds[4] = {14695981039346656037ULL, 1, 2, 3};
  memcpy(state->opaque, seeds, sizeof seeds);
}

static inline void lanes_add(struct digest_state *state, const void *bytes, size_t n_bytes) {
  uint64_t lanes[4];
  memcpy(lanes, state->opaque, sizeof lanes);
  for (size_t i = 0; i < n_bytes; i++)
    for (size_t k = 0; k < 4; k++)
      lanes[k] = (lanes[k] ^ (((const uint8_t *)bytes)[i] + k)) * 1099511628211ULL;
  memcpy(state->opaque, lanes, sizeof lanes);
}

static inline void lanes_end(struct digest_state *state, struct digest *out_digest) {
  memcpy(out_digest->bytes, state->opaque, DIGEST_BYTES);
}

static const struct digest_fn lanes = {.init = lanes_init, .add = lanes_add, .end = lanes_end};

/* Another hash, for a store whose older files `lanes` has named. */
static inline void later_init(struct digest_state *state) {
  lanes_init(state);
  lanes_add(state, "later", 5);
}

static const struct digest_fn later_lanes = {.init = later_init, .add = lanes_add, .end = lanes_end, .before = &lanes};

/* ---- a directory of its own */

struct fixture {
  char base[64];  /* made here, removed with all that is in it */
  char state[80]; /* the state directory inside, not made yet */
  char why[MAX_REASON_BYTES], warning[MAX_REASON_BYTES];
};

static inline struct fixture fixture_new(void) {
  struct fixture f = {0};
  const char *parent = getenv("TMPDIR");
  if (parent == NULL || strlen(parent) > 32)
    parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* where a sync costs nothing */
  snprintf(f.base, sizeof f.base, "%s/store-XXXXXX", parent);
  ck_assert_ptr_nonnull(mkdtemp(f.base));
  snprintf(f.state, sizeof f.state, "%s/state", f.base);
  return f;
}

static inline int fixture_remove(const char *path, const struct stat *status, int type, struct FTW *walk) {
  (void)status, (void)type, (void)walk;
  return remove(path);
}

static inline void fixture_free(struct fixture *f) {
  nftw(f->base, fixture_remove, 8, FTW_DEPTH | FTW_PHYS);
}

static inline const char *fixture_path(const struct fixture *f, const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", f->state, name);
  return path;
}

static inline enum err fixture_try_digest(struct fixture *f, uint8_t identity, const struct digest_fn *digest,
                                          struct store **out_store) {
  struct store_config config = {
      .state_dir = f->state, .digest = digest, .keep_last = 3, .keep_best = 2, .random = 0xc0ffee};
  memset(config.identity, identity, sizeof config.identity);
  return store_open(&config, out_store, f->warning, f->why);
}

static inline enum err fixture_try(struct fixture *f, uint8_t identity, struct store **out_store) {
  return fixture_try_digest(f, identity, &lanes, out_store);
}

static inline struct store *fixture_open(struct fixture *f) {
  struct store *s = NULL;
  enum err e = fixture_try(f, 7, &s);
  ck_assert_msg(e == ERR_OK, "store_open: %s: %s", err_name(e), f->why);
  return s;
}

static inline void file_write(const char *path, const void *bytes, size_t n_bytes) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(write(fd, bytes, n_bytes), (ssize_t)n_bytes);
  close(fd);
}

static inline const char *digest_path(const struct fixture *f, const struct digest *name) {
  char text[80] = "files/";
  digest_hex(name, text + strlen(text));
  return fixture_path(f, text);
}

/* Flips one bit in the middle of a named file. */
static inline void file_damage(const struct fixture *f, const struct digest *name) {
  uint8_t byte;
  struct stat status;
  int fd = open(digest_path(f, name), O_RDWR | O_CLOEXEC);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(fstat(fd, &status), 0);
  ck_assert_int_eq(pread(fd, &byte, 1, status.st_size / 2), 1);
  byte ^= 4;
  ck_assert_int_eq(pwrite(fd, &byte, 1, status.st_size / 2), 1);
  close(fd);
}

/* ---- rounds whose bytes follow from label and kind of file */

#ifndef FIXTURE_ROUND_BYTES
#define FIXTURE_ROUND_BYTES 3000
#endif

enum { ROUND_BYTES = FIXTURE_ROUND_BYTES };

struct round_bytes {
  uint8_t payload[ROUND_BYTES], half[ROUND_BYTES], model[ROUND_BYTES], manifest[300];
};

static const struct digest job_one = {{1, 2, 3}};

static inline void round_fill(uint8_t *bytes, size_t n_bytes, struct round_label label, uint64_t kind) {
  struct rng rng;
  rng_init(&rng, label.round * 1000 + label.sub * 10ULL + kind);
  for (size_t i = 0; i < n_bytes; i++)
    bytes[i] = (uint8_t)rng_u64(&rng);
}

static inline struct round_bytes round_bytes(struct round_label label) {
  struct round_bytes b;
  round_fill(b.payload, sizeof b.payload, label, 1);
  round_fill(b.half, sizeof b.half, label, 2);
  round_fill(b.model, sizeof b.model, label, 3);
  round_fill(b.manifest, sizeof b.manifest, label, 4);
  return b;
}

static inline struct store_publication publication(const struct store *s, const struct round_bytes *b,
                                                   struct round_label label, uint64_t sequence) {
  return (struct store_publication){.job = job_one,
                                    .label = label,
                                    .boot_epoch = store_boot_epoch(s),
                                    .sequence = sequence,
                                    .chain = {{(uint8_t)sequence, 9}},
                                    .manifest = b->manifest,
                                    .n_manifest = sizeof b->manifest,
                                    .payload = b->payload,
                                    .n_payload = sizeof b->payload,
                                    .half = b->half,
                                    .n_half = sizeof b->half,
                                    .copy_offset = 100,
                                    .n_copy = 1000,
                                    .train_loss = 0.5,
                                    .train_seconds = 1.5,
                                    .n_samples = 640};
}

static inline struct store_commitment commitment(const struct round_bytes *b, struct round_label label) {
  return (struct store_commitment){.job = job_one,
                                   .label = label,
                                   .outcome = ROUND_MERGED,
                                   .model = b->model,
                                   .n_model = sizeof b->model,
                                   .seconds = 2.5,
                                   .sent_bytes = 11,
                                   .received_bytes = 22};
}

static inline enum err round_publish(struct store *s, uint64_t round, uint64_t sequence) {
  struct round_label label = {.round = round};
  struct round_bytes b = round_bytes(label);
  struct store_publication p = publication(s, &b, label, sequence);
  return store_publish(s, &p);
}

static inline enum err round_commit(struct store *s, uint64_t round) {
  struct round_label label = {.round = round};
  struct round_bytes b = round_bytes(label);
  struct store_commitment c = commitment(&b, label);
  return store_commit(s, &c);
}

/* The commitment of that round and the publication of the next one. */
static inline enum err round_turn(struct store *s, uint64_t round, uint64_t sequence) {
  struct round_label label = {.round = round}, next = {.round = round + 1};
  struct round_bytes b = round_bytes(label), b_next = round_bytes(next);
  struct store_commitment c = commitment(&b, label);
  struct store_publication p = publication(s, &b_next, next, sequence);
  return store_turn(s, &c, &p);
}

/* Rounds first … last, each with its number as sequence. */
static inline void rounds_run(struct store *s, uint64_t first, uint64_t last) {
  for (uint64_t r = first; r <= last; r++) {
    ck_assert_int_eq(round_publish(s, r, r), ERR_OK);
    ck_assert_int_eq(round_commit(s, r), ERR_OK);
  }
}

static inline struct store_resume resume_at(struct store *s) {
  struct store_resume resume;
  char why[MAX_REASON_BYTES] = "";
  enum err e = store_resume(s, &job_one, &resume, why);
  ck_assert_msg(e == ERR_OK, "store_resume: %s: %s", err_name(e), why);
  return resume;
}

static inline struct digest digest_bytes(const uint8_t *bytes, size_t n_bytes) {
  return digest_of(&lanes, bytes, n_bytes);
}

#endif
