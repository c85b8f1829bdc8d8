#!/usr/bin/env python3
"""Writes what PyTorch computes for fixed weights and inputs: every kind of layer, loss and optimiser of the architecture
line and the job file, for tests/torch/equality.c to compare.

usage: cases.py FILE     exit 77 where PyTorch is missing

FILE is text: `case NAME`, lines of words, arrays as `array NAME N` and a line of N C hexadecimal floats, `end`. Layouts are
ours: activations [n][height][width][channels], convolution weights [c_out][kh][kw][c_in], the whole model in one array in
schema order. Weights, inputs and targets come from one seed a case; PyTorch runs in single precision on one thread.
"""
import re
import sys
import zlib

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as missing:
    print(f"no python3-torch here: {missing}")
    sys.exit(77)

torch.set_num_threads(1)


# ---- layers: modules from NHWC to NHWC; `parts` lists (name, tensor in PyTorch's layout, its change to ours)

def as_is(t):
    return t


def channels_last(t):
    """[out][in][h][w] or [out][in][t] with the inputs last."""
    return t.movedim(1, -1)


class Layer(nn.Module):
    def __init__(self, inner, run, **layouts):
        super().__init__()
        self.inner, self.run, self.layouts = inner, run, layouts

    def forward(self, x):
        return self.run(self.inner, x)

    def parts(self):
        inner = self.inner
        named = [] if inner is None else [*inner.named_parameters(), *inner.named_buffers()]
        return [(t, self.layouts.get(name, as_is)) for name, t in named if t.is_floating_point()]


def flat(inner, x):
    return inner(x.reshape(len(x), -1))[:, None, None, :]


def image(inner, x):
    return inner(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


def series(inner, x):
    return inner(x[:, 0].permute(0, 2, 1)).permute(0, 2, 1)[:, None]


def plain(inner, x):
    return inner(x)


def recurrent(every):
    def run(inner, x):
        out, _ = inner(x[:, 0])
        return out[:, None] if every else out[:, -1:][:, None]
    return run


def tokens(inner, x):
    return inner(x.reshape(len(x), -1).long())[:, None]


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)

    def parts(self):
        return [part for layer in self.inner for part in layer.parts()]


def window(words):
    """KxK of the argument, and the options: sizes, stride, padding."""
    sizes = [int(v) for v in words[0].split("x")]
    options = dict(zip(words[1::2], words[2::2]))
    return sizes, int(options.get("stride", 1)), int(options.get("pad", 0))


def conv(words, shape):
    (kh, kw, out), stride, pad = window(words)
    return Layer(nn.Conv2d(shape[2], out, (kh, kw), stride, pad), image, weight=channels_last)


def conv1d(words, shape):
    (k, out), stride, pad = window(words)
    return Layer(nn.Conv1d(shape[2], out, k, stride, pad), series, weight=channels_last)


def depthwise(words, shape):
    (kh, kw), stride, pad = window(words)
    inner = nn.Conv2d(shape[2], shape[2], (kh, kw), stride, pad, groups=shape[2])
    return Layer(inner, image, weight=channels_last)


def pool(kind):
    """A square window of an image, one along a series."""
    def build(words, shape):
        side = int(words[0])
        stride = int(words[2]) if len(words) > 2 else side
        sides, strides = ((1, side), (1, stride)) if shape[0] == 1 else (side, stride)
        return Layer(kind(sides, strides), image)
    return build


def batchnorm(words, shape):
    return Layer(nn.BatchNorm2d(shape[2]), image)


def groupnorm(words, shape):
    return Layer(nn.GroupNorm(int(words[0]), shape[2]), image)


def layernorm(words, shape):
    return Layer(nn.LayerNorm(shape[2]), plain)


def dense(words, shape):
    n_in = shape[0] * shape[1] * shape[2]
    return Layer(nn.Linear(n_in, {"classes": CLASSES, "targets": 1}.get(words[0]) or int(words[0])), flat)


def embed(words, shape):
    return Layer(nn.Embedding(int(words[0]), int(words[1])), tokens)


def gru(words, shape):
    return Layer(nn.GRU(shape[2], int(words[0]), batch_first=True), recurrent("all" in words))


def of(function):
    return lambda words, shape: Layer(None, lambda _, x: function(x))


# Every word of the architecture line.
WORDS = {
    "dense": dense, "conv": conv, "conv1d": conv1d, "depthwise": depthwise,
    "pool": pool(nn.MaxPool2d), "avgpool": pool(nn.AvgPool2d), "globalpool": of(lambda x: x.mean((1, 2), True)),
    "batchnorm": batchnorm, "groupnorm": groupnorm, "layernorm": layernorm, "embed": embed, "gru": gru,
    "dropout": lambda words, shape: Layer(nn.Dropout(float(words[0])), plain),
    "relu": of(F.relu), "leakyrelu": of(F.leaky_relu), "elu": of(F.elu), "gelu": of(F.gelu), "silu": of(F.silu),
    "softplus": of(F.softplus), "hardswish": of(F.hardswish), "tanh": of(torch.tanh), "sigmoid": of(torch.sigmoid),
}


def parse(text):
    """The line as nested lists: a layer is its words, a block ["residual", [layers]]."""
    stack = [[[]]]
    for token in re.findall(r"[{},]|[^\s{},]+", text):
        if token == "{":
            stack.append([[]])
        elif token == "}":
            block = stack.pop()
            stack[-1][-1].append(block)
        elif token == ",":
            stack[-1].append([])
        else:
            stack[-1][-1].append(token)
    return stack[0]


def build(layers, shape):
    """The modules of a parsed line, and the extent that comes out."""
    modules = []
    for word, *words in layers:
        if word == "residual":
            inner, _ = build(words[0], shape)
            module = Residual(inner)
        else:
            module = WORDS[word](words, shape)
        module.train(False)
        with torch.no_grad():
            shape = tuple(module(torch.zeros(2, *shape)).shape[1:])
        modules.append(module)
    return nn.Sequential(*modules), shape


# ---- losses: our line -> (targets from outputs' shape, the mean loss, class weights or None)

CLASSES, BATCH = 5, 6


def draw_labels(shape):
    return torch.randint(0, shape[1], (shape[0],))


def draw_values(shape):
    return 2 * torch.randn(shape)


def draw_marks(shape):
    return torch.randint(0, 2, shape).float()


WEIGHTS = torch.tensor([0.5, 1, 2, 3, 0.25])


def cross_entropy(smoothing=0.0, weights=None):
    return draw_labels, lambda z, y: F.cross_entropy(z, y, weights, label_smoothing=smoothing), weights


def binary(weights=None):
    return draw_marks, lambda z, y: F.binary_cross_entropy_with_logits(z, y, pos_weight=weights), weights


def huber(delta):
    return draw_values, lambda z, y: F.huber_loss(z, y, delta=delta), None


LOSSES = [
    ("cross-entropy", cross_entropy()),
    ("cross-entropy smoothing 0.1", cross_entropy(0.1)),
    ("cross-entropy", cross_entropy(0.0, WEIGHTS)),
    ("cross-entropy smoothing 0.1", cross_entropy(0.1, WEIGHTS)),
    ("mean-squared-error", (draw_values, F.mse_loss, None)),
    ("huber delta 1", huber(1.0)),
    ("huber delta 0.25", huber(0.25)),
    ("binary-cross-entropy", binary()),
    ("binary-cross-entropy", binary(WEIGHTS)),
]


# ---- optimisers: our line -> PyTorch's; ten steps along given gradients

OPTIMISERS = {
    "sgd rate 0.1 decay 0.01": lambda w: torch.optim.SGD(w, 0.1, weight_decay=0.01),
    "sgd rate 0.1 momentum 0.9 decay 0.01": lambda w: torch.optim.SGD(w, 0.1, momentum=0.9, weight_decay=0.01),
    "sgd rate 0.1 momentum 0.9 nesterov 1 decay 0.01":
        lambda w: torch.optim.SGD(w, 0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "sgd rate 0.1 momentum 0.9 clip 2": lambda w: torch.optim.SGD(w, 0.1, momentum=0.9),
    "adam rate 0.01 decay 0.01": lambda w: torch.optim.Adam(w, 0.01, weight_decay=0.01),
    "adamw rate 0.01 decay 0.01": lambda w: torch.optim.AdamW(w, 0.01, weight_decay=0.01),
    "adamw rate 0.01 decay 0.01 clip 2": lambda w: torch.optim.AdamW(w, 0.01, weight_decay=0.01),
}


# ---- cases: name, input, architecture; the last layer fits the contract

NETS = [
    ("dense", (1, 1, 7), "dense 9, relu, dense classes"),
    ("tanh", (1, 1, 7), "dense 9, tanh, dense classes"),
    ("sigmoid", (1, 1, 7), "dense 9, sigmoid, dense classes"),
    ("leakyrelu", (1, 1, 7), "dense 9, leakyrelu, dense classes"),
    ("elu", (1, 1, 7), "dense 9, elu, dense classes"),
    ("gelu", (1, 1, 7), "dense 9, gelu, dense classes"),
    ("silu", (1, 1, 7), "dense 9, silu, dense classes"),
    ("softplus", (1, 1, 7), "dense 9, softplus, dense classes"),
    ("hardswish", (1, 1, 7), "dense 9, hardswish, dense classes"),
    ("dropout", (1, 1, 7), "dense 9, dropout 0, relu, dense classes"),
    ("batchnorm of features", (1, 1, 7), "dense 9, batchnorm, relu, dense classes"),
    ("layernorm of features", (1, 1, 7), "dense 12, layernorm, relu, dense classes"),
    ("groupnorm of features", (1, 1, 7), "dense 12, groupnorm 3, relu, dense classes"),
    ("conv", (9, 8, 3), "conv 3x3x4, relu, dense classes"),
    ("conv, pad", (9, 8, 3), "conv 3x3x4 pad 1, tanh, dense classes"),
    ("conv, stride and pad", (9, 8, 3), "conv 5x3x6 stride 2 pad 1, dense classes"),
    ("conv 1x1", (5, 6, 4), "conv 1x1x8, relu, dense classes"),
    ("conv twice", (12, 12, 1), "conv 5x5x8, relu, pool 2, conv 3x3x16, relu, dense classes"),
    ("conv1d", (1, 20, 3), "conv1d 3x8, relu, conv1d 5x6 stride 2 pad 2, dense classes"),
    ("depthwise", (8, 9, 6), "depthwise 3x3 pad 1, conv 1x1x5, relu, dense classes"),
    ("depthwise, stride", (8, 9, 6), "depthwise 3x3 stride 2, dense classes"),
    ("pool", (9, 8, 3), "pool 2, dense classes"),
    ("pool, stride", (9, 8, 3), "conv 3x3x4, pool 3 stride 2, dense classes"),
    ("pools of a series", (1, 20, 3), "conv1d 3x4, pool 2, tanh, avgpool 3 stride 2, dense classes"),
    ("avgpool", (9, 8, 3), "conv 3x3x4, avgpool 2, dense classes"),
    ("globalpool", (6, 7, 3), "conv 3x3x4, globalpool, dense classes"),
    ("batchnorm of images", (6, 7, 3), "conv 3x3x4, batchnorm, relu, globalpool, dense classes"),
    ("groupnorm of images", (6, 7, 3), "conv 3x3x6, groupnorm 2, relu, globalpool, dense classes"),
    ("layernorm of images", (6, 7, 3), "conv 3x3x6, layernorm, relu, dense classes"),
    ("embed", (1, 1, 11), "embed 13 4, conv1d 3x6, relu, dense classes"),
    ("embed, gru", (1, 1, 11), "embed 13 4, gru 5, dense classes"),
    ("gru", (1, 12, 3), "gru 6, dense classes"),
    ("gru, all states", (1, 12, 3), "gru 6 states all, gru 4, dense classes"),
    ("layernorm of a series", (1, 9, 4), "gru 5 states all, layernorm, dense classes"),
    ("residual of features", (1, 1, 7), "residual { dense 9, relu, dense 7 }, relu, dense classes"),
    ("residual", (6, 7, 3), "conv 3x3x4 pad 1, residual { conv 3x3x4 pad 1, batchnorm, relu, conv 3x3x4 pad 1 }, relu, "
     "globalpool, dense classes"),
]


# ---- writing

def write_array(out, name, t):
    values = t.detach().double().flatten().tolist()
    out.write(f"array {name} {len(values)}\n{' '.join(v.hex() for v in values)}\n")


def whole(model, pick):
    """One array of the model in schema order; `pick` says what of each tensor."""
    return torch.cat([layout(pick(t)).flatten() for layer in model for t, layout in layer.parts()])


def draw_weights(model):
    for layer in model:
        for t, _ in layer.parts():
            t.data = 0.5 * torch.randn(t.shape)
    for name, t in model.named_buffers():
        if name.endswith("running_var"):
            t.data = 0.5 + torch.rand(t.shape)


def draw_input(text, shape):
    vocabulary = re.match(r"embed (\d+)", text)
    if vocabulary:
        return torch.randint(0, int(vocabulary[1]), (BATCH, *shape)).float()
    return torch.randn(BATCH, *shape)


def gradient_of(t):
    return t.grad if t.grad is not None else torch.zeros_like(t)


def write_net(out, name, shape, text, line, loss):
    targets, mean_loss, weights = loss
    torch.manual_seed(zlib.crc32(f"{name} {line}".encode()))
    model, extent = build(parse(text), shape)
    draw_weights(model)
    x = draw_input(text, shape).requires_grad_()
    y = targets((BATCH, extent[2]))
    out.write(f"case {name}\narch {text}\ninput {' '.join(map(str, shape))}\nbatch {BATCH}\noutputs {extent[2]}\nloss {line}\n")
    if weights is not None:
        write_array(out, "weights", weights)
    write_array(out, "w", whole(model, as_is))
    model.train(True)
    z = model(x)[:, 0, 0]
    value = mean_loss(z, y)
    value.backward()
    write_array(out, "x", x)
    write_array(out, "y", y)
    write_array(out, "z", z)
    write_array(out, "loss", value)
    write_array(out, "d_x", gradient_of(x))
    write_array(out, "d_w", whole(model, gradient_of))
    write_array(out, "w_after", whole(model, as_is))
    model.train(False)
    write_array(out, "z_after", model(x)[:, 0, 0])
    out.write("end\n")


def write_optimiser(out, text, make):
    torch.manual_seed(zlib.crc32(text.encode()))
    n, steps = 37, 10
    w = nn.Parameter(torch.randn(n))
    gradients = torch.randn(steps, n)
    clip = re.search(r"clip (\S+)", text)
    out.write(f"case {text}\noptimiser {text}\n")
    write_array(out, "w", w)
    write_array(out, "gradients", gradients)
    optimiser = make([w])
    for g in gradients:
        w.grad = g.clone()
        if clip:
            nn.utils.clip_grad_norm_([w], float(clip[1]))
        optimiser.step()
    write_array(out, "w_after", w)
    out.write("end\n")


def main():
    with open(sys.argv[1], "w", encoding="ascii") as out:
        for name, shape, text in NETS:
            write_net(out, name, shape, text, *LOSSES[0])
        for line, loss in LOSSES:
            name = line if loss[2] is None else f"{line}, weighted"
            write_net(out, name, (1, 1, 7), "dense 9, tanh, dense 5", line, loss)
        for text, make in OPTIMISERS.items():
            write_optimiser(out, text, make)
    return 0


if __name__ == "__main__":
    sys.exit(main())
