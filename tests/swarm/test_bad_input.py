#!/usr/bin/python3
"""Bad configurations and bad data: exit 4, one line with the file, the place and the remedy, and nothing left behind."""
import gzip
import struct
import subprocess
import unittest

from agents import FEATURES, Swarm, main, options

SITE = """\
swarm: test
name: a
state_dir: state
listen: []
peers: []
jobs:
  - job: a.job.yaml
    data:
      train: train.csv
    round:
      meet_s: 5
    when_done: exit
"""
JOB_TEXT = """\
job: points
task: classify
label: verdict
classes: [ ok, scratch, dent ]
features: [ force_N, temp_C, speed_mm_s, pitch_mm ]
model: dense 16, relu, dense classes
train: { epochs: 1 }
count: 1
"""

# name -> (text to replace, by what, what the line must have). "": append; None: all of it.
SITE_FAULTS = {
    "unknown key": ("listen:", "lisen:", ["did you mean listen"]),
    "unknown section": ("", "stor:\n  keep_last: 3\n", ["unknown key"]),
    "doubled key": ("", "name: b\n", ["stands in line", "remove one"]),
    "wrong type": ("state_dir: state", "state_dir: [ state ]", ["list where one value is expected"]),
    "list where a map belongs": ("jobs:", "jobs: 3\nx:", ["not a list"]),
    "out of range": ("", "store:\n  keep_last: 0\n", ["store.keep_last"]),
    "not a number": ("", "payload_max_mib: many\n", ["payload_max_mib"]),
    "a unit in the value": ("", "payload_max_mib: 64MiB\n", ["payload_max_mib"]),
    "a comma in a number": ("meet_s: 5", "meet_s: 0,5", ["round.meet_s"]),
    "not finite": ("meet_s: 5", "meet_s: nan", ["round.meet_s"]),
    "too large for a double": ("meet_s: 5", "meet_s: 1e999", ["round.meet_s"]),
    "not a word of the list": ("when_done: exit", "when_done: exti", ["when_done", "exit"]),
    "tab indentation": ("      train: train.csv", "\ttrain: train.csv", ["tab"]),
    "never closed": ("listen: []", "listen: [", []),
    "missing swarm": ("swarm: test\n", "", ["swarm", "is missing"]),
    "missing job": ("  - job: a.job.yaml\n    data", "  - data", ["job", "is missing"]),
    "missing data": ("    data:\n      train: train.csv\n", "", ["data.train"]),
    "no such job file": ("a.job.yaml", "b.job.yaml", ["b.job.yaml", "does not exist"]),
    "two jobs": ("", "  - job: a.job.yaml\n    data:\n      train: train.csv\n", ["stands here twice", "remove one"]),
    "no job at all": (SITE[SITE.index("jobs:"):], "jobs: []\n", ["no job"]),
    "bad key": ("peers: []", "peers:\n  - name: b\n    key: GHW8-AR2K\n", ["public key"]),
    "own key as a peer": ("peers: []", "peers:\n  - name: b\n    key: OWN\n", ["own key"]),
    "bad address": ("listen: []", "listen: [ \"udp://127.0.0.1:1\" ]", ["listen"]),
    "address without port": ("listen: []", "listen: [ \"tcp://127.0.0.1\" ]", ["listen"]),
    "deadline below its minimum": ("meet_s: 5", "deadline_min_s: 5\n      deadline_max_s: 1", ["deadline_max_s"]),
    "part without a split": ("train: train.csv", "train: train.csv\n      part: 2", ["splits nothing"]),
    "labels without images": ("train: train.csv", "train: train.csv\n      test_labels: x", ["data.test"]),
    "an anchor": ("name: a", "name: &x a", []),
    "not UTF-8": ("name: a", "name: \udcff", []),
    "a NUL": ("name: a", "name: a\0b", []),
    "an empty file": (None, "", []),
    "a megabyte of brackets": (None, "[" * 1000000, []),
    "200 KiB of brackets": (None, "[" * 200000, []),
    "200 KiB of nested maps": (None, "{a: " * 50000, []),
}
JOB_FAULTS = {
    "unknown key of the job": ("epochs:", "epoch:", ["did you mean train.epochs"]),
    "unknown layer": ("relu", "rulo", ["model"]),
    "too many parameters": ("dense 16", "dense 100000000", ["model"]),
    "classes missing": ("classes: [ ok, scratch, dent ]\n", "", ["classes"]),
    "one class twice": ("scratch, dent", "scratch, ok", ["stands twice"]),
    "no features": ("features: [ force_N, temp_C, speed_mm_s, pitch_mm ]\n", "", ["features"]),
    "steps and epochs": ("epochs: 1", "epochs: 1, steps: 5", ["train.steps"]),
    "cosine without an end": ("epochs: 1 }\ncount: 1", "epochs: 1, schedule: cosine }", ["cosine", "count"]),
    "batch of 0": ("epochs: 1", "epochs: 1, batch: 0", ["train.batch"]),
    "scale of another length": ("label:", "scale: { mean: [ 0 ], sd: [ 1, 2 ] }\nlabel:", ["scale"]),
    "split into 0": ("label:", "split: { rule: iid }\nlabel:", ["split"]),
    "split without its number": ("label:", "split: { rule: dirichlet, n: 5 }\nlabel:", ["dirichlet"]),
    "momentum above 1": ("epochs: 1", "epochs: 1, momentum: 1.5", ["train.momentum"]),
    "an empty job": (None, "", []),
}
HEADER = ",".join(FEATURES) + ",verdict\n"
ROW = "1,2,3,4,ok\n"

# name -> (text or bytes, line, what the message must have)
CSV_FAULTS = {
    "empty": ("", None, []),
    "header only": (HEADER, None, []),
    "ragged": (HEADER + ROW + "1,2,3,ok\n", 3, []),
    "too long a row": (HEADER + ROW + "1,2,3,4,5,ok\n", 3, []),
    "not a number": (HEADER + ROW + "1,2,x,4,ok\n", 3, ["x"]),
    "NaN": (HEADER + "1,2,NaN,4,ok\n", 2, []),
    "infinite": (HEADER + "1,2,inf,4,ok\n", 2, []),
    "missing value": (HEADER + ROW + ROW + "1,,3,4,ok\n", 4, []),
    "unknown class": (HEADER + ROW + "1,2,3,4,bent\n", 3, ["bent"]),
    "column missing": (HEADER.replace("temp_C", "temp_F") + ROW, 1, ["temp_C"]),
    "column twice": (HEADER.replace("temp_C", "force_N") + ROW, 1, []),
    "quote never closed": (HEADER + ROW + "\"1,2,3,4,ok\n", None, []),
    "a NUL": (HEADER + "1,2,3\0,4,ok\n", 2, []),
    "binary": (b"\x7fELF" + bytes(range(256)) * 8, None, []),
}


def idx(magic, sizes, body):
    return struct.pack(">I", magic) + b"".join(struct.pack(">I", n) for n in sizes) + body


IMAGES, LABELS = idx(0x803, (6, 2, 2), bytes(24)), idx(0x801, (6,), bytes([0, 1, 2] * 2))
# name -> (images, labels, which file is named)
IDX_FAULTS = {
    "truncated images": (IMAGES[:-3], LABELS, "images"),
    "truncated head": (IMAGES[:9], LABELS, "images"),
    "empty images": (b"", LABELS, "images"),
    "trailing bytes": (IMAGES + b"x", LABELS, "images"),
    "wrong magic": (b"\1" + IMAGES[1:], LABELS, "images"),
    "floats": (idx(0xD03, (6, 2, 2), bytes(96)), LABELS, "images"),
    "2^31 images": (idx(0x803, (1 << 31, 2, 2), bytes(24)), LABELS, "images"),
    "2^31 images in gzip": (gzip.compress(idx(0x803, (1 << 31, 28, 28), bytes(24))), LABELS, "images"),
    "2^27 images of 2^20 bytes in gzip": (gzip.compress(idx(0x803, (1 << 27, 1024, 1024), b"")), LABELS, "images"),
    "no image": (idx(0x803, (0, 2, 2), b""), idx(0x801, (0,), b""), ""),
    "other shape": (idx(0x803, (6, 3, 3), bytes(54)), LABELS, "images"),
    "label above the classes": (IMAGES, idx(0x801, (6,), bytes([0, 1, 2, 0, 3, 1])), "labels"),
    "fewer labels than images": (IMAGES, idx(0x801, (5,), bytes(5)), ""),
    "more labels than images": (IMAGES, idx(0x801, (7,), bytes(7)), ""),
    "labels of rank 3": (IMAGES, IMAGES, "labels"),
    "gzip cut short": (gzip.compress(IMAGES)[:-12], LABELS, "images"),
    "gzip with a wrong checksum": (gzip.compress(IMAGES)[:-8] + bytes(8), LABELS, "images"),
}


class BadInput(unittest.TestCase):
    def setUp(self):
        self.swarm = self.enterContext(Swarm("a", [], rows=30, test_rows=30))

    def site(self):
        return self.swarm["a"]

    def write(self, site_text=SITE, job_text=JOB_TEXT):
        site = self.site()
        site.file.write_bytes(site_text.encode(errors="surrogateescape"))
        (site.folder / "a.job.yaml").write_bytes(job_text.encode(errors="surrogateescape"))

    def check_answer(self, answer, words, place=None, codes=(4,)):
        text = answer.err.strip() or answer.out.strip()
        self.assertIn(answer.code, codes, answer)
        self.assertLessEqual(len(text), 2000, "too long")
        for word in words:
            self.assertIn(word, text)
        if place:
            self.assertIn(place, text)

    def check_config(self, words, file):
        """Both verbs refuse it with the same one line, and nothing is made."""
        check = self.site().cli("config", "check")
        self.check_answer(check, words, file)
        self.assertEqual(len(check.err.strip().splitlines()), 1, check)
        run = self.site().cli("run")
        self.check_answer(run, words, file)
        self.assertFalse(self.site().state.exists(), "a state directory is left")

    def faulty(self, text, old, new):
        if old is None:
            return new
        if old == "":
            return text + new
        self.assertEqual(text.count(old), 1, f"{old!r} in the good file")
        return text.replace(old, new.replace("OWN", self.site().key))

    def test_the_good_ones_are_good(self):
        self.write()
        self.assertEqual(self.site().cli("config", "check").code, 0)
        self.assertEqual(self.site().cli("run").code, 0)

    def test_site_files(self):
        for name, (old, new, words) in SITE_FAULTS.items():
            with self.subTest(name):
                self.write(site_text=self.faulty(SITE, old, new))
                self.check_config(words, "site.yaml")

    def test_job_files(self):
        for name, (old, new, words) in JOB_FAULTS.items():
            with self.subTest(name):
                self.write(job_text=self.faulty(JOB_TEXT, old, new))
                self.check_config(words, "a.job.yaml")

    def test_missing_data_file(self):
        """`check` says where the path stands; `run` ends when it comes to read it."""
        self.write(site_text=SITE.replace("train.csv", "absent.csv"))
        self.check_answer(self.site().cli("config", "check"), ["absent.csv", "correct the path"], "site.yaml:9")
        self.check_data(["does not exist"], "absent.csv")

    def test_missing_site_file(self):
        self.site().file.unlink()
        self.check_answer(self.site().cli("config", "check"), ["does not exist"], "site.yaml")

    def test_csv_files(self):
        for name, (text, line, words) in CSV_FAULTS.items():
            with self.subTest(name):
                self.write()
                data = text if isinstance(text, bytes) else text.encode()
                (self.site().folder / "train.csv").write_bytes(data)
                self.check_data(words, f"train.csv:{line}" if line else "train.csv")

    def test_idx_files(self):
        job = JOB_TEXT.replace("label: verdict\n", "").replace(
            "features: [ force_N, temp_C, speed_mm_s, pitch_mm ]\n", "input: 2x2x1\nrange: 0..255\nholdout: 0\n")
        site = SITE.replace("train: train.csv", "train: images\n      train_labels: labels")
        self.write(site, job)
        folder = self.site().folder
        (folder / "images").write_bytes(IMAGES)
        (folder / "labels").write_bytes(LABELS)
        good = self.site().cli("run")
        self.assertEqual(good.code, 0, good)
        for name, (images, labels, which) in IDX_FAULTS.items():
            with self.subTest(name):
                subprocess.run(["rm", "-rf", self.site().state], check=True)
                (folder / "images").write_bytes(images)
                (folder / "labels").write_bytes(labels)
                self.check_data([], f"/{which}" if which else "")

    def check_data(self, words, place):
        """`run` ends with 4 and says where; the address space that it may use shows that no declared size is believed."""
        run = self.site().cli("run", limit_bytes=None if sanitised() else 1 << 30)
        self.check_answer(run, words, place)
        self.assertEqual(sum(" error " in line for line in run.err.splitlines()), 1, run)
        self.assertFalse(list(self.site().state.glob("files/*")), "files are left")


def sanitised():
    """AddressSanitizer reserves terabytes of addresses."""
    with open(options.starling, "rb") as program:
        return b"__asan_init" in program.read()


if __name__ == "__main__":
    main()
