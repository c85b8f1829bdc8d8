"""What one agent costs: memory while idle and while training, and the time until it listens."""
import contextlib
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time

FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")

# The MLP 784-128-10 of the main job on a fifth of Fashion-MNIST.
FASHION_JOB = """\
job: bench
version: 1
task: classify
classes: [ t-shirt, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, boot ]
input: { shape: [ 28, 28 ], range: [ 0, 255 ] }
scale: { mean: 72.94, sd: 90.02 }
split: { rule: dirichlet, alpha: 0.3, n: 5, seed: 1 }
model: dense 128, relu, dense classes
train: { epochs: 1, batch: 32, learning_rate: 0.05, momentum: 0.9 }
count: 2
"""
FASHION_DATA = f"""\
      train: {FASHION}/train-images-idx3-ubyte.gz
      train_labels: {FASHION}/train-labels-idx1-ubyte.gz
      part: 1
"""

# A job of almost nothing, waiting for a peer that never comes.
SMALL_JOB = """\
job: bench
version: 1
task: classify
label: verdict
classes: [ ok, bad ]
features: [ force_N, temp_C ]
model: dense 4, relu, dense classes
train: { epochs: 1, batch: 4, learning_rate: 0.05 }
"""
SMALL_DATA = """\
      train: parts.csv
"""
ABSENT_PEER = """\
peers:
  - name: absent
    key: {key}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def starling_says(starling, folder, *arguments):
    done = subprocess.run([starling, *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=30)
    if done.returncode != 0:
        raise RuntimeError(f"starling {' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextlib.contextmanager
def site(starling, job, data, peers=None):
    """A folder with a key, a job file and a site file; gives (folder, port)."""
    with tempfile.TemporaryDirectory(prefix="starling-bench-") as name:
        folder, port = pathlib.Path(name), free_port()
        starling_says(starling, folder, "key", "new", "agent.key")
        (folder / "parts.csv").write_text("force_N,temp_C,verdict\n" + "1,2,ok\n3,4,bad\n5,6,ok\n7,8,bad\n" * 8)
        (folder / "bench.job.yaml").write_text(job)
        (folder / "site.yaml").write_text(
            f"swarm: bench\nname: bench\nkey_file: agent.key\nstate_dir: state\nlisten: [ tcp://127.0.0.1:{port} ]\n"
            + (peers or "peers: []\n") + f"jobs:\n  - job: bench.job.yaml\n    data:\n{data}")
        yield folder, port


def start(starling, folder):
    with open(folder / "log", "wb") as log:
        return subprocess.Popen([starling, "run", "site.yaml"], cwd=folder, stdin=subprocess.DEVNULL, stdout=log,
                                stderr=log)


def last_line(folder):
    lines = (folder / "log").read_text(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line), "nothing was logged")


def wait_listening(agent, folder, port):
    while agent.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.0005)
    raise RuntimeError(f"it ended with {agent.returncode}: {last_line(folder)}")


def stop(agent):
    agent.send_signal(signal.SIGTERM)
    try:
        agent.wait(10)
    except subprocess.TimeoutExpired:
        agent.kill()
        agent.wait()


def absent_peer(starling):
    with tempfile.TemporaryDirectory(prefix="starling-bench-") as folder:
        starling_says(starling, folder, "key", "new", "other.key")
        return ABSENT_PEER.format(key=starling_says(starling, folder, "key", "show", "other.key").split("\n")[0])


def status_kib(pid, field):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().split("\n"):
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"no {field} of {pid}")


def idle_rss_mb(starling):
    """Resident memory of an agent that listens and waits for its one peer, three seconds after its start."""
    with site(starling, SMALL_JOB, SMALL_DATA, absent_peer(starling)) as (folder, port):
        agent = start(starling, folder)
        try:
            wait_listening(agent, folder, port)
            time.sleep(3)
            return status_kib(agent.pid, "VmRSS") / 1024, None
        finally:
            stop(agent)


def start_to_listening_ms(starling):
    """From exec to the first accepted connection, median of five first starts."""
    peers, milliseconds = absent_peer(starling), []
    for _ in range(5):
        with site(starling, SMALL_JOB, SMALL_DATA, peers) as (folder, port):
            begin = time.perf_counter()
            agent = start(starling, folder)
            try:
                wait_listening(agent, folder, port)
                milliseconds.append((time.perf_counter() - begin) * 1e3)
            finally:
                stop(agent)
    return statistics.median(milliseconds), None


def train_peak_rss_mb(starling):
    """Highest resident memory of an agent without peers over two rounds of an epoch on its fifth of Fashion-MNIST."""
    with site(starling, FASHION_JOB, FASHION_DATA) as (folder, _):
        agent = start(starling, folder)
        limit = threading.Timer(120, agent.kill)
        limit.start()
        _, status, usage = os.wait4(agent.pid, 0)
        limit.cancel()
        agent.returncode = os.waitstatus_to_exitcode(status)
        if agent.returncode != 0:
            raise RuntimeError(f"it ended with {agent.returncode}: {last_line(folder)}")
        return usage.ru_maxrss / 1024, None
