"""One allocation fails, each in turn: in the rooms, where nothing leaks and results stay untouched, and in an agent, which ends in
words and goes on at its next start."""
import errno
import re
import subprocess

from agents import BROKEN
from campaigns.force import Outcome, control, counted
from campaigns.ioerror import Broken, learns_alone

CODES = {0, 2, 4, 5}


def rooms(sizes):
    """tests/fault: every scenario of its programs; they end by themselves at a broken promise."""
    runs, failures, lines = counted([sizes.folder / "tests/fault/fault_store", sizes.of(29, 1)], 3600)
    others = subprocess.run([sizes.folder / "tests/fault/fault"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=1200, check=False)
    counts = re.findall(r"^(.*): (\d+) faults$", others.stdout, re.M)
    if others.returncode != 0:
        failures.append(f"fault ended with {others.returncode}: {others.stdout[-500:]}")
    leaky = subprocess.run([sizes.folder / "tests/fault/fault_store", "97", "leaks"], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
    failures += control(leaky.returncode != 0, "something was leaked")
    return Outcome(runs + sum(int(n) for _, n in counts), failures, None,
                   f"{len(counts) + len(lines) - 1} scenarios: {'; '.join(lines[:-1])}; {', '.join(name for name, _ in counts)}")


class WithoutMemory(Broken):
    def judge(self, code, log, number):
        if code is None:
            return [f"it neither ended nor went on: {log[-300:]}"]
        if code == -6 and "starling: bug at" in log:  # what has no way to go on ends at once (MUST): nothing is lost by that
            self.n_aborts += 1
            return []
        if BROKEN.search(log) or code not in CODES:
            return [f"exit {code}: {log[-300:]}"]
        return [] if code == 0 or " error " in log or "starling:" in log else [f"exit {code} without a word: {log[-300:]}"]

    n_aborts = 0


class Mute(WithoutMemory):
    """What it says is lost: each end by want of memory is then one without a word."""

    def run(self, environment):
        return super().run(environment)[0], ""


def agent(sizes):
    stride, runs, at, failures = sizes.of(9, 1), 0, 1, []
    with learns_alone() as swarm:
        broken = WithoutMemory(sizes, swarm["a"], "memory")
        while True:
            is_there, found = broken.fail("memory", at, errno.ENOMEM)
            failures += found
            if not is_there:
                break
            runs, at = runs + 1, at + stride
        mute, lies = Mute(sizes, swarm["a"], "control"), []
        for k in range(1, 200, 20):
            lies += mute.fail("memory", k, errno.ENOMEM)[1]
    failures += control(len(lies) > 5, f"agents ended without a word, {len(lies)} of 10 seen,")
    return Outcome(runs, failures, None, f"of {at} allocations from a start to the end; {broken.n_aborts} ended at once, the others by a code")
