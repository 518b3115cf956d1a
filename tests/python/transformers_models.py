"""Small models, rows and arguments for the tests of pipetrain.transformers."""

import json

import numpy
import torch
import transformers

SIZES = dict(vocab_size=128, hidden_size=64, intermediate_size=160, num_hidden_layers=4, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64)  # fmt: skip


def llama(seed=0, **changes):
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SIZES, "tie_word_embeddings": False, **changes}))


# Before version 5 transformers rounds the losses that it logs to four places, and divides by a count that includes the first
# label of each row, which nothing predicts.
ROUNDS = int(transformers.__version__.partition(".")[0]) < 5
TOLERANCES = {"loss": 1.1e-4 if ROUNDS else 1e-5, "grad_norm": 1e-4, "learning_rate": 0, "epoch": 0}


def as_logged(losses):
    return [round(loss, 4) if ROUNDS else numpy.float32(loss).item() for loss in losses]


class Rows(torch.utils.data.Dataset):
    """Rows of random ids: all of `length`, or of different lengths up to it."""

    def __init__(self, count=50, length=33, shortest=None, seed=1):
        draw = torch.Generator().manual_seed(seed)
        lengths = torch.randint(shortest or length, length + 1, (count,), generator=draw)
        self.rows = [torch.randint(0, SIZES["vocab_size"], (int(one),), generator=draw) for one in lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, row):
        labels = self.rows[row].clone()
        if ROUNDS:
            labels[0] = -100
        return {"input_ids": self.rows[row], "labels": labels}


def pad(rows):
    """A collator that pads on the right."""
    longest = max(len(row["input_ids"]) for row in rows)

    def filled(name, value):
        return torch.stack([torch.nn.functional.pad(row[name], (0, longest - len(row[name])), value=value) for row in rows])

    mask = torch.stack([torch.arange(longest) < len(row["input_ids"]) for row in rows]).long()
    return {"input_ids": filled("input_ids", 0), "labels": filled("labels", -100), "attention_mask": mask}


def arguments(folder, **changes):
    usual = dict(per_device_train_batch_size=4, gradient_accumulation_steps=2, num_train_epochs=2, learning_rate=3e-3, warmup_steps=3,
                 weight_decay=0.1, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True)  # fmt: skip
    return transformers.TrainingArguments(output_dir=str(folder), **{**usual, **changes})


def logged(trainer, name):
    return [line[name] for line in trainer.state.log_history if name in line]


def write_rows(file, rows):
    file.write_text("".join(json.dumps({"input_ids": row.tolist()}) + "\n" for row in rows))
