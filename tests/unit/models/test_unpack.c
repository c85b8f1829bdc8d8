#include "models/formats/unpack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/unit/suite.h"

enum { N = 200000 };
static char folder[32], from[64], to[64];
static unsigned char bytes[N];

static void set_up(void) {
  strcpy(folder, "/tmp/starling-test-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(from, sizeof from, "%s/a.gz", folder);
  snprintf(to, sizeof to, "%s/a", folder);
  for (size_t i = 0; i < N; i++)
    bytes[i] = (unsigned char)(i * i >> 3);
  gzFile out = gzopen(from, "wb");
  ck_assert_int_eq(gzwrite(out, bytes, N), N);
  ck_assert_int_eq(gzclose(out), Z_OK);
}

static void tear_down(void) {
  unlink(from);
  unlink(to);
  rmdir(folder);
}

START_TEST(what_was_packed_is_there_again) {
  static unsigned char read[N + 1];
  ck_assert_int_eq(unpack(from, to), ERR_OK);
  FILE *in = fopen(to, "rb");
  ck_assert_uint_eq(fread(read, 1, sizeof read, in), N);
  fclose(in);
  ck_assert_mem_eq(read, bytes, N);
  ck_assert_int_eq(unpack(from, to), ERR_EXISTS);
  ck_assert_int_eq(access(to, F_OK), 0); /* and stays */
}
END_TEST

START_TEST(of_what_is_broken_nothing_is_left) {
  ck_assert_int_eq(truncate(from, 200), 0);
  ck_assert_int_eq(unpack(from, to), ERR_CORRUPT);
  ck_assert_int_ne(access(to, F_OK), 0);
  unlink(from);
  ck_assert_int_eq(unpack(from, to), ERR_NOT_FOUND);
  ck_assert_int_ne(access(to, F_OK), 0);
}
END_TEST

int main(void) {
  return SUITE_RUN_AROUND("models/unpack", 0, set_up, tear_down, what_was_packed_is_there_again,
                          of_what_is_broken_nothing_is_left);
}
