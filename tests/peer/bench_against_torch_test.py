#!/usr/bin/env python3
"""scripts/bench_against_torch with programs in place of starling and PyTorch that only note how
they were called and tell what they were given: fair turns, and ratios that can be checked by hand.

    tests/peer/bench_against_torch_test.py [Case.test_name]
"""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = {"vocabulary": 7, "width": 4, "layers": 1, "heads": 2, "kv_heads": 2, "ffn": 3,
         "tied_head": True}
NOTES = """#!/usr/bin/env python3
import json, os, sys
with open({log!r}, "a") as log:
    print(json.dumps([{name!r}, sys.argv[1:], sorted(os.sched_getaffinity(0)),
                      os.environ.get("OMP_NUM_THREADS"), os.environ.get("GOMP_CPU_AFFINITY")]),
          file=log)
{rest}
"""
STARLING = """
print("noise")
compute, = [word[15:] for word in sys.argv if word.startswith("device.compute=")]
if compute == {refused!r}:
    sys.exit("no such instructions")
speed = dict(fp32=300, bf16=900)[compute]
print(json.dumps(dict(program="starling 1.2", model={model!r},
                      batch=dict(sequences=2, tokens=3),
                      parameters=100, peak_memory_bytes=50 << 20, gpu_memory_bytes=20 << 20,
                      tokens_per_second=dict(median=speed, min=1, max=1))))
"""
TORCH = """
if sys.argv[1] == "-c":
    sys.exit({without})
wanted = json.loads(sys.argv[3])
assert wanted["model"]["width"] == 4 and wanted["batch"]["tokens"] == 3
print(json.dumps(dict(torch="1.13", parameters={parameters}, peak_memory_bytes=200 << 20,
                      tokens_per_second=dict(median=600 if wanted["compute"] == "bf16" else 200,
                                             min=1, max=1))))
"""


def is_timed(arguments):
    if arguments[0] == "-c":
        return False
    return "--seconds" not in arguments or \
        float(arguments[arguments.index("--seconds") + 1]) > 0


class Compared(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.path = Path(self.scratch.name)

    def tearDown(self):
        self.scratch.cleanup()

    def program(self, name, rest):
        path = self.path / name
        path.write_text(NOTES.format(log=str(self.path / "log"), name=name, rest=rest))
        path.chmod(0o755)
        return path

    def compare(self, *options, without=0, parameters=100, place=("--threads", "1"),
                refused=None):
        starling = self.program("starling", STARLING.format(model=MODEL, refused=refused))
        torch = self.program("torch", TORCH.format(without=without, parameters=parameters))
        return subprocess.run(
            [ROOT / "scripts/bench_against_torch", "--starling", starling, "--python", torch,
             "--shape", "tiny", *place, "--seconds", "1", *options],
            capture_output=True, text=True, timeout=60, check=False)

    def calls(self):
        """Of everything that was timed, after the types and the model were asked for."""
        calls = [json.loads(line) for line in (self.path / "log").read_text().splitlines()]
        return [call for call in calls if is_timed(call[1])]

    def test_ratios_are_of_pairs_that_took_turns(self):
        done = self.compare("--compute", "fp32", "--rounds", "2", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        result, = json.loads(done.stdout)
        self.assertAlmostEqual(result["speed_ratio"], 1.5)
        self.assertAlmostEqual(result["memory_ratio"], 0.25)
        self.assertEqual((result["shape"], result["threads"], result["compute"]),
                         ("tiny", 1, "fp32"))
        calls = self.calls()[-4:]  # before: which BLAS is faster, where there are two
        self.assertEqual([call[0] for call in calls], ["starling", "torch"] * 2)
        first = sorted(os.sched_getaffinity(0))[0]
        for name, _, processors, threads, pinned in calls:
            self.assertEqual(processors, [first])
            if name == "torch":
                self.assertEqual((threads, pinned), ("1", str(first)))

    def test_a_type_that_this_processor_refuses_is_left_out_aloud(self):
        done = self.compare("--rounds", "1", "--json", refused="bf16")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row["compute"] for row in json.loads(done.stdout)], ["fp32"])
        self.assertIn("bf16: skipped, no such instructions", done.stderr)
        none = self.compare("--compute", "bf16", refused="bf16")
        self.assertNotEqual(none.returncode, 0)

    def test_every_type_is_asked_for_and_has_a_row(self):
        done = self.compare("--rounds", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        heading, fp32, bf16 = done.stdout.splitlines()
        self.assertIn("ratio", heading)
        self.assertEqual(fp32.split()[:6], ["tiny", "1", "fp32", "300", "200", "1.50"])
        self.assertEqual(bf16.split()[:6], ["tiny", "1", "bf16", "900", "600", "1.50"])

    def test_on_a_gpu_each_is_told_so_and_its_memory_is_the_gpus(self):
        done = self.compare("--rounds", "1", "--json", "--tokens", "2048", "--sequences", "4",
                            place=("--device", "cuda"))
        self.assertEqual(done.returncode, 0, done.stderr)
        result, = json.loads(done.stdout)
        self.assertEqual((result["device"], result["threads"], result["compute"]),
                         ("cuda", 0, "bf16"))
        self.assertAlmostEqual(result["memory_ratio"], 0.1)
        starling, torch = self.calls()
        settings = [value for name, value in zip(starling[1], starling[1][1:]) if name == "--set"]
        self.assertEqual(settings, ["device.name=cuda", "device.compute=bf16", "batch.sequences=4",
                                    "batch.tokens=2048", "model.context=2048"])
        wanted = json.loads(torch[1][2])
        self.assertEqual((wanted["device"], wanted["compile"]), ("cuda", True))
        row = self.compare("--rounds", "1", place=("--device", "cuda")).stdout.splitlines()[1]
        self.assertEqual(row.split()[:6], ["tiny", "GPU", "bf16", "900", "600", "1.50"])

    def test_without_a_gpu_for_torch_it_says_what_to_name(self):
        done = self.compare(without=1, place=("--device", "cuda"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no PyTorch that sees a GPU", done.stderr)
        self.assertIn("--python", done.stderr)

    def test_without_torch_it_says_what_to_install(self):
        done = self.compare(without=1)
        self.assertEqual(done.returncode, 1)
        self.assertIn("skipped", done.stderr)
        self.assertIn("apt-get install --no-install-recommends python3-torch", done.stderr)

    def test_models_of_different_size_are_not_compared(self):
        done = self.compare("--rounds", "1", parameters=101)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("101 parameters, not 100", done.stderr)


if __name__ == "__main__":
    unittest.main()
