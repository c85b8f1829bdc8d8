/* The contract: what the data of a job *means*. Equal on every site, from the job file, never from the data.
 *
 * A model's schema says which shapes are exchanged; two sites can agree on every shape and still number the classes,
 * order the features or scale the inputs differently, and their average is then worthless while every number in it is
 * finite. So data is mapped to the contract and never the reverse, and the contract's hash is part of every handshake.
 *
 * Everything here is about values; nothing reads a file. Classes, features and inputs are numbered from 0, as the labels
 * in an IDX file are. Any thread, one at a time. */
#ifndef MODELS_CONTRACT_H
#define MODELS_CONTRACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/limits.h"
#include "models/data/scale.h"
#include "models/data/split.h"
#include "models/merging/codec.h"
#include "models/task.h"

struct class_name {
  char text[MAX_NAME_BYTES];
};

/* What is done about a number that is not there. */
struct missing {
  enum {
    MISSING_REFUSED,
    MISSING_MEAN,
    MISSING_NUMBER,
    MISSING_INHERITED /* a feature's: as the contract says */
  } rule;
  double number; /* MISSING_NUMBER: stands for it, raw; it need not be in the range */
};

/* A column: one input that is a number, or an input for each of its categories, of which one is 1 and the others 0. */
struct feature {
  char name[MAX_NAME_BYTES];
  char unit[MAX_NAME_BYTES]; /* "" when none is stated */
  double range_lo, range_hi; /* of raw values; −inf … inf when the whole contract's range holds */
  struct missing missing;
  size_t n_categories; /* 0: a number */
  struct class_name *categories;
  size_t input; /* the first of its inputs */
  size_t pair;  /* which of the scale's is its own, where there is one for each number */
};

/* Categories of these names, if they are listed, take what is missing and what is not listed. */
#define CATEGORY_MISSING "missing"
#define CATEGORY_OTHER "other"

struct contract {
  enum task task;
  enum loss_kind loss;
  enum metric metric;

  /* CSV: name of the label's or target's column, or its number from 1; IDX: "". Multilabel: a column of class names with ';'
   * between them, nothing for none; "": each class is a column of its name with 0 or 1. Reconstruct: "" where nobody knows
   * what is normal; else a file may still lack the column, and a row its value. */
  char label[MAX_NAME_BYTES];

  size_t n_classes;
  struct class_name *classes;

  /* Inputs are either named columns or an image; the other one's sizes are 0. */
  size_t n_features;
  struct feature *features;
  uint32_t height, width, channels;

  /* What raw inputs range over. Images: byte 0 is lo and 255 is hi (0 and 1 when nothing is said); columns: a value
   * outside is refused (−inf … inf when nothing is said). Scaling comes after. */
  double range_lo, range_hi;

  struct missing missing; /* of every number that does not say otherwise */

  struct scale scale;
  uint64_t init_seed;

  struct codec codec; /* of updates: how far a merge goes hangs on it (codec_gamma) */

  struct split split; /* of a public set; SPLIT_NONE when each site brings its own data */

  /* Which samples are trained on; the rules are in dataset.h. Together at most MAX_KEPT_APART. */
  double holdout;                  /* fraction kept as local test where no test file is given, 0 … 0.9 */
  double validation;               /* fraction kept for choosing between models, 0 … 0.9 */
  char holdout_by[MAX_NAME_BYTES]; /* CSV column whose text decides instead of the sample, "" = the sample */
};

#define MAX_KEPT_APART 0.95

/* All defaults: classification, cross-entropy, range unset, no scaling, seed 0, no split, holdout 0.2,
 * validation 0.1. NULL: no memory. */
struct contract *contract_new(void);
void contract_free(struct contract *c);

/* Append; order is meaning. `unit` may be NULL; the range of a new feature is unset. ERR_LIMIT: name too long or too many;
 * ERR_NO_MEMORY. */
MUST_USE enum err contract_add_class(struct contract *c, const char *name);
MUST_USE enum err contract_add_feature(struct contract *c, const char *name, const char *unit);

/* One category more of the feature added last. ERR_RANGE: there is no feature; ERR_LIMIT as above; ERR_NO_MEMORY. */
MUST_USE enum err contract_add_category(struct contract *c, const char *name);

/* Which category this text is, `other` where that is listed; SIZE_MAX: none. */
size_t feature_category(const struct feature *f, const char *text, size_t n, bool is_missing);

/* What stands for a missing number of column i, raw; false: it is refused. */
bool contract_fill(const struct contract *c, size_t i, float *out_value);

bool contract_is_image(const struct contract *c);

/* The range in effect of column i: its own, or that of the whole contract where it has none. */
void contract_feature_range(const struct contract *c, size_t i, double *out_lo, double *out_hi);

/* The range in effect: 0 … 1 for an image whose range is unset. */
void contract_range(const struct contract *c, double *out_lo, double *out_hi);

/* Number of inputs of the model: one for each number and each category, or height·width·channels. After contract_check it is 1 … MAX_FEATURES. */
size_t contract_n_inputs(const struct contract *c);

/* How many of the inputs are scaled: all but categories; and how many quantities are measured for that, 1 for images. */
size_t contract_n_scaled(const struct contract *c);
size_t contract_n_measured(const struct contract *c);

/* The same scale as a pair for each input where there are categories, which get mean 0 and sd 1; else a copy. ERR_NO_MEMORY. */
MUST_USE enum err contract_spread_scale(const struct contract *c, const struct scale *scale, struct scale *out_scale);

/* Number of outputs of the model: n_classes, 1 for regression, as many as inputs to reconstruct. */
size_t contract_n_outputs(const struct contract *c);

/* The headline in effect, never METRIC_BY_TASK: the task's own unless the contract says another. */
enum metric contract_metric(const struct contract *c);

/* Whether the headline is one of this task and number of classes (models/task.h). */
bool contract_metric_fits(const struct contract *c);

/* Whether each class is a column of its name, with 0 or 1. */
bool contract_has_class_columns(const struct contract *c);

/* Whether the whole is consistent; everything else in this room requires it. On failure a sentence with the remedy.
 * ERR_RANGE, ERR_EXISTS (a name twice), ERR_LIMIT, ERR_SYNTAX (a name that is not printable). */
MUST_USE enum err contract_check(const struct contract *c, char out_reason[MAX_REASON_BYTES]);

/* The canonical text, one `what: value` line a fact in a fixed order, NUL-terminated; two contracts are the same exactly
 * when their texts are, and the first line that differs says how. Missing values and categories of a feature have lines
 * where it has its own. Line 1, `contract: 1`, also stands for this version's rule of the first weights. The headline has a line only where
 * it is not the task's own, and the codec where it is neither f32 nor f16, which need not agree.
 * ERR_LIMIT above MAX_SCHEMA_TEXT_BYTES or above the capacity. */
MUST_USE enum err contract_text(const struct contract *c, char *out_text, size_t capacity, size_t *out_n_bytes);

/* digest("starling/v1/contract\0" ‖ text). ERR_LIMIT as contract_text; ERR_NO_MEMORY. */
MUST_USE enum err contract_hash(const struct contract *c, const struct digest_fn *fn, struct digest *out_hash);

#endif
