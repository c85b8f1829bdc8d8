/* Payloads of peers. First byte: the codec, second: what is already in the copy; then the payload. What is taken is finite
 * and adds to the copy, what is refused leaves the copy as it was, and a merge gives a finite model or none. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/must.h"
#include "models/learner.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/small_learner.h"

enum { COPY_BYTES = 4 * SMALL_VALUES, X_BYTES = 64 + COPY_BYTES /* of a model, behind which its ring stands */ };

static void merge(struct learner *l, const uint8_t model[]) {
  struct contribution c = {.weight = 0.5};
  enum err e = learner_merge(l, &c, 1);
  MUST(e == ERR_OK || e == ERR_MERGE_REFUSED);
  uint8_t *after = malloc(learner_model_bytes(l));
  MUST(after != NULL);
  learner_model_write(l, after);
  MUST(e == ERR_OK || memcmp(after + 64, model + 64, COPY_BYTES) == 0);
  MUST(learner_model_read(l, after, learner_model_bytes(l)) == ERR_OK); /* it has none but finite values */
  free(after);
  MUST(learner_model_read(l, model, X_BYTES) == ERR_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const float starts[] = {0, 1, -3.0e38f, 3.4e38f};
  static struct learner *l;
  static uint8_t *model;
  if (l == NULL) {
    l = small_learner(small_contract());
    model = malloc(learner_model_bytes(l));
    MUST(model != NULL);
    learner_model_write(l, model);
  }
  struct cursor input;
  cursor_init(&input, data, size);
  enum codec_kind codec = cursor_u8(&input) % (N_CODECS + 1);
  float start = starts[cursor_u8(&input) % (sizeof starts / sizeof *starts)], values[SMALL_VALUES];
  for (size_t i = 0; i < SMALL_VALUES; i++)
    values[i] = start;
  uint8_t before[COPY_BYTES], after[COPY_BYTES];
  codec_write_values(values, SMALL_VALUES, before);
  MUST(learner_copy_set(l, 0, before, sizeof before) == ERR_OK);
  enum err e = codec == N_CODECS ? learner_copy_set(l, 0, input.at, input.left)
                                 : learner_copy_add(l, 0, codec, input.at, input.left);
  learner_copy_write(l, 0, after);
  MUST(codec_check_values(after, SMALL_VALUES) == ERR_OK);
  MUST(e == ERR_OK || memcmp(before, after, sizeof after) == 0);
  merge(l, model);
  return 0;
}
