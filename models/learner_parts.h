/* What the files of the learner share: its floats and the few helpers that more than one of them wants. Not for anybody
 * else; the learner's header says what all of it means. */
#ifndef MODELS_LEARNER_PARTS_H
#define MODELS_LEARNER_PARTS_H

#include "models/learner.h"
#include "models/merging/merge.h"
#include "models/net/loss.h"
#include "models/net/net.h"
#include "models/share.h"
#include "models/term.h"

#define NO_PASS UINT64_MAX

struct learner {
  struct learner_config config;
  const struct arch *arch;
  size_t n;           /* P */
  struct share share; /* what of it travels … */
  size_t n_shared;    /* … so many values */
  struct net *net;

  /* [P]; while the net works, in its layout, [net_floats] */
  float *x;                            /* the model */
  float *states[MAX_OPTIMISER_STATES]; /* the optimiser's; NULL behind its last */
  float *gradient;                     /* NULL: it is added straight into the momentum */
  struct terms added;                  /* what the job adds to a step */
  struct trained {                     /* which values of x the optimiser steps: of each layer that learns */
    struct net_range *shared, *personal;
    size_t n_shared, n_personal;
  } trained;
  uint64_t n_taken; /* steps of the optimiser so far */

  float *shared; /* [n_shared] that part of x, where it is not all of it; else NULL */
  float *copy;   /* [n_shared] x̂ */
  float *spare;  /* [n_shared] x̂' while it is pending; else where x is laid out anew and a merge begins */
  bool pending;
  size_t nearby_width; /* of an x that is near it then (models/merging/nearby.h); 0: it is not */

  struct { /* what the last learner_train began with */
    bool is_known;
    float *x, *states[MAX_OPTIMISER_STATES]; /* [P] */
    uint64_t n_taken;
    double own_step;
  } before;

  struct {         /* the site's own model (models/personal.h) */
    float *v;      /* [P]; NULL: there is none */
    float *served; /* [P] the mixture; NULL: v itself */
    double alpha;  /* of v in it */
  } own;

  float **copies; /* [n_copies][n_shared] x̂_j */

  struct statistics statistics; /* which values of what is shared they are */
  struct distance_ring ring;
  uint32_t steps;            /* a round; 0: by epochs */
  double own_step;           /* ‖x after − x before‖ of the last learner_train */
  uint64_t rounding_seed;    /* of the payload of that round */
  uint32_t *codec_scratch;   /* NULL: the codec wants none */
  struct rule_space *space;  /* for merges */
  struct rule_peer *merging; /* [n_copies] */
  struct ledger_room {       /* of sections; NULL without a ledger */
    uint8_t *bytes;          /* [most_bytes] */
    double *numbers;         /* [1 + most_bytes / 4, rounded up] */
    float **arrays;          /* [n_copies] */
    size_t *copies;          /* [n_copies] */
  } ledger;
  bool has_step; /* x is the half-step from before.x of the last learner_train */

  const struct dataset *train;
  const struct dataset *tests[N_TEST_SETS];
  struct continual *continual; /* NULL: all samples at once, and nothing below is of tasks */
  uint32_t *order;             /* [train->n], those of the present task in front */
  uint64_t in_order;           /* by steps: the pass whose order that is; else NO_PASS */

  /* One batch. */
  size_t max_batch;
  uint32_t *index;  /* [max_batch] */
  uint16_t *labels; /* [max_batch] */
  float *targets;   /* [max_batch][n_outputs] */
  float *d_z;       /* [max_batch][n_outputs] */
  float *z;         /* [max_batch][n_outputs] outputs of which some do not count; NULL: all do */
  float *weights;   /* [n_outputs] of classes in training; NULL: all count alike */
};

/* Arrays of the optimiser beside the model. */
size_t learner_states(const struct learner *l);

/* Steps on x in the net's layout, l->states and l->n_taken, from the samples of a round, under these terms; `done` steps of
 * `total` come before it for the hook. out_loss: the mean of its batches. */
struct lesson {
  struct training training;
  struct terms *terms;
  size_t done, total;
  bool is_apart; /* learner_teach's: the gradient from the step */
};
enum err learner_teach(struct learner *l, struct lesson *lesson, const struct work_hook *hook, double *out_loss);
struct training learner_training(const struct learner *l, uint64_t round, uint32_t sub);
struct loss learner_training_loss(const struct learner *l);

/* x ← coordinate median of the arrays [n_shared], and all that was known of the x before is forgotten. */
void learner_adopt_values(struct learner *l, const float *const *chosen, size_t n);

/* The own model begins as x. */
void learner_own_reset(struct learner *l);

/* After x or v came from elsewhere: the mixture of them. */
void learner_own_mix(struct learner *l);

/* What is judged and served: [net_floats] long, in the order of the model. */
float *learner_judged(struct learner *l);

/* Metrics of a model [P] that is not x; spare is lost. */
enum err learner_evaluate_values(struct learner *l, const struct dataset *d, float *values,
                                 const struct work_hook *hook, struct metrics *out_metrics);

void learner_swap(float **a, float **b);

/* The optimiser begins anew. */
void learner_forget_states(struct learner *l);

/* What is right of n samples, whose inputs the net has been given. */
struct answers learner_answers(struct learner *l, const struct dataset *d, const uint32_t *index, size_t n);

/* The loss by which models are judged; training may weigh and smooth. */
struct loss learner_plain_loss(const struct learner *l);

enum err learner_call_hook(const struct work_hook *hook, size_t done, size_t total);

/* In a half x stands beside x̂' with so many bytes a value where that is shorter. */
enum { NEARBY_HEAD_BYTES = 8 };
bool learner_nearby_is_shorter(const struct learner *l, size_t width);

/* What is shared of a model [P]: [n_shared], in that model, or in `room`. */
float *learner_shared_of(const struct learner *l, float *model, float *room);

/* The same of x; and what stands in `spare` becomes that part of x, spare's contents being lost. */
float *learner_shared(struct learner *l);
void learner_take_shared(struct learner *l);

/* Variances below 0 in x become 0. */
void learner_floor(struct learner *l);
bool learner_has_tasks(const struct learner_config *c);

float *learner_copy(const struct learner *l, size_t copy);

/* Whether a merge measures by the last training, so that a half holds what that began with. */
bool learner_keeps_root(const struct learner *l);

#endif
