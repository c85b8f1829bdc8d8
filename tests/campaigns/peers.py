"""Peers that are slow or flood, within the memory that was promised."""
import struct
import time

from agents import Swarm
from campaigns.force import Outcome, control
from test_flood import forget_peak, memory_mib
from test_hostile import ASK, CHUNK_BYTES, FLOODS, FULL, GET, MANIFEST, Liar, wait_for

PARAMETERS = 4 * 512 + 512 + 512 * 256 + 256 + 256 * 3 + 3


def memory(sizes):
    """x floods with one kind of message after the other, y asks for megabytes and reads nothing; a and b go on."""
    failures, kinds = [], list(FLOODS)
    with Swarm("abxy", [("a", "b"), ("a", "x"), ("a", "y")], rows=200, test_rows=60,
               job={"model": "dense 512, relu, dense 256, relu, dense classes", "train": {"epochs": None, "steps": 4}},
               site={"round": {"deadline_min_s": 0.2, "deadline_max_s": 1, "meet_s": 1}}) as swarm:
        a = swarm.start("ab")["a"]
        a.wait_round(3, 30)
        forget_peak(a)
        before, n_flooded, epoch = a.job()["round"], 0, 1
        with Liar(swarm["y"], a, epoch) as slow:
            slow.hello(), slow.state(), slow.is_patient()
            slow.send(ASK, slow.job + struct.pack("<BQB", FULL, 0, 1))
            m = wait_for(lambda: [body for kind, body in slow.heard if kind == MANIFEST], 10, "a offers its model")[-1]
            chunks = -(-struct.unpack("<Q", m[256:264])[0] // CHUNK_BYTES)
            slow.process.send_signal(19)  # it reads nothing more
            slow.process.send_signal(18)
            end = time.monotonic() + sizes.of(8, 60)
            while time.monotonic() < end:
                epoch += 1
                try:
                    with Liar(swarm["x"], a, epoch) as flooder:
                        flooder.hello(), flooder.state()
                        flooder.flood(1, *FLOODS[kinds[epoch % len(kinds)]](flooder))
                        for i in range(200):
                            slow.send(GET, slow.job + m[224:264] + struct.pack("<II", i % chunks, 1))
                        wait_for(lambda: flooder.flooded, 10, "the flood is over")
                        n_flooded += sum(flooder.flooded)
                except AssertionError:
                    time.sleep(0.2)  # it was sent away for a while
        peak, went_on = memory_mib(a, "VmHWM"), a.job()["round"] - before
    budget = 4 * 4 * PARAMETERS / 2**20 + 64 + 32
    if went_on < 3:
        failures.append(f"only {went_on} rounds")
    failures += control(n_flooded > 500, f"the flood was {n_flooded} messages")
    return Outcome(epoch - 1, failures, peak / budget, f"peak {peak:.0f} MiB of {budget:.0f}, {n_flooded} messages, {went_on} rounds meanwhile")
