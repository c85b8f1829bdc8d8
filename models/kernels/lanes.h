/* Eight floats at a time in plain C: vectors of the compiler, which every CPU has in some form. A kernel is written once as
 * an INLINE function over them and instantiated for each instruction set in a function that has its target. Only for the
 * .c files of kernels. */
#ifndef MODELS_KERNELS_LANES_H
#define MODELS_KERNELS_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE __attribute__((always_inline)) inline

enum { LANES = 8 };

typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t lane_mask __attribute__((vector_size(4 * LANES))); /* −1 or 0, as comparisons give it */

/* Through memory, since a function cannot return what its CPU may lack; n < LANES is what remains at the end of a row. */
static INLINE void lanes_read(const float *from, size_t n, lanes *out) {
  if (n >= LANES) {
    memcpy(out, from, sizeof *out);
    return;
  }
  *out = (lanes){0};
  memcpy(out, from, n * sizeof *from);
}

static INLINE void lanes_write(float *to, size_t n, const lanes *v) {
  memcpy(to, v, n >= LANES ? sizeof *v : n * sizeof *to);
}

/* Where the mask is set `a`, elsewhere what *v is. */
static INLINE void lanes_choose(const lane_mask *mask, const lanes *a, lanes *v) {
  lane_mask bits_a, bits_v;
  memcpy(&bits_a, a, sizeof bits_a);
  memcpy(&bits_v, v, sizeof bits_v);
  bits_v = (bits_a & *mask) | (bits_v & ~*mask);
  memcpy(v, &bits_v, sizeof *v);
}

#endif
