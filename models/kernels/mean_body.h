/* The sum of mean.c for one instruction set: included once for each, with DOUBLES and FLOATS (the vector of as many floats),
 * WIDEN(p) for floats in memory, NARROW(doubles), TARGET and NAME(x). Four vectors at a time, so that what a term costs
 * beside its values is shared. */

#define BEGIN(k) DOUBLES own_##k = WIDEN(own + i + (k)*step), sum_##k = WIDEN(x + i + (k)*step);

#define ADD(k) sum_##k += terms[j].weight * (WIDEN(y + (k)*step) - own_##k);

/* What is finite adds 0 to `bad`, all else makes it NaN. */
#define END(k)                                                                                                         \
  FLOATS v_##k = NARROW(sum_##k);                                                                                      \
  bad += v_##k - v_##k;                                                                                                \
  memcpy(out + i + (k)*step, &v_##k, sizeof v_##k);

#define FOUR(STEP) STEP(0) STEP(1) STEP(2) STEP(3)

TARGET static bool NAME(sum)(const float *x, const float *own, const struct mean_term *terms, size_t n_terms,
                             size_t n_values, float *out) {
  enum { LANES = sizeof(FLOATS) / sizeof(float) };
  const size_t step = LANES;
  FLOATS bad = {0};
  size_t i = 0;
  for (; i + 4 * step <= n_values; i += 4 * step) {
    FOUR(BEGIN)
    for (size_t j = 0; j < n_terms; j++) {
      const float *y = terms[j].values + i;
      FOUR(ADD)
    }
    FOUR(END)
  }
  float lanes[LANES];
  memcpy(lanes, &bad, sizeof bad);
  return sum_range(x, own, terms, n_terms, i, n_values, out) && floats_finite(lanes, LANES);
}

#undef BEGIN
#undef ADD
#undef END
#undef FOUR
#undef DOUBLES
#undef FLOATS
#undef WIDEN
#undef NARROW
#undef TARGET
#undef NAME
