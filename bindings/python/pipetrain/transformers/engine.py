"""A module of transformers, or an adapter of PEFT around it, trained by the engine: its weights go there at the first step, and come back
on request."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file

from .. import _engine
from ..errors import InputError
from ..program import option_words
from .adapter import base_of, is_peft, load_adapter, save_base_and_adapter
from .layout import Batch, Layout
from .refusals import OPTIMIZERS
from .samples import Samples, read_batch

CHECKPOINTS = "pipetrain"  # the folder inside of a checkpoint of transformers that has the engine's own


@dataclass(frozen=True)
class EngineStep:
    """loss: the mean over the labels of the step that count, 0 where none does; grad_norm: before clipping."""

    loss: float
    grad_norm: float


def refusal(model: Any) -> str | None:
    """Returns why the engine does not compute this module: None where it does."""
    model = base_of(model)
    if not hasattr(_engine, "Training"):
        return "this module was built without training (-C cmake.define.PIPETRAIN_TRAINING=ON)"
    if not isinstance(model, transformers.PreTrainedModel):
        return f"a {type(model).__name__} is no model of transformers"
    if head_of(model) is None:
        return f"the head of {type(model).__name__} is none of causal language models, sequence and token classification"
    if head_of(model) != "CausalLM" and (model.config.num_labels < 2 or model.config.problem_type not in (None, "single_label_classification")):
        return f"the labels of {type(model).__name__} are no classes"
    with tempfile.TemporaryDirectory() as folder:
        model.config.architectures = [type(model).__name__]
        model.config.save_pretrained(folder)
        reason = _engine.model_refusal(folder)
        return reason and reason.replace(f"{folder}/", "").partition("; known:")[0]


def head_of(model: Any) -> str | None:
    """Returns "CausalLM", "SequenceClassification" or "TokenClassification" by the class's name, None for another head."""
    name = type(base_of(model)).__name__
    heads = {"ForCausalLM": "CausalLM", "LMHeadModel": "CausalLM", "ForSequenceClassification": "SequenceClassification",
             "ForTokenClassification": "TokenClassification"}  # fmt: skip
    return next((head for end, head in heads.items() if name.endswith(end)), None)


def batch_options(batch: Batch) -> dict[str, Any]:
    """Returns the options of every run whose samples, steps and learning rates Python gives."""
    sizes = {"dp": batch.dp, "microbatches": batch.microbatches, "microbatch": batch.microbatch}
    return {**sizes, "shuffle": False, "lr_schedule": "constant"}


def engine_options(args: transformers.TrainingArguments, layout: Layout, batch: Batch, steps: int) -> dict[str, Any]:
    """Returns the options of `pipetrain train` that mean what these arguments do."""
    options: dict[str, Any] = {
        **batch_options(batch),
        "seed": args.seed,
        "steps": max(steps, 1),
        "optimizer": OPTIMIZERS[getattr(args.optim, "value", args.optim)],
        "weight_decay": args.weight_decay,
        "beta1": args.adam_beta1,
        "beta2": args.adam_beta2,
        "adam_eps": args.adam_epsilon,
        "clip_grad": args.max_grad_norm or 0,
        "precision": "bf16" if args.bf16 else "fp32",
    }
    if args.device.type == "cpu":
        options["device"] = "cpu"
    if args.gradient_checkpointing:
        options["recompute"] = "full"
    return options | layout.options()


class EngineRun:
    """The engine's side of a training run. Not thread-safe."""

    def __init__(self, model: Any, options: Mapping[str, Any], sequence_length: int, checkpoint: Path | None, scratch: str):
        self._model, self._head = model, head_of(model)
        self._sequence_length = sequence_length
        self._folder = tempfile.TemporaryDirectory(prefix=".pipetrain-", dir=scratch)
        given, adapter = (Path(self._folder.name) / name for name in ("given", "adapter"))
        try:
            if is_peft(model):
                save_base_and_adapter(model, given, adapter)
                options = {**options, "adapter": adapter}
            else:
                model.save_pretrained(given)
            words = option_words({**options, "model": given, "load": checkpoint})
            self._run = _engine.Training(words, sequence_length)
        except BaseException:
            self._folder.cleanup()
            raise
        for weights in given.glob("*.safetensors"):
            weights.unlink()  # the run has them
        self.notes: list[str] = self._run.notes
        self._given_back = self._run.steps_done

    def step(self, batches: Iterable[Mapping[str, Any]], learning_rate: float) -> EngineStep:
        """One step over these batches, which may hold fewer samples than the global batch, but not more."""
        samples = Samples()
        for inputs in batches:
            read_batch(inputs, self._head, samples)
        if samples.longest() > self._sequence_length:
            raise InputError(f"a batch has a row of {samples.longest()} tokens to read, more than seq_len {self._sequence_length}; give "
                             f"layout=dict(seq_len={samples.longest()})")  # fmt: skip
        if len(samples) > self._run.global_batch:
            raise InputError(f"a step has {len(samples)} samples, more than its {self._run.global_batch}; let the collator keep their number")
        samples.fill_up(self._run.global_batch)
        self._run.push(*samples.arrays())
        done = self._run.step(learning_rate)
        return EngineStep(done.loss if done.tokens else 0.0, done.grad_norm)

    def give_back(self) -> None:
        """Copies the engine's weights into the module, unless they are there."""
        if self._given_back == self._run.steps_done:
            return
        with tempfile.TemporaryDirectory(dir=self._folder.name) as folder:
            made = Path(folder) / "model"
            self._run.save_model(made)
            if is_peft(self._model):
                load_adapter(self._model, made)
            else:
                load_weights(self._model, made)
        self._given_back = self._run.steps_done

    def save_checkpoint(self, folder: Path) -> None:
        """Writes FOLDER/pipetrain/step-N: the weights and the optimizer's states."""
        self._run.save_checkpoint(folder / CHECKPOINTS)

    def close(self) -> None:
        self._run.close()
        self._folder.cleanup()


def load_weights(model: transformers.PreTrainedModel, folder: Path) -> None:
    """Copies the weights of a model folder into the module: in place, so that references to its parameters stay valid."""
    stored: dict[str, torch.Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        stored |= load_file(file)
    own = model.state_dict()
    tied = set(getattr(model, "_tied_weights_keys", None) or ())
    if not (stored.keys() <= own.keys() and own.keys() - stored.keys() <= tied):
        # A family whose files name and cut tensors otherwise than its modules, such as fused experts.
        stored = type(model).from_pretrained(folder).state_dict()
    model.load_state_dict(stored, strict=False)


def newest_checkpoint(folder: str | Path) -> Path | None:
    """Returns the engine's checkpoint inside of one of transformers, None where it has none."""
    found = sorted((Path(folder) / CHECKPOINTS).glob("step-*"))
    return found[-1] if found else None
