"""Swarms of real agents on loopback, for tests and figures.

    with Swarm("abc", ring("abc"), job={"count": 5}) as swarm:
        swarm.start()
        swarm.wait_finished(timeout=30)
        swarm["a"].rounds()

A swarm is a folder with one site a letter: key, site file, data, state. Sites are asked as people ask them, by the
command line with `--format json`, and each answer is held against its JSON Schema. Nothing sleeps for luck: `wait_for` polls a condition until it holds or its time is
over. Whatever happens, leaving the `with` ends every agent, and after a failure prints the end of every log.

Configurations are dictionaries written as JSON, which is YAML. Data are points of three overlapping classes in four
dimensions, made from a seed.
"""
import argparse
import copy
import ctypes
import datetime
import json
import pathlib
import random
import re
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
import schemas  # pylint: disable=wrong-import-position

CLASSES = ["ok", "scratch", "dent"]
FEATURES = ["force_N", "temp_C", "speed_mm_s", "pitch_mm"]
CENTRES = {"ok": (0, 0, 0, 0), "scratch": (2, 1, 0, -1), "dent": (0, 2, -2, 1)}

JOB = {
    "job": "points", "task": "classify", "label": "verdict", "classes": CLASSES, "features": FEATURES,
    "model": "dense 16, relu, dense classes",
    "train": {"epochs": 1, "batch": 16, "learning_rate": 0.05, "momentum": 0},
}

# Peers on one host meet at once or not at all; a finished agent goes on answering until the test has seen it.
SITE_JOB = {"job": "../points.job.yaml", "data": {"train": "train.csv", "global_test": "../test.csv"},
            "round": {"meet_s": 20, "deadline_min_s": 20}, "when_done": "serve"}

# What the log of no agent may have.
BROKEN = re.compile(r"Sanitizer|runtime error:|starling: bug at|Assertion failed")


# ---- data and configurations ----

def write_points(path, n, seed, classes=CLASSES):
    """A CSV file of n points of the classes in turn."""
    rng = random.Random(f"points {seed}")
    rows = [",".join(FEATURES + ["verdict"])]
    for i in range(n):
        name = classes[i % len(classes)]
        rows.append(",".join(f"{rng.gauss(at, 1):.4f}" for at in CENTRES[name]) + f",{name}")
    path.write_text("\n".join(rows) + "\n")


def merged(base, changes):
    """A copy of nested dictionaries with some values changed; None removes a key."""
    result = copy.deepcopy(base)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key, {}), value) if isinstance(value, dict) else value
    return result


def ring(names, *chords):
    """The edges of a ring, and chords as pairs of names."""
    return [(names[i - 1], names[i]) for i in range(len(names) if len(names) > 2 else 1)] + list(chords)


def reserve_port():
    """A port of the kernel's choice and the socket that keeps it from every other use: an agent can listen on it (both
    set SO_REUSEADDR), but no outgoing connection gets it while its agent is down."""
    keeper = socket.socket()
    keeper.bind(("127.0.0.1", 0))
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return keeper.getsockname()[1], keeper


# ---- waiting ----

def wait_for(condition, timeout, what, every=0.02):
    """Polls until the condition gives something true, and returns it; an AssertionError when the time is over."""
    end = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"after {timeout} s still not: {what}")
        time.sleep(every)


def utc_now():
    return datetime.datetime.now(datetime.timezone.utc)


def seconds_to(site, event, since, timeout=10):
    """From `since` to the first line of its log that matches: when it happened, whoever looks later."""
    def logged():
        for stamp, line in re.findall(r"^(\S+)Z (.*)$", site.log, re.M):
            at = datetime.datetime.fromisoformat(stamp + "+00:00")
            if at >= since and re.search(event, line):
                return [(at - since).total_seconds()]
        return None
    return wait_for(logged, timeout, f"{site.name} logs {event}", every=0.02)[0]


def round_rate(site, seconds):
    """Rounds a second, from the end of one to the end of another."""
    def at_end():
        now = site.job()["round"]
        wait_for(lambda: site.job()["round"] > now, 30, "a round ends", every=0.005)
        return time.monotonic(), site.job()["round"]
    begin, first = at_end()
    time.sleep(seconds)
    end, last = at_end()
    return (last - first) / (end - begin)


# ---- one site ----

class Answer:
    """What a command said and its exit code."""

    def __init__(self, command, done):
        self.command = " ".join(map(str, command))
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def data(self):
        """The data of a JSON answer that must have come."""
        if self.code != 0:
            raise AssertionError(f"{self.command}: exit {self.code}: {self.out}{self.err}")
        return self.json["data"]

    def __repr__(self):
        return f"{self.command}: exit {self.code}\n{self.out}{self.err}"


def starling(*arguments, cwd=None, timeout=30, limit_bytes=None):
    """Runs the program to its end, in a bounded address space if asked."""
    command = [options.starling, *map(str, arguments)]

    def bound():
        resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace", timeout=timeout, preexec_fn=bound if limit_bytes else None)
    schemas.check(arguments, done.stdout)
    return Answer(["starling", *arguments], done)


def die_with_parent():
    """Called in the child: no agent outlives a test that is killed."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Site:
    """One agent's folder and, while it runs, its process."""

    def __init__(self, folder, name, port):
        self.folder, self.name, self.port = folder, name, port
        self.file = folder / "site.yaml"
        self.state = folder / "state"
        self.log_file = folder / "log"
        self.process = None
        self.host, self.prefix, self.environment = "127.0.0.1", [], None  # where and how it is started
        self.program = options.starling
        folder.mkdir()
        self.key = starling("key", "new", folder / "agent.key", "--format", "json").data["key"]

    @property
    def address(self):
        return f"tcp://{self.host}:{self.port}"

    # -- its process --

    def start(self, *flags):
        assert not self.is_running, f"{self.name} runs already"
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen([*self.prefix, self.program, "run", *flags, "-C", self.file], stdout=log,
                                            stdin=subprocess.DEVNULL, stderr=log, preexec_fn=die_with_parent,
                                            env=self.environment)
        return self

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """SIGKILL."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, timeout=10):
        """SIGTERM; its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_ended(timeout)

    def wait_ended(self, timeout):
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end in {timeout} s") from None

    # -- what it says --

    def cli(self, *arguments, **more):
        return starling(*arguments, "-C", self.file, **more)

    def ask(self, *arguments):
        return self.cli(*arguments, "--format", "json").data

    def answers(self):
        return self.is_running and self.cli("status", "--format", "json").code == 0

    def status(self):
        return self.ask("status")

    def peers(self):
        return {peer["name"]: peer for peer in self.ask("peer", "list")["peers"]}

    def rounds(self):
        """The last 100: a running agent's answer is bounded."""
        return self.ask("rounds", "list", "--last", 100)["rounds"]

    def committed(self):
        return [row for row in self.rounds() if row["state"] == "committed"]

    def round(self, label):
        """One round with its peers by name."""
        row = self.ask("rounds", "show", label)
        return {**row, "peers": {peer["name"]: peer for peer in row["peers"]}}

    def models(self):
        """The hash of every committed model by label."""
        return {row["label"]: row["model"] for row in self.committed()}

    def ask_fast(self, request):
        """For those who cannot wait for a process to start."""
        return self.ask_socket({"ask": request})["data"]

    def ask_socket(self, request):
        """The whole answer to any request, straight from the control socket."""
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(2)
            control.connect(str(self.state / "control.sock"))
            control.sendall(json.dumps(request).encode() + b"\n")
            line = b""
            while not line.endswith(b"\n"):
                piece = control.recv(65536)
                if not piece:
                    raise ConnectionError("the agent ended")
                line += piece
        return json.loads(line)

    def job(self):
        return self.ask_fast("status")["job"]

    def state_of(self, name):
        """As what it shows the peer."""
        return next(peer["state"] for peer in self.ask_fast("peers")["peers"] if peer["name"] == name)

    @property
    def log(self):
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def query(self, sql, *values):
        """Rows of its database, read beside the agent or after it."""
        database = sqlite3.connect(f"file:{self.state}/state.db?mode=ro", uri=True, timeout=10)
        try:
            return database.execute(sql, values).fetchall()
        finally:
            database.close()

    # -- waiting for it --

    def wait_answers(self, timeout=10):
        wait_for(self.answers, timeout, f"{self.name} answers")

    def wait_round(self, number, timeout):
        """Until the round is committed."""
        answer = self.cli("rounds", "wait", number, "--timeout", timeout, timeout=timeout + 10)
        if answer.code != 0:
            raise AssertionError(f"{self.name}: {answer}")

    def wait_finished(self, timeout):
        def is_finished():
            assert self.is_running, f"{self.name} ended with {self.process.returncode}"
            answer = self.cli("status", "--format", "json")
            return answer.code == 0 and answer.data["word"] == "FINISHED"
        wait_for(is_finished, timeout, f"{self.name} is finished", every=0.1)

    def wait_peer(self, name, states, timeout):
        """Until the peer is in one of the states here; its row."""
        def row():
            peer = self.peers()[name] if self.answers() else {"state": None}
            return peer if peer["state"] in states else None
        return wait_for(row, timeout, f"{self.name} shows {name} as {' or '.join(states)}", every=0.1)


# ---- a swarm ----

class Swarm:
    """Sites by name; edges are pairs of names that know each other.

    job, site: changes to JOB and SITE_JOB for all. sites: {name: changes of its site file}. rows: training points of a
    site. shares: {name: the classes that it sees}. peers: {name: {peer: changes of its entry}}."""

    def __init__(self, names, edges, job=None, site=None, sites=None, rows=200, test_rows=600, shares=None,
                 peers=None):
        self.edges, self.job = list(edges), merged(JOB, job or {})
        self.site_job, self.site_changes = merged(SITE_JOB, site or {}), sites or {}
        self.rows, self.test_rows, self.shares, self.peer_changes = rows, test_rows, shares or {}, peers or {}
        self.names = list(names)

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="starling-swarm-")
        self.folder = pathlib.Path(self.temporary.name)
        self.keepers, self.sites = [], {}
        for name in self.names:
            port, keeper = reserve_port()
            self.keepers.append(keeper)
            self.sites[name] = Site(self.folder / name, name, port)
        write_points(self.folder / "test.csv", self.test_rows, "test")
        self.write_job(self.job)
        for i, name in enumerate(self.names):
            write_points(self.sites[name].folder / "train.csv", self.rows, i, self.shares.get(name, CLASSES))
            self.write_site(name)
        return self

    def __exit__(self, kind, error, trace):
        """After a success every agent is asked to end, so that sanitisers speak, and must not have broken."""
        try:
            if kind is None:
                self.stop()
                broken = [f"{site.name}: {line}" for site in self for line in site.log.splitlines() if BROKEN.search(line)]
                if broken:
                    raise AssertionError("\n".join(broken))
        except AssertionError:
            kind = AssertionError
            raise
        finally:
            if kind is not None and kind is not unittest.SkipTest:
                self.print_logs()
            for site in self:
                if site.is_running:
                    site.kill()
            for keeper in self.keepers:
                keeper.close()
            self.temporary.cleanup()

    def __getitem__(self, name):
        return self.sites[name]

    def __iter__(self):
        return iter(self.sites.values())

    def neighbours(self, name):
        return [b if a == name else a for a, b in self.edges if name in (a, b)]

    def write_job(self, job, name="points.job.yaml"):
        (self.folder / name).write_text(json.dumps(job, indent=1))

    def site_config(self, name):
        peers = [merged({"name": other, "key": self[other].key, "address": self[other].address},
                        self.peer_changes.get(name, {}).get(other, {})) for other in self.neighbours(name)]
        return {"swarm": "test", "name": name, "listen": [self[name].address], "peers": peers, "kernels": "built-in",
                "jobs": [self.site_job]}

    def write_site(self, name, **changes):
        """Writes the site file; `jobs` may be a dictionary of changes to the one job."""
        changes = merged(self.site_changes.get(name, {}), changes)
        config = self.site_config(name)
        if isinstance(changes.get("jobs"), dict):
            config["jobs"] = [merged(config["jobs"][0], changes.pop("jobs"))]
        self[name].file.write_text(json.dumps(merged(config, changes), indent=1))

    def start(self, names=None):
        for name in names or self.names:
            self[name].start()
        return self

    def stop(self):
        """SIGTERM to all that run; their exit codes do not matter here."""
        for site in self:
            if site.is_running:
                site.signal(signal.SIGCONT)
                site.stop()

    def wait_finished(self, timeout, names=None):
        end = time.monotonic() + timeout
        for name in names or self.names:
            self[name].wait_finished(max(0, end - time.monotonic()))

    def run_on(self, n, timeout):
        """Until every agent has committed n rounds more than any has now; the number of that round."""
        for site in self:
            site.wait_answers()
        last = max(site.status()["job"]["round"] for site in self) + n
        for site in self:
            site.wait_round(last, timeout)
        return last

    def remove_states(self):
        for site in self:
            subprocess.run(["rm", "-r", site.state], check=True)

    def print_logs(self, n_lines=15):
        for site in self:
            lines = site.log.splitlines()
            print(f"\n--- log of {site.name}, the last of {len(lines)} lines", *lines[-n_lines:], sep="\n")


# ---- programs of tests ----

options = argparse.Namespace(starling=None, long=False, small=False)


def main():
    """Runs the tests of the calling program and ends with the count that tests/run reads."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--starling", required=True, type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--long", action="store_true", help="the full numbers")
    parser.add_argument("--small", action="store_true", help="three agents, three rounds: for sanitised builds")
    parser.add_argument("names", nargs="*", metavar="TEST", help="unittest names, as in Learn.test_repeated")
    parser.parse_args(namespace=options)
    tests = unittest.defaultTestLoader.loadTestsFromNames(options.names or ["__main__"],
                                                          None if not options.names else sys.modules["__main__"])
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(tests)
    failed = len(result.failures) + len(result.errors)
    print(f"ran {result.testsRun}, failed {failed}, skipped {len(result.skipped)}")
    sys.exit(1 if failed else 0)
