/* exp and its kin for float, without branches or calls, so that a loop over an array becomes vector instructions on every
 * CPU (libm's do not). NaN in, NaN out; nothing overflows to infinity that does not have to. Pure.
 *
 * Errors, as tests/unit/models/test_elementary.c holds them: relative 2e-7 for exp, expm1, tanh and softplus above 1,
 * absolute 2e-7 for sigmoid and softplus below, 3e-7 for Φ. */
#ifndef MODELS_KERNELS_ELEMENTARY_H
#define MODELS_KERNELS_ELEMENTARY_H

#include <stdint.h>
#include <string.h>

/* e^x − 1 = 2^n(e^r − 1) + (2^n − 1) with x = n·ln 2 + r, |r| ≤ ½ ln 2; Cody & Waite's two-part ln 2, polynomial of Cephes
 * (Moshier 1989). x above 88 counts as 88, below −87 as −87. `one` is what is taken off: 1, or 0 for e^x. */
static inline float elementary_exp(float x, float one) {
  const float magic = 0x1.8p23f; /* adding it rounds to an integer in the low bits */
  x = x > 88.0f ? 88.0f : x;
  x = x < -87.0f ? -87.0f : x;
  float shifted = x * 0x1.715476p0f + magic, n = shifted - magic;
  float r = x - n * 0x1.63p-1f;
  r = r + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r;
  uint32_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + (127u << 23);
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return scale * p + (scale - one);
}

static inline float fast_exp(float x) {
  return elementary_exp(x, 0);
}

static inline float fast_expm1(float x) {
  return elementary_exp(x, 1);
}

/* 1/(1 + e^−x) */
static inline float fast_sigmoid(float x) {
  return 1 / (1 + fast_exp(-x));
}

/* tanh |x| = e/(e + 2) with e = e^2|x| − 1: no digits are lost near 0 */
static inline float fast_tanh(float x) {
  float size = x < 0 ? -x : x;
  size = size > 10 ? 10 : size;
  float e = fast_expm1(2 * size), y = e / (e + 2);
  return x < 0 ? -y : y;
}

/* log(1 + e^x) = max(x, 0) + log(1 + u), u = e^−|x|; log(1 + u) = 2 artanh s with s = u/(2 + u) ≤ ⅓, by its series. */
static inline float fast_softplus(float x) {
  float u = fast_exp(x < 0 ? x : -x), s = u / (2 + u), q = s * s;
  float p = 1 / 13.0f;
  p = p * q + 1 / 11.0f;
  p = p * q + 1 / 9.0f;
  p = p * q + 1 / 7.0f;
  p = p * q + 1 / 5.0f;
  p = p * q + 1 / 3.0f;
  p = p * q + 1;
  return (x < 0 ? 0 : x) + 2 * s * p;
}

/* Φ, the normal distribution, from erfc's approximation 7.1.26 of Abramowitz & Stegun (1964); its density comes with it. */
static inline float fast_normal(float x, float *out_density) {
  float size = (x < 0 ? -x : x) * 0x1.6a09e6p-1f, e = fast_exp(-size * size);
  float t = 1 / (1 + 0.3275911f * size);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  float tail = 0.5f * p * t * e;
  *out_density = 0x1.988454p-2f * e;
  return x < 0 ? tail : 1 - tail;
}

#endif
