#!/usr/bin/python3
"""Strangers at the door of a live pair: a flood of connections, somebody else on a peer's port, an unknown key."""
import contextlib
import multiprocessing
import os
import pathlib
import random
import select
import socket
import statistics
import struct
import subprocess
import threading
import time
import unittest

from agents import Swarm, die_with_parent, main, options, round_rate, starling, wait_for
from tap import Tap

ZMTP_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
ZMTP_READY = b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"

MAX_GROWTH_MIB, MIN_RATE, BACK_S = 32, 0.8, 5
FLOOD = {"huge": 1000, "half-open": 500, "garbage": 100}
SMALL_FLOOD = {"huge": 100, "half-open": 50, "garbage": 10}


def told_peer_program():
    return pathlib.Path(options.starling).parent / "tests/swarm/told_peer"


def memory_mib(site, field):
    status = pathlib.Path(f"/proc/{site.process.pid}/status").read_text()
    return int(status.split(field + ":")[1].split()[0]) / 1024


def forget_peak(site):
    """VmHWM begins again at what is used now."""
    pathlib.Path(f"/proc/{site.process.pid}/clear_refs").write_text("5")


# ---- a flood ----

def opening(kind, rng):
    return {"huge": ZMTP_GREETING + ZMTP_READY + b"\x02" + struct.pack(">Q", 2**62) + bytes(1000),
            "half-open": ZMTP_GREETING[:rng.randrange(12)],
            "garbage": rng.choice([rng.randbytes(200), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", ZMTP_GREETING + rng.randbytes(300),
                                   ZMTP_GREETING + ZMTP_READY + b"\x00\xc0" + rng.randbytes(192)])}[kind]


def flood(ports, numbers, count):
    """Keeps so many connections of each kind to each port; those that were closed are made again every two seconds. They come from
    forty addresses, so that no limit of one address protects the agent."""
    die_with_parent()
    rng, poll, kinds = random.Random("flood"), select.epoll(), {}

    def close(fd):
        kinds.pop(fd)[1].close()

    while True:
        begin = time.monotonic()
        missing = {(port, kind): n for port in ports for kind, n in numbers.items()}
        for of, _ in kinds.values():
            missing[of] -= 1
        for (port, kind), n in missing.items():
            for _ in range(n):
                connection = socket.socket()
                connection.setblocking(False)
                with contextlib.suppress(OSError):
                    connection.bind((f"127.0.1.{rng.randrange(1, 41)}", 0))
                connection.connect_ex(("127.0.0.1", port))
                kinds[connection.fileno()] = ((port, kind), connection)
                poll.register(connection, select.EPOLLOUT | select.EPOLLONESHOT)
                count.value += 1
        while (left := begin + 2 - time.monotonic()) > 0:
            for fd, event in poll.poll(left):
                connection = kinds[fd][1]
                try:
                    if event & select.EPOLLOUT and not event & (select.EPOLLERR | select.EPOLLHUP):
                        connection.send(opening(kinds[fd][0][1], rng))
                        poll.modify(fd, select.EPOLLRDHUP | select.EPOLLONESHOT)
                    else:
                        close(fd)
                except OSError:
                    close(fd)


@contextlib.contextmanager
def flooded(ports, numbers):
    """The number of connections made, while they last."""
    count = multiprocessing.Value("Q", 0, lock=False)
    process = multiprocessing.Process(target=flood, args=(ports, numbers, count), daemon=True)
    process.start()
    try:
        yield count
    finally:
        process.kill()
        process.join()


class Flood(unittest.TestCase):
    def test_flood(self):
        """Both agents are flooded. The rate during a flood is compared with those before and after it; the median of some
        floods decides, so that noise does not."""
        numbers = SMALL_FLOOD if options.small else FLOOD
        n_turns, seconds = (7, 6) if options.long else (1, 1) if options.small else (3, 2)
        with Swarm("abc", [("a", "b"), ("a", "c")], rows=200, test_rows=60,
                   job={"model": "dense 64, relu, dense classes", "train": {"epochs": None, "steps": 4000}},
                   site={"round": {"deadline_min_s": 0.2, "deadline_max_s": 2, "meet_s": 1}}) as swarm:
            a = swarm.start("ab")["a"]
            a.wait_round(2, 60)
            before = {}
            for name in "ab":
                forget_peak(swarm[name])
                before[name] = memory_mib(swarm[name], "VmRSS")
            ratios, n_made, calm = [], 0, round_rate(a, seconds)
            while len(ratios) < n_turns or len(ratios) < 7 and statistics.median(ratios) < MIN_RATE:
                with flooded([swarm["a"].port, swarm["b"].port], numbers) as count:
                    during = round_rate(a, seconds)  # from the first connection on
                    wait_for(lambda: count.value >= 2 * sum(numbers.values()), 10, "all connections are made")
                    n_made += count.value
                after = round_rate(a, seconds)
                ratios.append(during / statistics.mean((calm, after)))
                calm = after
            growth = {name: memory_mib(swarm[name], "VmHWM") - before[name] for name in "ab"}
            swarm["c"].start()
            begin = time.monotonic()
            wait_for(lambda: a.state_of("c") == "alive", 30, "a fresh agent has a session")
            connected = time.monotonic() - begin
            print(f"[{n_made} connections: rate {' '.join(f'{r:.2f}' for r in ratios)} of {calm:.1f}/s, memory "
                  f"{' '.join(f'{g:+.1f}' for g in growth.values())} MiB, fresh agent in {connected:.2f} s]", end=" ")
            self.assertLessEqual(connected, BACK_S)
            self.assertNotIn("peer-disconnected", a.log)
            if not options.small:  # sanitisers keep what was freed, and slow down what is counted here
                self.assertGreaterEqual(statistics.median(ratios), MIN_RATE)
                self.assertLessEqual(max(growth.values()), MAX_GROWTH_MIB)


# ---- somebody else on a peer's port ----

def zmtp_command(name, body):
    data = bytes([len(name)]) + name + body
    return b"\x04" + bytes([len(data)]) + data


CURVE_GREETING = ZMTP_GREETING[:12] + b"CURVE".ljust(20, b"\0") + bytes(32)

# What answers once, in the place of the peer (SECURITY E4).
BOGUS = {
    "http": b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html></html>",
    "garbage": ZMTP_GREETING + random.Random("garbage").randbytes(500),
    "error": ZMTP_GREETING + zmtp_command(b"ERROR", b"\x06denied"),
    "welcome": CURVE_GREETING + zmtp_command(b"WELCOME", bytes(20)),
    "alert": bytes.fromhex("15030300020228"),  # TLS: fatal, handshake failure
    "random": random.Random("random").randbytes(64),  # and closed at once
}


def answer_once(port, bogus, closes):
    """Listens, gives one bogus answer, stays until the other side or 2 s have ended it, and leaves the port."""
    with socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(("127.0.0.1", port))
        door.listen()
        connection, _ = door.accept()
    with connection, contextlib.suppress(OSError):
        connection.settimeout(2)
        connection.sendall(bogus)
        while not closes and connection.recv(4096):
            pass


class Squatters(unittest.TestCase):
    def test_one_bogus_answer(self):
        """Each peer's port answers once with something else; then the peer is there, which itself does not dial."""
        names = list(BOGUS)
        with Swarm(["a", *names], [("a", name) for name in names], rows=60, test_rows=60,
                   peers={name: {"a": {"address": None}} for name in names}) as swarm:
            squatters = {name: threading.Thread(target=answer_once, args=(swarm[name].port, BOGUS[name], name == "random"),
                                                daemon=True) for name in names}
            for squatter in squatters.values():
                squatter.start()
            a = swarm.start("a")["a"]
            for name, squatter in squatters.items():
                squatter.join(15)
                self.assertFalse(squatter.is_alive(), f"{name}: a has dialled")
            a.wait_answers()
            for name in names:
                self.assertNotEqual(a.state_of(name), "alive")
            begin, seconds = time.monotonic(), {}
            swarm.start(names)
            for name in names:
                wait_for(lambda: a.state_of(name) == "alive", 30, f"{name} is back")
                seconds[name] = time.monotonic() - begin
            print("[" + ", ".join(f"{name} {s:.2f} s" for name, s in seconds.items()) + "]", end=" ")
            self.assertLessEqual(max(seconds.values()), BACK_S)


# ---- a key that nobody knows ----

def zmtp_messages(stream):
    """The bodies of the messages in what one side of a connection has sent: what is neither greeting nor command."""
    at, messages = len(ZMTP_GREETING), []
    while at < len(stream):
        flags, is_long = stream[at], stream[at] & 2
        n = struct.unpack(">Q", stream[at + 1:at + 9])[0] if is_long else stream[at + 1]
        begin = at + (9 if is_long else 2)
        if not flags & 4:
            messages.append(stream[begin:begin + n])
        at = begin + n
    return messages


class UnknownKey(unittest.TestCase):
    def setUp(self):
        if not told_peer_program().exists():
            self.skipTest("told_peer is not built")

    def shake(self, swarm, key_file):
        """A handshake by a tap; the tap, once the agent has closed the connection or the stranger has given up."""
        a = swarm["a"]
        tap = Tap(a.port)
        process = subprocess.Popen([told_peer_program(), key_file, "test", a.key, tap.address, "1"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, preexec_fn=die_with_parent)
        out, _ = process.communicate(timeout=30)
        return tap, process.returncode, out

    def test_no_word_to_an_unknown_key(self):
        with Swarm("abx", [("a", "b"), ("a", "x")], rows=60, test_rows=60) as swarm:
            a = swarm.start("ab")["a"]
            wait_for(lambda: a.answers() and a.state_of("b") == "alive", 10, "a and b have met")
            starling("key", "new", swarm.folder / "nobody.key")
            tap, code, out = self.shake(swarm, swarm.folder / "nobody.key")
            self.assertEqual((code, out), (1, b""))
            self.assertTrue(zmtp_messages(tap.sent), "it has knocked")
            self.assertEqual(zmtp_messages(tap.answered), [])
            counted = [row for row in a.ask_fast("peers")["strangers"] if row["unknown_key"] > 0]
            self.assertEqual(len(counted), 1)
            # The same words of a known key are answered.
            tap, code, out = self.shake(swarm, swarm["x"].folder / "agent.key")
            self.assertEqual(code, 0)
            self.assertNotEqual(zmtp_messages(tap.answered), [])


if __name__ == "__main__":
    main()
