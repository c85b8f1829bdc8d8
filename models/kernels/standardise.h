/* Bytes to standardised floats: x' = (byte − shift)·gain, for each input its own pair.
 *
 * Single IEEE operations in double and one rounding, so all kernels of a build give equal bits. Pure. */
#ifndef MODELS_KERNELS_STANDARDISE_H
#define MODELS_KERNELS_STANDARDISE_H

#include <stddef.h>
#include <stdint.h>

#include "models/kernels/cpu.h"

struct standardise {
  const char *name;
  struct cpu needs;
  void (*bytes)(const uint8_t *bytes, size_t n, const double *shift, const double *gain, float *out_x); /* all [n] */
};

/* All kernels of this build, the portable one first, the fastest last, whether this CPU has what they need or not. */
const struct standardise *standardise_kernels(size_t *out_n);

/* The last of them that `cpu` can run. */
const struct standardise *standardise_fastest(const struct cpu *cpu);

#endif
