#!/usr/bin/env python3
"""What a peer has trained and measured stays on disk: at its end, when its terminal goes, and when
training begins anew.

    STARLING=build/dev/peer/starling tests/peer/processes_kept_test.py [Case.test_name]
"""

import array
import contextlib
import fcntl
import json
import os
import pty
import signal
import subprocess
import termios
import time
import unittest

from processes_test import STARLING, World, free_port_pair


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
        for step in (20, 40):
            self.assertTrue(peer.said(f"step {step}: validation loss {measured[step]:.4f}"))
        self.assertTrue(peer.said(f"validation loss {measured[60]:.4f}"))
        written = sorted((peer.folder / "checkpoints").glob("*.ckpt"))
        peer.start()  # trains nothing, and so has no step to tell of, and nothing new to keep
        self.finish(peer)
        self.assertEqual(peer.metrics(), lines)
        kept = sorted((peer.folder / "checkpoints").glob("*.ckpt"))
        self.assertEqual(kept[:-1], written[:-1])
        self.assertEqual(len(kept), len(written))
        self.assertNotEqual(kept[-1], written[-1])

    def test_a_schedule_for_more_tokens_than_came_together_is_told_at_the_end(self):
        self.configure(steps=40)
        tokens = 40 * 8 * 32
        for name, total, told in (("whole", tokens, False), ("short", 2 * tokens, True)):
            peer = self.peer(name, free_port_pair(), (),
                             ["outer.method=local", "schedule.shape=warmup-stable-decay",
                              "schedule.warmup_tokens=0", f"run.total_tokens={total}"])
            peer.start()
            self.finish(peer)
            self.assertEqual(peer.said("the learning rate is still"), told, name)

    def test_what_was_fetched_and_is_not_wanted_any_more_goes_with_the_next_checkpoint(self):
        self.configure(steps=20)
        peer = self.peer("first", free_port_pair(), (), [])  # no seeds: it fetches nothing
        left = peer.folder / "join"
        left.mkdir(parents=True)
        (left / "state.data").write_bytes(bytes(4096))
        peer.start()
        self.finish(peer)
        self.assertFalse(left.exists())

    def test_a_peer_without_standard_streams_writes_to_no_file_instead_of_them(self):
        self.configure(steps=20)
        peer = self.peer("closed", free_port_pair(), (), ["outer.method=local"])
        peer.command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *peer.command]
        peer.start()
        self.finish(peer)
        lock = (peer.folder / "lock").read_text()
        self.assertEqual(int(lock), peer.process.pid)
        self.assertEqual(len(peer.metrics()), 20)
        self.assertGreater(self.loss(next((peer.folder / "checkpoints").glob("*.ckpt"))), 0)

    def test_a_limit_of_file_sizes_is_a_full_disk_and_no_death(self):
        self.configure(steps=200000)
        peer = self.peer("small", free_port_pair(), (),
                         ["outer.method=local", "checkpoint.every_steps=5", "model.width=256",
                          "model.heads=4", "model.ffn=704", "model.layers=3"])
        peer.command = ["prlimit", f"--fsize={8 << 20}", *peer.command]  # less than a checkpoint
        peer.start()
        self.wait_until("it has told of it", lambda: peer.said("was not written"))
        before = peer.step()
        self.wait_until("it trains on", lambda: peer.step() > before + 5)
        self.assertIsNone(peer.process.poll())

    def test_a_reader_of_its_status_that_stops_holds_nothing_up(self):
        self.configure(steps=200000)
        peer = self.peer("told", free_port_pair(), (),
                         ["outer.method=local", "checkpoint.every_steps=1000000"])
        receives, sends = os.pipe()
        fcntl.fcntl(sends, fcntl.F_SETPIPE_SZ, 4096)
        with open(peer.log, "ab") as log:
            peer.process = subprocess.Popen([*peer.command, "--status-json"], stdout=sends,
                                            stderr=log, stdin=subprocess.PIPE)
        os.close(sends)

        def waiting():
            count = array.array("i", [0])
            fcntl.ioctl(receives, termios.FIONREAD, count)
            return count[0]

        def is_full():  # a page holds what came first, and no more is put behind it
            before = waiting()
            time.sleep(2.5)
            return before > 0 and waiting() == before

        self.wait_until("nothing more fits", is_full)
        before = peer.step()
        self.wait_until("it trains on, and tells of it", lambda: peer.step() > before + 50)
        peer.process.send_signal(signal.SIGTERM)
        self.finish(peer)
        self.assertEqual(len(list((peer.folder / "checkpoints").glob("*.ckpt"))), 1)
        with os.fdopen(receives) as lines:
            for line in lines.read().splitlines():
                json.loads(line)

    def test_a_terminal_that_stands_still_holds_nothing_up(self):
        self.configure(steps=200000)
        ports = [free_port_pair() for _ in range(2)]
        stuck, other = [self.peer(name, port, [p for p in ports if p != port])
                        for name, port in zip(["stuck", "other"], ports)]
        reader, terminal = pty.openpty()  # as one that is stopped, or far away
        self.addCleanup(os.close, reader)
        os.set_blocking(terminal, False)
        for _ in range(5):  # the kernel moves what came to where there is more room
            with contextlib.suppress(BlockingIOError):
                while os.write(terminal, b"x"):
                    pass
            time.sleep(0.1)
        os.set_blocking(terminal, True)
        stuck.log.touch()
        stuck.process = subprocess.Popen(stuck.command, stderr=terminal, stdout=terminal,
                                         stdin=subprocess.DEVNULL)
        os.close(terminal)
        other.start()
        self.wait_until("they exchange", lambda: any(
            m["exchanges"] > 5 for m in stuck.metrics()[-1:]))
        stuck.process.send_signal(signal.SIGTERM)
        self.finish(stuck)
        self.assertGreater(len(list((stuck.folder / "checkpoints").glob("*.ckpt"))), 0)

    def test_a_swarm_that_has_trained_all_is_averaged_again(self):
        self.configure(steps=30)
        for _ in range(2):
            done = subprocess.run(
                [STARLING, "swarm", self.config, "--peers", "2", "--set",
                 f"run.folder={self.path}/runs", "--set", "outer.method=local"],
                capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            (self.path / "runs/processes/average.ckpt").unlink()  # or it is not there

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
