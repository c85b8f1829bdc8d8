/* Publishing, committing, where a restart begins, what is kept. */
#include <dirent.h>
#include <math.h>

#include "store/room.h"
#include "tests/unit/store/fixture.h"
#include "tests/unit/suite.h"

static unsigned files_count(const struct fixture *f) {
  unsigned n = 0;
  DIR *entries = opendir(fixture_path(f, "files"));
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
    n += entry->d_name[0] != '.';
  closedir(entries);
  return n;
}

START_TEST(a_fresh_store_resumes_from_nothing) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  struct store_resume r = resume_at(s);
  ck_assert_int_eq(r.at, RESUME_FRESH);
  ck_assert_uint_eq(r.sequence, 0);
  ck_assert(digest_is_zero(&r.half) && digest_is_zero(&r.model) && digest_is_zero(&r.chain));
  ck_assert(!r.fell_back);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(published_resumes_into_gathering_with_the_same_bytes) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 1);
  ck_assert_int_eq(round_publish(s, 2, 2), ERR_OK);
  uint64_t epoch = store_boot_epoch(s);
  store_close(s);
  s = fixture_open(&f);
  struct round_bytes b = round_bytes((struct round_label){.round = 2});
  struct store_resume r = resume_at(s);
  struct digest half = digest_bytes(b.half, sizeof b.half);
  ck_assert_int_eq(r.at, RESUME_PUBLISHED);
  ck_assert_uint_eq(r.published.round, 2);
  ck_assert_uint_eq(r.committed.round, 1);
  ck_assert_uint_eq(r.sequence, 2);
  ck_assert_uint_eq(r.sequence_epoch, epoch);
  ck_assert_uint_eq(r.chain.bytes[0], 2);
  ck_assert(digest_equal(&r.half, &half));
  ck_assert(digest_is_zero(&r.model));

  struct store_outbox_entry entries[KEEP_PAYLOADS];
  size_t n, n_bytes;
  uint8_t *bytes;
  ck_assert_int_eq(store_outbox(s, &job_one, entries, KEEP_PAYLOADS, &n), ERR_OK);
  ck_assert_uint_eq(n, 2);
  ck_assert_uint_eq(entries[0].sequence, 2);
  ck_assert_uint_eq(entries[0].boot_epoch, epoch);
  ck_assert_uint_eq(entries[0].n_manifest, sizeof b.manifest);
  ck_assert_mem_eq(entries[0].manifest, b.manifest, sizeof b.manifest);
  ck_assert(entries[0].has_copy && entries[0].copy_offset == 100 && entries[0].n_copy == 1000);
  ck_assert_int_eq(store_file_load(s, &entries[0].payload, ROUND_BYTES, &bytes, &n_bytes), ERR_OK);
  ck_assert_uint_eq(n_bytes, ROUND_BYTES);
  ck_assert_mem_eq(bytes, b.payload, ROUND_BYTES);
  free(bytes);
  ck_assert_int_eq(store_file_load(s, &entries[0].payload, ROUND_BYTES - 1, &bytes, &n_bytes), ERR_LIMIT);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(committed_resumes_with_model_and_the_half_of_its_round) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 4);
  store_close(s);
  s = fixture_open(&f);
  struct round_bytes b = round_bytes((struct round_label){.round = 4});
  struct digest half = digest_bytes(b.half, sizeof b.half), model = digest_bytes(b.model, sizeof b.model);
  struct store_resume r = resume_at(s);
  ck_assert_int_eq(r.at, RESUME_COMMITTED);
  ck_assert_uint_eq(r.committed.round, 4);
  ck_assert(digest_equal(&r.half, &half) && digest_equal(&r.model, &model));
  ck_assert(!r.fell_back);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(a_publication_follows_or_is_refused) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  struct round_label label = {.round = 2};
  struct round_bytes b = round_bytes(label);
  rounds_run(s, 1, 1);
  struct store_publication p = publication(s, &b, label, 2);

  p.sequence = 1; /* used */
  ck_assert_int_eq(store_publish(s, &p), ERR_RANGE);
  p.sequence = 0;
  ck_assert_int_eq(store_publish(s, &p), ERR_RANGE);
  p.sequence = 2;
  p.label.round = 0; /* before the last committed one */
  ck_assert_int_eq(store_publish(s, &p), ERR_RANGE);
  p.label.round = (uint64_t)INT64_MAX + 1;
  ck_assert_int_eq(store_publish(s, &p), ERR_RANGE);
  p.label = label;
  p.boot_epoch++;
  ck_assert_int_eq(store_publish(s, &p), ERR_RANGE);
  p.boot_epoch--;
  p.n_copy = ROUND_BYTES; /* with its offset beyond the half */
  ck_assert_int_eq(store_publish(s, &p), ERR_RANGE);
  p.n_copy = 1000;
  p.n_manifest = STORE_MANIFEST_MAX_BYTES + 1;
  ck_assert_int_eq(store_publish(s, &p), ERR_LIMIT);
  p.n_manifest = sizeof b.manifest;
  ck_assert_int_eq(store_publish(s, &p), ERR_OK);
  ck_assert_int_eq(store_publish(s, &p), ERR_OK); /* the same again */
  b.payload[5] ^= 1;
  ck_assert_int_eq(store_publish(s, &p), ERR_EXISTS);
  b.payload[5] ^= 1;
  p.sequence = 3;
  ck_assert_int_eq(store_publish(s, &p), ERR_EXISTS);
  p.sequence = 2;
  b.manifest[0] ^= 1;
  ck_assert_int_eq(store_publish(s, &p), ERR_EXISTS);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(a_commitment_follows_a_publication_or_is_refused) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  ck_assert_int_eq(round_commit(s, 1), ERR_NOT_FOUND);
  ck_assert_int_eq(resume_at(s).at, RESUME_FRESH);
  ck_assert_int_eq(round_publish(s, 1, 1), ERR_OK);
  ck_assert_int_eq(round_commit(s, 1), ERR_OK);
  ck_assert_int_eq(round_commit(s, 1), ERR_OK); /* the same again */
  struct round_label label = {.round = 1};
  struct round_bytes b = round_bytes(label);
  struct store_commitment c = commitment(&b, label);
  b.model[0] ^= 1;
  ck_assert_int_eq(store_commit(s, &c), ERR_EXISTS);
  c.label.round = 0;
  ck_assert_int_eq(store_commit(s, &c), ERR_RANGE);
  c.label.round = UINT64_MAX;
  ck_assert_int_eq(store_commit(s, &c), ERR_RANGE);
  ck_assert_int_eq(round_publish(s, 1, 2), ERR_EXISTS);
  store_close(s);
  fixture_free(&f);
}
END_TEST

/* Published as 2, too few peers: 1+1. Tried again as 2+1 and merged: 2. */
START_TEST(a_short_round_is_committed_under_another_label) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 1);
  ck_assert_int_eq(round_publish(s, 2, 2), ERR_OK);
  struct round_label label = {.round = 1, .sub = 1};
  struct round_bytes b = round_bytes(label);
  struct store_commitment c = commitment(&b, label);
  c.outcome = ROUND_SHORT;
  ck_assert_int_eq(store_commit(s, &c), ERR_OK);
  ck_assert_int_eq(round_commit(s, 2), ERR_NOT_FOUND); /* its publication is merged already */
  struct store_resume r = resume_at(s);
  ck_assert_int_eq(r.at, RESUME_COMMITTED);
  ck_assert(r.committed.round == 1 && r.committed.sub == 1);

  label = (struct round_label){.round = 2, .sub = 1};
  b = round_bytes(label);
  struct store_publication p = publication(s, &b, label, 3);
  ck_assert_int_eq(store_publish(s, &p), ERR_OK);
  r = resume_at(s);
  ck_assert_int_eq(r.at, RESUME_PUBLISHED);
  ck_assert(r.published.round == 2 && r.published.sub == 1 && r.committed.round == 1 && r.committed.sub == 1);
  ck_assert_int_eq(round_commit(s, 2), ERR_OK);
  r = resume_at(s);
  ck_assert(r.at == RESUME_COMMITTED && r.committed.round == 2 && r.committed.sub == 0);

  struct store_round rounds[4];
  size_t n;
  ck_assert_int_eq(store_rounds(s, &job_one, 0, rounds, 4, &n), ERR_OK);
  ck_assert_uint_eq(n, 3);
  for (size_t i = 0; i < n; i++)
    ck_assert(rounds[i].committed && rounds[i].sequence == i + 1 && rounds[i].n_samples == 640);
  ck_assert(rounds[1].label.sub == 1 && rounds[1].outcome == ROUND_SHORT);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(a_jump_brings_its_own_half) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 2);
  struct round_label label = {.round = 9};
  struct round_bytes b = round_bytes(label);
  struct store_commitment c = commitment(&b, label);
  c.outcome = ROUND_JUMPED;
  c.own_half = b.half;
  c.n_own_half = sizeof b.half;
  ck_assert_int_eq(store_commit(s, &c), ERR_OK);
  struct store_resume r = resume_at(s);
  struct digest half = digest_bytes(b.half, sizeof b.half);
  ck_assert_int_eq(r.at, RESUME_COMMITTED);
  ck_assert_uint_eq(r.committed.round, 9);
  ck_assert_uint_eq(r.sequence, 2);
  ck_assert(digest_equal(&r.half, &half));
  ck_assert_int_eq(round_publish(s, 9, 3), ERR_RANGE);
  ck_assert_int_eq(round_publish(s, 10, 3), ERR_OK);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(sub_rounds_stand_between_numbers) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 1);
  for (uint32_t sub = 1; sub <= 2; sub++) {
    struct round_label label = {.round = 1, .sub = sub};
    struct round_bytes b = round_bytes(label);
    struct store_publication p = publication(s, &b, label, 1 + sub);
    struct store_commitment c = commitment(&b, label);
    c.outcome = ROUND_SHORT;
    ck_assert_int_eq(store_publish(s, &p), ERR_OK);
    ck_assert_int_eq(store_commit(s, &c), ERR_OK);
  }
  struct store_resume r = resume_at(s);
  ck_assert_uint_eq(r.committed.round, 1);
  ck_assert_uint_eq(r.committed.sub, 2);
  ck_assert_uint_eq(r.n_short, 2);
  ck_assert_int_eq(round_publish(s, 2, 4), ERR_OK);
  ck_assert_int_eq(round_commit(s, 2), ERR_OK);
  ck_assert_uint_eq(resume_at(s).committed.sub, 0);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(kind_none_is_trained_again) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  struct round_label label = {.round = 1};
  struct round_bytes b = round_bytes(label);
  struct store_publication p = publication(s, &b, label, 1);
  p.payload = p.half = NULL;
  p.n_payload = p.n_half = 0;
  p.copy_offset = p.n_copy = 0;
  ck_assert_int_eq(store_publish(s, &p), ERR_OK);
  ck_assert_uint_eq(files_count(&f), 0);
  struct store_outbox_entry entry;
  size_t n;
  ck_assert_int_eq(store_outbox(s, &job_one, &entry, 1, &n), ERR_OK);
  ck_assert(n == 1 && !entry.has_payload && !entry.has_copy);
  store_close(s);
  s = fixture_open(&f);
  struct store_resume r = resume_at(s);
  ck_assert_int_eq(r.at, RESUME_FRESH);
  ck_assert_uint_eq(r.sequence, 1);
  ck_assert_int_eq(round_publish(s, 1, 2), ERR_OK); /* a new epoch, so the label is free */
  ck_assert_int_eq(round_commit(s, 1), ERR_OK);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(the_newest_are_kept_and_the_rest_removed) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 20);
  struct store_outbox_entry entries[32];
  size_t n;
  ck_assert_int_eq(store_outbox(s, &job_one, entries, 32, &n), ERR_OK);
  ck_assert_uint_eq(n, KEEP_PAYLOADS);
  for (size_t i = 0; i < n; i++) {
    int fd;
    uint64_t n_bytes;
    ck_assert_uint_eq(entries[i].sequence, 20 - i);
    ck_assert_int_eq(entries[i].has_copy, i < 3);
    ck_assert_int_eq(store_file_open(s, &entries[i].payload, &fd, &n_bytes), ERR_OK);
    ck_assert_uint_eq(n_bytes, ROUND_BYTES);
    close(fd);
  }
  ck_assert_uint_eq(files_count(&f), KEEP_PAYLOADS + 3 + 3); /* payloads, halves, models */

  struct round_bytes b = round_bytes((struct round_label){.round = 12});
  struct digest gone = digest_bytes(b.payload, sizeof b.payload);
  int fd;
  uint64_t n_bytes;
  ck_assert_int_eq(store_file_open(s, &gone, &fd, &n_bytes), ERR_NOT_FOUND);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(an_open_descriptor_outlives_the_name) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 1);
  struct store_outbox_entry entry;
  size_t n;
  int fd;
  uint64_t n_bytes;
  uint8_t bytes[ROUND_BYTES];
  ck_assert_int_eq(store_outbox(s, &job_one, &entry, 1, &n), ERR_OK);
  ck_assert_int_eq(store_file_open(s, &entry.payload, &fd, &n_bytes), ERR_OK);
  rounds_run(s, 2, 12);
  struct round_bytes b = round_bytes((struct round_label){.round = 1});
  ck_assert_int_eq(pread(fd, bytes, sizeof bytes, 0), ROUND_BYTES);
  ck_assert_mem_eq(bytes, b.payload, sizeof bytes);
  close(fd);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(orphans_are_removed_at_opening) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 1);
  unsigned n = files_count(&f);
  struct digest orphan = {{0xab}};
  store_close(s);
  file_write(digest_path(&f, &orphan), "x", 1);
  file_write(fixture_path(&f, "files/new"), "y", 1);
  s = fixture_open(&f);
  ck_assert_uint_eq(files_count(&f), n);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(a_damaged_file_under_a_right_name_is_written_anew) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  struct round_label label = {.round = 1};
  struct round_bytes b = round_bytes(label);
  struct digest payload = digest_bytes(b.payload, sizeof b.payload);
  file_write(digest_path(&f, &payload), b.half, sizeof b.half);
  struct store_publication p = publication(s, &b, label, 1);
  ck_assert_int_eq(store_publish(s, &p), ERR_OK);
  uint8_t *bytes;
  size_t n_bytes;
  ck_assert_int_eq(store_file_load(s, &payload, ROUND_BYTES, &bytes, &n_bytes), ERR_OK);
  ck_assert_mem_eq(bytes, b.payload, sizeof b.payload);
  free(bytes);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(a_turn_is_both_or_none) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  ck_assert_int_eq(round_publish(s, 1, 1), ERR_OK);
  ck_assert_int_eq(round_turn(s, 1, 1), ERR_RANGE); /* a sequence that was used */
  struct store_resume r = resume_at(s);
  ck_assert(r.at == RESUME_PUBLISHED && r.published.round == 1 && r.committed.round == 0);
  ck_assert_int_eq(round_turn(s, 1, 2), ERR_OK);
  ck_assert_int_eq(round_turn(s, 1, 2), ERR_OK); /* the same again */
  struct round_bytes first = round_bytes((struct round_label){.round = 1});
  struct digest half = digest_bytes(first.half, sizeof first.half), model, of_model;
  ck_assert_int_eq(store_model_files(s, &job_one, (struct round_label){.round = 1}, &model, &of_model), ERR_OK);
  ck_assert(digest_equal(&of_model, &half)); /* its own round's, not the next one's */
  store_close(s);
  s = fixture_open(&f);
  r = resume_at(s);
  ck_assert(r.at == RESUME_PUBLISHED && r.published.round == 2 && r.committed.round == 1 && r.sequence == 2);
  store_close(s);
  fixture_free(&f);
}
END_TEST

/* ---- files that are written over: of a size for which that is done */

enum { LARGE_BYTES = 100000 };

static void large_round(struct store *s, uint64_t round, uint8_t bytes[LARGE_BYTES]) {
  struct round_label label = {.round = round};
  struct round_bytes b = round_bytes(label);
  struct store_publication p = publication(s, &b, label, round);
  struct store_commitment c = commitment(&b, label);
  round_fill(bytes, LARGE_BYTES, label, 6);
  p.payload = bytes;
  p.n_payload = LARGE_BYTES;
  c.model = bytes + 1;
  c.n_model = LARGE_BYTES - 1;
  ck_assert_int_eq(store_publish(s, &p), ERR_OK);
  ck_assert_int_eq(store_commit(s, &c), ERR_OK);
}

/* Files of that size or one byte less that no row names. */
static unsigned spares_count(const struct fixture *f, struct store *s) {
  unsigned n = 0;
  DIR *entries = opendir(fixture_path(f, "files"));
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    struct stat status;
    n += fstatat(dirfd(entries), entry->d_name, &status, 0) == 0 && status.st_size + 1 >= LARGE_BYTES;
  }
  closedir(entries);
  struct query q = query_begin(&s->database, SQL_FILES_NAMED);
  for (struct digest name; query_next(&q) && column_digest(&q, &name);) {
    uint64_t n_bytes;
    int fd;
    ck_assert_int_eq(store_file_open(s, &name, &fd, &n_bytes), ERR_OK);
    close(fd);
    n -= n_bytes + 1 >= LARGE_BYTES;
  }
  ck_assert_int_eq(query_end(&q), ERR_OK);
  return n;
}

/* What is open is not written over, however many rounds go by; what rows name has its bytes. */
START_TEST(what_nothing_names_is_written_over_unless_it_is_open) {
  static uint8_t bytes[LARGE_BYTES], first[LARGE_BYTES], back[LARGE_BYTES];
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  struct store_outbox_entry entries[KEEP_PAYLOADS];
  size_t n, n_bytes;
  int fd;
  uint64_t n_file;
  large_round(s, 1, first);
  ck_assert_int_eq(store_outbox(s, &job_one, entries, 1, &n), ERR_OK);
  ck_assert_int_eq(store_file_open(s, &entries[0].payload, &fd, &n_file), ERR_OK);
  for (uint64_t r = 2; r <= 30; r++) {
    large_round(s, r, bytes);
    ck_assert_int_eq(pread(fd, back, LARGE_BYTES, 0), LARGE_BYTES);
    ck_assert_mem_eq(back, first, LARGE_BYTES);
  }
  ck_assert_uint_gt(spares_count(&f, s), 0);
  ck_assert_uint_le(spares_count(&f, s), 2); /* one of each size */
  close(fd);
  ck_assert_int_eq(store_outbox(s, &job_one, entries, KEEP_PAYLOADS, &n), ERR_OK);
  for (size_t i = 0; i < n; i++) {
    uint8_t *loaded;
    round_fill(bytes, LARGE_BYTES, (struct round_label){.round = 30 - i}, 6);
    ck_assert_int_eq(store_file_load(s, &entries[i].payload, LARGE_BYTES, &loaded, &n_bytes), ERR_OK);
    ck_assert_mem_eq(loaded, bytes, LARGE_BYTES);
    free(loaded);
  }
  store_close(s);
  s = fixture_open(&f);
  ck_assert_uint_eq(resume_at(s).committed.round, 30);
  for (uint64_t r = 31; r <= 33; r++)
    large_round(s, r, bytes);
  ck_assert_uint_le(spares_count(&f, s), 2); /* those of the run before were taken */
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(spares_go_where_room_is_wanted) {
  static uint8_t bytes[LARGE_BYTES];
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  for (uint64_t r = 1; r <= 12; r++)
    large_round(s, r, bytes);
  ck_assert_uint_gt(spares_count(&f, s), 0);
  ck_assert_int_eq(store_keep_few(s, true), ERR_OK);
  ck_assert_uint_eq(spares_count(&f, s), 0);
  store_close(s);
  fixture_free(&f);
}
END_TEST

/* A program that names files another way goes on from those of the one before it, and notices what is damaged. */
START_TEST(files_keep_the_names_that_they_were_given) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 4);
  store_close(s);
  ck_assert_int_eq(fixture_try_digest(&f, 7, &later_lanes, &s), ERR_OK);
  struct round_bytes b = round_bytes((struct round_label){.round = 4});
  struct digest model = digest_bytes(b.model, sizeof b.model);
  struct store_resume r = resume_at(s);
  ck_assert(r.at == RESUME_COMMITTED && r.committed.round == 4 && !r.fell_back && digest_equal(&r.model, &model));
  uint8_t *bytes;
  size_t n_bytes;
  ck_assert_int_eq(store_file_load(s, &model, ROUND_BYTES, &bytes, &n_bytes), ERR_OK);
  ck_assert_mem_eq(bytes, b.model, ROUND_BYTES);
  free(bytes);
  ck_assert_int_eq(round_commit(s, 4), ERR_OK); /* the same again */
  rounds_run(s, 5, 5);
  b = round_bytes((struct round_label){.round = 5});
  struct digest named_before = digest_bytes(b.model, sizeof b.model),
                named = digest_of(&later_lanes, b.model, ROUND_BYTES);
  r = resume_at(s);
  ck_assert(digest_equal(&r.model, &named) && !digest_equal(&r.model, &named_before));
  store_close(s);
  file_damage(&f, &named);
  file_damage(&f, &model);
  ck_assert_int_eq(fixture_try_digest(&f, 7, &later_lanes, &s), ERR_OK);
  r = resume_at(s);
  ck_assert(r.fell_back && r.at == RESUME_PUBLISHED && r.published.round == 5);
  ck_assert_int_eq(store_file_load(s, &model, ROUND_BYTES, &bytes, &n_bytes), ERR_CORRUPT);
  store_close(s);
  fixture_free(&f);
}
END_TEST

/* Also those of a commitment that was refused: the folder holds what rows name, and nothing else. */
START_TEST(a_refused_commitment_leaves_no_file) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 2);
  unsigned n = files_count(&f);
  ck_assert_int_eq(round_publish(s, 3, 3), ERR_OK);
  struct round_bytes b = round_bytes((struct round_label){.round = 3});
  struct store_contribution twice[2] = {{.origin = {1}, .name = "a"}, {.origin = {1}, .name = "a"}};
  struct store_commitment c = commitment(&b, (struct round_label){.round = 3});
  c.contributions = twice;
  c.n_contributions = 2;
  ck_assert_int_eq(store_commit(s, &c), ERR_EXISTS);
  ck_assert_uint_eq(files_count(&f), n + 2); /* payload and half of the publication */
  c.n_contributions = 1;
  ck_assert_int_eq(store_commit(s, &c), ERR_OK);
  ck_assert_uint_eq(files_count(&f), n + 3);
  store_close(s);
  fixture_free(&f);
}
END_TEST

/* What a restart does when files of the newest round are damaged: from which step it goes on. */
static const struct damage {
  bool publish_next, half, model, payload; /* what is published after round 5; what of the newest is damaged */
  enum resume_at at;
  uint64_t committed, published;
} damages[] = {
    {false, false, true, false, RESUME_PUBLISHED, 4, 5}, /* the merged model: gather again with the half-step */
    {false, true, false, false, RESUME_COMMITTED, 4, 0}, /* what it rests on too */
    {true, true, false, false, RESUME_COMMITTED, 5, 0},  /* the half-step in work */
    {true, false, false, true, RESUME_COMMITTED, 5, 0},  /* the same bytes cannot be sent again */
};

static void damage_and_restart(const struct damage *d) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 5);
  uint64_t newest = d->publish_next ? 6 : 5;
  if (d->publish_next)
    ck_assert_int_eq(round_publish(s, 6, 6), ERR_OK);
  store_close(s);
  struct round_bytes b = round_bytes((struct round_label){.round = newest});
  const struct {
    bool damaged;
    struct digest name;
  } files[] = {
      {d->half, digest_bytes(b.half, sizeof b.half)},
      {d->model, digest_bytes(b.model, sizeof b.model)},
      {d->payload, digest_bytes(b.payload, sizeof b.payload)},
  };
  for (size_t i = 0; i < 3; i++)
    if (files[i].damaged)
      file_damage(&f, &files[i].name);

  struct store *reader = NULL; /* sees the same and changes nothing */
  ck_assert_int_eq(store_open_read_only(f.state, &lanes, &reader, f.why), ERR_OK);
  ck_assert(resume_at(reader).fell_back);
  store_close(reader);

  s = fixture_open(&f);
  struct store_resume r = resume_at(s);
  ck_assert(r.fell_back);
  ck_assert_int_eq(r.at, d->at);
  ck_assert_uint_eq(r.committed.round, d->committed);
  ck_assert_uint_eq(r.published.round, d->published);
  ck_assert_uint_eq(r.sequence, newest);
  struct store_resume again = resume_at(s); /* settled, and the chain of what was lost is not gone on with */
  ck_assert(!again.fell_back);
  ck_assert_int_eq(digest_is_zero(&again.chain), d->at == RESUME_COMMITTED);
  if (d->at == RESUME_COMMITTED) /* the lost round is learnt again, under the next sequence */
    ck_assert_int_eq(round_publish(s, r.committed.round + 1, newest + 1), ERR_OK);
  ck_assert_int_eq(round_commit(s, r.committed.round + 1), ERR_OK);
  ck_assert_uint_eq(resume_at(s).committed.round, r.committed.round + 1);
  store_close(s);
  fixture_free(&f);
}

START_TEST(a_damaged_file_falls_back_and_says_so) {
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++)
    damage_and_restart(&damages[i]);
}
END_TEST

START_TEST(nothing_whole_is_corrupt) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 5);
  for (uint64_t r = 3; r <= 5; r++) {
    struct round_bytes b = round_bytes((struct round_label){.round = r});
    struct digest half = digest_bytes(b.half, sizeof b.half);
    file_damage(&f, &half);
  }
  struct store_resume r;
  ck_assert_int_eq(store_resume(s, &job_one, &r, f.why), ERR_CORRUPT);
  ck_assert_ptr_nonnull(strstr(f.why, "backup"));
  struct store_round rounds[8];
  size_t n;
  ck_assert_int_eq(store_rounds(s, &job_one, 0, rounds, 8, &n), ERR_OK); /* nothing was forgotten */
  ck_assert_uint_eq(n, 5);
  ck_assert(rounds[4].committed);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(contributions_and_positions_come_back) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  struct round_label label = {.round = 1};
  struct round_bytes b = round_bytes(label);
  struct store_contribution rows[] = {
      {.origin = {2}, .name = "mec-02", .reason = ERR_LATE, .weight = 0, .arrival_ms = -1},
      {.origin = {1},
       .name = "mec-01",
       .reason = ERR_OK,
       .fate = 2,
       .lag = 2,
       .weight = 0.25,
       .boot_epoch = UINT64_MAX,
       .sequence = UINT64_MAX - 1,
       .n_bytes = 4096,
       .arrival_ms = 310},
  };
  struct store_commitment c = commitment(&b, label);
  c.contributions = rows;
  c.n_contributions = 2;
  c.metrics =
      (struct store_metrics){.has_global = true, .global_loss = 0.4, .global_headline = 0.83, .global_macro_f1 = 0.8};
  ck_assert_int_eq(round_publish(s, 1, 1), ERR_OK);
  ck_assert_int_eq(store_commit(s, &c), ERR_OK);

  struct store_contribution back[4];
  size_t n;
  struct store_round round;
  ck_assert_int_eq(store_round_find(s, &job_one, label, &round, back, 4, &n), ERR_OK);
  ck_assert_uint_eq(n, 2);
  ck_assert_str_eq(back[0].name, "mec-01");
  ck_assert(back[0].reason == ERR_OK && back[0].fate == 2 && back[0].lag == 2 && back[0].n_bytes == 4096);
  ck_assert(back[0].weight == 0.25 && back[0].arrival_ms == 310);
  ck_assert(back[0].boot_epoch == UINT64_MAX && back[0].sequence == UINT64_MAX - 1);
  ck_assert(back[1].reason == ERR_LATE && back[1].arrival_ms == -1 && back[1].fate == 0);

  ck_assert_int_eq(store_rounds(s, &job_one, 1, &round, 1, &n), ERR_OK);
  ck_assert(n == 1 && round.committed && round.outcome == ROUND_MERGED && !round.interrupted);
  ck_assert(round.n_merged == 1 && round.n_expected == 2 && round.n_samples == 640 && round.sequence == 1);
  ck_assert(round.train_loss == 0.5 && round.train_seconds == 1.5 && round.seconds == 2.5);
  ck_assert(round.sent_bytes == 11 && round.received_bytes == 22 && round.committed_unix_s > 0);
  ck_assert(!round.metrics.has_local && round.metrics.local_loss == 0);
  ck_assert(round.metrics.has_global && round.metrics.global_headline == 0.83);

  uint64_t epoch, sequence;
  ck_assert_int_eq(store_position(s, &job_one, rows[1].origin, &epoch, &sequence), ERR_OK);
  ck_assert(epoch == UINT64_MAX && sequence == UINT64_MAX - 1);
  ck_assert_int_eq(store_position(s, &job_one, rows[0].origin, &epoch, &sequence), ERR_OK);
  ck_assert(epoch == 0 && sequence == 0);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(positions_only_rise) {
  static const struct {
    uint64_t epoch, sequence, then_epoch, then_sequence;
  } steps[] = {
      {5, 10, 5, 10}, {5, 9, 5, 10}, {4, 99, 5, 10}, {1ULL << 63, 1, 1ULL << 63, 1}, {6, 11, 1ULL << 63, 1},
  };
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  for (uint64_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    struct round_label label = {.round = i + 1};
    struct round_bytes b = round_bytes(label);
    struct store_contribution row = {
        .origin = {1}, .name = "a", .boot_epoch = steps[i].epoch, .sequence = steps[i].sequence};
    struct store_commitment c = commitment(&b, label);
    c.contributions = &row;
    c.n_contributions = 1;
    ck_assert_int_eq(round_publish(s, i + 1, i + 1), ERR_OK);
    ck_assert_int_eq(store_commit(s, &c), ERR_OK);
    uint64_t epoch, sequence;
    ck_assert_int_eq(store_position(s, &job_one, row.origin, &epoch, &sequence), ERR_OK);
    ck_assert_uint_eq(epoch, steps[i].then_epoch);
    ck_assert_uint_eq(sequence, steps[i].then_sequence);
  }
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(rounds_are_read_page_by_page) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  rounds_run(s, 1, 10);
  ck_assert_int_eq(round_publish(s, 11, 11), ERR_OK);
  store_close(s);
  s = fixture_open(&f);
  struct store_round rounds[4];
  size_t n;
  ck_assert_int_eq(store_rounds(s, &job_one, 0, rounds, 4, &n), ERR_OK);
  ck_assert_uint_eq(n, 4);
  for (size_t i = 0; i < 4; i++)
    ck_assert_uint_eq(rounds[i].label.round, 8 + i);
  ck_assert(!rounds[3].committed && rounds[3].interrupted && isnan(rounds[3].seconds));
  ck_assert(rounds[2].committed && !rounds[2].interrupted);
  ck_assert_int_eq(store_rounds(s, &job_one, 2, rounds, 4, &n), ERR_OK);
  ck_assert(n == 4 && rounds[0].label.round == 2 && rounds[3].label.round == 5);
  ck_assert_int_eq(store_rounds(s, &job_one, 12, rounds, 4, &n), ERR_OK);
  ck_assert_uint_eq(n, 0);
  struct digest other = {{9}}, jobs[2];
  ck_assert_int_eq(store_rounds(s, &other, 0, rounds, 4, &n), ERR_OK);
  ck_assert_uint_eq(n, 0);
  ck_assert_int_eq(store_jobs(s, jobs, 2, &n), ERR_OK);
  ck_assert(n == 1 && digest_equal(&jobs[0], &job_one));
  store_close(s);
  fixture_free(&f);
}
END_TEST

/* Of each position the newest commitment counts, and what was not measured stays so. */
START_TEST(the_accuracy_of_each_task_is_kept_by_position) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  struct store_matrix *m = calloc(1, sizeof *m);
  ck_assert_ptr_nonnull(m);
  ck_assert_int_eq(store_task_matrix(s, &job_one, m), ERR_NOT_FOUND);
  for (uint64_t r = 1; r <= 4; r++) {
    struct round_label label = {.round = r};
    struct round_bytes b = round_bytes(label);
    struct store_commitment c = commitment(&b, label);
    c.tasks = (struct store_tasks){.n = 3,
                                   .position = (uint32_t)(r - 1) / 2,
                                   .trained = r <= 2 ? 2 : 0,
                                   .accuracy = {0.1 * (double)r, __builtin_nan(""), 0.9}};
    ck_assert_int_eq(round_publish(s, r, r), ERR_OK);
    ck_assert_int_eq(store_commit(s, &c), ERR_OK);
    ck_assert_int_eq(store_commit(s, &c), ERR_OK); /* told twice */
  }
  ck_assert_int_eq(round_publish(s, 5, 5), ERR_OK);
  ck_assert_int_eq(round_commit(s, 5), ERR_OK); /* not measured */
  ck_assert_int_eq(store_task_matrix(s, &job_one, m), ERR_OK);
  ck_assert_uint_eq(m->n_times, 2);
  ck_assert_uint_eq(m->n_tasks, 3);
  ck_assert_uint_eq(m->times[0].trained, 2);
  ck_assert_uint_eq(m->times[0].label.round, 2);
  ck_assert_double_eq(m->times[0].accuracy[0], 0.2);
  ck_assert_double_nan(m->times[0].accuracy[1]);
  ck_assert_uint_eq(m->times[1].trained, 0);
  ck_assert_double_eq(m->times[1].accuracy[0], 0.4);
  ck_assert_double_eq(m->times[1].accuracy[2], 0.9);
  store_close(s);
  free(m);
  fixture_free(&f);
}
END_TEST

int main(void) {
  return SUITE_RUN("round", a_fresh_store_resumes_from_nothing, published_resumes_into_gathering_with_the_same_bytes,
                   committed_resumes_with_model_and_the_half_of_its_round, a_publication_follows_or_is_refused,
                   a_commitment_follows_a_publication_or_is_refused, a_short_round_is_committed_under_another_label,
                   a_jump_brings_its_own_half, sub_rounds_stand_between_numbers, kind_none_is_trained_again,
                   the_newest_are_kept_and_the_rest_removed, an_open_descriptor_outlives_the_name,
                   orphans_are_removed_at_opening, a_damaged_file_under_a_right_name_is_written_anew,
                   a_turn_is_both_or_none, what_nothing_names_is_written_over_unless_it_is_open,
                   spares_go_where_room_is_wanted, files_keep_the_names_that_they_were_given,
                   a_refused_commitment_leaves_no_file, a_damaged_file_falls_back_and_says_so, nothing_whole_is_corrupt,
                   contributions_and_positions_come_back, positions_only_rise, rounds_are_read_page_by_page,
                   the_accuracy_of_each_task_is_kept_by_position);
}
