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

CASES = {
    "tied_gqa": dict(vocabulary=37, width=24, layers=3, heads=4, kv_heads=2, ffn=20, context=16,
                     rope_theta=10000.0, norm_epsilon=1e-5, tied_head=1, sequences=3, tokens=13),
    "untied_mha": dict(vocabulary=50, width=32, layers=2, heads=2, kv_heads=2, ffn=44, context=80,
                       rope_theta=500.0, norm_epsilon=1e-6, tied_head=0, sequences=1, tokens=70),
}


def make_parameters(c):
    kv_width = c["kv_heads"] * (c["width"] // c["heads"])
    shapes = {"model.embed_tokens.weight": (c["vocabulary"], c["width"]),
              "model.norm.weight": (c["width"],)}
    if not c["tied_head"]:
        shapes["lm_head.weight"] = (c["vocabulary"], c["width"])
    for layer in range(c["layers"]):
        p = f"model.layers.{layer}."
        shapes[p + "input_layernorm.weight"] = (c["width"],)
        shapes[p + "self_attn.q_proj.weight"] = (c["width"], c["width"])
        shapes[p + "self_attn.k_proj.weight"] = (kv_width, c["width"])
        shapes[p + "self_attn.v_proj.weight"] = (kv_width, c["width"])
        shapes[p + "self_attn.o_proj.weight"] = (c["width"], c["width"])
        shapes[p + "post_attention_layernorm.weight"] = (c["width"],)
        shapes[p + "mlp.gate_proj.weight"] = (c["ffn"], c["width"])
        shapes[p + "mlp.up_proj.weight"] = (c["ffn"], c["width"])
        shapes[p + "mlp.down_proj.weight"] = (c["width"], c["ffn"])
    parameters = {}
    for name, shape in shapes.items():
        # Larger than real first values, so that attention is far from uniform.
        values = torch.randn(shape) * 0.3 + (1.0 if len(shape) == 1 else 0.0)
        parameters[name] = values.double().requires_grad_(True)
    return parameters


def rms_norm(x, gain, epsilon):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * gain


def rotate(x, theta):
    tokens, width = x.shape[-2], x.shape[-1]
    frequencies = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.outer(torch.arange(tokens, dtype=torch.float64), frequencies)
    angles = torch.cat((angles, angles), dim=-1)
    half = torch.cat((-x[..., width // 2:], x[..., :width // 2]), dim=-1)
    return x * angles.cos() + half * angles.sin()


def attention(c, p, prefix, x):
    sequences, tokens, width = x.shape
    head_width = width // c["heads"]

    def split(name, heads):
        y = x @ p[prefix + name + ".weight"].T
        return y.view(sequences, tokens, heads, head_width).transpose(1, 2)

    q = rotate(split("q_proj", c["heads"]), c["rope_theta"])
    k = rotate(split("k_proj", c["kv_heads"]), c["rope_theta"])
    v = split("v_proj", c["kv_heads"])
    k = k.repeat_interleave(c["heads"] // c["kv_heads"], dim=1)
    v = v.repeat_interleave(c["heads"] // c["kv_heads"], dim=1)
    scores = q @ k.transpose(-1, -2) / head_width ** 0.5
    mask = torch.ones(tokens, tokens).triu(1).bool()
    weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
    y = (weights @ v).transpose(1, 2).reshape(sequences, tokens, width)
    return y @ p[prefix + "o_proj.weight"].T


def logits_of(c, p, inputs):
    x = p["model.embed_tokens.weight"][inputs]
    for layer in range(c["layers"]):
        prefix = f"model.layers.{layer}."
        y = rms_norm(x, p[prefix + "input_layernorm.weight"], c["norm_epsilon"])
        x = x + attention(c, p, prefix + "self_attn.", y)
        y = rms_norm(x, p[prefix + "post_attention_layernorm.weight"], c["norm_epsilon"])
        gate = F.silu(y @ p[prefix + "mlp.gate_proj.weight"].T)
        up = y @ p[prefix + "mlp.up_proj.weight"].T
        x = x + (gate * up) @ p[prefix + "mlp.down_proj.weight"].T
    x = rms_norm(x, p["model.norm.weight"], c["norm_epsilon"])
    head = "model.embed_tokens.weight" if c["tied_head"] else "lm_head.weight"
    return x @ p[head].T


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
        logits = logits_of(c, parameters, inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        tensors = {"inputs": inputs, "targets": targets, "loss": loss.reshape(1), "logits": logits}
        tensors.update(parameters)
        tensors.update({"grad." + key: value.grad for key, value in parameters.items()})
        write(folder, name, c, tensors)


if __name__ == "__main__":
    main()
