#!/usr/bin/env python3
"""Compares model folders with Hugging Face transformers: what pipetrain saves, computes and writes with them.

    python3 -m venv venv && venv/bin/pip install torch transformers safetensors numpy
    venv/bin/python scripts/check_export.py MODEL_DIR [--checkpoint run/step-00000100] [--program build/pipetrain]
    venv/bin/python scripts/check_export.py --families tests/golden [--program build/pipetrain]

For one folder in fp32 it prints the largest difference between the losses of some rows of random tokens and exits with status 1
when one is above 1e-5 of the loss. A mean over a row's tokens of the logarithm of a softmax moves with every logit of the row.
With --checkpoint, every weight of the folder is compared to the bit with what the ranks' files of that checkpoint hold.

With --families it does this for each model folder inside, and prints a line for each:
  saved    a folder that is saved without training has the same tensors to the bit, and transformers reads the same configuration;
  trained  a folder that is saved after three steps gives the same losses in transformers, of rows and of single tokens;
  kept     the tensors of a multimodal model's other parts are unchanged in it;
  text     `pipetrain generate` writes what transformers' `generate` writes greedily.
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
import transformers
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_torch_file

PIECE = re.compile(r"weights/([^\[\]{}]+?)(?:\[(:,)?(\d+):(\d+)\])?(\.T)?(?:\{(\d+):(\d+)\})?$")
LIMIT = 1e-5
# What says how a file was made, and not what the model is.
NO_MEANING = {"transformers_version", "_name_or_path", "dtype", "torch_dtype", "use_cache"}
# Keys of DeepSeek's own programs, which transformers leaves out where it does not read them.
NO_MEANING |= {"scoring_func", "topk_method"}


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


def train(program, model, rows, folder, options):
    """Trains on the rows, one a step, and returns the losses."""
    data, metrics = pathlib.Path(folder, "rows.jsonl"), pathlib.Path(folder, "metrics.jsonl")
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    metrics.unlink(missing_ok=True)
    command = [program, "--device", "cpu", "--model", str(model), "--data", str(data), "--shuffle", "off"]
    command += ["--microbatch", "1", "--microbatches", "1", "--steps", str(len(rows)), "--metrics", str(metrics), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]


def pipetrain_losses(program, model, rows):
    with tempfile.TemporaryDirectory() as folder:
        return train(program, model, rows, folder, ["--lr", "0", "--weight-decay", "0"])


def architecture(model):
    return json.loads((model / "config.json").read_text())["architectures"][0]


def open_transformers(model):
    kind = getattr(transformers, architecture(model))
    return kind.from_pretrained(model, dtype=torch.float32, attn_implementation="eager").eval()


def transformers_losses(model, rows):
    opened = open_transformers(model)
    losses = []
    with torch.no_grad():
        for row in rows:
            if "label" in row:
                logits = opened(torch.tensor([row["input_ids"]])).logits.double()
                losses.append(torch.nn.functional.cross_entropy(logits, torch.tensor([row["label"]])).item())
                continue
            ids, labels = torch.tensor([row["input_ids"]]), torch.tensor([row.get("labels", row["input_ids"])])
            logits = opened(ids[:, :-1]).logits[0].double()
            losses.append(torch.nn.functional.cross_entropy(logits, labels[0, 1:]).item())
    return losses


def text_settings(model):
    config = json.loads((model / "config.json").read_text())
    return {**config, **config.get("text_config", {})}


def random_rows(model, count):
    """Rows of random tokens; in the second half of them the last token alone counts. Classifiers get labels."""
    random = numpy.random.default_rng(1)
    settings = text_settings(model)
    longest = min(settings.get("max_position_embeddings") or settings.get("n_positions"), 128)
    # longrope's factors depend on the length: on that of the run here, of each row in transformers.
    original = settings.get("original_max_position_embeddings") or 0
    shortest = original if original < longest else 1
    rows = []
    for index in range(count):
        if architecture(model).endswith("ForSequenceClassification"):
            ids = random.integers(0, settings["vocab_size"], random.integers(1, longest + 1)).tolist()
            # transformers takes the last token that is not padding for the end of the sequence.
            pad = settings.get("pad_token_id")
            rows.append({"input_ids": [(token + 1) % settings["vocab_size"] if token == pad else token for token in ids], "label": index % 2})
            continue
        ids = random.integers(0, settings["vocab_size"], longest + 1 if index < count // 2 else random.integers(shortest + 1, longest + 2)).tolist()
        rows.append({"input_ids": ids} if index < count // 2 else {"input_ids": ids, "labels": [-100] * (len(ids) - 1) + ids[-1:]})
    return rows


def largest_difference(program, model, count):
    rows = random_rows(model, count)
    ours, theirs = pipetrain_losses(program, model, rows), transformers_losses(model, rows)
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))


def tensors_of(model):
    tensors = {}
    for file in sorted(model.glob("*.safetensors")):
        tensors.update(load_torch_file(file))
    return tensors


def same_bits(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def without_meaning(value):
    if not isinstance(value, dict):
        return value
    kept = {key: without_meaning(member) for key, member in value.items() if key not in NO_MEANING}
    if "rope_type" in kept:  # "type" is its older spelling; transformers computes with these values where they are absent
        usual = {"type": kept["rope_type"], "beta_fast": 32, "beta_slow": 1, "truncate": True}
        kept = {key: member for key, member in kept.items() if key not in usual or member != usual[key]}
    return kept


def meaning_of(model):
    meaning = without_meaning(transformers.AutoConfig.from_pretrained(model).to_dict())
    meaning.setdefault("partial_rotary_factor", None)
    if meaning["partial_rotary_factor"] is None and meaning.get("rope_parameters"):
        meaning["partial_rotary_factor"] = meaning["rope_parameters"].get("partial_rotary_factor")
    if not meaning.get("sliding_window"):
        meaning.pop("max_window_layers", None)
    if meaning.get("head_dim") is None and "hidden_size" in meaning:
        meaning["head_dim"] = meaning["hidden_size"] // meaning["num_attention_heads"]
    if "n_inner" in meaning and meaning["n_inner"] is None:
        meaning["n_inner"] = 4 * meaning["n_embd"]
    if architecture(model).endswith("ForSequenceClassification"):
        meaning.pop("tie_word_embeddings")  # its head is no table of tokens
    return meaning


def check_saved(program, model, folder):
    run = folder / "saved"
    train(program, model, random_rows(model, 1), folder, ["--lr", "0", "--weight-decay", "0", "--save", str(run)])
    before, after = tensors_of(model), tensors_of(run / "model")
    changed = [name for name in before if name not in after or not same_bits(before[name], after[name])]
    changed += [name for name in after if name not in before]
    own, saved = meaning_of(model), meaning_of(run / "model")
    changed += [key for key in {**own, **saved} if own.get(key) != saved.get(key)]
    # A key of older or newer transformers must not be lost.
    before, after = (json.loads((one / "config.json").read_text()) for one in (model, run / "model"))
    changed += [key for key in before if key.startswith("rope") and before[key] is not None and after.get(key) is None]
    return f"{len(tensors_of(model))} tensors", changed


def check_trained(program, model, folder):
    run = folder / "trained"
    train(program, model, random_rows(model, 3), folder, ["--lr", "0.01", "--lr-schedule", "constant", "--save", str(run)])
    difference = largest_difference(program, run / "model", 16)
    return f"{difference:.1e}", [] if difference <= LIMIT else [f"the largest difference is above {LIMIT}"]


def check_kept(model, folder):
    before, after = tensors_of(model), tensors_of(folder / "trained/model")
    kept = [name for name in before if "vision_tower" in name or "projector" in name]
    loaded = open_transformers(folder / "trained/model").state_dict()
    wrong = [name for name in kept if not same_bits(before[name], after[name])]
    wrong += [name for name in kept if name in loaded and not torch.equal(loaded[name], before[name].float())]
    wrong += [name for name in before if name not in kept and same_bits(before[name], after[name])]
    return f"{len(kept)} tensors", wrong


def check_text(program, model):
    prompts = ["The river runs", "abc", "x = 1 + 2; y", "To be, or not to be, that is a question"]
    if text_settings(model)["vocab_size"] < 128:  # bytes are tokens
        prompts = ["ABC", "1 + 2 = 3", "(4; 5) < 6: GO", "A MAN, A FILE, A LINE, 30 * 12"]
    command = [program, "generate", "--device", "cpu", "--json", "--temperature", "0", "--max-new-tokens", "24", "--model", str(model)]
    opened, wrong, count = open_transformers(model), [], 0
    ends = opened.generation_config.eos_token_id
    for prompt in prompts:
        done = subprocess.run([*command, "--prompt", prompt], capture_output=True)
        if done.returncode != 0:
            return "", [done.stderr.decode()]
        ids = torch.tensor([list(prompt.encode())])
        out = opened.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=24, pad_token_id=0)[0, ids.shape[1] :].tolist()
        out = [token for token in out if token not in (ends if isinstance(ends, list) else [ends])]
        count += len(out)
        answer = json.loads(done.stdout.decode("utf-8", errors="surrogateescape"))
        # Bytes are tokens here, and ids above them have no text.
        text = bytes(token for token in out if token < 256).decode("utf-8", errors="replace")
        if answer["text"] != text:
            wrong.append(f"{prompt!r}: {answer['text']!r} is not {text!r}")
    return f"{count} tokens", wrong


def check_family(program, model):
    """Prints a line; returns True where all is equal."""
    wrong, told = [], []
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        checks = {"saved": lambda: check_saved(program, model, folder), "trained": lambda: check_trained(program, model, folder)}
        if "text_config" in json.loads((model / "config.json").read_text()):
            checks["kept"] = lambda: check_kept(model, folder)
        if not architecture(model).endswith("ForSequenceClassification"):
            checks["text"] = lambda: check_text(program, model)
        for name, check in checks.items():
            try:
                what, faults = check()
            except Exception as error:  # transformers refuses the folder
                what, faults = "nothing", [" ".join(str(error).split())]
            told.append(f"{name} {what}")
            wrong += [f"{name}: {fault}" for fault in faults]
    print(f"{model.name}: {'; '.join(told)}: {'equal' if not wrong else 'DIFFERENT: ' + '; '.join(wrong[:5])}", flush=True)
    return not wrong


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("model", type=pathlib.Path, nargs="?")
    options.add_argument("--families", type=pathlib.Path)
    options.add_argument("--checkpoint", type=pathlib.Path)
    options.add_argument("--program", default="build/pipetrain")
    options.add_argument("--rows", type=int, default=16)
    given = options.parse_args()
    if (given.model is None) == (given.families is None):
        options.error("give a model's folder or --families")
    if given.families:
        models = [file.parent for file in sorted(given.families.glob("*/config.json")) if (file.parent / "model.safetensors").exists()]
        sys.exit(0 if all([check_family(given.program, model) for model in models]) else 1)
    largest = largest_difference(given.program, given.model, given.rows)
    print(f"largest difference of {given.rows} rows' losses: {largest:.2e} of the loss (limit {LIMIT})")
    equal = compare_bits(given.model, given.checkpoint) if given.checkpoint else True
    sys.exit(0 if largest <= LIMIT and equal else 1)


if __name__ == "__main__":
    main()
