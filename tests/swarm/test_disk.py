#!/usr/bin/python3
"""A disk that fills, is made room on, and turns read-only: each rung of the ladder is seen, and left by itself."""
import contextlib
import ctypes
import os
import pathlib
import subprocess
import time
import unittest

from agents import Swarm, main, options, ring, wait_for

# 0.3 MB a copy, some 1.6 MB a round; short rounds, so that each rung is met soon.
JOB = {"model": "dense 256, relu, dense 256, relu, dense classes", "train": {"batch": 64}}
RESERVE = 1 << 20  # DISK_RESERVE_BYTES
RESUMED_S = 10
CAP_MIB = 64


def enter_namespace():
    """This process gets mounts of its own, as root or as root of a user namespace; None, or why not."""
    clone_newns, clone_newuser = 0x00020000, 0x10000000
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(clone_newns) != 0:
        if libc.unshare(clone_newns | clone_newuser) != 0:
            return f"no mount namespace: {os.strerror(ctypes.get_errno())}"
        pathlib.Path("/proc/self/setgroups").write_text("deny")
        pathlib.Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        pathlib.Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    return mount("--make-rprivate", "/")


def mount(*arguments):
    """None, or what mount said."""
    done = subprocess.run(["mount", *map(str, arguments)], stderr=subprocess.PIPE, text=True, check=False)
    return done.stderr.strip() or None


class Ballast:
    """A file that takes room until so much is left; real bytes where the disk itself is to be full."""

    def __init__(self, folder, max_bytes=None):
        """max_bytes: what the folder may take; None: what its file system has."""
        self.path, self.max_bytes, self.is_real = folder / "ballast", max_bytes, max_bytes is None

    def free(self):
        """Now; what the agent says is as old as its last measurement."""
        if self.is_real:
            room = os.statvfs(self.path.parent)
            return room.f_bavail * room.f_frsize
        taken = 0
        for file in self.path.parent.rglob("*"):
            with contextlib.suppress(FileNotFoundError): # it has gone meanwhile
                taken += file.stat().st_size if file.is_file() else 0
        return max(0, self.max_bytes - taken)

    def leave(self, n_bytes):
        size = self.path.stat().st_size if self.path.exists() else 0
        self.resize(max(0, size + self.free() - n_bytes))

    def resize(self, n_bytes):
        with open(self.path, "ab") as file:
            if self.is_real and n_bytes > file.tell():
                try:
                    os.posix_fallocate(file.fileno(), 0, n_bytes)
                except OSError:
                    pass  # full: that is what it is for
            else:
                file.truncate(n_bytes)

    def fill(self):
        """Takes what is left, again and again: what the agent lets go meanwhile too."""
        size = self.path.stat().st_size if self.path.exists() else 0
        step = 4096 if self.is_real else 1 << 20
        for _ in range(4096 if self.is_real else 1):
            before, size = size, size + step
            self.resize(size)
            if self.path.stat().st_size == before:
                break

    def drop(self):
        self.path.unlink(missing_ok=True)


class Ladder:
    """What both kinds of a full disk have to show."""

    def climb_down_and_up(self, swarm, ballast):
        a, b = swarm["a"], swarm["b"]
        swarm.run_on(4, 60)
        self.assertEqual(a.status()["disk"]["state"], "ok")
        need = self.round_bytes(a)

        ballast.leave(RESERVE + need * 5 // 2)
        self.wait_state(a, "low")
        status = a.status()
        self.assertEqual(status["word"], "DEGRADED", status["why"])
        self.assertIn("more rounds", status["why"])
        swarm.run_on(2, 60)
        kept = [row for row in a.committed() if row["model"]]
        self.assertEqual(len(kept), 1, "the models beyond the newest are let go")
        self.assertEqual(self.reason_at(b, "a"), "ok")

        def is_left_out():
            # Updates that grow old make room, so again and again. A commit and the next update, written at once, still fit: what
            # is under way then is not refused for good.
            ballast.leave(RESERVE + need * 3 // 4)
            row = b.round(b.committed()[-1]["label"])
            return row if row["peers"]["a"]["reason"] == "no-update" else None
        row = wait_for(is_left_out, 30, "it publishes that there is no update", every=0.1)
        self.assertLess(row["seconds"], 10, "nobody waits for it")
        self.assertIn("disk-tight", self.events(a))
        swarm.run_on(2, 60)
        self.assertEqual(self.reason_at(a, "b"), "ok", "it merges")

        def is_halted():
            ballast.fill()
            return a.status()["disk"]["state"] == "halted"
        wait_for(is_halted, 60, "it is halted", every=0.1)
        status = a.status()
        self.assertEqual(status["word"], "HALTED", status["why"])
        self.assertEqual(a.cli("health").code, 1)
        stands, before = status["job"]["round"], set(self.rows(a))

        ballast.drop()
        begin = time.monotonic()
        wait_for(lambda: a.status()["job"]["round"] > stands and a.status()["disk"]["state"] == "ok", RESUMED_S,
                 "it goes on", every=0.1)
        print(f"goes on {time.monotonic() - begin:.1f} s after there is room")
        self.assertEqual(a.cli("health").code, 0)
        swarm.run_on(3, 60)
        self.assertEqual(self.reason_at(b, "a"), "ok")
        self.nothing_is_lost(a, before)
        self.check_events(a)

    def check_events(self, site):
        ladder = [name for name in self.events(site)
                  if name in ("disk-low", "disk-tight", "halted", "resumed", "disk-ok")]
        self.assertEqual(ladder[:2], ["disk-low", "disk-tight"], ladder)
        self.assertEqual(ladder[-3:-1].count("halted") + ladder[-3:].count("resumed"), 2, ladder)
        self.assertEqual(ladder.count("halted"), ladder.count("resumed"), ladder)
        self.assertIn("disk-ok", ladder[-2:])

    def events(self, site):
        """As they happened: of what could not be written then the row comes later."""
        return [name for (name,) in site.query("SELECT name FROM event ORDER BY at_unix_s, id")]

    def nothing_is_lost(self, site, before):
        """No round that was committed is missing, no number of an update was skipped, and what is kept is whole."""
        self.assertEqual(before - set(self.rows(site)), set())
        sequences = [number for (number,) in site.query("SELECT sequence FROM publication ORDER BY sequence")]
        self.assertEqual(sequences, list(range(1, len(sequences) + 1)))
        last = site.committed()[-1]["round"]
        site.kill()
        site.start()
        site.wait_round(last + 1, 30)

    def rows(self, site):
        return site.query("SELECT round, sub, sequence, outcome FROM commitment")

    def round_bytes(self, site):
        return site.ask("config", "check")["written_bytes"]

    def reason_at(self, site, peer):
        return site.round(site.committed()[-1]["label"])["peers"][peer]["reason"]

    def wait_state(self, site, state):
        wait_for(lambda: site.status()["disk"]["state"] == state, 20, f"its disk is {state}", every=0.1)


class Cap(Ladder, unittest.TestCase):
    def test_ladder(self):
        """store.max_mib, as an ordinary user."""
        with Swarm("abc", ring("abc"), job=JOB, sites={"a": {"store": {"max_mib": CAP_MIB}}}) as swarm:
            a = swarm["a"]
            self.assertEqual(a.cli("config", "check").err, "")
            swarm.write_site("a", store={"max_mib": 4})
            self.assertIn("store.max_mib is 4", a.cli("config", "check").err)
            swarm.write_site("a")
            swarm.start()
            self.climb_down_and_up(swarm, Ballast(swarm["a"].state, CAP_MIB << 20))


class Sync(unittest.TestCase):
    def setUp(self):
        self.shim = pathlib.Path(options.starling).parent / "tests/swarm/libsync_shim.so"
        if not self.shim.exists():
            self.skipTest("sync_shim is not built")
        if options.small:
            self.skipTest("a preloaded library and a sanitiser's exclude each other")

    def test_between_rounds(self):
        """A pin whose sync fails ends the agent with 5, for its store writes nothing any more; a restart recovers."""
        with Swarm("ab", ring("ab"), site={"round": {"every_s": 1000}}) as swarm:
            a, refuses = swarm["a"], swarm.folder / "refuses"
            a.environment = {**os.environ, "LD_PRELOAD": str(self.shim), "SYNC_SHIM_FILE": str(refuses)}
            swarm.start()
            a.wait_round(1, 30)
            refuses.touch()
            self.assertNotEqual(a.cli("models", "pin", 1).code, 0)
            self.assertEqual(a.wait_ended(10), 5, a.log)
            self.assertIn("store-failed", a.log)
            refuses.unlink()
            a.start()
            wait_for(a.answers, 10, "it answers again")
            self.assertEqual(a.cli("models", "pin", 1).code, 0)
            self.assertIn("pinned", a.cli("models", "list").out)


class Mounted(Ladder, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = enter_namespace()
        if why:
            raise unittest.SkipTest(why)

    @contextlib.contextmanager
    def small_state(self, swarm):
        """The state directory on a file system of its own."""
        state = swarm["a"].state
        state.mkdir(mode=0o700)
        why = mount("-t", "tmpfs", "-o", "size=48m,mode=0700", "none", state)
        if why:
            self.skipTest(why)
        try:
            yield state
        finally:
            subprocess.run(["umount", "-l", state], check=True)

    def test_ladder(self):
        """A small file system that fills."""
        with Swarm("abc", ring("abc"), job=JOB) as swarm, self.small_state(swarm) as state:
            swarm.start()
            self.climb_down_and_up(swarm, Ballast(state))

    def test_read_only(self):
        """It waits for a file system that is read-only at its start and goes on when it can be written."""
        with Swarm("ab", ring("ab")) as swarm, self.small_state(swarm) as state:
            a = swarm.start()["a"]
            last = swarm.run_on(2, 60)
            a.stop()
            self.assertIsNone(mount("-o", "remount,ro", state))
            a.start()
            wait_for(lambda: "exit=" in a.log or "read-only" in a.log.split("stopped")[-1], 20, "it met the disk")
            self.assertTrue(a.is_running, "it waits")
            self.assertIsNone(mount("-o", "remount,rw", state))
            begin = time.monotonic()
            wait_for(a.answers, RESUMED_S, "it goes on")
            a.wait_round(last + 2, RESUMED_S)
            print(f"goes on {time.monotonic() - begin:.1f} s after it can be written")


if __name__ == "__main__":
    main()
