/* The IDX reader over plain and gzip bytes: a file that is accepted is exactly as long as it says. */
#include "models/formats/idx.h"

#include <stdlib.h>

#include "base/must.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

static enum err read_all(const char *path, struct data_place *why) {
  struct idx_file *f = NULL;
  enum err e = idx_open(path, &f, why);
  if (e != ERR_OK)
    return e;
  uint8_t *item = malloc(idx_item_bytes(f));
  MUST(item != NULL);
  uint64_t head = idx_offset(f);
  for (uint32_t i = 0; e == ERR_OK && i < idx_shape(f)->size[0]; i++)
    e = idx_next(f, item, why);
  if (e == ERR_OK)
    e = idx_end(f, why);
  if (e == ERR_OK)
    MUST(idx_offset(f) == head + (uint64_t)idx_shape(f)->size[0] * idx_item_bytes(f));
  free(item);
  idx_close(f);
  return e;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  memory_file_read(data, size, read_all);
  return 0;
}
