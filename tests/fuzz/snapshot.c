/* Snapshots of the store. First byte: 0 a half, 1 a model, 2 a model with the numbers of its scaling, 3 a half of Adam's, 4 one
 * whose x stands beside x̂; then a
 * mask over a real one, and what is left of the input is appended. What is taken is written again as it was; what is refused leaves
 * the learner as it was. */
#include "agent/run/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "models/learner.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"
#include "tests/fuzz/small_learner.h"

enum { HALF, MODEL, SCALED, ADAMS_HALF, NEARBY_HALF, N_KINDS, MAX_BYTES = 128 * 1024, TAIL_BYTES = 16, KIND_BYTES = 4 };

static struct contract *contract;
static struct learner *learner, *by_adam;
static uint8_t bytes[MAX_BYTES], before[MAX_BYTES], after[MAX_BYTES];

static void learner_make(void) {
  contract = small_contract();
  contract->scale.rule = SCALE_LOCAL;
  learner = small_learner(contract);
  by_adam = small_learner_by(contract,
                             (struct optimiser_config){OPTIMISER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8});
  MUST(learner_half_bytes(learner) < MAX_BYTES / 2 && learner_model_bytes(learner) < MAX_BYTES / 2);
}

/* Under the mask, and with what is left of it behind. */
static size_t forge(struct cursor *input, size_t n) {
  memcpy(bytes, before, n);
  mask_bytes(input, bytes, n);
  size_t more = input->left < MAX_BYTES - n ? input->left : MAX_BYTES - n;
  if (more > 0)
    memcpy(bytes + n, input->at, more);
  return n + more;
}

/* A half of Adam's is one of AdamW's, too, and is written again as its own. */
static void feed_half(struct learner *l, struct cursor *input, bool has_tail) {
  size_t n_real = learner_half_bytes(l), kind_at = n_real - TAIL_BYTES - learner_copy_bytes(l);
  learner_half_write(l, before);
  size_t n = forge(input, n_real);
  MUST(learner_half_measure(l, bytes, n) <= learner_half_most(l));
  enum err e = learner_half_read(l, bytes, n);
  learner_half_write(l, after);
  if (e == ERR_OK && n != n_real) /* another optimiser's: its state is not the learner's */
    memcpy(bytes, after, n_real);
  if (e == ERR_OK && has_tail)
    memcpy(bytes + kind_at, after + kind_at, KIND_BYTES);
  MUST(memcmp(after, e == ERR_OK ? bytes : before, n_real) == 0);
  MUST(learner_half_read(l, before, n_real) == ERR_OK);
}

/* Refused, the update is as pending as before; taken, it can be written whole. */
static void feed_nearby(struct cursor *input) {
  static uint8_t payload[MAX_BYTES];
  size_t n;
  MUST(learner_payload_bound(learner) <= MAX_BYTES && learner_encode(learner, false, payload, &n) == ERR_OK);
  size_t n_real = learner_half_bytes(learner);
  learner_half_write(learner, before);
  n = forge(input, n_real);
  MUST(learner_half_measure(learner, bytes, n) <= learner_half_most(learner));
  enum err e = learner_half_read(learner, bytes, n);
  learner_half_write(learner, after);
  MUST(e == ERR_OK ? learner_half_read(learner, after, learner_half_bytes(learner)) == ERR_OK
                   : memcmp(after, before, n_real) == 0);
  MUST(learner_half_read(learner, before, n_real) == ERR_OK);
}

static void feed_model(const uint8_t *from, size_t n) {
  size_t n_real = learner_model_bytes(learner), n_x = learner_copy_bytes(learner); /* nothing is personal */
  enum err e = learner_model_read(learner, from, n);
  learner_model_write(learner, after);
  MUST(e == ERR_OK ? memcmp(after + 64, from + 64, n_x) == 0 : memcmp(after, before, n_real) == 0);
  MUST(learner_model_read(learner, before, n_real) == ERR_OK);
}

static void feed_scaled(size_t n) {
  struct buffer whole = {bytes, n}, part;
  struct scale scale = {0}, again = {0};
  struct buffer text = {0};
  enum err e = snapshot_split(contract, &whole, learner_model_bytes(learner), &part, &scale);
  if (e != ERR_OK)
    return;
  feed_model(part.bytes, part.n_bytes);
  MUST(snapshot_scale_text(&scale, &text) == ERR_OK);
  if (text.n_bytes > 0) {
    MUST(scale_read((const char *)text.bytes, text.n_bytes, &again) == ERR_OK && again.n == scale.n);
    MUST(memcmp(again.mean, scale.mean, scale.n * sizeof *scale.mean) == 0);
    MUST(memcmp(again.sd, scale.sd, scale.n * sizeof *scale.sd) == 0);
  }
  free(text.bytes);
  scale_done(&again);
  scale_done(&scale);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (learner == NULL)
    learner_make();
  struct cursor input;
  cursor_init(&input, data, size);
  switch (cursor_u8(&input) % N_KINDS) {
  case HALF:
    feed_half(learner, &input, false);
    break;
  case ADAMS_HALF:
    feed_half(by_adam, &input, true);
    break;
  case NEARBY_HALF:
    feed_nearby(&input);
    break;
  case MODEL:
    learner_model_write(learner, before);
    feed_model(bytes, forge(&input, learner_model_bytes(learner)));
    break;
  default:
    learner_model_write(learner, before);
    feed_scaled(forge(&input, learner_model_bytes(learner)));
  }
  return 0;
}
