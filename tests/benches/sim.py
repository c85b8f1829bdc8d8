"""What the simulator takes at protocol fidelity, where ciphers are left out and models are only said to be long."""
import functools
import subprocess

AGENTS, DEGREE, SECONDS = 10000, 4, 65


@functools.cache
def run(starling, degree, seconds, time):
    """The lines of one run, by name, of the program that was built beside starling; `time`: the n-th run."""
    program = starling.parent / "tests/benches/bench_sim"
    if not program.exists():
        raise RuntimeError(f"{program} is not built: ninja -C {starling.parent} tests/benches/bench_sim")
    output = subprocess.run([program, str(AGENTS), str(degree), str(seconds)], stdout=subprocess.PIPE, text=True,
                            check=True, timeout=900).stdout
    found = dict(line.split() for line in output.splitlines())
    if found["broken"] != "0" or (seconds > 0 and found["rounds"] == "0"):
        raise RuntimeError(f"the swarm did not work: {found}")
    return found


def events_per_s(starling):
    """Of processor time, the start of all agents included; the better of two runs."""
    return max(float(run(starling, DEGREE, SECONDS, time)["events_per_s"]) for time in (1, 2)), None


def agents(_starling):
    return AGENTS, None


def same_trace(starling):
    """1: two runs of one seed have one hash."""
    return float(len({run(starling, DEGREE, SECONDS, time)["trace"] for time in (1, 2)}) == 1), None


def idle_kib(degree):
    """Memory of an agent that has met its peers and trains, beyond its inboxes."""
    return lambda starling: (float(run(starling, degree, 0, 1)["agent_kib"]), None)
