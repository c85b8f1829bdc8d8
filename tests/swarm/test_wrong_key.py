#!/usr/bin/python3
"""A wrong key on either side: within five seconds both ends say it in words, and the log stays calm."""
import time
import unittest

from agents import Swarm, main, options, starling, wait_for

DIFFERS = "its key differs from the config or it does not know ours"


def key_of_nobody(swarm):
    """A key that no agent of the swarm has."""
    return starling("key", "new", swarm.folder / "nobody.key", "--format", "json").data["key"]


class WrongKey(unittest.TestCase):
    def check_both_ends(self, swarm):
        """a dials and says why there is no session; b counts the stranger by its address."""
        swarm.start()
        for site in swarm:
            site.wait_answers()
        end = time.monotonic() + 5
        row = swarm["a"].wait_peer("b", ["no-answer"], 5)
        self.assertIn(DIFFERS, row["sentence"])
        self.assertIn(DIFFERS, swarm["a"].cli("peer", "list").out)

        def stranger():
            # A handshake made for another key tells nobody whose it is: it fails before the key is seen.
            rows = swarm["b"].ask("peer", "list")["strangers"]
            return [row for row in rows if row["unknown_key"] + row["handshake"] > 0]
        row = wait_for(stranger, end - time.monotonic(), "b counts the stranger")[0]
        self.assertEqual(row["address"], "127.0.0.1")
        self.assertIn("STRANGER", swarm["b"].cli("peer", "list").out)
        return row

    def test_dialler_has_the_wrong_key(self):
        with Swarm("ab", [("a", "b")]) as swarm:
            swarm.peer_changes = {"a": {"b": {"key": key_of_nobody(swarm)}}, "b": {"a": {"address": None}}}
            swarm.write_site("a")
            swarm.write_site("b")
            self.check_both_ends(swarm)

    def test_listener_has_the_wrong_key(self):
        with Swarm("ab", [("a", "b")]) as swarm:
            swarm.peer_changes = {"b": {"a": {"key": key_of_nobody(swarm), "address": None}}}
            swarm.write_site("b")
            self.assertGreater(self.check_both_ends(swarm)["unknown_key"], 0)

    def test_log_does_not_grow(self):
        """At most ten lines a minute about one peer, on either end; long: counted over two minutes."""
        with Swarm("ab", [("a", "b")]) as swarm:
            swarm.peer_changes = {"b": {"a": {"key": key_of_nobody(swarm), "address": None}}}
            swarm.write_site("b")
            swarm.start()
            swarm["a"].wait_peer("b", ["no-answer"], 10)
            minutes = 2 if options.long else 0.25
            begin = {site.name: len(site.log.splitlines()) for site in swarm}
            time.sleep(60 * minutes)  # the time is what is measured
            for site in swarm:
                lines = site.log.splitlines()[begin[site.name]:]
                self.assertLessEqual(len(lines), max(10 * minutes, 5), "\n".join(lines))


if __name__ == "__main__":
    main()
