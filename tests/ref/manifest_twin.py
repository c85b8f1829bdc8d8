#!/usr/bin/python3
"""Frames, manifests, names and Merkle trees of the crypto room, written a second time.

Prints the golden vectors tests/golden/crypto_objects.json; tests/unit/crypto builds the same objects from the same
numbers. With `--check FILE` it compares instead and exits 1 on a difference, 77 without python3-cryptography.
"""
import hashlib
import json
import struct
import sys

try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
except ImportError:
    print("SKIPPED: python3-cryptography is not installed")
    sys.exit(77)

CHUNK = 65536


def raw(key):
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def h(*parts, size=32, key=b""):
    return hashlib.blake2b(b"".join(parts), digest_size=size, key=key).digest()


def text(s):
    return struct.pack("<I", len(s)) + s.encode()


def swarm_id(s):
    return h(b"starling/v1/swarm\0", s.encode(), size=16)


def job_id(swarm, name, version, label):
    return h(b"starling/v1/job\0", swarm, text(name), struct.pack("<I", version), text(label))


def root(payload):
    level = [h(b"\0", payload[i:i + CHUNK]) for i in range(0, max(len(payload), 1), CHUNK)]
    while len(level) > 1:
        pairs = [h(b"\1", level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = pairs + ([level[-1]] if len(level) % 2 else [])
    return level[0]


def pattern(n):
    """Bytes that differ from chunk to chunk."""
    return bytes((i * 7 + i // CHUNK) % 256 for i in range(n))


def manifest(key, kind, encoding, sequence, payload_root, length, copy_root, mu=1.0, chain=bytes([0x55]) * 32):
    fill = {name: bytes([value]) * size
            for name, value, size in (("swarm", 0x11, 16), ("job", 0x22, 32), ("schema", 0x33, 32),
                                      ("contract", 0x44, 32))}
    body = struct.pack("<BBBB", 1, kind, encoding, 0)
    body += fill["swarm"] + fill["job"] + fill["schema"] + fill["contract"] + raw(key)
    body += struct.pack("<QQQHHIId", 0x0102030405060708, sequence, 419, 2, 3, 1234, 5678, mu)
    body += chain + payload_root + struct.pack("<Q", length) + copy_root
    body += bytes(32 + 32 + 8 + 8 + 13)
    return body + key.sign(b"starling/v1/manifest\0" + body)


def job_file(key, swarm, name, version, label, body):
    head = b"\1" + swarm + job_id(swarm, name, version, label) + raw(key) + struct.pack("<I", version)
    head += bytes([len(name)]) + name.encode() + bytes([len(label)]) + label.encode()
    head += struct.pack("<H", len(body)) + body
    return head + key.sign(b"starling/v1/job-file\0" + h(head))


def short(s):
    return bytes([len(s)]) + s.encode()


def statement(key, swarm, epoch, refutation, flags, name, addresses):
    body = b"\1" + swarm + raw(key) + struct.pack("<QIB", epoch, refutation, flags) + short(name) + short(addresses)
    return body + key.sign(b"starling/v1/statement\0" + body)


def accusation(key, swarm, accused, epoch, refutation):
    body = b"\1" + swarm + raw(key) + accused + struct.pack("<QI", epoch, refutation)
    return body + key.sign(b"starling/v1/accusation\0" + body)


def signed_sketch(key, swarm, job, schema, contract, epoch, serial, cells):
    body = b"\1" + swarm + job + schema + contract + raw(key) + struct.pack("<QI", epoch, serial) + cells
    return body + key.sign(b"starling/v1/sketch\0" + body)


def frame(key, kind, index, counter, plain):
    head = b"STL1" + struct.pack("<BBHIIQ", kind, 0, 0, index, len(plain), counter)
    return head + ChaCha20Poly1305(key).encrypt(bytes(4) + struct.pack("<Q", counter), plain, head)


def vectors():
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    responder = raw(X25519PrivateKey.from_private_bytes(bytes(range(32, 64))))
    swarm = swarm_id("k3vz-7qd2")
    some_root = bytes([0x66]) * 32
    some_copy = bytes([0x77]) * 32
    sizes = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1] + [n * CHUNK + 17 for n in range(2, 9)] + [39 * CHUNK + 5]
    entries = {
        "identity_public": raw(key),
        "swarm_id": swarm,
        "job_id": job_id(swarm, "inspection", 1, ""),
        "job_id_labelled": job_id(swarm, "inspection", 2, "night"),
        "mac1": h(pattern(100), size=16, key=h(b"starling/v1/mac1", responder)),
        "frame_0": frame(bytes([0x99]) * 32, 7, 0xa1b2c3d4, 0, b""),
        "frame_1": frame(bytes([0x99]) * 32, 8, 0xa1b2c3d4, 1, b"eight updates and a swarm"),
        "manifest_none": manifest(key, 0, 5, 32, bytes(32), 0, bytes(32)),
        "manifest_difference": manifest(key, 1, 1, 33, some_root, 203530, bytes(32)),
        "manifest_full": manifest(key, 2, 0, 48, some_root, 407060, some_copy),
        "manifest_sum": manifest(key, 3, 0, 48, some_root, 407060, bytes(32), 2.375, h(some_root)),
        "job_file": job_file(key, swarm, "inspection", 2, "night", b"job: inspection\nversion: 2\nrun_label: night\n"),
        "statement": statement(key, swarm, 0x0102030405060708, 2, 0, "mec-07", "tcp://10.0.0.7:7411 tcp://[fd00::7]:7411"),
        "statement_leaves": statement(key, swarm, 1, 3, 1, "", ""),
        "accusation": accusation(key, swarm, some_root, 0x0102030405060708, 2),
        "signed_sketch": signed_sketch(key, swarm, b"\x22" * 32, b"\x33" * 32, b"\x44" * 32, 0x0102030405060708, 2,
                                       bytes(3 * i & 0xFF for i in range(512))),
        "chain_start": h(some_root),
        "chain_next": h(h(some_root), some_copy),
    }
    entries.update((f"root_{n}", root(pattern(n))) for n in sizes)
    return json.dumps({name: value.hex() for name, value in entries.items()}, indent=1) + "\n"


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        with open(sys.argv[2], encoding="ascii") as golden:
            sys.exit(0 if golden.read() == vectors() else "the golden vectors differ from the twin's")
    sys.stdout.write(vectors())
