"""Many rounds, and many faults: nothing grows, nothing stands still."""
import datetime
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import time

from agents import Swarm, die_with_parent, ring, wait_for
from campaigns.force import Outcome, control

WATCHDOG_S = 30  # as the service has it
N_WARM = 1500  # rounds until SQLite has the pages that it keeps, 2 MiB of them


def resident_kib(site):
    status = pathlib.Path(f"/proc/{site.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", status)[1])


def descriptors(site):
    return len(os.listdir(f"/proc/{site.process.pid}/fd"))


def slope(points):
    """Of the line nearest to [(x, y)] by the median of all slopes (Theil and Sen), which one page fault does not move."""
    chosen = points[::max(1, len(points) // 60)]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(chosen) for b in chosen[i + 1:] if b[0] > a[0]]
    return statistics.median(slopes) if slopes else 0.0


class Leaky:
    """A process that keeps 1.2 KiB of every round that it is told of."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", "import os, sys\nkept = []\nfor line in sys.stdin:\n"
                                         "    kept.append(os.urandom(1200))\n    print(flush=True)"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=die_with_parent)

    def round(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        self.process.stdout.readline()


def growth_of_leaky():
    """The slope that the same measurement finds for it."""
    leaky, points = Leaky(), []
    for number in range(2000):
        leaky.round()
        if number % 20 == 0 and number >= 500:
            points.append((number, resident_kib(leaky)))
    leaky.process.communicate()
    return slope(points)


def commit_gaps(site):
    """Seconds between a commit and the next one of the same start."""
    longest, last = 0.0, None
    for line in site.log.splitlines():
        if " info resumed " in line:
            last = None
        elif " info round-committed " in line:
            now = datetime.datetime.fromisoformat(line.split()[0].replace("Z", "+00:00")).timestamp()
            longest, last = max(longest, now - last) if last else longest, now
    return longest


def soaking_swarm(names="abcd", **more):
    return Swarm(names, ring(names), rows=60, test_rows=60, job={"model": "dense 32, relu, dense classes"},
                 site={"round": {"deadline_min_s": 0.3, "deadline_max_s": 1, "meet_s": 5, **more}})


def rounds(sizes):
    """Undisturbed: by the rounds that pass."""
    n_rounds, failures = sizes.of(1500, 20000), []
    with soaking_swarm("abc") as swarm:
        swarm.start()
        first = swarm.run_on(N_WARM, 90)
        points, open_before = [], {site.name: descriptors(site) for site in swarm}
        while (now := swarm["a"].job()["round"]) < first + n_rounds:
            points.append((now, [resident_kib(site) for site in swarm]))
            time.sleep(0.1)
        growth = [slope([(x, y[i]) for x, y in points]) for i in range(3)]
        time.sleep(0.5)
        more = {site.name: descriptors(site) - open_before[site.name] for site in swarm}
        failures += [f"{name} has {n} descriptors more" for name, n in more.items() if n > 4]
        gap = max(commit_gaps(site) for site in swarm)
        if gap > WATCHDOG_S:
            failures.append(f"no commit for {gap:.1f} s")
    failures += control(growth_of_leaky() >= 1, "a process took 1.2 KiB a round and kept it")
    return Outcome(n_rounds, failures, max(growth), f"KiB a round of {[round(g, 3) for g in growth]}, longest gap {gap:.2f} s")


def garbage(site):
    try:
        with socket.create_connection(("127.0.0.1", site.port), 1) as connection:
            connection.sendall(os.urandom(200))
    except OSError:
        pass


def faults(sizes):
    """Agents stop, die and come back, strangers knock; d is left alone and must not grow."""
    rng, failures, n_faults = random.Random("soak"), [], 0
    with soaking_swarm() as swarm:
        swarm.start()
        swarm.run_on(N_WARM, 90)
        longest_s, d, points, end = 0.0, swarm["d"], [], time.monotonic() + sizes.of(25, 1800)
        open_before = descriptors(d)
        while time.monotonic() < end:
            site = swarm[rng.choice("abc")]
            n_faults += 1
            kind = rng.choice(("stop", "kill", "garbage"))
            if kind == "stop":
                site.signal(signal.SIGSTOP)
                stopped_s = rng.uniform(0.1, 3)
                time.sleep(stopped_s)
                site.signal(signal.SIGCONT)
                longest_s = max(longest_s, stopped_s)
            elif kind == "kill":
                site.kill()
                time.sleep(rng.uniform(0, 1.5))
                site.start()
                site.wait_answers()
            else:
                for _ in range(10):
                    garbage(d)
            points.append((d.job()["round"], resident_kib(d)))
            time.sleep(rng.uniform(0, 0.3))
        swarm.run_on(5, 60)
        growth = slope(points[len(points) // 4:])
        wait_for(lambda: descriptors(d) - open_before <= 8, 20, f"{descriptors(d)} descriptors, {open_before} before")
        gaps = {site.name: commit_gaps(site) for site in swarm}
        failures += [f"{name}: no commit for {gap:.1f} s" for name, gap in gaps.items() if gap > WATCHDOG_S]
        if not d.is_running or d.log.count(" info resumed ") != 1:
            failures.append("d, which nobody touched, has ended")
    failures += control(max(gaps.values()) > 0.9 * longest_s > 0, f"one stood still for {longest_s:.1f} s")
    failures += control(growth_of_leaky() >= 1, "a process took 1.2 KiB a round and kept it")
    return Outcome(n_faults, failures, growth, f"KiB a round of d over {points[-1][0] - points[0][0]} rounds, longest gap {max(gaps.values()):.1f} s")
