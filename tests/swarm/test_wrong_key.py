#!/usr/bin/python3
"""A wrong key on either side: within five seconds both ends say it in words, and the log stays calm."""
import time
import unittest

from agents import Swarm, main, options, wait_for

DIFFERS = "its key differs from the config or it does not know ours"


def key_of_nobody(swarm):
    """A key that no agent of the swarm has."""
    from agents import starling
    return starling("key", "new", swarm.folder / "nobody.key", "--format", "json").data["key"]


class WrongKey(unittest.TestCase):
    def check_both_ends(self, swarm, dialler, listener):
        """The dialler says why there is no session; the listener counts the stranger by its address."""
        swarm.start()
        swarm[listener].wait_answers()
        swarm[dialler].wait_answers()
        since = time.monotonic()
        row = swarm[dialler].wait_peer(listener, ["no-answer"], 5)
        self.assertIn(DIFFERS, row["sentence"])
        self.assertIn(DIFFERS, swarm[dialler].cli("peer", "list").out)

        def stranger():
            return [row for row in swarm[listener].ask("peer", "list")["strangers"] if row["unknown_key"]]
        row = wait_for(stranger, 5 - (time.monotonic() - since), f"{listener} counts the unknown key")[0]
        self.assertEqual(row["address"].rsplit(":", 1)[0].strip("[]"), "127.0.0.1")
        self.assertIn("STRANGER", swarm[listener].cli("peer", "list").out)

    def test_dialler_has_the_wrong_key(self):
        with Swarm("ab", [("a", "b")]) as swarm:
            swarm.peer_changes = {"a": {"b": {"key": key_of_nobody(swarm)}}, "b": {"a": {"address": None}}}
            swarm.write_site("a")
            swarm.write_site("b")
            swarm.start()
            swarm["a"].wait_answers()
            row = swarm["a"].wait_peer("b", ["no-answer"], 5)
            self.assertIn(DIFFERS, row["sentence"])
            # The handshake is for another key: nobody can tell whose it is.
            wait_for(lambda: any(row["unknown_key"] + row["handshake"] for row in
                                 swarm["b"].ask("peer", "list")["strangers"]), 5, "b counts the stranger")

    def test_listener_has_the_wrong_key(self):
        with Swarm("ab", [("a", "b")]) as swarm:
            swarm.peer_changes = {"b": {"a": {"key": key_of_nobody(swarm), "address": None}}}
            swarm.write_site("b")
            self.check_both_ends(swarm, "a", "b")

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
