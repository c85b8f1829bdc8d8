/* The schema: which tensors a model has, in which order, what each is called and who it belongs to.
 *
 * A model is one array of P = schema_parameters floats: the tensors in schema order without gaps, each row-major, outputs
 * first. Two agents can exchange updates exactly when their schema hashes are equal; when they are not, the canonical
 * text names the first difference in words. A schema comes from a job's one-line architecture (models/net/arch.h) or, for a
 * model that somebody else trains, from a list of tensors alone.
 *
 * Immutable after it was made, so any thread may read it. Owner: who made it, until schema_free. */
#ifndef MODELS_SCHEMA_H
#define MODELS_SCHEMA_H

#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/limits.h"

struct arch;
struct contract;

enum role {
  ROLE_SHARED,    /* learnt together: part of every update */
  ROLE_PERSONAL,  /* stays at its agent; its shape may differ between agents */
  ROLE_STATISTIC, /* running means and the like: shared, but no gradient */
};

/* One tensor of f32 values. */
struct tensor {
  char name[MAX_NAME_BYTES]; /* printable ASCII without blanks: "dense1.weight" */
  enum role role;
  uint32_t rank; /* 1 … MAX_RANK */
  uint32_t shape[MAX_RANK];
  size_t offset;   /* of its first value in the model; set by schema_new */
  size_t n_values; /* product of the shape; set by schema_new */
};

struct schema;

/* The product of the shape. ERR_SYNTAX: rank or an extent out of range; ERR_LIMIT above MAX_PARAMETERS. */
MUST_USE enum err tensor_values(const struct tensor *t, size_t *out_n);

/* A schema of these n tensors; offset and n_values need not be filled in. ERR_SYNTAX: a bad name, role, rank or a zero
 * extent; ERR_EXISTS: a name twice; ERR_LIMIT: MAX_TENSORS or MAX_PARAMETERS exceeded; ERR_RANGE: no tensors. */
MUST_USE enum err schema_new(const struct tensor *tensors, size_t n_tensors, struct schema **out_schema);

/* The schema of a one-line architecture for data as the contract says. On an error `why` is a sentence with the column
 * and the nearest known word: "column 1: unknown layer 'dnese', did you mean 'dense'?". ERR_SYNTAX, ERR_RANGE (the last
 * layer does not fit the contract, a number is out of range), ERR_EXISTS (a name twice), ERR_LIMIT. */
MUST_USE enum err schema_from_arch(const char *arch, const struct contract *contract, struct schema **out_schema,
                                   char why[MAX_REASON_BYTES]);
void schema_free(struct schema *s);

size_t schema_parameters(const struct schema *s); /* P, 1 … MAX_PARAMETERS */
size_t schema_shared(const struct schema *s);     /* of them those that travel: all but the personal ones */
size_t schema_tensors(const struct schema *s);
const struct tensor *schema_tensor(const struct schema *s, size_t i);

/* The layers that compute with these tensors; NULL for a schema made from tensors alone. */
const struct arch *schema_arch(const struct schema *s);

/* The canonical text, for people and for SCHEMA messages, with its final NUL:
 *
 *   model: dense 128, relu, dense 10
 *   tensor 1: dense1.weight [128,784] f32 shared
 *
 * "model: tensors" without an architecture; [-] for the shape of a personal tensor, and of a personal layer only its word,
 * "dense personal": these may differ between agents. Text that does not fit ends with the
 * last whole line that does and a line "and N more". */
void schema_text(const struct schema *s, char out_text[MAX_SCHEMA_TEXT_BYTES]);

/* H("starling/v1/schema\0" ‖ all lines of the canonical text, none left out). */
void schema_hash(const struct schema *s, const struct digest_fn *digest, struct digest *out_hash);

#endif
