"""What campaigns share: sizes, outcomes, programs of tests."""
import dataclasses
import os
import pathlib
import subprocess
import tempfile

import agents

# What tests/force builds beside the agent.
PROGRAMS = ["tests/campaigns/starling_points", "tests/campaigns/powercut", "tests/campaigns/libcall_shim.so",
            "tests/swarm/told_peer", "tests/fault/fault", "tests/fault/fault_store"]


class Sizes:
    """The build, and which of two numbers counts."""

    def __init__(self, is_long, folder):
        self.is_long, self.folder = is_long, pathlib.Path(folder)
        self.root = pathlib.Path(__file__).resolve().parent.parent.parent
        agents.options.starling, agents.options.long = str(self.folder / "starling"), is_long
        # Where a sync costs nothing: what a campaign kills is not the machine.
        if os.access("/dev/shm", os.W_OK):
            tempfile.tempdir = "/dev/shm"

    def of(self, short, long):
        return long if self.is_long else short

    def program(self, name):
        return self.folder / "tests/campaigns" / name

    def shim(self, **switches):
        """An environment with calls of libraries caught by call_shim.c."""
        return {**os.environ, "LD_PRELOAD": str(self.program("libcall_shim.so")),
                **{f"SHIM_{name.upper()}": str(value) for name, value in switches.items()}}


@dataclasses.dataclass
class Outcome:
    """runs: what was broken; failures: a sentence each; value: the figure, None where there is none."""
    runs: int
    failures: list
    value: float = None
    note: str = ""


def control(outcome_of_control, what):
    """The failures of a campaign whose control found nothing."""
    return [] if outcome_of_control else [f"control: {what} and nothing was found"]


def counted(command, timeout, env=None):
    """A program that prints `runs N failures N` last and a line for each failure before; (runs, failures, output)."""
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
                          env=env, check=False, cwd=pathlib.Path(__file__).resolve().parent.parent.parent)
    lines = done.stdout.splitlines()
    words = lines[-1].split() if lines else []
    if len(words) < 4 or words[0] != "runs":
        return 0, [f"{command[0]} ended with {done.returncode}: {done.stdout[-500:]}"], lines
    failures = [line[5:] for line in lines if line.startswith("FAIL ")]
    failures += ["…"] * (int(words[3]) - len(failures))
    return int(words[1]), failures, lines
