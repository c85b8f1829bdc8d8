#include "models/exchange/onnx_graph.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/formats/new_file.h"
#include "models/onnx.pb-c.h"

enum { NAME_BYTES = 40 };

/* Everything of a graph is in such blocks, and freed together. */
struct block {
  struct block *next;
  max_align_t bytes[];
};

struct onnx_graph {
  struct block *blocks;
  bool has_failed;
  size_t n_names;
  Onnx__GraphProto proto;
};

struct onnx_graph *onnx_graph_new(void) {
  struct onnx_graph *g = calloc(1, sizeof *g);
  if (g != NULL)
    onnx__graph_proto__init(&g->proto);
  return g;
}

void onnx_graph_free(struct onnx_graph *g) {
  if (g == NULL)
    return;
  for (struct block *b = g->blocks, *next; b != NULL; b = next) {
    next = b->next;
    free(b);
  }
  free(g);
}

/* n × size zeros; NULL: no memory. */
static void *take(struct onnx_graph *g, size_t n, size_t size) {
  struct block *b = n <= (SIZE_MAX / 2) / size ? calloc(1, sizeof *b + n * size) : NULL;
  if (b == NULL) {
    g->has_failed = true;
    return NULL;
  }
  b->next = g->blocks;
  g->blocks = b;
  return b->bytes;
}

static void *copy(struct onnx_graph *g, const void *from, size_t n, size_t size) {
  void *made = take(g, n, size);
  if (made != NULL && n > 0)
    memcpy(made, from, n * size);
  return made;
}

/* protobuf-c's messages have no const, and nothing here writes through them. */
static char *borrowed(const char *text) {
  return (char *)(uintptr_t)text;
}

static void *take_pointers(struct onnx_graph *g, size_t n) {
  return take(g, n, sizeof(void *));
}

/* An array of n pointers with room for one more, the same or a copy; NULL: no memory. */
static void *grown(struct onnx_graph *g, void *array, size_t n) {
  if ((n & (n - 1)) != 0) /* its capacity is the power of two above */
    return array;
  void *larger = take_pointers(g, n == 0 ? 1 : 2 * n);
  if (larger != NULL && n > 0)
    memcpy(larger, array, n * sizeof(void *));
  return larger;
}

static const char *name_make(struct onnx_graph *g, const char *stem) {
  char *name = take(g, NAME_BYTES, 1);
  if (name == NULL)
    return "";
  snprintf(name, NAME_BYTES, "%s_%zu", stem, ++g->n_names);
  return name;
}

/* ---- constants ---- */

/* A constant of this shape without values; NULL: no memory. */
static Onnx__TensorProto *tensor_add(struct onnx_graph *g, const char *name, size_t rank, const uint32_t *size) {
  Onnx__TensorProto *t = take(g, 1, sizeof *t);
  int64_t *dims = take(g, rank, sizeof *dims);
  Onnx__TensorProto **list = grown(g, g->proto.initializer, g->proto.n_initializer);
  if (t == NULL || dims == NULL || list == NULL)
    return NULL;
  for (size_t i = 0; i < rank; i++)
    dims[i] = size[i];
  onnx__tensor_proto__init(t);
  t->name = borrowed(name != NULL ? name : name_make(g, "constant"));
  t->dims = dims;
  t->n_dims = rank;
  t->has_data_type = true;
  t->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
  g->proto.initializer = list;
  list[g->proto.n_initializer++] = t;
  return t;
}

static size_t values_of(size_t rank, const uint32_t *size) {
  size_t n = 1;
  for (size_t i = 0; i < rank; i++)
    n *= size[i]; /* the tensor is a model's: at most MAX_PARAMETERS */
  return n;
}

const char *onnx_tensor(struct onnx_graph *g, const char *name, const float *values, size_t rank,
                        const uint32_t *size) {
  Onnx__TensorProto *t = tensor_add(g, name, rank, size);
  if (t == NULL)
    return "";
  t->float_data = (float *)(uintptr_t)values;
  t->n_float_data = values_of(rank, size);
  return t->name;
}

float *onnx_room(struct onnx_graph *g, const char *name, size_t rank, const uint32_t *size, const char **out_name) {
  float *values = take(g, values_of(rank, size), sizeof *values);
  *out_name = values != NULL ? onnx_tensor(g, name, values, rank, size) : "";
  return values;
}

const char *onnx_float(struct onnx_graph *g, float value) {
  const char *name;
  float *room = onnx_room(g, NULL, 0, NULL, &name);
  if (room != NULL)
    *room = value;
  return name;
}

const char *onnx_integers(struct onnx_graph *g, const int64_t *values, size_t n) {
  Onnx__TensorProto *t = tensor_add(g, NULL, 1, &(const uint32_t){(uint32_t)n});
  int64_t *copied = copy(g, values, n, sizeof *values);
  if (t == NULL || copied == NULL)
    return "";
  t->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
  t->int64_data = copied;
  t->n_int64_data = n;
  return t->name;
}

/* ---- nodes ---- */

static Onnx__AttributeProto *attribute_make(struct onnx_graph *g, const struct onnx_attribute *from) {
  static const Onnx__AttributeProto__AttributeType types[] = {
      [ONNX_FLOAT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT,
      [ONNX_INT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT,
      [ONNX_INTS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS};
  Onnx__AttributeProto *a = take(g, 1, sizeof *a);
  int64_t *ints = from->kind == ONNX_INTS ? copy(g, from->ints, from->n, sizeof *ints) : NULL;
  if (a == NULL || (from->kind == ONNX_INTS && ints == NULL))
    return NULL;
  onnx__attribute_proto__init(a);
  a->name = borrowed(from->name);
  a->has_type = true;
  a->type = types[from->kind];
  a->has_f = from->kind == ONNX_FLOAT;
  a->f = from->f;
  a->has_i = from->kind == ONNX_INT;
  a->i = from->i;
  a->ints = ints;
  a->n_ints = ints != NULL ? from->n : 0;
  return a;
}

static void add_attributes(struct onnx_graph *g, const struct onnx_node *from, Onnx__NodeProto *node) {
  node->attribute = take_pointers(g, MAX_NODE_ATTRIBUTES);
  for (size_t i = 0; node->attribute != NULL && i < MAX_NODE_ATTRIBUTES && from->attributes[i].name != NULL; i++) {
    Onnx__AttributeProto *a = attribute_make(g, &from->attributes[i]);
    if (a == NULL)
      return;
    node->attribute[node->n_attribute++] = a;
  }
}

const char *onnx_node(struct onnx_graph *g, const struct onnx_node *node) {
  const char *name = node->as != NULL ? node->as : name_make(g, node->op);
  Onnx__NodeProto *made = take(g, 1, sizeof *made), **list = grown(g, g->proto.node, g->proto.n_node);
  char **inputs = take_pointers(g, MAX_NODE_INPUTS), **outputs = take_pointers(g, node->output + 1);
  if (made == NULL || list == NULL || inputs == NULL || outputs == NULL)
    return "";
  onnx__node_proto__init(made);
  made->name = borrowed(name);
  made->op_type = borrowed(node->op);
  made->input = inputs;
  for (; made->n_input < MAX_NODE_INPUTS && node->inputs[made->n_input] != NULL; made->n_input++)
    inputs[made->n_input] = borrowed(node->inputs[made->n_input]);
  for (size_t i = 0; i <= node->output; i++)
    outputs[i] = borrowed(i < node->output ? "" : name);
  made->output = outputs;
  made->n_output = node->output + 1;
  add_attributes(g, node, made);
  g->proto.node = list;
  list[g->proto.n_node++] = made;
  return name;
}

/* ---- what goes in and comes out ---- */

/* [batch][size…]; NULL: no memory. */
static Onnx__TensorShapeProto *shape_make(struct onnx_graph *g, size_t rank, const uint32_t *size) {
  Onnx__TensorShapeProto *shape = take(g, 1, sizeof *shape);
  Onnx__TensorShapeProto__Dimension *dims = take(g, rank + 1, sizeof *dims), **list = take_pointers(g, rank + 1);
  if (shape == NULL || dims == NULL || list == NULL)
    return NULL;
  onnx__tensor_shape_proto__init(shape);
  for (size_t i = 0; i <= rank; i++) {
    onnx__tensor_shape_proto__dimension__init(&dims[i]);
    list[i] = &dims[i];
    if (i == 0) {
      dims[i].dim_param = borrowed("batch");
    } else {
      dims[i].has_dim_value = true;
      dims[i].dim_value = size[i - 1];
    }
  }
  shape->dim = list;
  shape->n_dim = rank + 1;
  return shape;
}

static Onnx__ValueInfoProto *value_make(struct onnx_graph *g, const char *name, const char *what, size_t rank,
                                        const uint32_t *size) {
  Onnx__ValueInfoProto *value = take(g, 1, sizeof *value);
  Onnx__TypeProto *type = take(g, 1, sizeof *type);
  Onnx__TypeProto__Tensor *tensor = take(g, 1, sizeof *tensor);
  Onnx__TensorShapeProto *shape = shape_make(g, rank, size);
  if (value == NULL || type == NULL || tensor == NULL || shape == NULL)
    return NULL;
  onnx__value_info_proto__init(value);
  onnx__type_proto__init(type);
  onnx__type_proto__tensor__init(tensor);
  tensor->has_elem_type = true;
  tensor->elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
  tensor->shape = shape;
  type->tensor_type = tensor;
  value->type = type;
  value->name = borrowed(name);
  value->doc_string = borrowed(what);
  return value;
}

static void value_add(struct onnx_graph *g, Onnx__ValueInfoProto ***list, size_t *n, Onnx__ValueInfoProto *value) {
  Onnx__ValueInfoProto **longer = grown(g, *list, *n);
  if (value == NULL || longer == NULL)
    return;
  *list = longer;
  longer[(*n)++] = value;
}

void onnx_input(struct onnx_graph *g, const char *name, const char *what, size_t rank, const uint32_t *size) {
  value_add(g, &g->proto.input, &g->proto.n_input, value_make(g, name, what, rank, size));
}

void onnx_output(struct onnx_graph *g, const char *name, const char *what, size_t rank, const uint32_t *size) {
  value_add(g, &g->proto.output, &g->proto.n_output, value_make(g, name, what, rank, size));
}

/* ---- the file ---- */

/* A buffer of protobuf-c that is a file: so the model is in memory once. */
struct out_file {
  ProtobufCBuffer base; /* first */
  FILE *file;
};

static void out_append(ProtobufCBuffer *buffer, size_t n, const uint8_t *bytes) {
  fwrite(bytes, 1, n, ((struct out_file *)buffer)->file);
}

static enum err write_message(const void *context, const char *path) {
  struct out_file out = {.base = {.append = out_append}, .file = fopen(path, "wbxe")};
  if (out.file == NULL)
    return err_from_errno(errno);
  errno = 0;
  protobuf_c_message_pack_to_buffer(context, &out.base);
  bool has_failed = ferror(out.file) != 0;
  int error = errno;
  if (fclose(out.file) != 0 && !has_failed) {
    has_failed = true;
    error = errno;
  }
  return has_failed ? err_from_errno(error) : ERR_OK;
}

static Onnx__StringStringEntryProto **notes_make(struct onnx_graph *g, const struct tensor_note *notes, size_t n) {
  Onnx__StringStringEntryProto *entries = take(g, n, sizeof *entries), **list = take_pointers(g, n);
  for (size_t i = 0; entries != NULL && list != NULL && i < n; i++) {
    onnx__string_string_entry_proto__init(&entries[i]);
    entries[i].key = borrowed(notes[i].key);
    entries[i].value = borrowed(notes[i].text);
    list[i] = &entries[i];
  }
  return list;
}

enum err onnx_graph_write(struct onnx_graph *g, const char *path, const struct tensor_note *notes, size_t n_notes) {
  Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
  Onnx__OperatorSetIdProto set = ONNX__OPERATOR_SET_ID_PROTO__INIT;
  Onnx__OperatorSetIdProto *sets[] = {&set};
  set.domain = borrowed("");
  set.has_version = true;
  set.version = ONNX_OPSET;
  g->proto.name = borrowed("model");
  model.has_ir_version = true;
  model.ir_version = ONNX_IR;
  model.producer_name = borrowed("starling");
  model.graph = &g->proto;
  model.opset_import = sets;
  model.n_opset_import = 1;
  model.metadata_props = notes_make(g, notes, n_notes);
  model.n_metadata_props = n_notes;
  return g->has_failed ? ERR_NO_MEMORY : new_file_write(path, write_message, &model.base);
}
