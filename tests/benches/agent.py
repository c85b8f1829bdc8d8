"""What one agent costs: memory while idle and while training, and the time until it listens."""
import contextlib
import os
import pathlib
import socket
import statistics
import threading
import time

from swarm.agents import Swarm, options

FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")

# The MLP 784-128-10 of the main job on a fifth of Fashion-MNIST.
FASHION_JOB = {
    "label": None, "features": None,
    "classes": ["T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"],
    "input": "28x28x1", "range": "0..1", "scale": {"mean": 0.2860, "sd": 0.3530}, "holdout": 0.25, "validation": 0,
    "split": {"rule": "dirichlet 0.3", "n": 5, "seed": 1}, "model": "dense 128, relu, dense classes",
    "train": {"epochs": 1, "batch": 32, "learning_rate": 0.05}, "codec": "f16", "count": 2,
}
FASHION_SITE = {
    "data": {"train": str(FASHION / "train-images-idx3-ubyte.gz"),
             "train_labels": str(FASHION / "train-labels-idx1-ubyte.gz"),
             "global_test": str(FASHION / "t10k-images-idx3-ubyte.gz"),
             "global_test_labels": str(FASHION / "t10k-labels-idx1-ubyte.gz"), "part": 1},
    "when_done": "exit",
}


@contextlib.contextmanager
def waiting_agent(starling):
    """An agent that listens and waits for its one peer, which never comes; it is started by the caller."""
    options.starling = str(starling)
    with Swarm("ab", [("a", "b")], site={"round": {"meet_s": 3600}}) as swarm:
        yield swarm["a"]


def wait_listening(agent):
    while agent.is_running:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", agent.port), timeout=1):
            return
        time.sleep(0.0005)
    raise RuntimeError(f"it ended with {agent.process.returncode}: {agent.log[-300:]}")


def status_kib(pid, field):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().split("\n"):
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"no {field} of {pid}")


def idle_rss_mb(starling):
    """Resident memory three seconds after its start."""
    with waiting_agent(starling) as agent:
        agent.start()
        wait_listening(agent)
        time.sleep(3)
        return status_kib(agent.process.pid, "VmRSS") / 1024, None


def start_to_listening_ms(starling):
    """From exec to the first accepted connection, median of five first starts."""
    milliseconds = []
    for _ in range(5):
        with waiting_agent(starling) as agent:
            begin = time.perf_counter()
            agent.start()
            wait_listening(agent)
            milliseconds.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(milliseconds), None


def train_peak_rss_mb(starling):
    """Highest resident memory of an agent without peers over two rounds of an epoch on its fifth of Fashion-MNIST."""
    options.starling = str(starling)
    with Swarm("a", [], job=FASHION_JOB, site=FASHION_SITE) as swarm:
        agent = swarm["a"].start()
        limit = threading.Timer(120, agent.kill)
        limit.start()
        _, status, usage = os.wait4(agent.process.pid, 0)
        limit.cancel()
        agent.process.returncode = os.waitstatus_to_exitcode(status)
        if agent.process.returncode != 0:
            raise RuntimeError(f"it ended with {agent.process.returncode}: {agent.log[-300:]}")
        return usage.ru_maxrss / 1024, None
