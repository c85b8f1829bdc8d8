#!/usr/bin/python3
"""The command line: every verb in its three formats, and the documented exit codes."""
import json
import os
import pathlib
import pty
import re
import resource
import signal
import subprocess
import tempfile
import termios
import time
import unittest

import schemas
from agents import CLASSES, Swarm, die_with_parent, main, options, ring, starling, wait_for

# Verbs that a running agent or its database answers, and what their data have.
SHOWN = {
    ("status",): {"name", "word", "why", "job", "peers", "strangers", "boot_epoch"},
    ("health",): {"healthy", "word", "why"},
    ("peer", "list"): {"peers", "strangers", "strangers_refused"},
    ("rounds", "list"): {"rounds"},
    ("rounds", "show", "3"): {"label", "outcome", "model", "peers"},
    ("rounds", "wait", "3"): {"for", "round"},
    ("wait", "--for", "round=3"): {"for", "round"},
    ("eval", "--set", "global"): {"metric", "headline", "accuracy", "loss", "classes"},
    ("eval", "--set", "validation"): {"accuracy", "loss", "classes"},
    ("key", "show"): {"key", "short", "key_file"},
    ("config", "check"): {"parameters", "memory_bytes", "disk_bytes", "round_bytes"},
    ("config", "show"): {"values"},
    ("config", "keys"): {"keys"},
    ("version",): {"version"},
}


class Cli(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.swarm = Swarm("abc", ring("abc"), job={"count": 4})
        cls.enterClassContext(cls.swarm)
        cls.swarm.start()
        cls.swarm.wait_finished(60)
        cls.a = cls.swarm["a"]

    def check_formats(self, words, keys):
        envelope = self.a.cli(*words, "--format", "json")
        self.assertEqual(envelope.code, 0, envelope)
        self.assertEqual({"schema", "ok", "data", "warnings"}, set(envelope.json))
        self.assertEqual((envelope.json["schema"], envelope.json["ok"]), (1, True))
        self.assertTrue(keys <= set(envelope.data), f"{keys - set(envelope.data)} missing in {envelope}")
        table, tsv = self.a.cli(*words), self.a.cli(*words, "--format", "tsv")
        self.assertEqual((table.code, tsv.code), (0, 0), f"{table}{tsv}")
        self.assertTrue(table.out.strip() and tsv.out.strip())
        self.assertEqual(envelope.err + table.err + tsv.err, "")
        widths = {line.count("\t") for line in tsv.out.splitlines()}
        self.assertEqual(len(widths), 1, tsv)

    def test_every_verb_in_every_format(self):
        for words, keys in SHOWN.items():
            with self.subTest(" ".join(words)):
                self.check_formats(words, keys)

    def test_tables_are_for_people(self):
        self.assertIn("FINISHED", self.a.cli("status").out)
        rounds = self.a.cli("rounds", "list").out.splitlines()
        self.assertEqual(len(rounds), 5)
        self.assertIn("OUTCOME", rounds[0])
        self.assertTrue(all("merged" in line for line in rounds[1:]))
        shown = self.a.cli("rounds", "show", "2").out
        self.assertIn("REASON", shown)
        self.assertIn(self.swarm["b"].key, shown)
        evaluated = self.a.cli("eval", "--set", "global").out
        for name in CLASSES + ["accuracy", "BALANCED", "figures over 3 of 3 classes present"]:
            self.assertIn(name, evaluated)
        self.assertEqual(self.a.status()["job"]["metric"], "accuracy")
        self.assertEqual({row["metric"] for row in self.a.ask("rounds", "list")["rounds"]}, {"accuracy"})

    def test_eval_is_what_the_agent_measured(self):
        self.assertAlmostEqual(self.a.ask("eval", "--set", "global")["accuracy"], self.a.committed()[-1]["global"])
        self.assertAlmostEqual(self.a.ask("eval")["accuracy"], self.a.committed()[-1]["local"])

    def test_rounds_wait(self):
        late = self.a.cli("rounds", "wait", 4, "--timeout", 0)
        self.assertEqual((late.code, late.out.strip()), (0, "4"))
        beyond = self.a.cli("rounds", "wait", 5, "--timeout", 5)
        self.assertEqual(beyond.code, 1, beyond)  # the job ended before
        with Swarm("d", []) as swarm:
            d = swarm.start()["d"]
            d.wait_round(1, 20)
            begin = time.monotonic()
            answer = d.cli("rounds", "wait", 10**9, "--timeout", 0.5, "--format", "json")
            self.assertEqual(answer.code, 3, answer)
            self.assertEqual(answer.json["error"]["code"], "timed-out")
            self.assertLess(time.monotonic() - begin, 5)

    def test_exit_codes_of_use(self):
        for words in (["stats"], ["status", "--fromat", "json"], ["status", "--format", "xml"], ["rounds"],
                      ["rounds", "show"], ["rounds", "show", "x"], ["rounds", "list", "--last", "0"], ["peer", "add"],
                      ["rounds", "wait", "1", "--timeout", "5s"], ["status", "now"], ["eval", "--set", "all"]):
            with self.subTest(" ".join(words)):
                answer = self.a.cli(*words)
                self.assertEqual(answer.code, 4, answer)
                self.assertEqual(answer.out, "")
                self.assertEqual(len(answer.err.strip().splitlines()), 1)
        near = self.a.cli("stats")
        self.assertIn("starling status", near.err)
        self.assertEqual(self.a.cli("rounds", "show", 99).code, 1)

    def test_an_error_in_json(self):
        answer = self.a.cli("rounds", "show", 99, "--format", "json")
        self.assertEqual({"schema", "ok", "error", "warnings"}, set(answer.json))
        self.assertIs(answer.json["ok"], False)
        self.assertTrue({"code", "message"} <= set(answer.json["error"]))

    def test_without_an_agent(self):
        with Swarm("d", [], job={"count": 2}, site={"when_done": "exit"}) as swarm:
            d = swarm["d"]
            for words in (["status"], ["peer", "list"], ["health"], ["rounds", "list"], ["rounds", "show", "1"],
                          ["rounds", "wait", "1"]):
                self.assertEqual(d.cli(*words).code, 2, words)
            d.start()
            self.assertEqual(d.wait_ended(20), 0)
            self.assertEqual(d.cli("status").code, 2)
            self.assertIn("starling run", json.loads(d.cli("status", "--format", "json").out)["error"]["hint"])
            self.assertEqual([row["label"] for row in d.rounds()], ["1", "2"])  # the database answers
            self.assertEqual(d.round(2)["outcome"], "merged")
            self.assertEqual(d.cli("rounds", "wait", 2).code, 0)
            self.assertEqual(d.cli("rounds", "wait", 3, "--timeout", 1).code, 2)
            self.assertEqual(d.cli("rounds", "show", 3).code, 1)
            self.assertEqual(d.cli("eval").code, 0)

    def test_the_same_rows_with_and_without_the_agent(self):
        with Swarm("d", [], job={"count": 2}) as swarm:
            d = swarm.start()["d"]
            d.wait_finished(20)
            with_agent = d.rounds(), d.round(2)
            d.stop()
            self.assertEqual((d.rounds(), d.round(2)), with_agent)

    def test_watch(self):
        """It shows the status again and again until the agent is gone."""
        with Swarm("d", []) as swarm:
            d = swarm.start()["d"]
            d.wait_answers()
            with subprocess.Popen([options.starling, "status", "--watch", "0.1", "--format", "tsv", "-C", d.file],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
                lines = [watch.stdout.readline() for _ in range(3)]
                d.stop()
                self.assertEqual(watch.wait(10), 2)
            self.assertTrue(all(line.startswith("d\t") for line in lines))

    def test_health(self):
        self.assertEqual(self.a.cli("health").code, 0)
        self.assertTrue(self.a.ask("health")["healthy"])


class FirstSteps(unittest.TestCase):
    def test_init_check_run(self):
        """What a person does: init, edit, check, run."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name) / "site"
            made = starling("init", folder, "--name", "mec-07", "--swarm", "k3vz-7qd2", "--format", "json").data
            self.assertEqual(made["swarm"], "k3vz-7qd2")
            site = folder / "site.yaml"
            self.check_init_again(folder, made)
            check = starling("config", "check", "-C", site)
            self.assertEqual(check.code, 4, check)  # the example's data are not there
            self.assertIn("/data/parts.csv", check.err)
            rows = "\n".join(f"{i}.5,{20 + i % 3},{100 - i},{['ok', 'scratch', 'dent'][i % 3]}" for i in range(60))
            (folder / "parts.csv").write_text("force_N,temp_C,speed_mm_s,verdict\n" + rows + "\n")
            text = site.read_text().replace("/data/parts.csv", "parts.csv").replace("tcp://[::]:7411", f"ipc://{folder}/sock")
            site.write_text(text)
            job = folder / "example.job.yaml"
            job.write_text(job.read_text().replace("count: 50", "count: 2"))
            check = starling("config", "check", "-C", site)
            self.assertEqual(check.code, 0, check)
            run = starling("run", "-C", site, cwd=folder)
            self.assertEqual(run.code, 0, run)
            self.assertEqual(starling("key", "show", "-C", site).out.strip(), made["key"])

    def check_init_again(self, folder, made):
        """The same again changes nothing; anything else is refused by the name of the file."""
        before = {file: file.read_bytes() for file in folder.iterdir()}
        for flags in ([], ["--name", "mec-07"], ["--swarm", "k3vz-7qd2"], ["--check"]):
            again = starling("init", folder, *flags, "--format", "json").data
            self.assertEqual(again, {**made, "changed": False, "check": flags == ["--check"]})
        for flags in (["--name", "mec-08"], ["--swarm", "other"], ["--passphrase-file", folder / "site.yaml"]):
            other = starling("init", folder, *flags)
            self.assertEqual(other.code, 1, other)
            self.assertIn("site.yaml", other.err)
        self.assertEqual({file: file.read_bytes() for file in folder.iterdir()}, before)

    def test_check_changes_nothing(self):
        """--check: what would happen, exit 0, and no file is touched."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            site = folder / "site"
            would = starling("init", site, "--check", "--format", "json").data
            self.assertEqual((would["changed"], would["check"], would["key"], would["swarm"]), (True, True, None, None))
            self.assertIn("would make", starling("init", site, "--check").out)
            self.assertFalse(site.exists())
            key = folder / "a.key"
            would = starling("key", "new", key, "--check", "--format", "json").data
            self.assertEqual((would["changed"], would["check"], would["key"]), (True, True, None))
            self.assertFalse(key.exists())
            public = starling("key", "new", key, "--format", "json").data["key"]
            starling("init", site)
            would = starling("peer", "add", "b", public, "--check", "-C", site / "site.yaml", "--format", "json").data
            self.assertEqual((would["changed"], would["check"]), (True, True))
            self.assertEqual(would["file"], str(site / "conf.d/b.yaml"))
            self.assertFalse((site / "conf.d").exists())
            self.assertTrue(starling("peer", "add", "b", public, "-C", site / "site.yaml", "--format", "json").data["changed"])
            would = starling("peer", "add", "b", public, "--check", "-C", site / "site.yaml", "--format", "json").data
            self.assertEqual((would["changed"], would["check"]), (False, True))
            self.assertEqual(starling("status", "--check").code, 4)  # it changes nothing anyway

    def test_every_verb_has_a_schema(self):
        """Verbs with data have one; those that change something take --check and say `changed`."""
        for schema in schemas.SCHEMAS.values():
            schemas.Draft202012Validator.check_schema(schema)
        shown, verbs = starling("help", "all").out.splitlines(), {}
        for line in shown[:shown.index("")] + shown[shown.index("") + 1:]:
            if line.startswith("    ") and verbs:
                verbs[verb].append(line.split()[0])
            elif line.startswith("  ") and line.strip():
                verb = re.split(r" (?:\[|[A-Z]|$| )", line.strip())[0]
                verbs[verb] = []
        self.assertIn("peer add", verbs)
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for verb, flags in verbs.items():
            with self.subTest(verb):
                said = starling(*verb.split(), "--format", "json", "-C", "none.yaml", cwd=folder).out
                name = verb.replace(" ", "-") + ".json"
                self.assertEqual(name in schemas.VERBS, "no other --format" not in said, verb)
                self.assertEqual(name in schemas.CHANGING, "--check" in flags, verb)
        self.assertEqual(len(schemas.VERBS), sum(verb.replace(" ", "-") + ".json" in schemas.VERBS for verb in verbs))

    def test_peer_add(self):
        with Swarm("ab", [], job={"count": 3}, site={"round": {"min_peers": 1}}) as swarm:
            a, b = swarm["a"], swarm["b"]
            self.assertTrue(a.ask("peer", "add", "b", b.key, b.address)["changed"])
            self.assertFalse(a.ask("peer", "add", "b", b.key, b.address)["changed"])
            self.assertTrue(b.ask("peer", "add", "a", a.key)["changed"])
            for words in (["c", b.key, b.address], ["b", b.key, "tcp://127.0.0.1:1"], ["b", b.key]):
                other = a.cli("peer", "add", *words)
                self.assertEqual(other.code, 1, other)
                self.assertIn("conf.d/b.yaml", other.err)
            self.assertEqual(a.cli("peer", "add", "me", a.key).code, 4)
            mistyped = a.cli("peer", "add", "d", ("A" if b.key[0] != "A" else "B") + b.key[1:])
            self.assertEqual(mistyped.code, 4)
            self.assertIn("mistyped", mistyped.err)
            swarm.start()
            swarm.wait_finished(30)
            self.assertEqual(a.committed()[-1]["merged"], 1)

    def test_keys_are_never_overwritten(self):
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name) / "agent.key"
            key = starling("key", "new", file).out.strip()
            self.assertEqual(file.stat().st_mode & 0o777, 0o600)
            again = starling("key", "new", file, "--format", "json").data
            self.assertEqual((again["key"], again["changed"]), (key, False))
            phrase = pathlib.Path(name) / "phrase"
            phrase.write_text("correct horse\n")
            other = starling("key", "new", file, "--passphrase-file", phrase)
            self.assertEqual(other.code, 1, other)
            self.assertIn("agent.key", other.err)
            self.assertEqual(starling("key", "show", file).out.strip(), key)
            file.chmod(0o644)
            self.assertEqual(starling("key", "show", file).code, 4)

    def test_a_passphrase_from_a_file(self):
        with tempfile.TemporaryDirectory() as name:
            file, phrase = pathlib.Path(name) / "agent.key", pathlib.Path(name) / "phrase"
            phrase.write_text("correct horse\n")
            key = starling("key", "new", file, "--passphrase-file", phrase).out.strip()
            self.assertEqual(starling("key", "show", file, "--passphrase-file", phrase).out.strip(), key)
            self.assertEqual(starling("key", "new", file, "--passphrase-file", phrase).out.strip(), key)
            self.assertEqual(starling("key", "new", file).code, 1)
            phrase.write_text("wrong horse\n")
            self.assertEqual(starling("key", "show", file, "--passphrase-file", phrase).code, 4)
            self.assertEqual(starling("key", "show", file).code, 4)

    def test_a_prompt_can_be_left(self):
        """A signal ends the program at its prompt, and the terminal shows again what is typed."""
        with tempfile.TemporaryDirectory() as name:
            folder, phrase = pathlib.Path(name) / "site", pathlib.Path(name) / "phrase"
            phrase.write_text("correct horse\n")
            starling("init", folder, "--passphrase-file", phrase)
            phrase.unlink()
            site = folder / "site.yaml"
            site.write_text("".join(line for line in site.read_text().splitlines(True) if "passphrase" not in line))
            for words, leave in ((["run"], lambda pid, fd: os.kill(pid, signal.SIGTERM)),
                                 (["run"], lambda pid, fd: os.write(fd, b"\x03")),
                                 (["key", "show"], lambda pid, fd: os.write(fd, b"\x03"))):
                with self.subTest(words):
                    self.check_prompt(["-C", str(site), *words], leave)

    def check_prompt(self, words, leave):
        pid, fd = pty.fork()
        if pid == 0:
            os.execv(options.starling, ["starling", *words])
        try:
            shown = b""
            while b"Passphrase: " not in shown:
                shown += os.read(fd, 1024)
            self.assertFalse(termios.tcgetattr(fd)[3] & termios.ECHO)
            leave(pid, fd)
            wait_for(lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT), 5, "it has ended")
            self.assertTrue(termios.tcgetattr(fd)[3] & termios.ECHO)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(fd)

    def test_a_full_disk_at_the_start(self):
        """It waits for room instead of ending, says so to the probe, and can be stopped at once."""
        def full():
            die_with_parent()
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))

        with Swarm("a", []) as swarm:
            a = swarm["a"]
            a.process = subprocess.Popen([options.starling, "run", "-C", a.file], stdin=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL, preexec_fn=full, restore_signals=False)
            wait_for(lambda: a.cli("health").code == 1, 10, "it is unhealthy")
            self.assertIn("no space left on the device", a.cli("health").out)
            self.assertEqual(a.cli("status").code, 1)
            a.signal(signal.SIGHUP)
            self.assertEqual(a.cli("health").code, 1)
            self.assertEqual(a.stop(timeout=1), 0)

    def test_a_running_agent_with_hold_stays_up(self):
        """Under an orchestrator a refused state stays up, unhealthy, with the sentence in `health`."""
        with Swarm("a", []) as swarm:
            a = swarm["a"]
            (a.folder / "train.csv").write_text("nothing\n")
            a.start("--hold")
            wait_for(lambda: a.cli("health").code == 1, 10, "it is unhealthy")
            self.assertIn("train.csv", a.cli("health").out + a.cli("health").err)
            self.assertEqual(a.stop(), 4)


if __name__ == "__main__":
    main()
