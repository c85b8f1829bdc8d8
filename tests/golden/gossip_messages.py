#!/usr/bin/env python3
"""Writes gossip_messages.hex: one example of every message, built from gossip/PROTOCOL.md alone.

The same examples stand in tests/unit/gossip/test_message.c, which compares. A line is `name hex`.
"""
import struct
import sys


def digest(first):
    return bytes((first + i) & 0xFF for i in range(32))


def u8(v):
    return struct.pack("<B", v)


def u16(v):
    return struct.pack("<H", v)


def u32(v):
    return struct.pack("<I", v)


def u64(v):
    return struct.pack("<Q", v)


DIFFERENCE, FULL = 1, 2
GATHERING = 5
ROLLED_BACK = 1
GONE, NON_FINITE, BACKLOG, STOPPED = 21, 37, 42, 255  # reason codes of PROTOCOL.md
CHUNK = 65536


def hello_job(job, file, schema, contract, round_, sub, epoch, sequence, chain, proof):
    return (job + file + schema + contract + u64(round_) + u32(sub) + u64(epoch) + u64(sequence) + chain
            + (u8(1) + proof if proof else u8(0)))


MESSAGES = {
    "hello": u8(2)
    + hello_job(digest(0x10), digest(0x20), digest(0x30), digest(0x40), 0x0102030405060708, 0x0A0B0C0D,
                0x1112131415161718, 0x2122232425262728, digest(0x50), b"\xee" * 453)
    + hello_job(digest(0x60), bytes(32), bytes(32), bytes(32), 0, 0, 0, 0, bytes(32), None),
    "state": digest(1) + u8(1) + u8(GATHERING) + u16(0x0203) + u64(418) + u32(2) + u64(419) + u32(1)
    + u64(7) + u64(9) + digest(3) + u32(5) + u32(60) + u32(0x0E0F1011),
    "state-notice": digest(1) + u8(1 | 4) + u8(GATHERING) + u16(0x0203) + u64(418) + u32(2) + u64(419) + u32(1)
    + u64(7) + u64(9) + digest(3) + u32(5) + u32(60) + u32(0x0E0F1011)
    + u8(ROLLED_BACK) + u64(380) + u32(3) + u8(11) + "bad sens\u00f6r".encode(),
    "ask": digest(1) + u8(DIFFERENCE) + u64(0x99) + u8(8),
    "manifest": b"\xab" * 453,
    "not-yet": digest(1) + u8(FULL) + u64(0),
    "refused-ask": digest(1) + u8(0) + u8(GONE) + u8(DIFFERENCE) + u64(3) + bytes(32),
    "refused-get": digest(1) + u8(1) + u8(GONE) + u8(0) + u64(0) + digest(9),
    "get": digest(1) + digest(2) + u64(5 * CHUNK + 1) + u32(2) + u32(4),
    "chunk": b"\x55" * 16 + u32(65535) + u8(2) + b"\x77" * 64 + b"seven\nb",
    "schema": digest(1) + u16(9) + b"model: x\n" + u16(14) + 'class 1: "ö"\n'.encode(),
    "done": digest(1) + u64(12) + u8(NON_FINITE),
    "bye": u8(STOPPED),
    "beat": u8(25),
    "ask-job": digest(0x70),
    "pool": digest(1) + u8(0) + u64(418) + u16(1) + struct.pack("<dd", 21.5, 96.25),
    "pool-frozen": digest(1) + u8(1) + u64(0) + u16(2) + struct.pack("<dddd", 21.5, -1, 4, 1),
    "news": u8(2) + u8(1) + u16(5) + b"alive" + u8(2) + u16(7) + b"accused",
    "sync": bytes(range(16)),
    "list": u8(1) + u16(2) + digest(0x10) + u64(7) + u32(0) + u8(0)
    + digest(0x20) + u64(0x0102030405060708) + u32(9) + u8(2),
    "list-empty": u8(0) + u16(0),
    "seek": digest(0x30),
    "found": digest(0x30) + u8(1),
    "relay": digest(0x30) + u8(1) + bytes(range(0xA0, 0xC8)),
    "not-relayed": digest(0x30) + u8(BACKLOG),
    "sketch": b"\x5c" * 733,
    "job-file": b"\x01a signed object, read by whoever knows its form",
}

if __name__ == "__main__":
    for name, plain in MESSAGES.items():
        sys.stdout.write(f"{name} {plain.hex()}\n")
