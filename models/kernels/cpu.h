/* What this CPU can do beyond its architecture's base, so that one binary runs on every x86-64 and arm64 host.
 *
 * A value to hand down: asked for once where something is opened, and passed to whoever chooses a kernel; a test passes a
 * lesser one. Where the operating system or valgrind hides a feature, it is absent here. Pure. */
#ifndef MODELS_KERNELS_CPU_H
#define MODELS_KERNELS_CPU_H

#include <stdbool.h>
#include <stddef.h>

struct cpu {
  bool avx2;   /* AVX2 and FMA: functions with target("avx2,fma") */
  bool f16c;   /* half precision: target("avx,f16c") */
  bool avx512; /* F, BW, DQ and VL: target("avx512f,avx512bw,avx512dq,avx512vl") */
  bool neon;   /* Advanced SIMD, which every arm64 CPU has */
};

/* This one. Cheap; any thread. */
struct cpu cpu_detect(void);

/* Whether `cpu` has all that `needed` has. */
bool cpu_has(const struct cpu *cpu, const struct cpu *needed);

/* The last row of a table of kernels, each with a member `needs`, that `cpu` can run; the first needs nothing. */
#define CPU_FASTEST(cpu, rows) cpu_fastest(cpu, &(rows)->needs, sizeof *(rows), sizeof(rows) / sizeof *(rows))

/* The same, of n such members that begin `stride` bytes apart. */
size_t cpu_fastest(const struct cpu *cpu, const struct cpu *needs, size_t stride, size_t n);

#endif
