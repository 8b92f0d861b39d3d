#!/usr/bin/env python3
"""A text of one's own, from end to end, by the binary itself: scripts/story with a small model. And
the reader that judges it, against what transformers makes of a model.

    STARLING=build/dev/peer/starling tests/peer/text_story_test.py
"""

import array
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

STARLING = Path(os.environ.get("STARLING", "build/dev/peer/starling")).resolve()
HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parents[1] / "scripts"
# Seconds that the story may take on a busy machine.
PATIENCE = 280 * int(os.environ.get("STARLING_PATIENCE", "1"))

sys.path.insert(0, str(SCRIPTS))
import exported_model  # noqa: E402

SETTINGS = ["run.tokens=16384", "model.width=32", "model.layers=1", "model.heads=2",
            "model.kv_heads=1", "model.ffn=64", "model.context=64", "outer.fragments=2",
            "batch.sequences=4", "batch.tokens=32", "optimizer.learning_rate=1e-2",
            "schedule.warmup_tokens=2000", "checkpoint.every_steps=1000", "device.threads=1",
            "metrics.validate_every_steps=0", "gossip.closing_seconds=1"]


class Story(unittest.TestCase):
    def test_a_text_becomes_a_model_that_others_read_and_continue_alike(self):
        rng = random.Random(7)
        names = ["the starling", "a heron", "the old crow", "some finch", "ein Spatz", "日本の鳥"]
        deeds = ["sings", "waits", "flies home", "sleeps", "finds a seed", "schläft"]
        lines = [f"{rng.choice(names)}  {rng.choice(deeds)} {rng.randrange(100)} times."
                 for _ in range(4000)]
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "plain.txt").write_text("\n".join(lines[:2000]))
            with gzip.open(folder / "more.jsonl.gz", "wt") as file:
                file.writelines(json.dumps({"text": line}) + "\n" for line in lines[2000:])
            out = folder / "story"
            command = [SCRIPTS / "story", "--starling", STARLING, "--out", out,
                       "--text", folder / "plain.txt", "--text", folder / "more.jsonl.gz",
                       "--vocabulary", "320", "--prompt", "the old ", "--tokens", "30"]
            for setting in SETTINGS:
                command += ["--set", setting]
            done = subprocess.run([sys.executable, *command], capture_output=True, text=True,
                                  timeout=PATIENCE)
            print(done.stdout)
            self.assertEqual(done.returncode, 0, done.stdout[-1500:] + done.stderr[-1500:])
            self.assertIn("set model.vocabulary to 320 or more (", done.stdout)
            documents = re.search(r"\((\d+) and (\d+) documents", done.stdout)
            self.assertEqual(sum(map(int, documents.groups())), 2001)
            self.assertIn("of 4 contributors", done.stdout)
            exported = out / "exported"
            self.assertEqual((exported / "tokenizer.model").read_bytes(),
                             (out / "tokenizer.model").read_bytes())
            written = json.loads((exported / "tokenizer.json").read_text())
            self.assertEqual(len(written["model"]["vocab"]), 320)
            loss = subprocess.run([STARLING, "eval", out / "average.ckpt", "--data",
                                   out / "data/validation"], check=True, capture_output=True,
                                  text=True).stdout
            self.assertIn("bits per byte", loss)
            told = subprocess.run([STARLING, "eval", out / "average.ckpt", "--json", "--data",
                                   out / "data/validation"], check=True, capture_output=True,
                                  text=True).stdout
            self.assertIn(f"bits per byte {json.loads(told)['bits_per_byte']:.4f}", loss)
            self.check_that_another_model_continues_otherwise(exported)

    def check_that_another_model_continues_otherwise(self, folder):
        tokenizer = exported_model.Tokenizer(folder)
        right, wrong = exported_model.Model(folder), exported_model.Model(folder)
        norm = wrong.weight("model.norm").values
        norm[:] = array.array("f", (-value for value in norm))
        first, other = (next(exported_model.greedy(model, tokenizer, "the old ", 1))[0]
                        for model in (right, wrong))
        self.assertNotEqual(first, other)


class Reader(unittest.TestCase):
    def test_it_computes_what_transformers_computes(self):
        folder = HERE / "goldens/several_files"
        tokens, logits = array.array("i"), array.array("f")
        tokens.frombytes((folder / "tokens.bin").read_bytes())
        logits.frombytes((folder / "logits.bin").read_bytes())
        model = exported_model.Model(folder)
        for position, token in enumerate(tokens):
            row = model.logits(token)
            expected = logits[position * len(row):(position + 1) * len(row)]
            for ours, theirs in zip(row, expected):
                self.assertAlmostEqual(ours, theirs, delta=1e-3)

    def test_a_damaged_file_is_refused(self):
        folder = HERE / "goldens/llama3_rotation"
        whole = (folder / "model.safetensors").read_bytes()
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "model.safetensors"
            path.write_bytes(whole)
            tensors, metadata = exported_model.read_safetensors(path)
            self.assertIn("model.norm.weight", tensors)
            self.assertEqual(metadata["format"], "pt")
            for damaged in (whole[:-4], whole + bytes(4)):
                path.write_bytes(damaged)
                with self.assertRaises((AssertionError, ValueError)):
                    exported_model.read_safetensors(path)


if __name__ == "__main__":
    unittest.main()
