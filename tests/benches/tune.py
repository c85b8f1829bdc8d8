"""What the tuner finds by measuring a tenth, beside all that there is to find; the numbers are bench_tune's."""
import functools
import pathlib
import re
import statistics
import subprocess
import time

from benches.agent import FASHION_JOB, FASHION_SITE
from control_group import Group
from swarm.agents import Swarm, options

LENET = ("28x28x1", "conv 5x5x8, relu, pool 2, conv 5x5x16, relu, pool 2, dense 128, relu, dense classes", 32)
DEEP = ("28x28x1", "dense 256, relu, dense 128, relu, dense 64, relu, dense 32, relu, dense classes", 64)

# The tuner's constants (ridges, noise, weights of the sampler, hope and caution) were searched on these, among other nets of
# images of 28x28 and on made-up hosts, so what they show proves nothing.
SEARCHED = (DEEP, LENET)

# No constant has ever been chosen by these: other inputs, layers, widths and batches. The figure is theirs; whoever changes
# the tuner by looking at them makes new ones.
HELD_OUT = (
    ("28x28x1", "dense 96, tanh, dense 24, tanh, dense 96, tanh, dense 192, tanh, dense classes", 48),
    ("1x96x6", "conv1d 5x24, relu, pool 2, conv1d 5x48, relu, pool 2, dense 64, relu, dense classes", 64),
    ("32x32x3", "conv 3x3x16 stride 2 pad 1, relu, depthwise 3x3 pad 1, relu, conv 1x1x32, relu, "
     "depthwise 3x3 stride 2 pad 1, relu, conv 1x1x64, relu, globalpool, dense classes", 32),
    ("16x16x1", "conv 3x3x8 pad 1, relu, pool 2, conv 3x3x24, relu, dense 72, relu, dense classes", 96),
    ("14x14x4", "conv 3x3x16 pad 1, relu, residual { conv 3x3x16 pad 1, relu, conv 3x3x16 pad 1 }, relu, avgpool 2, "
     "dense 40, relu, dense classes", 24),
    ("1x1x40", "dense 200, gelu, residual { dense 200, gelu }, dense 100, gelu, dense 50, gelu, dense classes", 128),
    ("24x24x1", "conv 3x3x12 pad 1, relu, conv 3x3x12 pad 1, relu, pool 2, conv 3x3x24 pad 1, relu, pool 2, dense 60, relu, "
     "dense classes", 20),
)


@functools.cache
def results(starling, *arguments):
    """bench_tune's words and numbers, of the program that was built beside starling."""
    program = pathlib.Path(starling).parent / "tests/benches/bench_tune"
    if not program.exists():
        raise RuntimeError(f"{program} is not built: ninja -C {program.parents[2]} tests/benches/bench_tune")
    output = subprocess.run([program, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True, timeout=900).stdout
    return {word: float(number) for word, number in map(str.split, output.splitlines())}


def grid(starling, net):
    found = results(starling, "grid", *net)
    if found["measured"] > max(4, found["cells"] / 10):
        raise RuntimeError(f"{found['measured']:.0f} of {found['cells']:.0f} cells were measured")
    return found


def over_nets(name, nets=HELD_OUT, of=statistics.median):
    """How much slower than the best of the grid the choice is, as a factor: the median over nets of means over seeds; beside
    it random sampling of as many cells."""
    def figure(starling):
        found = [grid(starling, net) for net in nets]
        return tuple(1 + of(one[word] for one in found) for word in (name, "random"))
    return figure


held_out, held_out_rd, held_out_r, held_out_followed = (over_nets(name) for name in ("rdu", "rd", "r", "random_then_doubts"))
held_out_worst = over_nets("rdu", of=max)
searched = over_nets("rdu", SEARCHED)


def grid_cells(starling):
    """Cells of the smallest of those grids."""
    return min(grid(starling, net)["cells"] for net in HELD_OUT), None


def emulated(starling):
    return results(starling, "return", *DEEP, "-")


@functools.cache
def under_quota(starling):
    with Group(shares=16) as group:
        return results(starling, "return", *DEEP, group.folder)


def return_regret(how):
    """After 100 % -> 40 % -> 100 % of the processors, eight measurements each: regret with distillation, and without. The
    quota is one of a control group, or emulated from measured times: a step takes at least its processor time divided by it."""
    def figure(starling):
        found = how(starling)
        return 100 * found["kept"], 100 * found["forgotten"]
    return figure


def return_gain(how):
    """By how many points the regret without distillation is larger."""
    def figure(starling):
        found = how(starling)
        return 100 * (found["forgotten"] - found["kept"]), None
    return figure


def first_round(starling, model, kernels):
    """Milliseconds from a first start to the first committed round, and those of them that were for measuring."""
    options.starling = str(starling)
    site, sites = {"data": FASHION_SITE["data"]}, {"a": {"kernels": kernels}}
    with Swarm("a", [], job={**FASHION_JOB, "model": model, "count": 1}, site=site, sites=sites) as swarm:
        begin = time.perf_counter()
        agent = swarm["a"].start()
        agent.wait_finished(120)
        whole = (time.perf_counter() - begin) * 1e3
        told = re.search(r" kernels-measured .*took_ms=([0-9.e+]+)", agent.log)
        return whole, float(told[1]) if told else 0


def start_ms(model):
    """How long measuring holds up the first training of a new agent with a fifth of Fashion-MNIST; beside it, from start to
    the first committed round without. Medians of three of each by turns."""
    def figure(starling):
        pairs = [(first_round(starling, model, "measured")[1], first_round(starling, model, "built-in")[0]) for _ in range(3)]
        return tuple(map(statistics.median, zip(*pairs)))
    return figure


def kernel_share(starling):
    """Shapes for which the kernel that was chosen by measuring is at most 5 % slower than the best, in percent."""
    return 100 * results(starling, "kernels")["good_share"], None


def kernel_worth(starling):
    """Shapes for which the worst kernel takes at least 1.5 times as long as the chosen one, in percent."""
    return 100 * results(starling, "kernels")["worth_share"], None
