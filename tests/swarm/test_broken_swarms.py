#!/usr/bin/python3
"""Swarms whose sites agree on every shape and not on what the numbers mean: their average is worthless while each number
in it is finite. Each is refused or warned about before a model of one is merged into another, and the words name the first
difference."""
import random
import unittest

from agents import FEATURES, Swarm, main, merged, ring, starling


def write_pixels(path, n, seed, factor):
    """Values of 0..1, fed times `factor`."""
    rng = random.Random(seed)
    rows = [",".join(FEATURES + ["verdict"])]
    for _ in range(n):
        x = [rng.random() for _ in FEATURES]
        name = "ok" if x[0] < x[1] else "dent" if x[2] < x[3] else "scratch"
        rows.append(",".join(f"{factor * v:.4f}" for v in x) + f",{name}")
    path.write_text("\n".join(rows) + "\n")


class OtherContract(unittest.TestCase):
    def refused(self, ours, theirs, what, here, there, shares=None):
        """b has another job file of the same shapes. Both name the first difference, and neither merges the other."""
        with Swarm("ab", [("a", "b")], job=merged({"count": 3}, ours), shares=shares or {},
                   site={"data": {"global_test": None}, "round": {"meet_s": 1, "deadline_min_s": 0.2}}) as swarm:
            swarm.write_job(merged(swarm.job, theirs), "other.job.yaml")
            swarm.write_site("b", jobs={"job": "../other.job.yaml"})
            swarm.start()
            for site, peer, words in ((swarm["a"], "b", (here, there)), (swarm["b"], "a", (there, here))):
                row = site.wait_peer(peer, {"contract"}, 20)
                sentence = f"{what} is {words[0]} here, {words[1]} there"
                self.assertIn(sentence, row["sentence"])
                self.assertIn(sentence, site.cli("peer", "list").out)
                self.assertEqual(site.status()["job"]["round"], 0)
                self.assertEqual([job["accepted"] for job in site.ask("job", "status")["jobs"]], [0])  # not this job
                self.assertEqual(sum(r["merged"] for r in site.rounds() if r["merged"]), 0)

    def test_codecs_whose_merges_go_another_way(self):
        self.refused({"codec": "q8"}, {"codec": "q4"}, "codec", "q8", "q4")
        self.refused({"codec": "topk 0.1"}, {"codec": "topk 0.05"}, "codec fraction", "0.1", "0.05")

    def test_class_numbers_by_what_is_present_here(self):
        """b never saw a scratch; a reader that numbers what it finds, in sorted order, calls dent 0 and ok 1."""
        self.refused({"classes": ["dent", "ok", "scratch"]}, {"classes": ["dent", "scratch", "ok"]},
                     "class 1", '"ok"', '"scratch"')
        self.refused({"classes": ["dent", "ok", "scratch"]}, {"classes": ["ok", "scratch", "unused"]},
                     "class 0", '"dent"', '"ok"', shares={"b": ["ok", "scratch"]})

    def test_class_numbers_by_order_of_appearance(self):
        self.refused({"classes": ["ok", "scratch", "dent"]}, {"classes": ["scratch", "ok", "dent"]},
                     "class 0", '"ok"', '"scratch"')

    def test_own_scaling(self):
        scale = {"mean": [0.5, 0.6, -0.4, 0], "sd": [1.2, 1.3, 1.4, 1.5]}
        self.refused({"scale": scale}, {"scale": merged(scale, {"mean": [0.5, 0.7, -0.4, 0]})},
                     "scale mean 1", "0.6", "0.7")

    def test_own_first_weights(self):
        self.refused({"init_seed": 1}, {"init_seed": 2}, "init seed", "1", "2")


class OtherData(unittest.TestCase):
    def swarm(self, job):
        """Five sites in a ring of which b and d feed 0..255."""
        swarm = Swarm("abcde", ring("abcde"), job=merged({"count": 2}, job), rows=60,
                      site={"data": {"global_test": None}, "round": {"meet_s": 2, "deadline_min_s": 0.2}})
        self.enterContext(swarm)
        for i, site in enumerate(swarm):
            write_pixels(site.folder / "train.csv", 120, i, 255 if site.name in "bd" else 1)
        return swarm

    def test_two_sites_feed_0_to_255(self):
        """With a range in the contract the two do not even start, and the others learn without them."""
        swarm = self.swarm({"range": "0..1"})
        swarm.start()
        for site in swarm:
            checked = starling("data", "check", "-C", site.file)
            if site.name in "bd":
                self.assertEqual(site.wait_ended(20), 4)
                self.assertIn("the contract allows 0 to 1", site.log)
                self.assertEqual(checked.code, 1, checked)
                self.assertIn("0..255 instead of 0..1? divide by 255", checked.out)
            else:
                self.assertEqual(checked.code, 0, checked)
        swarm["a"].wait_round(2, 30)

    def test_two_sites_feed_0_to_255_and_no_range_is_agreed(self):
        """With fixed scaling alone they are warned before their first training."""
        swarm = self.swarm({"scale": {"mean": [0.5] * 4, "sd": [0.29] * 4}})
        swarm.start()
        for site in swarm:
            site.wait_round(1, 30)
            lines = site.log.splitlines()
            warned = [i for i, line in enumerate(lines) if "0..255 instead of 0..1?" in line]
            self.assertEqual(len(warned), int(site.name in "bd"), site.log)
            if warned:
                self.assertIn("force_N", lines[warned[0]])
                self.assertFalse([line for line in lines[:warned[0]] if "round-committed" in line])

    def test_own_scaling_that_is_asked_for(self):
        with Swarm("ab", [("a", "b")], job={"count": 2, "scale": "local"}) as swarm:
            checked = swarm["a"].cli("config", "check")
            self.assertEqual((checked.code, "scale is local" in checked.err), (0, True), checked)
            swarm.start()
            for site in swarm:
                site.wait_round(1, 30)
                self.assertIn("inputs are scaled by this site's own numbers", site.log)


if __name__ == "__main__":
    main()
