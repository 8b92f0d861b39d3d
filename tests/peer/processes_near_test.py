#!/usr/bin/env python3
"""Peers of one network beside a distant one, at addresses of a network namespace of its own.

    STARLING=build/dev/peer/starling tests/peer/processes_near_test.py [Case.test_name]
"""

import os
import shutil
import subprocess
import sys
import unittest

from processes_test import STARLING, World

INSIDE = "STARLING_NEAR_TEST"  # in the environment: this is the process in the namespace
DISTANT, NEAR = "9.9.9.9", ("192.168.1.1", "192.168.1.2")


def enter_namespace():
    """Begins this program again in a network of its own; skips the tests where that is refused."""
    if INSIDE in os.environ:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for address in (DISTANT, *NEAR):
            subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=True)
        return
    enter = ["unshare", "--net"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    allowed = shutil.which("ip") and shutil.which("unshare") and subprocess.run(
        [*enter, "true"], stderr=subprocess.DEVNULL).returncode == 0
    if allowed:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", [*enter, sys.executable, *sys.argv])
    Near.__unittest_skip__ = True
    Near.__unittest_skip_why__ = "this system gives no network namespace"


class Near(World):
    def at(self, name, address, seeds):
        """A peer there; seeds: others, with their addresses."""
        named = ",".join(f'"{peer.key}@{host}:7700"' for peer, host in seeds)
        self.peer(name, 7700 + len(self.peers), [], [
            f"gossip.listen={address}:7700", f"gossip.advertise={address}:7700",
            f"gossip.seeds=[{named}]", f"trust.secret={self.path}/secret"]).start()
        return self.peers[-1]

    def test_they_meet_and_only_the_distant_one_says_that_all_can_dial_it(self):
        self.configure(steps=1000000)
        subprocess.run([STARLING, "keygen", "--secret", self.path / "secret"], check=True,
                       capture_output=True)
        distant = self.at("distant", DISTANT, [])
        near = [self.at(f"near-{i}", address, [(distant, DISTANT)])
                for i, address in enumerate(NEAR)]

        def partners(peer):
            return {e["partner"] for e in peer.events()
                    if e["event"] == "exchange" and e["outcome"] == "completed"}

        for peer in near:
            others = {other.key[:16] for other in self.peers if other is not peer}
            self.wait_until("each exchanges with both others", lambda: partners(peer) == others)
            self.wait_until("it says what to open", lambda: peer.said("cannot be reached"))
            self.assertFalse(any(line["dialable"] for line in peer.metrics()[-10:]))
        self.assertTrue(distant.said(f"others can reach this peer at {DISTANT}"))
        self.assertTrue(distant.metrics()[-1]["dialable"])


if __name__ == "__main__":
    enter_namespace()
    unittest.main()
