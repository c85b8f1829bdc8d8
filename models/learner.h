/* The learner: every float of one job and what may be done with them.
 *
 * It owns the model x, the optimiser's state, the public copy x̂ that peers hold of us, the copies x̂_j that we hold of
 * the peers we follow, and the ring of accepted distances. A round is
 *
 *   learner_train      x ← K local SGD steps from x            (the half-step)
 *   learner_encode     payload = Q(x − x̂), x̂' = x̂ + decode(payload)   pending
 *   learner_published  x̂ ← x̂'                                 once the payload is durable (RULE: x̂ moves only then)
 *   learner_copy_…     x̂_j ← x̂_j + decode(payload of j)        links in sequence order, or a full copy
 *   learner_merge      x ← x + γ Σ_j w_j (x̂_j − x̂)             weights by the caller, γ of the codec; or another rule
 *   learner_personalise   what this site makes of it for itself (models/personal.h)
 *   learner_evaluate   loss, accuracy … on the validation or a test set
 *
 * Shapes: P = schema_parameters(schema) floats a model, tensors in schema order, row-major, outputs first. x̂, x̂_j and payloads
 * hold the S = schema_shared(schema) of them that are not personal (models/share.h); what is personal is trained, judged and
 * stored here and nowhere else, and a merge leaves it as it is.
 * Sources: Lian et al. 2017 (D-PSGD), Koloskova et al. 2019 (CHOCO-SGD: differences to a public copy), Xiao & Boyd 2004
 * (Metropolis weights).
 *
 * Thread: the trainer thread only. Owner: the trainer, from open to free. Memory is allocated in learner_open and learner_attach.
 * Bits: single-threaded BLAS, double accumulators in the order given; same input and same kernels, same bits on one host. */
#ifndef MODELS_LEARNER_H
#define MODELS_LEARNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "models/continual/continual.h"
#include "models/data/dataset.h"
#include "models/judging/metrics.h"
#include "models/kernels/selection.h"
#include "models/kernels/team.h"
#include "models/merging/codec.h"
#include "models/merging/rule.h"
#include "models/merging/statistic.h"
#include "models/schema.h"
#include "models/train.h"

/* What stands beside a model whose updates are sums (models/learner_sums.h) and is kept in every half and model of it: an
 * account, bytes of the caller's, and those copies that it speaks of. On the learner's thread. */
struct learner_ledger {
  void *context;
  size_t most_bytes; /* of an account */
  size_t (*bytes)(const void *context);
  void (*write)(const void *context, uint8_t *out_bytes);
  size_t (*copies)(const void *context, size_t *out_copies); /* [n_copies]: which, in the order of the account */
  /* Whether that is an account, and speaks of so many. What fits is taken: out_stands [n_copies]: which of them is which copy,
   * SIZE_MAX: none. */
  bool (*fits)(const void *context, const uint8_t *bytes, size_t n_bytes, size_t n_copies);
  void (*take)(void *context, const uint8_t *bytes, size_t n_bytes, size_t *out_stands);
};

struct learner_config {
  const struct schema *schema; /* borrowed for the learner's life */
  struct digest schema_hash;   /* of the schema, for the head of snapshots */
  struct train_config train;
  struct codec codec;               /* encoding of differences */
  enum statistic_policy statistics; /* in a merge; equal at every agent of the job */
  struct rule_setting rule;         /* of merges */
  double kappa;                     /* of weights by similarity (learner_merge); 0: weights as they are given */
  struct digest init;               /* seed of the first weights: equal at every agent of the job */
  uint64_t train_seed;              /* with part: seed of order and dropout */
  uint32_t part;
  const struct continual_config
      *continual;                    /* tasks in turn, borrowed for the learner's life; NULL, or none: all at once */
  size_t n_copies;                   /* peers followed */
  const struct selection *selection; /* how this host computes (models/kernels/selection.h), read in learner_open only;
                                        NULL: not measured */
  struct team *team;                 /* its threads, borrowed for the learner's life; NULL: the caller's alone */
  const struct learner_ledger *ledger; /* borrowed for its life; NULL: updates are differences */
};

struct learner;

/* x and x̂ are the first weights. ERR_UNSUPPORTED: the schema has no architecture, or no tensor but personal ones;
 * ERR_RANGE: a number of the train_config is out of range; ERR_LIMIT: the layers are too wide for such a batch;
 * ERR_NO_MEMORY. */
MUST_USE enum err learner_open(const struct learner_config *config, struct learner **out_learner);
void learner_free(struct learner *l);

/* What learner_open takes for such a learner: models and copies as they are laid out, the layers' workspace, lanes; of the
 * config only schema, train, codec, n_copies and selection count. The schema has an architecture, the batch is 1 … MAX_BATCH.
 * Never less than it is, and at most a quarter more, or 8 KiB. ERR_LIMIT: more than 1 GiB between the layers, so that learner_open
 * would fail; ERR_NO_MEMORY. */
MUST_USE enum err learner_memory(const struct learner_config *config, size_t *out_bytes);

/* What a model is judged on: this site's two splits (models/data/dataset.h), and a set that all sites share. */
enum test_set { TEST_LOCAL, TEST_VALIDATION, TEST_GLOBAL, N_TEST_SETS };

/* Lends the training set (never NULL) and the sets to judge by (NULL where there is none) for the learner's life, and makes
 * room for the order of the training samples: the only allocation after learner_open. Once. ERR_CONTRACT: a set does not
 * have the schema's inputs and outputs; ERR_RANGE: no training samples; ERR_NO_MEMORY. */
MUST_USE enum err learner_attach(struct learner *l, const struct dataset *train,
                                 const struct dataset *const tests[N_TEST_SETS]);

/* Other sets from now on, between trainings, as they are when more samples have come: the same task, inputs and classes. Errors as
 * learner_attach; the learner then has those of before. */
MUST_USE enum err learner_reattach(struct learner *l, const struct dataset *train,
                                   const struct dataset *const tests[N_TEST_SETS]);

/* Steps of one pass over the local training samples: ⌈n / batch⌉. After learner_attach. */
uint32_t learner_epoch_steps(const struct learner *l);

/* Steps of every training from now on; 0: as the train_config says. */
void learner_set_steps(struct learner *l, uint32_t steps);

/* Computes in another way from now on, for the host has changed: the only other allocation. Between trainings. After an error,
 * those of net_open, it computes as before. */
MUST_USE enum err learner_select(struct learner *l, const struct selection *selection, struct team *team);

struct train_report {
  uint32_t local_steps;
  uint32_t n_samples; /* size of the local training set */
  double loss;        /* mean over the samples of the round's batches */
  double seconds;     /* not filled here: rooms below have no clock */
};

/* Order and dropout follow from (train_seed, part, round, sub) and the number of steps alone, so a repeated round repeats
 * its bits. By epochs a round is whole passes over the samples. By steps it goes on where the one before it stopped, so
 * that all are visited in turn however many there are: it begins with batch (round − 1 + sub) · steps of an endless row of
 * passes, each in an order of its own (a change of the number leaves out or repeats a part of one pass).
 * ERR_NON_FINITE when the loss or a weight is not finite, ERR_STOPPED or another error from the hook. After an error the
 * caller undoes it or restores a snapshot. rate_scale multiplies the learning rate (1 normally; halved after failures). */
MUST_USE enum err learner_train(struct learner *l, uint64_t round, uint32_t sub, double rate_scale,
                                const struct work_hook *hook, struct train_report *out_report);

/* Takes the last learner_train back, whether it failed or not: x, what the optimiser knows, what training terms keep and where the
 * tasks stand are as they were before, to the bit. Once, as long as nothing else has changed x, and never without one. */
void learner_undo(struct learner *l);

/* Encodes the own update into out_payload, which has room for learner_payload_bound bytes. start_chain: a full f32 payload x
 * with x̂' = x; otherwise a difference in the configured codec, rounded, where it rounds at random, by the round that was trained
 * last: a repeated round repeats its payload. */
size_t learner_payload_bound(const struct learner *l);
MUST_USE enum err learner_encode(struct learner *l, bool start_chain, uint8_t *out_payload, size_t *out_n_bytes);

/* x̂ ← x̂'. The pending copy of learner_encode has become durable. */
void learner_published(struct learner *l);

/* Nothing was published: x̂ stays, and the next difference holds what this one would have. */
void learner_withheld(struct learner *l);

/* Peer's copy := S f32 values. ERR_LENGTH, ERR_NON_FINITE; the copy is untouched after an error. */
MUST_USE enum err learner_copy_set(struct learner *l, size_t copy, const uint8_t *bytes, size_t n_bytes);

/* Peer's copy += decoded difference. ERR_LENGTH, ERR_ENCODING, ERR_NON_FINITE (payload or result); untouched after an
 * error. */
MUST_USE enum err learner_copy_add(struct learner *l, size_t copy, enum codec_kind codec, const uint8_t *bytes,
                                   size_t n_bytes);

/* Peer's copy as learner_copy_bytes (4·S), the bits whose Merkle root its sender states from time to time. */
size_t learner_copy_bytes(const struct learner *l);
void learner_copy_write(const struct learner *l, size_t copy, uint8_t *out_bytes);

/* One peer's share in a merge, in the order in which they are to be added (ascending public key). */
struct contribution {
  size_t copy;
  double weight;   /* w_j ≥ 0, Σ w_j ≤ 1; out: what similarity made of it */
  double distance; /* out: ‖x̂_j − x̂‖₂ of what is learnt, statistics left out, of what is shared */
  enum fate fate;  /* out: what the rule made of it; B = 5 × max(median of the last 32 accepted, own step norm) */
  double share;    /* out: with which its difference went in (models/merging/rule.h) */
};

/* Under the mean x ← x + γ Σ_j w_j · min(1, B/‖d_j‖) · d_j with d_j = x̂_j − x̂; under another rule what models/merging/rule.h says;
 * statistics as the policy says (merging/statistic.h), which no bound scales and which drive none. With n = 0, x is unchanged to
 * the bit. ERR_MERGE_REFUSED: the result was not finite; x is unchanged.
 *
 * With kappa > 0 sites whose updates of the round are alike weigh more: w_j e_j / Σ_k w_k e_k with e_j = exp(κ·cos(Δ_i, Δ_j)), over
 * the peers and this agent, whose cosine is 1 and whose weight what the others leave of 1; so of equal weights a_ij ∝ exp(κ·cos(Δ_i,
 * Δ_j)). Compared is what is shared and learnt, from where this agent's model stood before its training of the round: Δ_i = x − x_before,
 * Δ_j = x̂_j − x_before, which among sites that merged alike is j's own step, and else holds how far j stands off. cos is 0 of an update
 * that is none. Without a step of the round, as after a restart between publishing and merging, weights are as given. */
MUST_USE enum err learner_merge(struct learner *l, struct contribution *contributions, size_t n);

/* x ← coordinate median (mean of the two middle values for an even number) of the copies named: a joiner's start. */
void learner_adopt_median(struct learner *l, const size_t *copies, size_t n);

/* After a merge: the site's own model of this round (models/personal.h), where the job wants one. The samples come in the
 * order of that round's training, so that a repeated round repeats its bits. Errors as learner_train; the own model is then
 * as it was. learner_undo cannot go behind it. */
MUST_USE enum err learner_personalise(struct learner *l, uint64_t round, uint32_t sub, const struct work_hook *hook);

/* Metrics of the model that is served: the site's own one, else x. ERR_NOT_FOUND when there is no such set; ERR_NO_MEMORY; errors of the hook. */
MUST_USE enum err learner_evaluate(struct learner *l, enum test_set which, const struct work_hook *hook,
                                   struct metrics *out_metrics);

/* How many of a set's samples of each task [n_tasks] there are, and are said right, all classes that were seen here so far competing
 * (models/continual/tasks.h). Errors as learner_evaluate; only with tasks. */
struct task_score {
  uint64_t n, n_right;
};
MUST_USE enum err learner_evaluate_tasks(struct learner *l, enum test_set which, const struct work_hook *hook,
                                         struct task_score *out_scores);

/* What continual learning keeps beside model and optimiser: NULL without tasks, or before learner_attach. It stands in no half: who
 * keeps the one keeps the other too (continual_write, continual_read). */
struct continual *learner_continual(const struct learner *l);

/* How far two models of one schema are apart in a range of their values: ‖x_b − x_a‖₂ / ‖x_a‖₂; NaN where a has only zeros
 * and b has not. */
double learner_model_distance(const struct learner *a, const struct learner *b, size_t offset, size_t n_values);

/* Snapshots. The *half* holds what PUBLISHED stores: x (with the rule trust also the model before its training, from then to the merge), the optimiser's state, x̂ (the pending one if there is one), ring of
 * distances. Of f32 and f16 a pending x̂ is so near x that little more than what lies between them stands there for x, to the
 * bit (models/merging/nearby.h). The *model* holds what COMMIT stores beside it: x, and the ring as the merge has left it; of
 * one without a ring that of before stays. Both begin with a head (magic, version,
 * schema hash, counts) that is checked on reading. x̂ stands in the half as S little-endian f32 at learner_half_copy_offset, so
 * that a full copy can be served from the file. Both hold what the site's own model is made of; one without it is read as
 * well, and that begins as x. A half of another optimiser is read as well: where its state does not mean the
 * same, the own begins anew. Errors on reading: ERR_CORRUPT, ERR_TOO_NEW, ERR_SCHEMA, ERR_TRUNCATED, ERR_TRAILING,
 * ERR_NON_FINITE; the learner is untouched after an error. */
/* Arrays of P floats that a half holds at most, ≥ 3. */
size_t learner_half_arrays(const struct train_config *train, enum merge_rule rule);

size_t learner_half_bytes(const struct learner *l); /* of the one that would be written now */
void learner_half_write(const struct learner *l, uint8_t *out_bytes);
size_t learner_half_copy_offset(const struct learner *l);

/* What a ledger's account of so many bytes adds to a half or a model at most; each copy that it speaks of adds itself. */
size_t learner_ledger_bytes(size_t most_bytes);

/* How long the half is that begins there: of another optimiser it is not learner_half_bytes, but at most learner_half_most. */
size_t learner_half_measure(const struct learner *l, const uint8_t *bytes, size_t n_bytes);
size_t learner_half_most(const struct learner *l);
MUST_USE enum err learner_half_read(struct learner *l, const uint8_t *bytes, size_t n_bytes);

size_t learner_model_bytes(const struct learner *l); /* of the one that would be written now */
void learner_model_write(const struct learner *l, uint8_t *out_bytes);

/* How long the model of P values is that begins there, at least that of x alone; and the most that one of this schema has. */
size_t learner_model_measure(size_t n_values, const uint8_t *bytes, size_t n_bytes);
size_t learner_model_most(const struct learner *l);
MUST_USE enum err learner_model_read(struct learner *l, const uint8_t *bytes, size_t n_bytes);

/* Warm start: tensors of equal name, shape and role come from a stored model (learner_model_write) of another schema; the
 * others keep their first weights. Before any training; x̂ stays equal to x. out_taken [schema_tensors of the own schema] says
 * which. Errors as learner_model_read; the learner is untouched after one. */
MUST_USE enum err learner_take(struct learner *l, const struct schema *from, const struct digest *from_hash,
                               const uint8_t *bytes, size_t n_bytes, bool *out_taken);

/* The model that is judged and served: [P], borrowed until the next call. */
const float *learner_served(const struct learner *l);

/* The swarm's model as it is: [P], borrowed until the next call. And another one [P] to go on from, as one that was trained elsewhere, or
 * the same itself: finite values, with which the optimiser starts again; x̂ stays what peers hold of us, or is the same where none of them
 * holds anything (is_first). ERR_NON_FINITE, with nothing changed. */
const float *learner_values(const struct learner *l);
MUST_USE enum err learner_go_on_from(struct learner *l, const float *values, bool is_first);

#endif
