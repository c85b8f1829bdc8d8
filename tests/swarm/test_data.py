#!/usr/bin/python3
"""What a person does with data before any peer exists: `data contract` proposes, `data check` holds against it."""
import gzip
import pathlib
import random
import struct
import tempfile
import unittest

from agents import main, starling


def write_table(path, n=300, kelvin=False, label=lambda i, x, y: ["ok", "scratch", 'dent, "deep"'][i % 3], seed=1):
    rng = random.Random(seed)
    rows = ["note,force_N,temp_C,verdict"]
    for i in range(n):
        x, y = rng.gauss(14, 3), rng.gauss(21.5, 4)
        text = str(label(i, x, y)).replace('"', '""')
        rows.append(f'n{i},{x:.3f},{y + 273.15 * kelvin:.3f},"{text}"')
    path.write_text("\n".join(rows) + "\n")


def write_images(images, labels, n=90, n_classes=3):
    rng = random.Random(2)
    images.write_bytes(gzip.compress(struct.pack(">BBBBIII", 0, 0, 8, 3, n, 4, 5) +
                                     bytes(rng.randrange(256) for _ in range(20 * n))))
    labels.write_bytes(struct.pack(">BBBBI", 0, 0, 8, 1, n) + bytes(i % n_classes for i in range(n)))


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        starling("key", "new", self.folder / "agent.key")

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name

    def run_here(self, *words):
        return starling(*words, cwd=self.folder)

    def check(self, *words):
        """The findings as (severity, code, about), and the exit code, which says the same in every format."""
        answer = self.run_here("data", "check", *words, "--format", "json")
        table, tsv = self.run_here("data", "check", *words), self.run_here("data", "check", *words, "--format", "tsv")
        self.assertEqual((answer.code, answer.code), (table.code, tsv.code), answer)
        self.assertEqual(answer.code, int(answer.json["data"]["errors"] > 0), answer)
        return [(f["severity"], f["code"], f["about"]) for f in answer.json["data"]["findings"]], table


class Contract(Folder):
    def round_trip(self, model, contract, data, check_words):
        """What is proposed, pasted into a job file, passes `config check`, and the data pass `data check` both ways."""
        proposed = self.run_here("data", "contract", *contract)
        self.assertEqual(proposed.code, 0, proposed)
        self.write("a.job.yaml", f"job: a\nmodel: {model}\n" + proposed.out)
        self.write("site.yaml", f"swarm: test\nname: a\njobs:\n  - job: a.job.yaml\n    data: {data}\n")
        checked = self.run_here("config", "check")
        self.assertEqual(checked.code, 0, checked)
        for words in (check_words, []):
            findings, table = self.check(*words)
            self.assertEqual([f for f in findings if f[1] != "column-extra"], [], table)
        return proposed

    def test_a_table_of_classes(self):
        write_table(self.folder / "a.csv")
        proposed = self.round_trip("dense classes", ["a.csv"], "{ train: a.csv }", ["a.csv", "--job", "a.job.yaml"])
        self.assertIn('classes: [ "dent, \\"deep\\"", ok, scratch ]\n', proposed.out)
        self.assertIn("  - { name: force_N, range: 0..", proposed.out)
        self.assertIn("# Left out: note; its fields are no numbers.", proposed.out)
        self.assertIn("on the order of the classes", proposed.out)
        data = self.run_here("data", "contract", "a.csv", "--format", "json").data
        self.assertEqual((data["task"], data["task_is_guessed"]), ("classify", True))
        self.assertEqual((data["classes"], data["inputs"]), (3, 2))
        self.assertEqual(data["yaml"], proposed.out)

    def test_a_table_of_numbers(self):
        write_table(self.folder / "a.csv", label=lambda i, x, y: f"{2 * x - y:.4f}")
        proposed = self.round_trip("dense targets", ["a.csv", "--label", "4"], "{ train: a.csv }",
                                   ["a.csv", "--job", "a.job.yaml"])
        self.assertIn("task: regress", proposed.out)
        self.assertNotIn("classes:", proposed.out)

    def test_texts_are_categories_and_blanks_are_filled(self):
        rng = random.Random(5)
        rows = ["force_N,line,verdict"]
        for i in range(240):
            bad = i % 3 == 0
            line = rng.choice(["left"] * (8 if bad else 1) + ["right"] * (1 if bad else 8) + ["NA"])
            rows.append(f"{rng.gauss(14, 3):.3f},{line},{'dent' if bad else 'ok'}" if i % 11 else f",{line},ok")
        self.write("a.csv", "\n".join(rows) + "\n")
        proposed = self.run_here("data", "contract", "a.csv")
        self.assertIn("- { name: line, categories: [ left, right, missing ] }\n", proposed.out)
        self.assertRegex(proposed.out, r"- \{ name: force_N, range: .*, missing: mean \}\n")
        self.write("a.job.yaml", "job: a\ncount: 8\nmodel: dense classes\n" + proposed.out)
        self.write("site.yaml", "swarm: test\nname: a\nlisten: []\njobs:\n  - job: a.job.yaml\n    data: { train: a.csv }\n")
        findings, table = self.check("a.csv", "--job", "a.job.yaml")
        self.assertEqual(findings, [("warning", "missing-value", 'feature 0 "force_N"')], table)
        self.write("odd.csv", "\n".join(rows + ["14,middle,ok"]) + "\n")
        findings, table = self.check("odd.csv", "--job", "a.job.yaml")
        self.assertIn(("error", "category-unknown", 'feature 1 "line"'), findings)
        self.assertEqual(self.run_here("run").code, 0)
        self.assertGreater(self.run_here("eval", "--format", "json").data["accuracy"], 0.75)
        self.write("site.yaml", (self.folder / "site.yaml").read_text().replace("a.csv", "odd.csv"))
        refused = self.run_here("run")
        self.assertEqual(refused.code, 4, refused)
        self.assertIn('odd.csv:242:2: \\"line\\" is middle, none of its 3 categories', refused.out + refused.err)

    def test_the_task_can_be_said(self):
        write_table(self.folder / "a.csv", label=lambda i, x, y: 2 + 8 * (i % 2))
        self.assertIn("classes: [ 2, 10 ]", self.run_here("data", "contract", "a.csv").out)
        self.round_trip("dense targets", ["a.csv", "--task", "regress"], "{ train: a.csv }",
                        ["a.csv", "--job", "a.job.yaml"])
        self.assertEqual(self.run_here("data", "contract", "a.csv", "--task", "guess").code, 4)
        missing = self.run_here("data", "contract", "a.csv", "--label", "colour")
        self.assertEqual(missing.code, 1)
        self.assertIn("no such label column", missing.err)

    def test_images(self):
        write_images(self.folder / "i.gz", self.folder / "l")
        proposed = self.round_trip("dense classes", ["i.gz", "--labels", "l"], "{ train: i.gz, train_labels: l }",
                                   ["i.gz", "--labels", "l", "--job", "a.job.yaml"])
        self.assertIn("input: 4x5x1\nrange: 0..1\n", proposed.out)
        self.assertIn("classes: [ 0, 1, 2 ]", proposed.out)


class Check(Folder):
    def setUp(self):
        super().setUp()
        write_table(self.folder / "a.csv")
        proposed = self.run_here("data", "contract", "a.csv").out
        self.write("a.job.yaml", "job: a\nmodel: dense classes\n" + proposed.replace("range: 0..60", "range: -40..85"))

    def test_kelvin(self):
        write_table(self.folder / "b.csv", kelvin=True)
        findings, table = self.check("b.csv", "--job", "a.job.yaml")
        self.assertIn(("error", "unit", 'feature 1 "temp_C"'), findings)
        self.assertIn("b.csv (train): 300 samples · 1/2 features ok · classes 3/3", table.out)
        self.assertIn("but contract range -40..85: Kelvin? subtract 273.15", table.out)

    def test_every_finding_of_every_file_is_told(self):
        lines = (self.folder / "a.csv").read_text().splitlines()
        self.write("train.csv", "\n".join(lines[:41] + ["n,,1,ok", "n,1,1,bent"]) + "\n")
        self.write("test.csv", "\n".join(lines[:11] + ["n,7,200,ok"]) + "\n")
        self.write("site.yaml", "swarm: test\nname: a\njobs:\n  - job: a.job.yaml\n"
                                "    data: { train: train.csv, test: test.csv }\n")
        findings, _ = self.check()
        for finding in (("error", "missing-value", 'feature 0 "force_N"'), ("error", "class-unknown", 'class "bent"'),
                        ("error", "range", 'feature 1 "temp_C"'), ("error", "duplicates", "samples")):
            self.assertIn(finding, findings)
        data = self.run_here("data", "check", "--format", "json").json["data"]
        self.assertEqual([f["role"] for f in data["files"]], ["train", "test"])
        self.assertEqual({f["line"] for f in data["findings"] if f["code"] == "missing-value"}, {42})

    def test_a_file_that_cannot_be_read(self):
        self.write("open.csv", 'note,force_N,temp_C,verdict\n"n,1,2,ok\n')
        for words, says in ((["none.csv", "--job", "a.job.yaml"], "does not exist"),
                            (["open.csv", "--job", "a.job.yaml"], "close the quote"),
                            (["a.csv"], "--job JOB.yaml"), (["a.csv", "--job", "none.yaml"], "none.yaml")):
            answer = self.run_here("data", "check", *words)
            self.assertEqual(answer.code, 4, answer)
            self.assertIn(says, answer.err)


class Latin(Folder):
    """Tables as old spreadsheets save them: what is no UTF-8 is shown, and never lost on the way into JSON."""

    def test_a_class_is_shown(self):
        self.write("a.job.yaml", "job: a\ntask: classify\nlabel: verdict\nclasses: [ ok, Maß ]\nfeatures: [ x ]\nmodel: dense classes\n")
        (self.folder / "a.csv").write_bytes(b"x,verdict\n" + b"".join(b"%d,%s\n" % (i, [b"ok", b"Ma\xdf"][i % 2]) for i in range(60)))
        findings, table = self.check("a.csv", "--job", "a.job.yaml")
        self.assertIn(("error", "class-unknown", 'class "Ma\\xdf"'), findings)
        self.assertIn('class "Ma\\xdf"', table.out)

    def test_names_are_refused_or_left_out(self):
        rows = b"".join(b"%d,n%d,%s\n" % (i * i % 17, i, [b"ok", b"Ma\xdf"][i % 2]) for i in range(60))
        (self.folder / "a.csv").write_bytes(b"x,Ma\xdf,verdict\n" + rows)
        refused = self.run_here("data", "contract", "a.csv")
        self.assertEqual(refused.code, 1)
        self.assertIn("save files as UTF-8", refused.err)
        (self.folder / "a.csv").write_bytes(b"x,Ma\xdf,verdict\n" + rows.replace(b"Ma\xdf", b"Ma\xc3\x9f"))
        for words in ([], ["--format", "json"]):
            proposed = self.run_here("data", "contract", "a.csv", *words)
            self.assertEqual(proposed.code, 0, proposed)
            self.assertIn("Ma\\xdf" if not words else "Ma\\\\xdf", proposed.out)


if __name__ == "__main__":
    main()
