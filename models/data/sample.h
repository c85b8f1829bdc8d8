/* Labelled samples on their way from a file to whoever keeps them: one call reads any kind of file and maps it to the
 * contract. Room-internal; pure but for the files. */
#ifndef MODELS_DATA_SAMPLE_H
#define MODELS_DATA_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/contract.h"
#include "models/formats/data_file.h"
#include "models/work_hook.h"

/* Borrowed for the call. Inputs [n_inputs] are in the file's type: one of the pointers is set. */
struct sample {
  const uint8_t *bytes;
  const float *floats;
  uint16_t label;       /* classify: class; reconstruct: class or NO_LABEL; else 0 */
  const float *targets; /* [n_targets] regress: the number; multilabel: 1 or 0 for each class; else NULL */
  const char *group;    /* [n_group] text of the contract's holdout_by column; NULL: there is none */
  size_t n_group;
};

struct sample_sink {
  enum err (*put)(void *context, const struct sample *sample); /* anything but ERR_OK ends the reading */
  void *context;
  const struct work_hook *hook; /* NULL, or asked between the samples */
};

/* Gives the sample after the first n to the sink, unless the hook wants the reading to end. */
MUST_USE enum err sample_put(const struct sample_sink *sink, size_t n, const struct sample *sample);

/* Gives every sample of the file to the sink, in order; at least one on success. *out_n_ignored_columns is 0 but for CSV.
 * Errors as dataset_open. */
MUST_USE enum err sample_read(const struct data_file *file, const struct contract *contract,
                              const struct sample_sink *sink, size_t *out_n_ignored_columns, struct data_place *why);

/* The same for the labels only: a sample's inputs are not to be used. For IDX and NumPy this spares reading the inputs. */
MUST_USE enum err sample_read_labels(const struct data_file *file, const struct contract *contract,
                                     const struct sample_sink *sink, struct data_place *why);

/* The same for the inputs only: a sample's label, targets and group are not to be used, and nothing else than the inputs need be
 * in the file. IDX images are known by their first bytes. */
MUST_USE enum err sample_read_inputs(const char *path, const struct contract *contract, const struct sample_sink *sink,
                                     size_t *out_n_ignored_columns, struct data_place *why);

#endif
