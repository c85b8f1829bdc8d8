/* Half precision and payloads against bits that independent implementations made (codec_f16.py, codec_payloads.py). Half
 * precision under every kernel of this host; that the other kernels have equal bits is for their unit tests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/kernels/half.h"
#include "models/kernels/select.h"
#include "models/merging/codec.h"
#include "tests/unit/suite.h"

enum { MAX_ROWS = 4096 };

static uint32_t floats[MAX_ROWS], back[MAX_ROWS];
static uint16_t halves[MAX_ROWS];
static uint32_t scratch[SELECT_BINS];

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
  const struct cpu cpu = cpu_detect();
  for (size_t k = 0; k < n_kernels; k++) {
    if (!cpu_has(&cpu, &kernels[k].needs))
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

enum { MAX_VALUES = 600, MAX_LINE_BYTES = 3 * 2 * 4 * MAX_VALUES + 256 };

/* Reads the next word as hex; returns the number of bytes. */
static size_t read_hex(char **line, uint8_t bytes[4 * MAX_VALUES]) {
  char *word = strtok_r(NULL, " \n", line);
  ck_assert_ptr_nonnull(word);
  size_t n = strlen(word) / 2;
  ck_assert_uint_le(n, (size_t)4 * MAX_VALUES);
  for (size_t i = 0; i < n; i++)
    bytes[i] = (uint8_t)strtoul((char[]){word[2 * i], word[2 * i + 1], '\0'}, NULL, 16);
  return n;
}

static enum codec_kind kind_of(const char *name) {
  for (int c = 0; c < N_CODECS; c++)
    if (strcmp(codec_name((enum codec_kind)c), name) == 0)
      return (enum codec_kind)c;
  ck_abort_msg("no codec %s", name);
}

static void check_payload(char *line) {
  static uint8_t bytes[4 * MAX_VALUES], payload[4 * MAX_VALUES], sums[4 * MAX_VALUES], encoded[4 * MAX_VALUES + 4];
  float x[MAX_VALUES], copy[MAX_VALUES] = {0};
  char *rest;
  struct codec c = {.kind = kind_of(strtok_r(line, " ", &rest))};
  uint64_t seed = strtoull(strtok_r(NULL, " ", &rest), NULL, 16);
  c.fraction = strtod(strtok_r(NULL, " ", &rest), NULL);
  size_t n = read_hex(&rest, bytes) / 4, n_payload = read_hex(&rest, payload), n_encoded;
  ck_assert_uint_eq(read_hex(&rest, sums), 4 * n);
  memcpy(x, bytes, 4 * n);
  ck_assert_int_eq(codec_encode(c, x, copy, n, seed, scratch, encoded, &n_encoded, NULL), ERR_OK);
  ck_assert_msg(n_encoded == n_payload && memcmp(encoded, payload, n_payload) == 0, "%zu values as %s", n,
                codec_name(c.kind));
  for (size_t i = 0; i < n; i++)
    copy[i] = 0.75f;
  ck_assert_int_eq(codec_add(c.kind, payload, n_payload, copy, n), ERR_OK);
  ck_assert_msg(memcmp(copy, sums, 4 * n) == 0, "%zu sums of %s", n, codec_name(c.kind));
}

START_TEST(payloads) {
  static char line[MAX_LINE_BYTES];
  FILE *f = fopen("tests/golden/codec_payloads.txt", "r");
  size_t n_lines = 0;
  ck_assert_ptr_nonnull(f);
  for (; fgets(line, sizeof line, f); n_lines++)
    check_payload(line);
  ck_assert(feof(f));
  fclose(f);
  ck_assert_uint_eq(n_lines, 35);
}
END_TEST

int main(void) {
  return SUITE_RUN("codec golden", half_bits, payloads);
}
