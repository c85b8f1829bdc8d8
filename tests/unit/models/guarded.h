/* Arrays that begin or end at a page that nobody may touch: what reads or writes one byte beside them is killed, whatever
 * instruction does it and whatever the compiler made of it. For what sanitisers and valgrind cannot see: instructions with
 * masks, and those that valgrind does not know. */
#ifndef TESTS_UNIT_MODELS_GUARDED_H
#define TESTS_UNIT_MODELS_GUARDED_H

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_GUARDED = 20, MAX_GUARDED_BYTES = 4 << 20 };

struct guarded {
  bool at_start; /* the arrays begin behind such a page; else they end before one */
  size_t n;      /* in use; 0: all may be taken anew */
};

/* The i-th place for an array, MAX_GUARDED_BYTES between two such pages; mapped once a program. */
static inline char *guarded_place(size_t i) {
  static char *places[MAX_GUARDED];
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  ck_assert_uint_lt(i, MAX_GUARDED);
  if (!places[i]) {
    char *base = mmap(NULL, MAX_GUARDED_BYTES + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(base, MAP_FAILED);
    ck_assert_int_eq(mprotect(base + page, MAX_GUARDED_BYTES, PROT_READ | PROT_WRITE), 0);
    places[i] = base + page;
  }
  return places[i];
}

/* n_bytes with any contents. */
static inline void *guarded_bytes(struct guarded *g, size_t n_bytes) {
  ck_assert_uint_le(n_bytes, MAX_GUARDED_BYTES);
  return guarded_place(g->n++) + (g->at_start ? 0 : MAX_GUARDED_BYTES - n_bytes);
}

/* n floats, all the same. */
static inline float *guarded_floats(struct guarded *g, size_t n, float value) {
  float *x = guarded_bytes(g, n * sizeof *x);
  for (size_t i = 0; i < n; i++)
    x[i] = value;
  return x;
}

/* What is being tried, for the one line that is said of it when it is killed. */
static char guarded_what[200];

static inline void guarded_on_fault(int signal_number) {
  static const char said[] = " touches memory beside its arrays\n";
  (void)!write(STDERR_FILENO, guarded_what, strlen(guarded_what));
  (void)!write(STDERR_FILENO, said, sizeof said - 1);
  signal(signal_number, SIG_DFL); /* and again, so that the test ends by the signal */
}

#define GUARDED_TRY(...)                                                                                               \
  do {                                                                                                                 \
    snprintf(guarded_what, sizeof guarded_what, __VA_ARGS__);                                                          \
    signal(SIGSEGV, guarded_on_fault);                                                                                 \
  } while (0)

#endif
