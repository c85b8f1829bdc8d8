#!/usr/bin/python3
"""Does the swarm help this site? The headline, the shadow model, and `starling compare` on real agents."""
import unittest

from agents import CLASSES, Swarm, main, ring, wait_for


class Headline(unittest.TestCase):
    def test_one_class_is_not_perfect(self):
        """A site with samples of one class has no headline anywhere, and says why."""
        with Swarm("ab", ring("ab"), job={"count": 2}, shares={"a": CLASSES[:1]}) as swarm:
            swarm.start()
            swarm.wait_finished(60)
            a, b = swarm["a"], swarm["b"]
            note = 'only class "ok" in this test set: not comparable'
            job = a.status()["job"]
            self.assertEqual((job["metric"], job["local"], job["local_note"]), ("accuracy", None, note))
            self.assertIsNotNone(job["global"])
            self.assertIn(note, a.cli("status").out)
            self.assertEqual({row["local"] for row in a.committed()}, {None})
            self.assertIn("only one class in this test set: not comparable", a.cli("rounds", "list").out)
            self.assertIn("only one class", a.cli("rounds", "show", 2).out)
            evaluated = a.ask("eval")
            self.assertEqual((evaluated["headline"], evaluated["note"]), (None, note))
            self.assertIsNone(evaluated["balanced_accuracy"])
            self.assertEqual((evaluated["classes_present"], evaluated["classes_known"]), (1, 3))
            self.assertIn("figures over 1 of 3 classes present", a.cli("eval").out)
            self.assertIn(" local=- ", a.log)
            self.assertEqual(b.status()["job"]["local_note"], "")
            self.assertIsNotNone(b.ask("eval")["headline"])

    def test_auc(self):
        """`metric: auc` is the headline in every view."""
        two = {"classes": CLASSES[:2], "metric": "auc", "count": 2}
        with Swarm("ab", ring("ab"), job=two, site={"data": {"global_test": None}},
                   shares=dict.fromkeys("ab", CLASSES[:2])) as swarm:
            swarm.start()
            swarm.wait_finished(60)
            a = swarm["a"]
            evaluated = a.ask("eval")
            self.assertEqual(evaluated["metric"], "AUC")
            self.assertEqual(evaluated["headline"], evaluated["auc"])
            self.assertGreater(evaluated["auc"], evaluated["accuracy"])  # the clouds overlap
            self.assertAlmostEqual(a.committed()[-1]["local"], evaluated["auc"])
            self.assertEqual(a.status()["job"]["metric"], "AUC")
            self.assertIn(" metric=AUC ", a.log)
            self.assertIn(f"{evaluated['auc']:.3f}", a.cli("rounds", "list").out)


if __name__ == "__main__":
    main()
