#!/usr/bin/python3
"""Does the swarm help this site? The headline, the shadow model, and `starling compare` on real agents."""
import json
import unittest

from agents import CLASSES, Swarm, main, options, ring, starling


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


def compare(site, *flags):
    answer = site.cli("compare", "--format", "json", *flags)
    return answer.code, answer.json.get("data"), answer


def shadow_on(**more):
    return {"alone": {"shadow": "on"}, **more}


class Compare(unittest.TestCase):
    def test_few_samples_of_a_shared_concept(self):
        """Three sites with some classes each: the swarm helps on the common test set, with and without the agent."""
        with Swarm("abc", ring("abc"), job={"count": 8}, site=shadow_on(),
                   shares={"a": CLASSES[:2], "b": CLASSES[1:], "c": CLASSES[::2]}) as swarm:
            swarm.start()
            swarm.wait_finished(90)
            for site in swarm:
                code, data, answer = compare(site, "--set", "global")
                self.assertEqual((code, data["verdict"]), (0, "helps"), answer)
                self.assertGreater(data["low"], 0)
                self.assertGreater(data["swarm"], data["alone"])
                self.assertAlmostEqual(data["difference"], data["swarm"] - data["alone"])
                self.assertAlmostEqual(data["difference"] * data["samples"],
                                       data["only_swarm_right"] - data["only_alone_right"])
                self.assertEqual((data["alone_trainings"], data["site_trainings"]), (8, 8))
                self.assertEqual(sum(row["samples"] for row in data["classes"]), data["samples"])
                self.assertAlmostEqual(data["swarm"], site.ask("eval", "--set", "global")["headline"])
            a = swarm["a"]
            self.assertIn("the swarm helps this site", a.cli("compare", "--set", "global").out)
            self.assertEqual([row["class"] for row in compare(a, "--by", "dent,ok")[1]["classes"]], ["ok", "dent"])
            self.assertEqual(compare(a, "--by", "glass")[0], 4)
            shadow = a.status()["job"]["shadow"]
            self.assertTrue(shadow["on"])
            self.assertIn(" a round, ", a.cli("status").out)
            running = compare(a, "--set", "global")[1]
            a.stop()
            self.assertEqual(compare(a, "--set", "global")[1], running)

    def test_the_shadow_is_the_site_alone(self):
        """After as many rounds it is, bit for bit, what the same site learns without peers."""
        with Swarm("ab", ring("ab"), job={"count": 5}, site=shadow_on()) as swarm:
            swarm.start()
            swarm.wait_finished(60)
            shadow = compare(swarm["a"], "--set", "global")[1]["alone"]
            row = swarm["a"].query("SELECT shadow FROM commitment ORDER BY round DESC LIMIT 1")[0][0]
            swarm["a"].stop()
            alone = swarm["a"].folder / "alone.yaml"
            site = json.loads(swarm["a"].file.read_text())
            site.update(peers=[], listen=[], state_dir="alone")
            site["jobs"][0].update(when_done="exit", alone={"shadow": "off"})
            alone.write_text(json.dumps(site))
            self.assertEqual(starling("run", "-C", alone, timeout=60).code, 0)
            self.assertEqual(starling("eval", "--set", "global", "-C", alone, "--format", "json").data["headline"], shadow)
            self.assertEqual(len(row), 32)

    def test_plenty_of_samples(self):
        """Where alone is as good, the statistics say so: exit 1 or 0 as the interval lies."""
        with Swarm("ab", ring("ab"), job={"count": 4}, site=shadow_on(), rows=3000) as swarm:
            swarm.start()
            swarm.wait_finished(90)
            for site in swarm:
                code, data, answer = compare(site)
                self.assertEqual(code, 0 if data["verdict"] == "helps" else 1, answer)
                self.assertEqual(data["verdict"] == "helps", data["low"] > 0 and data["p_value"] < 0.05)
                self.assertLess(abs(data["difference"]), 0.05)
                table = site.cli("compare")
                self.assertIn("held out, never trained on", table.out)
                self.assertRegex(table.out, r"it takes about \d+ samples")
                self.assertEqual(len(site.cli("compare", "--format", "tsv").out.splitlines()), 1)

    def test_one_class_site(self):
        with Swarm("ab", ring("ab"), job={"count": 3}, site=shadow_on(), shares={"a": CLASSES[:1]}) as swarm:
            swarm.start()
            swarm.wait_finished(60)
            code, data, answer = compare(swarm["a"])
            self.assertEqual((code, data["verdict"], data["difference"], data["alone"]), (1, "not-comparable", None, None))
            self.assertIn('only class "ok"', data["note"], answer)
            self.assertIn('only class "ok" in this test set: not comparable', swarm["a"].cli("compare").out)

    def test_a_restart_keeps_the_shadow(self):
        """Killed in any phase, it goes on: as many trainings as the site, and the same figures as undisturbed."""
        def learn(kills):
            with Swarm("ab", ring("ab"), job={"count": 6}, site=shadow_on()) as swarm:
                swarm.start()
                a = swarm["a"]
                for number in kills:
                    a.wait_round(number, 30)
                    a.kill()
                    a.start()
                swarm.wait_finished(60)
                code, data, answer = compare(a)
                self.assertIsNotNone(data, answer)
                return {key: data[key] for key in ("alone", "alone_trainings", "site_trainings")}
        undisturbed = learn([])
        self.assertEqual(undisturbed["alone_trainings"], 6)
        self.assertEqual(learn([2, 4])["alone"], undisturbed["alone"])

    def test_a_site_that_was_rolled_back(self):
        """The model trained alone goes on as it was, so nothing is said until the site has about as many trainings again."""
        with Swarm("ab", ring("ab"), job={"count": 6}, site=shadow_on()) as swarm:
            swarm.start()
            swarm.wait_finished(60)
            a = swarm["a"]
            self.assertEqual(a.cli("models", "rollback", 4).code, 0)
            code, data, answer = compare(a, "--set", "global")
            self.assertEqual((code, data["verdict"]), (1, "rolled-back"), answer)
            self.assertEqual((data["label"], data["alone_trainings"], data["site_trainings"]), ("6+1", 6, 4))
            self.assertIn("this site was rolled back", a.cli("compare").out)

    def test_few_samples_on_the_own_test_set(self):
        """30 training samples a site and 270 held-out ones: what five sites know together is seen at one of them, and said
        of none without its interval."""
        few = {"count": 12, "holdout": 0.9, "validation": 0, "train": {"epochs": 2}}
        with Swarm("abcde", ring("abcde"), job=few, site=shadow_on(), rows=300) as swarm:
            swarm.start()
            swarm.wait_finished(90)
            said = {site.name: compare(site) for site in swarm}
            print({name: (code, round(100 * data["difference"], 1)) for name, (code, data, _) in said.items()})
            for code, data, answer in said.values():
                self.assertEqual(code == 0, data["low"] > 0 and data["p_value"] < 0.05, answer)
                self.assertTrue(data["held_out"])
            self.assertIn(0, [code for code, _, _ in said.values()])

    def test_auc_and_r2(self):
        """The bootstrap's headlines: the same answer twice, and a difference without points."""
        two = {"classes": CLASSES[:2], "metric": "auc", "count": 3}
        numbers = {"task": "regress", "classes": None, "label": "pitch_mm", "features": ["force_N", "temp_C", "speed_mm_s"],
                   "model": "dense 8, relu, dense 1", "count": 3, "train": {"learning_rate": 0.01}}
        for job, metric in ((two, "AUC"), (numbers, "R2")):
            with self.subTest(metric), Swarm("ab", ring("ab"), job=job, site=shadow_on(data={"global_test": None}),
                                             shares=dict.fromkeys("ab", CLASSES[:2])) as swarm:
                swarm.start()
                swarm.wait_finished(60)
                code, data, answer = compare(swarm["a"])
                self.assertEqual((data["metric"], data["p_value"]), (metric, None), answer)
                self.assertEqual(code, 0 if data["low"] > 0 else 1)
                self.assertLessEqual(data["low"], data["difference"])
                self.assertLessEqual(data["difference"], data["high"])
                self.assertGreater(data["samples_needed"], 0)
                self.assertEqual(compare(swarm["a"])[1], data)
                self.assertIn("a difference of 0.02", swarm["a"].cli("compare").out)
                self.assertEqual("classes" in data, metric == "AUC")

    def test_a_late_site(self):
        """One that comes to round 5 of others jumps; its shadow has as many trainings as the site itself, not as the swarm."""
        with Swarm("abc", ring("abc"), job={"count": 30}, site=shadow_on(round={"every_s": 0.2})) as swarm:
            swarm["a"].start()
            swarm["b"].start()
            swarm["a"].wait_round(5, 30)
            swarm["c"].start()
            swarm.wait_finished(90)
            code, data, answer = compare(swarm["c"])
            self.assertIn(code, (0, 1), answer)
            self.assertEqual(data["alone_trainings"], data["site_trainings"])
            self.assertLess(data["alone_trainings"], 30)

    def test_off(self):
        with Swarm("ab", ring("ab"), job={"count": 2}, site={"alone": {"shadow": "off"}}) as swarm:
            swarm.start()
            swarm.wait_finished(60)
            answer = swarm["a"].cli("compare", "--format", "json")
            self.assertEqual((answer.code, answer.json["error"]["code"]), (1, "not-found"))
            self.assertIn("shadow: on", answer.json["error"]["hint"])
            self.assertFalse(swarm["a"].status()["job"]["shadow"]["on"])
            self.assertEqual(swarm["a"].query("SELECT count(shadow) FROM commitment"), [(0,)])

    def test_auto_gives_up_what_costs_too_much(self):
        """Two equal sites never wait for each other, so a second training is a large part of every round."""
        if options.small:
            self.skipTest("a sanitised build has other shares")
        with Swarm("ab", ring("ab"), job={"count": 12, "model": "dense 256, relu, dense 256, relu, dense classes",
                                             "train": {"epochs": 8}}, rows=1500) as swarm:
            swarm.start()
            swarm.wait_finished(120)
            a = swarm["a"]
            self.assertEqual(a.log.count("shadow-off"), 1, a.log)
            self.assertIn("alone: { shadow: on }", a.log)
            self.assertFalse(a.status()["job"]["shadow"]["on"])
            answer = a.cli("compare")
            self.assertEqual(answer.code, 1)
            self.assertIn("more than 10 % of a round", answer.err)
            a.stop()
            a.start()  # and it does not begin again
            a.wait_answers()
            self.assertFalse(a.status()["job"]["shadow"]["on"])


if __name__ == "__main__":
    main()
