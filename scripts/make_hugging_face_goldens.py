#!/usr/bin/env python3
"""Writes tests/peer/goldens: small models as transformers saves them, and what it makes of a text.

Run by hand, with a Python that has torch and transformers, from the root of the repository. The
fixtures are committed; building and testing need no Python packages.

Each golden is a folder: config.json and safetensors as `save_pretrained` writes them; tokens.bin,
int32, one sequence; logits.bin, float32, (tokens, vocabulary), computed in float32.
"""

import pathlib
import shutil

import torch
from transformers import LlamaConfig, LlamaForCausalLM

COMMON = dict(vocab_size=61, hidden_size=32, intermediate_size=44, num_attention_heads=4,
              max_position_embeddings=96, initializer_range=0.3, bos_token_id=None,
              eos_token_id=None)
CASES = {
    # The context is three times the original one, so that every pair of positions matters.
    "llama3_rotation": dict(num_hidden_layers=2, num_key_value_heads=2, tie_word_embeddings=True,
                            rope_parameters=dict(rope_type="llama3", rope_theta=700.0, factor=8.0,
                                                 low_freq_factor=1.0, high_freq_factor=4.0,
                                                 original_max_position_embeddings=32)),
    "several_files": dict(num_hidden_layers=2, num_key_value_heads=4, tie_word_embeddings=False),
}
TOKENS = 96


def main():
    torch.manual_seed(1)
    for name, case in CASES.items():
        folder = pathlib.Path("tests/peer/goldens") / name
        shutil.rmtree(folder, ignore_errors=True)
        model = LlamaForCausalLM(LlamaConfig(**COMMON, **case)).eval()
        dtype = torch.float32 if name == "llama3_rotation" else torch.bfloat16
        model = model.to(dtype)
        model.save_pretrained(folder, max_shard_size="10KB" if name == "several_files" else "1GB")
        model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)  # rounded weights
        tokens = torch.randint(0, COMMON["vocab_size"], (1, TOKENS))
        with torch.no_grad():
            logits = model(tokens).logits[0]
        tokens[0].to(torch.int32).numpy().tofile(folder / "tokens.bin")
        logits.numpy().tofile(folder / "logits.bin")
        for path in sorted(folder.iterdir()):
            print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
