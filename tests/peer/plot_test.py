#!/usr/bin/env python3
"""scripts/plot draws runs from their metrics, over restarts and damage, and says what it lacks.

    tests/peer/plot_test.py     with a Python that has matplotlib, or the figures are skipped
"""

import importlib.util
import json
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom
from importlib.machinery import SourceFileLoader
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/plot"
LOADER = SourceFileLoader("plot", str(SCRIPT))
plot = importlib.util.module_from_spec(importlib.util.spec_from_loader("plot", LOADER))
sys.dont_write_bytecode = True
LOADER.exec_module(plot)

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


def metrics(step, seconds, **more):
    return {"step": step, "seconds": seconds, "tokens": 8 * step, "swarm_tokens": 16.0 * step,
            "loss": 5 / (1 + step / 50), "tokens_per_second": 1000.0 + step,
            "disagreement": 1e-3, "bytes_in": 10 * step, "bytes_out": 20 * step, **more}


class World(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.path = Path(self.scratch.name)

    def write(self, peer, lines):
        folder = self.path / peer
        folder.mkdir(parents=True)
        (folder / "metrics.jsonl").write_text(
            "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return folder

    def plot(self, *args):
        return subprocess.run([sys.executable, SCRIPT, *args, "--out", self.path / "figures"],
                              capture_output=True, text=True, timeout=150)


class Points(World):
    def test_lives_of_a_peer_follow_each_other_and_steps_count_once(self):
        for dates in ({}, {"started": 1000.0}):
            with self.subTest(dates=dates):
                after = {"started": 1100.0} if dates else {}
                folder = self.write(f"run{len(dates)}/a", [
                    metrics(10, 1, **dates), metrics(20, 2, **dates), metrics(30, 3, **dates),
                    metrics(20, 1, bytes_in=1, bytes_out=1, **after),
                    metrics(30, 2, bytes_in=2, bytes_out=2, **after)])
                (peer,) = plot.read_run(folder.parent)
                self.assertEqual([line["step"] for line in peer], [10, 20, 30])
                self.assertEqual([line["at"] for line in peer],
                                 [0, 100, 101] if dates else [0, 3, 4])
                self.assertEqual([line["bytes"] for line in peer], [300, 902, 904])

    def test_what_is_no_line_of_metrics_is_left_out(self):
        folder = self.write("run/a", [metrics(10, 1), "{\"step\": 20, \"sec", "[1]", "7",
                                      {"step": 3}, metrics(20, 2, loss=float("nan"))])
        (peer,) = plot.read_run(folder)
        self.assertEqual([line["step"] for line in peer], [10, 20])
        self.assertEqual(plot.points_of(peer, "steps", plot.FIGURES[0]), [(10, 5 / 1.2)])

    def test_the_mean_lies_between_the_peers_wherever_their_points_lie(self):
        low = [(x, float(x)) for x in range(0, 100, 10)]
        high = [(x, x + 2.0) for x in range(3, 100, 10)]
        mean = plot.mean_of([low, high, []])
        self.assertTrue(mean)
        for x, y in mean:
            if 3 <= x <= 90:
                self.assertAlmostEqual(y, x + 1)
        many = [(x, 1.0) for x in range(100000)]
        self.assertLess(len(plot.mean_of([many])), 400)
        self.assertEqual(plot.mean_of([[(5, 2.0)]]), [(5, 2.0)])
        self.assertEqual(plot.mean_of([[]]), [])


class Refused(World):
    def test_a_folder_that_is_no_run_is_named(self):
        done = self.plot(self.path / "absent")
        self.assertEqual(done.returncode, 1)
        self.assertIn("absent", done.stderr)
        (self.path / "empty").mkdir()
        done = self.plot(self.path / "empty")
        self.assertIn("metrics.jsonl", done.stderr)

    @unittest.skipIf(HAS_MATPLOTLIB, "matplotlib is there")
    def test_without_matplotlib_it_says_how_to_get_it(self):
        done = self.plot(self.write("run/a", [metrics(10, 1)]))
        self.assertEqual(done.returncode, 1)
        self.assertIn("python3-matplotlib", done.stderr)


@unittest.skipUnless(HAS_MATPLOTLIB, "no matplotlib: apt-get install python3-matplotlib")
class Drawn(World):
    def test_figures_of_two_runs_on_every_axis(self):
        for run, peers in (("one", 1), ("three", 3)):
            for peer in range(peers):
                self.write(f"{run}/peer-{peer}", [
                    metrics(step, step / 10 + peer / 3, **({"validation_loss": 5 - step / 100}
                                                           if step % 50 == 0 else {}))
                    for step in range(5, 300, 5)])
        for extra in ([], ["--x", "seconds", "--log-x", "--log-y"]):
            done = self.plot(self.path / "one", self.path / "three", *extra)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr, "")
        for name in ("loss", "validation_loss", "tokens_per_second", "disagreement", "bytes",
                     "overview"):
            raw = (self.path / "figures" / f"{name}.png").read_bytes()
            self.assertEqual(raw[:8], b"\x89PNG\r\n\x1a\n")
            width, height = struct.unpack(">II", raw[16:24])
            self.assertGreater(width, 800)
            self.assertGreater(height, 500)
            text = (self.path / "figures" / f"{name}.svg").read_text()
            xml.dom.minidom.parseString(text)
            self.assertGreater(text.count("<path"), 20)
        self.assertIn("<!-- three (mean of 3) -->", text)
        self.assertIn("<!-- one -->", text)


if __name__ == "__main__":
    unittest.main()
