/* What a model says of samples that nobody has labelled: files of data read, scaled and put through the net, one sample after the
 * other to the caller.
 *
 * The files are those of training (models/data/sample.h) without their labels: CSV whose other columns are ignored, images in
 * IDX (known by its first bytes), NumPy arrays (x.npy, or x of data.npz). Memory is one small batch.
 * One thread at a time. */
#ifndef MODELS_JUDGING_PREDICTION_H
#define MODELS_JUDGING_PREDICTION_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/contract.h"
#include "models/data/scale.h"
#include "models/formats/data_file.h"
#include "models/schema.h"
#include "models/work_hook.h"

/* Borrowed for the call. */
struct prediction {
  uint64_t sample; /* of the file, from 1 */
  size_t n_outputs;
  const float *outputs; /* [n_outputs] of the net */
  const double
      *probabilities; /* [n_outputs] classify: softmax; multilabel: σ, above ½ where the class applies; else NULL */
  size_t label;       /* classify: the first class of the largest output */
  double score;       /* reconstruct: mean squared error; else 0 */
};

struct prediction_sink {
  enum err (*put)(void *context, const struct prediction *p); /* anything but ERR_OK ends the reading */
  void *context;
};

struct predictor;

/* Everything is borrowed for the predictor's life. `scale`: the numbers in effect, n = 0 for none; `values` [P] in the order of
 * the schema, which has an architecture. ERR_LIMIT: the layers are too wide; ERR_RANGE: the scale has another number of inputs;
 * ERR_NO_MEMORY. */
MUST_USE enum err predictor_open(const struct schema *schema, const struct contract *contract,
                                 const struct scale *scale, const float *values, struct predictor **out_predictor);
void predictor_close(struct predictor *p);

/* Errors as dataset_open, but for labels; whatever the sink returns; ERR_NON_FINITE: an output is NaN or infinite, as it is of values
 * far beyond what was learnt from. */
MUST_USE enum err predictor_read(struct predictor *p, const char *path, const struct prediction_sink *sink,
                                 struct data_place *why);

#endif
