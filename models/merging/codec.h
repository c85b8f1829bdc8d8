/* Encodings of an update: a model's difference to its public copy as bytes, and back.
 *
 *   encode   payload = Q(x − x̂)
 *   add      x̂ ← x̂ + decode(payload)      at the sender and, with the same bits, at every receiver
 *
 * What Q loses stays in x − x̂ and is sent later, which is error feedback (Koloskova et al. 2019, CHOCO-SGD). A payload
 * has no head; values in schema order, little-endian. Blocks are of 256 values, the last one shorter.
 *
 *   CODEC_F32   IEEE binary32 of each difference
 *   CODEC_F16   IEEE binary16, rounded to nearest even; differences beyond ±65504 are sent as ±65504, the rest follows
 *   CODEC_Q8    each block: scale (binary32, not negative), then a byte a value, two's complement, −127 … 127. A difference
 *               is scale · value; rounded at random (models/kernels/quantise.h)
 *   CODEC_Q4    the same with a half byte a value, −7 … 7, the lower half first; the upper half of an odd last byte is 0
 *   CODEC_TOPK  the largest differences: entries of gap and binary16, at least one. The gap is how many values lie between
 *               this one and the entry before it (the first: before it), seven bits a byte, the lowest first, the top bit
 *               set on all bytes but the last, in as few bytes as it takes. So indices rise and none stands twice
 *
 * The length follows from the codec and the schema, but for CODEC_TOPK, where that is a bound.
 *
 * Bits: plain IEEE arithmetic without contraction and without flushing, so −0 and denormals are kept and all hosts agree,
 * whichever kernels run. NaN and infinity are refused on both ways. Only the encoder rounds at random: who decodes needs no
 * seed. Pure; any thread. */
#ifndef MODELS_MERGING_CODEC_H
#define MODELS_MERGING_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum codec_kind { CODEC_F32 = 0, CODEC_F16, CODEC_Q8, CODEC_Q4, CODEC_TOPK, N_CODECS };

/* How a job encodes its updates. */
struct codec {
  enum codec_kind kind;
  double fraction; /* CODEC_TOPK: of the values, CODEC_MIN_FRACTION … CODEC_MAX_FRACTION; else 0 */
};

#define CODEC_MIN_FRACTION 0.0001
#define CODEC_MAX_FRACTION 0.25 /* beyond, q8 and q4 are shorter and lose less */

/* "f32", "f16", "q8", "q4", "topk". */
const char *codec_name(enum codec_kind kind);

/* Bytes of a difference of n values: exactly, or for CODEC_TOPK at most. n ≤ MAX_PARAMETERS. */
size_t codec_bound(struct codec c, size_t n_values);

/* Bytes of n values as they are: full copies and snapshots. */
size_t codec_full_bytes(size_t n_values);

/* The most that any payload of a job with this codec has. */
size_t codec_payload_bound(struct codec c, size_t n_values);

/* γ of the merge x ← x + γ Σ w_j (x̂_j − x̂): 1, or √fraction for CODEC_TOPK, which is 0.1 at 1 % and 0.3 at 10 %. Where copies follow
 * slowly, going all the way towards them diverges. */
double codec_gamma(struct codec c);

/* Values of scratch that codec_encode wants; 0: none. */
size_t codec_scratch(struct codec c);

/* Writes Q(x − copy) into out_bytes, which has room for codec_bound; `seed` decides how q8 and q4 round; scratch
 * [codec_scratch], any contents, lost after the call. out_next [n], NULL where nobody wants it: the copy with this difference
 * added, as codec_add adds it. ERR_NON_FINITE: a difference or a sum is not finite; what was written is then undefined. */
MUST_USE enum err codec_encode(struct codec c, const float *x, const float *copy, size_t n_values, uint64_t seed,
                               uint32_t *scratch, uint8_t *out_bytes, size_t *out_n_bytes, float *out_next);

/* copy ← copy + decode(bytes). ERR_LENGTH: a payload of this kind has another length, ends within an entry or has more
 * than CODEC_MAX_FRACTION of the values; ERR_ENCODING: no such kind, or a scale, value, gap or index that no encoder writes;
 * ERR_NON_FINITE: a value or a sum is not finite. The copy is untouched after an error. */
MUST_USE enum err codec_add(enum codec_kind kind, const uint8_t *bytes, size_t n_bytes, float *copy, size_t n_values);

/* A whole model as n little-endian f32: full copies and snapshots. */
void codec_write_values(const float *values, size_t n_values, uint8_t *out_bytes);

/* Whether n f32 values are finite: ERR_NON_FINITE when not. */
MUST_USE enum err codec_check_values(const uint8_t *bytes, size_t n_values);

/* ERR_LENGTH: not 4·n bytes; ERR_NON_FINITE. out_values is untouched after an error. */
MUST_USE enum err codec_read_values(const uint8_t *bytes, size_t n_bytes, float *out_values, size_t n_values);

#endif
