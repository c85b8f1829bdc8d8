/* An ONNX graph as it grows, and the file of it: messages of onnx.proto, written by protobuf-c. What the nodes mean is
 * onnx.c's.
 *
 * Names are borrowed from the graph, as long as it lives. After a failed allocation every call does nothing that matters, and
 * onnx_graph_write tells. One thread at a time. */
#ifndef MODELS_EXCHANGE_ONNX_GRAPH_H
#define MODELS_EXCHANGE_ONNX_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/formats/tensor_file.h"

enum { ONNX_OPSET = 17, ONNX_IR = 8 /* the one that came with it */, MAX_NODE_INPUTS = 5, MAX_NODE_ATTRIBUTES = 4 };

struct onnx_graph;

/* NULL: no memory. */
struct onnx_graph *onnx_graph_new(void);
void onnx_graph_free(struct onnx_graph *g);

/* Constants, which are initializers. The values of the first are borrowed, name too; those of onnx_room are to be written by
 * the caller, NULL: no memory; the others are copied. A name NULL is made. */
const char *onnx_tensor(struct onnx_graph *g, const char *name, const float *values, size_t rank, const uint32_t *size);
float *onnx_room(struct onnx_graph *g, const char *name, size_t rank, const uint32_t *size, const char **out_name);
const char *onnx_float(struct onnx_graph *g, float value); /* a scalar */
const char *onnx_integers(struct onnx_graph *g, const int64_t *values, size_t n);

enum onnx_attribute_kind { ONNX_FLOAT, ONNX_INT, ONNX_INTS };

struct onnx_attribute {
  const char *name; /* NULL ends the list */
  enum onnx_attribute_kind kind;
  float f;
  int64_t i;
  const int64_t *ints; /* copied */
  size_t n;
};

struct onnx_node {
  const char *op;
  const char *inputs[MAX_NODE_INPUTS]; /* up to NULL */
  struct onnx_attribute attributes[MAX_NODE_ATTRIBUTES];
  size_t output;  /* which of its outputs is wanted: those before it are left out */
  const char *as; /* name of that output, a literal; NULL: one is made */
};

/* The name of the output. */
const char *onnx_node(struct onnx_graph *g, const struct onnx_node *node);

/* An input or output of floats of the graph, [batch][size…], and what it is in words (a literal). */
void onnx_input(struct onnx_graph *g, const char *name, const char *what, size_t rank, const uint32_t *size);
void onnx_output(struct onnx_graph *g, const char *name, const char *what, size_t rank, const uint32_t *size);

/* Writes the file, as new_file_write does. The notes are the model's metadata. ERR_NO_MEMORY, also of an earlier call;
 * errors of new_file_write. */
MUST_USE enum err onnx_graph_write(struct onnx_graph *g, const char *path, const struct tensor_note *notes,
                                   size_t n_notes);

#endif
