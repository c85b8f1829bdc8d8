"""A control group whose processors' time can be set, for tests of what an agent does with a quota."""
import os
import pathlib
import unittest

from agents import wait_for

ROOT = pathlib.Path("/sys/fs/cgroup")


class Group:
    """Made when it is constructed, removed at the end of `with`; SkipTest where this host lets nobody make one. Beside
    others that want the processor it has `shares` times what one of them has."""

    def __init__(self, shares=1):
        v1 = ROOT / "cpu"
        self.is_v1 = (v1 / "cpu.shares").exists()
        self.folder = (v1 if self.is_v1 else ROOT) / f"starling-test-{os.getpid()}"
        try:
            self.folder.mkdir()
            self.set(1)
            self._weigh(shares)
        except OSError as error:
            if self.folder.exists():
                self.folder.rmdir()
            raise unittest.SkipTest(f"no control group with a quota can be made: {error}") from error

    def set(self, processors, period_us=20000):
        quota = str(int(processors * period_us))
        if self.is_v1:
            (self.folder / "cpu.cfs_period_us").write_text(str(period_us))
            (self.folder / "cpu.cfs_quota_us").write_text(quota)
        else:
            (self.folder / "cpu.max").write_text(f"{quota} {period_us}")

    def _weigh(self, shares):
        file, usual, most = ("cpu.shares", 1024, 262144) if self.is_v1 else ("cpu.weight", 100, 10000)
        (self.folder / file).write_text(str(min(most, usual * shares)))

    def enters(self):
        """The beginning of a command that runs in it."""
        return ["/bin/sh", "-c", f'echo $$ > {self.folder}/cgroup.procs; exec "$0" "$@"']

    def __enter__(self):
        return self

    def __exit__(self, *_):
        def is_gone():
            try:
                self.folder.rmdir()
            except OSError:
                return False
            return True
        wait_for(is_gone, 10, "the control group is empty")
