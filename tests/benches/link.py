"""How fast a sealed payload passes over loopback beside bare ZeroMQ: medians of interleaved transfers of one run."""
import functools
import statistics
import subprocess

MIB = 64


@functools.cache
def speeds(starling):
    """MiB/s by kind, of the program that was built beside starling."""
    program = starling.parent / "tests/benches/bench_link"
    if not program.exists():
        raise RuntimeError(f"{program} is not built: ninja -C {starling.parent} tests/benches/bench_link")
    output = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True, timeout=300).stdout
    seconds = {}
    for line in output.splitlines():
        kind, value = line.split()
        seconds.setdefault(kind, []).append(float(value))
    return {kind: MIB / statistics.median(values) for kind, values in seconds.items()}


def beside(kind, peer):
    def figure(starling):
        found = speeds(starling)
        return found[kind], found[peer]
    return figure


sealed_to_curve = beside("sealed", "curve")
sealed_to_null = beside("sealed", "null")
hashed_to_curve = beside("hashed", "curve")
