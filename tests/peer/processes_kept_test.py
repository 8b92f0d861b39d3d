#!/usr/bin/env python3
"""What a peer has trained and measured stays on disk: at its end, when its terminal goes, and when
training begins anew.

    STARLING=build/dev/peer/starling tests/peer/processes_kept_test.py [Case.test_name]
"""

import signal
import unittest

from processes_test import World, free_port_pair


class Kept(World):
    def test_a_lost_terminal_is_a_reason_to_leave_in_peace(self):
        self.configure(steps=200000)
        peer = self.peer("alone", free_port_pair(), (),
                         ["outer.method=local", "checkpoint.every_steps=1000000"])
        before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which it inherits
        peer.start()
        signal.signal(signal.SIGHUP, before)
        self.wait_until("it has trained", lambda: peer.step() > 20)
        for _ in range(2):  # the kernel and the shell tell it
            peer.process.send_signal(signal.SIGHUP)
        self.finish(peer)
        self.assertEqual(len(list((peer.folder / "checkpoints").glob("*.ckpt"))), 1)

    def test_each_step_has_one_line_and_the_last_has_the_final_validation_loss(self):
        self.configure(steps=60)
        peer = self.peer("whole", free_port_pair(), (),
                         ["outer.method=local", "metrics.validate_every_steps=20"])
        peer.start()
        self.finish(peer)
        lines = peer.metrics()
        self.assertEqual([line["step"] for line in lines], list(range(1, 61)))
        measured = {line["step"]: line["validation_loss"] for line in lines
                    if "validation_loss" in line}
        self.assertEqual(list(measured), [20, 40, 60])
        self.assertTrue(peer.said(f"validation loss {measured[60]:.4f}"))
        peer.start()  # trains nothing, and so has no step to tell of
        self.finish(peer)
        self.assertEqual(peer.metrics(), lines)

    def test_beginning_anew_removes_nothing_of_the_earlier_training(self):
        self.configure(steps=120)
        settings = ["outer.method=local", "checkpoint.keep=2", "checkpoint.every_steps=30"]
        peer = self.peer("anew", free_port_pair(), (), settings)
        peer.start()
        self.finish(peer)
        earlier = {file.name for file in (peer.folder / "checkpoints").glob("*.ckpt")}
        self.assertEqual(len(earlier), 2)
        again = self.peer("anew", free_port_pair(), (),
                          [*settings, "checkpoint.resume=never", "model.ffn=96"])
        again.start()
        self.finish(again)
        left = {file.name for file in (peer.folder / "checkpoints").iterdir()}
        self.assertLessEqual({name + ".old" for name in earlier}, left)
        self.assertEqual(sum(name.endswith(".ckpt") for name in left), 2)
        for figures in ("metrics.jsonl", "events.jsonl"):
            self.assertTrue((peer.folder / f"{figures}.old").exists(), figures)
            self.assertTrue((peer.folder / figures).exists(), figures)
        self.assertEqual([m["step"] for m in again.metrics()][0], 1)
        for folder in ("tensorboard", "tensorboard.old"):
            self.assertEqual(len(list((peer.folder / folder).iterdir())), 1, folder)

    def test_a_start_that_is_refused_leaves_what_the_last_one_was_told(self):
        self.configure(steps=60)
        first = self.peer("kept", free_port_pair(), (), ["outer.method=local"])
        first.start()
        self.finish(first)
        told = (first.folder / "config.toml").read_text()
        for setting in ("model.ffn=96", "run.seed=7"):
            complaint = setting.split("=")[0] + " is "
            other = self.peer("kept", free_port_pair(), (), ["outer.method=local", setting])
            other.start()
            self.wait_until("it is refused", lambda: other.process.poll() is not None)
            self.assertEqual(other.process.returncode, 1)
            self.assertTrue(other.said(complaint), complaint)
            self.assertEqual((first.folder / "config.toml").read_text(), told)


if __name__ == "__main__":
    unittest.main(verbosity=2)
