"""The steps of tests/run: one table of what is run, one of sizes. See tests/run for its use."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONG = "--long" in sys.argv[1:]

# build directory -> compiler, meson options
BUILDS = {
    "build-gcc": ("gcc", ["-Dwerror=true"]),
    "build-clang": ("clang", ["-Dwerror=true"]),
    "build-asan": ("gcc", ["-Db_sanitize=address,undefined", "-Doptimization=1"]),
    "build-tsan": ("gcc", ["-Db_sanitize=thread", "-Doptimization=1"]),
    "build-fuzz": ("clang", ["-Db_sanitize=address,undefined", "-Doptimization=1", "-Dc_args=-fsanitize=fuzzer-no-link"]),
}

# Sizes. short: what every run does; long: what `--long` does. Swarm programs know the three sizes by themselves: small
# is 3 agents, 3 rounds and a tiny model; the plain one fits in a run on 2 cores; long has the full numbers.
SIZES = {
    #                       short          long
    "swarm":              ([],            ["--long"]),
    "swarm sanitised":    (["--small"],   ["--small"]),
    "swarm timeout s":    (300,           3600),
    "force":              ([],            ["--long"]),
    "force timeout s":    (1200,          6 * 3600),
    "property":           ({},            {"STARLING_TEST_SIZE": "long"}),
    "valgrind suites":    (["unit", "golden"], ["unit", "property", "golden"]),
    "sanitised suites":   (["unit", "property", "golden"], ["unit", "property", "golden"]),
    "threads suites":     (["unit", "property"], ["unit", "property"]),
    "sim seeds":          (300,           10000),
    "tables":             (["small"],     []),
    "tables timeout s":   (600,           12 * 3600),
}


# Swarm programs that compare rates, and so have the host to themselves; the small size compares none. The others wait for
# most of their time; those that take longest begin first, so that none is left over in the end.
SWARM_ALONE = {"test_flood", "test_hostile"}
SWARM_AT_ONCE = 2 * os.cpu_count()
SWARM_LONGEST = ["test_hostile", "test_links", "test_disk", "test_compare", "test_learn", "test_onnx", "test_resume", "test_demo"]


def size(name):
    return SIZES[name][LONG]


class Tally:
    """What one step counted: passed, failed, and skipped by name and reason."""

    def __init__(self):
        self.passed = self.failed = 0
        self.skipped = []
        self.report = []  # what is printed when something failed

    def add(self, passed, failed):
        self.passed += passed
        self.failed += failed

    def fail(self, text):
        self.failed += 1
        self.report.append(text)


BESIDE = threading.local()  # its attribute `nice` is set in a thread whose step leaves the host to others


def call(command, environment=None, timeout=None):
    """Runs a command in the root of the tree; its exit status (124 after the time-out) and its output."""
    try:
        done = subprocess.run([*getattr(BESIDE, "nice", []), *command], cwd=ROOT, env={**os.environ, **(environment or {})}, timeout=timeout,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b"").decode(errors="replace") + f"\nno end after {timeout} s\n"


def judge(tally, command):
    """A command that is one test: it passes by its exit status. Its own count, if it prints one, is taken instead."""
    status, output = call(command)
    count_own(tally, " ".join(map(str, command)), status, output)


def count_own(tally, name, status, output):
    counts = re.findall(r"^ran (\d+), failed (\d+), skipped (\d+)$", output, re.M)
    ran, failed, skipped = map(int, counts[-1]) if counts else (1, int(status != 0), 0)
    if status != 0 and failed == 0:
        ran, failed = ran + 1, 1
    reasons = re.findall(r"^(.*?) \.\.\. skipped:? ?(.*)$", output, re.M)
    tally.add(ran - failed - skipped, failed)
    tally.skipped += [f"{name}: {test}: {reason}" for test, reason in reasons[:skipped]]
    tally.skipped += [f"{name}: it names no reason"] * (skipped - len(reasons))
    if failed:
        tally.report.append(f"{name}: exit status {status}\n{output[-6000:]}")


def configure(name):
    compiler, options = BUILDS[name]
    known = ["--reconfigure"] if (ROOT / name / "build.ninja").exists() else []
    return call(["meson", "setup", *known, name, "-Db_lundef=false", *options], {"CC": compiler})


def build(tally, name):
    """Builds; True when that worked."""
    for status, output in (configure(name), call(["ninja", "-C", name])):
        if status != 0:
            tally.fail(f"{name} does not build:\n{output[-6000:]}")
            return False
    return True


def compiles(name):
    def step(tally):
        if build(tally, name):
            tally.add(1, 0)
    return step


def check_programs(name, suites, environment=None, wrap=None, slower=1):
    """The Check programs of some suites in one build; each Check test counts."""
    def step(tally):
        if not build(tally, name):
            return
        for suite in suites:
            log = f"testlog-{suite}{'-wrapped' if wrap else ''}"
            logs = ROOT / name / "meson-logs"
            written = f"{log}-*.json" if wrap else f"{log}.json" # meson adds the wrapper's name
            for stale in logs.glob(written):
                stale.unlink()
            command = ["meson", "test", "-C", name, "--no-rebuild", "--suite", suite, "--logbase", log,
                       "--num-processes", str(os.cpu_count()), "--timeout-multiplier", str(slower)]
            call(command + ([f"--wrap={wrap}"] if wrap else []), environment)
            found = list(logs.glob(written))
            count_log(tally, suite, found[0].read_text() if found else "")
    return step


def count_log(tally, suite, text):
    programs = [json.loads(line) for line in text.splitlines()]
    if not programs:
        tally.skipped.append(f"{suite}: this tree has no such tests")
    for program in programs:
        output = program.get("stdout", "") + program.get("stderr", "")
        checks = re.findall(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)$", output, re.M)
        ran = sum(int(c[0]) for c in checks) if checks else int(program["result"] == "OK")
        failed = sum(int(c[1]) + int(c[2]) for c in checks)
        tally.add(ran - failed, failed)
        if program["result"] == "SKIP":
            tally.skipped.append(f"{program['name']}: {output.strip()[-200:]}")
        elif program["result"] != "OK":
            if not failed:
                tally.add(0, 1)
            tally.report.append(f"{program['name']}: {program['result']}\n{output[-6000:]}")


def swarm(name, sizes, environment=None, which=lambda stem: True, at_once=SWARM_AT_ONCE):
    """Real agents on loopback, driven by those programs tests/swarm/test_*.py that `which` takes, with the starling of one build."""
    def longest_first(program):
        return SWARM_LONGEST.index(program.stem) if program.stem in SWARM_LONGEST else len(SWARM_LONGEST), program

    def step(tally):
        if not build(tally, name):
            return
        programs = sorted((p for p in (ROOT / "tests/swarm").glob("test_*.py") if which(p.stem)), key=longest_first)
        starling = ROOT / name / "starling"
        if not programs or not starling.exists():
            tally.skipped.append(f"swarm: {'no tests in tests/swarm' if starling.exists() else 'no starling is built'}")
            return
        def run_program(program):
            return call(["/usr/bin/python3", str(program), "--starling", str(starling), *sizes], environment,
                        size("swarm timeout s"))
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            done = zip(programs, pool.map(run_program, programs))
            for program, (status, output) in done:
                count_own(tally, program.stem, status, output)
    return step


FUZZ_S = 60  # a target


def fuzz_one(name, folder, environment):
    """Runs libFuzzer on one target, from its corpus; what it finds stays in build-fuzz."""
    found = ROOT / folder / "findings" / name
    grown = ROOT / folder / "corpus" / name  # inputs that reach more; never written into the tree
    for place in found, grown:
        place.mkdir(parents=True, exist_ok=True)
    command = [str(ROOT / folder / "tests/fuzz" / f"fuzzer_{name}"), f"-max_total_time={FUZZ_S}", "-timeout=25",
               "-rss_limit_mb=2048", f"-artifact_prefix={found}/", str(grown), f"tests/fuzz/{name}"]
    return call(command, environment, FUZZ_S + 120)


def fuzz(folder, environment):
    """Every target of tests/fuzz/meson.build under libFuzzer, two at a time; each counts as one test."""
    def step(tally):
        status, output = configure(folder)
        names = re.findall(r"^  \['(\w+)',", (ROOT / "tests/fuzz/meson.build").read_text(), re.M)
        if status == 0:
            status, output = call(["ninja", "-C", folder, *(f"tests/fuzz/fuzzer_{name}" for name in names)])
        if status != 0:
            return tally.fail(f"{folder} does not build:\n{output[-6000:]}")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for name, (status, output) in zip(names, pool.map(lambda n: fuzz_one(n, folder, environment), names)):
                tally.add(int(status == 0), 0)
                if status != 0:
                    tally.fail(f"fuzz {name}: exit status {status}; the input is in {folder}/findings/{name}\n{output[-6000:]}")
    return step


def force(name):
    """tests/force with the programs of one build; each campaign counts as one test."""
    def step(tally):
        if not build(tally, name):
            return
        status, output = call(["/usr/bin/python3", "tests/force", "--build", name, *size("force")], timeout=size("force timeout s"))
        verdicts = re.findall(r"^(\w+) \d+ \d+ \S+ \S+ (ok|SHORT|SKIPPED)  # (.*)$", output, re.M)
        for campaign, verdict, note in verdicts:
            tally.add(int(verdict == "ok"), int(verdict == "SHORT"))
            if verdict == "SKIPPED":
                tally.skipped.append(f"{campaign}: {note}")
        if status != 0:
            tally.add(0, int(all(verdict != "SHORT" for _, verdict, _ in verdicts)))
            tally.report.append(f"tests/force: exit status {status}\n{output[-6000:]}")
    return step


def torch(tally):
    """Layers, losses and optimisers against PyTorch, where Debian's package of it is."""
    if not build(tally, "build-gcc"):
        return
    with tempfile.TemporaryDirectory() as folder:
        cases = pathlib.Path(folder) / "cases"
        status, output = call(["/usr/bin/python3", "tests/torch/cases.py", str(cases)], timeout=300)
        if status == 77:
            tally.skipped.append(output.strip())
        elif status != 0:
            tally.fail(output[-6000:])
        else:
            judge(tally, ["build-gcc/tests/torch_equality", str(cases)])


def simulations(tally):
    """Random scenarios of the simulator: each seed is one test. A broken one's smallest scenario is printed: keep it in tests/sim."""
    if not build(tally, "build-gcc"):
        return
    starling = str(ROOT / "build-gcc/starling")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([starling, "sim", "--random", str(size("sim seeds")), "--format", "json"], cwd=folder,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            data = json.loads(done.stdout)["data"]
        except (ValueError, KeyError):
            return tally.fail(f"starling sim --random: exit status {done.returncode}\n{done.stdout.decode(errors='replace')[-6000:]}")
        tally.add(data["seeds"] - len(data["broken"]), 0)
        for row in data["broken"]:
            scenario = (pathlib.Path(folder) / row["file"]).read_text() if row["file"] else "(not kept)"
            tally.fail(f"starling sim --random 1 --seed {row['seed']}: {row['invariant']}\n{scenario}")


def tables(tally):
    """tests/tables: what learning together brings; each table is one test. The plain run makes a small one."""
    if not build(tally, "build-gcc"):
        return
    status, output = call(["/usr/bin/python3", "tests/tables/run", "--starling", "build-gcc/starling", *size("tables")],
                          timeout=size("tables timeout s"))
    verdicts = re.findall(r"^table (\S+) (ok|SHORT.*)$", output, re.M)
    for name, verdict in verdicts:
        tally.add(int(verdict == "ok"), 0)
        if verdict != "ok":
            tally.fail(f"table {name} {verdict}\n{output[-6000:]}")
    if status != 0 and all(verdict == "ok" for _, verdict in verdicts):
        tally.fail(f"tests/tables/run: exit status {status}\n{output[-6000:]}")


def layers(tally):
    judge(tally, ["tests/lint/layers"])
    judge(tally, ["tests/lint/layers", "--self-test"])


def tidy(tally):
    for status, output in (configure("build-clang"), call(["ninja", "-C", "build-clang", "models/onnx.pb-c.h"])):
        if status != 0:
            return tally.fail(output[-6000:])
    judge(tally, ["tests/lint/tidy", "build-clang"])


def one(*command):
    return lambda tally: judge(tally, command)


# Programs run in one process, so that the tools see all of it; one BLAS thread, as the agent has.
CALM = {"CK_FORK": "no", "OPENBLAS_NUM_THREADS": "1", "STARLING_TEST_SIZE": "small"}
# No detect_stack_use_after_return: this compiler's fake frames ignore alignments above 32 bytes.
ASAN = {**CALM,
        "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "LSAN_OPTIONS": f"suppressions={ROOT}/tests/sanitise/lsan.supp:print_suppressions=0"}
TSAN = {**CALM, "STARLING_TEST_SIZE": "least",  # what one thread computes alone has no races however often
        "TSAN_OPTIONS": f"suppressions={ROOT}/tests/sanitise/tsan.supp:ignore_noninstrumented_modules=1"
                        ":halt_on_error=0:exitcode=66"}
SEEN_ONCE = {**CALM, "STARLING_TEST_SIZE": "least"}
VALGRIND = ("valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,possible"
            f" --suppressions={ROOT}/tests/sanitise/valgrind.supp")
# ThreadSanitizer of this compiler does not know the wide address randomisation of newer kernels.
STILL = "setarch -R" if shutil.which("setarch") and call(["setarch", "-R", "true"])[0] == 0 else None

# name, what it does
STEPS = [
    ("format", one("tests/lint/format")),
    ("layers", layers),
    ("shell", one("tests/lint/shell")),
    ("cppcheck", one("tests/lint/cppcheck")),
    ("gcc", compiles("build-gcc")),
    ("clang", compiles("build-clang")),
    ("tidy", tidy),
    ("unit", check_programs("build-gcc", ["unit"])),
    ("property", check_programs("build-gcc", ["property"], size("property"), slower=5)),
    ("golden", check_programs("build-gcc", ["golden", "twin"])),
    ("sim", simulations),
    ("tables", tables),
    ("torch", torch),
    ("unit-clang", check_programs("build-clang", ["unit", "golden"])),
    ("rates", swarm("build-gcc", size("swarm"), which=lambda stem: stem in SWARM_ALONE, at_once=1)),
    ("swarm", swarm("build-gcc", size("swarm"), which=lambda stem: stem not in SWARM_ALONE)),
    ("force", force("build-gcc")),
    ("asan", check_programs("build-asan", size("sanitised suites"), ASAN, slower=5)),
    ("asan-swarm", swarm("build-asan", size("swarm sanitised"), ASAN)),
    ("tsan", check_programs("build-tsan", size("threads suites"), TSAN, STILL, slower=10)),
    ("valgrind", check_programs("build-gcc", size("valgrind suites"), SEEN_ONCE, VALGRIND, slower=40)),
]
# A step that mostly waits, and one that computes for as long: it takes what the other leaves. The sanitised swarm waits for seconds
# that a slow agent needs itself, so it has the host to itself.
PAIRS = {"swarm": "tidy"}

if LONG: # unit replays the corpora in every run
    STEPS.append(("fuzz", fuzz("build-fuzz", ASAN)))


def run_step(name, step, nice=()):
    """(name, tally, seconds); what there is to say is said when it ends."""
    print(f"--- {name}", flush=True)
    BESIDE.nice = list(nice)
    tally, start = Tally(), time.monotonic()
    step(tally)
    seconds = time.monotonic() - start
    verdict = f"{tally.failed} FAILED" if tally.failed else "ok"
    print(*(text.rstrip() for text in tally.report), f"    {name}: {verdict}, {seconds:.1f} s", sep="\n", flush=True)
    return name, tally, seconds


def run(steps):
    rows, steps = [], dict(steps)
    beside = {PAIRS[name]: name for name in PAIRS if name in steps and PAIRS[name] in steps}
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for name, step in steps.items():
            if name in beside:
                continue
            other = PAIRS.get(name) if PAIRS.get(name) in beside else None
            pending = other and pool.submit(run_step, other, steps[other], ["nice", "-n", "19"])
            rows.append(run_step(name, step))
            if pending:
                rows.append(pending.result())
    print(f"\n{'step':<12} {'passed':>7} {'failed':>7} {'skipped':>7} {'seconds':>8}")
    for name, t, seconds in rows:
        print(f"{name:<12} {t.passed:>7} {t.failed:>7} {len(t.skipped):>7} {seconds:>8.1f}")
    for name, t, _ in rows:
        for text in t.skipped:
            print(f"SKIPPED {name}: {text}")
    return [sum(values) for values in zip(*((t.passed, t.failed, len(t.skipped)) for _, t, _ in rows))]


def main():
    names = [a for a in sys.argv[1:] if a != "--long"]
    if "--list" in names:
        print(*(name for name, _ in STEPS), sep="\n")
        return 0
    unknown = set(names) - {name for name, _ in STEPS}
    if unknown:
        print(f"tests/run: no step {', '.join(sorted(unknown))}; steps: {', '.join(n for n, _ in STEPS)}")
        return 1
    passed, failed, skipped = run([s for s in STEPS if not names or s[0] in names])
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
