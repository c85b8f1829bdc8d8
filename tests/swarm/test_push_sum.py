#!/usr/bin/python3
"""`average: push-sum`: mass is neither lost nor made by agents that are killed, and one-way links are enough to learn together."""
import unittest

from agents import Swarm, main, ring, wait_for

SITES = "abc"
JOB = {"average": "push-sum", "topology": "ring"}


def accounts(swarm):
    """Of each agent: what it holds, gave to each and took of each."""
    result = {}
    for site in swarm:
        status = site.ask_fast("status")
        peers = {row["name"]: row for row in status["peers"]}
        told, taken = ({name: row[key] for name, row in peers.items()} for key in ("told", "taken"))
        result[site.name] = (status["job"]["mass"], told, taken)
    return result


class PushSum(unittest.TestCase):
    def check_mass(self, swarm):
        """Of agents that rest. Whoever is here began with 1."""
        all_of = accounts(swarm)
        total = 0
        for name, (mass, told, taken) in all_of.items():
            self.assertEqual(mass["written_off"], 0, name)
            self.assertGreater(mass["held"], 1e-3, name)
            self.assertAlmostEqual(mass["held"], 1 - sum(told.values()) + sum(taken.values()), delta=1e-9, msg=name)
            on_its_way = [told[other] - all_of[other][2][name] for other in told]
            self.assertGreaterEqual(min(on_its_way), -1e-9, f"nobody takes of {name} what it did not give")
            total += mass["held"] + sum(on_its_way)
        self.assertAlmostEqual(total, len(all_of), delta=1e-6)
        return all_of

    def test_a_directed_ring_whose_agents_are_killed(self):
        with Swarm(SITES, ring(SITES), job={**JOB, "count": 24}, rows=90, shares={"a": ["ok"], "b": ["scratch"], "c": ["dent"]},
                   site={"round": {"deadline_min_s": 2, "deadline_max_s": 5, "every_s": 0.1}}) as swarm:
            swarm.start()
            for number, name in enumerate("bca"):
                swarm[name].wait_round(4 + 4 * number, timeout=40)
                swarm[name].kill()
                swarm[name].start()
            swarm.wait_finished(timeout=90)
            given = self.check_mass(swarm)
            for name, (_, told, taken) in given.items():
                to, of = ([other for other, amount in row.items() if amount > 0] for row in (told, taken))
                self.assertEqual((len(to), len(of)), (1, 1), f"{name} is in one circle: {told}, {taken}")
                self.assertNotEqual(to, of, "a circle of three has a direction")
            for site in swarm:
                self.assertGreater(site.committed()[-1]["global"], 0.6, "a site alone knows one class of three")
                text = site.cli("status").out
                self.assertRegex(text, r"\nmass +[0-9.]+ held, 0[.0]* written off")
                self.assertRegex(text, r"TOLD +TAKEN")

    def test_another_graph_each_round(self):
        with Swarm("abcde", [(a, b) for a in "abcde" for b in "abcde" if a < b],
                   job={**JOB, "topology": "random 1", "count": 12}, rows=60, test_rows=60) as swarm:
            swarm.start()
            swarm.wait_finished(timeout=60)
            given = self.check_mass(swarm)
            self.assertTrue(all(sum(amount > 0 for amount in told.values()) > 1 for _, told, _ in given.values()), given)

    def test_what_was_given_is_not_had_back(self):
        with Swarm("ab", [("a", "b")], job={**JOB, "count": 4}, rows=60, test_rows=60) as swarm:
            swarm.start()
            swarm.wait_finished(timeout=40)
            a = swarm["a"]
            answer = a.cli("models", "rollback", "3", "--format", "json")
            self.assertEqual((answer.code, answer.json["error"]["code"]), (4, "unsupported"), answer)
            self.assertIn("models import", answer.json["error"]["message"])
            for number in "2", "3":
                self.assertEqual(a.cli("export", "--model", number, "--out", swarm.folder / f"{number}.npz").code, 0)
            before = self.check_mass(swarm)
            taken = a.cli("models", "import", swarm.folder / "2.npz", "--format", "json")
            self.assertTrue(taken.data["changed"], taken)
            self.assertEqual(self.check_mass(swarm), before, "the model changes, the account does not")
            a.stop()
            answer = a.cli("models", "import", swarm.folder / "3.npz", "--format", "json")
            self.assertEqual(answer.code, 2, answer)
            self.assertIn("starling run", answer.json["error"]["message"])

    def test_who_averages_otherwise_has_another_contract(self):
        with Swarm("ab", [("a", "b")], job={**JOB, "count": 3}, rows=60, test_rows=60) as swarm:
            swarm.write_job({**swarm.job, "average": "neighbours"}, "other.job.yaml")
            swarm.write_site("b", jobs={"job": "../other.job.yaml"})
            swarm.start()
            wait_for(lambda: swarm["a"].answers() and swarm["a"].state_of("b") == "contract", 20, "a refuses b's job")


if __name__ == "__main__":
    main()
