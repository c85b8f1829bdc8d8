#include "models/kernels/cpu.h"

#if defined __x86_64__
struct cpu cpu_detect(void) {
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  /* Every CPU with AVX2 has F16C, which came before it; clang 14 cannot ask for F16C by name. */
  return (struct cpu){.avx2 = avx2, .f16c = avx2, .avx512 = avx2 && avx512};
}
#elif defined __aarch64__
struct cpu cpu_detect(void) {
  return (struct cpu){.neon = true};
}
#else
struct cpu cpu_detect(void) {
  return (struct cpu){0};
}
#endif

bool cpu_has(const struct cpu *cpu, const struct cpu *needed) {
  return cpu->avx2 >= needed->avx2 && cpu->f16c >= needed->f16c && cpu->avx512 >= needed->avx512 &&
         cpu->neon >= needed->neon;
}

size_t cpu_fastest(const struct cpu *cpu, const struct cpu *needs, size_t stride, size_t n) {
  const char *first = (const char *)needs;
  size_t i = n - 1;
  while (i > 0 && !cpu_has(cpu, (const struct cpu *)(const void *)(first + i * stride)))
    i--;
  return i;
}
