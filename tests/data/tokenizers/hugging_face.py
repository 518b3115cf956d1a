"""Trains seven real-shaped tokenizers with Hugging Face's `tokenizers` and writes what it makes of many lines.

    hugging_face.py OUT [--lines N] [--vocabulary N] [--skip-long]

OUT gets lines.bin, the lines (u32 size, bytes; not always UTF-8), and for each tokenizer NAME.json, NAME.ids (per line u32 count, u16
ids, with special tokens) and NAME.text (per line u32 size and the bytes of decoding those ids without special tokens).
Everything follows from a fixed seed and from the Python source files that come with Python itself.
"""
import argparse
import base64
import json
import pathlib
import random
import struct
import sysconfig
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SCRIPTS = [
    (0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x17F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x621, 0x64A),
    (0x905, 0x939), (0xE01, 0xE3A), (0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3),
    (0x1F300, 0x1F64F), (0x300, 0x36F), (0x2000, 0x206F), (0xFF01, 0xFF5E), (0x2460, 0x24FF), (0x1D400, 0x1D7FF),
    (0x0966, 0x096F), (0x1100, 0x11FF), (0xFB00, 0xFB06), (0x3300, 0x33FF), (0x2150, 0x218B),
]
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<s>", "</s>", "<unk>", "<|endoftext|>", "<pad>", "<extra>", "<0x41>"]


def code_lines():
    for path in sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        yield from path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)


def word(rng):
    low, high = rng.choice(SCRIPTS[:15] if rng.random() < 0.7 else SCRIPTS)
    return "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 9)))


def unicode_line(rng):
    space = [" ", " ", " ", "  ", "\t", "\u3000", "\u00a0", "\n", "\r\n", ", ", ". ", "-", "'s ", "'LL ", "1", "2024", "", "\u2581"]
    return "".join(word(rng) + rng.choice(space) for _ in range(rng.randint(1, 14)))


def any_code_points(rng):
    """Characters old enough to have the same properties in every library's version of Unicode."""
    known = unicodedata.ucd_3_2_0
    return "".join(c for c in (chr(rng.randrange(0x30000)) for _ in range(rng.randint(1, 40))) if known.category(c) not in ("Cn", "Cs"))


def odd_bytes(rng):
    return bytes(rng.choice([rng.randrange(256), rng.randrange(128), 0xE2, 0xF0, 0x20]) for _ in range(rng.randint(0, 60)))


def with_special(rng, text):
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice(["", " ", "  "]) + rng.choice(SPECIAL) + rng.choice(["", " ", "\n "]) + text[at:]
    return text


def spaces(rng):
    return "".join(rng.choice([" ", "\t", "\n", "\r", "a", "\u00a0", "\x00", "\x0b", "\x1c", "\x85", "\u180e"]) * rng.randint(1, 6)
                   for _ in range(rng.randint(0, 12)))


def make_lines(count, long_words):
    """Lines as bytes, a third of them code."""
    rng = random.Random(15)
    code = list(code_lines())
    lines = [b"", b" ", b"\n", b"  \n", b"a", b"'", "\u2581".encode(), "\u2581\u2581 \u2581x".encode(), b"\xff", b"<s>", b" <s> </s>"]
    if long_words:
        lines += [b"a" * 100_000, b" " * 50_000, "\u00e9".encode() * 20_000, b"ab" * 30_000 + b"\xff" * 50, b"\n" * 9000 + b"x"]
    while len(lines) < count:
        kind = rng.random()
        if kind < 0.35:
            lines.append(rng.choice(code).encode())
        elif kind < 0.4:
            start = rng.randrange(len(code) - 20)
            lines.append("".join(code[start : start + 20]).encode())
        elif kind < 0.7:
            lines.append(unicode_line(rng).encode())
        elif kind < 0.78:
            lines.append(any_code_points(rng).encode())
        elif kind < 0.86:
            lines.append(odd_bytes(rng))
        elif kind < 0.94:
            lines.append(with_special(rng, rng.choice([unicode_line(rng), rng.choice(code)])).encode())
        else:
            lines.append(spaces(rng).encode())
    return lines


def gpt2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer, lambda size: trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)


def llama3():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LLAMA3_SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, lambda size: trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)


def finish_llama3(tokenizer):
    names = ["<|begin_of_text|>", "<|end_of_text|>"] + [f"<|reserved_special_token_{i}|>" for i in range(30)]
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    tokenizer.add_tokens([AddedToken("<extra>", lstrip=True, rstrip=True, normalized=True), AddedToken("self", single_word=True)])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                      special_tokens=[("<|begin_of_text|>", begin)])])


def llama2():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    return tokenizer, lambda size: trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, limit_alphabet=1500, show_progress=False)


def finish_llama2(tokenizer):
    """As the files of Llama 2: no pre-tokenizer, bytes are ordinary pieces, and the text gets its spaces replaced."""
    description = json.loads(tokenizer.to_str())
    description["added_tokens"] = description["added_tokens"][:3]
    description["pre_tokenizer"] = None
    description["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    description["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    description["post_processor"] = {
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    return Tokenizer.from_str(json.dumps(description))


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer, lambda size: trainers.UnigramTrainer(
        vocab_size=size, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False)


def finish_unigram(tokenizer):
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))])


def charsmap(rules):
    """Rules (text: text) as sentencepiece compiles them: u32 size, a double-array trie in darts-clone's units, and the texts."""
    texts, values = b"", {}
    for key, text in rules.items():
        values[key.encode()] = len(texts)
        texts += text.encode() + b"\0"
    children = {}
    for key in values:
        for end in range(len(key) + 1):
            children.setdefault(key[:end], set()).add(key[end] if end < len(key) else 0)
    units, used, first = {}, {0}, 1
    open_nodes = [(b"", 0)]
    for prefix, node in open_nodes:
        labels = sorted(children[prefix])
        while first in used:
            first += 1
        place = next(place for place in range(first, 1 << 29) if all(place ^ labels[0] ^ label not in used for label in labels))
        base = place ^ labels[0]
        units[node] = (base ^ node) << 10 | (labels[0] == 0) << 8 | (prefix[-1] if prefix else 0)
        for label in labels:
            used.add(base ^ label)
            if label == 0:
                units[base] = 1 << 31 | values[prefix]
            else:
                open_nodes.append((prefix + bytes([label]), base ^ label))
    size = (max(units) | 255) + 1  # a child is looked for in the whole block
    trie = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(size))
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + texts).decode()


def compatibility_rules(last):
    """Most of nmt_nfkc's: what NFKC changes up to `last`, letters with accents, controls that go, spaces of other kinds."""
    rules = {chr(code): unicodedata.normalize("NFKC", chr(code)) for code in range(0xA0, last) if not 0xD800 <= code < 0xE000}
    rules = {key: text for key, text in rules.items() if key != text}
    for letter in "AEIOUaeiouncsz":
        for mark in "\u0300\u0301\u0302\u0303\u0308\u030c\u0327":
            rules[letter + mark] = unicodedata.normalize("NFC", letter + mark)
    rules.update({chr(code): "" for code in [*range(1, 9), 0x0B, *range(0x0E, 0x20), 0x7F, 0x8F, 0x9F]})
    rules.update({chr(code): " " for code in [9, 10, 12, 13, 0x1680, 0x200B, 0x200E, 0x200F, 0x2028, 0x2029, 0xFEFF, 0xFFFD]})
    return rules


def t5():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer, lambda size: trainers.UnigramTrainer(
        vocab_size=size, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False)


def finish_t5(tokenizer):
    finish_unigram(tokenizer)
    description = json.loads(tokenizer.to_str())
    few = tokenizer.get_vocab_size() < 5000
    description["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": charsmap(compatibility_rules(0x180 if few else 0x20000))}
    return Tokenizer.from_str(json.dumps(description))


def bert():
    """BERT's parts around a BPE model."""
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer, lambda size: trainers.BpeTrainer(
        vocab_size=size, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], limit_alphabet=800, show_progress=False)


def finish_bert(tokenizer):
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))


def lowercase():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents(), normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.Metaspace(prepend_scheme="first", split=True)])
    tokenizer.decoder = decoders.Sequence([decoders.Metaspace(prepend_scheme="first"), decoders.Fuse()])
    return tokenizer, lambda size: trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<unk>", "<s>", "</s>"], limit_alphabet=800, show_progress=False)


def finish_lowercase(tokenizer):
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))


SHAPES = {
    "gpt2": (gpt2, None), "llama3": (llama3, finish_llama3), "llama2": (llama2, finish_llama2),
    "unigram": (unigram, finish_unigram), "lowercase": (lowercase, finish_lowercase),
    "t5": (t5, finish_t5), "bert": (bert, finish_bert),
}


def train(name, lines, vocabulary):
    make, finish = SHAPES[name]
    tokenizer, trainer = make()
    # Unigram keeps every character it has seen: a small vocabulary needs a small alphabet.
    last = 0x10FFFF if name not in ("unigram", "t5") else 0x250 if vocabulary < 5000 else 0x3100
    texts = ("".join(c for c in line.decode("utf-8", "replace") if ord(c) <= last) for line in lines if len(line) < 2000)
    tokenizer.train_from_iterator(texts, trainer(vocabulary))
    return (finish(tokenizer) if finish else None) or tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--vocabulary", type=int, default=16_000)
    parser.add_argument("--skip-long", action="store_true", help="no line of 20,000 bytes and more")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    lines = make_lines(arguments.lines, not arguments.skip_long)
    (arguments.out / "lines.bin").write_bytes(b"".join(struct.pack("<I", len(line)) + line for line in lines))
    for name in SHAPES:
        file = str(arguments.out / f"{name}.json")
        train(name, lines[:20_000], arguments.vocabulary).save(file, pretty=False)
        tokenizer = Tokenizer.from_file(file)  # which is not always the one that was saved
        encoded = [e.ids for e in tokenizer.encode_batch([line.decode("utf-8", "replace") for line in lines])]
        decoded = [text.encode() for text in tokenizer.decode_batch(encoded, skip_special_tokens=True)]
        (arguments.out / f"{name}.ids").write_bytes(b"".join(struct.pack(f"<I{len(ids)}H", len(ids), *ids) for ids in encoded))
        (arguments.out / f"{name}.text").write_bytes(b"".join(struct.pack("<I", len(text)) + text for text in decoded))


if __name__ == "__main__":
    main()
