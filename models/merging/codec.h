/* Encodings of an update: a model's difference to its public copy as bytes, and back.
 *
 *   encode   payload = Q(x − x̂)
 *   add      x̂ ← x̂ + decode(payload)      at the sender and, with the same bits, at every receiver
 *
 * What Q loses stays in x − x̂ and is sent later, which is error feedback (Koloskova et al. 2019, CHOCO-SGD). A payload
 * has no head: its length follows from the codec and the schema, values in schema order, little-endian.
 *
 *   CODEC_F32   IEEE binary32 of each difference
 *   CODEC_F16   IEEE binary16, rounded to nearest even; differences beyond ±65504 are sent as ±65504, the rest follows
 *
 * Bits: plain IEEE arithmetic without contraction and without flushing, so −0 and denormals are kept and all hosts agree,
 * whichever of the half-precision kernels (models/kernels/half.h) runs. NaN and infinity are refused on both ways. Pure; any
 * thread. */
#ifndef MODELS_MERGING_CODEC_H
#define MODELS_MERGING_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum codec { CODEC_F32 = 0, CODEC_F16 = 1, N_CODECS };

/* "f32", "f16". */
const char *codec_name(enum codec c);

/* Bytes of a payload of n values; for these codecs every payload has exactly this many. n ≤ MAX_PARAMETERS. */
size_t codec_bound(enum codec c, size_t n_values);

/* Writes codec_bound bytes of Q(x − copy). ERR_NON_FINITE: a difference is not finite; out_bytes is then undefined. */
MUST_USE enum err codec_encode(enum codec c, const float *x, const float *copy, size_t n_values, uint8_t *out_bytes);

/* copy ← copy + decode(bytes). ERR_LENGTH: not codec_bound bytes; ERR_ENCODING: no such codec; ERR_NON_FINITE: a value
 * or a sum is not finite. The copy is untouched after an error. */
MUST_USE enum err codec_add(enum codec c, const uint8_t *bytes, size_t n_bytes, float *copy, size_t n_values);

/* A whole model as n little-endian f32: full copies and snapshots. */
void codec_write_values(const float *values, size_t n_values, uint8_t *out_bytes);

/* Whether n f32 values are finite: ERR_NON_FINITE when not. */
MUST_USE enum err codec_check_values(const uint8_t *bytes, size_t n_values);

/* ERR_LENGTH: not 4·n bytes; ERR_NON_FINITE. out_values is untouched after an error. */
MUST_USE enum err codec_read_values(const uint8_t *bytes, size_t n_bytes, float *out_values, size_t n_values);

#endif
