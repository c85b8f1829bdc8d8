#!/usr/bin/python3
"""Three epochs of PyTorch on the whole of Fashion-MNIST, as the figures compare Starling with it.

usage: torch_learn.py SEED

MLP 784-128-10, batches of 32, SGD with momentum 0.9 and rate 0.02. Prints the accuracy on the test set in percent.
"""
import gzip
import os
import pathlib
import sys

import numpy
import torch

FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")


def read(kind):
    images = numpy.frombuffer(gzip.open(FASHION / f"{kind}-images-idx3-ubyte.gz").read()[16:], dtype=numpy.uint8)
    labels = numpy.frombuffer(gzip.open(FASHION / f"{kind}-labels-idx1-ubyte.gz").read()[8:], dtype=numpy.uint8)
    x = (torch.from_numpy(images.reshape(-1, 784).astype(numpy.float32)) / 255 - 0.2860) / 0.3530
    return x, torch.from_numpy(labels.astype(numpy.int64))


torch.set_num_threads(1)
if len(os.listdir("/proc/self/task")) > 1:
    sys.exit("torch_learn: more than one thread: set OPENBLAS_NUM_THREADS=1 and OMP_NUM_THREADS=1")
torch.manual_seed(int(sys.argv[1]))
model = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
loss_of = torch.nn.CrossEntropyLoss()
x, y = read("train")
for _ in range(3):
    for chosen in torch.randperm(len(x)).split(32):
        optimiser.zero_grad()
        loss_of(model(x[chosen]), y[chosen]).backward()
        optimiser.step()
x, y = read("t10k")
with torch.no_grad():
    print(100 * (model(x).argmax(1) == y).float().mean().item())
