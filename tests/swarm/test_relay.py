#!/usr/bin/python3
"""Two sites that cannot reach each other and a third that both dial: they learn with each other over it."""
import unittest

from agents import Swarm, main, wait_for
from network import Network, why_not

TRIANGLE = [("a", "b"), ("b", "c"), ("a", "c")]
QUICK = {"round": {"deadline_min_s": 1, "deadline_max_s": 5, "meet_s": 20}}
APART = {"a": {"c": {"address": None}}, "c": {"a": {"address": None}}}
MET_S = 20


def triangle(**more):
    return Swarm("abc", TRIANGLE, site=QUICK, rows=60, test_rows=60, **more)


def via(swarm, name, other):
    return swarm[name].peers()[other]["via"]


def both_via(swarm, third):
    return all(site.answers() for site in swarm) and all(
        swarm[x].state_of(y) == "alive" and via(swarm, x, y) == third for x, y in ("ac", "ca"))


def merged_of_last(site, n):
    return [row["merged"] for row in site.committed()[-n:]]


class Relay(unittest.TestCase):
    def test_neither_has_an_address(self):
        with triangle(peers=APART) as swarm:
            swarm.start()
            wait_for(lambda: both_via(swarm, "b"), MET_S, "a and c meet over b", every=0.1)
            swarm.run_on(5, 60)
            for site in swarm:
                self.assertEqual(merged_of_last(site, 4), [2] * 4, site.name)
            self.assertRegex(swarm["a"].log, r"peer-connected peer=c reason=ok via=b")
            self.assertRegex(swarm["a"].log, r"peer-connected peer=b reason=ok\n")
            carried = {name: row["relayed_bytes"] for name, row in swarm["b"].peers().items()}
            self.assertGreater(min(carried.values()), 1000)
            self.assertGreater(swarm["b"].status()["relayed_bytes"], 1000)
            self.assertEqual(swarm["a"].status()["relayed_bytes"], 0)
            table = swarm["a"].cli("peer", "list").out.splitlines()
            self.assertIn(" VIA", table[0])
            self.assertIn(" RELAYED", swarm["b"].cli("peer", "list").out.splitlines()[0])
            for site in swarm:
                self.assertNotIn("peer-disconnected", site.log)

            swarm["b"].kill()  # and both are alone; when it is back, so are they
            wait_for(lambda: swarm["a"].state_of("c") != "alive" and swarm["c"].state_of("a") != "alive", 20, "the way is gone")
            swarm["b"].start()
            wait_for(lambda: both_via(swarm, "b"), MET_S, "a and c meet over b again", every=0.1)

    def test_control_without_a_relay(self):
        with triangle(peers=APART, sites={"b": {"wire": {"relay": False}}}) as swarm:
            for name in "abc":
                swarm.write_site(name, jobs={"round": {"meet_s": 3}})
            swarm.start()
            swarm.run_on(4, 60)
            self.assertNotEqual(swarm["a"].state_of("c"), "alive")
            self.assertEqual(max(merged_of_last(swarm["a"], 4) + merged_of_last(swarm["c"], 4)), 1)
            self.assertEqual(swarm["b"].status()["relayed_bytes"], 0)
            wait_for(lambda: sum(swarm[x].peers()["b"]["refused"].get("refused", 0) for x in "ac"), MET_S, "b refuses")

    def test_cut_and_healed(self):
        """The direct way is cut in the network; when it heals it is used again, and no session is lost for it."""
        if why_not("iptables"):
            self.skipTest(why_not("iptables"))
        with Network("abc") as network, triangle() as swarm:
            for site in swarm:
                site.host, site.prefix = network.address(site.name), network.inside(site.name)
            for name in "abc":
                swarm.write_site(name)
            network.part("a", "c")
            swarm.start()
            wait_for(lambda: both_via(swarm, "b"), 2 * MET_S, "a and c meet over b", every=0.1)
            swarm.run_on(3, 60)
            for site in swarm:
                self.assertEqual(merged_of_last(site, 2), [2] * 2, site.name)
            network.rejoin()
            wait_for(lambda: both_via(swarm, None), 60, "a and c meet directly", every=0.1)
            swarm.run_on(3, 60)
            for site in swarm:
                self.assertEqual(merged_of_last(site, 2), [2] * 2, site.name)
                self.assertNotIn("peer-disconnected", site.log)


if __name__ == "__main__":
    main()
