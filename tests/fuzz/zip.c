/* Archives of arrays: names stay inside, a member gives no more bytes than the caps allow. */
#include "models/formats/npy.h"

#include <string.h>

#include "base/must.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

static void read_member(struct archive *z, size_t i) {
  uint8_t bytes[4096];
  struct array a;
  struct data_place why = {0};
  const struct archive_member *m = archive_member(z, i);
  MUST(m->name[0] != '/' && strstr(m->name, "/../") == NULL && strncmp(m->name, "../", 3) != 0);
  if (archive_enter(z, i, &why) != ERR_OK || npy_head_enter(z, m, &a, &why) != ERR_OK)
    return;
  uint64_t left = a.n_bytes < 1 << 20 ? a.n_bytes : 1 << 20;
  for (; left > 0; left -= left < sizeof bytes ? left : sizeof bytes)
    if (archive_read(z, bytes, left < sizeof bytes ? left : sizeof bytes, &why) != ERR_OK)
      return;
  enum err e = archive_leave(z, &why);
  MUST((e == ERR_OK) == (why.sentence[0] == '\0'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct memory_file f = memory_file_new(data, size);
  struct archive *z = NULL;
  struct data_place why = {0};
  enum err e = archive_open(f.path, &z, &why);
  MUST((e == ERR_OK) == (why.sentence[0] == '\0'));
  for (size_t i = 0; e == ERR_OK && i < archive_members(z); i++)
    read_member(z, i);
  archive_close(z);
  memory_file_free(&f);
  return 0;
}
