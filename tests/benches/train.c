/* How fast this core computes: its peak, packed products beside OpenBLAS, and training steps of the real learner.
 *
 *   bench_train peak [avx2]                                    GFLOP/s of fused multiply-adds that touch registers only
 *   bench_train gemm N N_OUT N_IN                              GFLOP/s of y [N][N_OUT] = x·Wᵀ: weights kept packed, OpenBLAS
 *   bench_train steps BATCH HEIGHT WIDTH CHANNELS ARCH [avx2]  samples a second
 *   bench_train stream BATCH HEIGHT WIDTH CHANNELS ARCH        samples a second: those on disk, of which memory may take a
 *                                                              quarter, and those in memory
 *
 * With `avx2` what a CPU can do that has no AVX-512, on one that may have it.
 * Prints a first line when it is ready (what computes; for `steps` the floating-point operations that a sample of a step
 * needs: forwards, and backwards without the gradient of the inputs), then answers each line of its input with one
 * measurement, so that whoever asks can interleave it with others. One thread, timed by the processor time that it takes. */
#include <cblas.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/must.h"
#include "base/rng.h"
#include "models/data/read_ahead.h"
#include "models/data/scratch.h"
#include "models/floats.h"
#include "models/kernels/gemm.h"
#include "models/learner.h"
#include "models/net/arch.h"
#include "models/net/layer.h"

enum { N_SAMPLES = 12000, N_CLASSES = 10 };

static const double measured_s = 0.15;

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of one call, from as many as fit in the time of a measurement. */
static double seconds_of(void (*work)(void *context), void *context) {
  double start = now_s(), end = start;
  size_t n = 0;
  for (size_t block = 1; end - start < measured_s; block *= 2) {
    for (size_t i = 0; i < block; i++)
      work(context);
    n += block;
    end = now_s();
  }
  return (end - start) / (double)n;
}

static bool asked(void) {
  int c = getchar();
  while (c != '\n' && c != EOF)
    c = getchar();
  return c != EOF;
}

static float *random_floats(size_t n, struct rng *rng) {
  float *x = floats_new(n);
  MUST(x != NULL);
  for (size_t i = 0; i < n; i++)
    x[i] = (float)(2 * rng_unit(rng) - 1);
  return x;
}

/* ---- peak */

#if defined __clang__
#define UNROLL "unroll"
#else
#define UNROLL "GCC unroll 12"
#endif

#define PEAK(target_, type_, width_, fma_)                                                                             \
  __attribute__((target(target_))) static double peak_##width_(void) {                                                 \
    enum { CHAINS = 12, TIMES = 1 << 20 };                                                                             \
    type_ a[CHAINS] = {0}, x = {0}, y = {0};                                                                           \
    double start = now_s();                                                                                            \
    for (size_t t = 0; t < TIMES; t++)                                                                                 \
      _Pragma(UNROLL) for (size_t i = 0; i < CHAINS; i++) {                                                            \
        a[i] = fma_;                                                                                                   \
        __asm__ volatile("" : "+" REGISTER(a[i]));                                                                     \
      }                                                                                                                \
    return 2.0 * (width_)*CHAINS * TIMES / (now_s() - start) / 1e9;                                                    \
  }

#if defined __x86_64__
#include <immintrin.h>
#define REGISTER(v) "v"(v)
PEAK("avx512f", __m512, 16, _mm512_fmadd_ps(x, y, a[i]))
PEAK("avx2,fma", __m256, 8, _mm256_fmadd_ps(x, y, a[i]))
PEAK("sse2", __m128, 4, _mm_add_ps(_mm_mul_ps(x, y), a[i]))
#elif defined __aarch64__
#include <arm_neon.h>
#define REGISTER(v) "w"(v)
PEAK("+simd", float32x4_t, 4, vfmaq_f32(a[i], x, y))
#endif

static double peak(const struct cpu *cpu) {
#if defined __x86_64__
  return cpu->avx512 ? peak_16() : cpu->avx2 ? peak_8() : peak_4();
#else
  (void)cpu;
  return peak_4();
#endif
}

/* The best of ten runs of a few milliseconds: a peak is what the core can do. */
static void answer_peak(struct cpu cpu) {
  printf("%s\n", gemm_fastest(&cpu)->name);
  while (fflush(stdout) == 0 && asked()) {
    double best = 0;
    for (int i = 0; i < 10; i++) {
      double found = peak(&cpu);
      best = found > best ? found : best;
    }
    printf("%.6g\n", best);
  }
}

/* ---- products */

struct product {
  const struct gemm *gemm;
  struct gemm_shape s;
  float *x, *w, *w_t, *packed, *bias, *y;
};

static void product_packed(void *context) {
  struct product *p = context;
  p->gemm->forward(&p->s, p->x, p->packed, p->bias, false, p->y);
}

static void product_blas(void *context) {
  struct product *p = context;
  blasint n = (blasint)p->s.n, n_in = (blasint)p->s.n_in, n_out = (blasint)p->s.n_out;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n_out, n_in, 1, p->x, n_in, p->w, n_in, 0, p->y, n_out);
}

static void product_blas_transposed(void *context) {
  struct product *p = context;
  blasint n = (blasint)p->s.n, n_in = (blasint)p->s.n_in, n_out = (blasint)p->s.n_out;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n_out, n_in, 1, p->x, n_in, p->w_t, n_out, 0, p->y, n_out);
}

/* OpenBLAS may keep the weights whichever way it likes better. */
static void answer_gemm(size_t n, size_t n_out, size_t n_in) {
  struct cpu cpu = cpu_detect();
  struct rng rng;
  rng_init(&rng, 1);
  struct product p = {.gemm = gemm_fastest(&cpu), .s = {n, n_in, n_out, n_in, n_out}};
  p.x = random_floats(n * n_in, &rng);
  p.w = random_floats(n_out * n_in, &rng);
  p.w_t = random_floats(n_out * n_in, &rng);
  p.packed = random_floats(gemm_packed(n_out, n_in), &rng);
  p.bias = random_floats(gemm_padded(n_out), &rng);
  p.y = random_floats(n * n_out, &rng);
  gemm_pack(n_out, n_in, p.w, p.packed);
  openblas_set_num_threads(1);
  printf("%s OpenBLAS-%s\n", p.gemm->name, openblas_get_corename());
  double flops = 2.0 * (double)n * (double)n_in * (double)n_out;
  while (fflush(stdout) == 0 && asked()) {
    double packed = seconds_of(product_packed, &p), blas = seconds_of(product_blas, &p);
    double transposed = seconds_of(product_blas_transposed, &p);
    printf("%.6g %.6g\n", flops / packed / 1e9, flops / (blas < transposed ? blas : transposed) / 1e9);
  }
  float *arrays[] = {p.x, p.w, p.w_t, p.packed, p.bias, p.y};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    free(arrays[i]);
}

/* ---- training steps */

static struct dataset random_images(const struct contract *c) {
  size_t n_inputs = contract_n_inputs(c);
  struct dataset d = {.task = c->task, .n = N_SAMPLES, .n_inputs = n_inputs, .n_classes = c->n_classes};
  d.bytes = malloc(d.n * n_inputs);
  d.labels = calloc(d.n, sizeof *d.labels);
  MUST(d.bytes && d.labels);
  struct rng rng;
  rng_init(&rng, 2);
  for (size_t i = 0; i < d.n * n_inputs; i++)
    d.bytes[i] = (uint8_t)rng_below(&rng, 256);
  for (size_t i = 0; i < d.n; i++)
    d.labels[i] = (uint16_t)rng_below(&rng, c->n_classes);
  struct scale scale;
  MUST(scale_init(&scale, SCALE_FIXED, 1) == ERR_OK);
  scale.mean[0] = 0.5;
  scale.sd[0] = 0.29;
  d.shift = calloc(n_inputs, sizeof *d.shift);
  d.gain = calloc(n_inputs, sizeof *d.gain);
  MUST(d.shift && d.gain && dataset_rescale(&d, c, &scale) == ERR_OK);
  scale_done(&scale);
  return d;
}

static double training_flops(const struct arch *a) {
  double total = 3 * arch_flops(a);
  for (size_t i = 0; i < a->n_layers; i++)
    if (a->layers[i].n_trained > 0)
      return total - layer_flops(&a->layers[i]);
  return total;
}

struct steps {
  struct learner *learner;
  uint64_t round;
};

static void steps_epoch(void *context) {
  struct steps *s = context;
  struct train_report report;
  MUST(learner_train(s->learner, ++s->round, 0, 1, NULL, &report) == ERR_OK);
}

/* The kernels that the net would choose on such a CPU. */
static void select_for(const struct arch *a, uint32_t batch, const struct cpu *cpu, struct selection *out_selection) {
  *out_selection = (struct selection){0};
  for (size_t i = 0; i < a->n_layers; i++) {
    char key[MAX_SELECTION_KEY_BYTES];
    layer_key(&a->layers[i], batch, key);
    MUST(selection_put(out_selection, key, layer_kernel(&a->layers[i], NULL, cpu)->name) == ERR_OK);
  }
}

/* The same samples on disk, and windows in memory of a quarter of them. */
static void stream(struct dataset *d) {
  struct data_memory memory = {.max_bytes = d->n * d->n_inputs / 4};
  MUST(scratch_open("/tmp", d->n_inputs, &d->scratch) == ERR_OK);
  for (size_t i = 0; i < d->n; i++)
    MUST(scratch_put(d->scratch, d->bytes + i * d->n_inputs) == ERR_OK);
  free(d->bytes);
  d->bytes = NULL;
  d->has_bytes = true;
  memory.used_bytes = scratch_buffer_bytes(d->n_inputs) + d->n * (sizeof *d->labels + sizeof(uint32_t));
  MUST(scratch_end(d->scratch) == ERR_OK && dataset_read_ahead(d, &memory) == ERR_OK && d->ahead != NULL);
}

static void free_images(struct dataset *d) {
  read_ahead_free(d->ahead);
  scratch_close(d->scratch);
  free(d->bytes);
  free(d->labels);
  free(d->shift);
  free(d->gain);
  scale_done(&d->scale);
}

/* Learners of the samples in memory and, where wanted, of those on disk before it. */
static int answer_steps(const struct contract *c, uint32_t batch, const char *arch, const struct cpu *cpu,
                        bool streams) {
  struct schema *schema;
  char why[MAX_REASON_BYTES];
  if (schema_from_arch(arch, c, &schema, why) != ERR_OK) {
    fprintf(stderr, "bench_train: %s\n", why);
    return 1;
  }
  struct selection selection;
  select_for(schema_arch(schema), batch, cpu, &selection);
  const struct learner_config config = {
      .schema = schema,
      .selection = &selection,
      .train = {.epochs = 1, .batch = batch, .learning_rate = 0.01, .optimiser = {.momentum = 0.9}},
      .train_seed = 1,
  };
  enum { ON_DISK, IN_MEMORY, N_KINDS };
  struct steps steps[N_KINDS] = {0};
  struct dataset sets[N_KINDS];
  const struct dataset *const tests[N_TEST_SETS] = {0};
  const int first = streams ? ON_DISK : IN_MEMORY;
  for (int i = first; i < N_KINDS; i++) {
    sets[i] = random_images(c);
    if (i == ON_DISK)
      stream(&sets[i]);
    MUST(learner_open(&config, &steps[i].learner) == ERR_OK &&
         learner_attach(steps[i].learner, &sets[i], tests) == ERR_OK);
  }
  printf("%.6g\n", training_flops(schema_arch(schema)));
  while (fflush(stdout) == 0 && asked())
    for (int i = first; i < N_KINDS; i++)
      printf("%.6g%c", N_SAMPLES / seconds_of(steps_epoch, &steps[i]), i + 1 < N_KINDS ? ' ' : '\n');
  for (int i = first; i < N_KINDS; i++) {
    learner_free(steps[i].learner);
    free_images(&sets[i]);
  }
  schema_free(schema);
  return 0;
}

static uint32_t number(const char *text) {
  return (uint32_t)strtoul(text, NULL, 10);
}

/* This one, or what it has in common with those of that name. */
static struct cpu cpu_named(const char *name) {
  struct cpu cpu = cpu_detect();
  if (strcmp(name, "avx2") == 0)
    cpu.avx512 = false;
  return cpu;
}

int main(int n_arguments, char **arguments) {
  const char *what = n_arguments > 1 ? arguments[1] : "";
  if ((n_arguments == 2 || n_arguments == 3) && strcmp(what, "peak") == 0) {
    answer_peak(cpu_named(n_arguments == 3 ? arguments[2] : ""));
    return 0;
  }
  if (n_arguments == 5 && strcmp(what, "gemm") == 0) {
    answer_gemm(number(arguments[2]), number(arguments[3]), number(arguments[4]));
    return 0;
  }
  const bool streams = strcmp(what, "stream") == 0;
  if ((n_arguments == 7 && streams) || ((n_arguments == 7 || n_arguments == 8) && strcmp(what, "steps") == 0)) {
    struct contract c = {.task = TASK_CLASSIFY, .loss = LOSS_CROSS_ENTROPY, .n_classes = N_CLASSES};
    c.height = number(arguments[3]);
    c.width = number(arguments[4]);
    c.channels = number(arguments[5]);
    c.range_hi = 1;
    const struct cpu cpu = cpu_named(n_arguments == 8 ? arguments[7] : "");
    return answer_steps(&c, number(arguments[2]), arguments[6], &cpu, streams);
  }
  fprintf(stderr,
          "usage: bench_train peak [avx2] | gemm N N_OUT N_IN | steps BATCH HEIGHT WIDTH CHANNELS ARCH [avx2] | "
          "stream BATCH HEIGHT WIDTH CHANNELS ARCH\n");
  return 4;
}
