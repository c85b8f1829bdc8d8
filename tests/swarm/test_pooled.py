#!/usr/bin/python3
"""Pooled scaling with real agents: three sites that feed very different ranges of the same features learn as well as with
the fixed numbers of all their samples together; who is missing is named and waited for; a graph that is not complete is
refused in words."""
import csv
import hashlib
import json
import math
import struct
import unittest

from agents import CLASSES, FEATURES, Swarm, main, ring, wait_for

SHARES = {"a": ["ok", "scratch"], "b": ["scratch", "dent"], "c": CLASSES}
FACTOR = (1, 100, 1000, 0.01)  # of the features: without scaling nothing is learnt from them together
JOB = {"count": 8, "train": {"epochs": 2, "learning_rate": 0.05}, "validation": 0, "holdout": 0.2}


def feed(swarm):
    """Every value times its feature's factor."""
    for path in [swarm.folder / "test.csv", *(site.folder / "train.csv" for site in swarm)]:
        rows = list(csv.reader(path.open()))
        path.write_text("\n".join([",".join(rows[0])] + [
            ",".join([f"{float(v) * f:.6g}" for v, f in zip(row, FACTOR)] + row[4:]) for row in rows[1:]]) + "\n")


def is_held_out(values, holdout):
    """The rule of models/data/dataset.h."""
    inputs = b"starling/v1/holdout\0" + struct.pack("<4f", *values)
    place = int.from_bytes(hashlib.blake2b(inputs, digest_size=32).digest()[:8], "little") >> 11
    return place * 2.0 ** -53 < holdout


def union(swarm):
    """Mean and sd of all training samples, as a person with all the data would find them."""
    rows = [[float(v) for v in row[:4]] for site in swarm
            for row in list(csv.reader((site.folder / "train.csv").open()))[1:]]
    rows = [[struct.unpack("<f", struct.pack("<f", v))[0] for v in row] for row in rows
            if not is_held_out([float(v) for v in row], JOB["holdout"])]
    mean = [math.fsum(column) / len(rows) for column in zip(*rows)]
    sd = [math.sqrt(math.fsum((v - m) ** 2 for v in column) / len(rows)) for column, m in zip(zip(*rows), mean)]
    return mean, sd


class Pooled(unittest.TestCase):
    def learn(self, scale):
        with Swarm("abc", ring("abc"), job={**JOB, "scale": scale}, shares=SHARES) as swarm:
            feed(swarm)
            if scale == "fixed":
                mean, sd = union(swarm)
                swarm.write_job({**swarm.job, "scale": {"mean": mean, "sd": sd}})
            swarm.start()
            swarm.wait_finished(60)
            return {site.name: site.committed()[-1]["global"] for site in swarm}

    def test_three_sites_learn_as_with_the_numbers_of_the_union(self):
        pooled, fixed = self.learn("pooled"), self.learn("fixed")
        for name in "abc":
            self.assertAlmostEqual(pooled[name], fixed[name], delta=0.005)
            self.assertGreater(pooled[name], 0.6)

    def test_who_is_missing_is_named_and_waited_for(self):
        """meet_s does not cut the wait; a restart and a site that lost its state come back with the frozen numbers."""
        with Swarm("abc", ring("abc"), job={**JOB, "count": None, "scale": "pooled"}, shares=SHARES,
                   site={"round": {"meet_s": 0.2, "deadline_min_s": 0.3}}) as swarm:
            feed(swarm)
            a, c = swarm["a"], swarm["c"]
            swarm.start("ab")
            wait_for(lambda: a.answers() and "pooled scaling lacks the statistics of c" in a.status()["why"], 10,
                     "a names c")
            self.assertEqual(a.status()["job"]["phase"], "meeting")
            self.assertEqual(a.rounds(), [])
            swarm.start("c")
            a.wait_round(3, 30)
            c.kill()
            c.start()
            c.wait_round(c.committed()[-1]["round"] + 3, 30)
            self.assertEqual(c.log.count("pool-closed"), 1)
            c.kill()
            (c.folder / "state").rename(c.folder / "lost")
            (c.folder / "train.csv").write_text((c.folder / "train.csv").read_text() + "9,900,9000,0.09,ok\n")
            c.start()
            c.wait_peer("a", {"alive"}, 20)
            at = a.status()["job"]["round"]
            a.wait_round(at + 3, 30)
            wait_for(lambda: a.round(a.status()["job"]["round"])["peers"]["c"]["reason"] == "ok", 20, "c is merged again")
            self.assertEqual(c.log.count("pool-closed"), 2)

    def test_who_never_comes_is_taken_out_at_one_site(self):
        """The remedy that status names: the others take that site's numbers, their files as they are."""
        with Swarm("abc", ring("abc"), job={**JOB, "count": None, "scale": "pooled"}, shares=SHARES,
                   site={"round": {"meet_s": 0.2, "deadline_min_s": 0.3}}) as swarm:
            feed(swarm)
            a, b = swarm.start("ab")["a"], swarm["b"]
            wait_for(lambda: b.answers() and "taken out of one site's peers" in b.status()["why"], 10, "b names the remedy")
            b.wait_peer("a", {"alive"}, 20)
            a.stop()
            peers = [peer for peer in json.loads(a.file.read_text())["peers"] if peer["name"] != "c"]
            swarm.write_site("a", peers=peers)
            a.start()
            for site in (a, b):
                site.wait_round(3, 30)
                self.assertEqual(site.log.count("pool-closed"), 1)
            self.assertEqual(b.round(b.committed()[-1]["label"])["peers"]["a"]["reason"], "ok")

    def test_a_graph_that_is_not_complete_is_refused(self):
        """a and c do not know each other: b pools three sites, a and c two each."""
        with Swarm("abc", [("a", "b"), ("b", "c")], job={**JOB, "scale": "pooled"}, shares=SHARES,
                   site={"round": {"meet_s": 0.2, "deadline_min_s": 0.3}}) as swarm:
            feed(swarm)
            checked = swarm["a"].cli("config", "check")
            self.assertIn("every site needs every other as a peer", checked.err)
            path = swarm["b"].folder / "train.csv"  # so long that b hears both before it can speak: else it takes the
            header, *rows = path.read_text().splitlines()  # numbers of who comes first, and gives them to the other
            path.write_text("\n".join([header] + rows * 1000) + "\n")
            swarm.start("ac")
            wait_for(lambda: all(swarm[name].answers() for name in "ac"), 10, "a and c are there")
            swarm.start("b")
            shown = [site.wait_peer(peer, {"pool"}, 20) for site, peer in ((swarm["b"], "a"), (swarm["a"], "b"))]
            for row in shown:
                self.assertIn("every site to have every other as a peer", row["sentence"])


if __name__ == "__main__":
    main()
