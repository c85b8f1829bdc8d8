/* NumPy arrays: a file that is accepted has exactly the values of its shape. */
#include "models/formats/npy.h"

#include <stdlib.h>

#include "base/must.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

static enum err read_all(const char *path, struct data_place *why) {
  struct npy_file *f = NULL;
  enum err e = npy_open(path, NULL, &f, why);
  if (e != ERR_OK)
    return e;
  const struct array *a = npy_array(f);
  size_t n = (size_t)a->n_values, n_bytes = array_type_bytes(a->type);
  uint8_t *bytes = malloc(n * n_bytes + 1); /* the file has them */
  float *values = malloc(n * sizeof *values + 1);
  MUST(bytes != NULL && values != NULL && a->n_bytes == n * n_bytes);
  e = npy_read(f, bytes, n * n_bytes, why);
  if (e == ERR_OK)
    e = npy_end(f, why);
  MUST(e == ERR_OK);
  array_floats(a, bytes, n, values);
  free(values);
  free(bytes);
  npy_close(f);
  return e;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  memory_file_read(data, size, read_all);
  return 0;
}
