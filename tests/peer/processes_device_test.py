#!/usr/bin/env python3
"""Which device a process takes and what it says, and whole peers on a device as strict as a GPU.

    STARLING=build/dev/peer/starling FAKES=build/dev/tests/cuda \\
      tests/peer/processes_device_test.py Chosen
    STARLING=build/dev/tests/peer/starling_far tests/peer/processes_device_test.py Far

FAKES holds modules that answer nothing but errors; beside `starling_far` there is no module: a
device as far from the host as a GPU's memory is built in.
"""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from processes_test import PATIENCE, STARLING, World, free_port_pair

FAKES = Path(os.environ.get("FAKES", "build/dev/tests/cuda")).resolve()
SMALL = ["model.width=16", "model.heads=2", "model.kv_heads=1", "model.ffn=24", "model.layers=1",
         "batch.sequences=2", "batch.tokens=8", "outer.fragments=1", "device.threads=1"]


class Chosen(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="starling-device-")
        self.folder = Path(self.scratch.name)
        shutil.copy2(STARLING, self.folder / "starling")
        self.config = self.folder / "small.toml"
        self.config.write_text("")

    def tearDown(self):
        self.scratch.cleanup()

    def module(self, name):
        shutil.copy2(FAKES / f"lib{name}.so", self.folder / "libstarling_cuda.so")

    def run_on(self, device, *command):
        settings = [word for s in [*SMALL, f"device.name={device}"] for word in ("--set", s)]
        return subprocess.run([self.folder / "starling", *command, *settings], timeout=PATIENCE,
                              capture_output=True, text=True, check=False)

    def bench(self, device):
        return self.run_on(device, "bench", "step", self.config, "--seconds", "0", "--json")

    def refusal(self, device):
        done = self.bench(device)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr

    def device_finding(self, device):
        done = self.run_on(device, "doctor", self.config, "--json")
        groups = json.loads(done.stdout)["groups"]
        finding, = [f for g in groups for f in g["findings"] if f["check"] == "device"]
        return finding

    def test_without_a_module_auto_takes_the_cpu_and_says_why(self):
        self.assertIn("no CUDA module", self.refusal("cuda"))
        finding = self.device_finding("auto")
        self.assertIn("cpu", finding["text"])
        self.assertIn("no CUDA module", finding["text"])
        done = self.bench("auto")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cpu", json.loads(done.stdout)["device"])

    def test_a_driver_that_is_too_old_is_named_with_the_way_out(self):
        self.module("fake_module")
        text = self.refusal("cuda:0")
        self.assertIn('device.name = "cuda:0"', text)
        self.assertIn("update the driver", text)
        self.assertIn("update the driver", self.device_finding("auto")["text"])
        self.assertEqual(self.device_finding("cuda")["verdict"], "failed")
        self.assertEqual(self.bench("auto").returncode, 0)
        self.assertEqual(self.bench("cpu").returncode, 0)

    def test_a_module_of_another_build_is_refused(self):
        self.module("fake_module_of_another_build")
        self.assertIn("of another build", self.refusal("cuda"))
        self.assertEqual(self.bench("auto").returncode, 0)

    def test_a_device_that_is_unknown_is_told_what_there_is(self):
        for name in ("gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x"):
            with self.subTest(name=name):
                self.assertIn('none of "auto", "cpu", "cuda"', self.refusal(name))


class Far(World):
    def test_a_swarm_shares_the_gpus_out(self):
        self.configure(steps=10)
        runs = self.path / "runs"
        done = subprocess.run([STARLING, "swarm", self.config, "--peers", "3", "--set",
                               "device.name=auto", "--set", f"run.folder={runs}"], timeout=PATIENCE,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("on 2 GPUs", done.stdout)
        for peer, device in enumerate(("cuda:0", "cuda:1", "cuda:0")):
            log, = runs.glob(f"*/peer-{peer}/log.txt")
            self.assertIn(f"device: {device}, far", log.read_text())

    def test_a_gpu_that_cannot_be_used_is_passed_over(self):
        settings = [word for s in SMALL for word in ("--set", s)]
        for device, used in (("auto", "cuda:1, far"), ("cuda:1", "cuda:1, far"), ("cuda:0", None)):
            with self.subTest(device=device):
                command = [STARLING, "bench", "step", "--seconds", "0", "--json", *settings,
                           "--set", f"device.name={device}"]
                done = subprocess.run(command, timeout=PATIENCE, capture_output=True, text=True,
                                      check=False, env={**os.environ, "FAR_BROKEN": "1"})
                if used is None:
                    self.assertIn("cuda:0 is busy", done.stderr)
                else:
                    self.assertEqual(json.loads(done.stdout)["device"], f"{used}, bf16")
                    self.assertEqual("cuda:0 is left" in done.stderr, device == "auto")
        self.configure(steps=10)
        runs = self.path / "runs"
        # By a name that means the first: the average is measured on one of the peers' all the same.
        done = subprocess.run([STARLING, "swarm", self.config, "--peers", "2", "--set",
                               "device.name=cuda", "--set", f"run.folder={runs}"], timeout=PATIENCE,
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "FAR_BROKEN": "1"})
        self.assertIn("on 1 GPU, shared by 2 peers", done.stdout, done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        for peer in range(2):
            log, = runs.glob(f"*/peer-{peer}/log.txt")
            self.assertIn("device: cuda:1, far", log.read_text())

    def test_a_gpu_without_room_for_the_model_is_passed_over(self):
        self.configure(steps=10)
        wide = [word for s in ("model.width=256", "model.layers=4", "model.ffn=704",
                               "schedule.warmup_tokens=100") for word in ("--set", s)]
        runs = self.path / "runs"
        full = {**os.environ, "FAR_FULL": "1"}
        done = subprocess.run([STARLING, "peer", self.config, *wide, "--set", "device.name=auto",
                               "--set", f"run.folder={runs}"], timeout=PATIENCE,
                              capture_output=True, text=True, check=False, env=full)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("device: cuda:1, far", done.stderr)
        self.assertIn("cuda:0 is left", done.stderr)
        warning, = [line for line in done.stderr.splitlines() if "passes over cuda:0" in line]
        self.assertIn("warn", warning)
        self.assertIn("lower batch.tokens, or free memory there", warning)
        done = subprocess.run([STARLING, "doctor", self.config, *wide, "--set",
                               "device.name=auto", "--json"], timeout=PATIENCE,
                              capture_output=True, text=True, check=False, env=full)
        device, = [finding for group in json.loads(done.stdout)["groups"]
                   for finding in group["findings"] if finding["check"] == "device"]
        self.assertIn("cuda:1, far", device["text"])
        # Threads that nobody computes by are no matter.
        done = subprocess.run([STARLING, "swarm", self.config, "--peers", "2", *wide, "--set",
                               "device.name=auto", "--set", f"run.folder={runs}", "--set",
                               "device.threads=1024", "--set", "device.pin=true"],
                              timeout=PATIENCE, capture_output=True, text=True, check=False,
                              env=full)
        self.assertIn("on 1 GPU, shared by 2 peers", done.stdout, done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)

    def test_a_bench_has_what_the_device_can_do_beside_each_operator(self):
        settings = [word for s in [*SMALL, "device.name=cuda:0", "batch.micro=1"]
                    for word in ("--set", s)]
        command = [STARLING, "bench", "step", "--seconds", "0", *settings]
        done = subprocess.run([*command, "--json"], timeout=PATIENCE, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        bench = json.loads(done.stdout)
        self.assertEqual(bench["device"], "cuda:0, far, bf16")
        self.assertEqual(bench["machine"]["threads"], 0)
        self.assertGreater(bench["machine"]["copy_gb_per_second"], 0)
        self.assertGreater(bench["machine"][f"{bench['compute']}_gflops"], 0)
        self.assertIn("gpu_memory_bytes", bench)
        calls = {}
        for operator in bench["operators"]:
            self.assertGreater(operator["floor_share"], 0, operator)
            calls[operator["name"]] = operator["calls_per_step"]
        # Of a step in two parts; where the processor knows no bf16, nothing is rounded.
        self.assertEqual((calls["embedding"], calls.get("weights in bf16", 1)), (2, 1))
        text = subprocess.run(command, timeout=PATIENCE, capture_output=True, text=True, check=True)
        self.assertRegex(text.stdout, r"machine +[0-9.]+ GFLOP/s in bf16 \(product of matrices of ")
        self.assertRegex(text.stdout,
                         r"memory +[0-9.]+ [KMG]?i?B at most, [0-9.]+ [KMG]?i?B of the GPU's")

    def test_peers_on_far_devices_train_together_and_go_on_after_a_kill(self):
        self.configure(steps=150)
        first, second = free_port_pair(), free_port_pair()
        # Large enough that a checkpoint's memory is pinned.
        device = ["device.name=cuda:0", "checkpoint.every_steps=20", "model.ffn=3072"]
        for port, other in ((first, second), (second, first)):
            self.peer(f"peer-{port}", port, [other], device).start()
        victim = self.peers[1]
        self.wait_until("both have trained and written", lambda: all(
            p.step() > 40 and list((p.folder / "checkpoints").glob("*.ckpt"))
            for p in self.peers))
        victim.kill()
        victim.start()
        for peer in self.peers:
            self.finish(peer)
            self.assertTrue(peer.said("device: cuda:0, far"))
            self.assertGreater(len([e for e in peer.events() if e["event"] == "exchange" and
                                    e["outcome"] == "completed"]), 0)
        self.assertTrue(victim.said("going on from"))
        losses = [self.loss(peer.folder) for peer in self.peers]
        print("validation losses", losses)
        self.assertLess(max(losses), 2.5)  # of 5.5 for a model that knows nothing
        self.assertLess(max(losses) / min(losses), 1.5)


if __name__ == "__main__":
    unittest.main()
