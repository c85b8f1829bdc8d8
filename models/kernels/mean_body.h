/* The sum of mean.c for one instruction set: included once for each, with DOUBLES and FLOATS (the vector of as many floats),
 * WIDEN(p) for floats in memory, NARROW(doubles), TARGET and NAME(x). Two vectors at a time, so that what a term costs
 * beside its values is shared. */

TARGET static bool NAME(sum)(const float *x, const float *own, const struct mean_term *terms, size_t n_terms,
                             size_t n_values, float *out) {
  enum { LANES = sizeof(FLOATS) / sizeof(float) };
  FLOATS bad = {0};
  size_t i = 0;
  for (; i + 2 * LANES <= n_values; i += 2 * LANES) {
    DOUBLES own_0 = WIDEN(own + i), own_1 = WIDEN(own + i + LANES);
    DOUBLES sum_0 = WIDEN(x + i), sum_1 = WIDEN(x + i + LANES);
    for (size_t j = 0; j < n_terms; j++) {
      const float *y = terms[j].values + i;
      sum_0 += terms[j].weight * (WIDEN(y) - own_0);
      sum_1 += terms[j].weight * (WIDEN(y + LANES) - own_1);
    }
    FLOATS v_0 = NARROW(sum_0), v_1 = NARROW(sum_1);
    bad += (v_0 - v_0) + (v_1 - v_1); /* 0 or NaN */
    memcpy(out + i, &v_0, sizeof v_0);
    memcpy(out + i + LANES, &v_1, sizeof v_1);
  }
  float lanes[LANES];
  memcpy(lanes, &bad, sizeof bad);
  return sum_range(x, own, terms, n_terms, i, n_values, out) && floats_finite(lanes, LANES);
}

#undef DOUBLES
#undef FLOATS
#undef WIDEN
#undef NARROW
#undef TARGET
#undef NAME
