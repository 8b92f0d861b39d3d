#!/usr/bin/env python3
"""Opens a folder that `starling export` or `starling consolidate` wrote, without anything of
Starling: config.json, safetensors and a SentencePiece BPE tokenizer.model are read as their formats
say, and the model is computed in plain Python, whose floats have 64 bits. Meant to disagree if the
folder is wrong, not to be fast. Other tokenizers than SentencePiece BPE are not read.

  scripts/exported_model.py FOLDER                               what is in it
  scripts/exported_model.py FOLDER --prompt TEXT [--tokens 40]   and its likeliest continuation
"""

import argparse
import array
import json
import math
import operator
import struct
import sys
from pathlib import Path

SPACE = "\u2581"  # what stands for a space in a SentencePiece model


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prompt", metavar="TEXT")
    parser.add_argument("--tokens", type=int, default=40)
    args = parser.parse_args()
    model = Model(args.folder)
    for name, tensor in model.tensors.items():
        print(f"{name:50} {tensor.shape}")
    if args.prompt is not None:
        tokenizer = Tokenizer(args.folder)
        steps = list(greedy(model, tokenizer, args.prompt, args.tokens))
        text = tokenizer.decode(token for token, _ in steps)
        print(args.prompt + text.decode(errors="replace"))


class Tensor:
    """Rows of floats, as they lie in the file."""

    def __init__(self, shape, values):
        self.shape = tuple(shape)
        self.values = values

    def row(self, index):
        return self.values[index * self.shape[1]:(index + 1) * self.shape[1]]

    def times(self, vector):
        width = self.shape[1]
        return [sum(map(operator.mul, self.values[at:at + width], vector))
                for at in range(0, len(self.values), width)]


def read_safetensors(path):
    """All tensors of one file, and its metadata. Everything about it is checked on the way."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    payload = memoryview(data)[8 + length:]
    tensors, expected = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = entry["data_offsets"]
        assert first == expected, f"{path}: a hole or an overlap before {name}"
        values = floats(entry["dtype"], payload[first:last])
        assert len(values) == math.prod(entry["shape"]), f"{path}: {name} is not of its shape"
        assert all(map(math.isfinite, values)), f"{path}: {name} is not finite"
        tensors[name] = Tensor(entry["shape"], values)
        expected = last
    assert expected == len(payload), f"{path}: bytes after the last tensor"
    return tensors, metadata


def floats(dtype, raw):
    if dtype == "F16":
        return array.array("f", (value for (value,) in struct.iter_unpack("<e", raw)))
    values = array.array({"F32": "f", "BF16": "H"}[dtype])
    values.frombytes(raw)
    if sys.byteorder == "big":
        values.byteswap()
    if dtype == "BF16":  # the upper half of a float
        values = array.array("f", array.array("I", (half << 16 for half in values)).tobytes())
    return values


def read_weights(folder):
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return read_safetensors(folder / "model.safetensors")[0]
    places = json.loads(index.read_text())["weight_map"]
    tensors = {}
    for name in sorted(set(places.values())):
        tensors |= read_safetensors(folder / name)[0]
    assert set(tensors) == set(places), f"{index} names other tensors than the files have"
    return tensors


class Model:
    """A Llama decoder that keeps the keys and values of what it has seen."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        assert self.config["model_type"] == "llama"
        rotation = self.config.get("rope_parameters", self.config)  # where transformers 5 has it
        assert not self.config.get("rope_scaling"), "stretched rotations are not read"
        assert rotation.get("rope_type", "default") == "default"
        self.theta = rotation["rope_theta"]
        self.tensors = read_weights(folder)
        heads = self.config["num_attention_heads"]
        self.head_width = self.config["hidden_size"] // heads
        self.shared = heads // self.config["num_key_value_heads"]  # heads per key and value
        self.past = [([], []) for _ in range(self.config["num_hidden_layers"])]

    def weight(self, name):
        return self.tensors[f"{name}.weight"]

    def logits(self, token):
        """Of the token after this one, which goes behind those before."""
        stream = list(self.weight("model.embed_tokens").row(token))
        for layer in range(len(self.past)):
            name = f"model.layers.{layer}"
            normal = self.norm(stream, f"{name}.input_layernorm")
            stream = add(stream, self.attention(layer, f"{name}.self_attn", normal))
            normal = self.norm(stream, f"{name}.post_attention_layernorm")
            gate = self.weight(f"{name}.mlp.gate_proj").times(normal)
            up = self.weight(f"{name}.mlp.up_proj").times(normal)
            inner = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
            stream = add(stream, self.weight(f"{name}.mlp.down_proj").times(inner))
        tied = self.config["tie_word_embeddings"]
        head = self.weight("model.embed_tokens" if tied else "lm_head")
        return head.times(self.norm(stream, "model.norm"))

    def norm(self, vector, name):
        mean = sum(x * x for x in vector) / len(vector)
        scale = 1 / math.sqrt(mean + self.config["rms_norm_eps"])
        return [x * scale * w for x, w in zip(vector, self.weight(name).values)]

    def attention(self, layer, name, vector):
        keys, values = self.past[layer]
        position = len(keys)
        queries, key, value = ([projected[at:at + self.head_width]
                                for at in range(0, len(projected), self.head_width)]
                               for projected in (self.weight(f"{name}.{kind}_proj").times(vector)
                                                 for kind in "qkv"))
        keys.append([self.rotate(head, position) for head in key])
        values.append(value)
        out = []
        for index, query in enumerate(queries):
            turned, other = self.rotate(query, position), index // self.shared
            scores = [dot(turned, key[other]) / math.sqrt(self.head_width) for key in keys]
            most = max(scores)
            weights = [math.exp(score - most) for score in scores]
            total = sum(weights)
            for i in range(self.head_width):
                column = (value[other][i] for value in values)
                out.append(dot(weights, column) / total)
        return self.weight(f"{name}.o_proj").times(out)

    def rotate(self, head, position):
        """Element i of the first half turns with element i of the second."""
        half = self.head_width // 2
        out = list(head)
        for i in range(half):
            angle = position * self.theta ** (-i / half)
            cosine, sine = math.cos(angle), math.sin(angle)
            out[i] = head[i] * cosine - head[i + half] * sine
            out[i + half] = head[i + half] * cosine + head[i] * sine
        return out


def dot(left, right):
    return sum(map(operator.mul, left, right))


def add(left, right):
    return list(map(operator.add, left, right))


class Tokenizer:
    """SentencePiece BPE without normalization, as `starling tokenizer train --type bpe` makes."""

    NORMAL, BYTE = 1, 6

    def __init__(self, folder):
        if not (folder / "tokenizer.model").exists():
            sys.exit(f"{folder} has no tokenizer.model: prompts are read for SentencePiece alone")
        config = json.loads((folder / "config.json").read_text())
        self.begin, self.end = config["bos_token_id"], config["eos_token_id"]
        self.pieces = []  # (text, score, kind)
        for number, piece in protobuf((folder / "tokenizer.model").read_bytes()):
            if number == 1:
                fields = dict(protobuf(piece))
                (score,) = struct.unpack("<f", fields.get(2, bytes(4)))
                self.pieces.append((fields[1].decode(), score, fields.get(3, self.NORMAL)))
        self.ids = {text: i for i, (text, _, _) in enumerate(self.pieces)}

    def encode(self, text):
        symbols = list(text.replace(" ", SPACE))
        while True:
            scores = [self.score(left + right) for left, right in zip(symbols, symbols[1:])]
            if max(scores, default=-math.inf) == -math.inf:
                break
            at = scores.index(max(scores))
            symbols[at:at + 2] = [symbols[at] + symbols[at + 1]]
        tokens = [] if self.begin is None else [self.begin]
        for symbol in symbols:
            if symbol in self.ids:
                tokens.append(self.ids[symbol])
            else:
                tokens += (self.ids[f"<0x{byte:02X}>"] for byte in symbol.encode())
        return tokens

    def score(self, text):
        _, score, kind = self.pieces[self.ids[text]] if text in self.ids else (0, 0, 0)
        return score if kind == self.NORMAL else -math.inf

    def decode(self, tokens):
        out = bytearray()
        for token in tokens:
            text, _, kind = self.pieces[token]
            if kind == self.BYTE:
                out.append(int(text[3:5], 16))
            elif kind == self.NORMAL:
                out += text.replace(SPACE, " ").encode()
        return bytes(out)


def protobuf(data):
    """The fields of a message: (number, int or bytes)."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        length = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, bytes(data[at:at + length])
        at += length


def greedy(model, tokenizer, prompt, tokens):
    """The likeliest tokens one after the other, each with its lead over the second."""
    for token in tokenizer.encode(prompt):
        logits = model.logits(token)
    for _ in range(tokens):
        # A model may have more tokens than its tokenizer.
        ranked = sorted(range(len(tokenizer.pieces)), key=lambda i: (-logits[i], i))
        token = ranked[0]
        if token == tokenizer.end:
            return
        yield token, logits[token] - logits[ranked[1]]
        logits = model.logits(token)


if __name__ == "__main__":
    main()
