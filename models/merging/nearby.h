/* An array x of floats beside another one, y, that is near it: of most values only how far their bits, read as integers, are
 * apart is written. Nothing is lost: what does not fit stands whole behind, for which there is a fixed room, so that the length
 * hangs on n alone and a file of it can be written over one of before.
 *
 *   n × i8 or i16     bits(x_i) − bits(y_i) modulo 2^32; the least number that there is: it does not fit
 *   ⌊n / 32⌋ × u32    bits(x_i) of those, in order; then zeros
 *
 * A model and its public copy after an encoding are that near: f32 leaves a rounding between them, f16 2^-12 of the update.
 * Little-endian. Pure; any thread. */
#ifndef MODELS_MERGING_NEARBY_H
#define MODELS_MERGING_NEARBY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* width: 1 or 2 bytes a difference. */
size_t nearby_bytes(size_t n_values, size_t width);

/* Whether those that do not fit have room. */
bool nearby_fits(const float *x, const float *y, size_t n_values, size_t width);

/* out_bytes [nearby_bytes]; x and y fit. */
void nearby_write(const float *x, const float *y, size_t n_values, size_t width, uint8_t *out_bytes);

/* y [n] as little-endian bytes, finite. out_x [n], NULL: it is only judged. ERR_CORRUPT: more do not fit than there is room for,
 * or there is more behind them; ERR_NON_FINITE. out_x is undefined after an error. */
MUST_USE enum err nearby_read(const uint8_t *bytes, size_t width, const uint8_t *y, size_t n_values, float *out_x);

#endif
