/* One kind of layer in double with naive loops: a row of the table in net_twin.c, written in the file of its family. */
#ifndef TESTS_REF_TWIN_LAYER_H
#define TESTS_REF_TWIN_LAYER_H

#include <stddef.h>

#include "base/rng.h"
#include "models/net/layer.h"

/* Arrays as in models/net/layer.h, in the order of the model. Everything that backward writes is added to: it is zero
 * before. */
struct twin_pass {
  const struct layer *l;
  size_t n;
  const double *w;      /* its parameters, statistics included */
  const double *in;     /* [n][n_in] */
  const double *before; /* end of a block: what went into it */
  double *out;          /* [n][n_out] */
  double *slope; /* [n][n_out] ∂out/∂in of layers that work value by value; others may keep something in it */
  bool training;
  struct rng *rng; /* of dropout; NULL outside training */

  /* backward */
  const double *d_out;
  double *d_in, *d_before; /* d_before: end of a block, ∂L/∂before */
  double *g;
};

struct twin_layer {
  const char *word;
  void (*forward)(const struct twin_pass *p);
  void (*backward)(const struct twin_pass *p); /* NULL: d_in is slope · d_out */
};

/* The rows of families that have a file of their own. */
extern const struct twin_layer twin_conv, twin_conv1d, twin_depthwise;
extern const struct twin_layer twin_pool, twin_avgpool, twin_globalpool;
extern const struct twin_layer twin_tanh, twin_sigmoid, twin_leakyrelu, twin_elu, twin_gelu, twin_silu, twin_softplus;
extern const struct twin_layer twin_hardswish;                                 /* twin_smooth.c */
extern const struct twin_layer twin_batchnorm, twin_groupnorm, twin_layernorm; /* twin_norm.c */
extern const struct twin_layer twin_embed, twin_gru;                           /* twin_series.c */

/* n zeros, for free(). */
double *twin_doubles(size_t n);

#endif
