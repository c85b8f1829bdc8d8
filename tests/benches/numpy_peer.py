#!/usr/bin/python3
"""Merges eight models of 2^20 values with NumPy, one thread: lines "median|trimmed|sorted SECONDS" of processor time,
interleaved. trimmed is what scipy.stats.trim_mean does, sorted the same by a whole sort.

usage: numpy_peer.py [REPETITIONS]"""
import sys
import time

import numpy

models = numpy.random.default_rng(1).normal(0, 0.05, (8, 1 << 20)).astype(numpy.float32)
WORKS = {"median": lambda: numpy.median(models, axis=0),
         "trimmed": lambda: numpy.partition(models, (2, 5), axis=0)[2:6].mean(axis=0),
         "sorted": lambda: numpy.sort(models, axis=0)[2:6].mean(axis=0)}

for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
    for name, work in WORKS.items():
        start = time.process_time()
        work()
        print(name, time.process_time() - start, flush=True)
