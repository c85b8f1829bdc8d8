/* The layer table: what each kind of layer is called, which tensors it has, and the ways in which it can be computed.
 *
 * A kind of layer is one `struct layer_type`, written in the file of its family (dense.c, activation.c, conv.c …), declared
 * at the end of this header and named in the table of layer.c; nothing else in the room knows the kinds.
 *
 * Activations are NHWC: a batch is [n][height][width][channels]. An image is what the contract says, a series of T steps
 * with C values each is 1×T×C, and n plain features are 1×1×n; so a dense layer after an image reads it in NHWC order.
 * Weights have the outputs first; those of a convolution are [c_out][kernel height][kernel width][c_in].
 *
 * The parameters of a layer are consecutive in the model: first its trained tensors, then its statistics (running means and
 * the like), which no optimiser touches. Layers hold no state: all storage is the net's. */
#ifndef MODELS_NET_LAYER_H
#define MODELS_NET_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/rng.h"
#include "models/contract.h"
#include "models/kernels/cpu.h"
#include "models/kernels/selection.h"
#include "models/schema.h"

enum { MAX_LAYER_TENSORS = 4, MAX_LAYER_NAME_BYTES = 48, MAX_LAYER_WORDS = 4, MAX_KERNEL_SIDE = 1024 };

/* One sample's activations: [height][width][channels]. */
struct extent {
  uint32_t height, width, channels;
};

/* Where a convolution or a pool looks: windows of height × width, `stride` apart both ways, over an input with so many
 * rows and columns of padding at each side. */
struct window {
  uint32_t height, width, stride, pad_height, pad_width;
};

struct layer_type;

struct layer {
  const struct layer_type *type;
  char name[MAX_LAYER_NAME_BYTES]; /* stem of its tensors' names; "" without parameters */
  struct extent in, out;           /* of a sample */
  uint32_t n_in, n_out;            /* their values, at most MAX_PARAMETERS */
  struct window window;            /* of types that have one */
  double rate;                     /* dropout's P */
  uint32_t groups;                 /* groupnorm's G */
  uint32_t n_tokens;               /* embed's V */
  bool every_state;                /* gru's `states all` */
  bool is_personal;                /* its parameters stay here */
  bool before_relu;                /* a rectifier follows: decides the spread of the first weights */
  size_t partner;                  /* of the two ends of a block: the index of the other one */
  size_t offset;                   /* of its parameters in the model */
  size_t n_trained, n_statistics;  /* how many they are */
};

/* What a layer sees of one batch. */
struct pass {
  size_t n;            /* samples */
  const float *w;      /* its trained parameters as the kernel lays them out, its statistics behind them */
  float *statistics;   /* those statistics in a pass of training, to be moved on by `forward`; NULL outside training */
  const float *in;     /* [n][n_in] */
  const float *before; /* at the end of a block: what went into it, [n][n_out] */
  float *out;          /* [n][n_out] */
  float *kept;         /* [n][what the kernel keeps a sample]; the two ends of a block share the first one's */
  float *which;        /* of a kernel that takes_pool, where a pool follows: what that keeps; else NULL */
  float *scratch;      /* what the kernel asked for, on a cache line; any contents, lost after the call */
  bool relu;       /* to be applied to out as well; d_out is then ∂L/∂ of that. Only where the kernel takes_relu */
  struct rng *rng; /* of dropout; NULL outside training, and backwards */
};

/* Going backwards. */
struct gradient {
  const float *d_out; /* [n][n_out] ∂L/∂out */
  float *d_in;        /* [n][n_in] ∂L/∂in, to be written; NULL: not wanted */
  bool gated; /* in is what a relu put out, and d_in lies in its place: 0 where in ≤ 0. Only where the kernel gates */
  float momentum; /* β */
  float *g;       /* [trained, as w is laid out]: g ← β·g + ∂L/∂w; with β = 0 any contents, NaN too */

  /* A step that a kernel which `folds` takes at once, d_in being made of the old weights: g ← β·g + ∂L/∂w + decay·w, then
   * w ← w − rate·g; with β = 0 it may leave g as it was. NULL: no step. */
  float *w;
  float rate, decay;
};

/* A way of computing a layer. */
struct kernel {
  const char *name; /* "plain", "packed", "im2col", "winograd" … */

  bool (*fits)(const struct layer *l, const struct cpu *cpu); /* NULL: always */
  bool takes_relu;                                            /* does pass.relu: the relu after it is then not run */
  bool folds;                                                 /* does gradient.w */
  bool gates;                                                 /* does gradient.gated: the relu before it is then done */

  /* Whether it does this pool, too, that follows it or the relu it takes; NULL: none. Then out is [n][the pool's n_out],
   * d_out ∂L/∂ of that, and pass.which what the pool keeps. */
  bool (*takes_pool)(const struct layer *l, const struct layer *pool);

  size_t (*kept)(const struct layer *l);              /* floats a sample from forward to backward; NULL: none */
  size_t (*scratch)(const struct layer *l, size_t n); /* floats for a batch of n, shared by all layers; NULL: none */

  /* The own layout of the trained parameters: its length, and the ways there and back, which only move values and pad
   * with zeros, so that optimisers can work value by value and a model that goes there and back is the same to the bit.
   * The gradient of padding is to be zero. At least n_trained floats, on a cache line. NULL: as in the model. */
  size_t (*weights)(const struct layer *l);
  void (*load)(const struct layer *l, const float *w, float *own);
  void (*store)(const struct layer *l, const float *own, float *w);

  /* forward is NULL when out is in: the net then lets both be one array. */
  void (*forward)(const struct layer *l, const struct pass *pass);

  /* d_in is NULL only for types with trained parameters: nothing before them learns. */
  void (*backward)(const struct layer *l, const struct pass *pass, const struct gradient *gradient);
};

/* A word that follows the layer's own. Those without `option` come first, in this order, and all must be there; the others
 * are pairs "option value" in any order, each at most once. */
struct layer_word {
  const char *option; /* the word before it, "stride"; NULL: none */
  const char *takes;  /* in words for people; NULL ends the list */

  /* Takes it into the layer, whose numbers are 0 before; ERR_RANGE when it is not one. */
  enum err (*read)(struct layer *l, const char *text, const struct contract *contract);
};

struct layer_type {
  const char *word; /* in the architecture line */

  const char *usage;    /* how it is written, for people: "conv HxWxC [stride S] [pad P]"; NULL: the word alone */
  const char *sentence; /* what it does; NULL: the end of a block, which nobody writes as a layer */

  const char *stem; /* of default names; NULL: it has no parameters and takes no name */
  struct layer_word words[MAX_LAYER_WORDS + 1];

  bool rectifies;                  /* relu and its like: weights before it begin as wide as He et al. 2015 say */
  bool transparent;                /* norms, pools: a rectifier behind it counts for the layer before it, too */
  const struct layer_type *closes; /* it opens a block `word { … }`, whose other end is of this type; else NULL */

  /* With `in`, n_in and the words known: sets `out` by layer_set_out, and the defaults of words that are not there. On
   * failure a sentence with the remedy: ERR_RANGE when the input does not suit, ERR_LIMIT. At the end of a block `out` is
   * what went into it. */
  enum err (*shape)(struct layer *l, char why[MAX_REASON_BYTES]);

  /* Canonical form, "dense 128", without name. */
  int (*text)(const struct layer *l, char *out_text, size_t capacity);

  /* Name, role and shape of each parameter tensor, statistics last; returns how many. NULL: none. */
  size_t (*tensors)(const struct layer *l, struct tensor out_tensors[MAX_LAYER_TENSORS]);

  /* First parameters [n_trained + n_statistics]; NULL: zeros. */
  void (*init)(const struct layer *l, struct rng *rng, float *out_w);

  double (*flops)(const struct layer *l); /* floating-point operations of one sample, forwards; NULL: one a value */

  /* The first is the plain one, which always fits and runs anywhere; every other equals it to 1e-4 relative. Where nothing
   * was measured the last that fits is taken, so the better stand further down. */
  const struct kernel *kernels;
  size_t n_kernels;
};

/* The kernels of a type, a table of several. */
#define LAYER_KERNELS(rows) .kernels = (rows), .n_kernels = sizeof(rows) / sizeof *(rows)

/* The rows, in the order in which `starling help layers` lists them; NULL behind the last. */
const struct layer_type *layer_type_at(size_t i);

/* NULL when there is none. */
const struct layer_type *layer_type_find(const char *word);

/* ---- for the families */

/* out and n_out. ERR_LIMIT, with a sentence, when it has more than MAX_PARAMETERS values. */
MUST_USE enum err layer_set_out(struct layer *l, struct extent out, char why[MAX_REASON_BYTES]);

/* shape and text of types whose outputs are as their inputs, and which are their word alone. */
MUST_USE enum err layer_shape_same(struct layer *l, char why[MAX_REASON_BYTES]);
int layer_text_word(const struct layer *l, char *out_text, size_t capacity);

/* kernel.kept of one float a value. */
size_t layer_kept_values(const struct layer *l);

/* Digits alone, lo … hi; ERR_RANGE. */
MUST_USE enum err layer_read_count(const char *text, uint32_t lo, uint32_t hi, uint32_t *out);

/* "5x5x8": exactly n numbers of 1 … hi with an 'x' between; ERR_RANGE. */
MUST_USE enum err layer_read_counts(const char *text, size_t n, uint32_t hi, uint32_t *out);

/* A tensor called NAME.what. */
struct tensor layer_tensor(const struct layer *l, const char *what, enum role role, uint32_t rank,
                           const uint32_t shape[]);

/* First weights [n]: uniform in ±√(6/fan_in) before a rectifier (He et al. 2015), else in ±√(6/(fan_in + fan_out)) (Glorot
 * & Bengio 2010). */
void layer_init_uniform(const struct layer *l, double fan_in, double fan_out, struct rng *rng, size_t n, float *out_w);

/* ---- for the net and the parser */

/* Values of an extent: 0 when they are more than MAX_PARAMETERS. */
size_t extent_values(struct extent e);

/* Sets n_trained and n_statistics. ERR_LIMIT: more than MAX_PARAMETERS. */
MUST_USE enum err layer_count_parameters(struct layer *l);

double layer_flops(const struct layer *l);

/* Its key in a selection (models/kernels/selection.h). */
void layer_key(const struct layer *l, size_t batch, char out_key[MAX_SELECTION_KEY_BYTES]);

/* Whether a layer can be computed so on such a CPU. */
bool kernel_fits(const struct kernel *k, const struct layer *l, const struct cpu *cpu);

/* The kernel to take on such a CPU: the one of this name; where name is NULL, unknown or cannot run, the last that can. */
const struct kernel *layer_kernel(const struct layer *l, const char *name, const struct cpu *cpu);

/* ---- the rows */

extern const struct layer_type layer_dense;
extern const struct layer_type layer_conv, layer_conv1d, layer_depthwise;
extern const struct layer_type layer_pool, layer_avgpool, layer_globalpool;
extern const struct layer_type layer_relu, layer_leakyrelu, layer_elu, layer_gelu, layer_silu, layer_softplus;
extern const struct layer_type layer_hardswish, layer_tanh, layer_sigmoid, layer_dropout;
extern const struct layer_type layer_batchnorm, layer_groupnorm, layer_layernorm;
extern const struct layer_type layer_embed, layer_gru;
extern const struct layer_type layer_residual, layer_residual_end;

#endif
