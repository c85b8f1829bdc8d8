#!/usr/bin/env python3
"""Writes codec_f16.txt: binary32 bits, the binary16 bits that encode them, and the binary32 bits of those, in hex.

Rounding is Python's struct 'e' (nearest, ties to even); beyond 65504 the codec saturates."""
import random
import struct


def to_half(bits):
    value = struct.unpack('<f', struct.pack('<I', bits))[0]
    try:
        half = struct.unpack('<H', struct.pack('<e', value))[0]
    except OverflowError:
        half = 0x7C00
    return half & 0x8000 | 0x7BFF if half & 0x7FFF == 0x7C00 else half


def row(bits):
    sign = bits & 0x80000000
    half = to_half(bits & 0x7FFFFFFF) | sign >> 16
    back = struct.unpack('<I', struct.pack('<f', struct.unpack('<e', struct.pack('<H', half))[0]))[0]
    return f'{bits:08x} {half:04x} {back:08x}'


def bits_of(value):
    return struct.unpack('<I', struct.pack('<f', value))[0]


cases = [0, 1, 0x007FFFFF, 0x00800000, 0x7F7FFFFF]  # zero, f32 denormals, smallest and largest normal
for half in (1, 2, 3, 0x1FF, 0x3FE, 0x3FF, 0x400, 0x401, 0x3BFF, 0x3C00, 0x3C01, 0x7BFE, 0x7BFF):
    below, here = (struct.unpack('<e', struct.pack('<H', h))[0] for h in (half - 1, half))
    tie = bits_of((below + here) / 2)
    cases += [bits_of(here) - 1, bits_of(here), bits_of(here) + 1, tie - 1, tie, tie + 1]
cases += [bits_of(v) for v in (65504, 65519, 65519.996, 65520, 65536, 1e6, 2.0**-25, 2.0**-26, 0.1, 1 / 3)]
rng = random.Random(16)
cases += [rng.randrange(0x32000000, 0x48000000) for _ in range(400)]
with open('tests/golden/codec_f16.txt', 'w', encoding='ascii') as out:
    for case in cases:
        print(row(case), file=out)
        print(row(case | 0x80000000), file=out)
