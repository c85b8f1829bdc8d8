"""The power goes while the store writes: see powercut.c."""
from campaigns.force import Outcome, control, counted

CONTROLS = {"normal": "SQLite ran with synchronous=NORMAL", "files": "no file was synced", "folder": "their folder was not synced"}


def cuts(sizes):
    n_cuts, n_images = sizes.of(150, 1000), sizes.of(4, 12)
    runs, failures, lines = counted([sizes.program("powercut"), "rounds", n_cuts, n_images, 1], 1200)
    found = {}
    for word, what in CONTROLS.items():
        _, of_control, _ = counted([sizes.program("powercut"), "rounds", 40, 3, 1, word], 300)
        failures += control(of_control, what)
        found[word] = len(of_control)
    told = ", ".join(f"{word} {n}" for word, n in found.items())
    return Outcome(n_cuts, failures, None, f"{runs} disks, {lines[-2]}, controls of 120 disks lose {told}")


def migration(sizes):
    """A database of version 1 is brought up, and the power goes, or the program is killed, after each of its calls."""
    runs, failures, lines = counted([sizes.program("powercut"), "migration", sizes.of(120, 2000), 5, 1], 1200)
    _, of_control, _ = counted([sizes.program("powercut"), "migration", 100, 5, 1, "bare"], 300)
    failures += control(of_control, "the steps ran outside of a transaction")
    return Outcome(runs // 5, failures, None, f"{runs} disks, {lines[-2]}, control loses {len(of_control)} of 500")
