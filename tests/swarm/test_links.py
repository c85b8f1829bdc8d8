#!/usr/bin/python3
"""Links and hosts that misbehave without malice: a black hole, an agent that stands still, a clock that jumps."""
import mmap
import os
import pathlib
import signal
import struct
import time
import unittest

from agents import Swarm, main, options, seconds_to, utc_now, wait_for
from network import Network, why_not

NOTICED_S, HEALED_S, BACK_S = 5, 2, 5
DEADLINE_S = 1


def pair(**more):
    return Swarm("ab", [("a", "b")], rows=60, test_rows=60, **{
        "site": {"round": {"deadline_min_s": 0.2, "deadline_max_s": DEADLINE_S, "meet_s": 5}}, **more})


def seconds_until(condition, timeout, what):
    begin = time.monotonic()
    wait_for(condition, timeout, what, every=0.05)
    return time.monotonic() - begin


def both_alive(swarm):
    return swarm["a"].state_of("b") == "alive" and swarm["b"].state_of("a") == "alive"


def logged_by_both(swarm, event, since):
    """Seconds until the later of the two logged it."""
    return max(seconds_to(swarm[site], f"{event} peer={other}", since) for site, other in (("a", "b"), ("b", "a")))


def is_lost(site, name):
    """No session stands; a peer that has only missed a round is something else."""
    return site.state_of(name) in ("no-session", "unreachable", "no-answer", "absent")


def merges(swarm):
    """Until both have merged with each other in a round that begins now."""
    for site, other in (("a", "b"), ("b", "a")):
        now = swarm[site].status()["job"]["round"]
        wait_for(lambda: any(row["round"] > now and row["merged"] == 1 for row in swarm[site].committed()), 30,
                 f"{site} merges with {other}")


class BlackHole(unittest.TestCase):
    def setUp(self):
        if why_not():
            self.skipTest(why_not())

    def cut_and_heal(self, swarm, network, lasts_s):
        """How long the two take to notice, and to go on once the link has healed."""
        begin, cut_at = time.monotonic(), utc_now()
        network.cut("b")
        wait_for(lambda: is_lost(swarm["a"], "b") and is_lost(swarm["b"], "a"), 30, "both notice", every=0.05)
        noticed = logged_by_both(swarm, "peer-disconnected", cut_at)
        time.sleep(max(0, begin + lasts_s - time.monotonic()))
        healed_at = utc_now()
        network.heal("b")
        wait_for(lambda: both_alive(swarm), 60, "both use the link again", every=0.05)
        healed = logged_by_both(swarm, "peer-connected", healed_at)
        merges(swarm)
        print(f"[lasted {lasts_s} s: noticed {noticed:.2f} s, used {healed:.2f} s]", end=" ", flush=True)
        return noticed, healed

    def check(self, durations, **more):
        with Network("ab") as network, pair(**more) as swarm:
            for site in swarm:
                site.host, site.prefix = network.address(site.name), network.inside(site.name)
            for name in "ab":
                swarm.write_site(name)
            swarm.start()
            wait_for(lambda: swarm["a"].answers() and swarm["b"].answers() and both_alive(swarm), 10, "they have met")
            merges(swarm)
            for lasts_s in durations:
                noticed, healed = self.cut_and_heal(swarm, network, lasts_s)
                self.assertLessEqual(noticed, NOTICED_S)
                self.assertLessEqual(healed, HEALED_S)

    def test_black_hole(self):
        self.check((6, 9.3, 20, 40, 55) if options.long else (6, 9.3))

    def test_only_one_dials(self):
        self.check((7, 13.7, 31) if options.long else (7,), peers={"a": {"b": {"address": None}}})

    def test_large_payloads(self):
        """Cut while megabytes are on their way."""
        self.check((6, 8, 12) if options.long else (6,),
                   job={"model": "dense 1024, relu, dense 512, relu, dense classes"})


class StandsStill(unittest.TestCase):
    def test_stopped_for_10_s(self):
        with pair() as swarm:
            swarm.start()
            wait_for(lambda: swarm["a"].answers() and swarm["b"].answers() and both_alive(swarm), 10, "they have met")
            merges(swarm)
            swarm["b"].signal(signal.SIGSTOP)
            noticed = seconds_until(lambda: is_lost(swarm["a"], "b"), 10, "a notices")
            time.sleep(10 - noticed)
            swarm["b"].signal(signal.SIGCONT)
            back = seconds_until(lambda: both_alive(swarm), 30, "b is back")
            merges(swarm)
            print(f"[noticed {noticed:.2f} s, back {back:.2f} s]", end=" ")
            self.assertLessEqual(back, BACK_S)
            if not options.small:
                self.assertLessEqual(noticed, NOTICED_S)

    def test_stopped_for_a_moment(self):
        """Nobody is lost for 2 s."""
        with pair() as swarm:
            swarm.start()
            wait_for(lambda: swarm["a"].answers() and swarm["b"].answers() and both_alive(swarm), 10, "they have met")
            merges(swarm)
            swarm["b"].signal(signal.SIGSTOP)
            time.sleep(2)
            swarm["b"].signal(signal.SIGCONT)
            merges(swarm)
            for site in swarm:
                self.assertNotIn("peer-disconnected", site.log)


class Clock:
    """A wall clock that can be set: a file that the preloaded clock_shim adds to every reading, in seconds."""

    def __init__(self, folder):
        self.file = folder / "clock"
        self.file.write_bytes(bytes(8))

    @property
    def environment(self):
        return {**os.environ, "LD_PRELOAD": str(shim()), "CLOCK_SHIM_FILE": str(self.file)}

    def set(self, offset_s):
        with open(self.file, "r+b") as file, mmap.mmap(file.fileno(), 8) as view:
            view[:] = struct.pack("<q", offset_s)


def shim():
    return pathlib.Path(options.starling).parent / "tests/swarm/libclock_shim.so"


class ClockJumps(unittest.TestCase):
    N_ROUNDS = 200
    YEARS = (10, -10, 0)

    def setUp(self):
        if not shim().exists():
            self.skipTest("clock_shim is not built")
        if options.small:
            self.skipTest("a preloaded library and a sanitiser's exclude each other")

    def run_to_the_end(self, swarm, jump=None):
        swarm.start()
        wait_for(lambda: all(site.answers() for site in swarm), 10, "both answer")
        if jump:
            jump(swarm)
        swarm.wait_finished(60)
        models = {site.name: site.models() for site in swarm}
        seconds = sum(row["seconds"] for row in swarm["a"].committed())
        swarm.stop()
        return models, seconds

    def test_clock_jumps(self):
        """Ten years on, ten back and home: same models to the bit, same pace, no lost session; only the log shows it."""
        with pair(job={"count": self.N_ROUNDS},
                  site={"round": {"deadline_min_s": 60, "deadline_max_s": 60, "meet_s": 20}}) as swarm:
            undisturbed, seconds = self.run_to_the_end(swarm)
            swarm.remove_states()
            clock = Clock(swarm.folder)
            for site in swarm:
                site.log_file.unlink()
                site.environment = clock.environment

            def jump(swarm):
                for i, years in enumerate(self.YEARS, 1):
                    swarm["a"].wait_round(self.N_ROUNDS * i // 5, 60)
                    clock.set(years * 365 * 86400)
            jumped, jumped_seconds = self.run_to_the_end(swarm, jump)
            self.assertEqual(jumped, undisturbed)
            self.assertLess(jumped_seconds, 3 * seconds + 1)
            year = time.gmtime().tm_year
            for site in swarm:
                self.assertEqual(site.log.count("peer-connected"), 1)
                for when in (year, year + 9, year - 10):
                    self.assertRegex(site.log, f"(?m)^({when}|{when + 1})-", site.name)


if __name__ == "__main__":
    main()
