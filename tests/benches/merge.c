/* How fast models are merged and encoded, beside one read of the same bytes and one copy of them. Eight models of 2^20 values;
 * interleaved; one line a run, of processor time:
 *
 *   read_8|read_9|mean|median|trimmed|distances|copy|f16|f16_codec|q8|topk SECONDS
 *
 * read_8 and read_9 sum what median, trimmed and distances, or what mean reads: own model, public copy and seven copies. copy is
 * a memcpy of one model, f16 the half precision of one; the codecs encode the difference of two. usage: bench_merge
 * [REPETITIONS] */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/must.h"
#include "base/rng.h"
#include "models/floats.h"
#include "models/kernels/cpu.h"
#include "models/kernels/distance.h"
#include "models/kernels/half.h"
#include "models/kernels/mean.h"
#include "models/kernels/order.h"
#include "models/kernels/select.h"
#include "models/merging/codec.h"

enum { P = 1 << 20, N_MODELS = 8, DEFAULT_REPETITIONS = 9 };

static float *own_copy, *out, *models[N_MODELS];
static const float *rows[N_MODELS];
static uint16_t *halves;
static uint8_t *payload;
static uint32_t scratch[SELECT_BINS];
static volatile uint64_t sink;

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *values_new(struct rng *rng) {
  float *x = floats_new(P);
  MUST(x != NULL);
  for (size_t i = 0; i < P; i++)
    x[i] = (float)((rng_unit(rng) + rng_unit(rng) + rng_unit(rng) - 1.5) * 0.1);
  return x;
}

/* ---- reading: as fast as this core loads, nothing else */

typedef uint64_t words __attribute__((vector_size(32)));

#define READ_BODY(x)                                                                                                   \
  words sum[4] = {{0}}, w;                                                                                             \
  for (size_t i = 0; i < P; i += 32)                                                                                   \
    for (size_t k = 0; k < 4; k++) {                                                                                   \
      memcpy(&w, (x) + i + 8 * k, sizeof w);                                                                           \
      sum[k] += w;                                                                                                     \
    }                                                                                                                  \
  words all = sum[0] + sum[1] + sum[2] + sum[3];                                                                       \
  sink = all[0] + all[1] + all[2] + all[3];

static void read_plain(const float *x) {
  READ_BODY(x)
}

#if defined __x86_64__
__attribute__((target("avx2"))) static void read_avx2(const float *x) {
  READ_BODY(x)
}
#else
#define read_avx2 read_plain
#endif

static void read_8(void) {
  void (*read_one)(const float *) = cpu_detect().avx2 ? read_avx2 : read_plain;
  for (size_t j = 0; j < N_MODELS; j++)
    read_one(models[j]);
}

static void read_9(void) {
  read_8();
  (cpu_detect().avx2 ? read_avx2 : read_plain)(own_copy);
}

/* ---- the work */

static void mean(void) {
  struct mean_term terms[N_MODELS - 1];
  for (size_t j = 1; j < N_MODELS; j++)
    terms[j - 1] = (struct mean_term){models[j], 1.0 / N_MODELS};
  MUST(mean_fastest()->sum(models[0], own_copy, terms, N_MODELS - 1, P, out));
}

static void median(void) {
  order_fastest()->median(rows, N_MODELS, P, out);
}

static void trimmed(void) {
  order_fastest()->trimmed(rows, N_MODELS, P, 2, out);
}

static void distances(void) {
  double squares[N_MODELS * N_MODELS];
  distance_pairs(distance_fastest(), rows, N_MODELS, P, squares);
  sink = squares[1] > 0;
}

static void copy(void) {
  memcpy(out, models[0], P * sizeof *out);
}

static void f16(void) {
  half_fastest()->from_floats(models[0], P, halves);
}

static void encode(struct codec c) {
  size_t n;
  MUST(codec_encode(c, models[0], own_copy, P, 7, scratch, payload, &n, NULL) == ERR_OK && n > 0);
}

static void f16_codec(void) {
  encode((struct codec){CODEC_F16, 0});
}

static void q8(void) {
  encode((struct codec){CODEC_Q8, 0});
}

static void topk(void) {
  encode((struct codec){CODEC_TOPK, 0.01});
}

static const struct {
  const char *name;
  void (*run)(void);
} works[] = {{"read_8", read_8}, {"read_9", read_9},   {"mean", mean},
             {"median", median}, {"trimmed", trimmed}, {"distances", distances},
             {"copy", copy},     {"f16", f16},         {"f16_codec", f16_codec},
             {"q8", q8},         {"topk", topk}};

int main(int argc, char **argv) {
  long repetitions = argc > 1 ? strtol(argv[1], NULL, 10) : DEFAULT_REPETITIONS;
  struct rng rng;
  rng_init(&rng, 1);
  for (size_t j = 0; j < N_MODELS; j++)
    rows[j] = models[j] = values_new(&rng);
  own_copy = values_new(&rng);
  out = values_new(&rng);
  halves = calloc(P, sizeof *halves);
  payload = malloc(codec_full_bytes(P));
  MUST(halves != NULL && payload != NULL);
  for (long i = -1; i < repetitions; i++) /* the first time is not counted */
    for (size_t w = 0; w < sizeof works / sizeof *works; w++) {
      double start = now_s();
      works[w].run();
      double seconds = now_s() - start;
      if (i >= 0)
        printf("%s %.9f\n", works[w].name, seconds);
    }
  return 0;
}
