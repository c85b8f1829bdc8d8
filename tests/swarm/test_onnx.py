#!/usr/bin/python3
"""Exported ONNX graphs under ONNX Runtime, and `starling predict`: the same samples, the same outputs.

ONNX Runtime comes from npm (tests/onnx/package-lock.json) into the build folder; where that cannot be, its tests are
skipped with the reason. Its install script, which fetches libraries for GPUs, is not run."""
import gzip
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import agents
from agents import main, starling

HERE = pathlib.Path(__file__).resolve().parent
ONNX = HERE.parent / "onnx"
LIMIT = 1e-5  # of an output, absolute up to 1 and relative above

JOB = """job: toy
task: {task}
{classes}
{inputs}
model: {model}
train: {{ steps: 12, batch: 8, learning_rate: 0.02 }}
count: 1
"""
CLASSES = "classes: [ k0, k1, k2 ]"
COLUMNS = "features: [ a, b, c, d ]"
N = 120

# word of a layer -> inputs of a sample (an image or a series H×W×C, or tokens) and models in which it computes something
IMAGE, SERIES, TOKENS, ROW = "6x8x2", "1x9x3", "tokens", "columns"
LAYERS = {
    "dense": [(ROW, "dense 5, dense classes"), (IMAGE, "dense classes")],
    "conv": [(IMAGE, "conv 3x2x4 pad 1, dense classes"), (IMAGE, "conv 3x3x4 stride 2, conv 2x1x3, dense classes")],
    "conv1d": [(SERIES, "conv1d 4x5 stride 2 pad 1, dense classes")],
    "depthwise": [(IMAGE, "depthwise 3x3 pad 1, dense classes"), (SERIES, "depthwise 1x3, dense classes")],
    "pool": [(IMAGE, "pool 2, dense classes"), (IMAGE, "pool 3 stride 2, dense classes"), (SERIES, "pool 2, dense classes")],
    "avgpool": [(IMAGE, "avgpool 2 stride 1, dense classes"), (SERIES, "avgpool 3, dense classes")],
    "globalpool": [(IMAGE, "conv 3x3x4, globalpool, dense classes")],
    "embed": [(TOKENS, "embed 7 3, dense classes"), (TOKENS, "embed 7 3, conv1d 2x4, relu, dense classes")],
    "gru": [(SERIES, "gru 4, dense classes"), (SERIES, "gru 4 states all, gru 3, dense classes"), (TOKENS, "embed 7 3, gru 5, dense classes")],
    "batchnorm": [(IMAGE, "conv 3x3x4, batchnorm, relu, dense classes"), (ROW, "dense 6, batchnorm, dense classes")],
    "groupnorm": [(IMAGE, "conv 3x3x4, groupnorm 2, dense classes"), (ROW, "dense 6, groupnorm 3, dense classes")],
    "layernorm": [(IMAGE, "conv 3x3x4, layernorm, dense classes"), (ROW, "dense 6, layernorm, dense classes")],
    "dropout": [(ROW, "dense 6, dropout 0.3, dense classes")],
    "residual": [(ROW, "dense 6, residual { dense 6, relu, residual { dense 6 } }, dense classes"),
                 (IMAGE, "residual { conv 3x3x2 pad 1, batchnorm, relu }, relu, pool 2, residual { layernorm, conv 1x1x2, layernorm }, dense classes")],
    **{word: [(ROW, f"dense 6, {word}, dense classes"), (IMAGE, f"conv 3x3x4, {word}, dense classes")]
       for word in ("relu", "leakyrelu", "elu", "gelu", "silu", "softplus", "hardswish", "tanh", "sigmoid")},
}


def build_folder():
    return pathlib.Path(agents.options.starling).resolve().parent


def runtime():
    """The folder with ONNX Runtime; SkipTest where it cannot be had."""
    folder = build_folder() / "onnx-runtime"
    if not shutil.which("node") or not shutil.which("npm"):
        raise unittest.SkipTest("node and npm are not installed")
    folder.mkdir(exist_ok=True)
    stamp, lock = folder / "installed", (ONNX / "package-lock.json").read_text()
    if not stamp.exists() or stamp.read_text() != lock:
        for name in "package.json", "package-lock.json":
            shutil.copy(ONNX / name, folder)
        try:
            done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, timeout=240,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except subprocess.TimeoutExpired:
            raise unittest.SkipTest("npm ci of onnxruntime-node took longer than 240 s") from None
        if done.returncode:
            raise unittest.SkipTest("npm cannot fetch onnxruntime-node: " + " ".join(done.stdout.split())[-200:])
        stamp.write_text(lock)
    shutil.copy(ONNX / "evaluate.js", folder)
    return folder


def evaluate(tasks):
    """[{model, dims, data}] -> for each {output's name: array}"""
    done = subprocess.run(["node", "evaluate.js"], cwd=runtime(), input=json.dumps(tasks), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=240)
    if done.returncode:
        raise AssertionError(done.stderr)
    return [{o["name"]: np.array(o["data"]).reshape(o["dims"]) for o in outputs} for outputs in json.loads(done.stdout)]


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def site(self, name, job, data):
        """A site of its own that has learnt a little."""
        site = self.folder / name
        site.mkdir()
        starling("key", "new", site / "agent.key")
        (site / "job.yaml").write_text(job)
        (site / "site.yaml").write_text(f"swarm: test\nname: {name}\nlisten: []\njobs:\n  - job: job.yaml\n    data: {{ {data} }}\n")
        ran = starling("run", cwd=site, timeout=60)
        self.assertEqual(ran.code, 0, ran)
        return site

    def predict(self, site, *words):
        return starling("predict", *words, "--format", "json", cwd=site).data

    def assert_near(self, ours, theirs, what):
        ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
        self.assertEqual(ours.shape, theirs.shape, what)
        error = np.max(np.abs(ours - theirs) / np.maximum(1, np.abs(ours)))
        self.assertLess(error, LIMIT, what)
        return error

    def write_csv(self, name, x, y=None, names="abcd"):
        head = ",".join(names[:x.shape[1]]) + (",y" if y is not None else "")
        rows = [",".join(f"{v:.9g}" for v in row) + (f",{y[i]}" if y is not None else "") for i, row in enumerate(x)]
        path = self.folder / name
        path.write_text("\n".join([head, *rows]) + "\n")
        return path


class Layers(Folder):
    """A small model for each kind of layer."""

    def inputs(self, kind, rng):
        """What the job file says of them, and N samples as their files have them."""
        if kind == TOKENS:
            return "label: y\nfeatures: [ {name: a, range: 0..6}, {name: b, range: 0..6}, {name: c, range: 0..6}, {name: d, range: 0..6} ]", \
                rng.integers(0, 7, (N, 4)).astype("f4")
        if kind == ROW:
            return f"label: y\n{COLUMNS}\nscale: {{ mean: [ 20, -3, 0.5, 1000 ], sd: [ 3, 0.1, 2, 7 ] }}", \
                (rng.normal(size=(N, 4)) * [3, 0.1, 2, 7] + [20, -3, 0.5, 1000]).astype("f4")
        h, w, c = map(int, kind.split("x"))
        return f"input: {kind}\nrange: -5..5\nscale: {{ mean: [ 0.3 ], sd: [ 1.5 ] }}", \
            rng.normal(size=(N, h, w, c)).clip(-4, 4).astype("f4")

    def test_every_layer_says_the_same_under_onnx_runtime(self):
        words = subprocess.run([build_folder() / "tests/swarm/layer_words"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        self.assertEqual(sorted(LAYERS), sorted(words), "each kind of layer of models/net/layer.c has a case here")
        runtime()
        rng, tasks, cases = np.random.default_rng(7), [], []
        for word, models in LAYERS.items():
            for i, (kind, model) in enumerate(models):
                said, x = self.inputs(kind, rng)
                y = rng.integers(0, 3, N)
                data = self.folder / f"{word}{i}.npz"
                np.savez(data, x=x, y=y)
                np.save(self.folder / f"{word}{i}.npy", x[:7])
                site = self.site(f"{word}{i}", JOB.format(task="classify", classes=CLASSES, inputs=said, model=model), f"train: {data}")
                starling("export", "--out", "m.onnx", "--format", "json", cwd=site).data
                tasks.append({"model": str(site / "m.onnx"), "dims": list(x[:7].shape), "data": x[:7].ravel().tolist()})
                cases.append((word, model, self.predict(site, self.folder / f"{word}{i}.npy")["rows"]))
        worst = 0
        for (word, model, rows), outputs in zip(cases, evaluate(tasks)):
            with self.subTest(word, model=model):
                self.assertEqual(list(outputs), ["scores", "probabilities"])
                worst = max(worst, self.assert_near([r["outputs"] for r in rows], outputs["scores"], model),
                            self.assert_near([r["probabilities"] for r in rows], outputs["probabilities"], model))
        print(f"{len(cases)} models of {len(words)} kinds of layers, largest difference {worst:.1e}", file=sys.stderr)


class Tasks(Folder):
    """Raw rows of a table, and what each task says of them."""

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(3)
        self.x = (rng.normal(size=(N, 4)) * [3, 0.1, 2, 5] + [20, -3, 0.5, 1e5]).astype("f4")
        self.new = self.write_csv("new.csv", self.x[:9])

    def both(self, task, classes, y, model, scale="{ mean: [ 20.1, -3.05, 0.5, 100000.3 ], sd: [ 3, 0.1, 2, 5 ] }"):
        """predict's rows and ONNX Runtime's outputs of the same nine rows of a CSV file, and the site."""
        data = self.write_csv("data.csv", self.x, y)
        site = self.site("site", JOB.format(task=task, classes=classes, inputs=f"{COLUMNS}\nscale: {scale}", model=model),
                         f"train: {data}")
        starling("export", "--out", "m.onnx", "--format", "json", cwd=site).data
        raw = [[float(v) for v in line.split(",")] for line in self.new.read_text().splitlines()[1:]]
        outputs, = evaluate([{"model": str(site / "m.onnx"), "dims": [9, 4], "data": sum(raw, [])}])
        return self.predict(site, self.new), outputs, site

    def test_classes_of_a_raw_row(self):
        y = [f"k{i % 3}" for i in range(N)]
        said, outputs, site = self.both("classify", f"label: y\n{CLASSES}", y, "dense 8, relu, dense classes")
        self.assert_near([r["probabilities"] for r in said["rows"]], outputs["probabilities"], "probabilities")
        self.assert_near([r["outputs"] for r in said["rows"]], outputs["scores"], "scores")
        for row, scores in zip(said["rows"], outputs["scores"]):
            self.assertEqual(row["class"], f"k{scores.argmax()}")
            self.assertEqual(row["probability"], max(row["probabilities"]))
        self.assertEqual((said["label"], [r["sample"] for r in said["rows"]]), ("1", list(range(1, 10))))
        self.check_metadata(site, said["contract"])
        self.check_views(site, said)

    def check_metadata(self, site, contract):
        """What makes it usable is in the file, and in the card beside it."""
        notes = starling("export", "--out", "n.onnx", "--check", "--format", "json", cwd=site).data
        self.assertEqual((notes["layout"], notes["format"]), (None, "onnx"))
        file, card = (site / "m.onnx").read_bytes(), (site / "m.onnx.md").read_text()
        self.assertEqual(notes["metadata"]["contract"], contract)
        for key in "classes", "features", "scale", "contract", "schema", "round", "local test":
            self.assertIn(key.encode(), file)
            self.assertIn(notes["metadata"][key].encode(), file)
            self.assertIn(f"| {key} | {notes['metadata'][key]} |", card)
        self.assertNotIn("layout", notes["metadata"])
        self.assertIn("The model scales them itself", card)
        refused = starling("export", "--out", "n.onnx", "--layout", "keras", "--format", "json", cwd=site)
        self.assertEqual((refused.code, refused.json["error"]["code"]), (4, "usage"))
        self.assertEqual(starling("export", "--out", "m.onnx", "--format", "json", cwd=site).json["error"]["code"], "exists")

    def check_views(self, site, said):
        lines = starling("predict", self.new, "--format", "tsv", cwd=site).out.splitlines()
        self.assertEqual([line.split("\t")[1:3] for line in lines], [[str(r["sample"]), r["class"]] for r in said["rows"]])
        self.assertEqual([[float(p) for p in line.split("\t")[4].split(",")] for line in lines], [r["probabilities"] for r in said["rows"]])
        self.assertIn("PROBABILITY", starling("predict", self.new, cwd=site).out)

    def test_numbers(self):
        y = [f"{v:.4f}" for v in self.x[:, 0] / 10]
        said, outputs, _ = self.both("regress", "label: y", y, "dense 8, tanh, dense targets")
        self.assert_near([[r["value"]] for r in said["rows"]], outputs["value"], "value")

    def test_sets_of_classes_and_scales_that_were_measured(self):
        y = [";".join(k for k, v in zip(("k0", "k1", "k2"), row) if v > c) for row, c in zip(self.x, [0.4] * N)]
        said, outputs, _ = self.both("multilabel", f"label: y\n{CLASSES}", y, "dense 8, relu, dense classes", "local")
        self.assert_near([r["probabilities"] for r in said["rows"]], outputs["probabilities"], "probabilities")
        for row, scores in zip(said["rows"], outputs["scores"]):
            self.assertEqual(row["classes"], [f"k{i}" for i in range(3) if scores[i] > 0])

    def test_rows_with_categories_and_blanks(self):
        lines, rng = ("left", "right", "other"), np.random.default_rng(9)
        rows = [(f"{v[0]:.9g}" if i % 7 else "", "middle" if i % 5 == 4 else lines[rng.integers(2)], f"{v[3]:.9g}")
                for i, v in enumerate(self.x)]
        data, new = self.folder / "data.csv", self.folder / "few.csv"
        data.write_text("a,line,b,y\n" + "".join(f"{a},{line},{b},k{i % 3}\n" for i, (a, line, b) in enumerate(rows)))
        new.write_text("b,line,a\n" + "".join(f"{b},{line},{a}\n" for a, line, b in rows[:9]))
        columns = "features: [ a, { name: line, categories: [ left, right, other ] }, b ]\nmissing: mean\n" \
            "scale: { mean: [ 20.5, 100000.3 ], sd: [ 3, 5 ] }"
        site = self.site("site", JOB.format(task="classify", classes=f"label: y\n{CLASSES}", inputs=columns,
                                            model="dense 8, relu, dense classes"), f"train: {data}")
        starling("export", "--out", "m.onnx", "--format", "json", cwd=site).data
        self.assertIn("a feature with categories is as many inputs", (site / "m.onnx.md").read_text())
        raw = [[float(a or 20.5), *(float(line == name or (name == "other" and line == "middle")) for name in lines), float(b)]
               for a, line, b in rows[:9]]
        outputs, = evaluate([{"model": str(site / "m.onnx"), "dims": [9, 5], "data": sum(raw, [])}])
        self.assert_near([r["outputs"] for r in self.predict(site, new)["rows"]], outputs["scores"], "scores")

    def test_scores_of_anomalies(self):
        said, outputs, _ = self.both("reconstruct", "", None, "dense 2, dense inputs")
        self.assert_near([[r["score"]] for r in said["rows"]], outputs["score"], "score")
        self.assertEqual(outputs["reconstruction"].shape, (9, 4))


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype("u1").tobytes()


class Files(Folder):
    """predict reads what training reads, without labels, and needs no agent."""

    def test_images_in_every_format(self):
        rng = np.random.default_rng(5)
        x, y = rng.integers(0, 256, (N, 4, 5)), rng.integers(0, 3, N)
        for name, array in ("x", x), ("y", y):
            (self.folder / name).write_bytes(idx(array))
        site = self.site("site", JOB.format(task="classify", classes=CLASSES, inputs="input: 4x5x1", model="conv 2x2x3, relu, dense classes"),
                         "train: ../x, train_labels: ../y")
        (self.folder / "x.gz").write_bytes(gzip.compress(idx(x[:70])))
        np.save(self.folder / "bytes.npy", x[:70].astype("u1"))
        np.save(self.folder / "floats.npy", (x[:70] / 255).astype("f4"))
        np.savez(self.folder / "both.npz", x=x[:70].astype("u1"), y=y[:70])
        plain = self.predict(site, "../x")["rows"]
        self.assertEqual([r["sample"] for r in plain], list(range(1, N + 1)))
        for name in "x.gz", "bytes.npy", "floats.npy", "both.npz":
            rows = self.predict(site, f"../{name}")["rows"]
            self.assertEqual(len(rows), 70)
            self.assert_near([r["outputs"] for r in plain[:70]], [r["outputs"] for r in rows], name)
        two = self.predict(site, "../x.gz", "../bytes.npy")["rows"]
        self.assertEqual([(r["file"], r["sample"]) for r in two[69:71]], [("../x.gz", 70), ("../bytes.npy", 1)])
        starling("export", "--out", "m.onnx", "--format", "json", cwd=site).data
        outputs, = evaluate([{"model": str(site / "m.onnx"), "dims": [70, 4, 5, 1], "data": (x[:70] / 255).ravel().tolist()}])
        self.assert_near([r["outputs"] for r in plain[:70]], outputs["scores"], "bytes stand for the range")

    def test_faults_are_one_line(self):
        x = np.random.default_rng(1).normal(size=(N, 4)).astype("f4")
        data = self.write_csv("data.csv", x, [f"k{i % 3}" for i in range(N)])
        site = self.site("site", JOB.format(task="classify", classes=f"label: y\n{CLASSES}", inputs=COLUMNS, model="dense classes"), f"train: {data}")
        (self.folder / "short.csv").write_text("a,b,c\n1,2,3\n")
        (self.folder / "bad.csv").write_text("a,b,c,d\n1,2,3,4\n1,2,?,4\n")
        (self.folder / "image").write_bytes(idx(np.zeros((2, 2, 2))))
        big = self.folder / "big.csv"
        big.write_text("a,b,c,d\n" + "1,2,3,4\n" * ((1 << 20) // 3 + 1))
        for name, code, says in (("none.csv", "not-found", "none.csv"), ("short.csv", "syntax", 'no column "d"'), ("bad.csv", "syntax", "bad.csv:3:3"),
                                 ("image", "range", "name a table"), ("big.csv", "limit", "at most 1048576 numbers")):
            said = starling("predict", self.folder / name, "--format", "json", cwd=site, timeout=60)
            with self.subTest(name):
                self.assertEqual((said.code, said.json["error"]["code"]), (4, code))
                self.assertIn(says, said.json["error"]["message"])
        extra = self.folder / "extra.csv"
        extra.write_text("other,d,c,b,a\nx,4,3,2,1\n")
        ordered = self.write_csv("ordered.csv", np.array([[1.0, 2, 3, 4]]))
        self.assertEqual(*[[r["outputs"] for r in self.predict(site, path)["rows"]] for path in (extra, ordered)])
        unknown = starling("predict", data, "--model", "9", "--format", "json", cwd=site)
        self.assertEqual((unknown.code, unknown.json["error"]["code"]), (1, "not-found"))
        for which in "1", "latest", "serving":
            self.assertEqual(self.predict(site, data, "--model", which)["label"], "1")

    def test_beside_a_running_agent_and_before_the_first_round(self):
        x = np.random.default_rng(1).normal(size=(N, 4)).astype("f4")
        data = self.write_csv("data.csv", x, [f"k{i % 3}" for i in range(N)])
        job = JOB.format(task="classify", classes=f"label: y\n{CLASSES}", inputs=COLUMNS, model="dense classes")
        site = self.folder / "site"
        site.mkdir()
        starling("key", "new", site / "agent.key")
        (site / "job.yaml").write_text(job.replace("count: 1\n", ""))
        (site / "site.yaml").write_text(f"swarm: test\nname: a\nlisten: []\njobs:\n  - job: job.yaml\n    data: {{ train: {data} }}\n"
                                        "    round: { every_s: 0.1 }\n")
        early = starling("predict", data, "--format", "json", cwd=site)
        self.assertNotEqual(early.code, 0, early)
        self.assertIn(early.json["error"]["code"], ("not-connected", "not-found"))
        agent = subprocess.Popen([agents.options.starling, "run"], cwd=site, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=agents.die_with_parent)
        try:
            self.assertEqual(starling("rounds", "wait", "2", "--timeout", "20", cwd=site).code, 0)
            for _ in range(5):
                self.assertEqual(len(self.predict(site, data)["rows"]), N)
            self.assertEqual(starling("export", "--out", "m.onnx", cwd=site).code, 0)
            self.assertIsNone(agent.poll())
        finally:
            agent.terminate()
            self.assertEqual(agent.wait(10), 0)


if __name__ == "__main__":
    main()
