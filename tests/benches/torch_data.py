"""Fashion-MNIST as tensors, for the programs in PyTorch that Starling is compared with."""
import gzip
import os
import pathlib
import sys

import numpy
import torch

FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")


def read(kind):
    """Bytes of the images [n][784] and labels [n] of "train" or "t10k"."""
    images = numpy.frombuffer(gzip.open(FASHION / f"{kind}-images-idx3-ubyte.gz").read()[16:], dtype=numpy.uint8)
    labels = numpy.frombuffer(gzip.open(FASHION / f"{kind}-labels-idx1-ubyte.gz").read()[8:], dtype=numpy.uint8)
    return images.reshape(-1, 784), labels


def tensors(images, labels):
    x = (torch.from_numpy(images.astype(numpy.float32)) / 255 - 0.2860) / 0.3530
    return x, torch.from_numpy(labels.astype(numpy.int64))


def take_one_thread():
    torch.set_num_threads(1)
    if len(os.listdir("/proc/self/task")) > 1:
        sys.exit(f"{sys.argv[0]}: more than one thread: set OPENBLAS_NUM_THREADS=1 and OMP_NUM_THREADS=1")
