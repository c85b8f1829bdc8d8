/* Which file systems a store may stand on. */
#include "store/filesystem.h"

#include "tests/unit/store/fixture.h"
#include "tests/unit/suite.h"

/* magic numbers as in linux/magic.h and the clients' sources */
static const struct {
  unsigned long magic;
  enum err expected;
  const char *named; /* in the refusal or the warning; "" where nothing is said */
} cases[] = {
    {0x6969, ERR_UNSUPPORTED, "NFS"},
    {0xff534d42, ERR_UNSUPPORTED, "CIFS"},
    {0xfe534d42, ERR_UNSUPPORTED, "SMB"},
    {0x01021997, ERR_UNSUPPORTED, "9p"},
    {0x65735546, ERR_UNSUPPORTED, "FUSE"},
    {0x794c7630, ERR_OK, "overlay"},
    {0x01021994, ERR_OK, "tmpfs"},
    {0xef53, ERR_OK, ""},
    {0x58465342, ERR_OK, ""},
    {0x9123683e, ERR_OK, ""},
};

START_TEST(network_is_refused_and_the_passing_is_warned_of) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char warning[MAX_REASON_BYTES] = "", why[MAX_REASON_BYTES] = "";
    ck_assert_int_eq(filesystem_judge(cases[i].magic, "/var/lib/starling", warning, why), cases[i].expected);
    const char *said = cases[i].expected == ERR_OK ? warning : why;
    const char *silent = cases[i].expected == ERR_OK ? why : warning;
    ck_assert_str_eq(silent, "");
    ck_assert_int_eq(said[0] != '\0', cases[i].named[0] != '\0');
    ck_assert_msg(strstr(said, cases[i].named) != NULL, "%s", said);
    if (cases[i].expected != ERR_OK)
      ck_assert_ptr_nonnull(strstr(said, "local disk"));
  }
}
END_TEST

START_TEST(opening_hands_the_warning_on) {
  struct fixture f = fixture_new();
  char expected[MAX_REASON_BYTES] = "";
  int fd = open(f.base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ck_assert_int_eq(filesystem_check(fd, f.state, expected, f.why), ERR_OK);
  close(fd);
  store_close(fixture_open(&f));
  ck_assert_str_eq(f.warning, expected);
  fixture_free(&f);
}
END_TEST

int main(void) {
  return SUITE_RUN("filesystem", network_is_refused_and_the_passing_is_warned_of, opening_hands_the_warning_on);
}
