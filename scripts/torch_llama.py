"""A Llama in PyTorch: the independent opinion on model/, for golden values (make_model_goldens.py)
and for comparisons of speed (bench_against_torch).

A configuration is a dict with the fields of LlamaConfig. Parameters are a dict of tensors by their
names in Hugging Face's Llama checkpoints; fused() joins those that multiply the same input, as
whoever wants speed does. Works in the type of the parameters.
"""

import torch
import torch.nn.functional as F


def shapes_of(c):
    """By name; vectors are gains of norms."""
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
    return shapes


def fused(c, parameters):
    """q, k and v of a layer as one matrix "qkv", gate and up as one "gate_up"."""
    result = dict(parameters)
    for layer in range(c["layers"]):
        for parts, whole in ((("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "qkv"),
                             (("mlp.gate_proj", "mlp.up_proj"), "gate_up")):
            p = f"model.layers.{layer}."
            result[p + whole] = torch.cat([result.pop(p + part + ".weight") for part in parts])
    return result


class Tables:
    """What only depends on positions: rotations, and what is hidden from each token. `fused`: no
    mask, but the causal attention that PyTorch has as one operation, since 2.0."""

    def __init__(self, c, tokens, dtype, fused=False):
        width = c["width"] // c["heads"]
        frequencies = c["rope_theta"] ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles = torch.outer(torch.arange(tokens, dtype=torch.float64), frequencies)
        angles = torch.cat((angles, angles), dim=-1)
        self.cosines, self.sines = angles.cos().to(dtype), angles.sin().to(dtype)
        self.mask = None
        if not fused:
            self.mask = torch.full((tokens, tokens), float("-inf"), dtype=dtype).triu(1)


def rms_norm(x, gain, epsilon):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * gain


def rotate(x, tables):
    middle = x.shape[-1] // 2
    half = torch.cat((-x[..., middle:], x[..., :middle]), dim=-1)
    return x * tables.cosines + half * tables.sines


def attention(c, p, prefix, x, tables):
    sequences, tokens, width = x.shape
    head_width = width // c["heads"]
    heads, kv_heads = c["heads"], c["kv_heads"]
    qkv = x @ p[prefix + "qkv"].T
    qkv = qkv.view(sequences, tokens, heads + 2 * kv_heads, head_width).transpose(1, 2)
    q, k, v = qkv.split((heads, kv_heads, kv_heads), dim=1)
    q, k = rotate(q, tables), rotate(k, tables)
    if kv_heads != heads:
        k = k.repeat_interleave(heads // kv_heads, dim=1)
        v = v.repeat_interleave(heads // kv_heads, dim=1)
    if tables.mask is None:
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
        q = q * head_width ** -0.5
        y = (q @ k.transpose(-1, -2) + tables.mask).softmax(-1) @ v
    y = y.transpose(1, 2).reshape(sequences, tokens, width)
    return y @ p[prefix + "self_attn.o_proj.weight"].T


def logits_of(c, p, inputs, tables):
    """`p`: as fused() makes them."""
    x = F.embedding(inputs, p["model.embed_tokens.weight"])
    for layer in range(c["layers"]):
        prefix = f"model.layers.{layer}."
        y = rms_norm(x, p[prefix + "input_layernorm.weight"], c["norm_epsilon"])
        x = x + attention(c, p, prefix, y, tables)
        y = rms_norm(x, p[prefix + "post_attention_layernorm.weight"], c["norm_epsilon"])
        gate, up = (y @ p[prefix + "gate_up"].T).chunk(2, dim=-1)
        x = x + (F.silu(gate) * up) @ p[prefix + "mlp.down_proj.weight"].T
    x = rms_norm(x, p["model.norm.weight"], c["norm_epsilon"])
    head = "model.embed_tokens.weight" if c["tied_head"] else "lm_head.weight"
    return x @ p[head].T


def loss_of(c, p, inputs, targets, tables):
    logits = logits_of(c, p, inputs, tables)
    return F.cross_entropy(logits.flatten(0, 1).float() if logits.dtype == torch.bfloat16
                           else logits.flatten(0, 1), targets.flatten())
