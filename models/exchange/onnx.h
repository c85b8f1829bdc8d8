/* A model as an ONNX graph (operator set 17), for ONNX Runtime and whoever else reads it. One row a kind of layer (onnx.c).
 *
 * In goes what the data's files hold: `input` [batch][inputs], a feature with categories being as many
 * inputs, of which one is 1, or [batch][H][W][C] of an image, whose values are those of the
 * contract's range. The graph scales them. Out come
 *
 *   classify      `scores` and `probabilities`, their softmax, [batch][classes]
 *   multilabel    `scores` and `probabilities`, their σ, [batch][classes]
 *   regress       `value` [batch][1]
 *   reconstruct   `reconstruction` [batch][inputs], scaled as the model sees them, and `score` [batch][1], the mean squared error
 *
 * Between two nodes a sample is either a row, in our order (height, width, channels), or planes [C][H][W] as ONNX has them; each
 * row of the table says which it reads, and transposes stand where that changes. Weights of convolutions have their axes turned
 * here; a dense layer reads rows, so its weights are as they are. */
#ifndef MODELS_EXCHANGE_ONNX_H
#define MODELS_EXCHANGE_ONNX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "models/contract.h"
#include "models/formats/tensor_file.h"
#include "models/net/layer.h"
#include "models/schema.h"

struct onnx_model {
  const struct schema *schema; /* that has an architecture */
  const struct contract *contract;
  const struct scale *scale; /* the numbers in effect; n = 0: none */
  const float *values;       /* [P] */
  const struct tensor_note *notes;
  size_t n_notes;
};

/* Whether there is a row for the kind of layer: for each kind that can be written in an architecture. */
bool onnx_has(const struct layer_type *type);

/* Writes the file. ERR_UNSUPPORTED: a layer has no row; ERR_NO_MEMORY; errors of new_file_write. */
MUST_USE enum err onnx_write(const char *path, const struct onnx_model *model);

#endif
