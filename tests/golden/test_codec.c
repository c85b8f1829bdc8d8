/* Half precision against bits that an independent implementation made (codec_f16.py), under every kernel of this host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/kernels/half.h"
#include "tests/unit/suite.h"

enum { MAX_ROWS = 4096 };

static uint32_t floats[MAX_ROWS], back[MAX_ROWS];
static uint16_t halves[MAX_ROWS];

static size_t read_rows(void) {
  FILE *f = fopen("tests/golden/codec_f16.txt", "r");
  char line[64];
  size_t n = 0;
  ck_assert_ptr_nonnull(f);
  for (; n < MAX_ROWS && fgets(line, sizeof line, f); n++) {
    char *at = line;
    floats[n] = (uint32_t)strtoul(at, &at, 16);
    halves[n] = (uint16_t)strtoul(at, &at, 16);
    back[n] = (uint32_t)strtoul(at, &at, 16);
    ck_assert_str_eq(at, "\n");
  }
  ck_assert(feof(f));
  fclose(f);
  return n;
}

START_TEST(half_bits) {
  float values[MAX_ROWS], decoded[MAX_ROWS];
  uint16_t encoded[MAX_ROWS];
  size_t n = read_rows(), n_kernels;
  ck_assert_uint_gt(n, 900);
  const struct half_kernel *kernels = half_kernels(&n_kernels);
  for (size_t k = 0; k < n_kernels; k++) {
    if (!kernels[k].supported())
      continue;
    memcpy(values, floats, sizeof values);
    kernels[k].from_floats(values, n, encoded);
    kernels[k].to_floats(halves, n, decoded);
    for (size_t i = 0; i < n; i++) {
      uint32_t bits;
      memcpy(&bits, &decoded[i], sizeof bits);
      ck_assert_msg(encoded[i] == halves[i], "%s: %08x gives %04x, not %04x", kernels[k].name, floats[i], encoded[i],
                    halves[i]);
      ck_assert_msg(bits == back[i], "%s: %04x gives %08x, not %08x", kernels[k].name, halves[i], bits, back[i]);
    }
  }
}
END_TEST

int main(void) {
  return SUITE_RUN("codec golden", half_bits);
}
