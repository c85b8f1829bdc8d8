#!/usr/bin/python3
"""Agents learn together: every round merges every peer, and repeating it repeats its bits."""
import random
import struct
import unittest

from agents import CLASSES, Swarm, main, options, ring, write_points

NAMES = "abcde"
KEEP_ALL = {name: {"store": {"keep_last": 1000}} for name in NAMES}  # so that every model has its hash to the end


def count():
    return 3 if options.small else 12


def learning_swarm(**changes):
    """Five (small: three) in a ring with a chord; no two see the same classes, so none can learn all of them alone."""
    names = NAMES[:3] if options.small else NAMES
    chords = [] if options.small else [("a", "c")]
    shares = {name: [CLASSES[i % 3], CLASSES[(i + 1) % 3]] for i, name in enumerate(names)}
    return Swarm(names, ring(names, *chords), shares=shares, sites=KEEP_ALL, **{"job": {"count": count()}, **changes})


def run(swarm):
    """From nothing to the last round; every model of every agent."""
    swarm.start()
    swarm.wait_finished(60)
    swarm.stop()
    return {site.name: site.models() for site in swarm}


def write_images(folder, n, seed):
    """IDX files of 8x8 images in dim noise: a bright row, a bright column, a diagonal, wherever it is."""
    rng = random.Random(f"images {seed}")
    pixels = bytearray(rng.randrange(80) for _ in range(n * 64))
    for i in range(n):
        at = rng.randrange(8)
        for k in range(8):
            y, x = [(at, k), (k, at), (k, (k + at) % 8)][i % 3]
            pixels[i * 64 + y * 8 + x] = rng.randrange(180, 256)
    (folder / "images").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, n, 8, 8) + pixels)
    (folder / "labels").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, n) + bytes(i % 3 for i in range(n)))


# The same bytes as images, and as series of eight steps of eight values.
LAYERS = {
    "8x8x1": "conv 3x3x8 pad 1, relu, pool 2, residual { conv 3x3x8 pad 1, relu, depthwise 3x3 pad 1 }, relu, "
             "avgpool 2, conv 2x2x8, relu, globalpool, dense classes",
    "8x8": "conv1d 3x16 pad 1, relu, residual { conv1d 3x16 pad 1 }, relu, pool 2, dense classes",
}


class Learn(unittest.TestCase):
    def test_images_and_series_are_learnt(self):
        for shape, model in LAYERS.items():
            job = {"features": None, "label": None, "input": shape, "range": "0..255", "model": model, "count": 3,
                   "scale": {"mean": 60, "sd": 70}}
            site = {"data": {"train": "images", "train_labels": "labels", "global_test": None}}
            with self.subTest(shape=shape), Swarm("ab", [("a", "b")], job=job, site=site) as swarm:
                for each in swarm:
                    write_images(each.folder, 600, each.name)
                run(swarm)
                for each in swarm:
                    rows = each.committed()
                    self.assertEqual([row["merged"] for row in rows], [1, 1, 1])
                    self.assertLess(rows[-1]["train_loss"], 0.8 * rows[0]["train_loss"])

    def test_every_round_merges_every_peer(self):
        with learning_swarm() as swarm:
            run(swarm)
            for site in swarm:
                rows = site.committed()
                self.assertEqual([row["label"] for row in rows], [str(i + 1) for i in range(count())])
                degree = len(swarm.neighbours(site.name))
                for row in rows:
                    self.assertEqual((row["outcome"], row["merged"], row["expected"]), ("merged", degree, degree))
                for peer in site.round(count())["peers"].values():
                    self.assertEqual((peer["reason"], peer["lag"], peer["clipped"]), ("ok", 0, False))

    def test_together_they_know_the_classes_that_they_never_saw(self):
        if options.small:
            self.skipTest("three rounds teach nothing")
        with learning_swarm() as swarm:
            run(swarm)
            for site in swarm:
                final = site.committed()[-1]
                self.assertGreater(final["global"], 0.8, site.name)  # alone: two classes of three, at most 0.67

    def test_repeated_models_are_bit_identical(self):
        for codec in ("f32", "f16", "q8", "topk 0.05"):
            with self.subTest(codec=codec), learning_swarm(job={"count": count(), "codec": codec}) as swarm:
                first = run(swarm)
                swarm.remove_states()
                self.assertEqual(run(swarm), first)
                self.assertEqual(len(first["a"]), count())

    def test_lossy_updates_teach(self):
        """Round 16 carries the root of the sender's copy: whoever has other bits refuses its link as `chain`."""
        for codec in ("q8", "topk 0.01"):
            with self.subTest(codec=codec), learning_swarm(job={"count": 18, "codec": codec}) as swarm:
                run(swarm)
                for site in swarm:
                    rows = site.committed()
                    self.assertLess(rows[-1]["train_loss"], 0.8 * rows[0]["train_loss"])
                    self.assertEqual({row["outcome"] for row in rows}, {"merged"})
                    for label in range(15, 19):
                        for peer in site.round(label)["peers"].values():
                            self.assertEqual((peer["reason"], peer["lag"]), ("ok", 0))

    def test_sample_weights_repeat_too(self):
        with learning_swarm(site={"merge": {"weights": "samples"}}) as swarm:
            first = run(swarm)
            swarm.remove_states()
            self.assertEqual(run(swarm), first)

    def test_alone_is_plain_training(self):
        """An agent without peers ends by itself, merges nobody, and repeats its bits."""
        with Swarm("a", [], job={"count": count()}, site={"when_done": "exit"}, sites=KEEP_ALL) as swarm:
            models = []
            for _ in range(2):
                swarm.start()
                self.assertEqual(swarm["a"].wait_ended(30), 0)
                models.append(swarm["a"].models())
                rows = swarm["a"].committed()
                self.assertEqual([row["label"] for row in rows], [str(i + 1) for i in range(count())])
                self.assertEqual({row["merged"] for row in rows}, {0})
                swarm.remove_states()
            self.assertEqual(models[0], models[1])

    def test_alone_equals_a_swarm_without_merging(self):
        """First weights, order and local steps do not hang on the peers: round 1 trains to the same loss."""
        with learning_swarm() as swarm:
            run(swarm)
            together = swarm["a"].committed()[0]["train_loss"]
            swarm.remove_states()
            swarm.write_site("a", peers=[], jobs={"when_done": "exit"})
            swarm["a"].start()
            self.assertEqual(swarm["a"].wait_ended(30), 0)
            self.assertEqual(swarm["a"].committed()[0]["train_loss"], together)

    def test_run_ends_by_itself_when_all_have_the_last_round(self):
        with learning_swarm(site={"when_done": "exit"}) as swarm:
            swarm.start()
            for site in swarm:
                self.assertEqual(site.wait_ended(60), 0, site.name)
                self.assertEqual(site.committed()[-1]["round"], count())

    def test_unequal_sites_do_equal_work_at_the_pace_asked_for(self):
        """train.steps: auto is the median of the three sites' epochs, and round.every_s the least time between trainings."""
        with Swarm("abc", ring("abc"), job={"train": {"steps": "auto", "epochs": None, "batch": 8}},
                   site={"round": {"every_s": 1}}) as swarm:
            for name, rows in (("a", 40), ("b", 300), ("c", 1500)):
                write_points(swarm[name].folder / "train.csv", rows, name)
            swarm.start()
            swarm.run_on(4, 60)
            jobs = [site.status()["job"] for site in swarm]
            epochs = sorted((job["samples"] + 7) // 8 for job in jobs)
            self.assertLess(epochs[0] * 4, epochs[2])
            self.assertEqual([job["steps"] for job in jobs], [epochs[1]] * 3)
            for job in jobs:
                self.assertLessEqual(job["next_round_in_s"] or 0, 1)
            for site in swarm:
                self.assertLessEqual(len(site.committed()), site.status()["uptime_s"] + 2)


if __name__ == "__main__":
    main()
