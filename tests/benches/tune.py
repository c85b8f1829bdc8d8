"""What the tuner finds by measuring a tenth, beside all that there is to find; the numbers are bench_tune's."""
import functools
import pathlib
import subprocess

from control_group import Group

LENET = "conv 5x5x8, relu, pool 2, conv 5x5x16, relu, pool 2, dense 128, relu, dense classes"
DEEP = "dense 256, relu, dense 128, relu, dense 64, relu, dense 32, relu, dense classes"


@functools.cache
def results(starling, *arguments):
    """bench_tune's words and numbers, of the program that was built beside starling."""
    program = pathlib.Path(starling).parent / "tests/benches/bench_tune"
    if not program.exists():
        raise RuntimeError(f"{program} is not built: ninja -C {program.parents[2]} tests/benches/bench_tune")
    output = subprocess.run([program, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True, timeout=900).stdout
    return {word: float(number) for word, number in map(str.split, output.splitlines())}


def grid(starling, model, batch):
    found = results(starling, "grid", model, batch)
    if found["cells"] < 200 or found["measured"] > found["cells"] / 10:
        raise RuntimeError(f"{found['measured']:.0f} of {found['cells']:.0f} cells were measured")
    return found


def sampler(name, model, batch):
    """How much slower than the best of the grid the choice is, as a factor; beside it random sampling of as many."""
    def figure(starling):
        found = grid(starling, model, batch)
        return 1 + found[name], 1 + found["random"]
    return figure


deep_rdu, deep_rd, deep_r = (sampler(name, DEEP, 64) for name in ("rdu", "rd", "r"))
lenet_rdu, lenet_rd, lenet_r = (sampler(name, LENET, 32) for name in ("rdu", "rd", "r"))


def return_regret(starling):
    """After 100 % -> 40 % -> 100 % of the processors, eight measurements each: regret with distillation, and without. The
    quota is emulated from measured times: a step takes at least its processor time divided by the quota."""
    found = results(starling, "return", DEEP, 64, "-")
    return 100 * found["kept"], 100 * found["forgotten"]


def return_regret_quota(starling):
    """The same under a real quota of a control group; what else the host does is in it."""
    with Group() as group:
        if not group.is_v1:
            raise RuntimeError("bench_tune sets quotas of control groups of version 1 only")
        found = results(starling, "return", DEEP, 64, group.folder)
    return 100 * found["kept"], 100 * found["forgotten"]


def kernel_share(starling):
    """Shapes for which the kernel that was chosen by measuring is at most 5 % slower than the best, in percent."""
    return 100 * results(starling, "kernels")["good_share"], None


def kernel_worth(starling):
    """Shapes for which the worst kernel takes at least 1.5 times as long as the chosen one, in percent."""
    return 100 * results(starling, "kernels")["worth_share"], None
