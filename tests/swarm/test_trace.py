#!/usr/bin/python3
"""The flight recorder of a deployed agent: what its round machine was told is told to another one, which does the same."""
import os
import struct
import unittest

from agents import Swarm, main, ring, starling

QUICK = {"round": {"deadline_min_s": 0.5, "deadline_max_s": 2, "meet_s": 5}}
MAGIC = b"starling-agent-trace 3\n"
HEAD = struct.Struct("<IBBHQ")
WRITE, CHECKPOINT = 24, 31  # kinds of agent/core/record.h


def replay(path, *flags):
    return starling("sim", "--replay", path, "--format", "json", *flags, timeout=60)


def records(data):
    at = len(MAGIC)
    while at < len(data):
        n, kind, detail, _, _ = HEAD.unpack_from(data, at)
        yield at + HEAD.size, n, kind, detail
        at += HEAD.size + n


class Trace(unittest.TestCase):
    def test_a_peer_is_lost_and_comes_back_and_all_of_it_is_repeated(self):
        with Swarm("abc", ring("abc"), site=QUICK, sites={"a": {"trace_mib": 16}}) as swarm:
            a, b = swarm.start()["a"], swarm["b"]
            swarm.run_on(3, 30)
            b.kill()
            a.wait_round(a.job()["round"] + 3, 30)
            b.start()
            swarm.run_on(3, 30)
            path = swarm.folder / "a.trace"
            said = a.ask("trace", path)
            self.assertEqual(said["bytes"], path.stat().st_size)
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
            self.assertEqual(list(a.state.glob(".trace*")), [])
            again = a.cli("trace", path)
            self.assertEqual(again.code, 4, again)

            whole = replay(path).data
            self.assertTrue(whole["equal"])
            self.assertEqual(whole["gaps"], 0)
            self.assertGreater(whole["events"], 200)
            self.assertGreaterEqual(int(whole["committed"].split("+")[0]), 9)
            middle = replay(path, "--stop-at", whole["events"] // 2).data
            self.assertEqual(middle["events"], whole["events"] // 2)
            self.assertLess(int(middle["committed"].split("+")[0]), int(whole["committed"].split("+")[0]))

            # One thing that it did is changed in the file: the first that differs.
            sound = path.read_bytes()
            data = bytearray(sound)
            self.assertTrue(data.startswith(MAGIC))
            writes = [(at, n) for at, n, kind, _ in records(data) if kind == WRITE]
            at, n = writes[len(writes) // 2]
            data[at + n - 1] ^= 1
            changed = swarm.folder / "changed.trace"
            changed.write_bytes(data)
            answer = replay(changed)
            self.assertEqual(answer.code, 1, answer)
            self.assertFalse(answer.json["data"]["equal"])
            self.assertIn("scribe", answer.json["data"]["difference"]["recorded"])

            # What it says of itself is shown without what a terminal would obey, and is text.
            self.assertIn(b"round-committed", sound)
            changed.write_bytes(sound.replace(b"round-committed", b"round-\x1b[31m\xff!!!", 1))
            answer = replay(changed)
            self.assertEqual(answer.code, 1, answer)
            self.assertIn(r"round-\x1b[31m\xff!!!", answer.json["data"]["difference"]["recorded"])
            answer = starling("sim", "--replay", changed)
            self.assertIn(r"round-\x1b[31m\xff!!!", answer.out)
            self.assertNotIn("\x1b", answer.out + answer.err)

            # And damage is one line.
            for name, damaged in {"cut": sound[:-3], "no end of a head": sound[:len(MAGIC) + 9], "empty": MAGIC,
                                  "another version": sound.replace(b"3", b"7", 1)}.items():
                with self.subTest(name):
                    changed.write_bytes(damaged)
                    answer = starling("sim", "--replay", changed)
                    self.assertEqual(answer.code, 4, answer)
                    self.assertEqual((answer.out + answer.err).count("\n"), 1, answer)

    def test_a_ring_that_has_turned_is_repeated_from_where_it_begins(self):
        """1 MiB: a checkpoint and what came after it."""
        with Swarm("ab", ring("ab"), site=QUICK, sites={"a": {"trace_mib": 1}}, rows=40) as swarm:
            a = swarm.start()["a"]
            a.wait_round(600, 120)
            path = swarm.folder / "a.trace"
            self.assertLess(a.ask("trace", path)["bytes"], (1 << 20) + 100)
            whole = replay(path).data
            self.assertTrue(whole["equal"])
            checkpoints = [detail for _, _, kind, detail in records(path.read_bytes()) if kind == CHECKPOINT]
            self.assertEqual(checkpoints, [1, 1])

    def test_a_file_that_cannot_be_written_is_said_and_the_agent_goes_on(self):
        with Swarm("a", [], site=QUICK, sites={"a": {"trace_mib": 1}}) as swarm:
            a = swarm["a"]
            a.state.mkdir(exist_ok=True)
            left = a.state / ".trace"
            left.write_bytes(b"of one who was killed")
            a.start().wait_answers()
            self.assertFalse(left.exists())
            os.mkfifo(a.state / ".trace.tmp")
            path = swarm.folder / "a.trace"
            answer = a.cli("trace", path)
            self.assertEqual(answer.code, 1, answer)
            self.assertIn("input or output failed", answer.out + answer.err)
            self.assertFalse(path.exists())
            self.assertEqual(a.ask("trace", path)["bytes"], path.stat().st_size)
            self.assertEqual(list(a.state.glob(".trace*")), [])

    def test_off_is_off(self):
        with Swarm("a", [], site=QUICK) as swarm:
            a = swarm.start()["a"]
            a.wait_answers()
            path = swarm.folder / "a.trace"
            answer = a.cli("trace", path)
            self.assertEqual(answer.code, 1, answer)
            self.assertIn("trace_mib", answer.out + answer.err)
            self.assertFalse(path.exists())


if __name__ == "__main__":
    main()
