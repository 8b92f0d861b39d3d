#!/usr/bin/env python3
"""Writes tests/model/goldens: a Llama in PyTorch, as the independent opinion on model/.

Run by hand, with a Python that has torch (Debian: python3-torch, /usr/bin/python3), from the root
of the repository. The fixtures are committed; building and testing need no Python.

Each golden is two files. NAME.txt: one "key value" line per configuration field and batch
dimension, then one "tensor NAME COUNT" line per tensor. NAME.bin: the tensors in that order, each
COUNT little-endian words of four bytes: int32 for "inputs" and "targets", float32 for the rest.
Parameters are called as in Hugging Face's Llama checkpoints, their gradients "grad.NAME"; "loss" is
the mean cross entropy, "logits" is (sequences, tokens, vocabulary). Parameters are float32 values;
everything computed from them is computed in float64.
"""

import pathlib

import torch
import torch.nn.functional as F

import torch_llama

CASES = {
    "tied_gqa": dict(vocabulary=37, width=24, layers=3, heads=4, kv_heads=2, ffn=20, context=16,
                     rope_theta=10000.0, norm_epsilon=1e-5, tied_head=1, sequences=3, tokens=13),
    "untied_mha": dict(vocabulary=50, width=32, layers=2, heads=2, kv_heads=2, ffn=44, context=80,
                       rope_theta=500.0, norm_epsilon=1e-6, tied_head=0, sequences=1, tokens=70),
}


def make_parameters(c):
    parameters = {}
    for name, shape in torch_llama.shapes_of(c).items():
        # Larger than real first values, so that attention is far from uniform.
        values = torch.randn(shape) * 0.3 + (1.0 if len(shape) == 1 else 0.0)
        parameters[name] = values.double().requires_grad_(True)
    return parameters


def write(folder, name, c, tensors):
    lines = [f"{key} {value}" for key, value in c.items()]
    lines += [f"tensor {key} {value.numel()}" for key, value in tensors.items()]
    (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    with open(folder / f"{name}.bin", "wb") as out:
        for value in tensors.values():
            kind = torch.float32 if value.is_floating_point() else torch.int32
            out.write(value.detach().to(kind).contiguous().numpy().astype(
                "<f4" if kind == torch.float32 else "<i4").tobytes())


def main():
    folder = pathlib.Path(__file__).resolve().parent.parent / "tests" / "model" / "goldens"
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, c) in enumerate(CASES.items()):
        torch.manual_seed(seed)
        parameters = make_parameters(c)
        inputs = torch.randint(c["vocabulary"], (c["sequences"], c["tokens"]))
        targets = torch.randint(c["vocabulary"], (c["sequences"], c["tokens"]))
        tables = torch_llama.Tables(c, c["tokens"], torch.float64)
        logits = torch_llama.logits_of(c, torch_llama.fused(c, parameters), inputs, tables)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        tensors = {"inputs": inputs, "targets": targets, "loss": loss.reshape(1), "logits": logits}
        tensors.update(parameters)
        tensors.update({"grad." + key: value.grad for key, value in parameters.items()})
        write(folder, name, c, tensors)


if __name__ == "__main__":
    main()
