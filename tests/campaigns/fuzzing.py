"""Every parser of foreign bytes: in short the corpora and mutants of them, at night libFuzzer by its own count."""
import concurrent.futures
import os
import re
import subprocess

from campaigns.force import Outcome, control

FUZZ_S = 90  # a target at night


def targets(root):
    return re.findall(r"^  \['(\w+)',", (root / "tests/fuzz/meson.build").read_text(), re.M)


def programs(root):
    return [f"tests/fuzz/fuzz_{name}" for name in targets(root)]


def run(command, sizes, timeout, **more):
    return subprocess.run(list(map(str, command)), cwd=sizes.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=timeout, check=False, env={**os.environ, **more})


def replay(sizes, name):
    """(executions, what failed)."""
    done = run([sizes.folder / f"tests/fuzz/fuzz_{name}", f"tests/fuzz/{name}"], sizes, 300, STARLING_TEST_SIZE="small")
    files = sum(line.startswith(f"tests/fuzz/{name}/") for line in done.stdout.splitlines())
    return files * 101, [] if done.returncode == 0 else [f"{name} ended with {done.returncode}: {done.stdout[-400:]}"]


def fuzz(sizes, name):
    found, grown = (sizes.root / "build-fuzz" / place / name for place in ("findings", "corpus"))
    for place in found, grown:
        place.mkdir(parents=True, exist_ok=True)
    done = run([f"build-fuzz/tests/fuzz/fuzzer_{name}", f"-max_total_time={FUZZ_S}", "-timeout=25", "-rss_limit_mb=2048",
                "-print_final_stats=1", f"-artifact_prefix={found}/", grown, f"tests/fuzz/{name}"], sizes, FUZZ_S + 120,
               ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="halt_on_error=1")
    counts = re.findall(r"stat::number_of_executed_units:\s+(\d+)", done.stdout)
    return sum(map(int, counts)), [] if done.returncode == 0 else [f"{name}: the input is in {found}: {done.stdout[-400:]}"]


def build_fuzzers(sizes, names):
    folder = sizes.root / "build-fuzz"
    if not (folder / "build.ninja").exists():
        run(["meson", "setup", folder, "-Db_lundef=false", "-Db_sanitize=address,undefined", "-Doptimization=1",
             "-Dc_args=-fsanitize=fuzzer-no-link"], sizes, 300, CC="clang")
    done = run(["ninja", "-C", folder, *(f"tests/fuzz/fuzzer_{name}" for name in names)], sizes, 1800)
    return [] if done.returncode == 0 else [f"the fuzzers do not build: {done.stdout[-600:]}"]


def all_targets(sizes):
    names = targets(sizes.root)
    failures = build_fuzzers(sizes, names) if sizes.is_long else []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda name: (fuzz if sizes.is_long else replay)(sizes, name), names)) if not failures else []
    executions = sum(n for n, _ in done)
    failures += [text for _, found in done for text in found]
    failures += control(all(n > 0 for n, _ in done) and done, "a target executed nothing")
    return Outcome(executions, failures, executions / 1e6, f"{len(names)} targets; {', '.join(f'{t} {n}' for t, (n, _) in zip(names, done))}")
