/* A model's architecture in one line: layers from the input on, separated by commas.
 *
 *   word argument… [option value]… [as NAME]        residual { layer, layer, … }
 *
 *   dense N             fully connected, N outputs; `dense classes`, `dense targets` and `dense inputs` take N from the
 *                       contract
 *   conv HxWxC [stride S] [pad P]      a convolution with C kernels of H×W: of images, outputs [height][width][C]
 *   conv1d KxC [stride S] [pad P]      the same along a series of steps: C kernels of K steps
 *   depthwise HxW [stride S] [pad P]   a kernel for each channel
 *   pool K, avgpool K [stride S]       the largest, the mean of K×K values, of a series K; S is K unless it is said
 *   globalpool          the mean of all of an image, channel by channel
 *   embed V D           each input is a token 0 … V − 1 and becomes D values: T inputs are then a series of T steps. The
 *                       contract's range lies in 0 … V − 1, and it scales nothing
 *   gru H [states all]  the last of H states over a series; all of them, as a series, with `states all`
 *   batchnorm           of each channel over the batch and all positions; running values outside training
 *   groupnorm G         of each of G equal groups of channels over all positions of a sample
 *   layernorm           of the channels of each position
 *   relu, leakyrelu, elu, gelu, silu, softplus, hardswish, tanh, sigmoid
 *   dropout P           0 ≤ P < 1, at most four decimals; active in training only
 *   residual { … }      what comes out of the layers in braces, plus what went in: equally large
 *   softmax             short for `dense classes`: alone it is logistic regression
 *
 * A layer that ends with the word `personal`, as in `dense classes personal`, stays at its agent: its tensors have that role
 * (models/schema.h), its statistics, too. Job files say it by names (arch_make_personal).
 *
 * `dense 64, relu, dense classes` is a perceptron with one hidden layer. Words are lower case; blanks between words do
 * not matter; options come in any order. NAME (a-z, 0-9, _; a letter first) names the layer's tensors, NAME.weight and
 * NAME.bias; without it the k-th dense layer is `densek`. The softmax itself is part of the loss, so the last layer has as
 * many outputs as the contract has classes or targets.
 *
 * A block in braces is two layers in the list, its ends, that know each other as partners; its own layers stand between.
 *
 * Immutable after parsing; any thread may read it. */
#ifndef MODELS_NET_ARCH_H
#define MODELS_NET_ARCH_H

#include <stddef.h>

#include "base/err.h"
#include "base/limits.h"
#include "models/contract.h"
#include "models/net/layer.h"

struct arch {
  char text[MAX_ARCH_BYTES]; /* canonical: numbers for words, shorthands written out, default names left out */
  char shared_text
      [MAX_ARCH_BYTES]; /* the same, with nothing but word and name of personal layers: what peers agree on */
  enum loss_kind loss;  /* the contract's */
  struct extent input;
  uint32_t n_inputs; /* values a sample */
  uint32_t n_outputs;
  size_t n_parameters;
  size_t n_trained; /* of them; the rest are statistics */
  size_t n_layers;
  struct layer layers[]; /* the input's side first */
};

/* Errors and `why` as schema_from_arch, which is how the rest of the program reaches this. */
MUST_USE enum err arch_parse(const char *text, const struct contract *contract, struct arch **out_arch,
                             char why[MAX_REASON_BYTES]);
void arch_free(struct arch *a);

/* The text of that architecture with these n layers personal, canonical, for free(); each is the name of a layer, or a word for all
 * layers of its kind: "dense2", "batchnorm". ERR_NOT_FOUND: no layer is called so, `why` names the nearest; ERR_RANGE: it has
 * no parameters, or nothing would be left to share; and as arch_parse. */
MUST_USE enum err arch_make_personal(const char *text, const struct contract *contract, const char *const *layers,
                                     size_t n, char **out_text, char why[MAX_REASON_BYTES]);

/* Floating-point operations of one sample, forwards. Training takes about three times as many. */
double arch_flops(const struct arch *a);

#endif
