"""How soon an agent is there: for its peers, and after a kill with a large model; what it costs when it has nothing to do."""
import os
import statistics
import subprocess
import time

from agents import Swarm, seconds_to, wait_for
from campaigns.crash import resumed, seconds_to_work, start, wait_trains
from campaigns.force import Outcome, control

BIG = "dense 4096, relu, dense 4096, relu, dense classes"  # 64 MiB


def first_session(sizes):
    """From the start of a process to a session with a peer that waits for it."""
    seconds = []
    with Swarm("ab", [("a", "b")], rows=60, test_rows=60) as swarm:
        a, b = swarm["a"], swarm["b"]
        a.start().wait_answers()
        for _ in range(sizes.of(5, 30)):
            start(b)
            wait_for(lambda: a.state_of("b") == "alive", 20, "they have a session", every=0.005)
            seconds.append(seconds_to(b, "peer-connected peer=a", b.started_at))  # a limits how often it says so
            b.stop()
            wait_for(lambda: a.state_of("b") != "alive", 20, "it is gone", every=0.01)
    with Swarm("ab", [("a", "b")], rows=60, test_rows=60, peers={"a": {"b": {"address": None}}, "b": {"a": {"address": None}}}) as swarm:
        swarm.start()
        swarm["a"].wait_answers()
        time.sleep(1)
        failures = control(swarm["a"].state_of("b") != "alive", "nobody knew an address")
    return Outcome(len(seconds), failures, statistics.median(seconds), f"worst {max(seconds):.3f} s")


def went_back(site, told):
    label = resumed(site, site.log_from) or (0, 0)
    return [f"round {told} was told, it began again at {label[0]}"] if label[0] < told else []


def recovery(sizes):
    """kill -9 of an agent with a model of 64 MiB: from its start to work on a round."""
    seconds, failures = [], []
    with Swarm("a", [], rows=8, test_rows=8, sites={"a": {"listen": []}},
               job={"model": BIG, "train": {"epochs": None, "steps": 1, "batch": 8, "learning_rate": 0.001}}) as swarm:
        a = swarm["a"]
        start(a)
        a.wait_round(1, 120)
        for _ in range(sizes.of(3, 20)):
            told = a.job()["round"]
            a.kill()
            start(a)
            wait_trains(a, 60)
            seconds.append(seconds_to_work(a))
            failures += went_back(a, told)
            a.wait_round(a.job()["round"] + 1, 120)
        told = a.job()["round"]
        a.kill()
        subprocess.run(["rm", "-r", a.state], check=True)
        start(a)
        wait_trains(a, 60)
        failures += control(went_back(a, told), "the state was gone")
    return Outcome(len(seconds), failures, max(seconds), f"the worst; median {statistics.median(seconds):.2f} s; with a model of 64 MiB")


def cpu_s(site):
    with open(f"/proc/{site.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_shares(swarm, seconds):
    """What each takes of a core meanwhile, in percent."""
    begin, before = time.monotonic(), {site.name: cpu_s(site) for site in swarm}
    time.sleep(seconds)
    return [100 * (cpu_s(site) - before[site.name]) / (time.monotonic() - begin) for site in swarm]


def idle(sizes):
    """Three agents that have finished, with sessions between them; the control is the same before they have."""
    with Swarm("abc", [("a", "b"), ("b", "c"), ("a", "c")], rows=60, test_rows=60, job={"count": 200}) as swarm:
        swarm.start()
        swarm.run_on(2, 60)
        working = cpu_shares(swarm, 0.5)
        swarm.wait_finished(60)
        shares = cpu_shares(swarm, sizes.of(6, 60))
    return Outcome(3, control(max(working) > 1, f"they learnt at {working} %"), max(shares), f"{[round(s, 2) for s in shares]} % of a core")
