"""One call about a file of the state directory fails, each in turn: the agent ends with a code that is written down or waits for
its disk, says where and what to do, and the next start goes on."""
import concurrent.futures
import errno
import re
import shutil
import subprocess
import time

import agents
from agents import Swarm, die_with_parent
from campaigns.force import Outcome, control

# call -> what it may fail with
CALLS = {
    "write": (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EINTR),
    "sync": (errno.EIO, errno.ENOSPC, errno.EINTR),
    "open": (errno.EMFILE, errno.EIO, errno.ENOSPC, errno.EROFS, errno.EINTR),
    "rename": (errno.EIO, errno.ENOSPC, errno.EROFS),
    "truncate": (errno.EIO, errno.ENOSPC),
    "unlink": (errno.EIO, errno.EROFS),
}
CODES = {0, 2, 4, 5}  # RULES 19; 0: the call did not matter, or was made again
FULL = {errno.ENOSPC, errno.EROFS}  # met before a sync: the agent waits for its disk
N_ROUNDS, PATIENCE_S = 3, 15


class Broken:
    """One site that learns alone, in a folder of its own; what is wrong is told."""

    def __init__(self, sizes, site, number):
        self.sizes, self.folder, self.site = sizes, site.folder.parent / f"w{number}", site
        shutil.copytree(site.folder, self.folder)
        self.log, self.fired, self.state = self.folder / "log", self.folder / "fired", self.folder / "state"

    def run(self, environment):
        """Its exit code; None: it waits for its disk. And its log."""
        with open(self.log, "wb") as log:
            process = subprocess.Popen([agents.options.starling, "run", "-C", self.folder / "site.yaml"], stdout=log, stderr=log,
                                       stdin=subprocess.DEVNULL, env=environment, preexec_fn=die_with_parent)
        end, code = time.monotonic() + PATIENCE_S, None
        while code is None and time.monotonic() < end:
            try:
                code = process.wait(0.02)
            except subprocess.TimeoutExpired:
                if " error halted " in self.log.read_text(errors="replace"):
                    break
        process.kill()
        process.wait()
        return code, self.log.read_text(errors="replace")

    def fail(self, call, at, number, **more):
        """(whether there was such a call, failures)."""
        shutil.rmtree(self.state, ignore_errors=True)
        self.fired.unlink(missing_ok=True)
        code, log = self.run(self.sizes.shim(call=call, at=at, errno=number, under=self.state, fired=self.fired, **more))
        if not self.fired.exists():
            return False, [] if code == 0 else [f"{call} untouched: exit {code}: {log[-200:]}"]
        committed = len(re.findall(" info round-committed ", log))
        failures = self.judge(code, log, number) + self.judge_next(committed)
        return True, [f"{call} {at} {errno.errorcode.get(number, number)}: {text}" for text in failures]

    def judge(self, code, log, number):
        said = re.findall(r' (?:error|warning) \S+ .*?text="([^"]+)"', log)
        if agents.BROKEN.search(log):
            return [f"it broke: {log[-300:]}"]
        if code is None and " error halted " not in log:
            return [f"it neither ended nor waits: {log[-300:]}"]
        if code is None and number not in FULL:
            return [f"it waits for a disk that is not full: {said}"]
        if code is not None and code not in CODES:
            return [f"exit {code}: {log[-300:]}"]
        if any(text for text in re.findall(r' warning halted .*?text="([^"]+)"', log) if "goes on" not in text):
            return [f"it halted and did not say what to do: {said}"]
        if code != 0 and not any(":" in text for text in said):
            return [f"exit {code} without a line that says where and what to do: {said}"]
        return []

    def judge_next(self, committed):
        """The next start, on a disk that works."""
        code, log = self.run(None)
        if code != 0:
            return [f"the next start: exit {code}: {log[-300:]}"]
        if "snapshot-damaged" in log:
            return ["the next start found a snapshot damaged"]
        found = re.search(r" info resumed job=\S+ version=\d+ round=(\d+)", log)
        if found and int(found[1]) < committed:
            return [f"{committed} rounds were told, and it started again from {found[1]}"]
        return []


def learns_alone():
    """One site without peers, whose agent ends after some rounds."""
    return Swarm("a", [], rows=60, test_rows=60, sites={"a": {"listen": []}}, job={"model": "dense classes", "count": N_ROUNDS},
                 site={"data": {"train": "train.csv", "global_test": "../test.csv"}, "when_done": "exit"})


def strided(sizes, broken, call, number, stride, first):
    """Every stride-th call, until one is too far; (runs, failures, calls in all)."""
    runs, failures, at = 0, [], first
    while True:
        is_there, found = broken.fail(call, at, number)
        failures += found
        if not is_there:
            return runs, failures, at - 1
        runs, at = runs + 1, at + stride


def every_call(sizes):
    """Calls of one kind with one error are one piece of work."""
    work = [(call, number) for call, numbers in CALLS.items() for number in numbers]
    with learns_alone() as swarm, concurrent.futures.ThreadPoolExecutor(4) as pool:
        def piece(number_of_piece):
            call, number = work[number_of_piece]
            stride = sizes.of({"write": 31, "open": 13, "sync": 7}.get(call, 2), 1)
            broken = Broken(sizes, swarm["a"], number_of_piece)
            return strided(sizes, broken, call, number, stride, 1 + number_of_piece % stride)
        done = list(pool.map(piece, range(len(work))))
        liar, lies = Broken(sizes, swarm["a"], "control"), []
        for at in range(20, 60, 4):
            lies += liar.fail("write", at, errno.EIO, lies=1)[1]
    failures = [f for _, found, _ in done for f in found]
    failures += control(lies, "writes were lost that had succeeded")
    calls = {call: max(n for (c, _), (_, _, n) in zip(work, done) if c == call) for call in CALLS}
    return Outcome(sum(runs for runs, _, _ in done), failures, None,
                   "calls from a start to the end: " + ", ".join(f"{call} {n}" for call, n in calls.items()))
