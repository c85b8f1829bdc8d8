#!/usr/bin/env python3
"""Training steps by PyTorch, as bench_train takes them: torch_peer.py BATCH HEIGHT WIDTH CHANNELS ARCH

Prints a line when it is ready, then answers each line of its input with samples a second. One thread, timed by the
processor time that it takes, and refuses to answer when others took some; a plain nn.Sequential in eager mode, SGD with
momentum; the samples are a tensor that is standardised and shuffled already, so a batch is a view and costs nothing.
"""
import sys
import time

import torch
from torch import nn

N_SAMPLES, N_CLASSES, MEASURED_S = 12000, 10, 0.15


def dense(shape, n_outputs):
    flat = [] if len(shape) == 1 else [nn.Flatten()]
    n_inputs = torch.Size(shape).numel()
    return [*flat, nn.Linear(n_inputs, n_outputs)], (n_outputs,)


def windows(n, kernel, stride):
    return (n - kernel) // stride + 1


def convolution(shape, sizes):
    """shape is (channels, height, width); sizes "5x5x8"."""
    height, width, channels = map(int, sizes.split("x"))
    return [nn.Conv2d(shape[0], channels, (height, width))], (
        channels, windows(shape[1], height, 1), windows(shape[2], width, 1))


def convolution_of_series(shape, sizes):
    """shape is (channels, steps); sizes "5x64"."""
    width, channels = map(int, sizes.split("x"))
    return [nn.Conv1d(shape[0], channels, width)], (channels, windows(shape[1], width, 1))


def pool(shape, side):
    module = nn.MaxPool2d if len(shape) == 3 else nn.MaxPool1d
    return [module(int(side))], (shape[0], *(windows(n, int(side), int(side)) for n in shape[1:]))


def layer(shape, word, *arguments):
    """The modules of one word of the architecture line, and the shape of a sample after them."""
    if word == "dense":
        return dense(shape, N_CLASSES if arguments[0] == "classes" else int(arguments[0]))
    if word == "relu":
        return [nn.ReLU(inplace=True)], shape
    if word == "conv":
        return convolution(shape, *arguments)
    if word == "conv1d":
        return convolution_of_series(shape, *arguments)
    if word == "pool":
        return pool(shape, *arguments)
    raise ValueError(f"torch_peer: no layer '{word}'")


def network(arch, shape):
    modules = []
    for text in arch.split(","):
        more, shape = layer(shape, *text.split())
        modules += more
    return nn.Sequential(*modules)


def epochs(net, x, labels, batch):
    """Steps until the time is over; samples a second."""
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    n_seen, start, all_start = 0, time.thread_time(), time.process_time()
    while time.thread_time() - start < MEASURED_S:
        for at in range(0, 50 * batch, batch):
            optimiser.zero_grad(set_to_none=True)
            loss_of(net(x[at:at + batch]), labels[at:at + batch]).backward()
            optimiser.step()
        n_seen += 50 * batch
    own, of_all = time.thread_time() - start, time.process_time() - all_start
    if of_all > 1.02 * own:
        sys.exit(f"torch_peer: its other threads took {of_all - own:.3g} s beside {own:.3g}: set OPENBLAS_NUM_THREADS=1")
    return n_seen / own


def main():
    batch, height, width, channels = map(int, sys.argv[1:5])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    words = sys.argv[5].split()
    shape = (channels, width) if "conv1d" in words else (channels, height, width) if "conv" in words else (
        height * width * channels,)
    net = network(sys.argv[5], shape)
    x = torch.randn(N_SAMPLES, *shape)
    labels = torch.randint(N_CLASSES, (N_SAMPLES,))
    print(f"PyTorch-{torch.__version__}", flush=True)
    for _ in sys.stdin:
        print(epochs(net, x, labels, batch), flush=True)


if __name__ == "__main__":
    main()
