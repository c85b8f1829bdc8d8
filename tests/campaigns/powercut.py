"""The power goes while the store writes: see powercut.c."""
from campaigns.force import Outcome, control, counted

CONTROLS = {"normal": "SQLite ran with synchronous=NORMAL", "files": "no file was synced", "folder": "their folder was not synced"}


def cuts(sizes):
    n_cuts, n_images = sizes.of(150, 1000), sizes.of(4, 12)
    runs, failures, lines = counted([sizes.program("powercut"), n_cuts, n_images, 1], 1200)
    found = {}
    for word, what in CONTROLS.items():
        _, of_control, _ = counted([sizes.program("powercut"), 40, 3, 1, word], 300)
        failures += control(of_control, what)
        found[word] = len(of_control)
    told = ", ".join(f"{word} {n}" for word, n in found.items())
    return Outcome(n_cuts, failures, None, f"{runs} disks, {lines[-2]}, controls of 120 disks lose {told}")
