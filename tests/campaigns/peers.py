"""Peers that are slow or flood, within the memory that was promised."""
import contextlib
import struct
import time

from agents import Swarm
from campaigns.force import Outcome, control
from test_flood import forget_peak, memory_mib
from test_hostile import ASK, CHUNK_BYTES, FLOODS, FULL, GET, MANIFEST, Liar, wait_for

PARAMETERS = 4 * 512 + 512 + 512 * 256 + 256 + 256 * 3 + 3


def unread_bytes(site):
    """What the agent has sent on its connections and nobody has taken, by the kernel's table of them."""
    rows = [line.split() for line in open("/proc/net/tcp", encoding="ascii").readlines()[1:]]
    return sum(int(row[4].split(":")[0], 16) for row in rows if int(row[1].split(":")[1], 16) == site.port)


class Deaf:
    """y asks for the agent's model again and again and reads nothing; once it is sent away, it comes again."""

    def __init__(self, site, victim):
        self.site, self.victim, self.epoch, self.liar, self.n_asked, self.most_unread = site, victim, 0, None, 0, 0

    def come(self):
        self.epoch += 1
        self.liar = liar = Liar(self.site, self.victim, self.epoch)
        liar.hello(), liar.state(), liar.is_patient()
        liar.send(ASK, liar.job + struct.pack("<BQB", FULL, 0, 1))
        m = wait_for(lambda: [body for kind, body in liar.heard if kind == MANIFEST], 10, "a offers its model")[-1]
        self.place, self.n_chunks = m[224:264], -(-struct.unpack("<Q", m[256:264])[0] // CHUNK_BYTES)
        liar.is_deaf()

    def ask(self, n):
        try:
            if self.liar is None or self.liar.process.poll() is not None:
                self.leave()
                self.come()
        except AssertionError:  # it was sent away for a while
            return
        for i in range(n):
            self.n_asked += self.liar.send(GET, self.liar.job + self.place + struct.pack("<II", i % self.n_chunks, 1))
        with contextlib.suppress(AssertionError):
            wait_for(self.is_stuck, 2, "what it asked for waits")

    def is_stuck(self):
        self.most_unread = max(self.most_unread, unread_bytes(self.victim))
        return self.most_unread > CHUNK_BYTES

    def leave(self):
        if self.liar is not None:
            self.liar.__exit__()
            self.liar = None


def memory(sizes):
    """x floods with one kind of message after the other, y asks for megabytes and reads nothing; a and b go on."""
    failures, kinds = [], list(FLOODS)
    with Swarm("abxy", [("a", "b"), ("a", "x"), ("a", "y")], rows=200, test_rows=60,
               job={"model": "dense 512, relu, dense 256, relu, dense classes", "train": {"epochs": None, "steps": 4}},
               site={"round": {"deadline_min_s": 0.2, "deadline_max_s": 1, "meet_s": 1}}) as swarm:
        a = swarm.start("ab")["a"]
        a.wait_round(3, 30)
        forget_peak(a)
        before, n_flooded, epoch, deaf = a.job()["round"], 0, 1, Deaf(swarm["y"], a)
        end = time.monotonic() + sizes.of(8, 60)
        while time.monotonic() < end:
            epoch += 1
            try:
                with Liar(swarm["x"], a, epoch) as flooder:
                    flooder.hello(), flooder.state()
                    flooder.flood(1, *FLOODS[kinds[epoch % len(kinds)]](flooder))
                    deaf.ask(200)
                    wait_for(lambda: flooder.flooded, 10, "the flood is over")
                    n_flooded += sum(flooder.flooded)
            except AssertionError:
                time.sleep(0.2)  # it was sent away for a while
        deaf.ask(0)
        deaf.leave()
        peak, went_on = memory_mib(a, "VmHWM"), a.job()["round"] - before
    budget = 4 * 4 * PARAMETERS / 2**20 + 64 + 32
    if went_on < 3:
        failures.append(f"only {went_on} rounds")
    failures += control(n_flooded > 500, f"the flood was {n_flooded} messages")
    failures += control(deaf.most_unread > CHUNK_BYTES, f"a peer that reads nothing had {deaf.most_unread} bytes unread")
    return Outcome(epoch - 1, failures, peak / budget,
                   f"peak {peak:.0f} MiB of {budget:.0f}, {n_flooded} messages, {deaf.n_asked} chunks asked for and at most "
                   f"{deaf.most_unread / 1024:.0f} KiB unread, {went_on} rounds meanwhile")
