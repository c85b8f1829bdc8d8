#!/usr/bin/python3
"""Topologies of a job: of six agents that all list each other, who averages with whom."""
import itertools
import unittest

from agents import Swarm, main, wait_for

SITES = "abcdef"
ALL = list(itertools.combinations(SITES, 2))


def graph_of(site, *flags):
    return site.ask("peer", "graph", *flags)


def neighbours(graph, name):
    return next(sorted(row["hears"]) for row in graph["agents"] if row["name"] == name)


class Topology(unittest.TestCase):
    def test_a_ring_of_six_that_list_each_other(self):
        with Swarm(SITES, ALL, job={"count": 6, "topology": "ring"}, rows=60, test_rows=60) as swarm:
            swarm.start()
            swarm.wait_finished(timeout=60)
            graphs = [graph_of(swarm[name]) for name in SITES]
            edges = [{row["name"]: row["hears"] for row in graph["agents"]} for graph in graphs]
            self.assertTrue(all(e == edges[0] for e in edges), "each computes the same graph alone")
            self.assertAlmostEqual(graphs[0]["spectral_gap"], 1 / 3, delta=1e-3)
            self.assertTrue(graphs[0]["plan"].startswith("of every round; "), graphs[0]["plan"])
            for name, graph in zip(SITES, graphs):
                beside = neighbours(graph, name)
                self.assertEqual(len(beside), 2)
                for row in swarm[name].ask("peer", "list")["peers"]:
                    self.assertEqual(row["state"] == "not-neighbour", row["name"] not in beside, row)
                    self.assertAlmostEqual(row["weight"], 1 / 3 if row["name"] in beside else 0)
                self.assertTrue(all(row["merged"] == 2 for row in swarm[name].committed()))

    def test_random_pairs(self):
        with Swarm(SITES, ALL, job={"count": 8, "topology": "random 1"}, rows=60, test_rows=60) as swarm:
            swarm.start()
            swarm.wait_finished(timeout=60)
            for number in (3, 7):
                for name in SITES:
                    graph = graph_of(swarm[name], "--round", str(number))
                    self.assertTrue(graph["plan"].startswith(f"of round {number}; "), graph["plan"])
                    chosen = neighbours(graph, name)
                    peers = swarm[name].round(str(number))["peers"]
                    self.assertEqual([other for other in sorted(peers) if peers[other]["reason"] == "ok"], chosen)

    def test_another_topology_is_another_contract(self):
        with Swarm("ab", [("a", "b")], job={"count": 3, "topology": "ring"}, rows=60, test_rows=60) as swarm:
            swarm.write_job({**swarm.job, "topology": "full"}, "other.job.yaml")
            swarm.write_site("b", jobs={"job": "../other.job.yaml"})
            swarm.start()
            wait_for(lambda: swarm["a"].answers() and swarm["a"].state_of("b") == "contract", 20, "a refuses b's job")


if __name__ == "__main__":
    main()
