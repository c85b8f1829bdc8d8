/* Training terms: what may add to a step of training, or change its gradient, beside the loss. One row a term; the learner
 * knows none of them by name.
 *
 * A step with terms, x being the model in the layout of the net (models/net/net.h):
 *
 *   inputs of a batch stand in net_input                       → TERM_INPUTS    may look at them, and run the net on them
 *   z, d_z: outputs in training and ∂L/∂z of the loss          → TERM_OUTPUTS   adds to d_z, or scales it
 *   g: ∂L/∂x of that d_z, of the whole batch                   → TERM_GRADIENT  adds to g, or projects it
 *   clipping, a step of the optimiser
 *
 * A training that has a term at TERM_GRADIENT takes the gradient apart from the step, which a training without such terms
 * does not (models/net/optimiser.h, optimiser_folds): that one is as fast and has the same bits as if there were no terms.
 * The terms come in the order of the table, each seeing what those before it have made; so what projects stands last.
 *
 * A term may use the net for its own: net_forward does not write net_input, so that another model can run on the batch at
 * TERM_INPUTS (and what is kept of its outputs is the term's); at TERM_GRADIENT the batch is done with, so that another one can go
 * forwards and backwards, and g be added to (net_backward, momentum 1). net_load loses outputs, too: in `begin` and `end` only.
 *
 * What a term keeps from round to round stands in arrays of the learner's: kept [P], in the order of the model, and numbers.
 * They are in the half snapshot under the term's word, zeros at first, finite; so a restart goes on with the same bits. Where
 * training itself changes them (`is_undone`), learner_undo takes them back as it does the model.
 *
 * Thread: the trainer thread. No clock; randomness from train_stream with round and sub, under a stream of the term's own. */
#ifndef MODELS_TERM_H
#define MODELS_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"
#include "models/data/dataset.h"
#include "models/net/loss.h"
#include "models/net/net.h"
#include "models/train.h"

/* Where in a step. */
enum term_stage { TERM_INPUTS, TERM_OUTPUTS, TERM_GRADIENT, N_TERM_STAGES };

enum { MAX_TERMS = 8, MAX_TERM_ARRAYS = 4, MAX_TERM_NUMBERS = 4, MAX_TERM_WORD_BYTES = 16 };

/* The training in work; the arrays are borrowed for the call. */
struct training {
  const struct train_config *config;
  const struct dataset *data; /* the local training samples */
  struct net *net;
  const struct loss *loss;        /* as this training judges, with its weights of classes */
  size_t n_values;                /* P */
  const float *start;             /* [P] the model at the start of the round, in the order of the model */
  float *x;                       /* [net_floats] the model now */
  const struct net_range *ranges; /* of x that the optimiser steps … */
  size_t n_ranges;
  const struct net_range *shared; /* … and those of them that are not personal: what the swarm has a say in */
  size_t n_shared;
  uint64_t round;
  uint32_t sub;
  double rate; /* of this round */
  size_t n_steps;
};

/* A batch of it. */
struct term_batch {
  size_t step;           /* from 0 */
  size_t n;              /* samples */
  const uint32_t *index; /* [n] which of data */
  size_t n_outputs;
  const float *z; /* [n][n_outputs]; NULL before the forward pass … */
  float *d_z;     /* [n][n_outputs] … as is this … */
  float *g;       /* [net_floats] … and this before the backward pass; statistics' places mean nothing */
};

struct term {
  const struct term_type *type;
  float *kept[MAX_TERM_ARRAYS];     /* [P], the first type->n_kept */
  double numbers[MAX_TERM_NUMBERS]; /* the first type->n_numbers; kept, too */
  float *work[MAX_TERM_ARRAYS];     /* [net_floats], the first type->n_work; any contents when a training begins */
  struct {                          /* is_undone: as they were before the training */
    float *kept[MAX_TERM_ARRAYS];
    double numbers[MAX_TERM_NUMBERS];
  } before;
  void *own; /* what type->open made; NULL without */
};

struct term_type {
  const char *word; /* in snapshots and in views, less than MAX_TERM_WORD_BYTES: "proximal" */
  size_t n_kept, n_numbers, n_work;
  bool is_undone; /* training changes what is kept */

  bool (*is_on)(const struct train_config *c); /* by the settings of the job; asked once */

  /* What no arrays of floats can hold. NULL: nothing. */
  enum err (*open)(struct term *t, const struct train_config *c);
  void (*close)(struct term *t);

  /* Before the first batch, and after the last of a training that succeeded; NULL: nothing to do. After an error the training
   * is undone. */
  enum err (*begin)(struct term *t, const struct training *training);
  enum err (*end)(struct term *t, const struct training *training);

  /* In each step; NULL: nothing to do there. An error ends the training. */
  enum err (*at[N_TERM_STAGES])(struct term *t, const struct training *training, const struct term_batch *b);

  /* The model did not come from a training and a merge: it was adopted or imported. NULL: what is kept stays. */
  void (*forget)(struct term *t);
};

/* The rows, in the order in which terms act; NULL behind the last. */
const struct term_type *term_type_at(size_t i);

/* ---- for the learner */

struct terms {
  struct term list[MAX_TERMS];
  size_t n;
};

/* Those that are on. ERR_NO_MEMORY and the terms' own. n_floats: net_floats, of the work arrays. */
MUST_USE enum err terms_open(const struct train_config *c, size_t n_values, size_t n_floats, struct terms *out_terms);
void terms_close(struct terms *t);

/* Other work arrays, for another net. ERR_NO_MEMORY, with the old ones in place. */
MUST_USE enum err terms_fit(struct terms *t, size_t n_floats);

/* Arrays of the terms that are on: of P floats, those that a half holds, and of net_floats. */
struct terms_size {
  size_t n_arrays, n_kept, n_work;
};
struct terms_size terms_size(const struct train_config *c);

/* Whether the gradient must be apart from the step. */
bool terms_need_gradient(const struct train_config *c);

/* Whether one of these acts there. */
bool terms_have(const struct terms *t, enum term_stage stage);

/* Once before terms_begin, and before anything else of a training that may fail: what terms_undo gives back. */
void terms_keep(struct terms *t, size_t n_values);

MUST_USE enum err terms_begin(struct terms *t, const struct training *training);
MUST_USE enum err terms_end(struct terms *t, const struct training *training);
MUST_USE enum err terms_at(struct terms *t, enum term_stage stage, const struct training *training,
                           const struct term_batch *b);

/* What is kept is as it was at terms_keep. */
void terms_undo(struct terms *t);
void terms_forget(struct terms *t);

/* Whether all that is kept is finite. */
bool terms_finite(const struct terms *t, size_t n_values);

/* g += by·(x − to) over what is shared; over all that is stepped. */
void term_pull_shared(const struct training *training, double by, const float *to, float *g);
void term_pull(const struct training *training, double by, const float *to, float *g);

/* ---- the terms: one line a row of the table in term.c */

extern const struct term_type term_proximal; /* models/drift/proximal.c */
extern const struct term_type term_control;  /* models/drift/control.c */

#endif
