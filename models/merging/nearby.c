#include "models/merging/nearby.h"

#include <string.h>

#include "models/floats.h"
#include "models/kernels/cpu.h"

enum { BLOCK = 128, VALUES_A_ROOM = 32 };

/* Compiled for the base of the architecture and for AVX2, with equal bits. */
#define EVERYWHERE static inline __attribute__((always_inline))
#if defined __x86_64__
#define TARGET __attribute__((target("avx2")))
#else
#define TARGET
#endif

static inline uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* 0 … 2·limit where it fits. */
EVERYWHERE uint32_t shifted(float x, float y, uint32_t limit) {
  return bits_of(x) - bits_of(y) + limit;
}

EVERYWHERE size_t count_loop(const float *x, const float *y, size_t n, uint32_t limit) {
  uint32_t count = 0;
  for (size_t i = 0; i < n; i++)
    count += shifted(x[i], y[i], limit) > 2 * limit;
  return count;
}

/* −limit − 1 for those that do not fit; whether there are any. */
EVERYWHERE bool write_loop(const float *x, const float *y, size_t n, uint32_t limit, int16_t *out) {
  uint32_t found = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t d = shifted(x[i], y[i], limit);
    bool fits = d <= 2 * limit;
    found |= !fits;
    out[i] = (int16_t)((int32_t)(fits ? d : UINT32_MAX) - (int32_t)limit);
  }
  return found;
}

TARGET static size_t count_avx2(const float *x, const float *y, size_t n, uint32_t limit) {
  return count_loop(x, y, n, limit);
}

TARGET static bool write_avx2(const float *x, const float *y, size_t n, uint32_t limit, int16_t *out) {
  return write_loop(x, y, n, limit, out);
}

static uint32_t limit_of(size_t width) {
  return width == 1 ? INT8_MAX : INT16_MAX;
}

static size_t block_length(size_t at, size_t n_values) {
  return n_values - at < BLOCK ? n_values - at : BLOCK;
}

static size_t room_for(size_t n_values) {
  return n_values / VALUES_A_ROOM;
}

size_t nearby_bytes(size_t n_values, size_t width) {
  return n_values * width + room_for(n_values) * sizeof(uint32_t);
}

bool nearby_fits(const float *x, const float *y, size_t n_values, size_t width) {
  uint32_t limit = limit_of(width);
  size_t n = cpu_detect().avx2 ? count_avx2(x, y, n_values, limit) : count_loop(x, y, n_values, limit);
  return n <= room_for(n_values);
}

/* The differences of a block as they stand there. */
static void put_differences(const int16_t *d, size_t n, size_t width, uint8_t *out) {
  if (width == 2) {
    memcpy(out, d, n * sizeof *d);
    return;
  }
  for (size_t i = 0; i < n; i++)
    out[i] = (uint8_t)d[i];
}

static void get_differences(const uint8_t *bytes, size_t n, size_t width, int16_t *out) {
  if (width == 2) {
    memcpy(out, bytes, n * sizeof *out);
    return;
  }
  for (size_t i = 0; i < n; i++)
    out[i] = (int16_t)((bytes[i] ^ 0x80) - 0x80);
}

void nearby_write(const float *x, const float *y, size_t n_values, size_t width, uint8_t *out_bytes) {
  const uint32_t limit = limit_of(width);
  const int16_t none = (int16_t)(-(int32_t)limit - 1);
  uint8_t *whole = out_bytes + n_values * width, *end = out_bytes + nearby_bytes(n_values, width);
  bool is_fast = cpu_detect().avx2;
  int16_t d[BLOCK];
  for (size_t at = 0; at < n_values; at += BLOCK) {
    size_t n = block_length(at, n_values);
    bool found = is_fast ? write_avx2(x + at, y + at, n, limit, d) : write_loop(x + at, y + at, n, limit, d);
    put_differences(d, n, width, out_bytes + at * width);
    for (size_t i = 0; found && i < n; i++)
      if (d[i] == none) {
        memcpy(whole, x + at + i, sizeof *x);
        whole += sizeof *x;
      }
  }
  memset(whole, 0, (size_t)(end - whole));
}

enum err nearby_read(const uint8_t *bytes, size_t width, const uint8_t *y, size_t n_values, float *out_x) {
  const int16_t none = (int16_t)(-(int32_t)limit_of(width) - 1);
  const uint8_t *whole = bytes + n_values * width, *end = bytes + nearby_bytes(n_values, width);
  int16_t d[BLOCK];
  uint32_t x[BLOCK];
  float values[BLOCK];
  for (size_t at = 0; at < n_values; at += BLOCK) {
    size_t n = block_length(at, n_values);
    get_differences(bytes + at * width, n, width, d);
    memcpy(x, y + at * sizeof *x, n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
      const int32_t apart = d[i];
      x[i] += (uint32_t)apart;
      if (apart != none)
        continue;
      if (whole == end)
        return ERR_CORRUPT;
      memcpy(&x[i], whole, sizeof *x);
      whole += sizeof *x;
    }
    memcpy(values, x, n * sizeof *x);
    if (!floats_finite(values, n))
      return ERR_NON_FINITE;
    if (out_x)
      memcpy(out_x + at, values, n * sizeof *values);
  }
  while (whole < end && *whole == 0)
    whole++;
  return whole == end ? ERR_OK : ERR_CORRUPT;
}
