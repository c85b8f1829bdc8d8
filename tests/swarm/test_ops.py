#!/usr/bin/python3
"""What an operator watches and waits for: events, conditions, a disk that fills."""
import json
import pathlib
import re
import signal
import subprocess
import threading
import time
import unittest

import schemas
from agents import Swarm, die_with_parent, main, options, ring, wait_for


class Follower:
    """`starling events --follow --format json`, read line by line beside the test."""

    def __init__(self, site, *flags):
        self.process = subprocess.Popen([options.starling, "events", "--follow", "--format", "json", *map(str, flags),
                                         "-C", site.file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        preexec_fn=die_with_parent)
        self.lines, self.arrived_s = [], []
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            schemas.check_line("events.json", line)
            self.lines.append(json.loads(line))
            self.arrived_s.append(time.monotonic())

    def named(self, name):
        return [line for line in list(self.lines) if line.get("name") == name]

    def end(self, timeout=10):
        code = self.process.wait(timeout)
        self.thread.join()
        error = self.process.stderr.read()
        self.process.stderr.close()
        self.process.stdout.close()
        return code, error

    def kill(self):
        self.process.kill()
        self.end()


def sleeps(pid):
    """How often a process has gone to sleep."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("voluntary_ctxt_switches"):
            return int(line.split()[1])
    return 0


class Events(unittest.TestCase):
    def test_peers_come_and_go(self):
        """A follower is told within a moment, asks about once a second at most, and resumes by the number."""
        with Swarm("ab", ring("ab"), site={"alone": {"shadow": "off"}}) as swarm:  # its giving up is an event, too
            a, b = swarm.start()["a"], swarm["b"]
            a.wait_peer("b", ["alive"], 20)
            follower = Follower(a, "--last", 100)
            self.addCleanup(follower.process.kill)
            wait_for(lambda: follower.named("peer-connected"), 10, "the first events")
            a.wait_round(a.status()["job"]["round"] + 1, 20)
            b.kill()
            wait_for(lambda: follower.named("peer-disconnected"), 20, "the peer is gone")
            b.start()
            wait_for(lambda: len(follower.named("peer-connected")) > 1, 20, "it is back")
            self.assertEqual(follower.named("peer-connected")[0]["peer"], "b")
            ids = [line["id"] for line in follower.lines]
            self.assertEqual(ids, list(range(ids[0], ids[0] + len(ids))))
            middle = ids[len(ids) // 2]
            follower.kill()
            rest = self.lines(a, "--after", middle)
            self.assertEqual([row["id"] for row in rest][:ids[-1] - middle], ids[ids.index(middle) + 1:])
            last = rest[-1]["id"]
            self.assertEqual([row["id"] for row in self.lines(a, "--last", 2)], [last - 1, last])
            self.assertEqual(self.lines(a, "--after", last), [])
            a.stop()
            self.assertEqual(self.lines(a, "--after", middle)[:len(rest)], rest)  # the database answers

    def lines(self, site, *flags):
        answer = site.cli("events", *flags, "--format", "json")
        self.assertEqual(answer.code, 0, answer)
        return [json.loads(line) for line in answer.out.splitlines()]

    def test_a_follower_outlasts_a_restart_not_an_end(self):
        with Swarm("ab", ring("ab")) as swarm:
            a = swarm.start()["a"]
            a.wait_peer("b", ["alive"], 20)
            follower = Follower(a)
            self.addCleanup(follower.process.kill)
            wait_for(lambda: follower.named("peer-connected"), 10, "the first events")
            a.stop()
            a.start()
            wait_for(lambda: len(follower.named("peer-connected")) > 1, 20, "an event of the new run")
            a.stop()
            begin = time.monotonic()
            code, error = follower.end(20)
            self.assertEqual((code, error), (2, ""))
            self.assertGreater(time.monotonic() - begin, 3)
            said = follower.lines[-1]
            self.assertIn(f"--after {follower.lines[-2]['id']}", said["error"]["message"])

    def test_those_who_wait_do_not_spin(self):
        """Where nothing happens they ask about once a second: seen by how often they go to sleep."""
        with Swarm("a", [], job={"count": 1}) as swarm:
            a = swarm.start()["a"]
            a.wait_finished(20)
            for words in (["events", "--follow"], ["wait", "--for", "phase=training"]):
                with subprocess.Popen([options.starling, *words, "-C", a.file], stdout=subprocess.DEVNULL) as waiting:
                    begin = wait_for(lambda: sleeps(waiting.pid) > 3 and sleeps(waiting.pid), 10, "it waits")
                    time.sleep(3)
                    self.assertLess(sleeps(waiting.pid) - begin, 20)
                    self.assertIsNone(waiting.poll())
                    waiting.kill()

    def test_a_contract_that_differs(self):
        self.refuses({"init_seed": 2}, "init seed is 1 here, 2 there")

    def test_a_policy_of_statistics_that_differs(self):
        self.refuses({"merge": {"statistics": "local"}}, "merge statistics is pooled here, local there",
                     {"model": "dense 8, batchnorm, relu, dense classes"})

    def refuses(self, other, difference, job={}):
        """b has the job file with some keys changed: a says what differs."""
        site = {"round": {"meet_s": 1, "deadline_min_s": 0.2}}
        with Swarm("ab", ring("ab"), job={"init_seed": 1, **job}, site=site) as swarm:
            swarm.write_job({**swarm.job, **other}, "other.job.yaml")
            swarm.write_site("b", jobs={"job": "../other.job.yaml"})
            a = swarm.start()["a"]
            a.wait_peer("b", ["contract"], 20)
            wait_for(lambda: [row for row in self.lines(a, "--last", 100) if row["name"] == "contract"], 10, "the event")
            row = next(row for row in self.lines(a, "--last", 100) if row["name"] == "contract")
            self.assertEqual(row["peer"], "b")
            self.assertEqual(row["text"], difference)

    def test_a_peer_that_flaps_does_not_flood_the_ring(self):
        """Three at once, then one a minute, of each kind about one peer."""
        with Swarm("ab", ring("ab")) as swarm:
            a, b = swarm.start()["a"], swarm["b"]
            for _ in range(6):
                a.wait_peer("b", ["alive"], 20)
                b.kill()
                wait_for(lambda: a.peers()["b"]["state"] != "alive", 20, "it is seen to be gone")
                b.start()
            names = [row["name"] for row in self.lines(a, "--last", 1000) if row["peer"] == "b"]
            for name in ("peer-connected", "peer-disconnected"):
                self.assertGreaterEqual(names.count(name), 2)
                self.assertLessEqual(names.count(name), 4)

    def test_formats(self):
        with Swarm("a", [], job={"count": 1}) as swarm:
            a = swarm["a"]
            none = a.cli("events")
            self.assertEqual(none.code, 2, none)
            a.start().wait_finished(20)
            table, tsv = a.cli("events"), a.cli("events", "--format", "tsv")
            self.assertIn("finished", table.out)
            self.assertTrue(table.out.lstrip().startswith("ID"))
            self.assertEqual({line.count("\t") for line in tsv.out.splitlines()}, {4})
            for flags in (["--last", "x"], ["--after", "-1"], ["--after", "1", "--last", "1"]):
                self.assertEqual(a.cli("events", *flags).code, 4)


class Wait(unittest.TestCase):
    def test_conditions(self):
        with Swarm("ab", ring("ab"), job={"count": 4}) as swarm:
            a, b = swarm["a"], swarm["b"]
            self.assertEqual(a.cli("wait", "--for", "round=1").code, 2)  # nobody there, no time-out
            self.assertEqual(a.cli("wait", "--for", "alive", "--timeout", 0.3).code, 3)
            with subprocess.Popen([options.starling, "wait", "--for", "alive", "-C", a.file],
                                  stdout=subprocess.DEVNULL) as early:
                a.start()
                self.assertEqual(early.wait(20), 0)
            self.reaches(a, "phase=meeting", "health=ok")
            late = a.cli("wait", "--for", "peer=b,state=alive", "--timeout", 0.5, "--format", "json")
            self.assertEqual((late.code, late.json["error"]["code"]), (3, "timed-out"))
            b.start()
            self.reaches(a, "peer=b,state=alive", "round=2", "finished")
            self.assertEqual(a.cli("wait", "--for", "round=5", "--timeout", 5).code, 1)  # it ended before
            b.kill()
            self.reaches(a, "peer=b,state=unreachable")
            a.stop()
            self.assertEqual(a.cli("wait", "--for", "round=4").code, 0)  # the database knows
            self.assertEqual(a.cli("wait", "--for", "finished").code, 2)

    def reaches(self, site, *conditions):
        for condition in conditions:
            answer = site.cli("wait", "--for", condition, "--timeout", 20)
            self.assertEqual(answer.code, 0, answer)

    def test_status_names_whom_a_gather_waits_for(self):
        with Swarm("abc", ring("abc")) as swarm:
            a, b = swarm.start()["a"], swarm["b"]
            swarm.run_on(1, 30)
            b.signal(signal.SIGSTOP)
            self.addCleanup(b.signal, signal.SIGCONT)
            # c may still be gathering the round before, when b's last update reached a but not c.
            pattern = r"gathering round \d+: waits for b(, c)?, closes in \d+ s$"
            wait_for(lambda: re.search(pattern, a.status()["why"]), 20, "status names b")
            self.assertRegex(a.cli("status").out.splitlines()[2], pattern)

    def test_what_is_no_condition(self):
        with Swarm("ab", ring("ab")) as swarm:
            a = swarm["a"]
            for condition in ("rounds=3", "round", "phase=sleeping", "peer=c,state=alive", "peer=b,state=well",
                              "peer=b", "finished=yes", "round=0", ""):
                with self.subTest(condition):
                    answer = a.cli("wait", "--for", condition)
                    self.assertEqual(answer.code, 4, answer)
            self.assertIn("peer=NAME,state=WORD", a.cli("wait", "--for", "round").err)
            self.assertIn("gathering", a.cli("wait", "--for", "phase=sleeping").err)
            self.assertEqual(a.cli("wait").code, 4)


if __name__ == "__main__":
    main()
