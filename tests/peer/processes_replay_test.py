#!/usr/bin/env python3
"""`starling replay` tells what happened to real peers, one of which was killed and came back.

    STARLING=build/dev/peer/starling tests/peer/processes_replay_test.py [Case.test_name]
"""

import json
import os
import pty
import subprocess
import unittest

from processes_test import PATIENCE, STARLING, World, free_port_pair


class Replayed(World):
    def replay(self, *args):
        done = subprocess.run([STARLING, "replay", self.path / "runs/processes", *args],
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def step_on_a_terminal(self, keys):
        """What `starling replay` shows there."""
        mine, its = pty.openpty()
        process = subprocess.Popen([STARLING, "replay", self.path / "runs/processes"],
                                   stdin=its, stdout=its, stderr=its)
        os.close(its)
        os.write(mine, keys)
        shown = b""
        while True:
            try:
                read = os.read(mine, 4096)
            except OSError:  # the other end is closed
                break
            if not read:
                break
            shown += read
        os.close(mine)
        self.assertEqual(process.wait(PATIENCE), 0)
        return shown.decode()

    def test_a_run_with_a_death_is_told_and_stepped_through(self):
        self.configure(steps=200000)
        ports = [free_port_pair(), free_port_pair()]
        for name, port in zip(("heron", "wren"), ports):
            self.peer(name, port, [p for p in ports if p != port]).start()
        heron, wren = self.peers
        self.wait_until("both have exchanged and written", lambda: all(
            p.step() > 50 and p.metrics()[-1]["exchanges"] > 0
            and list((p.folder / "checkpoints").glob("*.ckpt")) for p in self.peers))
        wren.kill()
        self.wait_until("its death is noticed", lambda: heron.said("is dead"))
        before = wren.step()
        wren.start()
        self.wait_until("it goes on", lambda: wren.step() > before)
        for peer in self.peers:
            peer.process.terminate()
        for peer in self.peers:
            self.finish(peer)

        told = self.replay()
        self.assertEqual(told.stderr, "")  # every line of the logs is understood
        lines = told.stdout.splitlines()
        times = [float(line.split()[0]) for line in lines]
        self.assertEqual(times, sorted(times))
        places = [next(i for i, line in enumerate(lines) if part in line) for part in (
            "wren         started\n".strip(), "exchanged fragment", "wren at 127.0.0.1",
            " is dead", "wren         started again, from step", "training has ended")]
        self.assertLess(places[0], places[1])
        self.assertLess(places[1], places[3])
        self.assertLess(places[3], places[4])
        self.assertLess(places[4], places[5])
        self.assertTrue(any("heron" in line and "wrote 0" in line for line in lines))

        deaths = self.replay("--kind", "peer", "--peer", "wren", "--json").stdout.splitlines()
        events = [json.loads(line) for line in deaths]
        self.assertIn("dead", [event["health"] for event in events])
        self.assertEqual({event["event"] for event in events}, {"peer"})

        shown = self.step_on_a_terminal(b"\n20\nq\n")
        self.assertEqual(shown.count("others alive"), 21)


if __name__ == "__main__":
    unittest.main(verbosity=2)
