#!/usr/bin/python3
"""Who is there: members that are no peers, deaths, farewells, restarts of all at once, moved peers, names that lead elsewhere,
and agents of an older protocol version."""
import shutil
import subprocess
import time
import unittest

from agents import Swarm, die_with_parent, main, options, ring, starling, wait_for
from network import why_not
from test_bad_peers import other_version_program

SEES_ALL_S, DIES_S, MOVED_S = 15, 20, 20
STAYS_S = 5  # a suspicion and more
QUIET = {"round": {"deadline_min_s": 0.2, "deadline_max_s": 1, "meet_s": 2, "every_s": 5}}


def members(site):
    """name -> row; a member that is no peer has the name that it gives itself."""
    return {row["name"]: row for row in site.ask_fast("members")["members"]}


def states(site):
    return {name: row["state"] for name, row in members(site).items()}


def alive_for(site, seconds):
    """All that it knows have been alive, as it sees them, for so long."""
    return all(row["state"] == "alive" and (row["role"] == "self" or row["since_s"] >= seconds) for row in members(site).values())


def wait_states(sites, expected, timeout):
    """Until every site has these states of its members; the seconds that it took."""
    begin = time.monotonic()
    wait_for(lambda: all(site.answers() for site in sites), timeout, "all answer", every=0.1)
    left = timeout - (time.monotonic() - begin)
    wait_for(lambda: all({**states(site), **expected} == states(site) for site in sites), left,
             f"{' '.join(site.name for site in sites)} see {expected}", every=0.1)
    return time.monotonic() - begin


def called_by(swarm, name, other):
    """`name` does not know where `other` is: it is dialled by it."""
    peers = swarm.site_config(name)["peers"]
    for peer in peers:
        if peer["name"] == other:
            del peer["address"]
    swarm.write_site(name, peers=peers)


class Members(unittest.TestCase):
    def test_ring(self):
        names = "abcde"
        with Swarm(names, ring(names), rows=60, test_rows=60, site=QUIET) as swarm:
            alive = {name: "alive" for name in names}
            swarm.start()
            took = wait_states(list(swarm), alive, SEES_ALL_S)
            rows = members(swarm["a"])
            self.assertEqual({name: row["role"] for name, row in rows.items()},
                             {"a": "self", "b": "peer", "e": "peer", "c": "member", "d": "member"})
            self.assertEqual(rows["c"]["addresses"], [swarm["c"].address])
            status = swarm["a"].status()
            self.assertEqual(status["members"]["alive"], 5)
            self.assertEqual(swarm["a"].peers()["b"]["member"], "alive")
            self.assertGreater(swarm["a"].peers()["b"]["boot_epoch"], 0)
            listed = swarm["a"].ask("peer", "members")  # the same, by the verb
            self.assertEqual(sorted(row["name"] for row in listed["members"]), sorted(names))
            self.assertEqual(listed["counts"], status["members"])
            table = swarm["a"].cli("peer", "members").out.splitlines()
            self.assertIn(" ADDRESSES ", table[0])
            for name in names:
                self.assertTrue(any(line.startswith(f"{name} ") and f" {swarm[name].address} " in line for line in table), table)

            others = [site for site in swarm if site.name != "c"]
            self.assertEqual(swarm["c"].stop(), 0)
            left = wait_states(others, {"c": "left"}, 5)
            swarm["c"].start()
            wait_states(list(swarm), alive, SEES_ALL_S)
            swarm["c"].kill()
            died = wait_states(others, {"c": "dead"}, DIES_S)
            swarm["c"].start()
            back = wait_states(list(swarm), alive, SEES_ALL_S)
            print(f"[seen {took:.1f} s, left {left:.1f} s, dead {died:.1f} s, back {back:.1f} s]", end=" ", flush=True)

    def test_all_at_once_and_half(self):
        names = [f"s{i}" for i in range(6 if options.small else 32 if options.long else 8)]
        with Swarm(names, ring(names, (names[0], names[3])), rows=60, test_rows=60, site=QUIET) as swarm:
            alive = {name: "alive" for name in names}
            swarm.start()
            wait_states(list(swarm), alive, 2 * SEES_ALL_S)
            for site in swarm:
                site.kill()
            swarm.start()
            took = wait_states(list(swarm), alive, SEES_ALL_S)
            wait_for(lambda: all(alive_for(site, STAYS_S) for site in swarm), SEES_ALL_S, "nobody is left behind", every=0.1)
            for site in swarm:
                site.kill()
            half = [swarm[name] for name in names[:len(names) // 2]]
            for site in half:
                site.start()
            wait_states(half, {site.name: "alive" for site in half}, SEES_ALL_S)
            gone = names[-1]
            self.assertEqual(members(half[0])[gone]["state"], "absent")
            self.assertIn(half[0].state_of(gone), ("unreachable", "no-session", "no-answer", "absent"))
            print(f"[{len(names)} agents: all again after {took:.1f} s]", end=" ", flush=True)

    def test_moved_peer(self):
        """a dials c, c dials b, a and b are peers: what c says of itself reaches a over b."""
        with Swarm("abc", ring("abc"), rows=60, test_rows=60, site=QUIET) as swarm:
            called_by(swarm, "c", "a")
            called_by(swarm, "b", "c")
            alive = {name: "alive" for name in "abc"}
            swarm.start()
            wait_states(list(swarm), alive, SEES_ALL_S)
            swarm["a"].wait_peer("c", {"alive"}, SEES_ALL_S)
            old = swarm["c"].address
            swarm["c"].kill()
            swarm["c"].host = "127.0.0.7"
            called_by(swarm, "c", "a")
            wait_for(lambda: swarm["a"].state_of("c") != "alive", 10, "a has lost c")
            swarm["c"].start()
            begin = time.monotonic()
            swarm["a"].wait_peer("c", {"alive"}, MOVED_S)
            print(f"[found after {time.monotonic() - begin:.1f} s]", end=" ", flush=True)
            row = members(swarm["a"])["c"]
            self.assertEqual((row["role"], row["addresses"]), ("peer", [swarm["c"].address]))
            self.assertEqual(swarm["a"].peers()["c"]["address"], old)
            self.assertEqual(len(members(swarm["a"])), 3)  # one c, not two

    def test_a_name_is_resolved_again(self):
        if why_not():
            self.skipTest(why_not())
        if not shutil.which("mount"):
            self.skipTest("no mount")
        with Swarm("ab", [("a", "b")], rows=60, test_rows=60, site=QUIET) as swarm:
            called_by(swarm, "b", "a")
            hosts = swarm.folder / "hosts"
            hosts.write_text("127.0.0.1 localhost\n127.0.0.1 b.starling.test\n")
            swarm.peer_changes["a"] = {"b": {"address": f"tcp://b.starling.test:{swarm['b'].port}"}}
            swarm.write_site("a")
            swarm["a"].prefix = ["unshare", "-m", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh"]
            swarm.start()
            swarm["a"].wait_answers()
            swarm["a"].wait_peer("b", {"alive"}, SEES_ALL_S)
            self.assertEqual(swarm["b"].stop(), 0)
            swarm["b"].host = "127.0.0.9"
            called_by(swarm, "b", "a")
            swarm["b"].start()
            wait_for(lambda: swarm["b"].answers() and members(swarm["a"])["b"]["state"] != "alive", 10, "b is elsewhere")
            self.assertNotEqual(swarm["a"].state_of("b"), "alive")
            with open(hosts, "r+") as file:  # the same file: it is mounted
                file.write("127.0.0.1 localhost\n127.0.0.9 b.starling.test\n")
            begin = time.monotonic()
            swarm["a"].wait_peer("b", {"alive"}, MOVED_S)
            print(f"[found after {time.monotonic() - begin:.1f} s]", end=" ", flush=True)

    def test_an_agent_of_version_1(self):
        """It has its session, is told nothing that it does not know, and is listed by its session alone."""
        program = other_version_program()
        if not program.exists():
            self.skipTest("no such program is built")
        with Swarm("abo", [("a", "b"), ("a", "o"), ("b", "o")], rows=60, test_rows=60, site=QUIET) as swarm:
            swarm.start("ab")
            site = swarm["o"]
            with open(site.log_file, "ab") as log:
                site.process = subprocess.Popen([program, site.folder / "agent.key", "test", swarm["a"].key,
                                                 swarm["a"].address, "1"], stdout=log, stderr=log,
                                                preexec_fn=die_with_parent)
            swarm["a"].wait_answers()
            swarm["a"].wait_peer("o", {"job"}, SEES_ALL_S)  # a session, though it runs no job of ours
            wait_states([swarm["a"]], {"a": "alive", "b": "alive", "o": "alive"}, SEES_ALL_S)
            time.sleep(3)
            self.assertIsNone(swarm["a"].peers()["o"]["boot_epoch"])
            self.assertNotIn("frame", swarm["a"].peers()["o"]["refused"])
            self.assertIn("session up", site.log)
            self.assertNotIn("session down", site.log)


if __name__ == "__main__":
    main()
