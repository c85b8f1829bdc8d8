#!/usr/bin/python3
"""Six peers that cannot take part, each for its own reason, in one swarm: the rounds of the others go on within their
deadline, and `status`, `peer list` and `rounds show` name each peer and its reason."""
import pathlib
import signal
import subprocess
import time
import unittest

from agents import Swarm, die_with_parent, main, merged, options, ring, starling, wait_for

GOOD = "abc"
DEADLINE_S = 2.0

# name -> states that `peer list` may show, and a word that its sentence must have
BAD = {
    "stopped": ({"slow", "absent", "no-session", "unreachable", "no-answer"}, ""),
    "killed": ({"absent", "unreachable"}, ""),
    "wrong-key": ({"no-answer"}, "key differs"),
    "other-model": ({"schema"}, "16"),
    "other-swarm": ({"swarm"}, "swarm"),
    "other-version": ({"version"}, "version"),
}
RUNNING = [name for name in BAD if name != "other-version"]


def other_version_program():
    return pathlib.Path(options.starling).parent / "tests/swarm/other_version"


class BadPeers(unittest.TestCase):
    def swarm(self):
        """a, b and c know each other; a also knows every bad peer."""
        edges = ring(GOOD) + [("a", bad) for bad in BAD]
        return Swarm([*GOOD, *BAD], edges, rows=60, test_rows=60,
                     job={"train": {"epochs": 1}},
                     site={"round": {"deadline_min_s": 0.2, "deadline_max_s": DEADLINE_S, "meet_s": 5}})

    def make_bad(self, swarm):
        nobody = starling("key", "new", swarm.folder / "nobody.key", "--format", "json").data["key"]
        swarm.peer_changes["a"] = {"wrong-key": {"key": nobody}}
        swarm.write_site("a")
        swarm.write_job(merged(swarm.job, {"model": "dense 32, relu, dense classes"}), "other.job.yaml")
        swarm.write_site("other-model", jobs={"job": "../other.job.yaml"})
        swarm.write_site("other-swarm", swarm="another")

    def start_other_version(self, swarm):
        program = other_version_program()
        if not program.exists():
            return None
        site = swarm["other-version"]
        with open(site.log_file, "ab") as log:
            site.process = subprocess.Popen([program, site.folder / "agent.key", "test", swarm["a"].key,
                                             swarm["a"].address], stdout=log, stderr=log, preexec_fn=die_with_parent)
        return site

    def test_rounds_go_on_without_them(self):
        with self.swarm() as swarm:
            self.make_bad(swarm)
            swarm.start([*GOOD, *RUNNING])
            has_version = self.start_other_version(swarm) is not None
            a = swarm["a"]
            a.wait_round(3, 60)
            a.wait_peer("stopped", {"alive"}, 10)
            swarm["stopped"].signal(signal.SIGSTOP)
            swarm["killed"].kill()

            at_once = a.status()["job"]["round"]
            a.wait_round(at_once + 5, 60)
            for name in BAD:
                if name == "other-version" and not has_version:
                    continue
                states, words = BAD[name]
                row = a.wait_peer(name, states, 20)
                self.assertIn(words, row["sentence"], name)
                self.assertTrue(row["sentence"], name)
            self.check_pace(swarm)
            self.check_words(swarm, has_version)
            for good in GOOD[1:]:
                self.assertEqual({name: row["state"] for name, row in swarm[good].peers().items()},
                                 {name: "alive" for name in GOOD if name != good})
            if not has_version:
                print("without the peer of another version: this build has no tests", end=" ")

    def check_pace(self, swarm):
        """Ten more rounds, each within the deadline and its training."""
        a = swarm["a"]
        begin = a.status()["job"]["round"]
        a.wait_round(begin + 10, 60)
        for row in a.committed():
            if row["round"] > begin:
                self.assertLess(row["seconds"], DEADLINE_S + 1)
                self.assertEqual((row["outcome"], row["merged"]), ("merged", 2))

    def state_in_table(self, site, name):
        return next(line for line in site.cli("peer", "list").out.splitlines() if line.startswith(name)).split()[1]

    def check_words(self, swarm, has_version):
        a = swarm["a"]
        status, text = a.status(), a.cli("status").out
        shown = a.round(status["job"]["round"])
        self.assertEqual(status["word"], "DEGRADED")
        for name in BAD:
            if name == "other-version" and not has_version:
                continue
            # Two answers are of two instants, and a state may change between them.
            wait_for(lambda: self.state_in_table(a, name) == a.peers()[name]["state"], 10, f"the table has {name}'s state")
            self.assertIn(name, text)
            self.assertNotEqual(shown["peers"][name]["reason"], "ok", name)
            self.assertEqual(shown["peers"][name]["weight"], 0, name)
        for name in GOOD[1:]:
            self.assertEqual(shown["peers"][name]["reason"], "ok", name)
        # The other side says it too.
        for name, state in (("other-model", "schema"), ("other-swarm", "swarm")):
            self.assertEqual(swarm[name].peers()["a"]["state"], state, name)


if __name__ == "__main__":
    main()
