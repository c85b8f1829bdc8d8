/* Heads of safetensors files: of one that is accepted every byte of the values is one tensor's, and each has its name. */
#include "models/formats/safetensors.h"

#include <string.h>

#include "base/bytes.h"
#include "base/must.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct safetensors_head h = {0};
  struct cursor c;
  char why[MAX_REASON_BYTES] = "";
  cursor_init(&c, data, size);
  uint64_t n_head = cursor_u64(&c), n_data = 0;
  if (c.failed || n_head > c.left)
    n_head = c.left; /* the file's own check refuses it; the head is read all the same */
  n_data = c.left - n_head;
  enum err e = safetensors_head_read((const char *)c.at, (size_t)n_head, n_data, &h, why);
  MUST((e == ERR_OK) == (why[0] == '\0'));
  uint64_t at = 0;
  for (size_t i = 0; e == ERR_OK && i < h.n; i++) {
    const struct stored_tensor *t = &h.tensors[i];
    MUST(t->offset == at && t->array.n_bytes == t->array.n_values * array_type_bytes(t->array.type));
    at += t->array.n_bytes;
    MUST(at <= n_data && strnlen(t->name, TENSOR_NAME_BYTES) < TENSOR_NAME_BYTES);
  }
  MUST(e != ERR_OK || at == n_data);
  safetensors_head_done(&h);
  return 0;
}
