#!/usr/bin/python3
"""Agents stop, start again, come late, are cut off and lose their disk: each goes on where it should."""
import shutil
import signal
import time
import unittest

from agents import Swarm, main, ring, wait_for

QUICK = {"round": {"deadline_min_s": 0.5, "deadline_max_s": 2, "meet_s": 5}}


def resumed(site):
    """The labels that its starts resumed with."""
    lines = [line for line in site.log.splitlines() if " info resumed " in line]
    return [tuple(int(word.split("=")[1]) for word in line.split()[-2:]) for line in lines]


def heard_of_c(swarm):
    """The newest (epoch, sequence) of c that a peer has merged."""
    return max(max(site.query("SELECT epoch, sequence FROM contribution WHERE name = 'c'"))
               for site in swarm if site.name != "c")


class Resume(unittest.TestCase):
    def test_term_ends_soon_and_start_goes_on(self):
        with Swarm("abc", ring("abc"), site=QUICK) as swarm:
            swarm.start()
            a = swarm["a"]
            a.wait_round(3, 30)
            begin = time.monotonic()
            self.assertEqual(a.stop(), 0)
            self.assertLess(time.monotonic() - begin, 2)
            newest = a.committed()[-1]
            a.start()
            a.wait_round(newest["round"] + 3, 30)
            self.assertEqual(resumed(a)[-1], (newest["round"], newest["sub"]))
            numbers = [row["round"] for row in a.committed()]
            self.assertEqual(numbers, sorted(set(numbers)))

    def test_all_stop_and_start_in_another_order(self):
        with Swarm("abc", ring("abc"), site=QUICK) as swarm:
            swarm.start()
            swarm.run_on(3, 30)
            swarm.stop()
            newest = {site.name: (site.committed()[-1]["round"], site.committed()[-1]["sub"]) for site in swarm}
            for name in "cba":
                swarm[name].start()
                swarm[name].wait_answers()
            swarm.run_on(3, 30)
            for site in swarm:
                self.assertEqual(resumed(site)[-1], newest[site.name])

    def test_term_while_training(self):
        """A long training ends in the middle, and nothing of it was told."""
        with Swarm("a", [], job={"train": {"epochs": 10000}}, rows=2000) as swarm:
            a = swarm.start()["a"]
            wait_for(lambda: a.answers() and a.status()["job"]["phase"] == "training", 20, "it trains")
            begin = time.monotonic()
            self.assertEqual(a.stop(), 0)
            self.assertLess(time.monotonic() - begin, 2)
            self.assertEqual(a.query("SELECT count(*) FROM publication"), [(0,)])

    def test_second_agent_on_a_state_directory(self):
        with Swarm("a", []) as swarm:
            a = swarm.start()["a"]
            a.wait_answers()
            second = a.cli("run")
            self.assertEqual(second.code, 2, second)
            self.assertIn(f"in use by the agent with process id {a.process.pid}", second.err)
            self.assertTrue(a.answers())

    def test_a_joiner_takes_the_present_model(self):
        with Swarm("abc", ring("abc"), site=QUICK) as swarm:
            swarm.start("ab")
            swarm["a"].wait_round(10, 60)
            c = swarm["c"].start()
            c.wait_answers()
            wait_for(c.committed, 20, "c has a round")
            first = c.committed()[0]
            self.assertGreaterEqual(first["round"], 10)
            self.assertIn(first["outcome"], ("adopted", "jumped"))
            self.assertGreater(first["global"], 0.6)  # the swarm's, not a first model's 0.33
            c.wait_round(first["round"] + 3, 30)
            wait_for(lambda: swarm["a"].committed()[-1]["merged"] == 2, 20, "a merges c")

    def test_cut_off_and_back(self):
        """Stopped for longer than connections last (a host that slept): the others go on; afterwards it jumps to their
        round and takes part again."""
        with Swarm("abc", ring("abc"), site=QUICK) as swarm:
            swarm.start()
            swarm.run_on(3, 30)
            c = swarm["c"]
            c.signal(signal.SIGSTOP)
            before = swarm["a"].status()["job"]["round"]
            swarm["a"].wait_round(before + 8, 60)
            time.sleep(5)  # that long
            c.signal(signal.SIGCONT)
            c.wait_round(before + 10, 30)
            outcomes = [row["outcome"] for row in c.committed() if row["round"] > before]
            self.assertIn("jumped", outcomes)
            wait_for(lambda: swarm["a"].committed()[-1]["merged"] == 2, 20, "a merges c again")

    def test_alone_it_stops_training_and_waits(self):
        """Both peers are gone: three local sub-rounds, then ALONE; the number does not move, and a peer wakes it."""
        with Swarm("ab", ring("ab"), site=QUICK) as swarm:
            swarm.start()
            a, b = swarm["a"], swarm["b"]
            swarm.run_on(3, 30)
            b.kill()
            wait_for(lambda: a.status()["word"] == "ALONE", 30, "a is alone")
            newest = a.committed()[-1]
            self.assertEqual((newest["outcome"], newest["sub"], newest["merged"]), ("short", 3, 0))
            self.assertIn(a.round(f"{newest['round']}+3")["peers"]["b"]["reason"], ("absent", "unreachable"))
            b.start()
            a.wait_round(newest["round"] + 3, 30)
            self.assertEqual(a.committed()[-1]["outcome"], "merged")

    def test_sub_rounds_survive_a_restart(self):
        with Swarm("ab", ring("ab"), site=QUICK) as swarm:
            swarm.start()
            a, b = swarm["a"], swarm["b"]
            swarm.run_on(3, 30)
            b.kill()
            wait_for(lambda: a.status()["word"] == "ALONE", 30, "a is alone")
            newest = a.committed()[-1]
            a.kill()
            a.start()
            a.wait_answers()
            self.assertEqual(resumed(a)[-1], (newest["round"], 3))

    def test_a_removed_state_directory_is_a_fresh_start(self):
        """The disk is new, the key the old one: peers tell it how far it was, and its numbers go on above that."""
        with Swarm("abc", ring("abc"), site=QUICK) as swarm:
            swarm.start()
            swarm.run_on(3, 30)
            c = swarm["c"]
            c.stop()
            epoch, sequence = heard_of_c(swarm)
            shutil.rmtree(c.state)
            c.start()
            c.wait_answers()
            swarm.run_on(3, 30)
            wait_for(lambda: swarm["a"].committed()[-1]["merged"] == 2, 20, "a merges c again")
            first = min(c.query("SELECT epoch, sequence FROM publication"))
            self.assertTrue(first[0] > epoch and first[1] > sequence, f"{first} after {epoch}, {sequence}")
            for site in swarm:
                for peer in site.peers().values():
                    self.assertNotIn("equivocation", peer["refused"])

    def test_an_older_state_directory_is_noticed(self):
        """A backup put back: nothing is published twice, and the swarm goes on with it."""
        with Swarm("abc", ring("abc"), site=QUICK) as swarm:
            swarm.start()
            swarm.run_on(3, 30)
            c = swarm["c"]
            c.stop()
            shutil.copytree(c.state, swarm.folder / "backup")
            c.start()
            c.wait_answers()
            swarm.run_on(3, 30)
            c.stop()
            epoch, sequence = heard_of_c(swarm)
            shutil.rmtree(c.state)
            shutil.copytree(swarm.folder / "backup", c.state)
            c.start()
            c.wait_answers()
            swarm.run_on(3, 30)
            wait_for(lambda: swarm["a"].committed()[-1]["merged"] == 2, 20, "a merges c again")
            now = heard_of_c(swarm)
            self.assertTrue(now[0] >> 32 > epoch >> 32 and now[1] > sequence, f"{now} after {epoch}, {sequence}")
            self.assertIn(("rolled-back",), c.query("SELECT lower(name) FROM event"))


if __name__ == "__main__":
    main()
