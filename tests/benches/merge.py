"""How fast models are merged and encoded beside reading the same bytes, copying them, and NumPy: medians of one run."""
import functools
import pathlib
import statistics
import subprocess

from benches.peer import ENVIRONMENT, PYTHON

MODELS, VALUES = 8, 1 << 20
MODEL_GB = 4 * VALUES / 1e9


def medians(*command):
    """Seconds by name."""
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300,
                            env=ENVIRONMENT).stdout
    seconds = {}
    for line in output.splitlines():
        name, value = line.split()
        seconds.setdefault(name, []).append(float(value))
    return {name: statistics.median(values) for name, values in seconds.items()}


@functools.cache
def own(starling):
    """Of the program that was built beside starling."""
    program = starling.parent / "tests/benches/bench_merge"
    if not program.exists():
        raise RuntimeError(f"{program} is not built: ninja -C {starling.parent} tests/benches/bench_merge")
    return medians(program)


@functools.cache
def numpy():
    """Of Debian's NumPy, whatever Python this is."""
    return medians(PYTHON, pathlib.Path(__file__).parent / "numpy_peer.py")


def to_read(work, read):
    """Milliseconds beside those of one read of what it reads."""
    return lambda starling: (own(starling)[work] * 1e3, own(starling)[read] * 1e3)


def to_numpy(work, peer):
    """GB/s of models merged, beside NumPy's."""
    return lambda starling: (MODELS * MODEL_GB / own(starling)[work], MODELS * MODEL_GB / numpy()[peer])


def speed(work):
    """GB/s of one model encoded."""
    return lambda starling: (MODEL_GB / own(starling)[work], None)


def to_copy(work):
    """The same beside a memory copy of that model."""
    return lambda starling: (MODEL_GB / own(starling)[work], MODEL_GB / own(starling)["copy"])
