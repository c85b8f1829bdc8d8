"""Files that lie, in every format that people bring: damaged.write(FOLDER) makes them, always the same bytes.

Each is (name, what it is handed to, a part of the one line that must come). `data` is held against a job by `data check`,
`model` is offered to `models import`, `start` is what an agent is started on: values are judged there.
"""
import gzip
import io
import json
import struct
import warnings
import zipfile
import zlib

import numpy as np
from numpy.lib import format as npy

N_FEATURES, N_CLASSES = 4, 3


def array_bytes(array, version=(1, 0)):
    out = io.BytesIO()
    npy.write_array(out, array, version=version)
    return out.getvalue()


def npy_with(head, data=b"", version=1):
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    size = struct.pack("<H" if version == 1 else "<I", len(head))
    return b"\x93NUMPY" + bytes([version, 0]) + size + head + data


def shaped(shape, descr="<f4", data=b""):
    return npy_with(f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}".encode(), data)


def zip_of(members, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that stand twice
        for name, data in members:
            z.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return out.getvalue()


def patched(data, at, new):
    return data[:at] + new + data[at + len(new):]


def overlapping(n):
    """A directory whose n entries all stand on one member's bytes."""
    name, data = b"x.npy", array_bytes(X) * 40
    common = struct.pack("<HHHHIIIIHH", 20, 0, 0, 0, 33, zlib.crc32(data), len(data), len(data), 0, 0)

    def with_name(what):
        return common[:-4] + struct.pack("<HH", len(what), 0)
    local = b"PK\3\4" + with_name(name) + name + data
    directory = b""
    for i in range(n):
        entry = b"x%d.npy" % i
        directory += b"PK\1\2" + struct.pack("<H", 20) + with_name(entry) + struct.pack("<HHHII", 0, 0, 0, 0, 0) + entry
    return local + directory + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, n, n, len(directory), len(local), 0)


def bomb(n_bytes):
    """A member of so many zeros, packed a thousandfold."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z, z.open("x.npy", "w") as member:
        member.write(shaped(f"({n_bytes // 4},)"))
        for _ in range(n_bytes >> 20):
            member.write(bytes(1 << 20))
    return out.getvalue()


def tensors_of(head, data=b""):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


X = np.arange(40 * N_FEATURES, dtype="<f4").reshape(40, N_FEATURES) / 100
Y = np.arange(40, dtype="<i8") % N_CLASSES
W = {"dense1.weight": (N_CLASSES, N_FEATURES), "dense1.bias": (N_CLASSES,)}


def whole_model(weight=None):
    weight = np.zeros((N_CLASSES, N_FEATURES), "<f4") if weight is None else weight
    n = weight.nbytes
    return tensors_of({"dense1.weight": tensor(list(weight.shape), 0, n), "dense1.bias": tensor([3], n, n + 12)},
                      weight.tobytes() + bytes(12))


def data_npy():
    good, with_nan = array_bytes(X), X.copy()
    with_nan[7, 2] = np.nan
    objects = np.empty(40, dtype=object)
    return [
        ("empty.npy", b"", "before its declared end"),
        ("magic.npy", b"\x93NUMPX" + good[6:], "does not begin as a NumPy array"),
        ("version9.npy", patched(good, 6, b"\x09"), "version 9.0"),
        ("cut_head.npy", good[:40], "before its declared end"),
        ("cut_data.npy", good[:-1], "fetch the file again"),
        ("trailing.npy", good + b"\0", "bytes follow"),
        ("head_4g.npy", b"\x93NUMPY\2\0\xff\xff\xff\xff" + good[10:], "at most 10000 are read"),
        ("shape_huge.npy", shaped("(1000000000, 4)"), "needs 16000000000 bytes"),
        ("shape_overflow.npy", shaped("(4294967296, 4294967296, 4)"), "more values than can be counted"),
        ("shape_digits.npy", shaped("(99999999999999999999999, 4)"), "overflows"),
        ("shape_negative.npy", shaped("(-40, 4)"), "no list of sizes"),
        ("rank.npy", shaped("(1,1,1,1,1,1,1,1,1,4)", data=bytes(16)), "dimensions"),
        ("objects.npy", array_bytes_of_objects(objects), "Python objects"),
        ("records.npy", array_bytes(np.zeros(40, dtype=[("a", "<f4"), ("b", "<f4")])), "records"),
        ("complex.npy", array_bytes(X.astype("<c8")), "'<c8'"),
        ("code.npy", npy_with(b"{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (40, 4)}"),
         "its head is no dict"),
        ("no_shape.npy", npy_with(b"{'descr': '<f4', 'fortran_order': False}"), "its head is no dict"),
        ("other_width.npy", array_bytes(X[:, :3].copy()), "has 3 values a sample, the contract 4 inputs"),
        ("scalar.npy", array_bytes(np.float32(1)), "no samples"),
        ("none.npy", array_bytes(X[:0]), "no samples"),
    ]


def array_bytes_of_objects(array):
    out = io.BytesIO()
    npy.write_array(out, array, version=(1, 0), allow_pickle=True)
    return out.getvalue()


def data_npz():
    x, y = array_bytes(X), array_bytes(Y)
    good = zip_of([("x.npy", x), ("y.npy", y)])
    packed = zip_of([("x.npy", x), ("y.npy", y)], zipfile.ZIP_DEFLATED)
    return [
        ("empty.npz", b"", "no whole zip archive"),
        ("no_zip.npz", x, "no whole zip archive"),
        ("cut.npz", good[:-30], "no whole zip archive"),
        ("cut_middle.npz", good[:100] + good[-200:], "fetch"),
        ("no_y.npz", zip_of([("x.npy", x)]), "has no array y"),
        ("climbing.npz", zip_of([("../x.npy", x), ("y.npy", y)]), "name that no array can have"),
        ("absolute.npz", zip_of([("/etc/x.npy", x), ("y.npy", y)]), "name that no array can have"),
        ("twice.npz", zip_of([("x.npy", x), ("x.npy", x), ("y.npy", y)]), "stands there twice"),
        ("bzip2.npz", zip_of([("x.npy", x), ("y.npy", y)], zipfile.ZIP_BZIP2), "only stored and deflate"),
        ("encrypted.npz", patched(good, good.index(b"PK\1\2") + 8, b"\1\0"), "encrypted"),
        ("crc.npz", patched(good, good.index(x) + 200, b"\xff\xfe"), "damaged"),
        ("deflate.npz", patched(packed, packed.index(b"x.npy") + 60, b"\xff" * 40), "damaged"),
        ("overlap.npz", overlapping(8), "overlap"),
        ("bomb.npz", bomb(256 << 20), "more than 100-fold"),
        ("declared_bomb.npz", patched(packed, packed.index(b"PK\1\2") + 24, b"\xff\xff\xff\x7f"), "more than 100-fold"),
        ("not_npy.npz", zip_of([("x.npy", b"hello world, hello world"), ("y.npy", y)]), "does not begin as a NumPy array"),
    ]


def values():
    with_nan, infinite, far = X.copy(), X.copy(), X.copy()
    with_nan[7, 2], infinite[3, 0], far[9, 1] = np.nan, np.inf, 5000
    labels = Y.copy()
    labels[5] = N_CLASSES
    def both(x, y):
        return zip_of([("x.npy", array_bytes(x)), ("y.npy", array_bytes(y))])
    return [
        ("nan.npz", both(with_nan, Y), "sample 7"),
        ("infinite.npz", both(infinite, Y), "sample 3"),
        ("far.npz", both(far, Y), "sample 9"),
        ("label.npz", both(X, labels), "the label of sample 5 is 3"),
        ("label_negative.npz", both(X, Y - 1), "the label of sample 0 is -1"),
        ("label_float.npz", both(X, Y.astype("<f4")), "y.astype('int64')"),
        ("label_one_hot.npz", both(X, np.eye(3, dtype="<f4")[Y]), "y.argmax(1)"),
        ("label_count.npz", both(X, Y[:-1]), "39 labels for 40 samples"),
    ]


def models():
    good, weight = whole_model(), np.zeros((N_CLASSES, N_FEATURES), "<f4")
    weight[1, 1] = np.nan
    a, deep = tensor([2], 0, 8), b'{"a":' + b"[" * 100000
    return [
        ("empty.safetensors", b"", "before its declared end"),
        ("cut_head.safetensors", good[:30], "fetch it again"),
        ("cut_data.safetensors", good[:-4], "fetch the file again"),
        ("trailing.safetensors", good + bytes(4), "4 bytes follow"),
        ("head_huge.safetensors", b"\xff" * 8 + good[8:], "at most 4194304"),
        ("head_100m.safetensors", struct.pack("<Q", 100 << 20) + good[8:], "at most 4194304"),
        ("no_json.safetensors", tensors_of(b"{'a': 1}"), "no JSON of tensors"),
        ("deep.safetensors", tensors_of(deep), "no JSON of tensors"),
        ("wide.safetensors", tensors_of(b'{"a":[' + b"[]," * (1 << 20) + b"[]]}"), "more values than"),
        ("twice.safetensors", tensors_of(b'{"a":%s,"a":%s}' % ((json.dumps(a).encode(),) * 2), bytes(8)), "twice"),
        ("overlap.safetensors", tensors_of({"a": a, "b": tensor([2], 4, 12)}, bytes(12)), "overlap"),
        ("gap.safetensors", tensors_of({"a": a, "b": tensor([2], 16, 24)}, bytes(24)), "belong to none"),
        ("backwards.safetensors", tensors_of({"a": tensor([2], 8, 0)}, bytes(8)), "ends before it begins"),
        ("outside.safetensors", tensors_of({"a": tensor([1 << 40], 0, 1 << 42)}, bytes(8)), "fetch the file again"),
        ("shape.safetensors", tensors_of({"a": tensor([3], 0, 8)}, bytes(8)), "its shape needs 12"),
        ("shape_overflow.safetensors", tensors_of({"a": tensor([1 << 62, 16], 0, 8)}, bytes(8)), "can be counted"),
        ("dtype.safetensors", tensors_of({"a": tensor([8], 0, 8, "F8_E5M2")}, bytes(8)), "F8_E5M2"),
        ("nan.safetensors", whole_model(weight), "value 5 of tensor dense1.weight"),
        ("other_shape.safetensors", whole_model(np.zeros((N_CLASSES, 9), "<f4")), "matched 1 of 2 tensors"),
        ("pickle.pt", b"PK\3\4" + b"cos\nsystem\n(S'true'\ntR.", "never opened"),
        ("bomb_model.npz", bomb(256 << 20), "more than 100-fold"),
        ("climbing_model.npz", zip_of([("../../dense1.weight.npy", array_bytes(X))]), "name that no array can have"),
    ]


def images():
    head = struct.pack(">BBBBIII", 0, 0, 8, 3, 40, 2, 2)
    good = head + bytes(160)
    return [
        ("magic-idx3", b"\1" + good[1:], "does not begin as an IDX file"),
        ("cut-idx3", good[:-1], "fetch the file again"),
        ("trailing-idx3", good + b"\0", "follow its declared end"),
        ("huge-idx3", struct.pack(">BBBBIII", 0, 0, 8, 3, 1 << 26, 1 << 10, 1 << 10), "fetch the file again"),
        ("overflow-idx3", struct.pack(">BBBBIII", 0, 0, 8, 3, 0xffffffff, 0xffffffff, 0xffffffff), "at most"),
        ("type-idx3", patched(good, 2, b"\x0d"), "only type 8"),
        ("crc-idx3.gz", broken_gzip(good), "damaged"),
    ]


def broken_gzip(data):
    packed = gzip.compress(data, mtime=0)
    return packed[:-8] + bytes(4) + packed[-4:]


def tables():
    head = b"a,b,c,d,y\n"
    row = b"1,2,3,4,k0\n"
    return [
        ("quote.csv", head + b'"1,2,3,4,k0\n' + row * 40, "close the quote"),
        ("nul.csv", head + b"1,2,\0,4,k0\n" + row * 40, "NUL byte"),
        ("field.csv", head + b"1" * 5000 + b",2,3,4,k0\n", "longer than 4096 bytes"),
        ("empty.csv", b"", "it is empty"),
    ]


def write(folder):
    """All of them, as (path, role, part of the line)."""
    out = []
    for role, files in (("data", data_npy() + data_npz() + tables()), ("start", values()), ("images", images()),
                        ("model", models())):
        for name, data, says in files:
            path = folder / role / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            out.append((path, role, says))
    np.save(folder / "y.npy", Y)
    (folder / "labels").write_bytes(struct.pack(">BBBBI", 0, 0, 8, 1, 40) + bytes(i % 3 for i in range(40)))
    np.savez(folder / "good.npz", x=X, y=Y)
    (folder / "good.safetensors").write_bytes(whole_model())
    return out
