"""Whole rounds of eight agents on this host, and what one of them takes in memory, beside the same written with PyTorch and pyzmq.

Wall time on both sides, of runs in turn: a round waits for sockets and, Starling's, for the disk. Each agent of the twin
computes in one thread, as each of Starling's does."""
import datetime
import functools
import pathlib
import re
import statistics
import subprocess

from benches.agent import FASHION_JOB, FASHION_SITE
from benches.peer import ENVIRONMENT, PYTHON
from swarm.agents import Swarm, die_with_parent, merged, options, reserve_port, ring

TWIN = pathlib.Path(__file__).with_name("torch_swarm.py")
NAMES = "abcdefgh"
LENET = "conv 5x5x8, relu, pool 2, conv 5x5x16, relu, pool 2, dense 128, relu, dense classes"

# What is trained: model line, the twin's word, steps a round (0: an epoch), rounds, rounds before the clock starts, runs.
WORK = {
    "mlp": ("dense 128, relu, dense classes", 10, 60, 10, 5),
    "lenet": (LENET, 0, 3, 1, 3),
}

# 150 samples are kept apart to validate each round, as at the twin.
JOB = merged(FASHION_JOB, {
    "holdout": 0, "validation": 0.02, "split": {"rule": "iid", "n": len(NAMES), "seed": 1},
    "train": {"epochs": None, "batch": 32, "learning_rate": 0.05, "momentum": 0.9},
})
# The twin trains one model an agent, so there is no second one, trained alone, here either.
SITE = {
    "alone": {"shadow": "off"},
    "data": {name: FASHION_SITE["data"][name] for name in ("train", "train_labels")} | {"global_test": None},
    "when_done": "serve",
}


def private_and_resident_mb(pid):
    fields = {}
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value = line.split(":")
        fields[name] = int(value.split()[0])
    return (fields["Private_Clean"] + fields["Private_Dirty"]) / 1024, fields["Rss"] / 1024


def committed_at(site):
    """When it committed each round, by its log, in seconds."""
    stamps = re.findall(r"^(\S+)Z info round-committed job=\S+ round=(\d+) ", site.log, re.M)
    return {int(number): datetime.datetime.fromisoformat(stamp).timestamp() for stamp, number in stamps}


def run_starling(kind, codec):
    """Seconds a round and, of the first agent at its end, private and resident MB."""
    model, steps, rounds, before, _ = WORK[kind]
    job = merged(JOB, {"model": model, "codec": codec, "count": rounds})
    job["train"] |= {"steps": steps, "epochs": None} if steps else {"epochs": 1}
    parts = {name: {"jobs": {"data": {"part": i + 1}}} for i, name in enumerate(NAMES)}
    with Swarm(NAMES, ring(NAMES), job=job, site=SITE, sites=parts) as swarm:
        first = swarm.start()[NAMES[0]]
        swarm.wait_finished(300)
        memory = private_and_resident_mb(first.process.pid)
        at = committed_at(first)
    return (at[rounds] - at[before]) / (rounds - before), *memory


def run_twin(kind):
    """The same of the twin."""
    _, steps, rounds, before, _ = WORK[kind]
    reserved = [reserve_port() for _ in NAMES]
    for _, keeper in reserved:
        keeper.close()
    ports = ",".join(str(port) for port, _ in reserved)
    agents = [subprocess.Popen([PYTHON, TWIN, str(i), ports, kind, str(steps), str(rounds)], text=True, env=ENVIRONMENT,
                               stdout=subprocess.PIPE, preexec_fn=die_with_parent) for i in range(len(NAMES))]
    lines = agents[0].communicate(timeout=600)[0].splitlines()
    if any(agent.wait(60) != 0 for agent in agents):
        raise RuntimeError("the twin failed")
    times = [float(line.split()[0]) for line in lines]
    private, resident = (int(kib) / 1024 for kib in lines[-1].split()[1:])
    return (times[-1] - times[before - 1]) / (rounds - before), private, resident


@functools.cache
def medians(program, kind):
    """What runs in turn of the twin and of both codecs take: [seconds, private MB, resident MB] of each."""
    options.starling = str(program)
    rows = {"twin": [], "f32": [], "f16": []}
    for _ in range(WORK[kind][-1]):
        rows["twin"].append(run_twin(kind))
        rows["f32"].append(run_starling(kind, "f32"))
        rows["f16"].append(run_starling(kind, "f16"))
    return {name: [statistics.median(column) for column in zip(*runs)] for name, runs in rows.items()}


def figure(kind, codec, column, scale=1):
    def measure(program):
        found = medians(program, kind)
        return found[codec][column] * scale, found["twin"][column] * scale
    return measure


mlp_f32_ms = figure("mlp", "f32", 0, 1e3)
mlp_f16_ms = figure("mlp", "f16", 0, 1e3)
lenet_ms = figure("lenet", "f32", 0, 1e3)
private_mb = figure("mlp", "f32", 1)
resident_mb = figure("mlp", "f32", 2)


def beyond_model_mb(program):
    """Private memory but three models and the samples as bytes."""
    model = 4 * (784 * 128 + 128 + 128 * 10 + 10)
    shard = 60000 // len(NAMES) * 784
    return medians(program, "mlp")["f32"][1] - (3 * model + shard) / (1 << 20), None
