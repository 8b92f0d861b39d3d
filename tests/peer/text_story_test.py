#!/usr/bin/env python3
"""A text of one's own, from end to end, by the binary itself: a tokenizer is learned from it, it is
prepared, a peer trains on it, and the model writes.

    STARLING=build/dev/peer/starling tests/peer/text_story_test.py
"""

import gzip
import json
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

from processes_test import free_port_pair

STARLING = Path(os.environ.get("STARLING", "build/dev/peer/starling")).resolve()
PATIENCE = 150  # seconds that any command may take on a busy machine

CONFIG = """
[run]
name = "story"
peer_name = "alone"
folder = "{folder}/runs"
tokens = 4096
[model]
vocabulary = 320
width = 32
layers = 1
heads = 2
kv_heads = 1
ffn = 64
context = 32
[batch]
sequences = 4
tokens = 32
[outer]
method = "local"
fragments = 2
[gossip]
listen = "127.0.0.1:{port}"
[data]
train = ["{folder}/data/train"]
validation = ["{folder}/data/validation"]
"""


class Story(unittest.TestCase):
    def run_starling(self, *args):
        done = subprocess.run([STARLING, *args], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr[-1500:])
        return done.stdout

    def test_a_text_becomes_a_tokenizer_and_a_model_that_writes(self):
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
            texts = [folder / "plain.txt", folder / "more.jsonl.gz"]
            tokenizer = folder / "tokenizer.model"
            self.run_starling("tokenizer", "train", *texts, "--out", tokenizer,
                              "--vocabulary", "320", "--type", "bpe")
            told = self.run_starling("prepare", *texts, "--out", folder / "data",
                                     "--tokenizer", tokenizer)
            self.assertIn("set model.vocabulary to 320 or more (2001 documents", told)
            config = folder / "config.toml"
            config.write_text(CONFIG.format(folder=folder, port=free_port_pair()))
            self.run_starling("peer", config)
            checkpoint = folder / "runs/story/alone"
            loss = self.run_starling("eval", checkpoint, "--data", folder / "data/validation")
            self.assertIn("bits per byte", loss)
            told = self.run_starling("generate", checkpoint, "--prompt", "the old ",
                                     "--tokens", "20")
            self.assertTrue(told.startswith("the old "), told)
            self.assertGreater(len(told), len("the old \n"))
            self.run_starling("export", checkpoint, folder / "exported")
            self.assertEqual((folder / "exported/tokenizer.model").read_bytes(),
                             tokenizer.read_bytes())


if __name__ == "__main__":
    unittest.main()
