"""Trains a small sentencepiece model with the library from PyPI, and writes what it makes of the lines that hugging_face.py wrote.

    sentencepiece_model.py FOLDER

FOLDER holds lines.bin; it gets sentencepiece.model, sentencepiece.ids (per line u32 count, u16 ids, bos in front) and
sentencepiece.text (per line u32 size and the bytes of decoding those ids).
"""
import io
import pathlib
import struct
import sys

import sentencepiece

folder = pathlib.Path(sys.argv[1])
raw, lines, at = (folder / "lines.bin").read_bytes(), [], 0
while at < len(raw):
    size = struct.unpack_from("<I", raw, at)[0]
    lines.append(raw[at + 4 : at + 4 + size].decode("utf-8", "replace"))
    at += 4 + size
model = io.BytesIO()
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter("".join(c for c in line if "\0" < c < "\u0250") for line in lines), model_writer=model,
    vocab_size=900, model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=1.0,
    num_threads=1, minloglevel=2)
(folder / "sentencepiece.model").write_bytes(model.getvalue())
processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
encoded = [[processor.bos_id()] + processor.encode(line) for line in lines]
(folder / "sentencepiece.ids").write_bytes(b"".join(struct.pack(f"<I{len(ids)}H", len(ids), *ids) for ids in encoded))
texts = [processor.decode(ids).encode() for ids in encoded]
(folder / "sentencepiece.text").write_bytes(b"".join(struct.pack("<I", len(text)) + text for text in texts))
