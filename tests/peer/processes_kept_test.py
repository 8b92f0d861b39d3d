#!/usr/bin/env python3
"""What a peer has trained stays on disk: when its terminal goes, and when training begins anew.

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
