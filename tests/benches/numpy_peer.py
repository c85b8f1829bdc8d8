#!/usr/bin/python3
"""Merges eight models of 2^20 values with NumPy, one thread: lines "median|trimmed|sorted SECONDS" of processor time,
interleaved; it ends when other threads took some. trimmed is what scipy.stats.trim_mean does, sorted the same by a whole sort.

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
        start, all_start = time.thread_time(), time.process_time()
        work()
        own, of_all = time.thread_time() - start, time.process_time() - all_start
        if of_all > 1.02 * own + 1e-4:
            sys.exit(f"numpy_peer: its other threads took {of_all - own:.3g} s beside {own:.3g}: set OPENBLAS_NUM_THREADS=1")
        print(name, own, flush=True)
