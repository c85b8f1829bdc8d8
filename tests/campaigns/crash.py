"""kill -9: at every named point, and at random instants. What was told to a client is there after the restart, and no peer
ever sees two payloads under one exactly-once key."""
import collections
import concurrent.futures
import contextlib
import datetime
import os
import random
import re
import shutil
import socket
import statistics
import struct
import subprocess
import threading
import time
import unittest

from agents import Swarm, wait_for, write_points
from campaigns.force import Outcome, control
from test_crash import CRIMES, Ledger
from test_hostile import HELLO, MANIFEST, STATE, Liar

KILLS_A_SWARM = 250
WORKS = {"training", "publishing", "gathering", "merging", "committing", "idle", "jumping", "alone", "finished"}


# ---- a peer that writes down what it sees ----

class Listener(Liar):
    """A finished follower: it is told of every publication, and nobody waits for it."""

    def __init__(self, recorder, *arguments):
        self.recorder = recorder
        super().__init__(*arguments)
        self.hello()
        words = struct.pack("<BBHQIQIQQ", 3, 12, 1, 0, 0, 0, 0, self.epoch, 0)
        self.send(STATE, self.job + words + bytes(32) + struct.pack("<III", 0, 0, 0))
        self.send(27, bytes([25]))

    def listen(self):
        while len(head := self.process.stdout.read(5)) == 5:
            kind, n = struct.unpack("<BI", head)
            body = self.process.stdout.read(n)
            if kind == HELLO:
                self.hello_heard = body
            elif kind == MANIFEST:
                self.recorder.take(body)


class Recorder:
    """Follows some agents through all their restarts, and keeps the payload root under every (origin, epoch, round, sub)."""

    def __init__(self, site, followed):
        self.site, self.followed = site, followed
        self.roots, self.sequences, self.equivocations = {}, {}, []
        self.n_manifests, self.is_ended = 0, False
        self.threads = [threading.Thread(target=self.follow, args=(other,), daemon=True) for other in followed]
        for thread in self.threads:
            thread.start()

    def take(self, m):
        if m[1] not in (1, 2):  # a difference, or a full copy: the first is what a round published, the other a state
            return
        origin, (epoch, sequence, number, sub), root = m[116:148], struct.unpack("<QQQH", m[148:174]), m[224:256]
        self.n_manifests += 1
        for known, key, value in ((self.roots, (origin, epoch, number, sub, m[1]), root),
                                  (self.sequences, (origin, epoch, sequence, m[1]), root)):
            if known.setdefault(key, value) != value:
                self.equivocations.append(f"two payloads of round {number}+{sub}, epoch {epoch:x}, sequence {sequence}")

    def follow(self, other):
        epoch = 1
        while not self.is_ended:
            try:
                epoch += 1
                socket.create_connection(("127.0.0.1", other.port), 1).close()  # it would wait long for one that is down
                with Listener(self, self.site, other, epoch) as listener:
                    while not self.is_ended and listener.process.poll() is None:
                        time.sleep(0.01)
            except (AssertionError, OSError):
                time.sleep(0.01)

    def stop(self):
        self.is_ended = True
        for thread in self.threads:
            thread.join(15)


# ---- swarms that die ----

def dying_swarm(names="ab", **more):
    """Agents that start and learn in a moment, and r, whose place the recorder takes."""
    return Swarm([*names, "r"], [("a", "b")] * ("b" in names) + [(name, "r") for name in names], rows=60, test_rows=60,
                 peers={name: {"r": {"address": None}} for name in names},
                 **{"job": {"model": "dense classes"},
                    "site": {"round": {"deadline_min_s": 0.1, "deadline_max_s": 0.1, "meet_s": 1, "every_s": 0.02}}, **more})


def resumed(site, offset):
    """(round, sub) of the newest start that the log tells of after this place."""
    with open(site.log_file, "rb") as log:
        log.seek(offset)
        found = re.findall(rb" info resumed job=\S+ version=\d+ round=(\d+) sub=(\d+)", log.read())
    return tuple(map(int, found[-1])) if found else None


def wait_trains(site, timeout=20):
    """Until it works on a round; seconds since it was started."""
    def works():
        with contextlib.suppress(OSError, KeyError, ValueError):
            return site.job()["phase"] in WORKS
        if not site.is_running:
            raise AssertionError(f"{site.name} ended with {site.process.returncode}: {site.log[-600:]}")
        return False
    wait_for(works, timeout, f"{site.name} works on a round", every=0.002)
    return time.monotonic() - site.started_s


def start(site):
    site.log_from = site.log_file.stat().st_size if site.log_file.exists() else 0
    site.started_s, site.started_at = time.monotonic(), datetime.datetime.now(datetime.timezone.utc)
    site.start()


def seconds_to_work(site):
    """From its newest start to the line of its log after which it goes on where it was, which may be long ago."""
    with open(site.log_file, "rb") as log:
        log.seek(site.log_from)
        loaded = re.search(rb"^(\S+)Z info data-loaded", log.read(), re.M)[1].decode()
    return (datetime.datetime.fromisoformat(loaded + "+00:00") - site.started_at).total_seconds()


class Told:
    """What a site has told its clients: by its status and, as they stand in its log, its commits."""

    def __init__(self):
        self.newest = {}

    def ask(self, site):
        with contextlib.suppress(OSError, KeyError, ValueError):
            job = site.job()
            self.raise_to(site, (job["round"], job.get("sub", 0)))

    def read_log(self, site):
        with open(site.log_file, "rb") as log:
            log.seek(site.log_from)
            for number, sub in re.findall(rb" info round-committed .*? round=(\d+)(?:\+(\d+))?", log.read()):
                self.raise_to(site, (int(number), int(sub or 0)))

    def raise_to(self, site, label):
        self.newest[site.name] = max(self.newest.get(site.name, (0, 0)), label)


def kill(site, told):
    """SIGKILL; then what its start had resumed with must be what was told before that start."""
    told_before = told.newest.get(site.name, (0, 0))
    told.ask(site)
    site.kill()
    label = resumed(site, site.log_from)
    told.read_log(site)
    if label is not None and label < told_before:
        return [f"{site.name} had told {told_before} and started again from {label}"]
    return []


def put_back(site):
    """The disk is as it was in the beginning: nothing since then has become durable."""
    shutil.rmtree(site.state)
    shutil.copytree(site.saved, site.state)


def keep(site):
    wait_trains(site)
    site.kill()
    site.saved = site.folder / "saved"
    shutil.copytree(site.state, site.saved, ignore=shutil.ignore_patterns("control.sock"))
    start(site)


def episode(seed, n_kills, forgets=False):
    """So many kills of one swarm; (failures, seconds from each start to work, manifests seen). forgets: the control, disks that
    make nothing durable."""
    rng, told, failures, seconds = random.Random(f"force {seed}"), Told(), [], []
    with dying_swarm() as swarm:
        sites = [swarm["a"], swarm["b"]]
        for site in sites:
            start(site)
        for site in sites if forgets else ():
            keep(site)
        recorder = Recorder(swarm["r"], sites)
        ledger = Ledger(unittest.TestCase())
        for i in range(n_kills):
            site = rng.choice(sites)
            if rng.random() < 0.25:  # while it starts
                site.kill()
                start(site)
                time.sleep(rng.uniform(0, 0.08))
            else:
                wait_trains(site)
                if (resumed(site, site.log_from) or (0, 0)) > (0, 0):  # at first it meets its peers
                    seconds.append(seconds_to_work(site))
                time.sleep(rng.expovariate(1 / 0.1))
            failures += kill(site, told)
            if forgets:
                put_back(site)
            elif i % 50 == 49:
                ledger.look(site)
            start(site)
        for site in sites:
            wait_trains(site)
            if not forgets and (crimes := CRIMES & {word for peer in site.peers().values() for word in peer["refused"]}):
                failures.append(f"{site.name} counts {crimes} against a peer that only crashed")
        recorder.stop()
        swarm.stop()
        for site in sites:
            if "snapshot-damaged" in site.log:
                failures.append(f"{site.name} found a snapshot damaged")
            if not forgets:
                ledger.look(site)
        if not forgets:
            by_key = [(row[1], row[2]) for row in ledger.publications["a"].values()]
            if len(set(by_key)) != len(by_key):
                failures.append("a published a round twice")
        failures += recorder.equivocations
    return failures, seconds, recorder.n_manifests


def at_random(sizes):
    n_kills = sizes.of(200, 10000)
    n_swarms = max(2, n_kills // KILLS_A_SWARM)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda seed: episode(seed, n_kills // n_swarms), range(n_swarms)))
    failures = [failure for f, _, _ in done for failure in f]
    seconds = sorted(s for _, times, _ in done for s in times)
    failures += control(episode("control", 12, forgets=True)[0], "what was committed was gone after a kill")
    failures += control(twice_from_the_start(sizes), "a lost store began again in the epoch that it had")
    if not sum(n for _, _, n in done):
        failures.append("the recorder saw no manifest")
    return Outcome(n_kills, failures, max(seconds, default=None),
                   f"start to work, the worst; median {statistics.median(seconds):.3f} s, "
                   f"{sum(n for _, _, n in done)} manifests seen" if seconds else "")


def twice_from_the_start(sizes):
    """The same epoch again, by random numbers that repeat, with other data: what the recorder then must see."""
    with dying_swarm("a") as swarm:
        a = swarm["a"]
        a.environment = sizes.shim(repeats=1)
        recorder = Recorder(swarm["r"], [a])
        for seed in (1, 2):
            write_points(a.folder / "train.csv", 60, seed)
            n_seen = recorder.n_manifests
            start(a)
            wait_for(lambda: recorder.n_manifests > n_seen, 20, "a publication is seen")
            a.kill()
            subprocess.run(["rm", "-r", a.state], check=True)
        recorder.stop()
    return recorder.equivocations


# ---- at every point ----

def points(sizes):
    """Every named point of the store, the mailboxes and what is said to peers: its passings from a start to some rounds later."""
    program = sizes.program("starling_points")
    failures, seconds, runs = [], [], 0
    with dying_swarm() as swarm:
        passed = passings(swarm, program)
        recorder = Recorder(swarm["r"], [swarm["a"], swarm["b"]])
        start(swarm["b"])
        told = Told()
        for name, n in sorted(passed.items()):
            for at in (range(1, n + 1) if sizes.is_long else sorted({1, 1 + n // 2, n})):
                runs += 1
                if runs % 4 == 1 and runs > 1:  # from nothing: a new database
                    subprocess.run(["rm", "-r", swarm["a"].state], check=True)
                    told.newest.pop("a", None)
                failures += [f"{name} {at}: {f}" for f in killed_at(swarm["a"], program, f"{name} {at}", told, seconds)]
        recorder.stop()
        failures += recorder.equivocations
    failures += control(episode("control", 12, forgets=True)[0], "what was committed was gone after a kill")
    return Outcome(runs, failures, max(seconds, default=None),
                   f"{len(passed)} points; start to work, the worst; median {statistics.median(seconds):.3f} s" if seconds else "")


def passings(swarm, program):
    """How often each point is passed from a start, until two rounds later."""
    a, log = swarm["a"], swarm.folder / "points"
    swarm["b"].start()
    a.environment, usual, a.program = {**os.environ, "FAULT_POINT_LOG": str(log)}, a.program, program
    a.start()
    a.wait_round(3, 30)
    a.program = usual
    for name in "ab":
        swarm[name].kill()
        subprocess.run(["rm", "-r", swarm[name].state], check=True)
    return collections.Counter(line for line in log.read_text().splitlines())


def killed_at(a, program, point, told, seconds):
    """As a program that ends at the point, which must come, then a start as usual."""
    a.environment, usual, a.program = {**os.environ, "FAULT_POINT": point}, a.program, program
    start(a)
    a.program = usual
    try:
        a.wait_ended(20)
    except AssertionError:
        return ["the point was not passed", *kill(a, told)]
    told.read_log(a)
    a.environment = None
    start(a)
    took = wait_trains(a)
    if (resumed(a, a.log_from) or (0, 0)) > (0, 0):
        seconds.append(took)
    a.wait_round(a.job()["round"] + 1, 30)
    return kill(a, told)


# ---- the same model in the end ----

def same_model(sizes):
    """Runs that are killed again and again end with the very model of a run that was left alone (RULES 20: every gather is complete)."""
    n_runs, n_rounds, failures, n_kills = sizes.of(6, 100), 20, [], 0
    rng = random.Random("same model")
    for seed in range(n_runs):
        if seed % 25 == 0:
            left_alone = final_models(seed // 25, n_rounds, rng, 0, failures)[0]
        models, kills = final_models(seed // 25, n_rounds, rng, 3, failures)
        n_kills += kills
        if models != left_alone:
            failures.append(f"run {seed}: {models}, left alone {left_alone}")
    failures += control(final_models(0, n_rounds - 1, rng, 0, [])[0] != left_alone, "a run of one round less ended")
    return Outcome(n_runs, failures, n_kills / n_runs, "kills in each run of 20 rounds")


def final_models(seed, n_rounds, rng, n_kills, failures):
    """({site: hash of its last model}, kills)."""
    done = 0
    with Swarm("ab", [("a", "b")], rows=400, test_rows=60,
               job={"model": "dense 8, relu, dense classes", "count": n_rounds,
                    "train": {"epochs": 100, "batch": 16, "learning_rate": 0.05, "momentum": 0.9}},
               site={"round": {"deadline_min_s": 60, "deadline_max_s": 60, "meet_s": 20}}) as swarm:
        for i, name in enumerate("ab"):
            write_points(swarm[name].folder / "train.csv", 400, f"{seed} {i}")
            start(swarm[name])
        for _ in range(n_kills):
            site = swarm[rng.choice("ab")]
            wait_trains(site)
            time.sleep(rng.uniform(0, 0.15))
            if site.job()["phase"] == "finished":
                break
            done += 1
            site.kill()
            start(site)
        swarm.wait_finished(60)
        models = {site.name: site.models().get(str(n_rounds)) for site in swarm}
        if None in models.values():
            failures.append(f"no model of round {n_rounds}: {models}")
    return models, done
