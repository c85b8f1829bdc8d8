#!/usr/bin/python3
"""The handshake of crypto/noise.c, written a second time with python3-cryptography.

Prints the golden vectors tests/golden/crypto_noise.json: the layout of the public Noise vectors, with prologues and
payloads of our own choice. With `--check FILE` it compares instead and exits 1 on a difference, 77 without the library.
"""
import hashlib
import json
import sys

try:
    from cryptography.hazmat.primitives import hashes, hmac
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
except ImportError:
    print("SKIPPED: python3-cryptography is not installed")
    sys.exit(77)

NAME = "Noise_IK_25519_ChaChaPoly_SHA512"


def hmac_sha512(key, data):
    h = hmac.HMAC(key, hashes.SHA512())
    h.update(data)
    return h.finalize()


def hkdf2(chaining_key, material):
    temporary = hmac_sha512(chaining_key, material)
    first = hmac_sha512(temporary, b"\x01")
    return first, hmac_sha512(temporary, first + b"\x02")


def public(secret):
    key = X25519PrivateKey.from_private_bytes(secret).public_key()
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def dh(secret, peer):
    return X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(peer))


def seal(key, counter, ad, plain):
    return ChaCha20Poly1305(key).encrypt(bytes(4) + counter.to_bytes(8, "little"), plain, ad)


class Symmetric:
    def __init__(self, prologue, responder_static):
        self.h = self.ck = NAME.encode().ljust(64, b"\0")
        self.mix_hash(prologue)
        self.mix_hash(responder_static)

    def mix_hash(self, data):
        self.h = hashlib.sha512(self.h + data).digest()

    def mix_key(self, material):
        self.ck, output = hkdf2(self.ck, material)
        self.k, self.n = output[:32], 0

    def seal(self, plain):
        sealed = seal(self.k, self.n, self.h, plain)
        self.n += 1
        self.mix_hash(sealed)
        return sealed


def vector(label, prologue, payloads):
    si, ei, sr, er = (hashlib.sha256(f"starling golden {label} {role}".encode()).digest()
                      for role in ("initiator static", "initiator ephemeral",
                                   "responder static", "responder ephemeral"))
    s = Symmetric(prologue, public(sr))

    message_1 = public(ei)
    s.mix_hash(message_1)
    s.mix_key(dh(ei, public(sr)))
    message_1 += s.seal(public(si))
    s.mix_key(dh(si, public(sr)))
    message_1 += s.seal(payloads[0])

    message_2 = public(er)
    s.mix_hash(message_2)
    s.mix_key(dh(er, public(ei)))
    s.mix_key(dh(er, public(si)))
    message_2 += s.seal(payloads[1])

    sealed = [message_1, message_2]
    keys = [key[:32] for key in hkdf2(s.ck, b"")]
    for i, payload in enumerate(payloads[2:]):
        sealed.append(seal(keys[i % 2], i // 2, b"", payload))
    return {
        "name": NAME,
        "init_prologue": prologue.hex(),
        "init_static": si.hex(),
        "init_ephemeral": ei.hex(),
        "init_remote_static": public(sr).hex(),
        "resp_prologue": prologue.hex(),
        "resp_static": sr.hex(),
        "resp_ephemeral": er.hex(),
        "messages": [{"payload": p.hex(), "ciphertext": c.hex()} for p, c in zip(payloads, sealed)],
        "handshake_hash": s.h.hex(),
    }


def vectors():
    protocol = b"starling/1\0"
    words = [b"first", b"second", b"third", b"", b"fifth", b"sixth"]
    long = [bytes(i % 251 for i in range(n)) for n in (1000, 333, 65, 64, 63)]
    cases = [
        vector("empty prologue", b"", words),
        vector("protocol prologue", protocol, words),
        vector("empty payloads", protocol, [b""] * 4),
        vector("long payloads", protocol, long),
        vector("long prologue", protocol * 40, words),
    ]
    return json.dumps({"vectors": cases}, indent=1) + "\n"


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        with open(sys.argv[2], encoding="ascii") as golden:
            sys.exit(0 if golden.read() == vectors() else "the golden vectors differ from the twin's")
    sys.stdout.write(vectors())
