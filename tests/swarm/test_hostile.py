#!/usr/bin/python3
"""Strangers and a peer that lies: a swarm of two goes on within its deadlines, counts what it refuses, and stays small.

The peer is told_peer.c, which says what it is told in a session of its own valid key; the lies are all here."""
import contextlib
import hashlib
import math
import os
import pathlib
import random
import resource
import signal
import socket
import statistics
import struct
import subprocess
import threading
import time
import unittest

from agents import Swarm, die_with_parent, main, options, round_rate, wait_for
from tap import Tap

# Types of messages (gossip/PROTOCOL.md), and the pipe's own.
SIGN, FLOOD, FLOODED, DEAF = 1, 2, 3, 4
HELLO, STATE, ASK, MANIFEST, NOT_YET, REFUSED, GET, CHUNK, SCHEMA, DONE, BYE, BEAT = range(16, 28)
NO_TYPE = 99
NONE, DIFFERENCE, FULL, SUM = range(4)
U64_MAX = 2**64 - 1

N_PARAMETERS = (4 * 16 + 16) + (16 * 3 + 3)
CHUNK_BYTES = 65536
DEADLINE_S = 1
MAX_RSS_MIB = 64
MAX_GROWTH_MIB = 32

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
ZMTP_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
ZMTP_READY = b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"


def told_peer_program():
    return pathlib.Path(options.starling).parent / "tests/swarm/told_peer"


def digest(*parts):
    return hashlib.blake2b(b"".join(parts), digest_size=32).digest()


def key_bytes(text):
    """The 32 bytes of a key as people see it: base32 with a check digit after each 13."""
    digits = text.replace("-", "")
    value = 0
    for i, digit in enumerate(digits):
        if i % 14 != 13:
            value = value * 32 + ALPHABET.index(digit)
    return (value >> 4).to_bytes(32, "big")


def floats(value):
    return struct.pack("<f", value) * N_PARAMETERS


def rss_mib(site):
    status = pathlib.Path(f"/proc/{site.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


class Liar:
    """A session with an agent in the name of a site that does not run. What is fetched from it is served from payloads."""

    def __init__(self, site, victim, epoch, address=None):
        self.epoch, self.origin = epoch, key_bytes(site.key)
        self.payloads, self.heard, self.flooded, self.hello_heard = {}, [], [], None
        self.process = subprocess.Popen([told_peer_program(), site.folder / "agent.key", "test", victim.key,
                                         address or victim.address, str(epoch)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        preexec_fn=die_with_parent)
        threading.Thread(target=self.listen, daemon=True).start()
        self.send(NO_TYPE)  # any frame of ours proves our key
        try:
            jobs = wait_for(lambda: self.hello_heard, 10, "the agent says HELLO")[1:]
        except AssertionError as error:
            raise AssertionError(f"{error}; the liar's exit code: {self.process.poll()}; {victim.log[-2000:]}") from error
        self.job, self.file, self.schema, self.contract = (jobs[i:i + 32] for i in range(0, 128, 32))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()

    def listen(self):
        while len(head := self.process.stdout.read(5)) == 5:
            kind, n = struct.unpack("<BI", head)
            body = self.process.stdout.read(n)
            self.heard = [*self.heard[-100:], (kind, body)]
            if kind == HELLO:
                self.hello_heard = body
            if kind == GET:
                self.serve(body)
            elif kind == FLOODED:
                self.flooded.append(struct.unpack("<I", body)[0])

    def serve(self, body):
        root, (first, count) = body[32:64], struct.unpack("<II", body[72:80])
        payload = self.payloads.get(root)
        for i in range(first, first + count) if payload else ():
            self.send(CHUNK, root[:16] + struct.pack("<IB", i, 0) + payload[i * CHUNK_BYTES:(i + 1) * CHUNK_BYTES])

    def send(self, kind, body=b""):
        """Whether the pipe still stands: an agent may end the session for what it was told."""
        try:
            self.process.stdin.write(struct.pack("<BI", kind, len(body)) + body)
            self.process.stdin.flush()
            return True
        except (BrokenPipeError, ValueError):  # ended, or closed by the test
            return False

    def hello(self, sequence=0, round=0, proof=None):
        return self.send(HELLO, self.hello_body(sequence, round, proof))

    def hello_body(self, sequence=0, round=0, proof=None):
        words = struct.pack("<QIQQ", round, 0, self.epoch, sequence) + bytes(32) + (b"\1" + proof if proof else b"\0")
        return b"\1" + self.job + self.file + self.schema + self.contract + words

    def state(self, round=0, sequence=0):
        return self.send(STATE, self.state_body(round, sequence))

    def state_body(self, round=0, sequence=0):
        follows, idle, degree = 1, 2, 1
        return (self.job + struct.pack("<BBHQIQIQQ", follows, idle, degree, round, 0, round, 0, self.epoch, sequence) +
                bytes(32) + struct.pack("<III", 0, 0, 0))

    def is_patient(self):
        """It need not say anything for 100 s."""
        return self.send(BEAT, bytes([25]))

    def is_deaf(self):
        """It reads nothing more."""
        return self.send(DEAF)

    def flood(self, seconds, kind, body):
        """As fast as the connection takes it; the number of messages appears in `flooded`."""
        return self.send(FLOOD, bytes([seconds, kind]) + body)

    def manifest(self, **lies):
        """The signed part of a manifest."""
        m = dict(version=1, kind=FULL, encoding=0, swarm=hashlib.blake2b(b"starling/v1/swarm\0test", digest_size=16).digest(),
                 job=self.job, schema=self.schema, contract=self.contract, origin=self.origin, epoch=self.epoch,
                 sequence=1, round=1, samples=100, mu=1.0, chain=bytes(32), root=bytes(32), n_payload=4 * N_PARAMETERS)
        m.update(lies)
        return (bytes([m["version"], m["kind"], m["encoding"], 0]) + m["swarm"] + m["job"] + m["schema"] + m["contract"] +
                m["origin"] + struct.pack("<QQQHHIId", m["epoch"], m["sequence"], m["round"], 0, 1, 1, m["samples"], m["mu"]) +
                m["chain"] + m["root"] + struct.pack("<Q", m["n_payload"]) + bytes(32 + 93))

    def publish(self, payload, **lies):
        root = digest(b"\0", payload)  # of one chunk
        self.payloads[lies.get("root", root)] = payload
        return self.send(SIGN, self.manifest(**{"root": root, "chain": digest(root), "n_payload": len(payload), **lies}))


class Hostile(unittest.TestCase):
    def swarm(self, liars="x"):
        """a and b learn together; a also knows the liars, which the test speaks for."""
        return Swarm(["a", "b", *liars], [("a", "b"), *(("a", name) for name in liars)], rows=60,
                     sites={"a": {"follow_max": 64}}, test_rows=60,
                     site={"round": {"deadline_min_s": 0.2, "deadline_max_s": DEADLINE_S, "meet_s": 1}})

    def goes_on(self, site, n=2):
        """n rounds more, each within its deadline and what a busy machine adds."""
        self.assertTrue(site.is_running, site.log[-2000:])
        site.wait_round(site.status()["job"]["round"] + n, n * DEADLINE_S + 20)
        if not options.small:  # sanitisers keep what was freed
            self.assertLess(rss_mib(site), self.max_rss_mib)

    max_rss_mib = MAX_RSS_MIB

    def refused(self, site):
        return site.peers()["x"]["refused"]


class Liars(Hostile):
    """Tests with an enrolled peer that is told what to say."""
    epoch = 0

    def setUp(self):
        if not told_peer_program().exists():
            self.skipTest("told_peer is not built")

    def liar(self, swarm, name="x", address=None):
        Liars.epoch += 1
        liar = Liar(swarm[name], swarm["a"], self.epoch, address)
        liar.hello()
        liar.state()
        return liar


class Lies(Liars):
    def test_manifests(self):
        lies = {"length": [dict(n_payload=0), dict(n_payload=2**62)], "encoding": [dict(encoding=7)],
                "message": [dict(kind=9), dict(mu=math.nan), dict(kind=NONE, n_payload=0, root=bytes([1] * 32))],
                "swarm": [dict(swarm=bytes(16))], "job": [dict(job=bytes(32))], "schema": [dict(schema=bytes(32))],
                "contract": [dict(contract=bytes(32))], "version": [dict(version=2)]}
        with self.swarm() as swarm:
            a = swarm.start("ab")["a"]
            a.wait_answers()
            with self.liar(swarm) as liar:
                for lie in sum(lies.values(), [dict(origin=key_bytes(a.key))]):
                    liar.send(SIGN, liar.manifest(**lie))
                liar.send(MANIFEST, liar.manifest() + bytes(64))
                for reason in [*lies, "origin", "signature"]:
                    wait_for(lambda: self.refused(a).get(reason, 0) >= len(lies.get(reason, [1])), 10, f"{reason} is counted")
                self.goes_on(a)

    def test_payloads(self):
        """Refused by their own reasons; the third broken one in a row is the last that is fetched."""
        cases = {"zero-samples": (floats(0), {"samples": 0}), "absurd-samples": (floats(0), {"samples": 2**32 - 1}),
                 "non-finite": (floats(math.nan), {}), "length": (b"four", {}), "root": (floats(1), {"root": bytes([7] * 32)})}
        with self.swarm() as swarm:
            a = swarm.start("ab")["a"]
            a.wait_answers()
            for reason, (payload, lies) in cases.items():
                with self.liar(swarm) as liar:
                    wait_for(lambda: a.peers()["x"]["state"] != "unreachable", 10, "the session stands")
                    liar.publish(payload, round=a.status()["job"]["round"] + 1, **lies)
                    wait_for(lambda: self.refused(a).get(reason), 15, f"{reason} is counted")
            wait_for(lambda: "peer-quarantined" in a.log, 10, "it is quarantined")
            self.goes_on(a)

    def test_equivocation(self):
        with self.swarm() as swarm:
            a = swarm.start("ab")["a"]
            a.wait_answers()
            with self.liar(swarm) as liar:
                liar.publish(floats(0))
                liar.publish(floats(1))
                a.wait_peer("x", {"quarantined"}, 10)
                self.goes_on(a)

    def test_absurd_numbers(self):
        """Rounds and sequences at the end of their range: neither the agent nor its store is ever without a next one."""
        with self.swarm() as swarm:
            a = swarm.start("ab")["a"]
            a.wait_answers()
            for number in (2**63, U64_MAX):
                with self.liar(swarm) as liar:
                    liar.hello(sequence=number, round=number)
                    liar.state(sequence=number, round=number)
                    liar.publish(floats(0), sequence=number, round=number)
                    wait_for(lambda: a.status()["job"]["round"] >= 2**62, 20, "it has jumped")
                    self.goes_on(a)
            self.assertEqual(a.stop(), 0)
            a.start()
            a.wait_answers()
            self.goes_on(a)

    def test_goes_back(self):
        """A sequence and a round below what was merged: nothing moves back."""
        with self.swarm() as swarm:
            a = swarm.start("ab")["a"]
            a.wait_answers()
            with self.liar(swarm) as liar:
                wait_for(lambda: a.state_of("x") not in ("unreachable", "no-session"), 10, "the session stands")
                liar.publish(floats(0), sequence=2**40, round=a.status()["job"]["round"] + 1)
                wait_for(lambda: any(kind == DONE for kind, _ in liar.heard), 15, "it is merged")
                liar.heard.clear()
                for i in range(100):
                    liar.publish(floats(1), sequence=2**40 - 1 - i, round=1)
                self.goes_on(a, 3)
                self.assertNotIn(0, {body[-1] for kind, body in liar.heard if kind == DONE}, "nothing is merged")
                self.assertIn(a.state_of("x"), ("slow", "stale", "late"))

    def test_one_liar_about_rounds_among_three(self):
        """With three peers one cannot make an agent jump, whatever round it claims."""
        with Swarm("abcx", [("a", "b"), ("a", "c"), ("b", "c"), ("a", "x")], rows=60, test_rows=60,
                   site={"round": {"deadline_min_s": 0.2, "deadline_max_s": DEADLINE_S, "meet_s": 2}}) as swarm:
            a = swarm.start("abc")["a"]
            a.wait_round(1, 30)
            with self.liar(swarm) as liar:
                wait_for(lambda: a.state_of("x") not in ("unreachable", "no-session"), 10, "the session stands")
                for i in range(3):
                    liar.state(round=10**9 + i, sequence=1 + i)
                    liar.publish(floats(0), sequence=1 + i, round=10**9 + i)
                    self.goes_on(a)
                self.assertLess(a.status()["job"]["round"], 10**6)
                row = a.round(a.status()["job"]["round"])["peers"]["x"]
                self.assertTrue(row["reason"] != "ok" or row["lag"] >= 5, row)

    def test_floods(self):
        """Contents that change, as fast as a pipe takes them, each by a peer of its own; some are sent away for it."""
        seconds = 0.2 if options.small else 0.5
        text = struct.pack("<H", 16384) + b"A" * 16384
        floods = [
            lambda x, i: x.send(GET, x.job + os.urandom(32) + struct.pack("<QII", 2**32, i % 65536, 1)),
            lambda x, i: x.send(GET, x.job + bytes(32) + struct.pack("<QII", U64_MAX, 2**32 - 1, 1)),
            lambda x, i: x.send(ASK, x.job + struct.pack("<BQB", DIFFERENCE, 1 + i, 8)),
            lambda x, i: x.send(ASK, x.job + struct.pack("<BQB", FULL, 0, 1)),
            lambda x, i: x.state(sequence=i),
            lambda x, i: x.send(CHUNK, os.urandom(16) + bytes(5) + bytes(CHUNK_BYTES)),
            lambda x, i: x.send(SCHEMA, x.job + text + text),
            lambda x, i: x.hello(),
            lambda x, i: x.send(DONE, x.job + struct.pack("<QB", U64_MAX - i, i % 256)),
            lambda x, i: x.send(SIGN, x.manifest(sequence=1 + i, root=os.urandom(32))),
            lambda x, i: x.send(BEAT, bytes([1 + i % 60])),
            lambda x, i: x.send(HELLO + i % 12, os.urandom(i % 300)),
        ]
        names = [f"x{i}" for i in range(len(floods))]
        with self.swarm(names) as swarm:
            a = swarm.start("ab")["a"]
            a.wait_answers()
            for name, flood in zip(names, floods):
                with self.liar(swarm, name) as liar:
                    end, i = time.monotonic() + seconds, 0
                    while time.monotonic() < end and flood(liar, i):
                        i += 1
                    self.assertGreater(i, 100)
            self.goes_on(a, 3)

    def test_never_answers(self):
        with self.swarm() as swarm:
            a = swarm.start("ab")["a"]
            a.wait_answers()
            with self.liar(swarm) as liar:
                liar.publish(floats(0), round=a.status()["job"]["round"] + 1)
                liar.payloads.clear()
                a.wait_peer("x", {"slow"}, 30)
                liar.process.send_signal(signal.SIGSTOP)  # nor reads any more
                self.goes_on(a, 3)


class Slow(Liars):
    """Peers that take their time. The payloads have ten chunks."""
    N_CHUNKS = 10

    def big_swarm(self):
        n = (self.N_CHUNKS * CHUNK_BYTES // 4 - 3) // 8  # dense n: 4 n + n, then 3 n + 3
        return Swarm("abx", [("a", "b"), ("a", "x")], rows=60, test_rows=60,
                     job={"model": f"dense {n}, relu, dense classes"},
                     site={"round": {"deadline_min_s": 0.2, "deadline_max_s": DEADLINE_S, "meet_s": 1}}), 8 * n + 3

    def publish_late(self, swarm, n, answer):
        """x offers a payload for the next round and answers each GET in its own way; it is named, the others go on."""
        a = swarm.start("ab")["a"]
        a.wait_round(2, 30)
        self.max_rss_mib = rss_mib(a) + MAX_GROWTH_MIB
        with self.liar(swarm) as liar:
            liar.is_patient()
            liar.serve = lambda body: threading.Thread(target=answer, args=(liar, body), daemon=True).start()
            wait_for(lambda: a.state_of("x") not in ("unreachable", "no-session"), 10, "the session stands")
            payload = struct.pack("<f", 0) * n
            root = bytes([9] * 32)
            liar.payloads[root] = payload
            liar.send(SIGN, liar.manifest(root=root, chain=digest(root), n_payload=len(payload),
                                          round=a.status()["job"]["round"] + 1))
            a.wait_peer("x", {"slow"}, 30)
            self.goes_on(a, 3)
            return self.refused(a)

    def test_a_chunk_a_second(self):
        def answer(liar, body):
            first, count = struct.unpack("<II", body[72:80])
            for i in range(first, first + count):
                payload = liar.payloads[body[32:64]]
                if not liar.send(CHUNK, body[32:48] + struct.pack("<IB", i, 0) + payload[i * CHUNK_BYTES:(i + 1) * CHUNK_BYTES]):
                    return
                time.sleep(1)
        swarm, n = self.big_swarm()
        with swarm:
            self.publish_late(swarm, n, answer)

    def test_a_byte_a_second(self):
        def answer(liar, body):
            while liar.send(CHUNK, body[32:48] + struct.pack("<IB", 0, 0) + b"!"):
                time.sleep(1)
        swarm, n = self.big_swarm()
        with swarm:
            self.assertGreater(self.publish_late(swarm, n, answer).get("message", 0), 0)

    def test_another_index(self):
        def answer(liar, body):
            for index in (65535, self.N_CHUNKS, 2**31, 2**32 - 1):
                liar.send(CHUNK, body[32:48] + struct.pack("<IB", index, 0) + bytes(CHUNK_BYTES))
        swarm, n = self.big_swarm()
        with swarm:
            self.assertGreaterEqual(self.publish_late(swarm, n, answer).get("message", 0), 4)

    def test_a_byte_a_second_on_the_wire(self):
        """A frame that never ends is silence."""
        with self.swarm() as swarm:
            a = swarm.start("ab")["a"]
            a.wait_answers()
            tap = Tap(a.port)
            with self.liar(swarm, address=tap.address) as liar:
                liar.send(BEAT, bytes([1]))
                liar.send(ASK, liar.job + struct.pack("<BQB", FULL, 0, 1))
                wait_for(lambda: {MANIFEST, NOT_YET} & {kind for kind, _ in liar.heard}, 10, "a has read all so far")
                tap.trickles = True
                for _ in range(10):
                    liar.state()
                begin = time.monotonic()
                wait_for(lambda: a.state_of("x") in ("no-session", "unreachable", "absent"), 20, "a has noticed")
                self.assertLess(time.monotonic() - begin, 5 if not options.small else 20)
                self.goes_on(a, 3)

    def test_reads_nothing(self):
        """It asks for megabytes and takes none: what waits for it is references, and the connection ends."""
        swarm, n = self.big_swarm()
        with swarm:
            a = swarm.start("ab")["a"]
            a.wait_round(2, 30)
            self.max_rss_mib = rss_mib(a) + MAX_GROWTH_MIB
            tap = Tap(a.port)
            with self.liar(swarm, address=tap.address) as liar:
                liar.is_patient()
                liar.send(ASK, liar.job + struct.pack("<BQB", FULL, 0, 1))
                m = wait_for(lambda: [body for kind, body in liar.heard if kind == MANIFEST], 10, "a offers its model")[-1]
                root, length = m[224:256], m[256:264]
                tap.is_deaf = True
                for i in range(1000):
                    liar.send(GET, liar.job + root + length + struct.pack("<II", i % self.N_CHUNKS, 1))
                    liar.state(sequence=i)
                    liar.send(ASK, liar.job + struct.pack("<BQB", DIFFERENCE, 1, 8))
                self.goes_on(a, 3)
                wait_for(lambda: a.state_of("x") in ("slow", "no-session", "unreachable", "absent"), 30, "it is named")


# What an enrolled peer can say at full speed, from dear to cheap.
FLOODS = {
    "state": lambda x: (STATE, x.state_body()),
    "get": lambda x: (GET, x.job + bytes([5] * 32) + struct.pack("<QII", 2**32, 5, 1)),
    "chunk": lambda x: (CHUNK, bytes([6] * 16) + bytes(5) + bytes(CHUNK_BYTES)),
    "manifest": lambda x: (MANIFEST, x.manifest() + bytes(64)),
    "ask": lambda x: (ASK, x.job + struct.pack("<BQB", DIFFERENCE, 1, 8)),
    "ask-full": lambda x: (ASK, x.job + struct.pack("<BQB", FULL, 0, 1)),
    "schema": lambda x: (SCHEMA, x.job + (struct.pack("<H", 16384) + b"A" * 16384) * 2),
    "hello": lambda x: (HELLO, x.hello_body()),
    "done": lambda x: (DONE, x.job + struct.pack("<QB", 1, 0)),
    "garbage": lambda x: (HELLO, b"\xff" * 300),
}
MIN_RATE = 0.8
FLOOD_S = 4
ALLOWANCE_UNITS_S = ALLOWANCE_BURST = 30000  # gossip/PROTOCOL.md
UNIT_BYTES = 512


class FullSpeed(Liars):
    def sent_away(self, a, name, n_messages, body):
        """Who says more than it may is; a flooder that got no time of a busy processor may have said less."""
        units = n_messages * (1 + len(body) // UNIT_BYTES)
        if a.state_of(name) != "backlog":
            self.assertLess(units, ALLOWANCE_BURST + FLOOD_S * ALLOWANCE_UNITS_S, name)
            return
        self.assertGreater(a.peers()[name]["refused"]["backlog"], 0)

    def test_full_speed(self):
        """Each kind of flood by a peer of its own, which is sent away for it; the rounds of the others keep their rate. The rate
        during a flood is compared with those before and after; the median of all decides, so that noise does not."""
        names = list(FLOODS) if options.long else list(FLOODS)[:1 if options.small else 4]
        seconds = 0.5 if options.small else 2.5
        with Swarm(["a", "b", *names], [("a", "b"), *(("a", name) for name in names)], rows=200, test_rows=60,
                   job={"model": "dense 64, relu, dense classes", "train": {"epochs": None, "steps": 4000}},
                   site={"round": {"deadline_min_s": 0.2, "deadline_max_s": DEADLINE_S, "meet_s": 1}}) as swarm, \
                contextlib.ExitStack() as liars:
            a = swarm.start("ab")["a"]
            a.wait_answers()
            liar = {}
            for epoch, name in enumerate(names, 1):
                liar[name] = x = liars.enter_context(Liar(swarm[name], a, epoch))
                x.hello(), x.state(), x.is_patient()
            for name in names:
                a.wait_peer(name, {"slow"}, 30)  # until then they are waited for, which is another matter
            ratios, calm = {}, round_rate(a, seconds)
            for name in names:
                liar[name].flood(FLOOD_S, *FLOODS[name](liar[name]))
                during = round_rate(a, seconds)
                wait_for(lambda: liar[name].flooded, 20, f"{name} has ended")
                after = round_rate(a, seconds)
                ratios[name], calm = during / ((calm + after) / 2), after
                if not options.small:
                    self.sent_away(a, name, liar[name].flooded[0], FLOODS[name](liar[name])[1])
            print("[rate " + ", ".join(f"{name} {r:.2f}" for name, r in ratios.items()) + f", {rss_mib(a)} MiB]", end=" ")
            if not options.small:  # a sanitiser's flood is none
                self.assertGreaterEqual(statistics.median(ratios.values()), MIN_RATE)
                self.assertLess(rss_mib(a), MAX_RSS_MIB)


class Strangers(Hostile):
    def connect(self, site):
        connection = socket.create_connection(("127.0.0.1", site.port), 2)
        self.addCleanup(connection.close)
        return connection

    def test_strangers(self):
        rng = random.Random("strangers")
        openings = [rng.randbytes(200), b"GET / HTTP/1.1\r\n\r\n", ZMTP_GREETING[:30], ZMTP_GREETING + ZMTP_READY,
                    ZMTP_GREETING + ZMTP_READY + b"\x02" + struct.pack(">Q", 2**62) + bytes(1000),
                    ZMTP_GREETING + ZMTP_READY + b"\x02" + struct.pack(">Q", 67000) + bytes(60000),
                    ZMTP_GREETING + ZMTP_READY + b"\x01\x00" * 200 + b"\x00\x64" + rng.randbytes(100), b""]
        with self.swarm() as swarm:
            a = swarm.start("ab")["a"]
            a.wait_peer("b", {"alive"}, 10)
            for i in range(200):
                try:
                    self.connect(a).sendall(openings[i % len(openings)])
                except OSError:
                    pass  # sent away
            self.goes_on(a, 3)
            swarm["b"].kill()
            swarm["b"].start()
            a.wait_peer("b", {"alive"}, 15)


class Surroundings(Hostile):
    def start(self, site, prepare):
        def child():
            die_with_parent()
            prepare()
        with open(site.log_file, "ab") as log:
            site.process = subprocess.Popen([options.starling, "run", "-C", site.file], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, preexec_fn=child)

    def test_closed_standard_descriptors(self):
        """No file of the agent gets the number that the log is written to."""
        with self.swarm() as swarm:
            swarm["b"].start()
            a = swarm["a"]
            self.start(a, lambda: [os.close(i) for i in range(3)])
            a.wait_answers()
            for i in range(3):
                self.assertEqual(os.readlink(f"/proc/{a.process.pid}/fd/{i}"), "/dev/null")
            self.goes_on(a)

    def test_few_descriptors(self):
        """Strangers cannot take the descriptor that a round needs to be written."""
        with self.swarm() as swarm:
            swarm["b"].start()
            a = swarm["a"]
            self.start(a, lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096)))
            a.wait_peer("b", {"alive"}, 10)
            held = []
            for _ in range(150):
                held.append(socket.create_connection(("127.0.0.1", a.port), 2))
            self.goes_on(a, 3)
            for connection in held:
                connection.close()

    def test_too_few_descriptors(self):
        with self.swarm() as swarm:
            a = swarm["a"]
            self.start(a, lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
            self.assertEqual(a.wait_ended(10), 4)
            self.assertIn("needs 202", a.log)

    def test_just_enough_descriptors(self):
        """Strangers that come faster than the gate can send them away take every descriptor for moments."""
        with self.swarm() as swarm:
            swarm["b"].start()
            a = swarm["a"]
            self.start(a, lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (202, 202)))
            a.wait_peer("b", {"alive"}, 10)
            for _ in range(3):
                with contextlib.ExitStack() as held:
                    for _ in range(800):
                        connection = held.enter_context(socket.socket())
                        connection.setblocking(False)
                        connection.connect_ex(("127.0.0.1", a.port))
                    self.goes_on(a)

    def test_long_state_dir(self):
        with self.swarm() as swarm:
            a = swarm.start("b")["a"]
            for n, code in ((1, None), (2, 4)):
                folder = a.folder.joinpath(*["d" * 200] * n)
                folder.mkdir()
                swarm.write_site("a", state_dir=f"{folder}/{'s' * 200}")
                a.start()
                if code is None:
                    a.wait_peer("b", {"alive"}, 10)
                    self.goes_on(a)
                    self.assertEqual(a.stop(), 0)
                else:
                    self.assertEqual(a.wait_ended(10), code)
                    self.assertIn("choose a shorter one", a.log)


if __name__ == "__main__":
    main()
