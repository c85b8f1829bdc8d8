#!/usr/bin/python3
"""kill -9 at seeded random moments, in every phase of a round: nothing committed is lost, nothing is said twice."""
import collections
import datetime
import random
import re
import time
import unittest

from agents import Swarm, main, options, ring, wait_for

# start: soon after its own start; any: a random moment of a round.
AIMS = ["training", "any", "publishing", "gathering", "start", "merging", "any", "committing"]
DEADLINE_S = 1.0
LAG_BOUND = 5  # round.staleness_max
PATIENCE_S = 10  # far above the deadline, for a machine that is busy; a swarm that waits for the dead exceeds it
# What a peer that only crashed must never be counted for.
CRIMES = {"equivocation", "false-history", "clone", "signature", "root", "length", "encoding", "message", "seal",
          "replay", "origin", "non-finite"}


def n_kills():
    return 4 if options.small else 200 if options.long else 40


# Softmax regression is convex and 40 passes a round bring it to its optimum, so that a difference of half a point at the
# end is a lost contribution, not noise. 4000 test points: one is 0.025 points.
def crash_swarm():
    names = "abc" if options.small else "abcd"
    return Swarm(names, ring(names), rows=2000, test_rows=4000,
                 job={"model": "dense classes",
                      "train": {"epochs": 40, "batch": 32, "learning_rate": 0.01}},
                 site={"round": {"deadline_min_s": 0.5, "deadline_max_s": DEADLINE_S}})


def accuracy(swarm, number):
    """Mean over the agents after that round, in percent."""
    return 100 * sum(site.round(number)["global"] for site in swarm) / len(swarm.names)


class Ledger:
    """What each agent's database said whenever it was looked at; it may only grow."""

    def __init__(self, test):
        self.test = test
        self.commitments = collections.defaultdict(dict)  # site -> (round, sub) -> what was measured
        self.publications = collections.defaultdict(dict)  # site -> sequence -> (epoch, round, sub, chain)

    def look(self, site):
        commitments = {(row[0], row[1]): row[2:] for row in site.query(
            "SELECT round, sub, outcome, global_loss, committed_unix_s FROM commitment")}
        publications = {row[0]: row[1:] for row in site.query(
            "SELECT sequence, epoch, round, sub, chain FROM publication")}
        for known, now in ((self.commitments[site.name], commitments), (self.publications[site.name], publications)):
            lost = {key: value for key, value in known.items() if now.get(key) != value}
            self.test.assertEqual(lost, {}, f"{site.name}: rows lost or changed")
            known.update(now)

    def committed(self, site):
        """The newest (round, sub)."""
        return max(self.commitments[site.name], default=(0, 0))

    def check_payloads(self, swarm):
        """One payload for a (round, sub) of an origin, whatever epoch; and what receivers merged is what it said."""
        by_key = {site.key: self.publications[site.name] for site in swarm}
        for site in swarm:
            rounds = collections.Counter((row[1], row[2]) for row in self.publications[site.name].values())
            twice = [label for label, n in rounds.items() if n > 1]
            self.test.assertEqual(twice, [], f"{site.name} published these twice")
        n_merged = 0
        for site in swarm:
            keys = {swarm[name].key: name for name in swarm.neighbours(site.name)}
            names = {name: key for key, name in keys.items()}
            rows = site.query("SELECT name, round, lag, epoch, sequence FROM contribution WHERE reason = 'ok'")
            for name, number, lag, epoch, sequence in rows:
                said = by_key[names[name]].get(sequence)
                self.test.assertIsNotNone(said, f"{site.name} merged {name}'s {sequence}, which it never published")
                # What is ahead is fresh, but beyond the bound: then it counts as what lags so far, with the bound at most.
                off = abs(number - said[1])
                is_fresh = said[1] > number and off <= LAG_BOUND
                self.test.assertTrue(said[0] == epoch and lag <= (0 if is_fresh else min(off, LAG_BOUND)),
                                     f"{site.name} merged {name}'s {sequence} in round {number}, lag {lag}: {said}")
                n_merged += 1
        self.test.assertGreater(n_merged, 0)


def boots(log):
    """For every start of an agent: the label that it resumed with, and the times of its commits."""
    result = []
    for line in log.splitlines():
        at, _, rest = line.partition(" ")
        if found := re.match(r"info resumed job=\S+ version=\d+ round=(\d+) sub=(\d+)", rest):
            result.append(((int(found[1]), int(found[2])), []))
        elif rest.startswith("info round-committed"):
            result[-1][1].append(datetime.datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp())
    return result


def phase_of(site):
    """As the agent says it; a commit runs beside the training of the next round."""
    try:
        job = site.job()
    except OSError:
        return "starting"
    is_committing = job["phase"] == "training" and job["round_in_work"] > job["round"] + 1
    return "committing" if is_committing else job["phase"]


def kill_at(site, aim, rng):
    """SIGKILL at the moment aimed at; the phase that the agent said it was in just before."""
    if aim == "start":
        site.kill()
        site.start()
        time.sleep(rng.uniform(0, 0.1))  # this is the random moment
    elif aim == "any":
        time.sleep(rng.uniform(0, 0.5))
    else:
        # Where a commit waits for the publication after the next training, it stands beside all of that.
        fit = {"training", "committing"} if aim == "training" else {aim}
        wait_for(lambda: phase_of(site) in fit, 30, f"{site.name} is {aim}", every=0)
    phase = phase_of(site) if aim in ("start", "any") else aim
    site.kill()
    return phase


class Crash(unittest.TestCase):
    def test_killed_in_every_phase(self):
        rng, ledger, phases = random.Random("crash"), Ledger(self), collections.Counter()
        with crash_swarm() as swarm:
            swarm.start()
            for site in swarm:
                site.wait_round(1, 30)
            expected = collections.defaultdict(list)  # site -> labels that it must resume with
            for i in range(n_kills()):
                site = swarm[rng.choice(swarm.names)]
                phases[kill_at(site, AIMS[i % len(AIMS)], rng)] += 1
                ledger.look(site)
                expected[site.name].append(ledger.committed(site))
                time.sleep(rng.choice([0, 0, rng.uniform(0, 1)]))  # some come back at once, some later
                site.start()
            last = swarm.run_on(20, timeout=60)
            self.check_peers(swarm)
            swarm.stop()
            for site in swarm:
                ledger.look(site)
                self.check_boots(site, expected[site.name])
            ledger.check_payloads(swarm)
            disturbed = accuracy(swarm, last)

            swarm.remove_states()
            swarm.start()
            for site in swarm:
                site.wait_round(last, 300)
            undisturbed = accuracy(swarm, last)
            print(f"{n_kills()} kills {dict(phases)} in {last} rounds, accuracy {disturbed:.2f} %,"
                  f" {undisturbed:.2f} % undisturbed", end=" ", flush=True)
            self.assertLess(abs(disturbed - undisturbed), 0.5)
            if not options.small:
                self.assertEqual(set(AIMS) - {"start", "any"} - set(phases), set(), "phases never hit")

    def check_boots(self, site, expected):
        """Every start resumed with what was committed at the kill before it, and commits went on without a hole."""
        resumed = boots(site.log)
        labels = [label for label, _ in resumed]
        self.assertEqual(labels, sorted(labels), f"{site.name} went back")
        self.assertTrue(set(expected) <= set(labels), f"{site.name}: {set(expected) - set(labels)} not resumed")
        for _, times in resumed:
            gaps = [after - before for before, after in zip(times, times[1:])]
            self.assertLess(max(gaps, default=0), PATIENCE_S, f"{site.name} stopped for a while")

    def check_peers(self, swarm):
        for site in swarm:
            for name, peer in site.peers().items():
                self.assertEqual(CRIMES & set(peer["refused"]), set(), f"{site.name} about {name}: {peer['refused']}")


if __name__ == "__main__":
    main()
