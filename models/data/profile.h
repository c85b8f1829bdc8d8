/* What is in a data file, told in one pass that nothing in it ends: the figures from which a contract is proposed
 * (models/data/proposal.h) or held against the data (models/data/check.h).
 *
 * Values that a reader of samples refuses (missing, no number, outside the range, a class that nobody named, a ragged row)
 * are counted here, each with the line of the first. Only a file that cannot be taken apart at all is an error. Memory is a
 * row, the columns, the class names and the set of samples, each up to a named cap. Pure but for the file; any thread. */
#ifndef MODELS_DATA_PROFILE_H
#define MODELS_DATA_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/limits.h"
#include "models/contract.h"
#include "models/formats/data_file.h"

enum { MAX_PROFILE_SAMPLES = 1 << 22 /* remembered to find duplicates: 64 MiB */ };

/* How often something was found, and where first (0: never, or a file without lines). */
struct sighting {
  uint64_t n;
  uint64_t line;
};

/* A text of the label column, or a number of IDX or NumPy labels. */
struct class_profile {
  char name[MAX_NAME_BYTES];
  struct sighting seen;
};

enum { MAX_PROFILE_CATEGORIES = 20 /* different texts of a column that are kept without a contract */ };

/* A column of a table, or all values of images together (raw, as the contract's range maps them). */
struct column_profile {
  char name[MAX_NAME_BYTES]; /* cut when it is longer */
  bool name_is_cut;
  struct sighting missing, not_numbers, outside; /* outside: the contract's range */
  struct sighting unknown;                       /* with categories: none of them … */
  char unknown_text[MAX_NAME_BYTES];             /* … and which, cut when it is longer */
  uint64_t n;                                    /* numbers */
  double min, max, mean, m2;                     /* of them; m2: sum of squared deviations (Welford 1962) */

  /* Without a contract: what stands in the fields, in the order of appearance; NULL when there is too much of it. */
  struct class_profile *categories;
  size_t n_categories;
  bool is_varied; /* too many, or too long */
};

struct sample_set; /* 64-bit hashes of the inputs of samples */

struct profile {
  bool is_image;
  bool is_bytes;                    /* images of bytes, whose values the contract's range maps */
  bool has_numbered_labels;         /* labels are numbers of classes, or targets, not names */
  bool has_float_labels;            /* so targets */
  uint32_t height, width, channels; /* images */
  uint64_t n_samples;               /* rows or images, ragged ones not counted */
  struct sighting ragged;
  size_t n_columns;
  struct column_profile
      *columns; /* in the file's order; one for images; of arrays their label's, or one for each class */
  size_t label; /* which column; SIZE_MAX: there is none of that name */
  size_t group; /* which column holdout_by names; SIZE_MAX: there is none */
  struct sighting label_missing, label_too_long;
  size_t n_classes;
  struct class_profile *classes; /* in order of appearance */
  bool has_too_many_classes;     /* more than MAX_CLASSES; the others are not kept */
  bool has_repeated_column;
  struct sample_set *samples; /* those without a fault; NULL without a contract */
  uint64_t n_duplicates;      /* samples that stand in `against` too */
};

struct profile_options {
  const struct contract *contract; /* NULL: nothing is known yet, every column is taken as it stands */
  const char *label;          /* without a contract: the label's column by name or number; NULL: the last; "": none */
  const struct digest_fn *fn; /* with a contract */
  const struct sample_set *against; /* NULL, or the training file's */
};

/* Arrays without a contract: of more than two dimensions they are images, uint8 [n][H][W] or any [n][H][W][C], or series
 * [n][T][C], which are images of height 1; else rows of columns x0, x1 …
 * Errors as csv_scan_file, idx_open and array_pair_open; ERR_RANGE: a table for a contract of images or the reverse, counts of
 * images and labels differ. */
MUST_USE enum err profile_read(const struct data_file *file, const struct profile_options *options,
                               struct profile **out_profile, struct data_place *why);
void profile_free(struct profile *p);

/* NULL: no such column. */
const struct column_profile *profile_column(const struct profile *p, const char *name);

/* Takes one more number. */
void column_add(struct column_profile *c, double value);

/* The population's standard deviation; 0 without numbers. */
double column_sd(const struct column_profile *c);

/* Whether MAX_PROFILE_SAMPLES were too few to remember all. */
bool sample_set_is_full(const struct sample_set *s);

#endif
