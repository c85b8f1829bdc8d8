#!/usr/bin/python3
"""Files that people bring: damaged ones in every format, and models of PyTorch and Keras in and out."""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import damaged
import agents
from agents import main, starling

try:
    import torch
except ImportError:
    torch = None

JOB = """job: {name}
task: classify
label: y
classes: [ k0, k1, k2 ]
{inputs}
model: {model}
train: {{ steps: 5, batch: 8, learning_rate: 0.05 }}
count: 2
"""
COLUMNS = "features: [ {name: a, range: -100..100}, {name: b, range: -100..100}, {name: c, range: -100..100}, " \
    "{name: d, range: -100..100} ]"
MIB = 1 << 20


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def site(self, name, data, inputs=COLUMNS, model="dense classes"):
        """A site of its own; its folder."""
        site = self.folder / name
        site.mkdir()
        starling("key", "new", site / "agent.key")
        (site / "job.yaml").write_text(JOB.format(name="toy", inputs=inputs, model=model))
        (site / "site.yaml").write_text(f"swarm: test\nname: {name}\nlisten: []\n"
                                        f"jobs:\n  - job: job.yaml\n    data: {{ {data} }}\n")
        return site

    def measured(self, *words, cwd):
        """(exit code, standard error, peak of the resident memory in bytes)"""
        peak = pathlib.Path(agents.options.starling).parent / "tests/swarm/peak"
        with tempfile.TemporaryFile() as out:
            done = subprocess.run([peak, agents.options.starling, *map(str, words)], cwd=cwd, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60,
                                  pass_fds=(3,), preexec_fn=lambda: os.dup2(out.fileno(), 3))
            out.seek(0)
            return done.returncode, done.stderr, int(out.read()) * 1024


class Damaged(Folder):
    def test_every_file_is_one_line_exit_4_and_no_memory(self):
        files = damaged.write(self.folder)
        site = self.site("site", f"train: {self.folder}/good.npz")
        image = self.folder / "image.yaml"
        image.write_text(JOB.format(name="image", inputs="input: 2x2x1", model="dense classes"))
        code, err, base = self.measured("data", "check", self.folder / "good.npz", "--job", site / "job.yaml", cwd=site)
        self.assertEqual(code, 0, err)
        code, err, base_import = self.measured("models", "import", self.folder / "good.safetensors", "--check", cwd=site)
        self.assertEqual(code, 0, err)
        most = 0
        for path, role, says in files:
            commands = {
                "data": ("data", "check", path, "--job", site / "job.yaml",
                         *(("--labels", self.folder / "y.npy") if path.suffix == ".npy" else ())),
                "images": ("data", "check", path, "--labels", self.folder / "labels", "--job", image),
                "model": ("models", "import", path),
                "start": ("run",),
            }
            if role == "start":
                (site / "site.yaml").write_text((site / "site.yaml").read_text().split("jobs:")[0] +
                                                f"jobs:\n  - job: job.yaml\n    data: {{ train: {path} }}\n")
            code, err, peak = self.measured(*commands[role], cwd=site)
            with self.subTest(path.name):
                self.assertEqual(code, 4, err)
                lines = [line for line in err.splitlines() if says in line and path.name.split(":")[0] in line]
                self.assertEqual(len(lines), 1, err)
                if role != "start" and path.suffix != ".pt":  # an agent logs, a recipe has its two lines
                    self.assertEqual(len(err.splitlines()), 1, err)
                self.assertLess(len(lines[0]) - len(str(self.folder)), 400)
                extra = peak - (base if role in ("data", "images") else base_import)
                if not agents.options.small:  # a sanitiser keeps freed memory and borders around the rest
                    self.assertLess(extra, 8 * MIB + path.stat().st_size * 2, f"{extra / MIB:.1f} MiB more than a good file takes")
                most = max(most, extra)
        self.assertGreaterEqual(len(files), 60)
        print(f"{len(files)} damaged files refused, at most {most / MIB:.1f} MiB more than a good one", file=sys.stderr)


def write_safetensors(path, tensors, **notes):
    head, data = {"__metadata__": notes} if notes else {}, b""
    for name, array in sorted(tensors.items()):
        array = np.ascontiguousarray(array)
        kind = {"f4": "F32", "f8": "F64", "f2": "F16", "i8": "I64"}[array.dtype.str[1:]]
        head[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    data = path.read_bytes()
    n = 8 + struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:n])
    notes = head.pop("__metadata__")
    return {name: np.frombuffer(data[n + t["data_offsets"][0]:n + t["data_offsets"][1]], "<f4").reshape(t["shape"])
            for name, t in head.items()}, notes


class Models(Folder):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(5)
        self.x = rng.normal(size=(300, 4)).astype("f4")
        self.y = (self.x[:, 0] > 0).astype("i8") + (self.x[:, 1] > 0)
        np.savez(self.folder / "data.npz", x=self.x, y=self.y)
        self.weights = {"features.0.weight": rng.normal(size=(6, 4)).astype("f4"), "features.0.bias": rng.normal(size=6).astype("f4"),
                        "features.2.weight": rng.normal(size=(3, 6)).astype("f4"), "features.2.bias": rng.normal(size=3).astype("f4")}
        write_safetensors(self.folder / "torch.safetensors", self.weights, format="pt")
        self.here = self.site("site", "train: ../data.npz", model="dense 6, relu, dense classes")

    def run_here(self, *words):
        return starling(*words, "--format", "json", cwd=self.here)

    def accuracy(self):
        """What NumPy says of the model on all samples."""
        w = self.weights
        hidden = np.maximum(self.x @ w["features.0.weight"].T + w["features.0.bias"], 0)
        return hidden @ w["features.2.weight"].T + w["features.2.bias"]

    def test_a_torch_model_goes_in_and_out(self):
        would = self.run_here("models", "import", "../torch.safetensors", "--check").data
        self.assertEqual((would["changed"], would["check"], would["matched"], would["layout"]), (True, True, 4, "torch"))
        self.assertFalse((self.here / "state").exists())
        done = self.run_here("models", "import", "../torch.safetensors").data
        self.assertEqual((done["changed"], done["label"], done["missing"], done["extra"]), (True, "0+1", 0, 0))
        self.assertFalse(self.run_here("models", "import", "../torch.safetensors").data["changed"])
        self.assertEqual([row["label"] for row in self.run_here("models", "list").data["models"]], ["0+1"])
        out = self.run_here("export", "--out", "out.safetensors").data
        tensors, notes = read_safetensors(self.here / "out.safetensors")
        self.assertTrue(np.array_equal(tensors["dense1.weight"], self.weights["features.0.weight"]))
        self.assertTrue(np.array_equal(tensors["dense2.bias"], self.weights["features.2.bias"]))
        self.assertEqual((notes, json.loads(notes["classes"])), (out["metadata"], ["k0", "k1", "k2"]))
        self.assertEqual([f["name"] for f in json.loads(notes["features"])], ["a", "b", "c", "d"])
        card = (self.here / "out.safetensors.md").read_text()
        for words in ("# toy, round 0+1", "| dense1.weight | [6, 4] |", "Inputs: float32 [batch, 4]", "not evaluated here"):
            self.assertIn(words, card)
        again = self.run_here("export", "--out", "out.safetensors")
        self.assertEqual((again.code, again.json["error"]["code"]), (1, "exists"))
        for name in ("out.safetensors", "out.safetensors.md"):
            self.assertEqual((self.here / name).stat().st_mode & 0o022, 0)  # the umask counts
        (self.here / "link.npz").symlink_to("nowhere")
        again = self.run_here("export", "--out", "link.npz")
        self.assertEqual((again.code, again.json["error"]["message"]), (1, "link.npz: it exists already"))

    def test_an_export_is_whole_or_nothing(self):
        """Of names near the longest the card's is too long before the model's is."""
        self.run_here("models", "import", "../torch.safetensors").data
        for n in range(222, 244):
            name = "a" * n + ".safetensors"
            code = self.run_here("export", "--out", name).code
            left = sorted(path.name for path in self.here.iterdir() if path.name.startswith("aaa"))
            self.assertEqual(left, [name, name + ".md"] if code == 0 else [], (n, code))
            for path in left:
                (self.here / path).unlink()
        self.assertNotEqual(code, 0)
        for words in (["--format", "npz", "--out", "a.safetensors"], ["--out", "a.pt"], ["--out", "a"]):
            lying = self.run_here("export", *words)
            self.assertEqual((lying.code, lying.json["error"]["code"]), (4, "usage"), words)

    def test_keras_in_numpy_out(self):
        w = self.weights
        np.savez(self.folder / "keras.npz", **{"model/dense/kernel": w["features.0.weight"].T, "model/dense/bias": w["features.0.bias"],
                                               "model/dense_1/kernel": np.asfortranarray(w["features.2.weight"].T).astype("f8"),
                                               "model/dense_1/bias": w["features.2.bias"]})
        done = self.run_here("models", "import", "../keras.npz").data
        self.assertEqual((done["layout"], done["matched"]), ("keras", 4))
        self.run_here("export", "--format", "npz", "--layout", "keras").data
        arrays = np.load(self.here / "toy-0+1.npz")
        self.assertTrue(np.array_equal(arrays["dense2/kernel"], w["features.2.weight"].T))
        self.run_here("export", "--format", "npz", "--out", "torch.npz").data
        self.assertTrue(np.array_equal(np.load(self.here / "torch.npz")["dense2.weight"], w["features.2.weight"]))

    def test_grus_of_keras_go_in_and_out(self):
        """One bias of two rows there, two biases here; gates z, r, n there and r, z, n here."""
        site = self.site("series", "train: ../series.npz", inputs="input: 2x4", model="gru 2, dense classes")
        rng = np.random.default_rng(2)
        shapes = {"gru/cell/kernel": (4, 6), "gru/cell/recurrent_kernel": (2, 6), "gru/cell/bias": (2, 6), "out/kernel": (2, 3), "out/bias": (3,)}
        arrays = {name: rng.normal(size=shape).astype("f4") for name, shape in shapes.items()}
        np.savez(self.folder / "gru.npz", **arrays)
        done = starling("models", "import", self.folder / "gru.npz", "-C", site / "site.yaml", "--format", "json").data
        self.assertEqual((done["layout"], done["matched"], done["extra"]), ("keras", 6, 0))
        for layout in ("keras", "torch"):
            starling("export", "-C", site / "site.yaml", "--out", self.folder / f"{layout}.npz", "--layout", layout)
        keras, torch_ = np.load(self.folder / "keras.npz"), np.load(self.folder / "torch.npz")
        self.assertEqual(sorted(set(keras) - {"starling"}), ["dense1/bias", "dense1/kernel", "gru1/bias", "gru1/kernel", "gru1/recurrent_kernel"])
        for name in ("kernel", "recurrent_kernel", "bias"):
            self.assertTrue(np.array_equal(keras[f"gru1/{name}"], arrays[f"gru/cell/{name}"]), name)
        z, r, n = np.split(arrays["gru/cell/bias"][1], 3)
        self.assertTrue(np.array_equal(torch_["gru1.bias_hh_l0"], np.concatenate([r, z, n])))

    def test_half_a_match_is_refused_unless_asked_for(self):
        half = {name: array for name, array in self.weights.items() if "features.0" in name}
        half["features.1.num_batches_tracked"] = np.int64(7)
        write_safetensors(self.folder / "half.safetensors", half)
        refused = self.run_here("models", "import", "../half.safetensors")
        self.assertEqual((refused.code, refused.json["error"]["code"]), (4, "schema"))
        self.assertIn("matched 2 of 4", refused.json["error"]["message"])
        self.assertFalse((self.here / "state").exists())
        taken = self.run_here("models", "import", "../half.safetensors", "--partial").data
        self.assertEqual((taken["matched"], taken["missing"], taken["skipped"]), (2, 2, 1))

    def test_a_map_says_which_is_which(self):
        renamed = {"u": self.weights["features.0.weight"], "v": self.weights["features.0.bias"],
                   "w": self.weights["features.2.weight"], "z": self.weights["features.2.bias"]}
        write_safetensors(self.folder / "odd.safetensors", renamed)
        self.assertEqual(self.run_here("models", "import", "../odd.safetensors").code, 4)
        (self.folder / "map").write_text("# ours theirs\ndense1.weight u\ndense1.bias v\ndense2.weight w\ndense2.bias z\n")
        self.assertEqual(self.run_here("models", "import", "../odd.safetensors", "--map", "../map").data["matched"], 4)

    def test_an_agent_goes_on_from_it(self):
        """The first round trains from the import; a running agent takes another between two rounds."""
        self.run_here("models", "import", "../torch.safetensors").data
        before = self.run_here("eval").data
        self.assertEqual(before["label"], "0+1")
        scores = self.accuracy()
        self.assertAlmostEqual(before["accuracy"], np.mean(scores.argmax(1) == self.y), delta=0.15)
        text = (self.here / "job.yaml").read_text().replace("count: 2\n", "")
        (self.here / "job.yaml").write_text(text)
        (self.here / "site.yaml").write_text((self.here / "site.yaml").read_text() + "    round: { every_s: 0.2 }\nstore: { keep_last: 50 }\n")
        agent = subprocess.Popen([agents.options.starling, "run"], cwd=self.here, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.assertEqual(self.run_here("rounds", "wait", "2", "--timeout", "20").code, 0)
            would = self.run_here("models", "import", "../torch.safetensors", "--check").data
            self.assertTrue(would["changed"])
            taken = self.run_here("models", "import", "../torch.safetensors").data
            number, sub = taken["label"].split("+")
            self.assertTrue(taken["changed"] and int(number) >= 2 and sub == "1", taken)
            self.run_here("export", "--model", taken["label"], "--out", "taken.npz").data
            self.assertTrue(np.array_equal(np.load(self.here / "taken.npz")["dense2.weight"], self.weights["features.2.weight"]))
            self.assertEqual([name for name in os.listdir(self.here / "state") if "import" in name], [])
            self.assertEqual(self.run_here("rounds", "wait", str(int(number) + 2), "--timeout", "20").code, 0)
            row = self.run_here("rounds", "show", taken["label"]).data
            self.assertEqual(row["outcome"], "adopted")
        finally:
            agent.terminate()
            agent.wait(10)
        rounds = self.run_here("rounds", "list", "-n", "1000").data["rounds"]
        self.assertEqual((rounds[0]["label"], rounds[0]["outcome"], rounds[1]["label"]), ("0+1", "adopted", "1"))
        back = self.run_here("models", "import", "../torch.safetensors").data
        self.assertTrue(back["changed"])
        self.assertIn("model-imported", starling("events", "-n", "50", cwd=self.here).out)

    def test_what_another_optimiser_left_is_no_hindrance(self):
        """The stored half has that one's state, which is longer or shorter."""
        def optimizer(text):
            job = self.here / "job.yaml"
            job.write_text(re.sub(r"train: .*", f"train: {{ steps: 5, batch: 8, {text} }}", job.read_text()))

        def changed(factor):
            write_safetensors(self.folder / "other.safetensors", {k: w * factor for k, w in self.weights.items()}, format="pt")
            return self.run_here("models", "import", "../other.safetensors").data["changed"]
        self.assertTrue(changed(1))
        optimizer("optimizer: adam")
        self.assertTrue(changed(2))
        optimizer("learning_rate: 0.05")
        self.assertTrue(changed(3))

    def test_pytorch_files_are_refused_with_a_recipe(self):
        (self.folder / "m.pth").write_bytes(b"\x80\2cos\nsystem\n")
        refused = self.run_here("models", "import", "../m.pth")
        self.assertEqual(refused.code, 4)
        self.assertIn("numpy.savez", refused.json["error"]["hint"])


@unittest.skipUnless(torch, "python3-torch is not installed")
class Torch(Folder):
    """A model of PyTorch says here what it says there: kernels, channels first, the dense layer behind an image."""

    def compare(self, net, shape, inputs, model):
        torch.manual_seed(3)
        x = torch.randn(64, *shape)
        with torch.no_grad():
            scores = net.eval()(x)
            y = torch.multinomial(torch.softmax(scores, 1), 1)[:, 0]
            loss = torch.nn.functional.cross_entropy(scores, y).item()
        channels_last = np.moveaxis(x.numpy(), 1, -1)
        np.savez(self.folder / "data.npz", x=channels_last, y=y.numpy())
        write_safetensors(self.folder / "net.safetensors", {k: v.numpy() for k, v in net.state_dict().items()}, format="pt")
        site = self.site("site", "train: ../data.npz, test: ../data.npz", inputs=inputs, model=model)
        done = starling("models", "import", "../net.safetensors", "--format", "json", cwd=site).data
        self.assertEqual((done["missing"], done["extra"]), (0, 0), done)
        ours = starling("eval", "--format", "json", cwd=site).data
        self.assertEqual(ours["samples"], 64)
        self.assertAlmostEqual(ours["loss"], loss, delta=1e-5 * max(1, abs(loss)))
        self.assertAlmostEqual(ours["accuracy"], (scores.argmax(1) == y).float().mean().item())
        starling("export", "--out", "back.safetensors", "--format", "json", cwd=site).data
        back, _ = read_safetensors(site / "back.safetensors")
        for row in done["tensors"]:
            if row["state"] == "matched":
                self.assertTrue(np.array_equal(back[row["tensor"]], net.state_dict()[row["theirs"]].numpy()), row)

    def test_the_recipe_of_a_refused_file_works(self):
        """Its two lines make a file that is taken, the counter of batches left."""
        nn = torch.nn
        torch.save(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)).state_dict(),
                   self.folder / "m.pt")
        np.savez(self.folder / "data.npz", x=np.ones((9, 4, 4, 1), np.float32), y=np.arange(9) % 3)
        site = self.site("site", "train: ../data.npz", inputs="input: 4x4x1", model="conv 3x3x2, batchnorm, relu, dense classes")
        refused = starling("models", "import", "../m.pt", "--format", "json", cwd=site)
        recipe = refused.json["error"]["hint"].split(":\n", 1)[1]
        code = "\n".join(line.strip() for line in recipe.splitlines()).replace("FILE", "'../m.pt'")
        subprocess.run([sys.executable, "-c", code], cwd=site, check=True)
        done = starling("models", "import", "model.npz", "--format", "json", cwd=site).data
        self.assertEqual((done["matched"], done["missing"], done["extra"]), (8, 0, 0), done)

    def test_images(self):
        nn = torch.nn
        net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, (2, 3)), nn.ReLU(),
                            nn.Flatten(), nn.Linear(6 * 3 * 3, 10), nn.ReLU(), nn.Linear(10, 3))
        self.compare(net, (2, 8, 10), "input: 8x10x2\nrange: -100..100",
                     "conv 3x3x4 pad 1, relu, pool 2, conv 2x3x6, relu, dense 10, relu, dense classes")

    def test_running_statistics(self):
        """BatchNorm's means and variances come along, its counter of batches does not."""
        nn = torch.nn
        net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 4 * 4, 3))
        net.train()
        for _ in range(3):
            net(torch.randn(16, 2, 6, 6) * 2 + 1)
        self.compare(net, (2, 6, 6), "input: 6x6x2\nrange: -100..100", "conv 3x3x4, batchnorm, relu, dense classes")

    def test_series(self):
        nn = torch.nn
        net = nn.Sequential(nn.Conv1d(3, 5, 4), nn.ReLU(), nn.Conv1d(5, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 7, 3))
        self.compare(net, (3, 12), "input: 1x12x3\nrange: -100..100", "conv1d 4x5, relu, conv1d 3x5, relu, dense classes")


if __name__ == "__main__":
    main()
