"""Networks that lose, cut, delay and reset, and agents that die in them: rounds go on, and what is learnt is as good as
undisturbed."""
import contextlib
import functools
import random
import re
import select
import socket
import struct
import subprocess
import threading
import time

import agents
import network
import test_links
from agents import Swarm, ring, wait_for
from campaigns.force import Outcome, control
from test_crash import CRIMES, accuracy

CHORDS = {8: [("a", "e"), ("b", "f"), ("c", "g"), ("d", "h")], 12: [("a", "g"), ("b", "h"), ("c", "i"), ("d", "j"), ("e", "k"), ("f", "l")]}
DEADLINE_S = 1.0
N_UNDISTURBED = 150
SLACK_S = 4.0  # what a busy machine adds to a round


def skip_without(*commands):
    why = network.why_not(*commands)
    if why:
        raise agents.unittest.SkipTest(why)


def learning_swarm(n, every_s=0.15, **more):
    """Each site lacks a class, and the task is convex, so that half a point in the end is a lost contribution and no noise.
    4000 test points: one is 0.025 points."""
    names = "abcdefghijkl"[:n]
    shares = {name: [c for k, c in enumerate(agents.CLASSES) if k != i % 3] for i, name in enumerate(names)}
    return Swarm(names, ring(names, *CHORDS[n]), rows=300, test_rows=4000, shares=shares,
                 job={"model": "dense classes", "train": {"epochs": 4, "batch": 32, "learning_rate": 0.01}},
                 site={"round": {"deadline_min_s": 0.5, "deadline_max_s": DEADLINE_S, "every_s": every_s, "meet_s": 10}}, **more)


def once(function):
    """Its result is kept; who asks meanwhile waits for it."""
    lock, kept = threading.Lock(), functools.lru_cache(function)

    @functools.wraps(function)
    def ask(*arguments):
        with lock:
            return kept(*arguments)
    return ask


@once
def undisturbed_rounds(n):
    """Mean accuracy, in percent, of every round."""
    with learning_swarm(n, every_s=0.02) as swarm:
        swarm.start()
        last = swarm.run_on(N_UNDISTURBED, 120)
        rows = [dict(site.query("SELECT round, global_headline FROM commitment WHERE sub = 0")) for site in swarm]
    return {number: 100 * sum(row[number] for row in rows) / n for number in range(1, last) if all(number in row for row in rows)}


def undisturbed(n, number):
    known = undisturbed_rounds(n)
    return known[min(number, max(known))]


@once
def never_met(n):
    """Mean accuracy, in percent, of agents without peers: what all comparisons with `undisturbed` must see."""
    with learning_swarm(n) as apart:
        for name in apart.names:
            apart.write_site(name, peers=[])
        apart.start()
        return accuracy(apart, apart.run_on(10, 90))


def told_apart(n, number, bound):
    """The failures of a campaign that would not see that agents never met."""
    return control(abs(never_met(n) - undisturbed(n, number)) > bound, f"agents that never met reach {never_met(n):.1f} %")


@contextlib.contextmanager
def in_namespaces(n):
    with learning_swarm(n) as swarm, network.Network(swarm.names) as net:
        for site in swarm:
            site.host, site.prefix = net.address(site.name), net.inside(site.name)
        for name in swarm.names:
            swarm.write_site(name)
        swarm.start()
        swarm.run_on(5, 60)
        yield swarm, net


def rounds_of(site, first, last):
    return [row for row in site.committed() if first <= row["round"] <= last]


def late(swarm, since, limit_s=DEADLINE_S + SLACK_S):
    """Rounds that did not end by their deadline, and what a busy machine adds; training itself takes next to nothing."""
    return [f"{site.name}: round {row['label']} took {row['seconds']:.1f} s" for site in swarm for row in site.committed()
            if row["round"] > since.get(site.name, 0) and row["seconds"] > limit_s]


def timed(swarm, since):
    """The failures of a campaign whose rounds `late` does not see: of those with a peer missing some lasted to the deadline."""
    return control(late(swarm, since, 0.4 * DEADLINE_S), "rounds waited for a dead peer until the deadline")


def merged_across(swarm, rows):
    """Those sites that merged more in one of these rounds ({site: rows}) than their half of the ring has."""
    return [f"{site.name} merged over the cut" for site in swarm for row in rows[site.name]
            if row["merged"] > sum((other in "abcd") == (site.name in "abcd") for other in swarm.neighbours(site.name))]


def rounds_now(swarm):
    return {site.name: site.job()["round"] for site in swarm}


# ---- A19: drops, a partition, a kill each ----

def drops(sizes):
    """Every fifth packet is lost, then two halves do not see each other for 10 s, then each agent is killed once."""
    skip_without("iptables")
    n, rng, failures = sizes.of(8, 12), random.Random("drops"), []
    with in_namespaces(n) as (swarm, net):
        net.lose(0.2)
        before = rounds_now(swarm)
        time.sleep(sizes.of(6, 20))
        lossy = min(b - before[name] for name, b in rounds_now(swarm).items())
        net.part(swarm.names[:n // 2], swarm.names[n // 2:])
        time.sleep(10)
        net.rejoin()
        for site in rng.sample(list(swarm), n):
            site.kill()
            time.sleep(rng.uniform(0, 0.3))
            site.start()
        net.lose(0)
        last = swarm.run_on(12, 90)
        reached = accuracy(swarm, last)
        for site in swarm:
            if crimes := CRIMES & {word for peer in site.peers().values() for word in peer["refused"]}:
                failures.append(f"{site.name} counts {crimes}")
        if lossy < 2:
            failures.append(f"{lossy} rounds while packets were lost")
    alone = never_met(n)
    share = 100 * reached / undisturbed(n, last)
    failures += control(alone < 0.95 * undisturbed(n, last), f"agents that never met reach {alone:.1f} %")
    return Outcome(2 * n + 1, failures, share, f"{n} agents, {reached:.2f} % against {undisturbed(n, last):.2f} % in round {last}, never met {alone:.2f} %")


def is_blind_to_a_black_hole(**changes):
    """Whether a session outlives it."""
    with network.Network("ab") as net, test_links.pair() as swarm:
        for site in swarm:
            site.host, site.prefix = net.address(site.name), net.inside(site.name)
        for name in "ab":
            swarm.write_site(name, **changes)
        swarm.start()
        wait_for(lambda: swarm["a"].answers() and swarm["b"].answers() and test_links.both_alive(swarm), 20, "they have met")
        net.cut("b")
        time.sleep(test_links.NOTICED_S + 1)
        return not (test_links.is_lost(swarm["a"], "b") or test_links.is_lost(swarm["b"], "a"))


def black_hole(sizes):
    """tests/swarm/test_links.py measures it."""
    skip_without()
    done = subprocess.run(["/usr/bin/python3", "tests/swarm/test_links.py", "--starling", agents.options.starling,
                           *["--long"] * sizes.is_long, "BlackHole.test_black_hole" if sizes.is_long else "BlackHole.test_only_one_dials"],
                          cwd=sizes.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900, check=False)
    found = [tuple(map(float, pair)) for pair in re.findall(r"noticed ([\d.]+) s, used ([\d.]+) s", done.stdout)]
    failures = [] if done.returncode == 0 and found else [done.stdout[-600:]]
    failures += control(is_blind_to_a_black_hole(wire={"metered": True}), "signs of life were rare")
    noticed, used = (max(column) for column in zip(*found)) if found else (0, 0)
    return Outcome(len(found), failures, used, f"a black hole is noticed in {noticed:.2f} s (≤ 5), the healed link used in {used:.2f} s")


# ---- a partition ----

def partition(sizes):
    """4 and 4 that do not see each other for ten rounds, then do."""
    skip_without("iptables")
    failures, n_rounds = [], 10
    with in_namespaces(8) as (swarm, net):
        together = swarm.run_on(25, 60)
        failures += control(merged_across(swarm, {site.name: rounds_of(site, together - 5, together) for site in swarm}),
                            "there was no cut")
        net.part("abcd", "efgh")
        time.sleep(5)  # until it is noticed everywhere
        before = rounds_now(swarm)
        for site in swarm:
            site.wait_round(before[site.name] + n_rounds, 60)
        apart = {site.name: len(rounds_of(site, before[site.name] + 1, before[site.name] + n_rounds)) for site in swarm}
        failures += [f"{name} ended {n} rounds of {n_rounds}" for name, n in apart.items() if n < n_rounds]
        failures += merged_across(swarm, {site.name: rounds_of(site, before[site.name] + 1, before[site.name] + n_rounds)
                                          for site in swarm})
        parted_until = rounds_now(swarm)
        net.rejoin()  # until they have sessions again rounds go on, and how many depends on the host
        wait_for(lambda: all(site.committed()[-1]["merged"] == len(swarm.neighbours(site.name)) for site in swarm), 30,
                 "all merge all again", every=0.2)
        n_until_met = max(n - parted_until[name] for name, n in rounds_now(swarm).items())
        last = swarm.run_on(6, 90)
        reached = accuracy(swarm, last)
        failures += late(swarm, before) + told_apart(8, last, 0.5)
    gap = abs(reached - undisturbed(8, last))
    return Outcome(1, failures, gap, f"{reached:.2f} % six rounds after all had merged all again, {n_until_met} after it healed, "
                           f"{undisturbed(8, last):.2f} % undisturbed, round {last}")


# ---- churn ----

def churn(sizes):
    """Again and again 30 % of the agents are killed and start again."""
    n_rounds, rng, failures, n_kills = sizes.of(30, 100), random.Random("churn"), [], 0
    with learning_swarm(8) as swarm:
        swarm.start()
        last = swarm.run_on(10, 60) + n_rounds
        before = rounds_now(swarm)
        while min(rounds_now(swarm).values()) < last:
            dead = rng.sample(list(swarm), 3 if rng.random() < 0.4 else 2)  # 30 % of 8
            for site in dead:
                site.kill()
                n_kills += 1
            time.sleep(rng.uniform(0.05, 0.6))
            for site in dead:
                site.start()
            wait_for(lambda: all(site.answers() for site in dead), 20, "they are back")
            time.sleep(rng.uniform(0, 0.5))
        end = swarm.run_on(6, 60)
        reached = accuracy(swarm, end)
        failures += late(swarm, before) + timed(swarm, before) + told_apart(8, end, 1)
    gap = abs(reached - undisturbed(8, end))
    return Outcome(n_kills, failures, gap, f"{n_rounds} rounds, {reached:.2f} %, {undisturbed(8, end):.2f} % undisturbed, round {end}")


# ---- a connection that breaks ----

class Relay(threading.Thread):
    """Passes connections on to a port, and may delay what passes, stop for a while, or reset a connection after some bytes."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.delay_s, self.stall, self.reset_after, self.is_open = port, 0, (0, 0), None, True
        self.rng = random.Random("relay")
        self.door = socket.create_server(("127.0.0.1", 0))
        self.start()

    def run(self):
        while True:
            client, _ = self.door.accept()
            if self.is_open:
                threading.Thread(target=self.pass_all, args=(client,), daemon=True).start()
            else:
                client.close()

    def pass_all(self, client):
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as agent:
            passed = 0
            while True:
                for end in select.select([client, agent], [], [])[0]:
                    data = end.recv(16384)
                    if not data:
                        return
                    passed += len(data)
                    if self.reset_after is not None and passed > self.reset_after:
                        for each in (client, agent):
                            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        self.reset_after = None
                        return
                    time.sleep(self.delay_s + (self.stall[1] if self.rng.random() < self.stall[0] else 0))
                    (agent if end is client else client).sendall(data)


SLOW_DEADLINE_S = 3  # of the pair that is relayed


@contextlib.contextmanager
def relayed_pair(**more):
    """b dials a through a relay."""
    with Swarm("ab", [("a", "b")], rows=60, test_rows=60, peers={"a": {"b": {"address": None}}},
               job={"model": "dense 1024, relu, dense 256, relu, dense classes", "train": {"epochs": None, "steps": 1}},
               site={"round": {"deadline_min_s": 0.5, "deadline_max_s": SLOW_DEADLINE_S, "meet_s": 5}}, **more) as swarm:
        relay = Relay(swarm["a"].port)
        swarm.write_site("a", advertise=f"tcp://127.0.0.1:{relay.door.getsockname()[1]}")  # else b finds it without
        swarm.write_site("b", peers=[{"name": "a", "key": swarm["a"].key, "address": f"tcp://127.0.0.1:{relay.door.getsockname()[1]}"}])
        swarm.start()
        for site in swarm:
            site.wait_round(2, 30)
        yield swarm, relay


def merges_again(swarm, timeout):
    """Seconds until each has merged the other in a round that begins now, by what they log."""
    begin, now, seconds = agents.utc_now(), rounds_now(swarm), []
    for site in swarm:
        def merged():
            return [row["round"] for row in site.committed() if row["round"] > now[site.name] + 1 and row["merged"] == 1]
        first = min(wait_for(merged, timeout, f"{site.name} merges", every=0.05))
        seconds.append(agents.seconds_to(site, f"round-committed .* round={first} ", begin))
    return max(seconds)


def stands_still(swarm, why):
    """Those sites that end no round within twice its bound. On a link too slow for its deadline it is a round of its own work alone."""
    before = {site: site.committed()[-1]["label"] for site in swarm}
    try:
        wait_for(lambda: all(site.committed()[-1]["label"] != label for site, label in before.items()), 2 * SLOW_DEADLINE_S + 4, why)
        return []
    except AssertionError as error:
        return [f"no round: {error}"]


def resets(sizes):
    """The connection is reset at each tenth of a payload, then it is slow, then it stands still at times."""
    failures, seconds, runs = [], [], 0
    with relayed_pair() as (swarm, relay):
        payload = 4 * (4 * 1024 + 1024 + 1024 * 256 + 256 + 256 * 3 + 3)
        for _ in range(sizes.of(1, 5)):
            for tenth in range(1, 11):
                runs += 1
                relay.reset_after = payload * tenth // 10  # of the next connection, or of this one at once
                wait_for(lambda: relay.reset_after is None, 20, f"a reset at {tenth}0 %")
                try:
                    seconds.append(merges_again(swarm, 15))
                except AssertionError as error:
                    failures.append(f"reset at {tenth}0 % of a payload: {error}")
        for delay_s, stall in ((0.02, (0, 0)), (0, (0.02, 0.7))):
            runs += 1
            relay.delay_s, relay.stall = delay_s, stall
            failures += stands_still(swarm, f"a delay of {delay_s} s, stalls {stall}")
            relay.delay_s, relay.stall = 0, (0, 0)
            merges_again(swarm, 20)
        for site in swarm:
            if crimes := CRIMES & {word for peer in site.peers().values() for word in peer["refused"]}:
                failures.append(f"{site.name} counts {crimes}")
        relay.is_open, relay.reset_after = False, 0
        wait_for(lambda: relay.reset_after is None, 20, "the last reset")
        try:
            merges_again(swarm, 4)
            failures += control(False, "the way was closed")
        except AssertionError:
            pass
    return Outcome(runs, failures, max(seconds, default=None), f"until both had merged the other in a round that began after a reset, of {len(seconds)}, the worst")
