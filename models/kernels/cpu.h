/* What this CPU can do beyond its architecture's base, so that one binary runs on every x86-64 and arm64 host.
 *
 * A value to hand down: asked for once where something is opened, and passed to whoever chooses a kernel; a test passes a
 * lesser one. Where the operating system or valgrind hides a feature, it is absent here. Pure. */
#ifndef MODELS_KERNELS_CPU_H
#define MODELS_KERNELS_CPU_H

#include <stdbool.h>

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

#endif
