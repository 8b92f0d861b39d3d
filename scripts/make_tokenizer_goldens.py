#!/usr/bin/env python3
"""Writes tests/model/goldens/tokenizers: what the reference implementation makes of odd texts.

Run by hand, from the root of the repository, with a Python that has the package `tokenizers`
(0.23 was used); the files are committed, and building and testing need no Python.

FAMILY.json is a tokenizer file: trained here on a few sentences, with the pre-tokenizer, normalizer
and added tokens of that family. cases.json: "texts", and for each family two lists of token lists,
one for each text: "recognised" (special tokens in the text are special) and "as_text".
"""

import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

OUT = pathlib.Path("tests/model/goldens/tokenizers")
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + REST
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + REST

# Written for this file.
LESSONS = [
    "The quick brown fox doesn't jump over the lazy dog; it's asleep, and we've all seen that.",
    "In the beginning there was a text, and the text was with the tokenizer. They'll be fine.",
    "for (int i = 0; i < 100; ++i) {\n    total += values[i];\n}\n\nreturn total;\r\n\r\n",
    "Der Fuchs läuft über die Straße, während die Bären größere Äpfel fressen. Schön!",
    "Le café où l'élève déjeune est fermé à Noël; ça n'a pas d'importance.",
    "Быстрая коричневая лиса прыгает через ленивую собаку, и это хорошо.",
    "Η γρήγορη αλεπού πηδά πάνω από το τεμπέλικο σκυλί.",
    "敏捷的棕色狐狸跳过了懒狗。今天天气很好,我们去公园吧。",
    "すばやい茶色の狐はのろまな犬を飛び越える。カタカナも少し。",
    "빠른 갈색 여우가 게으른 개를 뛰어넘는다. 오늘은 날씨가 좋다.",
    "तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है। संख्या १२३ है।",
    "الثعلب البني السريع يقفز فوق الكلب الكسول. الرقم ١٢٣.",
    "1234567890 3.14159 2024-12-31 1,000,000 0x7f 50% ½ ² Ⅷ",
    "🙂🙃 👩‍👩‍👧‍👦 🇩🇪 👍🏽 and text between 🎉🎉🎉",
]

TEXTS = LESSONS + [
    "", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", " \n \n x", "a", " a", "a ",
    "a  ", "  a", "a  b", "a   b", "a\nb", "a\n\nb", "a \n b", "a\r\n\r\nb", "a\t\tb", "a \t\n\t b",
    "x.\n\ny", "x. \n\n y", "...\r\n\r\n...", "!!!\n!!!", " !\n", "a!\r\rb", "end.   \n   next",
    "\u00a0a\u00a0 b", "a\u2003\u2003b", "\u3000中\u3000文", "a\u0085b\u0085\u0085", "a\u200bb",
    "a\u180eb \u180ec", "\x1c\x1d\x1e\x1f a\x1fb", "\x00 \x00\x00a", "a\x7fb", "\ufeffbom",
    "I'm you're he's she'd we'll they've don't", "I'M YOU'RE HE'S SHE'D WE'LL THEY'VE DON'T",
    "'sx 'Sx ''s '''t 's's's", "don\u2019t it\u2019s", "'\u017f '\u017ft x'\u017f", "'re're'RE'rE",
    "'ll 'l 'v 'r '", "can't've", " 's 't", "12'3's",
    "1 12 123 1234 12345 123456 1234567", "a1b22c333d4444", "1.5e10 -3 +4 1/2", "١٢٣٤٥ १२३४",
    "Ⅷ½²³ x² ①②③④", " 1 12  123", "v1.2.3-rc4",
    "e\u0301 \u00e9 e\u0301\u0327 e\u0327\u0301 a\u030a \u212b \u2126 \u1e9b\u0323",
    "\u0301 \u0301\u0301a", "\n\u0301x", "\u1100\u1161\u11a8 \uac01 \uac00\u11a8",
    "\u0958 \u0915\u093c",
    "\u0f71\u0f72\u0f74 \u0f73", "A\u0315\u0300\u05ae\u0062", "\ufb01 \u2460 \u00b5",
    "\u0340\u0374\u037e",
    "\U0001d15e \U0001d1bf \U0002f800", "\u0b47\u0b3e \u09c7\u09be",
    "\u4e00\u4e01 \U00020000 \U000323af \U0002ebf0 \U00010d40 \u1c89",
    "\uffff \ufffd \U0010ffff \ue000",
    "<|endoftext|>", "a<|endoftext|>b", "<|endoftext|><|endoftext|>", "<|endoftext",
    "<<|endoftext|>>",
    " <|endoftext|> ", "x\n<|begin_of_text|>\ny<|end_of_text|>", "<|begin_of_text",
    "<think>a</think>",
    "<tool_call>\n{}\n</tool_call>", "<|im_start|>user\nhi<|im_end|>\n", "<thin<think>k>",
    "<long><longer><longest><lon",
    "unreachable is  unreachable", "e\u0301<caf\u00e9><cafe\u0301>",
    "a" * 40, "ab" * 40, "= " * 20, "=" * 33, " " * 33 + "x", "\n" * 33 + "x",
    "中" * 20, "-" * 30 + "\n" * 5,
    "the the THE The tHe", "hello\u0000world", "tab\tseparated\tvalues\n", "{\"a\": [1, 2, {}]}",
    "https://example.org/a?b=c&d=%20#e", "snake_case camelCase __init__ a-b", "a_b _c d_",
]

POOL = ("abcsSdmtlLrveE'' \t\n\r  \n 0123456789.,!?-_()<|>\""
        "éßÄñ\u0301\u0327\u030a\u0323"
        "дЯλΩאش中文字日本\u3000\u00a0\u2028\u0085"
        "한글가각\u1100\u1161कख़१٣½Ⅷ²🙂👍🏽\u200d\ufe0f\u017f\u212a\u0130ǅ")


def random_texts(count, length):
    rng = random.Random(7)
    return ["".join(rng.choice(POOL) for _ in range(rng.randint(1, length))) for _ in range(count)]


def train(pre_tokenizer, normalizer, vocabulary, special):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(LESSONS * 3, trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=special, show_progress=False))
    return tokenizer


def split_then_bytes(regex):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(regex), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2():
    """The oldest form of the file: no type of the model, merges as one string."""
    tokenizer = train(pre_tokenizers.ByteLevel(add_prefix_space=False), None, 700,
                      [AddedToken("<|endoftext|>", special=True, normalized=True)])
    file = json.loads(tokenizer.to_str())
    del file["model"]["type"]
    file["model"]["merges"] = [" ".join(pair) for pair in file["model"]["merges"]]
    return file


def llama3():
    """ignore_merges, special tokens behind the vocabulary, a token that begins the text."""
    tokenizer = train(split_then_bytes(LLAMA3), None, 800, [])
    file = json.loads(tokenizer.to_str())
    file["model"]["ignore_merges"] = True
    for word in ("Ġunreachable", "unreachable", "123", "'Ll"):
        file["model"]["vocab"].setdefault(word, len(file["model"]["vocab"]))
    tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False)
                                  for text in ("<|begin_of_text|>", "<|end_of_text|>")])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A",
                                      special_tokens=[("<|begin_of_text|>", begin)])])
    return json.loads(tokenizer.to_str())


def qwen2():
    """NFC; added tokens, special and not, some of which are found in the normalized text."""
    tokenizer = train(split_then_bytes(QWEN2), normalizers.NFC(), 900, [])
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False)
                                  for text in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in
                          ("<think>", "</think>", "<tool_call>", "</tool_call>", "<long>",
                           "<longer>", "<longest>", "<long><longer")])
    tokenizer.add_tokens([AddedToken("<café>", special=False, normalized=True)])
    return json.loads(tokenizer.to_str())


def encode_all(text_of_file, texts, as_text):
    tokenizer = Tokenizer.from_str(text_of_file)
    tokenizer.encode_special_tokens = as_text
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    texts = TEXTS + random_texts(60, 40)
    cases = {"texts": texts}
    for name, make in (("gpt2", gpt2), ("llama3", llama3), ("qwen2", qwen2)):
        file = json.dumps(make(), ensure_ascii=False, separators=(",", ":"))
        (OUT / f"{name}.json").write_text(file + "\n")
        cases[name] = {"recognised": encode_all(file, texts, False),
                       "as_text": encode_all(file, texts, True)}
    lines = (f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}"
             for key, value in cases.items())
    (OUT / "cases.json").write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
