#!/usr/bin/env python3
"""What a peer has trained stays on disk: also when training begins anew.

    STARLING=build/dev/peer/starling tests/peer/processes_kept_test.py [Case.test_name]
"""

import unittest

from processes_test import World, free_port_pair


class Kept(World):
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
