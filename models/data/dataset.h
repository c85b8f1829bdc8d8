/* Samples: read from IDX, CSV or NumPy files, mapped to the contract, kept in their source type, standardised by the batch.
 *
 * Readers stream and keep only the part that is this agent's, so a fifth of a set costs a fifth of its bytes (the labels
 * are read twice instead). A declared size is never allocated; memory grows with what was really read.
 *
 * Samples are divided into three splits that share none. *Train* is learnt from; *validation* chooses (which round is the
 * best, whether a new model takes over), so its figures flatter; *test* is looked at only to report. Which split a sample
 * of the training file is in follows from its place in [0, 1), a hash of its inputs or, with `holdout_by`, of that
 * column's text:
 *
 *   place < holdout          test, unless test files are given: then train, and all of those files are the test split
 *   place ≥ 1 − validation   validation
 *   else                     train
 *
 * A sample to reconstruct that is known to be an anomaly is never trained on: where it would be, it is left out.
 *
 * So a sample stays in its split for ever, however the file grows, in whatever part and order it stands; copies of one
 * sample, or rows of one group, are never on two sides; and naming a test file moves nothing in or out of validation.
 *
 * A data set is immutable once opened, but for dataset_rescale; the trainer's. */
#ifndef MODELS_DATA_DATASET_H
#define MODELS_DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/limits.h"
#include "models/contract.h"
#include "models/formats/data_file.h"
#include "models/work_hook.h"

struct read_ahead;
struct scratch;

enum { MAX_DATA_SETS = 4 /* train, validation, test and a common test set */ };

/* How much memory samples may take. Where their inputs do not fit they are *streamed*: they go to a file in `folder`, and
 * are read ahead in the order of training, which is known before (read_ahead.h). A streamed sample has the same
 * bits as one in memory. Inputs, labels, targets and the order of training all count, the buffer of each file, and the windows of
 * what is read ahead: a quarter of all is kept free for those as long as samples do not need it. What
 * reads a file of data takes a buffer more. One for all sets of a job; zero-initialise the rest. */
struct data_memory {
  uint64_t max_bytes;
  const char *folder;      /* of the scratch files */
  uint64_t disk_max_bytes; /* all of them together */

  uint64_t used_bytes; /* in memory, by the sets that were opened */
  uint64_t disk_bytes; /* on disk */
  uint64_t kept_bytes; /* of max_bytes, for what is read ahead */
  enum err fault;      /* why samples could not go there */

  struct dataset *sets[MAX_DATA_SETS]; /* borrowed, while more are opened: the largest leaves memory first */
  size_t n_sets;
};

struct data_source {
  struct data_file train;
  struct data_file test; /* the test split; none: held out from train */
  uint32_t part;         /* of train, 1 … n_parts; 0 exactly when the contract splits nothing */
  const struct scale
      *saved; /* numbers saved with the model, used where they are measured; NULL: SCALE_LOCAL measures the
                              * training samples, SCALE_POOLED leaves all sets raw until dataset_rescale */
  const struct work_hook *hook; /* asked while the files are read; NULL: nothing ends the reading */
  struct data_memory *memory;   /* NULL: no cap, all is kept in memory */
};

struct dataset {
  enum task task;
  size_t n;        /* samples */
  size_t n_inputs; /* of a sample */

  /* The inputs as they were stored, exactly one of these: */
  uint8_t *bytes;           /* [n][n_inputs] from IDX, and from uint8 arrays of images */
  float *floats;            /* [n][n_inputs] from CSV and all other arrays */
  struct scratch *scratch;  /* rows of either on disk */
  struct read_ahead *ahead; /* rows on disk that are taken in a known order; NULL: they are read when they are wanted */
  bool has_bytes;           /* which, where they are on disk */
  size_t capacity;          /* samples that there is room for, while it is read */

  uint16_t
      *labels; /* [n] classes by the contract's number; reconstruct: or NO_LABEL, NULL without classes; else NULL */
  size_t n_targets; /* of a sample: regress 1, multilabel n_classes, else 0 */
  float *targets;   /* [n][n_targets]; NULL where there are none */

  struct scale scale; /* the numbers in effect; n is 0 only for SCALE_NONE */
  double *shift;      /* [n_inputs] x' = (stored − shift) · gain */
  double *gain;       /* [n_inputs] */

  /* Worth a warning, never an error. */
  size_t n_classes;
  uint32_t *class_counts;   /* [n_classes]; 0: the class is absent here */
  size_t n_anomalies;       /* reconstruct: training samples that are known not to be normal, and so left out */
  size_t n_ignored_columns; /* columns of the CSV file that the contract does not name */
};

/* Owned by whoever opened them. A split without samples is NULL; train never is. */
struct splits {
  struct dataset *train, *validation, *test;
};

/* Reads the splits. `contract` has passed contract_check. On failure *out_why has the place and the remedy.
 * ERR_NOT_FOUND, ERR_PERMISSION, ERR_IO: the file; ERR_SYNTAX: magic, ragged row, bad number, quote never closed, NUL;
 * ERR_RANGE: value, label or part outside the contract, too few samples; ERR_TRUNCATED, ERR_TRAILING: sizes;
 * ERR_CORRUPT: gzip damage, counts of images and labels differ; ERR_UNSUPPORTED: another IDX type; ERR_LIMIT: a cap;
 * ERR_BUSY: the file changed while it was read; ERR_NO_SPACE: more than memory and disk may take; ERR_NO_MEMORY; errors of
 * the hook. */
MUST_USE enum err dataset_open(const struct data_source *source, const struct contract *contract,
                               const struct digest_fn *fn, struct splits *out_splits, struct data_place *out_why);
void splits_close(struct splits *s);

/* Reads a whole file as a test set, standardised by `scale` (the training set's); hook and memory as in data_source. Errors
 * as dataset_open. */
MUST_USE enum err dataset_open_test(const struct data_file *file, const struct contract *contract,
                                    const struct scale *scale, const struct work_hook *hook, struct data_memory *memory,
                                    struct dataset **out_test, struct data_place *out_why);

void dataset_close(struct dataset *d);

/* Statistics of the raw samples: one quantity for all values of an image, whose borders do not vary, else one for each
 * column of numbers. The caller frees with scale_stats_done. ERR_NO_MEMORY; ERR_IO. */
MUST_USE enum err dataset_measure(const struct dataset *d, const struct contract *contract,
                                  struct scale_stats *out_stats);

/* Standardises by other numbers from now on. ERR_RANGE: neither one pair nor one for each input; ERR_NO_MEMORY. */
MUST_USE enum err dataset_rescale(struct dataset *d, const struct contract *contract, const struct scale *scale);

/* Whether the inputs are stored as bytes, which the contract's range maps. */
bool dataset_has_bytes(const struct dataset *d);

/* Inputs as they are stored, from sample `first` on: *out_n of them, at least one, valid until the next call that reads.
 * ERR_IO, where they are on disk. */
MUST_USE enum err dataset_rows(const struct dataset *d, size_t first, const void **out_rows, size_t *out_n);

/* The samples index[0 … n−1] will be gathered soon, in this order. */
void dataset_expect(const struct dataset *d, const uint32_t *index, size_t n);

/* Makes room to read ahead where the set is streamed, as much as the cap leaves when all sets are open: what dataset_plan
 * needs to be of use. Once. ERR_NO_MEMORY. */
MUST_USE enum err dataset_read_ahead(struct dataset *d, struct data_memory *memory);

/* From now on order[0 … n−1] are gathered, from its front to its end; borrowed until the next plan, or n = 0. Samples that are
 * gathered by another array, or not at the plan's place, are read when they are wanted. */
void dataset_plan(const struct dataset *d, const uint32_t *order, size_t n);

/* Gathers the samples index[0 … n−1], each < d->n, standardised: out_x [n][n_inputs]. ERR_IO, where they are on disk. */
MUST_USE enum err dataset_gather(const struct dataset *d, const uint32_t *index, size_t n, float *out_x);

/* Their classes [n] where there are labels, their targets [n][n_targets]. */
void dataset_gather_labels(const struct dataset *d, const uint32_t *index, size_t n, uint16_t *out_labels);
void dataset_gather_targets(const struct dataset *d, const uint32_t *index, size_t n, float *out_targets);

#endif
