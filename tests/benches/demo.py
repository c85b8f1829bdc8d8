"""How well the main job is learnt: the demo's result lines as means over three seeds."""
import functools
import pathlib
import statistics
import tempfile

from swarm.agents import options, starling

SEEDS = (1, 2, 3)


@functools.cache
def results(program):
    """For each seed: (global accuracy together, the same of the agents alone) in percent, seconds of the swarm."""
    options.starling = str(program)
    rows = []
    for seed in SEEDS:
        with tempfile.TemporaryDirectory(prefix="starling-bench-") as folder:
            answer = starling("demo", "--dir", pathlib.Path(folder) / "demo", "--seed", seed, timeout=600)
            if answer.code != 0:
                raise RuntimeError(answer.err.strip())
            words = dict(word.split("=") for word in answer.out.split("\n")[-2].split()[1:])
            rows.append((float(words["swarm_global"]), float(words["alone_global"]), float(words["seconds"])))
    return rows


def swarm_global(program):
    return statistics.mean(row[0] for row in results(program)), None


def swarm_global_worst(program):
    return min(row[0] for row in results(program)), None


def gain_points(program):
    return statistics.mean(row[0] - row[1] for row in results(program)), None


def seconds(program):
    return statistics.median(row[2] for row in results(program)), None
