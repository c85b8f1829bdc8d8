#!/usr/bin/python3
"""The main job: five agents on Fashion-MNIST, Dirichlet 0.3, against each of them alone; seeds 1 (long: 1, 2, 3)."""
import pathlib
import re
import tempfile
import unittest

from agents import main, options, starling

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
SITES = ["s1", "s2", "s3", "s4", "s5"]
RESULT = re.compile(r"result swarm_global=([\d.]+) alone_global=([\d.]+) swarm_local=([\d.]+) alone_local=([\d.]+)"
                    r" wire_bytes=(\d+) seconds=([\d.]+)")


def demo(folder, rounds, seed=1):
    """Its output; AssertionError when it fails."""
    answer = starling("demo", "--dir", folder, "--rounds", rounds, "--seed", seed, timeout=1200)
    if answer.code != 0:
        raise AssertionError(repr(answer))
    return answer.out


def result(output):
    """(swarm_global, alone_global, swarm_local, alone_local, wire_bytes, seconds) of the last line."""
    found = RESULT.fullmatch(output.strip().splitlines()[-1])
    if not found:
        raise AssertionError(f"no result in the last line:\n{output[-2000:]}")
    return [float(value) for value in found.groups()]


def models(folder):
    """The kept models of every site, together and alone."""
    rows = {(site, file): starling("rounds", "list", "--format", "json", "-C", folder / site / file).data["rounds"]
            for site in SITES for file in ("site.yaml", "alone.yaml")}
    return {key: [(row["label"], row["model"]) for row in value] for key, value in rows.items()}


@unittest.skipUnless(DATA.exists(), "the package dataset-fashion-mnist is not installed")
class Demo(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="starling-demo-"))) / "demo"

    def test_repeated_it_repeats_its_bits(self):
        """Run again in the same folder: the same keys, and bit for bit the same models."""
        rounds = 1 if options.small else 20 if options.long else 3
        first = result(demo(self.folder, rounds))
        once = models(self.folder)
        self.assertEqual(result(demo(self.folder, rounds))[:4], first[:4])
        self.assertEqual(models(self.folder), once)
        for rows in once.values():
            self.assertEqual([label for label, _ in rows], [str(i + 1) for i in range(rounds)])
        together = starling("rounds", "list", "--format", "json", "-C", self.folder / "s1/site.yaml").data["rounds"]
        self.assertTrue(all(row["merged"] == row["expected"] == 3 for row in together))

    def test_together_beats_alone(self):
        if options.small:
            self.skipTest("twenty rounds are too long for a sanitised build")
        seeds = (1, 2, 3) if options.long else (1,)
        results = [result(demo(self.folder, 20, seed)) for seed in seeds]
        for seed, (swarm, alone, swarm_local, alone_local, _, seconds) in zip(seeds, results):
            print(f"seed {seed}: together {swarm}, alone {alone}, own {swarm_local}, own alone {alone_local},"
                  f" {seconds:.0f} s", end="; ", flush=True)
            self.assertGreaterEqual(swarm, 81)
            self.assertGreaterEqual(swarm - alone, 12)
        self.assertGreaterEqual(sum(row[0] for row in results) / len(results), 82 if options.long else 81)


if __name__ == "__main__":
    main()
