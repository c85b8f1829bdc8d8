#include "models/exchange/onnx.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/exchange/onnx_graph.h"
#include "models/net/arch.h"

/* How a value lies. */
enum form {
  FORM_ROWS,   /* [batch][H·W·C] */
  FORM_PLANES, /* [batch][C][H][W] */
  FORM_ANY,    /* of a layer: it works value by value */
};

struct value {
  const char *name;
  enum form form;
};

/* A graph that is being drawn: where it stands. */
struct drawing {
  const struct onnx_model *model;
  struct scale scale; /* the model's, which leaves categories as they are */
  struct onnx_graph *g;
  const struct layer *layer;
  struct value now;
  const char *scaled;    /* what the first layer reads, as rows */
  struct value *at_ends; /* [n_layers] what went into the blocks that are open */
};

struct row {
  const struct layer_type *type;
  enum form form; /* of what it reads; what comes out is of the same unless `draw` says another */
  const char *op; /* the node that is the layer; NULL: draw makes them */
  void (*draw)(struct drawing *d);
};

#define NODE(name, ...) onnx_node(d->g, &(const struct onnx_node){.op = (name), __VA_ARGS__})
#define IN(...) .inputs = {__VA_ARGS__}
#define WITH(...) .attributes = {__VA_ARGS__}
#define INT(key, value)                                                                                                \
  { .name = (key), .kind = ONNX_INT, .i = (value) }
#define FLOAT(key, value)                                                                                              \
  { .name = (key), .kind = ONNX_FLOAT, .f = (value) }
#define INTS(key, ...)                                                                                                 \
  {                                                                                                                    \
    .name = (key), .kind = ONNX_INTS, .ints = (const int64_t[]){__VA_ARGS__},                                          \
    .n = sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)                                                      \
  }
#define INTEGERS(...)                                                                                                  \
  onnx_integers(d->g, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static const float epsilon = 1e-5f; /* of every norm (models/net/norm.c) */

/* ---- forms ---- */

/* 0 stands for the batch. */
#define RESHAPE(from, ...) NODE("Reshape", IN((from), INTEGERS(0, __VA_ARGS__)))

static void bring(struct drawing *d, enum form form, struct extent e) {
  if (form == FORM_ANY || d->now.form == form)
    return;
  if (form == FORM_PLANES) {
    const char *image = RESHAPE(d->now.name, e.height, e.width, e.channels);
    d->now.name = NODE("Transpose", IN(image), WITH(INTS("perm", 0, 3, 1, 2)));
  } else {
    const char *image = NODE("Transpose", IN(d->now.name), WITH(INTS("perm", 0, 2, 3, 1)));
    d->now.name = RESHAPE(image, (int64_t)extent_values(e));
  }
  d->now.form = form;
}

/* ---- parameters ---- */

/* Tensor k of the layer. A layer's stand one behind the other in the schema, which lives as long as the graph. */
static const struct tensor *tensor_of(const struct drawing *d, size_t k) {
  const struct schema *s = d->model->schema;
  size_t first = 0;
  while (schema_tensor(s, first)->offset != d->layer->offset)
    first++;
  return schema_tensor(s, first + k);
}

static const float *values_of(const struct drawing *d, size_t k) {
  return d->model->values + tensor_of(d, k)->offset;
}

/* Parameter k of the layer as it is. */
static const char *parameter(struct drawing *d, size_t k) {
  const struct tensor *t = tensor_of(d, k);
  return onnx_tensor(d->g, t->name, values_of(d, k), t->rank, t->shape);
}

/* The same as [C][1][1], for planes. */
static const char *parameter_of_planes(struct drawing *d, size_t k) {
  return onnx_tensor(d->g, tensor_of(d, k)->name, values_of(d, k), 3, (const uint32_t[]){d->layer->in.channels, 1, 1});
}

/* [out][kh][kw][in] as [out][in][kh][kw] */
static const char *kernel_parameter(struct drawing *d) {
  const uint32_t *s = tensor_of(d, 0)->shape, turned[] = {s[0], s[3], s[1], s[2]}, axis[] = {0, 3, 1, 2};
  const uint64_t size[] = {s[0], s[1], s[2], s[3]};
  const char *name;
  float *room = onnx_room(d->g, tensor_of(d, 0)->name, 4, turned, &name);
  if (room != NULL)
    array_permute(values_of(d, 0), 4, size, axis, room);
  return name;
}

/* ---- layers ---- */

static void draw_dense(struct drawing *d) {
  const char *weight = parameter(d, 0), *bias = parameter(d, 1);
  d->now.name = NODE("Gemm", IN(d->now.name, weight, bias), WITH(INT("transB", 1)));
}

static void draw_conv(struct drawing *d) {
  const struct window *w = &d->layer->window;
  const char *weight = kernel_parameter(d), *bias = parameter(d, 1);
  int64_t groups = tensor_of(d, 0)->shape[3] == d->layer->in.channels ? 1 : d->layer->in.channels;
  d->now.name =
      NODE("Conv", IN(d->now.name, weight, bias),
           WITH(INTS("kernel_shape", w->height, w->width), INTS("strides", w->stride, w->stride),
                INTS("pads", w->pad_height, w->pad_width, w->pad_height, w->pad_width), INT("group", groups)));
}

static void draw_window(struct drawing *d, const char *op) {
  const struct window *w = &d->layer->window;
  d->now.name =
      NODE(op, IN(d->now.name), WITH(INTS("kernel_shape", w->height, w->width), INTS("strides", w->stride, w->stride)));
}

static void draw_pool(struct drawing *d) {
  draw_window(d, "MaxPool");
}

static void draw_avgpool(struct drawing *d) {
  draw_window(d, "AveragePool");
}

static void draw_batchnorm(struct drawing *d) {
  const char *weight = parameter(d, 0), *bias = parameter(d, 1), *mean = parameter(d, 2), *variance = parameter(d, 3);
  d->now.name =
      NODE("BatchNormalization", IN(d->now.name, weight, bias, mean, variance), WITH(FLOAT("epsilon", epsilon)));
}

/* Operator set 17 has no groups: they are normalised as channels of one row each. */
static void draw_groupnorm(struct drawing *d) {
  const struct layer *l = d->layer;
  const char *ones, *zeros, *weight = parameter_of_planes(d, 0), *bias = parameter_of_planes(d, 1);
  float *one = onnx_room(d->g, NULL, 1, &l->groups, &ones), *zero = onnx_room(d->g, NULL, 1, &l->groups, &zeros);
  for (uint32_t i = 0; one != NULL && zero != NULL && i < l->groups; i++)
    one[i] = 1;
  const char *groups = RESHAPE(d->now.name, l->groups, -1);
  const char *normal = NODE("InstanceNormalization", IN(groups, ones, zeros), WITH(FLOAT("epsilon", epsilon)));
  const char *planes = RESHAPE(normal, l->in.channels, l->in.height, l->in.width);
  d->now.name = NODE("Add", IN(NODE("Mul", IN(planes, weight)), bias));
}

static void draw_layernorm(struct drawing *d) {
  const struct layer *l = d->layer;
  const char *weight = parameter(d, 0), *bias = parameter(d, 1);
  const char *places = RESHAPE(d->now.name, (int64_t)l->in.height * l->in.width, l->in.channels);
  const char *normal =
      NODE("LayerNormalization", IN(places, weight, bias), WITH(INT("axis", -1), FLOAT("epsilon", epsilon)));
  d->now.name = RESHAPE(normal, l->n_out);
}

static void draw_embed(struct drawing *d) {
  enum { INT64 = 7 };
  const struct layer *l = d->layer;
  const char *weight = parameter(d, 0), *last = onnx_float(d->g, (float)(l->n_tokens - 1));
  const char *held = NODE("Clip", IN(d->now.name, onnx_float(d->g, 0), last));
  const char *tokens = NODE("Cast", IN(held), WITH(INT("to", INT64)));
  d->now.name = RESHAPE(NODE("Gather", IN(weight, tokens), WITH(INT("axis", 0))), l->n_out);
}

/* Parts of n values each of a tensor, ours in the order r, z, n, as z, r, n. */
static void turn_gates(const float *ours, size_t n, float *out) {
  memcpy(out, ours + n, n * sizeof *out);
  memcpy(out + n, ours, n * sizeof *out);
  memcpy(out + 2 * n, ours + 2 * n, n * sizeof *out);
}

static const char *gate_weights(struct drawing *d, size_t k) {
  const uint32_t *s = tensor_of(d, k)->shape;
  const char *name;
  float *room = onnx_room(d->g, tensor_of(d, k)->name, 3, (const uint32_t[]){1, s[0], s[1]}, &name);
  if (room != NULL)
    turn_gates(values_of(d, k), (size_t)s[0] / 3 * s[1], room);
  return name;
}

static const char *gate_biases(struct drawing *d) {
  uint32_t h = d->layer->out.channels;
  const char *name;
  float *room = onnx_room(d->g, tensor_of(d, 2)->name, 2, (const uint32_t[]){1, 6 * h}, &name);
  if (room != NULL) {
    turn_gates(values_of(d, 2), h, room);
    turn_gates(values_of(d, 3), h, room + 3 * (size_t)h);
  }
  return name;
}

/* ONNX has the steps before the batch. */
static void draw_gru(struct drawing *d) {
  const struct layer *l = d->layer;
  const char *weight = gate_weights(d, 0), *recurrent = gate_weights(d, 1), *bias = gate_biases(d);
  const char *series = RESHAPE(d->now.name, l->in.width, l->in.channels);
  const char *steps = NODE("Transpose", IN(series), WITH(INTS("perm", 1, 0, 2)));
  const char *states =
      NODE("GRU", IN(steps, weight, recurrent, bias),
           WITH(INT("hidden_size", l->out.channels), INT("linear_before_reset", 1)), .output = l->every_state ? 0 : 1);
  const char *turned = l->every_state ? NODE("Transpose", IN(states), WITH(INTS("perm", 2, 0, 1, 3)))
                                      : NODE("Transpose", IN(states), WITH(INTS("perm", 1, 0, 2)));
  d->now.name = RESHAPE(turned, l->n_out);
}

/* x·½·(1 + erf(x/√2)) */
static void draw_gelu(struct drawing *d) {
  const char *erf_of = NODE("Erf", IN(NODE("Mul", IN(d->now.name, onnx_float(d->g, (float)M_SQRT1_2)))));
  const char *twice = NODE("Mul", IN(d->now.name, NODE("Add", IN(erf_of, onnx_float(d->g, 1)))));
  d->now.name = NODE("Mul", IN(twice, onnx_float(d->g, 0.5f)));
}

static void draw_silu(struct drawing *d) {
  d->now.name = NODE("Mul", IN(d->now.name, NODE("Sigmoid", IN(d->now.name))));
}

/* Only in training. */
static void draw_nothing(struct drawing *d) {
  (void)d;
}

static size_t index_of(const struct drawing *d) {
  return (size_t)(d->layer - schema_arch(d->model->schema)->layers);
}

static void draw_residual(struct drawing *d) {
  d->at_ends[index_of(d)] = d->now;
}

static void draw_residual_end(struct drawing *d) {
  const struct value before = d->at_ends[d->layer->partner];
  bring(d, before.form, d->layer->in);
  d->now.name = NODE("Add", IN(d->now.name, before.name));
}

static const struct row rows[] = {
    {&layer_dense, FORM_ROWS, NULL, draw_dense},
    {&layer_conv, FORM_PLANES, NULL, draw_conv},
    {&layer_conv1d, FORM_PLANES, NULL, draw_conv},
    {&layer_depthwise, FORM_PLANES, NULL, draw_conv},
    {&layer_pool, FORM_PLANES, NULL, draw_pool},
    {&layer_avgpool, FORM_PLANES, NULL, draw_avgpool},
    {&layer_globalpool, FORM_PLANES, "GlobalAveragePool", NULL},
    {&layer_embed, FORM_ROWS, NULL, draw_embed},
    {&layer_gru, FORM_ROWS, NULL, draw_gru},
    {&layer_batchnorm, FORM_PLANES, NULL, draw_batchnorm},
    {&layer_groupnorm, FORM_PLANES, NULL, draw_groupnorm},
    {&layer_layernorm, FORM_ROWS, NULL, draw_layernorm},
    {&layer_relu, FORM_ANY, "Relu", NULL},
    {&layer_leakyrelu, FORM_ANY, "LeakyRelu", NULL}, /* α = 0.01 */
    {&layer_elu, FORM_ANY, "Elu", NULL},             /* α = 1 */
    {&layer_gelu, FORM_ANY, NULL, draw_gelu},
    {&layer_silu, FORM_ANY, NULL, draw_silu},
    {&layer_softplus, FORM_ANY, "Softplus", NULL},
    {&layer_hardswish, FORM_ANY, "HardSwish", NULL},
    {&layer_tanh, FORM_ANY, "Tanh", NULL},
    {&layer_sigmoid, FORM_ANY, "Sigmoid", NULL},
    {&layer_dropout, FORM_ANY, NULL, draw_nothing},
    {&layer_residual, FORM_ANY, NULL, draw_residual},
    {&layer_residual_end, FORM_ANY, NULL, draw_residual_end},
};

static const struct row *row_of(const struct layer_type *type) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].type == type)
      return &rows[i];
  return NULL;
}

bool onnx_has(const struct layer_type *type) {
  return row_of(type) != NULL && (type->closes == NULL || row_of(type->closes) != NULL);
}

static enum err draw_layer(struct drawing *d, const struct layer *l) {
  const struct row *row = row_of(l->type);
  if (row == NULL)
    return ERR_UNSUPPORTED;
  d->layer = l;
  bring(d, row->form, l->in);
  if (row->op != NULL)
    d->now.name = NODE(row->op, IN(d->now.name));
  else
    row->draw(d);
  return ERR_OK;
}

/* ---- both ends ---- */

static float mean_of(const struct scale *s, size_t i) {
  return (float)s->mean[i];
}

static float mean_rest(const struct scale *s, size_t i) {
  return (float)(s->mean[i] - (double)(float)s->mean[i]);
}

static float gain_of(const struct scale *s, size_t i) {
  return (float)(1 / s->sd[i]);
}

static const char *scale_constant(struct drawing *d, const char *name, float (*of)(const struct scale *s, size_t i)) {
  const struct scale *s = &d->scale;
  const char *made;
  float *room = onnx_room(d->g, name, 1, &(const uint32_t){(uint32_t)s->n}, &made);
  for (size_t i = 0; room != NULL && i < s->n; i++)
    room[i] = of(s, i);
  return made;
}

static bool has_rest(const struct scale *s) {
  for (size_t i = 0; i < s->n; i++)
    if (mean_rest(s, i) != 0)
      return true;
  return false;
}

/* (x − mean)/sd. Of a mean much larger than its sd a float has not enough digits: its rest is taken away after it, when the
 * difference is small and exact (Sterbenz 1974). */
static void draw_scale(struct drawing *d) {
  if (d->scale.n == 0)
    return;
  d->now.name = NODE("Sub", IN(d->now.name, scale_constant(d, "scale.mean", mean_of)));
  if (has_rest(&d->scale))
    d->now.name = NODE("Sub", IN(d->now.name, scale_constant(d, "scale.mean_rest", mean_rest)));
  d->now.name = NODE("Mul", IN(d->now.name, scale_constant(d, "scale.inverse_sd", gain_of)));
}

static void draw_input(struct drawing *d) {
  const struct contract *c = d->model->contract;
  if (contract_is_image(c)) {
    const uint32_t size[] = {c->height, c->width, c->channels};
    onnx_input(d->g, "input", "raw values within the contract's range, channels last", 3, size);
    d->now = (struct value){RESHAPE("input", (int64_t)contract_n_inputs(c)), FORM_ROWS};
  } else {
    onnx_input(d->g, "input",
               "raw values, in the order of the features; of categories 1 for the one and 0 for the others", 1,
               &(const uint32_t){(uint32_t)contract_n_inputs(c)});
    d->now = (struct value){"input", FORM_ROWS};
  }
  draw_scale(d);
  d->scaled = d->now.name;
}

/* The name under which people know what comes out of the last layer. */
static void end_as(struct drawing *d, const char *name, const char *what) {
  const struct arch *arch = schema_arch(d->model->schema);
  bring(d, FORM_ROWS, arch->layers[arch->n_layers - 1].out);
  d->now.name = NODE("Identity", IN(d->now.name), .as = name);
  onnx_output(d->g, name, what, 1, &arch->n_outputs);
}

static void end_classify(struct drawing *d) {
  end_as(d, "scores", "of each class");
  NODE("Softmax", IN(d->now.name), WITH(INT("axis", -1)), .as = "probabilities");
  onnx_output(d->g, "probabilities", "of each class, 1 together", 1, &schema_arch(d->model->schema)->n_outputs);
}

static void end_multilabel(struct drawing *d) {
  end_as(d, "scores", "of each class");
  NODE("Sigmoid", IN(d->now.name), .as = "probabilities");
  onnx_output(d->g, "probabilities", "that a class applies", 1, &schema_arch(d->model->schema)->n_outputs);
}

static void end_regress(struct drawing *d) {
  end_as(d, "value", "the number itself");
}

static void end_reconstruct(struct drawing *d) {
  end_as(d, "reconstruction", "of the scaled inputs");
  const char *difference = NODE("Sub", IN(d->now.name, d->scaled));
  NODE("ReduceMean", IN(NODE("Mul", IN(difference, difference))), WITH(INTS("axes", 1), INT("keepdims", 1)),
       .as = "score");
  onnx_output(d->g, "score", "how unlike what was learnt", 1, &(const uint32_t){1});
}

static enum err draw(struct drawing *d) {
  static void (*const ends[N_TASKS])(struct drawing *) = {[TASK_CLASSIFY] = end_classify,
                                                          [TASK_REGRESS] = end_regress,
                                                          [TASK_MULTILABEL] = end_multilabel,
                                                          [TASK_RECONSTRUCT] = end_reconstruct};
  const struct arch *arch = schema_arch(d->model->schema);
  draw_input(d);
  for (size_t i = 0; i < arch->n_layers; i++) {
    enum err e = draw_layer(d, &arch->layers[i]);
    if (e != ERR_OK)
      return e;
  }
  ends[d->model->contract->task](d);
  return ERR_OK;
}

enum err onnx_write(const char *path, const struct onnx_model *model) {
  struct drawing d = {.model = model,
                      .g = onnx_graph_new(),
                      .at_ends = calloc(schema_arch(model->schema)->n_layers, sizeof *d.at_ends)};
  enum err e = d.g != NULL && d.at_ends != NULL ? ERR_OK : ERR_NO_MEMORY;
  if (e == ERR_OK)
    e = contract_spread_scale(model->contract, model->scale, &d.scale);
  if (e == ERR_OK)
    e = draw(&d);
  if (e == ERR_OK)
    e = onnx_graph_write(d.g, path, model->notes, model->n_notes);
  scale_done(&d.scale);
  onnx_graph_free(d.g);
  free(d.at_ends);
  return e;
}
