/* What a learner is forecast to take, against what it takes from the heap: over random architectures, optimisers, encodings, copies,
 * lanes and kernels never less, and little more. */
#include <malloc.h>

#include "models/kernels/selection.h"
#include "models/learner.h"
#include "models/net/arch.h"
#include "models/net/layer.h"
#include "tests/unit/models/data_kit.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum { TRIALS = 300, MAX_TEXT = 512, SMALL = 8 << 10 };

/* A word of the grammar; %u is a number of outputs. Odd ones are what padding is for. */
static const char *const of_rows[] = {"dense %u, relu, ", "dense 1, ",   "dense %u, tanh, ",
                                      "dropout 0.1, ",    "layernorm, ", "residual { relu }, "};
static const char *const of_images[] = {"conv 3x3x%u pad 1, relu, ", "conv 1x1x%u, relu, ", "conv 5x5x%u, pool 2, ",
                                        "depthwise 3x3 pad 1, ",     "batchnorm, ",         "avgpool 2, "};
static const char *const of_series[] = {"conv1d 3x%u pad 1, relu, ", "gru %u states all, ", "layernorm, "};

static void add_words(char *text, const char *const *words, size_t n_words, struct rng *rng) {
  size_t n = 1 + rng_below(rng, 4);
  for (size_t i = 0; i < n; i++) {
    const char *word = words[rng_below(rng, n_words)];
    unsigned outputs = 1 + (unsigned)rng_below(rng, 40);
    size_t at = strlen(text);
    if (strstr(word, "%u") == NULL)
      snprintf(text + at, MAX_TEXT - at, "%s", word);
    else /* NOLINTNEXTLINE(clang-diagnostic-format-nonliteral) */
      snprintf(text + at, MAX_TEXT - at, "%.*s%u%s", (int)(strstr(word, "%u") - word), word, outputs,
               strstr(word, "%u") + 2);
  }
}

/* An architecture that fits; others are drawn again. */
static struct schema *draw_schema(struct contract *c, struct rng *rng) {
  for (;;) {
    char text[MAX_TEXT] = "", why[MAX_REASON_BYTES];
    struct schema *s = NULL;
    size_t kind = rng_below(rng, 3), side = 8 + rng_below(rng, 9);
    *c = kind == 0   ? toy_classes(1 + rng_below(rng, 300), 2 + rng_below(rng, 9))
         : kind == 1 ? toy_image((uint32_t)side, (uint32_t)side, 1 + (uint32_t)rng_below(rng, 3), 3, 1)
                     : toy_image(1, 4 * (uint32_t)side, 1 + (uint32_t)rng_below(rng, 9), 3, 1);
    if (kind == 1)
      add_words(text, of_images, sizeof of_images / sizeof *of_images, rng);
    if (kind == 2)
      add_words(text, of_series, sizeof of_series / sizeof *of_series, rng);
    add_words(text, of_rows, sizeof of_rows / sizeof *of_rows, rng);
    snprintf(text + strlen(text), sizeof text - strlen(text), "dense classes");
    if (schema_from_arch(text, c, &s, why) == ERR_OK)
      return s;
  }
}

/* Some kernels as they come, fitting or not, and a split. */
static void draw_selection(const struct arch *a, uint32_t batch, struct selection *out, struct rng *rng) {
  *out = (struct selection){.lanes = 1 + (uint32_t)rng_below(rng, 4), .block = (uint32_t)rng_below(rng, 5)};
  for (size_t i = 0; i < a->n_layers && out->n < MAX_SELECTION; i++) {
    const struct layer_type *type = a->layers[i].type;
    char key[MAX_SELECTION_KEY_BYTES];
    layer_key(&a->layers[i], batch, key);
    if (type->n_kernels > 0)
      ck_assert_int_eq(selection_put(out, key, type->kernels[rng_below(rng, type->n_kernels)].name), ERR_OK);
  }
}

static size_t heap_bytes(void) {
  const struct mallinfo2 m = mallinfo2();
  return m.uordblks + m.hblkhd;
}

static void draw_config(struct learner_config *config, const struct schema *s, struct rng *rng) {
  static const struct codec codecs[] = {
      {.kind = CODEC_F32}, {.kind = CODEC_F16}, {.kind = CODEC_TOPK, .fraction = 0.01}};
  *config = (struct learner_config){.schema = s,
                                    .train = {.epochs = 1,
                                              .batch = 1 + (uint32_t)rng_below(rng, 100),
                                              .learning_rate = 0.1,
                                              .proximal = rng_below(rng, 2) > 0 ? 0.5 : 0,
                                              .optimiser = {.kind = (enum optimiser)rng_below(rng, N_OPTIMISERS),
                                                            .momentum = 0.9,
                                                            .beta2 = 0.999,
                                                            .epsilon = 1e-8}},
                                    .codec = codecs[rng_below(rng, 3)],
                                    .n_copies = rng_below(rng, 5)};
  config->train.personal.method = (enum personal_method)rng_below(rng, N_PERSONAL_METHODS);
}

START_TEST(forecasts_hold) {
  struct rng rng;
  rng_init(&rng, 12);
  const bool measures = kit_memory_is_ours(); /* under sanitisers and valgrind the heap is another */
  for (int trial = 0; trial < TRIALS; trial++) {
    struct contract c;
    struct schema *s = draw_schema(&c, &rng);
    struct learner_config config;
    struct selection selection;
    struct learner *l = NULL;
    size_t forecast = 0;
    draw_config(&config, s, &rng);
    draw_selection(schema_arch(s), config.train.batch, &selection, &rng);
    config.selection = rng_below(&rng, 4) > 0 ? &selection : NULL;
    ck_assert_int_eq(learner_memory(&config, &forecast), ERR_OK);
    size_t before = heap_bytes();
    ck_assert_int_eq(learner_open(&config, &l), ERR_OK);
    size_t taken = heap_bytes() - before;
    ck_assert_msg(!measures || forecast >= taken, "trial %d: %zu bytes of %zu", trial, taken, forecast);
    ck_assert_msg(!measures || forecast <= taken + taken / 4 || forecast <= taken + SMALL, "trial %d: %zu bytes of %zu",
                  trial, taken, forecast);
    learner_free(l);
    schema_free(s);
  }
}
END_TEST

int main(void) {
  return SUITE_RUN("memory", forecasts_hold);
}
