#!/usr/bin/python3
"""Jobs with tasks: what a site keeps of them outlasts a kill, is told, and data that arrive are taken up."""
import random
import unittest

from agents import CENTRES, CLASSES, FEATURES, Swarm, main, ring, wait_for

TASKS = {"continual": {"tasks": [[name] for name in CLASSES], "rounds": 4, "replay": 20, "ewc": 10}, "count": 12}


def row(name, rng):
    return ",".join(f"{rng.gauss(at, 1):.4f}" for at in CENTRES[name]) + f",{name}\n"


class Continual(unittest.TestCase):
    def models_of(self, kills):
        """The bits of every model of a site that is killed after each of these rounds."""
        with Swarm("a", [], job=TASKS, site={"round": {"every_s": 0.1}, "when_done": "serve"}) as swarm:
            a = swarm.start()["a"]
            for number in kills:
                a.wait_round(number, 30)
                a.kill()
                a.start()
                a.wait_answers()
            a.wait_round(12, 30)
            return a.models(), a.ask("rounds", "--continual"), a.query("SELECT text FROM event WHERE name = 'task-begun'")

    def test_a_kill_in_any_task_changes_no_bit(self):
        whole, matrix, events = self.models_of([])
        cut, matrix_cut, _ = self.models_of([2, 4, 5, 9])
        self.assertEqual(whole, cut)
        self.assertEqual(matrix, matrix_cut)
        self.assertEqual([time["trained"] for time in matrix["times"]], [1, 2, 3])
        self.assertEqual(matrix["times"][0]["accuracy"][1:], [0, 0])  # not seen yet
        self.assertGreater(min(matrix["times"][2]["accuracy"]), 0.3)  # rehearsed
        self.assertEqual(len(events), 3)

    def test_staggered_sites_learn_from_each_other(self):
        """Each site trains each class in another third of the rounds; all keep all."""
        job = {"continual": {"tasks": [[name] for name in CLASSES], "rounds": 5}, "count": 15}
        sites = {name: {"continual": {"offset": i}} for i, name in enumerate("abc")}
        with Swarm("abc", ring("abc"), job=job, site={"when_done": "serve", "round": {"deadline_min_s": 5}}) as swarm:
            for name, changes in sites.items():
                swarm.write_site(name, jobs=[{**swarm.site_job, **changes}])
            swarm.start()
            for site in swarm:
                site.wait_round(15, 60)
            for i, site in enumerate(swarm):
                matrix = site.ask("rounds", "--continual")
                self.assertEqual([time["trained"] for time in matrix["times"]], [(i + p) % 3 + 1 for p in range(3)])
                self.assertLess(matrix["forgetting"], 0.9)

    def test_a_folder_that_is_watched(self):
        rng = random.Random("watched")
        job = {"continual": {"tasks": [[CLASSES[0]], CLASSES[1:]], "boundaries": "detected", "replay": 20}}
        with Swarm("a", [], job=job, site={"round": {"every_s": 0.1}}) as swarm:
            a = swarm["a"]
            folder = a.folder / "in"
            folder.mkdir()
            head = ",".join(FEATURES + ["verdict"]) + "\n"
            (folder / "1.csv").write_text(head + "".join(row(CLASSES[0], rng) for _ in range(200)))
            entry = {**swarm.site_job, "data": {"train": "in", "watch": True}}
            swarm.write_site("a", jobs=[entry])
            a.start()
            a.wait_round(2, 30)
            first = a.status()["job"]["continual"]
            self.assertEqual((first["task"], first["drift"]), (1, ""))
            (folder / "2.csv").write_text(head + "".join(row(CLASSES[1 + i % 2], rng) for i in range(300)))
            wait_for(lambda: a.status()["job"]["continual"]["task"] == 2, 30, "the second task")
            now = a.status()["job"]["continual"]
            self.assertIn(now["drift"], ["loss", "labels", "inputs"])
            self.assertGreater(now["kept"], 0)
            (folder / "1.csv").unlink()
            wait_for(lambda: a.query("SELECT text FROM event WHERE name = 'stream-lost'"), 30, "the loss")
            a.wait_round(a.committed()[-1]["round"] + 2, 30)


if __name__ == "__main__":
    main()
