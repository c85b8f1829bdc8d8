/* Half precision: float to IEEE binary16 and back, many at a time.
 *
 * Several kernels with identical bits; the fastest that this CPU has is chosen at run time, so one binary runs
 * everywhere. Rounding is to nearest, ties to even; denormals are kept; magnitudes above 65504 become 65504. Inputs must
 * not be NaN on the way down; on the way up every bit pattern is converted exactly. Pure. */
#ifndef MODELS_KERNELS_HALF_H
#define MODELS_KERNELS_HALF_H

#include <stddef.h>
#include <stdint.h>

#include "models/kernels/cpu.h"

struct half_kernel {
  const char *name;
  struct cpu needs;
  void (*from_floats)(const float *x, size_t n, uint16_t *out_halves);
  void (*to_floats)(const uint16_t *halves, size_t n, float *out_x);
};

/* All kernels of this build, the portable one first, whether this CPU has them or not. */
const struct half_kernel *half_kernels(size_t *out_n);

const struct half_kernel *half_fastest(void);

#endif
