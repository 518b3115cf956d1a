#!/usr/bin/env python3
"""Checks that transformers computes with a model folder what pipetrain does: the loss of each of some rows of random tokens.

    python3 -m venv venv && venv/bin/pip install torch transformers safetensors numpy
    venv/bin/python scripts/check_export.py MODEL_DIR [--checkpoint run/step-00000100] [--program build/pipetrain]

Prints the largest difference and exits with status 1 when one is above 1e-5 of the loss. A mean over a row's tokens of the
logarithm of a softmax moves with every logit of the row. With --checkpoint, every weight of the folder is compared to the bit
with what the ranks' files of that checkpoint hold. For folders in fp32.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

PIECE = re.compile(r"weights/([^\[\]{}]+?)(?:\[(:,)?(\d+):(\d+)\])?(\.T)?(?:\{(\d+):(\d+)\})?$")


def checkpoint_weights(folder, shapes):
    """The full tensors out of the ranks' files, by name."""
    full = {name: numpy.full(shape, numpy.nan, numpy.float32) for name, shape in shapes.items()}
    slices = {}
    for file in sorted(folder.glob("rank-*.safetensors")):
        for key, values in load_file(file).items():
            match = PIECE.match(key)
            if not match:
                continue
            name, columns, begin, end, transposed, first, last = match.groups()
            place = slice(None)
            if begin is not None:
                place = (slice(None), slice(int(begin), int(end))) if columns else slice(int(begin), int(end))
            shape = full[name][place].shape
            stored = slices.setdefault((name, str(place)), [place, bool(transposed), numpy.full(shape, numpy.nan, numpy.float32).reshape(-1)])
            stored[2][int(first or 0) : int(last) if last else None] = values.reshape(-1)
    for (name, _), (place, transposed, flat) in slices.items():
        shape = full[name][place].shape
        full[name][place] = flat.reshape(shape[::-1]).T if transposed else flat.reshape(shape)
    return full


def compare_bits(model_folder, checkpoint):
    saved = {}
    for file in sorted(model_folder.glob("*.safetensors")):
        saved.update(load_file(file))
    full = checkpoint_weights(checkpoint, {name: values.shape for name, values in saved.items()})
    different = [name for name, values in saved.items() if values.tobytes() != full[name].tobytes()]
    print(f"{len(saved) - len(different)} of {len(saved)} tensors equal to the bit")
    return not different


def pipetrain_losses(program, model_folder, rows):
    with tempfile.TemporaryDirectory() as folder:
        data, metrics = pathlib.Path(folder, "rows.jsonl"), pathlib.Path(folder, "metrics.jsonl")
        data.write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in rows))
        command = [program, "--device", "cpu", "--model", str(model_folder), "--data", str(data), "--shuffle", "off"]
        command += ["--microbatch", "1", "--microbatches", "1", "--steps", str(len(rows)), "--lr", "0", "--weight-decay", "0"]
        subprocess.run(command + ["--metrics", str(metrics)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]


def transformers_losses(model_folder, rows):
    model = AutoModelForCausalLM.from_pretrained(model_folder, torch_dtype=torch.float32).eval()
    losses = []
    with torch.no_grad():
        for row in rows:
            ids = torch.tensor([row])
            logits = model(ids[:, :-1]).logits[0].double()
            losses.append(torch.nn.functional.cross_entropy(logits, ids[0, 1:]).item())
    return losses


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("model", type=pathlib.Path)
    options.add_argument("--checkpoint", type=pathlib.Path)
    options.add_argument("--program", default="build/pipetrain")
    options.add_argument("--rows", type=int, default=16)
    given = options.parse_args()
    config = json.loads((given.model / "config.json").read_text())
    random = numpy.random.default_rng(1)
    length = min(config.get("max_position_embeddings") or config.get("n_positions"), 128) + 1
    rows = random.integers(0, config["vocab_size"], (given.rows, length)).tolist()
    ours = pipetrain_losses(given.program, given.model, rows)
    theirs = transformers_losses(given.model, rows)
    largest = max(abs(a / b - 1) for a, b in zip(ours, theirs, strict=True))
    print(f"largest difference of {len(rows)} rows' losses: {largest:.2e} of the loss (limit 1e-5)")
    equal = compare_bits(given.model, given.checkpoint) if given.checkpoint else True
    sys.exit(0 if largest <= 1e-5 and equal else 1)


if __name__ == "__main__":
    main()
