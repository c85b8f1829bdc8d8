/* The networks of order.c for one instruction set: included once for each, with VECTOR, MIN, MAX, TARGET and NAME(x). n is
 * a constant where the bodies are inlined, so the wires live in registers and what a result does not need is not computed. */

typedef double NAME(doubles) __attribute__((vector_size(2 * sizeof(VECTOR))));

/* Returns how many values are done: whole vectors. */
static inline __attribute__((always_inline)) TARGET size_t NAME(median_body)(const float *const *x, const size_t n,
                                                                             size_t n_values, float *restrict out) {
  enum { LANES = sizeof(VECTOR) / sizeof(float) };
  size_t i = 0;
  for (; i + LANES <= n_values; i += LANES) {
    VECTOR v[ORDER_NETWORK_MAX], lower;
    WIRES(LOAD)
    NETWORK(EXCHANGE)
    lower = v[n / 2];
    if (n % 2 == 0)
      lower = 0.5f * v[(n - 1) / 2] + 0.5f * lower;
    memcpy(out + i, &lower, sizeof lower);
  }
  return i;
}

static inline __attribute__((always_inline)) TARGET size_t NAME(trimmed_body)(const float *const *x, const size_t n,
                                                                              size_t n_values, size_t f,
                                                                              float *restrict out) {
  enum { LANES = sizeof(VECTOR) / sizeof(float) };
  const double share = 1.0 / (double)(n - 2 * f);
  size_t i = 0;
  for (; i + LANES <= n_values; i += LANES) {
    VECTOR v[ORDER_NETWORK_MAX], lower;
    NAME(doubles) sum = {0};
    WIRES(LOAD)
    NETWORK(EXCHANGE)
    WIRES(ADD_KEPT)
    lower = __builtin_convertvector(share * sum, VECTOR);
    memcpy(out + i, &lower, sizeof lower);
  }
  return i;
}

TARGET static void NAME(median)(const float *const *x, size_t n, size_t n_values, float *out) {
  size_t done = 0;
  switch (n) {
    COUNTS(CASE_MEDIAN)
  default:
    break;
  }
  median_range(x, n, done, n_values, out);
}

TARGET static void NAME(trimmed)(const float *const *x, size_t n, size_t n_values, size_t f, float *out) {
  size_t done = 0;
  MUST(2 * f < n);
  switch (n) {
    COUNTS(CASE_TRIMMED)
  default:
    break;
  }
  trimmed_range(x, n, f, done, n_values, out);
}

#undef VECTOR
#undef MIN
#undef MAX
#undef TARGET
#undef NAME
