/* Samples in two NumPy arrays, inputs [n][…] and labels [n] or [n][1], given out one by one. Of several classes a sample the
 * labels are [n][classes], 1 where a class applies and 0 where it does not, of any type.
 *
 *   x.npy with y.npy              two files
 *   data.npz                      its arrays `x` and `y`
 *   data.npz:x_train with data.npz:y_train, or any other pair of the two forms
 *
 * The first index counts samples; however the others are arranged, they are one sample's inputs in C order: a series
 * [n][T][C], an image [n][H][W][C] or [n][H][W], a row [n][inputs]. Of an image the extents (ones left out) are the
 * contract's, or one flat row: a pixel that moved is not noticed later. Bytes (uint8) of images stay bytes and mean what they
 * do in IDX files; every other value is a raw number. Values stream, but an array in Fortran order has to be read whole.
 * Room-internal; one thread at a time. */
#ifndef MODELS_DATA_ARRAY_PAIR_H
#define MODELS_DATA_ARRAY_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/contract.h"
#include "models/formats/data_file.h"
#include "models/formats/npy.h"

struct array_pair;

/* Which of the two are opened. */
enum array_parts { ARRAYS_BOTH, ARRAYS_INPUTS, ARRAYS_LABELS };

/* contract NULL: whatever is there, with one label a sample. ERR_RANGE: shapes do not fit each other or the
 * contract, labels are missing; ERR_UNSUPPORTED: labels that are no numbers of classes; ERR_LIMIT: MAX_SAMPLES,
 * MAX_FEATURES; those of npy_open. */
MUST_USE enum err array_pair_open(const struct data_file *file, const struct contract *contract, enum array_parts parts,
                                  struct array_pair **out_pair, struct data_place *why);
void array_pair_close(struct array_pair *p);

uint32_t array_pair_samples(const struct array_pair *p);
size_t array_pair_inputs(const struct array_pair *p);
size_t array_pair_n_labels(const struct array_pair *p);            /* of a sample; 0 when only inputs were opened */
const struct array *array_pair_shape(const struct array_pair *p);  /* of the inputs */
const struct array *array_pair_labels(const struct array_pair *p); /* of the labels */
struct data_place *array_pair_place(const struct array_pair *p,
                                    struct data_place *why); /* of the labels without them */
struct data_place *array_pair_labels_place(const struct array_pair *p, struct data_place *why);

/* Borrowed until the next: one of bytes and floats [inputs] is set (neither when only labels were opened). */
struct array_sample {
  const uint8_t *bytes;
  const float *floats;  /* as they stand there, NaN too */
  const double *labels; /* [n_labels] */
};

MUST_USE enum err array_pair_next(struct array_pair *p, struct array_sample *out_sample, struct data_place *why);

/* After the last sample: both arrays end there. */
MUST_USE enum err array_pair_end(struct array_pair *p, struct data_place *why);

#endif
