#!/usr/bin/python3
"""Kept models: pins, the serving pointer, the difference of two, and going back, with real agents."""
import unittest

from agents import CLASSES, Swarm, main, ring, wait_for

# Rounds that are long enough to be looked at.
SITE = {"round": {"meet_s": 20, "deadline_min_s": 5, "every_s": 0.2}}


def names_of(data):
    return [row["label"] for row in data["models"]]


def marked(data, word):
    return [row["label"] for row in data["models"] if word in row["marks"].split()]


def number(label):
    return int(label.split("+")[0])


def starts_of_chains(site, after):
    """Rounds whose payload was a full one, which has no copy beside it."""
    return [row[0] for row in site.query("SELECT round FROM publication WHERE round > ? AND manifest IS NOT NULL"
                                         " AND payload IS NOT NULL AND n_copy = 0 ORDER BY sequence", after)]


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.swarm = Swarm("abc", ring("abc"), site=SITE)
        cls.enterClassContext(cls.swarm)
        cls.swarm.start()
        cls.a = cls.swarm["a"]
        cls.a.wait_round(4, 60)

    def kept(self):
        return self.a.ask("models", "list")

    def newest_after(self, label):
        return wait_for(lambda: next((name for name in names_of(self.kept()) if number(name) > number(label)), None), 30,
                        f"a model after {label}")

    def test_a_request_about_no_label(self):
        """What is no label changes nothing, least of all another model."""
        newest = number(names_of(self.kept())[0])
        bad = [{"round": "1"}, {"round": -1}, {"round": 1.5}, {"round": newest, "sub": 1 << 32}, {"round": newest, "sub": "0"}]
        for ask in ("pin", "unpin", "serve", "roll-back", "round"):
            for label in bad:
                answer = self.a.ask_socket({"ask": ask, "mode": "pinned", "note": "", **label})
                self.assertEqual((answer["ok"], answer["error"]["code"]), (False, "range"), (ask, label))
        self.assertEqual(marked(self.kept(), "pinned"), [])

    def test_a_pin_survives_ten_rounds(self):
        label = names_of(self.kept())[0]
        would = self.a.ask("models", "pin", label, "--note", "before the new sensor", "--check")
        self.assertEqual((would["changed"], would["check"]), (True, True))
        self.assertEqual(marked(self.kept(), "pinned"), [])
        self.assertTrue(self.a.ask("models", "pin", label, "--note", "before the new sensor")["changed"])
        self.assertFalse(self.a.ask("models", "pin", label, "--note", "before the new sensor")["changed"])
        self.a.wait_round(number(label) + 10, 60)
        data = self.kept()
        self.assertEqual(marked(data, "pinned"), [label])
        self.assertLessEqual(len(data["models"]), 3 + 2 + 1)
        shown = self.a.ask("models", "show", label)
        self.assertEqual((shown["note"], shown["label"]), ("before the new sensor", label))
        self.assertEqual(self.a.ask("eval", "--model", label)["label"], label)
        diff = self.a.ask("models", "diff", label, "latest")
        flips = diff["flips"]
        self.assertAlmostEqual(diff["headline_b"] - diff["headline_a"],
                               (flips["wrong_to_right"] - flips["right_to_wrong"]) / diff["samples"])
        self.assertEqual([row["class"] for row in diff["classes"]], CLASSES)
        self.assertTrue(all(0 < row["relative"] < 10 for row in diff["tensors"]), diff["tensors"])
        same = self.a.ask("models", "diff", label, label)
        self.assertEqual(set(same["flips"].values()), {0})
        self.assertEqual({row["relative"] for row in same["tensors"]}, {0})
        self.assertTrue(self.a.ask("models", "unpin", label)["changed"])
        self.assertFalse(label in names_of(self.kept()) and label not in marked(self.kept(), "best"))
        gone = self.a.cli("models", "show", label)
        self.assertIn(f"the model of round {label} is not kept; kept are ", gone.err)
        self.assertEqual(gone.code, 1)

    def test_what_is_served(self):
        data = self.kept()
        self.assertEqual((data["serving"]["asked"], data["serving"]["by_command"]), ("best", False))
        self.a.wait_round(8, 60)

        def best_is_served():  # the agent commits while we look
            data = self.kept()
            means = {row["label"]: row["mean"] for row in data["models"] if row["mean"] is not None}
            best = max(means, key=lambda label: (means[label], number(label)))
            return data["serving"]["mode"] == "best" and marked(data, "serving") == marked(data, "best") == [best]
        self.assertTrue(best_is_served())
        self.assertTrue(self.a.ask("models", "serve", "latest")["changed"])
        data = self.kept()
        self.assertEqual(marked(data, "serving"), marked(data, "training"))
        label = names_of(data)[0]
        self.assertTrue(self.a.ask("models", "serve", label)["changed"])
        self.assertFalse(self.a.ask("models", "serve", label)["changed"])
        self.a.wait_round(number(label) + 6, 60)
        self.assertEqual(marked(self.kept(), "serving"), [label])
        served = self.a.ask("eval", "--model", "serving")
        self.assertEqual((served["label"], served["model"]), (label, "serving"))
        self.assertEqual(self.a.ask("eval")["model"], "latest")
        self.assertTrue(self.a.ask("models", "serve", "best")["changed"])
        self.assertEqual(self.kept()["serving"]["asked"], "best")
        self.assertTrue(best_is_served())

    def test_wrong_words(self):
        self.assertEqual(self.a.cli("models", "pin", "x").code, 4)
        self.assertEqual(self.a.cli("models", "serve", "worst").code, 4)
        self.assertEqual(self.a.cli("models", "pin", "3", "--note", "x" * 161).code, 4)
        self.assertEqual(self.a.cli("models", "pin", "3", "--note", "two\nlines").code, 4)
        for verb in ("pin", "rollback", "serve"):
            refused = self.a.cli("models", verb, 100000)
            self.assertEqual(refused.code, 1)
            self.assertIn("the model of round 100000 is not kept; kept are ", refused.err)


class RollBack(unittest.TestCase):
    def test_peers_see_it_and_the_swarm_goes_on(self):
        with Swarm("abc", ring("abc"), site=SITE) as swarm:
            a, b = swarm.start()["a"], swarm["b"]
            a.wait_round(4, 60)
            label = names_of(a.ask("models", "list"))[0]
            a.ask("models", "pin", label)
            a.wait_round(number(label) + 5, 60)
            self.assertTrue(a.ask("models", "rollback", label, "--check")["changed"])
            self.assertTrue(a.ask("models", "rollback", label, "--note", "bad sensor")["changed"])
            back = next(row for row in reversed(a.committed()) if row["outcome"] == "rolled-back")
            self.assertEqual(back["model"], a.ask("models", "show", label)["model"])
            self.assertGreater(back["sub"], 0)
            sentence = f"rolled back to {label}: bad sensor"
            wait_for(lambda: b.peers()["a"]["notice"] == sentence, 10, "b sees the notice", every=0.1)
            self.assertIn(sentence, b.cli("peer", "list").out)
            swarm.run_on(9, 60)
            wait_for(lambda: b.peers()["a"]["notice"] is None, 10, "the notice is over", every=0.1)
            self.assertEqual(b.log.count("peer-rolled-back"), 1)
            self.assertEqual(b.query("SELECT count(*) FROM event WHERE name = 'peer-rolled-back' AND text = ?",
                                     sentence), [(1,)])
            self.assertEqual(a.query("SELECT count(*) FROM event WHERE name = 'model-rolled-back'"), [(1,)])
            labels = [(row["round"], row["sub"]) for row in a.committed()]
            self.assertEqual(labels, sorted(set(labels)))  # the number never goes back
            last = a.committed()[-1]
            self.assertEqual(a.round(last["label"])["peers"]["b"]["reason"], "ok")
            self.assertEqual(b.round(b.committed()[-1]["label"])["peers"]["a"]["reason"], "ok")

    def test_a_kill_right_after_it_keeps_it(self):
        with Swarm("abc", ring("abc"), site=SITE) as swarm:
            a = swarm.start()["a"]
            a.wait_round(5, 60)
            label = names_of(a.ask("models", "list"))[1]
            a.ask("models", "pin", label)
            self.assertTrue(a.ask("models", "rollback", label)["changed"])
            a.kill()
            back = next(row for row in reversed(a.committed()) if row["outcome"] == "rolled-back")
            a.start()
            begun = wait_for(lambda: starts_of_chains(a, back["round"]), 60, "a begins a chain")  # no row of it stays for long
            self.assertEqual(begun, [back["round"] + 1])
            swarm.run_on(3, 60)
            after = [row for row in a.committed() if (row["round"], row["sub"]) > (back["round"], back["sub"])]
            self.assertEqual(after[0]["round"], back["round"] + 1)
            self.assertLessEqual(set(starts_of_chains(a, back["round"])), set(begun))
            self.assertEqual(a.query("SELECT count(*) FROM commitment WHERE outcome = 'rolled-back'"), [(1,)])

    def test_without_an_agent(self):
        with Swarm("ab", ring("ab"), job={"count": 8}) as swarm:
            a = swarm.start()["a"]
            swarm.wait_finished(60)
            swarm.stop()
            label = names_of(a.ask("models", "list"))[1]
            for words in (("pin", label, "--note", "x"), ("serve", label), ("rollback", label, "--note", "bad sensor")):
                self.assertTrue(a.ask("models", *words)["changed"], words)
                self.assertFalse(a.ask("models", *words)["changed"], words)
            data = a.ask("models", "list")
            self.assertEqual(names_of(data)[0], "8+1")
            self.assertEqual(marked(data, "training"), ["8+1"])
            self.assertEqual(marked(data, "serving"), [label])
            self.assertEqual(data["models"][0]["model"], a.ask("models", "show", label)["model"])
            swarm.write_job({**swarm.job, "count": 11})
            swarm.start()
            swarm.wait_finished(60)
            self.assertEqual([row["label"] for row in a.committed()][-4:], ["8+1", "9", "10", "11"])
            self.assertEqual(starts_of_chains(a, 8), [9])

    def test_another_schema_is_refused_in_words(self):
        with Swarm("a", [], job={"count": 5}) as swarm:
            a = swarm.start()["a"]
            a.wait_finished(30)
            a.stop()
            swarm.write_job({**swarm.job, "model": "dense 8, relu, dense classes"})
            refused = a.cli("models", "rollback", 4)
            self.assertEqual(refused.code, 1, refused)
            self.assertIn("the model of round 4: its model has another schema", refused.err)


if __name__ == "__main__":
    main()
