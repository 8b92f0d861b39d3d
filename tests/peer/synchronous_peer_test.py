#!/usr/bin/env python3
"""Real processes that wait for each other come to what `starling simulate` says of them.

    STARLING=build/dev/peer/starling SYNCHRONOUS_PEER=build/dev/tests/peer/synchronous_peer \
        tests/peer/synchronous_peer_test.py [Case.test_name]
"""

import json
import os
import subprocess
import unittest
from pathlib import Path

from processes_test import PATIENCE, STARLING, World, free_port_pair

PROGRAM = Path(os.environ.get("SYNCHRONOUS_PEER",
                              "build/dev/tests/peer/synchronous_peer")).resolve()
STEPS, PEERS, BATCHES = 7, 2, 4


class Synchronous(World):
    def setUp(self):
        super().setUp()
        self.configure(STEPS)
        # Of one learning rate: a real peer guesses at what the others have trained.
        self.settings = ["schedule.shape=constant", "schedule.warmup_tokens=0",
                         "schedule.local_warmup_steps=0", "outer.fragments=1",
                         f"metrics.validation_batches={BATCHES}"]

    def words(self, settings):
        return [word for setting in self.settings + settings for word in ("--set", setting)]

    def processes(self, *settings):
        """The lines of all, after STEPS steps of each."""
        addresses = ",".join(f"127.0.0.1:{free_port_pair()}" for _ in range(PEERS))
        peers = [subprocess.Popen(
            [PROGRAM, self.config, "--rank", str(rank), "--peers", addresses, "--steps",
             str(STEPS), "--seconds", str(PATIENCE), "--evaluate-seconds", "1e-9", "--out",
             self.path / f"peer-{rank}", *self.words([*settings])],
            stdout=subprocess.PIPE, text=True) for rank in range(PEERS)]
        try:
            texts = [peer.communicate(timeout=PATIENCE)[0] for peer in peers]
        finally:
            for peer in peers:
                peer.kill()
        self.assertEqual([peer.returncode for peer in peers], [0] * PEERS)
        return [[json.loads(line) for line in text.splitlines()] for text in texts]

    def simulated(self, *settings):
        """What is said of the mean model at the end."""
        out = self.path / "simulated.jsonl"
        done = subprocess.run(
            [STARLING, "simulate", self.config,
             *self.words([*settings, f"simulate.peers={PEERS}", f"simulate.out={out}"])],
            capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        return [line for line in lines if line["event"] == "loss"][-1]

    def mean_loss(self):
        average = self.path / "average.ckpt"
        for command in (["average", average,
                         *(self.path / f"peer-{rank}/last.ckpt" for rank in range(PEERS))],
                        ["eval", average, "--data", self.data / "validation", "--batches",
                         str(BATCHES)]):
            done = subprocess.run([STARLING, *command], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        return float(done.stdout.split()[1])

    def compare(self, *settings):
        simulated = self.simulated(*settings)
        trained = 0
        for lines in self.processes(*settings):
            self.assertEqual([line["event"] for line in lines[:2]], ["ready", "begin"])
            end = lines[-1]
            self.assertEqual((end["event"], end["steps"]), ("end", STEPS))
            trained += end["tokens"]
            losses = [line["loss"] for line in lines if line["event"] == "loss"]
            self.assertLess(losses[-1], losses[0])
        self.assertEqual(trained, simulated["tokens"])
        self.assertAlmostEqual(self.mean_loss(), simulated["loss"], places=3)

    def test_data_parallel_training_is_as_simulated(self):
        self.compare("outer.method=all-reduce", "outer.steps_per_round=1")

    def test_diloco_is_as_simulated(self):
        self.compare("outer.method=diloco", "outer.steps_per_round=3")

    def test_a_method_without_waiting_is_refused(self):
        done = subprocess.run(
            [PROGRAM, self.config, "--rank", "0", "--peers", "127.0.0.1:1,127.0.0.1:2", "--out",
             self.path, *self.words(["outer.method=noloco"])],
            capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("all must wait for all", done.stderr)


if __name__ == "__main__":
    unittest.main()
