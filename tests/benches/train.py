"""How fast one core computes: packed products beside OpenBLAS, training steps beside PyTorch and beside the core's peak.

Each program measures when asked, so that the two sides of a ratio take turns; a figure is made of the medians of five turns.
Both sides compute in one thread, and count its processor time: what else the host does costs neither of them more than its
share of caches and of the clock, which only a quiet machine gives whole.
"""
import functools
import pathlib
import statistics
import subprocess

from benches.peer import ENVIRONMENT, PYTHON

TURNS = 5
HERE = pathlib.Path(__file__).resolve().parent


class Measurer:
    """A child process that answers each line with numbers."""

    def __init__(self, *command):
        self.child = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      env=ENVIRONMENT)
        self.ready = self.line()

    def line(self):
        line = self.child.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.child.args[0]} ended with {self.child.wait()}")
        return line.strip()

    def ask(self):
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        return [float(word) for word in self.line().split()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.wait(timeout=60)
        self.child.stdout.close()


def program(starling):
    path = starling.parent / "tests/benches/bench_train"
    if not path.exists():
        raise RuntimeError(f"{path} is not built: ninja -C {starling.parent} tests/benches/bench_train")
    return path


def taking_turns(measurers):
    """The median of each number that each of them answers, after a turn that does not count."""
    answers = [[m.ask() for m in measurers] for _ in range(TURNS + 1)][1:]
    return [[statistics.median(turn[i][k] for turn in answers) for k in range(len(answers[0][i]))]
            for i in range(len(measurers))]


def note(text):
    print(f"# {text}", flush=True)


def fma_peak(starling):
    with Measurer(program(starling), "peak") as peak:
        note(f"kernels: {peak.ready}")
        return taking_turns([peak])[0][0], None


# ---- products

GEMM_SHAPES = [(32, n_out, n_in) for n_out in (128, 256, 512) for n_in in (512, 784)]


@functools.cache
def gemm(starling):
    """(packed, OpenBLAS, peak) in GFLOP/s of each shape."""
    found = []
    for shape in GEMM_SHAPES:
        with Measurer(program(starling), "gemm", *shape) as products, Measurer(program(starling), "peak") as peak:
            (packed, blas), (most,) = taking_turns([products, peak])
            note(f"gemm {'x'.join(map(str, shape))}: {products.ready}, {packed:.4g} {blas:.4g} of {most:.4g} GFLOP/s")
            found.append((packed, blas, most))
    return found


def gemm_to_blas(starling):
    return min(((packed, blas) for packed, blas, _ in gemm(starling)), key=lambda pair: pair[0] / pair[1])


def gemm_to_peak(starling):
    return min(((packed, most) for packed, _, most in gemm(starling)), key=lambda pair: pair[0] / pair[1])


# ---- training steps: batch, height, width, channels, architecture

MODELS = {
    "mlp_small": (32, 28, 28, 1, "dense 128, relu, dense classes"),
    "mlp_wide": (32, 28, 28, 1, "dense 512, relu, dense 512, relu, dense classes"),
    "lenet": (32, 28, 28, 1,
              "conv 5x5x8, relu, pool 2, conv 5x5x16, relu, pool 2, dense 128, relu, dense classes"),
    "conv1d": (32, 1, 128, 9, "conv1d 3x64, relu, conv1d 3x64, relu, dense classes"),
}


@functools.cache
def steps(starling, model):
    """(ours, PyTorch's, the bound) in samples a second; the bound is the peak over what a sample's step must compute."""
    of = MODELS[model]
    with Measurer(program(starling), "steps", *of) as ours, Measurer(program(starling), "peak") as peak, \
            Measurer(PYTHON, HERE / "torch_peer.py", *of) as torch:
        (found,), (peers,), (most,) = taking_turns([ours, torch, peak])
        bound = most * 1e9 / float(ours.ready)
        note(f"{model}: {torch.ready}, {found:.4g} {peers:.4g} of {bound:.4g} samples/s")
        return found, peers, bound


def to_torch(model):
    return lambda starling: steps(starling, model)[:2]


def to_bound(model):
    return lambda starling: (steps(starling, model)[0], steps(starling, model)[2])


def avx2_to_bound(model):
    """What a CPU without AVX-512 would do, beside what its registers would."""
    def measure(starling):
        with Measurer(program(starling), "steps", *MODELS[model], "avx2") as ours, \
                Measurer(program(starling), "peak", "avx2") as peak:
            (found,), (most,) = taking_turns([ours, peak])
            return found, most * 1e9 / float(ours.ready)
    return measure


def streamed_to_memory(starling):
    """Microseconds of training a sample: on disk, with memory for a quarter of them, and in memory."""
    with Measurer(program(starling), "stream", *MODELS["mlp_small"]) as both:
        (streamed, in_memory), = taking_turns([both])
        return 1e6 / streamed, 1e6 / in_memory
