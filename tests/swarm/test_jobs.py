#!/usr/bin/python3
"""Several jobs in one agent: proposed, accepted, running side by side, taking over, pulled before a first run."""
import json
import unittest

from agents import CLASSES, JOB, Swarm, main, merged, ring, wait_for, write_points

QUICK = {"round": {"deadline_min_s": 0.5, "deadline_max_s": 3, "meet_s": 10, "every_s": 0.05}}
HEAD = {"model": "dense 16 as body, relu, dense classes as head", "validation": 0.3}
# The same body, so that it starts warm, and a wider head behind it.
SECOND = {"version": 2, "model": "dense 16 as body, relu, dense 12 as neck, relu, dense classes as head",
          "init": {"from": "points@1"}}


def rows(site):
    """What a site knows of each job, by NAME@VERSION."""
    return {f"{row['job']}@{row['version']}": row for row in site.ask("job", "status")["jobs"]}


def wait_row(site, job, timeout, what, condition):
    def row():
        found = rows(site).get(job) if site.answers() else None
        return found if found and condition(found) else None
    return wait_for(row, timeout, f"{site.name}: {job} {what}", every=0.1)


def propose(swarm, site, changes):
    """Proposes another version on one site; the file as it stands."""
    swarm.write_job(merged(swarm.job, changes), "second.job.yaml")
    text = (swarm.folder / "second.job.yaml").read_text()
    said = site.ask("job", "propose", swarm.folder / "second.job.yaml")
    assert said["changed"], said
    return text


def round_of(site, job):
    return rows(site)[job]["round"] or 0


class Jobs(unittest.TestCase):
    def test_second_version_takes_over(self):
        """Proposed on one, seen by all, accepted by hand and by a trusted key; warm, beside the first, then it serves."""
        with Swarm("abc", ring("abc"), job=HEAD, site=QUICK) as swarm:
            a, b, c = swarm["a"], swarm["b"], swarm["c"]
            swarm.write_site("c", accept_jobs=[a.key])
            swarm.start()
            swarm.run_on(3, 40)
            text = propose(swarm, a, merged(SECOND, {"activate": {"ready": 2}}))
            again = a.ask("job", "propose", swarm.folder / "second.job.yaml")
            self.assertFalse(again["changed"])
            wait_row(b, "points@2", 20, "is proposed", lambda row: row["state"] == "proposed")
            wait_row(c, "points@2", 20, "runs", lambda row: row["running"])
            self.assertEqual(rows(b)["points@2"]["signed_by"], "a")
            shown = b.ask("job", "show", "points@2")
            self.assertEqual((shown["text"], shown["signed_by"]), (text, "a"))
            self.assertEqual([tensor["tensor"] for tensor in shown["tensors"]],
                             ["body.weight", "body.bias", "neck.weight", "neck.bias", "head.weight", "head.bias"])
            self.assertTrue(b.ask("job", "accept", "points@2", "--check")["changed"])
            self.assertEqual(rows(b)["points@2"]["state"], "proposed")
            for site in (a, b):
                self.assertTrue(site.ask("job", "accept", "points@2")["changed"])
                self.assertFalse(site.ask("job", "accept", "points@2")["changed"])
            b.kill()  # what was accepted stays
            b.start()
            for site in swarm:
                wait_row(site, "points@2", 60, "has a round", lambda row: (row["round"] or 0) >= 1)
            self.assertIn("copied body.weight, body.bias, head.bias; new: neck.weight, neck.bias, head.weight", a.log)
            first = round_of(a, "points@1")
            for site in swarm:
                row = wait_row(site, "points@2", 90, "serves", lambda row: row["serving"])
                self.assertEqual((row["accepted"], row["ready"], row["peers"]), (2, 2, 2))
                self.assertFalse(rows(site)["points@1"]["serving"])
                self.assertRegex(site.log, r"serving points@2: 0\.\d+ against 0\.\d+")
                self.assertEqual(site.status()["job"]["version"], 2)
            wait_row(a, "points@1", 60, "goes on", lambda row: row["round"] > first)
            self.assertEqual(a.ask("rounds", "list", "--job", "points@1")["rounds"][-1]["state"] in
                             ("committed", "published"), True)
            c.kill()
            c.start()
            wait_row(c, "points@2", 20, "still serves", lambda row: row["serving"] and row["running"])
            self.assertTrue(a.ask("job", "stop", "points@1")["changed"])
            self.assertFalse(a.ask("job", "stop", "points@1")["changed"])
            wait_row(b, "points@1", 20, "has lost a peer", lambda row: row["accepted"] == 1)
            a.stop()
            a.start()
            wait_row(a, "points@2", 20, "runs alone", lambda row: row["running"])
            self.assertEqual(rows(a)["points@1"]["state"], "stopped")
            self.assertFalse(rows(a)["points@1"]["running"])

    def test_worse_version_does_not_take_over(self):
        """A second version that learns nothing: it is told why it does not serve, and people may say so all the same."""
        with Swarm("ab", ring("ab"), job=HEAD, site=QUICK) as swarm:
            a, b = swarm["a"], swarm["b"]
            swarm.start()
            swarm.run_on(4, 40)
            propose(swarm, a, {"version": 2, "train": {"learning_rate": 1e-9}, "init_seed": 7,
                               "activate": {"ready": 1, "by": "compare"}})
            wait_row(b, "points@2", 20, "is proposed", lambda row: row["state"] == "proposed")
            for site in swarm:
                site.ask("job", "accept", "points@2")
            row = wait_row(a, "points@1", 60, "is better", lambda row: "is worse here" in row["note"])
            self.assertTrue(row["serving"])
            self.assertTrue(a.ask("job", "serve", "points@2")["changed"])
            self.assertTrue(rows(a)["points@2"]["serving"])
            self.assertFalse(a.ask("job", "serve", "points@2")["changed"])

    def test_no_figure_is_no_reason_to_take_over(self):
        """A validation split of one class has no headline: nothing can be said of either version, so the first one serves."""
        with Swarm("ab", ring("ab"), job=HEAD, site=QUICK, shares={"a": CLASSES[:1]}) as swarm:
            a, b = swarm["a"], swarm["b"]
            swarm.start()
            swarm.run_on(4, 40)
            propose(swarm, a, {"version": 2, "activate": {"ready": 1, "by": "compare"}})
            wait_row(b, "points@2", 20, "is proposed", lambda row: row["state"] == "proposed")
            for site in swarm:
                site.ask("job", "accept", "points@2")
            row = wait_row(a, "points@2", 60, "has rounds", lambda row: (row["round"] or 0) > 4)
            self.assertEqual((row["serving"], row["validation"]), (False, None))
            row = rows(a)["points@1"]
            self.assertEqual((row["serving"], row["validation"]), (True, None))
            self.assertIn("three rounds on the validation split are wanted", row["note"])

    def test_new_site_pulls_its_job_before_the_first_run(self):
        with Swarm("abd", ring("ab", ("b", "d")), job=HEAD, site=QUICK) as swarm:
            b, d = swarm["b"], swarm["d"]
            swarm.write_site("d", jobs={"job": "points.job.yaml"})
            swarm.start("ab")
            swarm["a"].wait_round(2, 40)
            refused = d.cli("run")
            self.assertEqual(refused.code, 4)
            self.assertIn("job pull", refused.err)
            self.assertTrue(d.ask("job", "pull", "points", "--from", "b", "--check")["changed"])
            said = d.ask("job", "pull", "--from", "b")
            self.assertEqual((said["job"], said["version"], said["changed"], said["signed_by"]), ("points", 1, True, "b"))
            self.assertEqual((d.folder / "points.job.yaml").read_text(), (swarm.folder / "points.job.yaml").read_text())
            self.assertFalse(d.ask("job", "pull", "points@1", "--from", "b")["changed"])
            self.assertEqual(d.cli("job", "pull", "nothing", "--from", "b").code, 1)
            (d.folder / "points.job.yaml").write_text("mine\n")
            other = d.cli("job", "pull", "--from", "b")
            self.assertEqual(other.code, 1)
            self.assertIn("other contents", other.err)
            self.assertEqual((d.folder / "points.job.yaml").read_text(), "mine\n")
            (d.folder / "points.job.yaml").unlink()
            d.ask("job", "pull", "--from", "b")
            d.start()
            d.wait_round(swarm["a"].job()["round"] + 2, 60)
            # With a running agent the agent is asked: another job that a peer has.
            swarm.write_job(merged(swarm.job, {"job": "other"}), "other.job.yaml")
            b.ask("job", "propose", swarm.folder / "other.job.yaml")
            said = d.ask("job", "pull", "other", "--from", "b")
            self.assertEqual((said["job"], said["signed_by"]), ("other", "b"))
            self.assertTrue((d.folder / "other.job.yaml").exists())

    def test_a_version_that_cannot_run_here_ends_nothing_else(self):
        """Proposed by a trusted key, with a column that this site's data lack: it is told, the first version goes on."""
        with Swarm("ab", ring("ab"), job=HEAD, site=QUICK) as swarm:
            a, b = swarm["a"], swarm["b"]
            swarm.write_site("b", accept_jobs=[a.key])
            swarm.start()
            swarm.run_on(2, 40)
            propose(swarm, a, {"version": 2, "features": ["force_N", "not_here"]})
            for _ in range(2):
                row = wait_row(b, "points@2", 20, "is refused", lambda row: row["note"])
                self.assertEqual((row["state"], row["running"], row["round"]), ("accepted", False, None))
                self.assertIn('no column "not_here"', row["note"])
                swarm.run_on(2, 40)
                self.assertEqual(b.status()["job"]["version"], 1)
                b.stop()
                b.start()  # and the same at every start
                b.wait_answers()
            self.assertEqual(b.cli("events", "--last", "100").out.count("job-cannot-start"), 3)
            self.assertTrue(b.ask("job", "stop", "points@2")["changed"])
            self.assertEqual(rows(b)["points@2"]["note"], "")

    def test_no_job_runs(self):
        """All of them stopped by people: the agent stays, is well and says what to do, also after a restart."""
        with Swarm("a", [], job=HEAD, site=QUICK) as swarm:
            a = swarm["a"]
            swarm.start()
            a.wait_round(1, 40)
            a.ask("job", "stop", "points@1")
            for _ in range(2):
                health = a.ask("health")
                self.assertEqual((health["healthy"], health["word"]), (True, "WAITING"))
                self.assertIn("no job runs", health["why"])
                status = a.cli("status")
                self.assertEqual(status.code, 1, status)
                self.assertIn("this agent runs no job", status.err)
                a.stop()
                a.start()
                wait_for(lambda: a.cli("health").code == 0, 20, "a is healthy")
            self.assertTrue(a.ask("job", "accept", "points@1")["changed"])
            a.wait_round(2, 40)

    def test_two_jobs_of_the_site_file(self):
        """Two names side by side; verbs want to know which."""
        with Swarm("ab", ring("ab"), job=HEAD, site=QUICK) as swarm:
            swarm.write_job(merged(swarm.job, {"job": "others", "model": "dense classes"}), "others.job.yaml")
            for site in swarm:
                both = [swarm.site_job, merged(swarm.site_job, {"job": "../others.job.yaml"})]
                config = merged(swarm.site_config(site.name), {"jobs": both})
                site.file.write_text(json.dumps(config))
            swarm.start()
            a = swarm["a"]
            for job in ("points", "others"):
                answer = a.cli("rounds", "wait", 2, "--timeout", 40, "--job", job, timeout=60)
                self.assertEqual(answer.code, 0, answer)
                self.assertEqual(a.ask("status", "--job", job)["job"]["name"], job)
            which = a.cli("rounds", "list")
            self.assertEqual(which.code, 4)
            self.assertIn("points@1", which.err)
            self.assertIn("others@1", which.err)
            self.assertEqual(len(rows(a)), 2)

    def test_without_an_agent(self):
        """What is proposed and accepted while no agent runs counts from its next start."""
        with Swarm("a", [], job=HEAD, site=QUICK) as swarm:
            a = swarm["a"]
            self.assertTrue(propose(swarm, a, SECOND))
            self.assertFalse(a.ask("job", "propose", swarm.folder / "second.job.yaml")["changed"])
            swarm.write_job(merged(swarm.job, merged(SECOND, {"init_seed": 3})), "second.job.yaml")
            other = a.cli("job", "propose", swarm.folder / "second.job.yaml")
            self.assertEqual(other.code, 1, other)
            self.assertIn("write a higher version", other.err)
            self.assertEqual(rows(a)["points@2"]["state"], "proposed")
            self.assertTrue(a.ask("job", "accept", "points@2")["needs_start"])
            self.assertTrue(a.ask("job", "stop", "points@1")["changed"])
            self.assertEqual(a.cli("job", "accept", "points@9").code, 1)
            a.start()
            wait_row(a, "points@2", 30, "runs", lambda row: row["running"] and (row["round"] or 0) >= 0)
            self.assertEqual({job: row["state"] for job, row in rows(a).items()},
                             {"points@1": "stopped", "points@2": "accepted"})


if __name__ == "__main__":
    main()
