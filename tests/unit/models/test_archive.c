#include "models/formats/archive.h"

#include "tests/unit/models/data_kit.h"
#include "tests/unit/suite.h"

/* An archive as it can be made wrong: one record a member, by hand. */
struct made {
  const char *name;
  const void *bytes; /* as they stand in the file */
  uint32_t n_bytes, n_packed;
  uint16_t method, flags;
  uint32_t crc;
};

static void put(uint8_t *out, size_t *n, uint64_t value, size_t n_bytes) {
  for (size_t i = 0; i < n_bytes; i++)
    out[(*n)++] = (uint8_t)(value >> 8 * i);
}

static void put_text(uint8_t *out, size_t *n, const void *bytes, size_t n_bytes) {
  memcpy(out + *n, bytes, n_bytes);
  *n += n_bytes;
}

static void put_common(uint8_t *out, size_t *n, const struct made *m) {
  put(out, n, 20, 2);
  put(out, n, m->flags, 2);
  put(out, n, m->method, 2);
  put(out, n, 0x00210000, 4);
  put(out, n, m->crc, 4);
  put(out, n, m->n_packed, 4);
  put(out, n, m->n_bytes, 4);
  put(out, n, strlen(m->name), 2);
  put(out, n, 0, 2);
}

/* share: all members stand on the first one's bytes. */
static struct kit_file archive(const struct made *members, size_t n_members, bool share) {
  static uint8_t out[1 << 16];
  size_t n = 0, at[8], directory;
  for (size_t i = 0; i < n_members && (i == 0 || !share); i++) {
    at[i] = n;
    put(out, &n, 0x04034b50, 4);
    put_common(out, &n, &members[i]);
    put_text(out, &n, members[i].name, strlen(members[i].name));
    put_text(out, &n, members[i].bytes, members[i].n_packed);
  }
  directory = n;
  for (size_t i = 0; i < n_members; i++) {
    put(out, &n, 0x02014b50, 4);
    put(out, &n, 20, 2);
    put_common(out, &n, &members[i]);
    put(out, &n, 0, 6);
    put(out, &n, 0, 4);
    put(out, &n, share ? at[0] : at[i], 4);
    put_text(out, &n, members[i].name, strlen(members[i].name));
  }
  size_t n_directory = n - directory;
  put(out, &n, 0x06054b50, 4);
  put(out, &n, 0, 4);
  put(out, &n, n_members, 2);
  put(out, &n, n_members, 2);
  put(out, &n, n_directory, 4);
  put(out, &n, directory, 4);
  put(out, &n, 0, 2);
  return kit_file(out, n);
}

static enum err open_archive(const struct made *members, size_t n, bool share, struct data_place *why) {
  struct kit_file file = archive(members, n, share);
  struct archive *z = NULL;
  enum err e = archive_open(file.path, &z, why);
  ck_assert_int_eq(e == ERR_OK, why->sentence[0] == '\0');
  archive_close(z);
  kit_file_close(&file);
  return e;
}

static enum err open_named(const char *name) {
  struct data_place why = {0};
  return open_archive(&(struct made){.name = name, .bytes = "abc", .n_bytes = 3, .n_packed = 3, .crc = 0x352441c2}, 1,
                      false, &why);
}

START_TEST(names_stay_inside) {
  static const char *const good[] = {"x.npy", "a/b.npy", "..a", "a..", "weight.0"};
  static const char *const bad[] = {"../x", "a/../x", "a/..", "..", "/x", "a//b", "a/", "C:\\x", "a\nb", ""};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    ck_assert_msg(open_named(good[i]) == ERR_OK, "%s", good[i]);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    ck_assert_msg(open_named(bad[i]) == ERR_SYNTAX, "%s", bad[i]);
}
END_TEST

START_TEST(names_are_utf_8) {
  static const struct {
    const char *there, *here;
  } names[] = {{"d\xc3\xa9j\xc3\xa0.npy", "d\xc3\xa9j\xc3\xa0.npy"}, {"d\x82j\x85.npy", "d\xc3\xa9j\xc3\xa0.npy"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const struct made m = {.name = names[i].there, .bytes = "abc", .n_bytes = 3, .n_packed = 3, .crc = 0x352441c2};
    struct kit_file file = archive(&m, 1, false);
    struct archive *z = NULL;
    struct data_place why = {0};
    ck_assert_int_eq(archive_open(file.path, &z, &why), ERR_OK);
    ck_assert_str_eq(archive_member(z, 0)->name, names[i].here);
    ck_assert_uint_eq(archive_member(z, 0)->n_name, strlen(names[i].here) - 4);
    archive_close(z);
    kit_file_close(&file);
  }
}
END_TEST

START_TEST(what_no_array_needs_is_refused) {
  const struct made good = {.name = "x", .bytes = "abc", .n_bytes = 3, .n_packed = 3, .crc = 0x352441c2};
  struct made twice[] = {good, good}, m = good;
  struct data_place why = {0};
  ck_assert_int_eq(open_archive(twice, 2, false, &why), ERR_EXISTS);
  why = (struct data_place){0};
  twice[1].name = "x.npy"; /* the same array to NumPy */
  ck_assert_int_eq(open_archive(twice, 2, false, &why), ERR_EXISTS);
  why = (struct data_place){0};
  m.flags = 1;
  ck_assert_int_eq(open_archive(&m, 1, false, &why), ERR_UNSUPPORTED);
  why = (struct data_place){0};
  m = good;
  m.method = 12;
  ck_assert_int_eq(open_archive(&m, 1, false, &why), ERR_UNSUPPORTED);
  why = (struct data_place){0};
  m = good;
  m.n_bytes = 5;
  ck_assert_int_eq(open_archive(&m, 1, false, &why), ERR_CORRUPT);
}
END_TEST

START_TEST(members_share_no_bytes) {
  char bytes[200] = "";
  struct made members[4];
  struct data_place why = {0};
  for (size_t i = 0; i < 4; i++)
    members[i] = (struct made){.bytes = bytes, .n_bytes = 200, .n_packed = 200};
  members[0].name = "a";
  members[1].name = "b";
  members[2].name = "c";
  members[3].name = "d";
  ck_assert_int_eq(open_archive(members, 4, true, &why), ERR_CORRUPT);
  ck_assert_ptr_nonnull(strstr(why.sentence, "overlap"));
}
END_TEST

START_TEST(an_expansion_is_capped_as_declared) {
  const struct made bomb = {.name = "x", .bytes = "abc", .method = 8, .n_bytes = 0x7fffffff, .n_packed = 3};
  struct data_place why = {0};
  ck_assert_int_eq(open_archive(&bomb, 1, false, &why), ERR_LIMIT);
  ck_assert_ptr_nonnull(strstr(why.sentence, "more than 100-fold"));
}
END_TEST

/* n zeros as one deflate stream. */
static size_t deflate_zeros(size_t n, uint8_t *out, size_t capacity) {
  z_stream z = {0};
  static const uint8_t zeros[1 << 16];
  ck_assert_int_eq(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  z.next_out = out;
  z.avail_out = (unsigned)capacity;
  for (size_t done = 0; done < n; done += sizeof zeros) {
    z.next_in = (Bytef *)(uintptr_t)zeros;
    z.avail_in = sizeof zeros;
    ck_assert_int_eq(deflate(&z, Z_NO_FLUSH), Z_OK);
  }
  ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
  size_t n_out = z.total_out;
  deflateEnd(&z);
  return n_out;
}

static enum err read_member(const struct made *m, size_t n, struct data_place *why) {
  struct kit_file file = archive(m, 1, false);
  struct archive *z = NULL;
  static uint8_t out[1 << 16];
  enum err e = archive_open(file.path, &z, why);
  if (e == ERR_OK)
    e = archive_enter(z, 0, why);
  for (size_t done = 0; e == ERR_OK && done < n; done += n - done < sizeof out ? n - done : sizeof out)
    e = archive_read(z, out, n - done < sizeof out ? n - done : sizeof out, why);
  if (e == ERR_OK)
    e = archive_leave(z, why);
  archive_close(z);
  kit_file_close(&file);
  return e;
}

START_TEST(a_member_gives_what_it_declares_and_nothing_more) {
  static uint8_t packed[1 << 12];
  struct data_place why = {0};
  struct made m = {.name = "x", .bytes = packed, .method = 8, .n_bytes = 1 << 18};
  m.n_packed = (uint32_t)deflate_zeros(1 << 18, packed, sizeof packed);

  uint32_t crc = 0;
  static const uint8_t zeros[1 << 16];
  for (int i = 0; i < 4; i++)
    crc = (uint32_t)crc32(crc, zeros, sizeof zeros);
  m.crc = crc;
  ck_assert_int_eq(read_member(&m, 1 << 18, &why), ERR_OK);
  why = (struct data_place){0};
  ck_assert_int_eq(read_member(&m, (1 << 18) + 1, &why), ERR_TRUNCATED);
  why = (struct data_place){0};
  ck_assert_int_eq(read_member(&m, (1 << 18) - 1, &why), ERR_TRAILING);
  m.crc = crc ^ 1;
  why = (struct data_place){0};
  ck_assert_int_eq(read_member(&m, 1 << 18, &why), ERR_CORRUPT);
  m.crc = crc;
  m.n_bytes = 1 << 17; /* says less than comes out */
  why = (struct data_place){0};
  ck_assert_int_eq(read_member(&m, 1 << 17, &why), ERR_TRAILING);
  m.n_bytes = 1 << 18;
  packed[100] ^= 0xff;
  why = (struct data_place){0};
  ck_assert_int_ne(read_member(&m, 1 << 18, &why), ERR_OK);
}
END_TEST

START_TEST(an_archive_that_is_written_is_read) {
  char path[] = "/tmp/test_archive_XXXXXX"; /* libzip writes beside it and renames */
  struct archive_writer *w = NULL;
  struct archive *z = NULL;
  struct data_place why = {0};
  char out[5];
  close(mkstemp(path));
  ck_assert_int_eq(archive_create(path, &w), ERR_EXISTS);
  unlink(path);
  ck_assert_int_eq(archive_create(path, &w), ERR_OK);
  ck_assert_int_eq(archive_add(w, "a.npy", "hello", 5), ERR_OK);
  ck_assert_int_eq(archive_add(w, "b.npy", "", 0), ERR_OK);
  ck_assert_int_eq(archive_finish(w), ERR_OK);
  ck_assert_msg(archive_open(path, &z, &why) == ERR_OK, "%s", why.sentence);
  ck_assert_uint_eq(archive_members(z), 2);
  ck_assert_str_eq(archive_member(z, 0)->name, "a.npy");
  ck_assert_int_eq(archive_enter(z, 0, &why), ERR_OK);
  ck_assert_int_eq(archive_read(z, out, 5, &why), ERR_OK);
  ck_assert_mem_eq(out, "hello", 5);
  ck_assert_int_eq(archive_leave(z, &why), ERR_OK);
  archive_close(z);
  unlink(path);
}
END_TEST

int main(void) {
  return SUITE_RUN("archive", names_stay_inside, names_are_utf_8, what_no_array_needs_is_refused,
                   members_share_no_bytes, an_expansion_is_capped_as_declared,
                   a_member_gives_what_it_declares_and_nothing_more, an_archive_that_is_written_is_read);
}
