#!/usr/bin/env python3
"""Where the threads of a peer run: the trainer's on processors of its own.

    STARLING=build/dev/peer/starling tests/peer/processes_placed_test.py [Case.test_name]
"""

import os
import unittest
from pathlib import Path

from processes_test import PATIENCE, World, free_port_pair


class Placed(World):
    def threads(self, peer):
        """The processors of each of its threads, by name."""
        found = {}
        for task in Path(f"/proc/{peer.process.pid}/task").iterdir():
            try:
                status = dict(line.split(":\t") for line in
                              (task / "status").read_text().splitlines() if ":\t" in line)
            except OSError:
                continue  # it has just ended
            found[status["Name"]] = status["Cpus_allowed_list"]
        return found

    def test_the_trainer_has_a_processor_and_the_others_have_the_rest(self):
        processors = sorted(os.sched_getaffinity(0))
        if len(processors) < 2:
            self.skipTest("there is one processor, which all threads share")
        self.configure(steps=200000)
        peer = self.peer("peer-0", free_port_pair(), settings=["device.pin=true"])
        # Of two, so that no hyper-threads change the order.
        pair = {processors[0], processors[-1]}
        # Claims of its own: other tests' peers may have these processors at the moment.
        peer.command = ["env", f"TMPDIR={self.path}", "taskset", "-c", ",".join(map(str, pair)),
                        *map(str, peer.command)]
        peer.start()
        roles = ["trainer", "mixer", "network", "disk"]
        self.wait_until("all roles run", lambda: set(roles) <= set(self.threads(peer)))
        self.wait_until("it has trained", lambda: peer.step() > 5)
        threads = self.threads(peer)
        self.assertEqual(threads["trainer"], str(min(pair)))
        self.assertEqual({threads[role] for role in roles[1:]}, {str(max(pair))})
        peer.kill()

    def test_more_threads_than_processors_are_refused_with_what_would_do(self):
        self.configure(steps=1000)
        settings = ["device.pin=true", "device.threads=1024"]
        peer = self.peer("peer-0", free_port_pair(), settings=settings)
        peer.start()
        peer.process.wait(timeout=PATIENCE)
        self.assertNotEqual(peer.process.returncode, 0)
        self.assertTrue(peer.said(f"set it to {len(os.sched_getaffinity(0))} at most"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
