#!/usr/bin/env python3
"""`starling bench` on the command line, with models so small that the figures say nothing but
whether they are all there.

    STARLING=build/dev/peer/starling tests/peer/processes_bench_test.py [Case.test_name]
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from processes_test import PATIENCE, STARLING

SMALL = {"model.width": 16, "model.heads": 2, "model.kv_heads": 1, "model.ffn": 24,
         "batch.sequences": 2, "batch.tokens": 8}
SETTINGS = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]


class Measured(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.scratch.name)

    def tearDown(self):
        self.scratch.cleanup()

    def bench(self, *args):
        return subprocess.run([STARLING, "bench", *map(str, args)], capture_output=True, text=True,
                              timeout=PATIENCE, check=False,
                              env={**os.environ, "TMPDIR": str(self.path)})

    def figures(self, *args):
        done = self.bench(*args, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        line, = done.stdout.splitlines()
        figures = json.loads(line)
        self.assertEqual(figures["bench"], args[0])
        self.assertRegex(figures["program"], r"^starling \d")
        return figures

    def test_a_step_is_measured_from_a_file_too(self):
        config = self.path / "small.toml"
        config.write_text("[model]\nlayers = 1\n[outer]\nfragments = 1\n")
        figures = self.figures("step", config, *SETTINGS, "--threads", 1, "--seconds", 0)
        self.assertEqual(figures["shape"], str(config))
        self.assertEqual(figures["model"]["layers"], 1)
        self.assertGreaterEqual(figures["steps"], 3)
        calls = {row["name"]: row["calls_per_step"] for row in figures["operators"]}
        self.assertEqual((calls["attention"], calls["norm"], calls["squared norm"]), (1, 3, 1))
        table = self.bench("step", *SETTINGS, "--threads", 1, "--seconds", 0)
        self.assertIn("tokens/s", table.stdout)
        self.assertIn("everything else", table.stdout)
        both = self.bench("step", config, "--shape", "tiny")
        self.assertNotEqual(both.returncode, 0)

    def test_the_machine_the_codec_and_the_optimizer_are_measured(self):
        machine = self.figures("machine", "--threads", 1, "--seconds", 0.01)
        self.assertGreater(machine["fp32_gflops"], 0)
        self.assertGreater(machine["copy_gb_per_second"], 0)
        for name, paths in (("codec", 20), ("optimizer", 2)):
            figures = self.figures(name, "--parameters", 5000, "--seconds", 0)
            self.assertEqual(figures["parameters"], 5000)
            self.assertEqual(len(figures["rates"]), paths)
        self.assertIn("--parameters", self.bench("codec", "--parameters", 0).stderr)

    def test_two_peers_exchange_and_leave_nothing_behind(self):
        figures = self.figures("exchange", "--set", "test.slow_down_factor=50", "--steps", 300,
                               "--rounds", 1, *SETTINGS)
        self.assertGreater(figures["exchanges"], 0)
        self.assertGreater(figures["tokens_per_second"]["median"], 0)
        self.assertAlmostEqual(
            figures["speed_ratio"]["median"],
            figures["tokens_per_second"]["median"] / figures["tokens_per_second_alone"]["median"])
        self.assertLess(figures["held_share"]["max"], 1)
        left = {path.name for path in self.path.iterdir()}
        # Where peers claim processors, if there are several.
        self.assertLessEqual(left, {f"starling-processors-{os.geteuid()}"})


if __name__ == "__main__":
    unittest.main()
