#!/usr/bin/python3
"""How training computes is measured once a host, kept, used again, and learnt anew when the host changes."""
import json
import os
import re
import unittest

from agents import Swarm, main, wait_for
from control_group import Group

MEASURED = {"a": {"kernels": "measured"}}
QUICK = {"train": {"epochs": 1, "batch": 32}, "count": 2}


def threads_of(site):
    """How many threads the process has, its own libraries' among them."""
    return len(os.listdir(f"/proc/{site.process.pid}/task"))


def lines(site, event):
    """The fields of the lines of an event, one dictionary each."""
    return [dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line)) for line in site.log.splitlines() if f" {event} " in line]


class Tune(unittest.TestCase):
    def test_measured_once_and_used_again(self):
        with Swarm("a", [], job=QUICK, sites=MEASURED) as swarm:
            a = swarm["a"].start()
            a.wait_finished(60)
            self.assertEqual(a.stop(), 0)
            first, = lines(a, "kernels-measured")
            self.assertLessEqual(int(first["measured"]), max(4, int(first["cells"]) / 10))
            self.assertEqual(lines(a, "kernels-reused"), [])
            a.start()
            a.wait_finished(60)
            self.assertEqual(a.stop(), 0)
            again, = lines(a, "kernels-reused")
            self.assertEqual(len(lines(a, "kernels-measured")), 1)
            for what in ("lanes", "threads", "block", "machine"):
                self.assertEqual(again[what], first[what])

    def test_a_damaged_file_is_told_and_made_anew(self):
        with Swarm("a", [], job=QUICK, sites=MEASURED) as swarm:
            a = swarm["a"]
            a.state.mkdir(mode=0o700)
            file = a.state / "tuning-points@1.json"
            file.write_text('{"schema": 1, "model": ')
            a.start().wait_finished(60)
            self.assertEqual(a.stop(), 0)
            self.assertEqual(len(lines(a, "kernels-file-ignored")), 1)
            self.assertEqual(len(lines(a, "kernels-measured")), 1)
            json.loads(file.read_text())

    def test_tune_shows_and_keeps(self):
        with Swarm("a", [], job=QUICK, sites=MEASURED) as swarm:
            a = swarm["a"]
            file = a.state / "tuning-points@1.json"
            looked = a.cli("tune", "--check", "--format", "json").data
            self.assertEqual((looked["changed"], looked["check"], file.exists()), (True, True, False))
            data = a.cli("tune", "--format", "json").data
            self.assertEqual((data["changed"], data["check"]), (True, False))
            self.assertTrue(any(row["measured"] for row in data["rows"]))
            self.assertEqual(sum(row["chosen"] for row in data["rows"]), 2)
            self.assertLessEqual(data["step_microseconds"], data["default_step_microseconds"])
            self.assertLessEqual(data["measured"], max(4, data["cells"] / 10))
            self.assertFalse(data["again"])
            kept = json.loads(file.read_text())
            kept["hosts"].append({**kept["hosts"][0], "machine": "elsewhere", "number": 1})
            file.write_text(json.dumps(kept))
            table = a.cli("tune").out
            own = kept["hosts"][0]["machine"]
            self.assertEqual([host["machine"] for host in json.loads(file.read_text())["hosts"]], [own, "elsewhere"])
            self.assertEqual(table.count("dense 16 of 1x1x4 batch 32"), 1)  # what was chosen
            self.assertIn("a step of training takes", table)
            a.start().wait_finished(60)
            self.assertEqual(a.stop(), 0)
            self.assertEqual(len(lines(a, "kernels-reused")), 1)
            self.assertEqual(lines(a, "kernels-measured"), [])

    def check_one_thread(self, prefix):
        """Of the processors that prefix leaves: no split has more threads, and the process no more than untuned."""
        n_threads = {}
        for kernels in ("measured", "built-in"):
            with Swarm("a", [], job=QUICK, sites={"a": {"kernels": kernels}}) as swarm:
                a = swarm["a"]
                unbound = a.cli("tune", "--check", "--format", "json").data["cells"]
                a.prefix = prefix
                a.start().wait_finished(60)
                n_threads[kernels] = threads_of(a)
                self.assertEqual(a.stop(), 0)
                told = lines(a, "kernels-measured")
                self.assertEqual(len(told), kernels == "measured")
                for line in told:
                    self.assertEqual((line["threads"], line["processors"]), ("1", "1"))
                    self.assertEqual(int(line["cells"]) < unbound, len(os.sched_getaffinity(0)) > 1)
        self.assertEqual(n_threads["measured"], n_threads["built-in"])

    def test_one_processor_one_thread(self):
        self.check_one_thread(["taskset", "-c", str(min(os.sched_getaffinity(0)))])

    def test_a_quota_of_one_processor_one_thread(self):
        with Group() as group:
            self.check_one_thread(group.enters())

    def test_a_quota_is_kept_to_and_its_change_learnt(self):
        slow = {"train": {"steps": 20, "epochs": None, "batch": 32}}
        with Group() as group, Swarm("a", [], job=slow, site={"round": {"every_s": 0.2}}, sites=MEASURED) as swarm:
            a = swarm["a"]
            group.set(0.8)
            a.prefix = group.enters()
            a.start()
            a.wait_round(2, 60)
            told, = lines(a, "kernels-measured")
            self.assertEqual((told["threads"], told["processors"]), ("1", "0.8"))
            group.set(0.4)
            wait_for(lambda: lines(a, "kernels-measured-again"), 30, "it learns the new quota")
            again, = lines(a, "kernels-measured-again")
            self.assertEqual(again["processors"], "0.4")
            self.assertLessEqual(int(again["measured"]), 8)
            group.set(0.8)
            wait_for(lambda: lines(a, "kernels-reused"), 30, "the old one is known")
            begin = a.committed()[-1]["round"]
            a.wait_round(begin + 2, 30)
            self.assertEqual(a.stop(), 0)


if __name__ == "__main__":
    main()
