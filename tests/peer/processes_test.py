#!/usr/bin/env python3
"""The binary itself, as processes on loopback: killed, restarted, refused, left alone.

    STARLING=build/dev/peer/starling tests/peer/processes_test.py [Case.test_name]

Nothing here asserts an absolute time; limits only end what hangs.
"""

import contextlib
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from free_ports import free_port_pair

STARLING = Path(os.environ.get("STARLING", "build/dev/peer/starling")).resolve()
# Seconds that any wait may take on a busy machine.
PATIENCE = 150 * int(os.environ.get("STARLING_PATIENCE", "1"))

CONFIG = """
[run]
name = "processes"
tokens = {tokens}
[model]
width = 32
layers = 2
heads = 2
kv_heads = 1
ffn = 64
context = 32
[batch]
sequences = 8
tokens = 32
[optimizer]
learning_rate = 5e-3
[schedule]
warmup_tokens = 5000
local_warmup_steps = 5
[outer]
fragments = 3
steps_per_round = 10
[gossip]
ping_interval_ms = 200
suspect_after_ms = 1500
dead_after_ms = 1500
redial_interval_ms = 500
stripe_timeout_ms = 2000
closing_seconds = 3
window = 8
slots = 16
[data]
train = ["{data}/train"]
validation = ["{data}/validation"]
[checkpoint]
every_steps = 25
[metrics]
every_steps = 1
validate_every_steps = 0
[device]
name = "cpu"
threads = 1
pin = false
"""


def key_of(world, port):
    """The public key of the peer at a port; its key file lies ready in the world's folder."""
    made = subprocess.run([STARLING, "keygen", world.path / f"keys/{port}"], check=True,
                          capture_output=True, text=True)
    return made.stdout.split("\n")[0]


class Peer:
    """One `starling peer` process and its run folder. The port names its key, too."""

    def __init__(self, world, name, port, seeds=(), settings=()):
        self.folder = world.path / "runs/processes" / name
        self.log = world.path / f"{name}.log"
        self.key = key_of(world, port)
        seeds = ",".join(f'"{key_of(world, s)}@127.0.0.1:{s}"' for s in seeds)
        self.command = [STARLING, "peer", world.config, "--set", f"run.peer_name={name}",
                        "--set", f"run.folder={world.path}/runs",
                        "--set", f"trust.key={world.path}/keys/{port}",
                        "--set", f"gossip.listen=127.0.0.1:{port}",
                        "--set", f"gossip.seeds=[{seeds}]"]
        for setting in settings:
            self.command += ["--set", setting]
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def metrics(self):
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return []
        lines = path.read_text().split("\n")
        return [json.loads(line) for line in lines[:-1] if line.endswith("}")]

    def step(self):
        lines = self.metrics()
        return lines[-1]["step"] if lines else 0

    def events(self):
        """All whole lines of its event log, in order."""
        path = self.folder / "events.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def said(self, text):
        return text in self.log.read_text(errors="replace")


class World(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.path = Path(self.scratch.name)
        self.peers = []
        rng = random.Random(7)
        names = ["the starling", "a heron", "the old crow", "some finch", "a wren"]
        deeds = ["sings", "waits", "flies home", "sleeps", "finds a seed"]
        text = "\n".join(f"{rng.choice(names)} {rng.choice(deeds)} in the morning."
                         for _ in range(20000))
        (self.path / "text.txt").write_text(text)
        self.data = self.path / "data"
        subprocess.run([STARLING, "prepare", self.path / "text.txt", "--out", self.data],
                       check=True, stdout=subprocess.DEVNULL)
        self.config = self.path / "config.toml"

    def tearDown(self):
        for peer in self.peers:
            if peer.process and peer.process.poll() is None:
                peer.kill()
        self.scratch.cleanup()

    def configure(self, steps):
        self.config.write_text(CONFIG.format(tokens=steps * 8 * 32, data=self.data))

    def peer(self, *args, **keywords):
        self.peers.append(Peer(self, *args, **keywords))
        return self.peers[-1]

    def wait_until(self, what, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                logs = "\n".join(p.log.read_text(errors="replace")[-1500:] for p in self.peers
                                 if p.log.exists())
                self.fail(f"waited in vain until {what}\n{logs}")
            time.sleep(0.05)

    def finish(self, peer):
        self.wait_until(f"{peer.folder.name} ends", lambda: peer.process.poll() is not None)
        self.assertEqual(peer.process.returncode, 0, peer.log.read_text(errors="replace")[-1500:])

    def loss(self, path):
        done = subprocess.run([STARLING, "eval", path, "--data", self.data / "validation"],
                              check=True, capture_output=True, text=True)
        return float(done.stdout.split()[1])


class Killed(World):
    def test_a_killed_peer_hurts_nobody_and_catches_up(self):
        self.configure(steps=10000)  # the victim is back long before the others end
        ports = [free_port_pair() for _ in range(4)]
        for i, port in enumerate(ports):
            others = [p for p in ports if p != port]
            self.peer(f"peer-{i}", port, others, ["checkpoint.every_steps=50"]).start()
        victim, others = self.peers[3], self.peers[:3]
        self.wait_until("all have trained", lambda: all(p.step() > 150 for p in self.peers))
        killed_at = [peer.step() for peer in others]
        victim.kill()
        self.wait_until("the others have gone on",
                        lambda: all(p.step() > k + 150 for p, k in zip(others, killed_at)))
        self.wait_until("the death is noticed", lambda: all(p.said("is dead") for p in others))
        resumed_from = victim.step()
        victim.start()
        for peer in self.peers:
            self.finish(peer)

        before = after = 0  # steps a second of all: they share processors as the system sees fit
        for peer, killed in zip(others, killed_at):
            times = {m["step"]: m["step_seconds"] for m in peer.metrics()}
            before += 1 / statistics.median(times[s] for s in range(killed - 100, killed))
            after += 1 / statistics.median(times[s] for s in range(killed + 1, killed + 101))
        print(f"the others: {before:.0f} steps a second before the kill, {after:.0f} after")
        self.assertGreater(1.5 * after, before)
        self.assertTrue(victim.said("going on from"))
        self.assertGreaterEqual(resumed_from, 50)
        losses = [self.loss(peer.folder) for peer in self.peers]
        print("validation losses", losses)
        self.assertLess(max(losses) / min(losses), 1.03)
        told = subprocess.run([STARLING, "coverage", self.path / "runs/processes"], check=True,
                              capture_output=True, text=True).stdout
        print(told)
        # Each of them has read the small text about once in every pass of the swarm.
        self.assertIn("read never 0.0%", told)
        self.assertEqual(told.count(" parts, "), 4)

    def test_a_peer_alone_resumes_bit_for_bit(self):
        self.configure(steps=200)
        whole = self.peer("whole", free_port_pair(), (), ["outer.method=local"])
        whole.start()
        self.finish(whole)
        # The second one has the same name, because the text it reads follows the name.
        whole.folder.rename(self.path / "whole")
        again = self.peer("whole", free_port_pair(), (), ["outer.method=local"])
        rng = random.Random(3)
        for _ in range(3):
            again.start()
            target = again.step() + rng.randrange(20, 60)
            self.wait_until("it has trained on",
                            lambda: again.process.poll() is not None or again.step() >= target)
            again.kill()
        again.start()
        self.finish(again)
        expected = {m["step"]: m["loss"] for m in
                    map(json.loads, (self.path / "whole/metrics.jsonl").read_text().splitlines())}
        for line in again.metrics():
            self.assertEqual(line["loss"], expected[line["step"]], f"step {line['step']}")
        self.assertEqual(again.step(), 200)
        # The figures of a step are on disk before a checkpoint that goes on from it.
        self.assertEqual({line["step"] for line in again.metrics()}, set(expected))
        parts = ["parts_never", "parts_once", "parts_more", "parts_read"]
        whole_end = json.loads((self.path / "whole/metrics.jsonl").read_text().splitlines()[-1])
        self.assertEqual([again.metrics()[-1][key] for key in parts],
                         [whole_end[key] for key in parts])


class Ended(World):
    def test_a_signal_writes_a_checkpoint_and_says_goodbye(self):
        self.configure(steps=200000)
        ports = [free_port_pair(), free_port_pair()]
        for i, port in enumerate(ports):
            self.peer(f"peer-{i}", port, [p for p in ports if p != port],
                      ["checkpoint.every_steps=1000000", "bandwidth.gigabytes_per_day=9"]).start()
        stays, leaves = self.peers
        self.wait_until("both have met", lambda: all(p.said("is alive") for p in self.peers))
        self.wait_until("both have trained", lambda: all(p.step() > 20 for p in self.peers))
        leaves.process.send_signal(signal.SIGTERM)
        self.finish(leaves)
        self.assertEqual(len(list((leaves.folder / "checkpoints").glob("*.ckpt"))), 1)
        hours = dict(line.split() for line in (leaves.folder / "traffic").read_text().splitlines())
        self.assertGreaterEqual(sum(map(int, hours.values())), leaves.metrics()[-1]["bytes_out"])
        self.wait_until("the other has heard it", lambda: stays.said("has left"))
        stays.process.send_signal(signal.SIGINT)
        self.finish(stays)

    def test_no_peer_outlives_its_launcher(self):
        self.configure(steps=200000)
        with open(self.path / "swarm.log", "wb") as log:
            swarm = subprocess.Popen([STARLING, "swarm", self.config, "--peers", "2", "--set",
                                      f"run.folder={self.path}/runs"], stdout=log, stderr=log)

        def children():
            found = []
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    command = (process / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue  # it has just ended
                if b"peer" in command[1:2] and str(self.path).encode() in b" ".join(command):
                    found.append(process.name)
            return found

        self.wait_until("the peers run", lambda: len(children()) == 2)
        trained = self.path / "runs/processes/peer-0/metrics.jsonl"
        self.wait_until("they train", trained.exists)
        swarm.kill()
        swarm.wait()
        self.wait_until("they have ended", lambda: not children())

    def test_memory_stays_near_the_plan(self):
        self.configure(steps=200000)
        ports = [free_port_pair(), free_port_pair()]
        settings = ["model.width=256", "model.heads=4", "model.ffn=704", "model.layers=3",
                    "checkpoint.every_steps=20"]
        for i, port in enumerate(ports):
            self.peer(f"peer-{i}", port, [p for p in ports if p != port], settings).start()
        peer = self.peers[0]
        self.wait_until("it has exchanged and written checkpoints",
                        lambda: peer.step() > 80 and peer.metrics()[-1]["exchanges"] > 5)
        status = Path(f"/proc/{peer.process.pid}/status").read_text()
        peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
        planned = float(peer.log.read_text().split(" MiB in all")[0].split()[-1])
        print(f"peak {peak:.1f} MiB, planned {planned:.1f} MiB")
        self.assertLess(peak, 1.1 * planned + 60)
        self.assertGreater(peak, 0.5 * planned)


class Sick(World):
    def test_a_diverged_peer_stops_and_says_what_to_go_on_from(self):
        self.configure(steps=100000)
        peer = self.peer("wild", free_port_pair(), settings=[
            "optimizer.learning_rate=10", "optimizer.weight_decay=10", "checkpoint.every_steps=1"])
        peer.start()
        self.wait_until("it gives up", lambda: peer.process.poll() is not None)
        self.assertNotEqual(peer.process.returncode, 0)
        self.assertTrue(peer.said("training has diverged"), peer.log.read_text())
        self.assertTrue(peer.said("Start again to go on from"))
        self.assertTrue(any(event["event"] == "sick" for event in peer.events()))


class Lonely(World):
    def test_a_seed_that_does_not_answer_is_no_reason_to_stop(self):
        self.configure(steps=60)
        peer = self.peer("alone", free_port_pair(), [free_port_pair()])
        peer.start()
        self.finish(peer)
        self.assertTrue(peer.said("training alone, and still trying"))
        self.assertFalse(peer.said("reaches its floor"))

    def test_a_port_in_use_is_named(self):
        self.configure(steps=100)
        port = free_port_pair()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            peer = self.peer("late", port)
            peer.start()
            self.wait_until("it gives up", lambda: peer.process.poll() is not None)
        self.assertNotEqual(peer.process.returncode, 0)
        self.assertTrue(peer.said(f"127.0.0.1:{port}"), peer.log.read_text())
        self.assertTrue(peer.said("gossip.listen"))

    def test_a_damaged_checkpoint_is_reported_and_the_one_before_is_used(self):
        self.configure(steps=120)
        peer = self.peer("hurt", free_port_pair(), (), ["outer.method=local"])
        peer.start()
        self.finish(peer)
        newest = sorted((peer.folder / "checkpoints").glob("*.ckpt"))[-1]
        raw = bytearray(newest.read_bytes())
        raw[len(raw) // 2] ^= 1
        newest.write_bytes(raw)
        peer.start()
        self.finish(peer)
        self.assertTrue(peer.said(newest.name))
        self.assertTrue(peer.said("going on from"))


class Strange(World):
    def test_a_peer_of_another_model_is_refused_and_both_say_why(self):
        self.configure(steps=400)
        left_port, right_port = free_port_pair(), free_port_pair()
        left = self.peer("left", left_port, [right_port])
        right = self.peer("right", right_port, [left_port], ["model.ffn=96"])
        left.start()
        right.start()
        self.finish(left)
        self.finish(right)
        refused = [[e for e in p.events() if e["event"] == "refused"] for p in self.peers]
        for events in refused:
            self.assertEqual({e["reason"] for e in events}, {"another model or tokenizer"}, refused)
        # Who was asked refuses, and who asked hears it. Where both ask at once both refuse, and
        # what either hears then is no news.
        self.assertIn(True, {e["by_us"] for events in refused for e in events}, refused)

    def test_garbage_on_both_lanes_is_survived(self):
        self.configure(steps=3000)
        ports = [free_port_pair(), free_port_pair()]
        for i, port in enumerate(ports):
            self.peer(f"peer-{i}", port, [p for p in ports if p != port]).start()
        rng = random.Random(5)
        self.wait_until("they train", lambda: self.peers[0].step() > 20)
        for port in [ports[0], ports[0] + 1] * 40:
            with contextlib.suppress(OSError), socket.create_connection(("localhost", port)) as it:
                it.sendall(rng.randbytes(rng.randrange(1, 5000)))
        before = self.peers[0].metrics()[-1]["exchanges"]
        for peer in self.peers:
            self.finish(peer)
        struck, other = (peer.metrics()[-1] for peer in self.peers)
        self.assertGreater(struck["exchanges"], before + 2)
        self.assertGreater(struck["callers_ended"]["no handshake"], 40)
        self.assertEqual(other["callers_ended"], {})


if __name__ == "__main__":
    unittest.main(verbosity=2)
