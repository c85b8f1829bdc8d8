#include "models/net/arch.h"

#include <stdio.h>

#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

START_TEST(canonical_text) {
  const struct {
    const char *text, *canonical;
  } cases[] = {
      {"softmax", "dense 10"},
      {"dense classes", "dense 10"},
      {"  dense\t64 , relu,dense   classes  ", "dense 64, relu, dense 10"},
      {"dense 64 as hidden1, tanh, dropout .50, softmax as out",
       "dense 64 as hidden1, tanh, dropout 0.5, dense 10 as out"},
      {"dropout 0.0001, dropout 0, dropout .9999, dense 10, sigmoid",
       "dropout 0.0001, dropout 0, dropout 0.9999, dense 10, sigmoid"},
      {"residual{dense 20,relu}\t,residual { residual { dense 20 as a } } , softmax",
       "residual { dense 20, relu }, residual { residual { dense 20 as a } }, dense 10"},
  };
  struct contract c = toy_classes(20, 10);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arch *a = NULL, *again = NULL;
    char why[MAX_REASON_BYTES];
    ck_assert_int_eq(arch_parse(cases[i].text, &c, &a, why), ERR_OK);
    ck_assert_str_eq(a->text, cases[i].canonical);
    ck_assert_int_eq(arch_parse(a->text, &c, &again, why), ERR_OK);
    ck_assert_str_eq(again->text, a->text);
    arch_free(a);
    arch_free(again);
  }
}
END_TEST

START_TEST(layers_are_linked) {
  struct contract c = toy_classes(20, 3);
  struct arch *a;
  char why[MAX_REASON_BYTES];
  ck_assert_int_eq(arch_parse("dense 8, relu, dropout 0.25, dense 5 as b2, tanh, dense classes", &c, &a, why), ERR_OK);
  ck_assert_uint_eq(a->n_layers, 6);
  ck_assert_uint_eq(a->n_inputs, 20);
  ck_assert_uint_eq(a->n_outputs, 3);
  ck_assert(a->layers[0].before_relu);
  ck_assert(!a->layers[3].before_relu);
  ck_assert_double_eq(a->layers[2].rate, 0.25);
  ck_assert_str_eq(a->layers[5].name, "dense3");
  ck_assert_uint_eq(a->layers[3].offset, 20 * 8 + 8);
  ck_assert_double_eq(arch_flops(a), 2 * (20 * 8 + 8 * 5 + 5 * 3) + 8 + 8 + 5);
  arch_free(a);
}
END_TEST

static struct contract images_of(uint32_t height, uint32_t width, uint32_t channels) {
  return (struct contract){.task = TASK_CLASSIFY,
                           .loss = LOSS_CROSS_ENTROPY,
                           .n_classes = 10,
                           .height = height,
                           .width = width,
                           .channels = channels};
}

START_TEST(windows_have_extents) {
  struct contract c = images_of(28, 27, 3);
  struct arch *a;
  char why[MAX_REASON_BYTES];
  const char *const text = "conv 5x3x8 pad 2 stride 2, relu, pool 3 stride 2, depthwise 3x3 pad 1, relu, pool 2, "
                           "avgpool 1, conv 1x1x10 as last, globalpool";
  const struct extent expected[] = {{14, 15, 8}, {14, 15, 8}, {6, 7, 8},  {6, 7, 8}, {6, 7, 8},
                                    {3, 3, 8},   {3, 3, 8},   {3, 3, 10}, {1, 1, 10}};
  ck_assert_int_eq(arch_parse(text, &c, &a, why), ERR_OK);
  ck_assert_str_eq(a->text, "conv 5x3x8 stride 2 pad 2, relu, pool 3 stride 2, depthwise 3x3 pad 1, relu, pool 2, "
                            "avgpool 1, conv 1x1x10 as last, globalpool");
  for (size_t i = 0; i < a->n_layers; i++) {
    const struct extent out = a->layers[i].out;
    ck_assert_msg(out.height == expected[i].height && out.width == expected[i].width &&
                      out.channels == expected[i].channels,
                  "layer %zu: %ux%ux%u", i, out.height, out.width, out.channels);
    ck_assert_uint_eq(a->layers[i].n_out, (size_t)out.height * out.width * out.channels);
  }
  ck_assert_uint_eq(a->n_parameters, 8 * 5 * 3 * 3 + 8 + 8 * 9 + 8 + 10 * 8 + 10);
  ck_assert_double_eq(layer_flops(&a->layers[0]), 2.0 * 5 * 3 * 3 * 14 * 15 * 8);
  ck_assert(a->layers[0].before_relu);
  ck_assert(a->layers[3].before_relu);
  ck_assert(!a->layers[7].before_relu);
  arch_free(a);
}
END_TEST

START_TEST(series_are_images_of_one_row) {
  struct contract c = images_of(1, 128, 9);
  struct arch *a;
  char why[MAX_REASON_BYTES];
  ck_assert_int_eq(arch_parse("conv1d 5x64 pad 2, pool 2, relu, conv 1x3x10 stride 3, dense classes", &c, &a, why),
                   ERR_OK);
  ck_assert_str_eq(a->text, "conv1d 5x64 pad 2, pool 2, relu, conv 1x3x10 stride 3, dense 10");
  ck_assert_uint_eq(a->layers[0].out.width, 128);
  ck_assert_uint_eq(a->layers[0].out.channels, 64);
  ck_assert_uint_eq(a->layers[1].out.width, 64);
  ck_assert_uint_eq(a->layers[3].out.width, 21);
  ck_assert(a->layers[0].before_relu); /* through the pool */
  ck_assert_str_eq(a->layers[0].name, "conv1");
  ck_assert_str_eq(a->layers[3].name, "conv2");
  arch_free(a);
}
END_TEST

struct refusal {
  const char *text;
  enum err expected;
  const char *why; /* how the sentence begins */
};

static void check_refusals(const struct refusal *cases, size_t n, const struct contract *c) {
  for (size_t i = 0; i < n; i++) {
    struct arch *a = NULL;
    char why[MAX_REASON_BYTES] = "";
    enum err e = arch_parse(cases[i].text, c, &a, why);
    ck_assert_msg(e == cases[i].expected && !strncmp(why, cases[i].why, strlen(cases[i].why)), "'%s': %s: %s",
                  cases[i].text, err_name(e), why);
    ck_assert_ptr_null(a);
  }
}

START_TEST(errors_of_windows) {
  const struct refusal cases[] = {
      {"conv", ERR_SYNTAX, "column 5: conv takes height, width and channels of its kernel, as in 3x3x16"},
      {"conv 5x5", ERR_RANGE, "column 6: conv takes height, width and channels of its kernel, as in 3x3x16, not '5x5'"},
      {"conv 5x5x8x2", ERR_RANGE, "column 6: conv takes"},
      {"conv 5x5x", ERR_RANGE, "column 6: conv takes"},
      {"conv x5x5", ERR_RANGE, "column 6: conv takes"},
      {"conv 0x5x5", ERR_RANGE, "column 6: conv takes"},
      {"conv 5x5x0", ERR_RANGE, "column 6: conv takes"},
      {"conv 1025x5x5", ERR_RANGE, "column 6: conv takes"},
      {"conv 5x99999999999999999999x5", ERR_RANGE, "column 6: conv takes"},
      {"conv 5X5x8", ERR_RANGE, "column 6: conv takes"},
      {"conv 5x5x8 stride", ERR_SYNTAX, "column 18: stride takes a number of 1 to 1024"},
      {"conv 5x5x8 stride 0", ERR_RANGE, "column 19: stride takes a number of 1 to 1024, not '0'"},
      {"conv 5x5x8 stride pad 2", ERR_RANGE, "column 19: stride takes a number of 1 to 1024, not 'pad'"},
      {"conv 5x5x8 pad -1", ERR_RANGE, "column 16: pad takes a number of 0 to 1023, not '-1'"},
      {"conv 5x5x8 pad 1 pad 1", ERR_EXISTS, "column 18: 'pad' stands twice"},
      {"conv 5x5x8 padding 1", ERR_SYNTAX, "column 12: 'padding' is not expected here"},
      {"conv 5x5x8 as a pad 1", ERR_SYNTAX, "column 17: 'pad' is not expected here"},
      {"conv 5x5x8 stride 1 pad 1 as a b", ERR_SYNTAX, "column 32: 'b' is not expected here"},
      {"stride 2", ERR_SYNTAX, "column 1: unknown layer 'stride'"},
      {"conv 29x5x8", ERR_RANGE,
       "column 1: a window of 29x5 is larger than what comes in, 28x28x1, even with its padding; make it smaller"},
      {"pool 2, pool 2, pool 2, pool 2, pool 2", ERR_RANGE,
       "column 33: a window of 1x2 is larger than what comes in, 1x1x1"},
      {"conv 5x5x8 pad 5", ERR_RANGE, "column 1: with pad 5 a window of 5x5 sees only padding; make the pad smaller"},
      {"conv 1x1x8 pad 1", ERR_RANGE, "column 1: with pad 1 a window of 1x1 sees only padding"},
      {"conv 1x1x134217728", ERR_LIMIT,
       "column 1: 28x28x134217728 outputs a sample are more than 134217728; make it smaller"},
      {"conv 1000x1000x134 pad 999", ERR_LIMIT, "column 1: 1027x1027x134 outputs a sample are more than"},
      {"conv 1x1x100000, conv 28x28x2", ERR_LIMIT,
       "column 18: with 78400000 inputs and 2 outputs here the model has more"},
      {"conv1d 3x8", ERR_RANGE, "column 1: conv1d is for series, and what comes in is 28x28x1; use conv for images"},
      {"conv1d 3x8x8", ERR_RANGE, "column 8: conv1d takes steps and channels of its kernel, as in 5x64, not '3x8x8'"},
      {"depthwise 3", ERR_RANGE, "column 11: depthwise takes height and width of its kernel, as in 3x3, not '3'"},
      {"depthwise 3x3 stride 2 pad 3", ERR_RANGE, "column 1: with pad 3 a window of 3x3 sees only padding"},
      {"pool 2 pad 1", ERR_SYNTAX, "column 8: 'pad' is not expected here"},
      {"pool 0", ERR_RANGE, "column 6: pool takes the side of its window, as in 2, not '0'"},
      {"pool 2 as p", ERR_SYNTAX, "column 8: 'as' is not expected here"},
      {"globalpool 2", ERR_SYNTAX, "column 12: '2' is not expected here"},
      {"residual { conv 3x3x1 }, dense classes", ERR_RANGE, "column 23: the block makes 26x26x1 of 28x28x1"},
      {"conv 3x3x8", ERR_RANGE, "the last layer has 5408 outputs, the contract needs 10: end with 'dense classes'"},
  };
  struct contract c = images_of(28, 28, 1);
  check_refusals(cases, sizeof cases / sizeof *cases, &c);
}
END_TEST

/* The two ends of a block know each other. */
START_TEST(ends_of_blocks_are_partners) {
  struct contract c = toy_classes(20, 3);
  struct arch *a;
  char why[MAX_REASON_BYTES];
  ck_assert_int_eq(arch_parse("relu, residual { residual { dense 20 }, relu, dense 20 }, relu, dense 3", &c, &a, why),
                   ERR_OK);
  ck_assert_uint_eq(a->n_layers, 10);
  ck_assert_uint_eq(a->layers[1].partner, 7);
  ck_assert_uint_eq(a->layers[7].partner, 1);
  ck_assert_uint_eq(a->layers[2].partner, 4);
  ck_assert_uint_eq(a->layers[4].partner, 2);
  ck_assert_ptr_eq(a->layers[7].type, a->layers[1].type->closes);
  ck_assert_uint_eq(a->n_parameters, 2 * (20 * 20 + 20) + 20 * 3 + 3);
  arch_free(a);
}
END_TEST

START_TEST(regression) {
  struct contract c = toy_regression(4);
  char why[MAX_REASON_BYTES];
  const char *const good[] = {"dense targets", "dense 1", "dense 7, sigmoid, dense targets"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    struct arch *a;
    ck_assert_int_eq(arch_parse(good[i], &c, &a, why), ERR_OK);
    ck_assert_int_eq(a->loss, LOSS_MEAN_SQUARED_ERROR);
    arch_free(a);
  }
  struct arch *a = NULL;
  ck_assert_int_eq(arch_parse("softmax", &c, &a, why), ERR_RANGE);
  ck_assert_str_eq(why, "column 1: 'softmax' stands for 'dense classes', which this task does not have");
  ck_assert_int_eq(arch_parse("dense classes", &c, &a, why), ERR_RANGE);
}
END_TEST

START_TEST(errors_say_where_and_what) {
  const struct refusal cases[] = {
      {"", ERR_SYNTAX, "column 1: a layer is missing"},
      {"dense 3,", ERR_SYNTAX, "column 9: a layer is missing"},
      {"dense 3,,relu", ERR_SYNTAX, "column 9: a layer is missing"},
      {"dnese 3", ERR_SYNTAX, "column 1: unknown layer 'dnese', did you mean 'dense'?"},
      {"dense 8, Relu, dense 3", ERR_SYNTAX, "column 10: unknown layer 'Relu', did you mean 'relu'?"},
      {"softmaxx", ERR_SYNTAX, "column 1: unknown layer 'softmaxx', did you mean 'softmax'?"},
      {"\x1b[2J", ERR_SYNTAX, "column 1: unknown layer '?[2J'; `starling help layers`"},
      {"dense 8, lstm 4, dense 3", ERR_SYNTAX, "column 10: unknown layer 'lstm'; `starling help layers` has all"},
      {"BatchNorm2d", ERR_SYNTAX, "column 1: unknown layer 'BatchNorm2d', did you mean 'batchnorm'?"},
      {"dense", ERR_SYNTAX, "column 6: dense takes a number of outputs, "},
      {"dense , relu", ERR_SYNTAX, "column 7: dense takes a number of outputs, "},
      {"dense 0", ERR_RANGE, "column 7: dense takes a number of outputs, "},
      {"dense -3", ERR_RANGE, "column 7: "},
      {"dense 3.0", ERR_RANGE, "column 7: "},
      {"dense 99999999999999999999", ERR_RANGE, "column 7: "},
      {"dense targets", ERR_RANGE, "column 7: "},
      {"dense 3 relu", ERR_SYNTAX, "column 9: 'relu' is not expected here, a comma separates layers"},
      {"relu 3, dense 3", ERR_SYNTAX, "column 6: '3' is not expected here"},
      {"relu as r, dense 3", ERR_SYNTAX, "column 6: 'as' is not expected here"},
      {"dense 3 as", ERR_SYNTAX, "column 11: 'as' takes a name"},
      {"dense 3 as 1a", ERR_SYNTAX, "column 12: 'as' takes a name"},
      {"dense 3 as A", ERR_SYNTAX, "column 12: 'as' takes a name"},
      {"dense 3 as a.b", ERR_SYNTAX, "column 12: 'as' takes a name"},
      {"dense 3 as a b c d e f", ERR_SYNTAX, "column 14: 'b' is not expected here"},
      {"dense 3 as aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", ERR_SYNTAX, "column 12: 'as' takes a name"},
      {"dense 4 as a, dense 3 as a", ERR_EXISTS, "column 26: a second layer is called 'a'"},
      {"dense 4 as dense2, dense 3", ERR_EXISTS, "column 20: a second layer is called 'dense2'"},
      {"dropout 1, dense 3", ERR_RANGE, "column 9: dropout takes a probability"},
      {"dropout 0.12345, dense 3", ERR_RANGE, "column 9: dropout takes a probability"},
      {"dropout ., dense 3", ERR_RANGE, "column 9: "},
      {"dropout nan, dense 3", ERR_RANGE, "column 9: "},
      {"dropout -0.1, dense 3", ERR_RANGE, "column 9: "},
      {"groupnorm, dense 3", ERR_SYNTAX, "column 10: groupnorm takes a number of groups that divides the channels"},
      {"groupnorm 3, dense 3", ERR_RANGE, "column 1: 20 channels are not 3 groups of equal size"},
      {"gru 4 states, dense 3", ERR_SYNTAX, "column 13: "},
      {"gru 4 states some, dense 3", ERR_RANGE, "column 14: "},
      {"gru, dense 3", ERR_SYNTAX, "column 4: gru takes a number of states"},
      {"residual", ERR_SYNTAX, "column 9: residual takes a block of layers, as in 'residual { dense 8, relu }'"},
      {"residual, dense 3", ERR_SYNTAX, "column 9: residual takes a block of layers"},
      {"residual {", ERR_SYNTAX, "column 11: a layer is missing"},
      {"residual { }, dense 3", ERR_SYNTAX, "column 12: a layer is missing"},
      {"residual { relu, dense 3", ERR_SYNTAX, "column 25: a '}' is missing for the '{' in column 10"},
      {"residual { residual { relu }, dense 3", ERR_SYNTAX, "column 38: a '}' is missing for the '{' in column 10"},
      {"residual { relu } dense 3", ERR_SYNTAX, "column 19: 'dense' is not expected here, a comma separates layers"},
      {"residual { relu } as r, dense 3", ERR_SYNTAX, "column 19: 'as' is not expected here"},
      {"residual { relu } { dense 3 }", ERR_SYNTAX, "column 19: '{' is not expected here, a comma separates layers"},
      {"residual { relu },", ERR_SYNTAX, "column 19: a layer is missing"},
      {"residual 3 { relu }, dense 3", ERR_SYNTAX, "column 10: '3' is not expected here"},
      {"dense 3 }", ERR_SYNTAX, "column 9: '}' closes nothing; remove it"},
      {"dense 3 { relu }", ERR_SYNTAX, "column 9: dense takes no block of layers"},
      {"{ dense 3 }", ERR_SYNTAX, "column 1: a layer is missing"},
      {"}", ERR_SYNTAX, "column 1: a layer is missing"},
      {"residual { dense 4 }, dense 3", ERR_RANGE,
       "column 20: the block makes 1x1x4 of 1x1x20, and what is added to its input must be as large; change its last"},
      {"residual{residual{residual{residual{residual{residual{residual{residual{residual{residual{residual{residual{"
       "residual{residual{residual{residual{residual{relu",
       ERR_LIMIT, "column 153: more than 16 blocks within each other"},
      {"relu", ERR_RANGE, "no layer can learn"},
      {"dense 64, relu", ERR_RANGE, "the last layer has 64 outputs, the contract needs 3: end with 'dense classes'"},
      {"dense 134217728, dense 3", ERR_LIMIT,
       "column 1: with 20 inputs and 134217728 outputs here the model has more than 134217728 parameters"},
      {"dense 10000, dense 10000, dense 10000, dense 3", ERR_LIMIT, "column 27: with 10000 inputs and 10000 outputs"},
  };
  struct contract c = toy_classes(20, 3), number = toy_regression(20);
  check_refusals(cases, sizeof cases / sizeof *cases, &c);
  static const struct refusal two = {
      "dense 2", ERR_RANGE,
      "the last layer has 2 outputs, the contract needs 1: end with 'dense targets', and make a job of each number"};
  check_refusals(&two, 1, &number);
}
END_TEST

/* Series, tokens and images, each where it can be. */
START_TEST(inputs_decide) {
  const struct {
    uint32_t height, width, channels;
    double most; /* of the contract's range */
    const char *text;
    enum err expected;
    const char *canonical; /* or how the sentence begins */
  } cases[] = {
      {1, 9, 2, 1, "gru 4  states last, dense classes", ERR_OK, "gru 4, dense 3"},
      {1, 9, 2, 1, "gru 4 states all, gru 5, dense classes", ERR_OK, "gru 4 states all, gru 5, dense 3"},
      {2, 9, 2, 1, "gru 4, dense classes", ERR_RANGE, "column 1: gru reads a series"},
      {1, 9, 1, 4, "embed 5 2, gru 3, dense classes", ERR_OK, "embed 5 2, gru 3, dense 3"},
      {1, 9, 1, 4.5, "embed 5 2, dense classes", ERR_RANGE, "column 7: embed takes a number of tokens V"},
      {1, 9, 2, 4, "embed 5 2, dense classes", ERR_RANGE, "column 1: embed reads a row of tokens"},
      {4, 4, 6, 1, "groupnorm 3, layernorm, batchnorm, dense classes", ERR_OK,
       "groupnorm 3, layernorm, batchnorm, dense 3"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct contract c = toy_image(cases[i].height, cases[i].width, cases[i].channels, 3, cases[i].most);
    struct arch *a = NULL;
    char why[MAX_REASON_BYTES] = "";
    enum err e = arch_parse(cases[i].text, &c, &a, why);
    const char *said = e ? why : a->text;
    ck_assert_msg(e == cases[i].expected && !strncmp(said, cases[i].canonical, strlen(cases[i].canonical)),
                  "'%s': %s: %s", cases[i].text, err_name(e), said);
    arch_free(a);
  }
}
END_TEST

/* What is scaled is no token, and each column's range counts. */
START_TEST(tokens_are_columns_in_range) {
  struct contract *c = contract_new();
  struct arch *a = NULL;
  char why[MAX_REASON_BYTES];
  ck_assert_ptr_nonnull(c);
  for (int i = 0; i < 3; i++) {
    char name[8];
    snprintf(name, sizeof name, "t%d", i);
    ck_assert_int_eq(contract_add_class(c, name), ERR_OK);
    ck_assert_int_eq(contract_add_feature(c, name, NULL), ERR_OK);
    c->features[i].range_lo = 0;
    c->features[i].range_hi = 6 + i;
  }
  ck_assert_int_eq(arch_parse("embed 8 2, dense classes", c, &a, why), ERR_RANGE);
  ck_assert_int_eq(arch_parse("embed 9 2, dense classes", c, &a, why), ERR_OK);
  ck_assert_uint_eq(a->layers[0].out.width, 3);
  arch_free(a);
  c->scale.rule = SCALE_POOLED;
  ck_assert_int_eq(arch_parse("embed 9 2, dense classes", c, &a, why), ERR_RANGE);
  contract_free(c);
}
END_TEST

static enum err parse_repeated(const char *part, size_t n, char why[MAX_REASON_BYTES]) {
  static char text[2 * MAX_ARCH_BYTES];
  struct contract c = toy_classes(20, 3);
  struct arch *a = NULL;
  size_t used = 0;
  for (size_t i = 0; i < n; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s", part);
  snprintf(text + used, sizeof text - used, "dense 3");
  enum err e = arch_parse(text, &c, &a, why);
  arch_free(a);
  return e;
}

START_TEST(lengths_are_bounded) {
  char why[MAX_REASON_BYTES];
  ck_assert_int_eq(parse_repeated("relu,", MAX_LAYERS - 1, why), ERR_OK);
  ck_assert_int_eq(parse_repeated("relu,", MAX_LAYERS, why), ERR_LIMIT);
  ck_assert_str_eq(why, "more than 256 layers");
  ck_assert_int_eq(parse_repeated(" ", MAX_ARCH_BYTES, why), ERR_LIMIT);
  ck_assert_int_eq(parse_repeated(",", MAX_ARCH_BYTES - 8, why), ERR_SYNTAX);
  ck_assert_int_eq(parse_repeated("dense 3 as ", 1, why), ERR_SYNTAX);
}
END_TEST

/* Any bytes give a model or a sentence. */
START_TEST(noise_is_survived) {
  static const char alphabet[] = "dense relu,tanh as classes 0123.x\tresidual{}{}";
  static const char *const parts[] = {"conv 3x3x2", " pad 1",       " stride 2",  ",",     "{",    "}",
                                      "pool 2",     "dense 10",     "residual {", " as a", "relu", "conv1d 3x2",
                                      "globalpool", "depthwise 1x2"};
  struct contract c = toy_classes(20, 3), images = images_of(6, 5, 2);
  struct rng rng;
  rng_init(&rng, 7);
  for (int round = 0; round < 20000; round++) {
    char text[64], why[MAX_REASON_BYTES] = "";
    size_t n = rng_below(&rng, sizeof text);
    for (size_t i = 0; i < n; i++) {
      text[i] = (char)rng_below(&rng, 256);
      if (rng_below(&rng, 20))
        text[i] = alphabet[rng_below(&rng, sizeof alphabet - 1)];
    }
    text[n] = 0;
    struct arch *a = NULL;
    if (arch_parse(text, &c, &a, why))
      ck_assert_uint_gt(strlen(why), 0);
    arch_free(a);
    char words[256] = "";
    for (size_t used = 0, left = rng_below(&rng, 14); left > 0; left--)
      used += (size_t)snprintf(words + used, sizeof words - used, "%s",
                               parts[rng_below(&rng, sizeof parts / sizeof *parts)]);
    a = NULL;
    if (arch_parse(words, &images, &a, why))
      ck_assert_uint_gt(strlen(why), 0);
    arch_free(a);
  }
}
END_TEST

int main(void) {
  return SUITE_RUN("arch", canonical_text, layers_are_linked, windows_have_extents, series_are_images_of_one_row,
                   errors_of_windows, ends_of_blocks_are_partners, regression, errors_say_where_and_what, inputs_decide,
                   tokens_are_columns_in_range, lengths_are_bounded, noise_is_survived);
}
