/* The layer table: what each kind of layer is called, which tensors it has and how it computes.
 *
 * A new kind of layer is one new row; nothing else in the room knows the kinds. A layer sees a batch of n samples as rows
 * [n][n_in] → [n][n_out]. Its parameters are consecutive in the model, from `offset` on. Layers hold no state: all
 * storage is the net's. */
#ifndef MODELS_NET_LAYER_H
#define MODELS_NET_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/rng.h"
#include "models/contract.h"
#include "models/schema.h"

enum { MAX_LAYER_TENSORS = 2, MAX_LAYER_NAME_BYTES = 48 };

struct layer_type;

struct layer {
  const struct layer_type *type;
  char name[MAX_LAYER_NAME_BYTES]; /* stem of its tensors' names; "" without parameters */
  uint32_t n_in, n_out;            /* values a sample */
  double rate;                     /* dropout's P */
  bool before_relu;                /* the next layer is relu: decides the spread of the first weights */
  size_t offset;                   /* of its parameters in the model */
};

/* What a layer sees of one batch. */
struct pass {
  size_t n;        /* samples */
  const float *w;  /* its parameters */
  const float *in; /* [n][n_in] */
  float *out;      /* [n][n_out] */
  float *kept;     /* [n][n_out], when the type keeps something from forward to backward */
  struct rng *rng; /* of dropout; NULL outside training */
};

/* Going backwards. */
struct gradient {
  const float *d_out; /* [n][n_out] ∂L/∂out */
  float *d_in;        /* [n][n_in] ∂L/∂in, to be written; NULL: not wanted */
  float momentum;
  float *g; /* the layer's parameters: g ← momentum·g + ∂L/∂w */
};

struct layer_type {
  const char *word;     /* in the architecture line */
  const char *argument; /* what follows the word, in words for people; NULL: nothing */
  const char *stem;     /* of default names; NULL: it has no parameters and takes no name */
  bool keeps;           /* it uses pass.kept */

  /* Reads the argument (NULL for types without one) with n_in known; sets n_out and what else the type needs.
   * ERR_RANGE when it does not fit. */
  enum err (*read)(struct layer *l, const char *argument, const struct contract *contract);

  /* Canonical form, "dense 128", without name. */
  int (*text)(const struct layer *l, char *out_text, size_t capacity);

  /* Name, role and shape of each parameter tensor; returns how many. */
  size_t (*tensors)(const struct layer *l, struct tensor out_tensors[MAX_LAYER_TENSORS]);

  /* First weights; NULL without parameters. */
  void (*init)(const struct layer *l, struct rng *rng, float *out_w);

  void (*forward)(const struct layer *l, const struct pass *pass);

  /* d_in is NULL only for types with parameters: nothing before them learns. */
  void (*backward)(const struct layer *l, const struct pass *pass, const struct gradient *gradient);

  double (*flops)(const struct layer *l); /* floating-point operations of one sample, forwards */
};

/* The rows, in the order in which help lists them. */
const struct layer_type *layer_types(size_t *out_n);

/* NULL when there is none. */
const struct layer_type *layer_type_find(const char *word);

/* Number of parameters. ERR_LIMIT above MAX_PARAMETERS. */
MUST_USE enum err layer_parameters(const struct layer *l, size_t *out_n);

#endif
