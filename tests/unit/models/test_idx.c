#include "models/formats/idx.h"

#include <stdlib.h>

#include "base/rng.h"
#include "tests/unit/models/data_kit.h"
#include "tests/unit/suite.h"

enum { BYTES = 8 }; /* IDX type */

/* Opens, reads everything, ends. */
static enum err read_all(const char *path, uint64_t *out_sum, struct data_place *why) {
  struct idx_file *f = NULL;
  enum err e = idx_open(path, &f, why);
  if (e != ERR_OK)
    return e;
  uint8_t *item = malloc(idx_item_bytes(f));
  ck_assert_ptr_nonnull(item);
  *out_sum = 0;
  for (uint32_t i = 0; e == ERR_OK && i < idx_shape(f)->size[0]; i++) {
    e = idx_next(f, item, why);
    for (size_t k = 0; e == ERR_OK && k < idx_item_bytes(f); k++)
      *out_sum += item[k];
  }
  if (e == ERR_OK)
    e = idx_end(f, why);
  free(item);
  idx_close(f);
  return e;
}

/* Three images of 2 x 2: 0 … 11. */
static size_t three_images(uint8_t *out) {
  size_t n = kit_idx_head(out, BYTES, 3, (uint32_t[]){3, 2, 2});
  for (uint8_t i = 0; i < 12; i++)
    out[n++] = i;
  return n;
}

START_TEST(plain_and_gzip_read_the_same) {
  uint8_t bytes[64];
  size_t n = three_images(bytes);
  struct kit_file plain = kit_file(bytes, n), gz = kit_gzip(bytes, n);
  const char *paths[] = {plain.path, gz.path};
  for (size_t p = 0; p < 2; p++) {
    struct data_place why;
    struct idx_file *f = NULL;
    uint8_t item[4];
    ck_assert_int_eq(idx_open(paths[p], &f, &why), ERR_OK);
    ck_assert_uint_eq(idx_shape(f)->rank, 3);
    ck_assert_uint_eq(idx_item_bytes(f), 4);
    ck_assert_uint_eq(idx_offset(f), 16);
    ck_assert_int_eq(idx_next(f, item, &why), ERR_OK);
    ck_assert_int_eq(idx_next(f, item, &why), ERR_OK);
    ck_assert_mem_eq(item, ((uint8_t[]){4, 5, 6, 7}), 4);
    ck_assert_uint_eq(idx_offset(f), 24);
    ck_assert_int_eq(idx_next(f, item, &why), ERR_OK);
    ck_assert_int_eq(idx_end(f, &why), ERR_OK);
    idx_close(f);
  }
  kit_file_close(&plain);
  kit_file_close(&gz);
  idx_close(NULL);
}
END_TEST

static void refused(const struct kit_file *f, enum err expected, const char *says) {
  struct data_place why;
  uint64_t sum;
  enum err e = read_all(f->path, &sum, &why);
  ck_assert_msg(e == expected, "%s: %s", err_name(e), e == ERR_OK ? "" : why.sentence);
  ck_assert_str_eq(why.path, f->path);
  ck_assert_msg(strstr(why.sentence, says) != NULL, "%s", why.sentence);
}

START_TEST(bad_heads_are_refused) {
  static const struct {
    uint8_t bytes[24];
    size_t n;
    enum err e;
    const char *says;
  } table[] = {
      {{0}, 0, ERR_TRUNCATED, "empty"},
      {{0, 0}, 2, ERR_TRUNCATED, "ends at byte 2"},
      {"not an idx file", 15, ERR_SYNTAX, "found 110 111"},
      {{0, 0, 0x0d, 1, 0, 0, 0, 1, 1}, 9, ERR_UNSUPPORTED, "IDX type 13"},
      {{0, 0, 8, 0, 1}, 5, ERR_UNSUPPORTED, "0 dimensions"},
      {{0, 0, 8, 9, 1}, 5, ERR_UNSUPPORTED, "9 dimensions"},
      {{0, 0, 8, 3, 0, 0, 0, 1, 0, 0}, 10, ERR_TRUNCATED, "ends at byte 10"},
      {{0, 0, 8, 1, 0, 0, 0, 0}, 8, ERR_RANGE, "size 0 is 0"},
      {{0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 0}, 12, ERR_RANGE, "size 1 is 0"},
      {{0, 0, 8, 1, 0x80, 0, 0, 0, 1}, 9, ERR_LIMIT, "size 0 as 2147483648"},
      {{0, 0, 8, 1, 0xff, 0xff, 0xff, 0xff, 1}, 9, ERR_LIMIT, "4294967295"},
      {{0, 0, 8, 3, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0}, 16, ERR_LIMIT, "size 2 as 65536"},
      {{0, 0, 8, 1, 0x04, 0, 0, 0, 1}, 9, ERR_TRUNCATED, "67108864 items, 67108872 bytes, but has only 9"},
      {{0, 0, 8, 1, 0, 0, 0, 3, 1, 2}, 10, ERR_TRUNCATED, "3 items"},
      {{0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3, 4}, 12, ERR_TRAILING, "1 bytes follow its declared end at byte 11"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct kit_file f = kit_file(table[i].bytes, table[i].n);
    refused(&f, table[i].e, table[i].says);
    kit_file_close(&f);
  }
}
END_TEST

START_TEST(bad_gzip_is_refused) {
  uint8_t bytes[64];
  size_t n = three_images(bytes);
  struct kit_file longer = kit_gzip(bytes, n + 1), shorter = kit_gzip(bytes, n - 1);
  refused(&longer, ERR_TRAILING, "follow its declared end at byte 28");
  refused(&shorter, ERR_TRUNCATED, "ends at byte 27");
  kit_file_close(&longer);
  kit_file_close(&shorter);

  struct kit_file whole = kit_gzip(bytes, n);
  uint8_t gz[256];
  ssize_t n_gz = pread(whole.fd, gz, sizeof gz, 0);
  ck_assert_int_gt(n_gz, 20);
  kit_file_close(&whole);
  for (ssize_t cut = 12; cut < n_gz; cut++) { /* wherever it is cut, also inside the trailer */
    struct kit_file f = kit_file(gz, (size_t)cut);
    refused(&f, ERR_TRUNCATED, "fetch the file again");
    kit_file_close(&f);
  }
  gz[n_gz - 8] ^= 1; /* the checksum */
  struct kit_file damaged = kit_file(gz, (size_t)n_gz);
  refused(&damaged, ERR_CORRUPT, "gzip data is damaged");
  kit_file_close(&damaged);
}
END_TEST

/* Head of 2^27 images of 32 x 32 and a few bytes, packed: 2^37 declared. */
static void a_huge_claim_is_refused(void) {
  uint8_t bytes[64];
  size_t n = kit_idx_head(bytes, BYTES, 3, (uint32_t[]){1u << 27, 32, 32});
  struct kit_file f = kit_gzip(bytes, n);
  refused(&f, ERR_TRUNCATED, "134217728 items, 137438953488 bytes");
  kit_file_close(&f);
}

/* A claim that deflate could hold (1032 : 1), of a file that does not. */
static void a_believable_claim_reads_what_is_there(void) {
  static uint8_t bytes[100 * 1024];
  struct rng r;
  rng_init(&r, 1);
  size_t n = kit_idx_head(bytes, BYTES, 3, (uint32_t[]){100000, 28, 28});
  while (n < sizeof bytes)
    bytes[n++] = (uint8_t)rng_u64(&r);
  struct kit_file f = kit_gzip(bytes, n);
  refused(&f, ERR_TRUNCATED, "ends at byte 102400");
  kit_file_close(&f);
}

START_TEST(declared_sizes_allocate_nothing) {
  kit_in_little_memory(4 << 20, a_huge_claim_is_refused);
  kit_in_little_memory(4 << 20, a_believable_claim_reads_what_is_there);
}
END_TEST

START_TEST(only_files_are_read) {
  struct data_place why;
  struct idx_file *f = NULL;
  char text[MAX_PATH_BYTES + MAX_REASON_BYTES], path[MAX_PATH_BYTES + 2];
  ck_assert_int_eq(idx_open("/nowhere/images", &f, &why), ERR_NOT_FOUND);
  data_place_text(&why, text, sizeof text);
  ck_assert_str_eq(text, "/nowhere/images: it does not exist; correct the path");
  ck_assert_int_eq(idx_open("/tmp", &f, &why), ERR_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(why.sentence, "not a regular file"));
  ck_assert_int_eq(idx_open("/dev/zero", &f, &why), ERR_UNSUPPORTED);
  memset(path, 'p', sizeof path - 1);
  path[sizeof path - 1] = '\0';
  ck_assert_int_eq(idx_open(path, &f, &why), ERR_LIMIT);
  ck_assert_ptr_null(f);
}
END_TEST

START_TEST(fashion_mnist_is_read_whole) {
  if (access(FASHION "t10k-images-idx3-ubyte.gz", R_OK) != 0) {
    fprintf(stderr, "SKIPPED fashion_mnist_is_read_whole: no %s (package dataset-fashion-mnist)\n", FASHION);
    return;
  }
  struct data_place why;
  uint64_t sum = 0;
  ck_assert_int_eq(read_all(FASHION "t10k-labels-idx1-ubyte.gz", &sum, &why), ERR_OK);
  ck_assert_uint_eq(sum, 45000); /* 1000 of each class */
  ck_assert_int_eq(read_all(FASHION "t10k-images-idx3-ubyte.gz", &sum, &why), ERR_OK);
  double mean = (double)sum / (10000.0 * 784 * 255);
  ck_assert_double_eq_tol(mean, 0.2868, 0.0005);
}
END_TEST

int main(void) {
  return SUITE_RUN("models/idx", plain_and_gzip_read_the_same, bad_heads_are_refused, bad_gzip_is_refused,
                   declared_sizes_allocate_nothing, only_files_are_read, fashion_mnist_is_read_whole);
}
