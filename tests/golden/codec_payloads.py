#!/usr/bin/env python3
"""Writes codec_payloads.txt, from gossip/PROTOCOL.md and the headers of models/kernels alone: a line is

    kind seed fraction differences payload sums

where the arrays are hex of little-endian binary32, payloads hex of bytes, and sums are what a copy of all 0.75 becomes."""
import math
import random
import struct

LIMITS = {"q8": 127, "q4": 7}
COPY = 0.75


def f32(value):
    """Rounded once: Python's double holds products exactly, and sums and quotients well enough to round again."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bits_of(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def half(value):
    value = max(-65504.0, min(65504.0, value))
    return struct.pack("<e", value)


def noise(seed, place):
    mask = 0xFFFFFFFF
    h = (place + (seed & mask) & mask) ^ seed >> 32
    h ^= h >> 16
    h = h * 0x7FEB352D & mask
    h ^= h >> 15
    h = h * 0x846CA68B & mask
    h ^= h >> 16
    return (h >> 8) * 2.0**-24


def quantise(kind, seed, values, first):
    """Scale and whole numbers of a block."""
    limit, largest = LIMITS[kind], max(abs(v) for v in values)
    scale = f32(largest / limit)
    if scale < 2.0**-126:
        return 0.0, [0] * len(values)
    inverse = f32(limit / largest)
    q = [int(f32(f32(f32(v * inverse) + noise(seed, first + i)) + (limit + 1))) - (limit + 1) for i, v in enumerate(values)]
    return scale, [max(-limit, min(limit, v)) for v in q]


def pack(kind, q):
    if kind == "q8":
        return bytes(v & 255 for v in q)
    q = q + [0] * (len(q) % 2)
    return bytes((low & 15) | (high & 15) << 4 for low, high in zip(q[::2], q[1::2]))


def dense(kind, seed, values):
    """Payload and what it says."""
    payload, said = b"", []
    for first in range(0, len(values), 256):
        block = values[first:first + 256]
        if kind == "f32":
            payload += struct.pack(f"<{len(block)}f", *block)
            said += block
        elif kind == "f16":
            halves = [half(v) for v in block]
            payload += b"".join(halves)
            said += [struct.unpack("<e", h)[0] for h in halves]
        else:
            scale, q = quantise(kind, seed, block, first)
            payload += struct.pack("<f", scale) + pack(kind, q)
            said += [f32(scale * v) for v in q]
    return payload, said


def gap_bytes(gap):
    out = []
    while gap >= 128:
        out.append(gap & 127 | 128)
        gap >>= 7
    return bytes([*out, gap])


def topk(fraction, values):
    bins = [(bits_of(v) & 0x7FFFFFFF) >> 15 for v in values]
    wanted = max(1, math.ceil(fraction * len(values)))
    order = sorted((i for i in range(len(values)) if bins[i] > 0), key=lambda i: (-bins[i], i))
    payload, said, after = b"", [0.0] * len(values), 0
    for i in sorted(order[:wanted]) or [0]:
        payload += gap_bytes(i - after) + half(values[i])
        said[i] = struct.unpack("<e", half(values[i]))[0]
        after = i + 1
    return payload, said


def values_of(rng, n):
    special = [0.0, -0.0, 2.0**-149, -(2.0**-126), 1e-41, 2.0**-24, 2.0**-25, 70000.0, 1 + 2.0**-11]
    return [f32(rng.choice(special) if rng.random() < 0.05 else rng.gauss(0, 1) * 10 ** rng.randrange(-3, 2)) for _ in range(n)]


def main():
    rng = random.Random(4)
    with open("tests/golden/codec_payloads.txt", "w", encoding="ascii") as out:
        for n in (1, 2, 3, 255, 256, 257, 600):
            for kind in ("f32", "f16", "q8", "q4", "topk"):
                values = values_of(rng, n) if n != 255 else [f32(v * 1e-40) for v in values_of(rng, n)]
                seed, fraction = rng.getrandbits(64), rng.choice((0.01, 0.1, 0.25)) if kind == "topk" else 0
                payload, said = topk(fraction, values) if kind == "topk" else dense(kind, seed, values)
                arrays = [struct.pack(f"<{n}f", *a).hex() for a in (values, [f32(COPY + v) for v in said])]
                print(kind, f"{seed:x}", fraction, arrays[0], payload.hex(), arrays[1], file=out)


if __name__ == "__main__":
    main()
