/* The CPU's features: what the operating system lists, no more. */
#include "models/kernels/cpu.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/suite.h"

START_TEST(detection_is_stable_and_ordered) {
  struct cpu a = cpu_detect(), b = cpu_detect();
  ck_assert(cpu_has(&a, &b) && cpu_has(&b, &a));
  ck_assert(!a.avx512 || a.avx2);
  ck_assert(!a.f16c || a.avx2);
}
END_TEST

START_TEST(a_feature_that_is_missing_is_noticed) {
  const struct cpu none = {0};
  const struct cpu each[] = {{.avx2 = true}, {.f16c = true}, {.avx512 = true}, {.neon = true}};
  for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
    ck_assert(cpu_has(&each[i], &each[i]));
    ck_assert(cpu_has(&each[i], &none));
    ck_assert(!cpu_has(&none, &each[i]));
  }
}
END_TEST

START_TEST(the_fastest_is_the_last_that_runs) {
  static const struct {
    const char *name;
    struct cpu needs;
  } rows[] = {{"plain", {0}}, {"avx2", {.avx2 = true}}, {"avx512", {.avx512 = true}}, {"neon", {.neon = true}}};
  const struct cpu none = {0}, some = {.avx2 = true}, more = {.avx2 = true, .avx512 = true}, other = {.neon = true};
  ck_assert_uint_eq(CPU_FASTEST(&none, rows), 0);
  ck_assert_uint_eq(CPU_FASTEST(&some, rows), 1);
  ck_assert_uint_eq(CPU_FASTEST(&more, rows), 2);
  ck_assert_uint_eq(CPU_FASTEST(&other, rows), 3);
}
END_TEST

/* Whether /proc/cpuinfo, where there is one, has the word in its line of flags. */
static bool listed(const char *flags, const char *word) {
  size_t n = strlen(word);
  for (const char *at = flags; (at = strstr(at, word)); at += n)
    if (at[-1] == ' ' && (at[n] == ' ' || at[n] == '\n'))
      return true;
  return false;
}

START_TEST(nothing_is_found_that_the_system_does_not_list) {
  struct cpu cpu = cpu_detect();
  FILE *file = fopen("/proc/cpuinfo", "r");
  char line[8192];
  while (file && fgets(line, sizeof line, file)) {
    if (strncmp(line, "flags\t", 6) != 0)
      continue;
    ck_assert(!cpu.avx2 || (listed(line, "avx2") && listed(line, "fma")));
    ck_assert(!cpu.f16c || listed(line, "f16c"));
    ck_assert(!cpu.avx512 || (listed(line, "avx512f") && listed(line, "avx512vl")));
    break;
  }
  if (file)
    fclose(file);
}
END_TEST

int main(void) {
  return SUITE_RUN("cpu", detection_is_stable_and_ordered, a_feature_that_is_missing_is_noticed,
                   the_fastest_is_the_last_that_runs, nothing_is_found_that_the_system_does_not_list);
}
