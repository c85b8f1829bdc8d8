#!/usr/bin/python3
"""Other tasks than one class or one number, by real agents with Adam: sets of classes, and anomalies by reconstruction."""
import random
import unittest

import numpy as np

from agents import JOB, Swarm, main, options, ring, starling

ADAM = {"epochs": 2, "batch": 16, "optimizer": "adam", "learning_rate": 0.01, "momentum": None, "clip_norm": 5}
TAGS = ["hot", "loud", "worn"]
SENSORS = ["a", "b", "sum", "difference", "half", "minus"]


def count():
    return 3 if options.small else 12


def write(path, header, rows):
    path.write_text("\n".join([",".join(header)] + [",".join(map(str, row)) for row in rows]) + "\n")


def set_rows(n, seed, one_column):
    """Each tag hangs on one input; three in ten rows have none."""
    rng = random.Random(f"sets {seed}")
    for _ in range(n):
        x = [round(rng.gauss(0, 1), 4) for _ in range(3)]
        marks = [int(value > 0.3) for value in x]
        tags = ";".join(tag for tag, mark in zip(TAGS, marks) if mark)
        yield x + ([tags] if one_column else marks)


def machine_rows(n, seed, anomalies):
    """Six sensors that follow from two; of an anomaly one does not."""
    rng = random.Random(f"machines {seed}")
    for i in range(n):
        a, b = rng.gauss(0, 1), rng.gauss(0, 1)
        x = [value + rng.gauss(0, 0.1) for value in (a, b, a + b, a - b, a / 2, -b)]
        is_broken = anomalies and i % 5 == 0
        if is_broken:
            x[rng.randrange(6)] += rng.choice((-2, 2))
        yield [round(value, 4) for value in x] + ([("broken" if is_broken else "normal")] if anomalies else [])


class Tasks(unittest.TestCase):
    def learn(self, job, files):
        """Two agents from nothing to the last round; what `eval` says of the common test set."""
        job = {**{key: value for key, value in JOB.items() if key not in ("label", "classes")}, "count": count(), **job}
        job["train"] = {key: value for key, value in ADAM.items() if value is not None}
        with Swarm("ab", ring("ab")) as swarm:
            swarm.write_job(job)
            for site in swarm:
                files(site.folder / "train.csv", site.name, True)
            files(swarm.folder / "test.csv", "test", False)
            swarm.start()
            swarm.wait_finished(60)
            a = swarm["a"]
            evaluated = a.ask("eval", "--set", "global")
            self.assertAlmostEqual(a.committed()[-1]["global"], evaluated["headline"])
            self.assertEqual(a.status()["job"]["metric"], evaluated["metric"])
            models = {site.name: site.models() for site in swarm}
            checked = a.cli("data", "check", "--format", "json")
            self.assertEqual(checked.code, 0, checked)
            swarm.stop()
            swarm.remove_states()
            swarm.start()
            swarm.wait_finished(60)
            self.assertEqual({site.name: site.models() for site in swarm}, models)  # Adam's state repeats its bits
            return evaluated

    def test_sets_of_classes(self):
        for one_column in (False, True):
            with self.subTest(one_column=one_column):
                def files(path, seed, is_training, one_column=one_column):
                    write(path, ["x", "y", "z"] + (["tags"] if one_column else TAGS),
                          set_rows(200 if is_training else 400, seed, one_column))
                job = {"task": "multilabel", "classes": TAGS, "features": ["x", "y", "z"], "model": "dense 12, relu, dense classes",
                       **({"label": "tags"} if one_column else {})}
                evaluated = self.learn(job, files)
                self.assertEqual(evaluated["metric"], "macro-F1")
                self.assertEqual(evaluated["headline"], evaluated["macro_f1"])
                self.assertEqual([row["class"] for row in evaluated["classes"]], TAGS)
                if not options.small:
                    self.assertGreater(evaluated["macro_f1"], 0.9)
                    self.assertGreater(evaluated["auc"], 0.97)

    def test_sets_in_arrays(self):
        """Arrays teach what the same samples in a table do."""
        columns = ["x", "y", "z"]
        job = {"task": "multilabel", "classes": TAGS, "features": columns, "model": "dense 12, relu, dense classes", "holdout": 0.2}
        job = {**{key: value for key, value in JOB.items() if key not in ("label", "classes")}, "count": 2, **job}
        models = []
        for ending in ("csv", "npz"):
            with Swarm("a", []) as swarm:
                swarm.write_job(job)
                rows = list(set_rows(200, 1, False))
                if ending == "csv":
                    write(swarm.folder / "data.csv", columns + TAGS, rows)
                else:
                    values = np.array(rows, dtype=np.float32)
                    np.savez(swarm.folder / "data.npz", x=values[:, :3], y=values[:, 3:].astype(bool))
                a = swarm["a"]
                swarm.write_site("a", jobs=[{"job": "../points.job.yaml", "data": {"train": f"../data.{ending}"}, "when_done": "serve"}])
                checked = a.cli("data", "check", "--format", "json")
                self.assertEqual(checked.code, 0, checked)
                swarm.start()
                swarm.wait_finished(60)
                models.append((a.models(), a.ask("eval")["macro_f1"]))
                self.assertEqual(a.cli("export", "--format", "onnx", "--out", swarm.folder / "model.onnx").code, 0)
                swarm.stop()
        self.assertEqual(models[0], models[1])

    def test_anomalies(self):
        """Trained on files without a label column, judged by one that has it."""
        def files(path, seed, is_training):
            write(path, SENSORS + ([] if is_training else ["state"]),
                  machine_rows(200 if is_training else 500, seed, not is_training))
        evaluated = self.learn({"task": "reconstruct", "label": "state", "classes": ["normal", "broken"], "features": SENSORS,
                                "model": "dense 2, dense inputs"}, files)
        self.assertEqual(evaluated["metric"], "AUC")
        if not options.small:
            self.assertGreater(evaluated["headline"], 0.97)
            self.assertGreater(evaluated["r2"], 0.8)

    def test_contracts_are_proposed(self):
        with Swarm("a", []) as swarm:
            path = swarm.folder / "data.csv"
            write(path, SENSORS + ["state"], machine_rows(100, 1, True))
            proposed = starling("data", "contract", path, "--task", "reconstruct", "--label", "state", "--format", "json").data
            self.assertIn("classes: [ normal, broken ]", proposed["yaml"])
            write(path, SENSORS, machine_rows(100, 1, False))
            proposed = starling("data", "contract", path, "--task", "reconstruct", "--format", "json").data
            self.assertEqual((proposed["inputs"], proposed["classes"]), (6, 0))
            write(path, ["x", "y", "z", "tags"], set_rows(100, 1, True))
            proposed = starling("data", "contract", path, "--task", "multilabel", "--label", "tags", "--format", "json").data
            self.assertIn("classes: [ hot, loud, worn ]", proposed["yaml"])
            self.assertEqual(starling("data", "contract", path, "--format", "json").data["yaml"], proposed["yaml"].replace(
                "task: multilabel\n", "task: multilabel   # a guess from the label; --task decides\n"))
            self.assertEqual(starling("data", "contract", path, "--task", "multilabel", "--format", "json").code, 1)
            write(path, ["x", "y", "z"] + TAGS, set_rows(100, 1, False))
            proposed = starling("data", "contract", path, "--task", "multilabel", "--format", "json").data
            self.assertIn("task: multilabel\nclasses: [ hot, loud, worn ]\nfeatures:\n  - { name: x,", proposed["yaml"])
            self.assertEqual((proposed["inputs"], proposed["classes"]), (3, 3))


if __name__ == "__main__":
    main()
