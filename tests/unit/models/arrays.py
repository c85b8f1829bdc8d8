#!/usr/bin/python3
"""Writes the fixtures of test_npy.c by NumPy itself: tests/unit/models/arrays.py FOLDER

Every array is [3][2][2] with the value i − 4 at its i-th place in C order; of unsigned types i, of bool i odd.
"""
import pathlib
import sys
import zipfile

import numpy as np
from numpy.lib import format as npy

TYPES = ["b1", "u1", "i1", "<u2", ">u2", "<i2", ">i2", "<u4", "<i4", ">i4", "<u8", "<i8", ">i8", "<f2", ">f2", "<f4", ">f4",
         "<f8", ">f8"]


def values(dtype):
    kind = np.dtype(dtype).kind
    i = np.arange(12).reshape(3, 2, 2)
    return (i % 2 if kind == "b" else i if kind == "u" else i - 4).astype(dtype)


def save(path, array, version):
    with open(path, "wb") as out:
        npy.write_array(out, array, version=version)


def main(folder):
    folder.mkdir(exist_ok=True)
    for dtype in TYPES:
        order = {"<": "le", ">": "be"}.get(dtype[0], "xx")
        save(folder / f"{dtype.strip('<>')}_{order}.npy", values(dtype), (1, 0))
    save(folder / "f4_fortran.npy", np.asfortranarray(values("<f4")), (1, 0))
    save(folder / "f4_version2.npy", values("<f4"), (2, 0))
    save(folder / "f4_version3.npy", values("<f4"), (3, 0))
    np.save(folder / "scalar.npy", np.float32(1.5))
    np.save(folder / "objects.npy", np.array([{}, None], dtype=object), allow_pickle=True)
    np.save(folder / "records.npy", np.zeros(2, dtype=[("a", "<f4"), ("b", "<i2")]))
    np.save(folder / "complex.npy", np.zeros(2, dtype="c8"))
    np.save(folder / "text.npy", np.array(["a", "bc"]))
    np.savez(folder / "stored.npz", x=values("<f4"), y=np.arange(3))
    np.savez_compressed(folder / "deflate.npz", x_train=values("u1"), y_train=np.arange(3, dtype="u1"))
    zipfile.ZIP64_LIMIT = 16  # as for members above 4 GiB
    np.savez(folder / "zip64.npz", x=values("<f4"), y=np.arange(3))


main(pathlib.Path(sys.argv[1]))
