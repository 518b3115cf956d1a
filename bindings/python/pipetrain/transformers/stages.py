"""A module of any family, whose parts run as PyTorch stages of a pipeline. Its gradients stay in `.grad`, for an optimizer of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .. import _engine
from .. import torch as pipeline
from ..errors import InputError
from .layout import Batch, Layout
from .pieces import check_pieces, cut_model

_FOLLOWED = {"pp", "schedule", "chunks", "microbatch", "microbatches"}


def refuse_for_stages(layout: Layout, args: Any) -> None:
    """Refuses sizes that PyTorch modules cannot be given. Raises InputError."""
    for key in layout.keys():
        if key not in _FOLLOWED and not (key in ("tp", "cp", "dp") and layout.get(key) == 1):
            raise InputError(f"layout: {key}: modules of PyTorch run in stages only ({', '.join(sorted(_FOLLOWED))}); leave it out")
    if args.gradient_checkpointing:
        raise InputError("TrainingArguments(gradient_checkpointing=True): is not built for modules of PyTorch; leave it out")


def _weight(inputs: Mapping[str, Any], shifts: bool) -> int:
    """The labels of a microbatch that count in its loss: classes or values a row count one each."""
    labels = inputs.get("labels")
    if not torch.is_tensor(labels):
        return len(next(one for one in inputs.values() if torch.is_tensor(one)))
    if labels.dim() < 2 or labels.is_floating_point():
        return len(labels)
    return int((labels[..., 1:] if shifts else labels).ne(-100).sum())


class StagesRun:
    """Not thread-safe."""

    def __init__(self, model: torch.nn.Module, layout: Layout, batch: Batch, example: Mapping[str, Any]):
        known = {name: chunks for name, chunks, *_ in _engine.all_schedules()}
        count = layout.pp * (layout.get("chunks") or known.get(layout.schedule, 1))
        self._input, self._batch = getattr(model, "main_input_name", "input_ids"), batch
        self._shifts = type(model).__name__.endswith(("ForCausalLM", "LMHeadModel"))
        self._pieces = cut_model(model, count)
        if count > 1:
            check_pieces(model, self._pieces, dict(example))
        self._pipeline = pipeline.Pipeline(
            self._pieces, loss=lambda loss, _: loss, microbatches=batch.microbatches, schedule=layout.schedule, stages=layout.pp
        )

    def step(self, batches: list[Mapping[str, Any]]) -> float:
        """Runs forwards and backwards of a step, and returns its loss."""
        for piece in self._pieces:
            piece.train()
        parts = self._microbatches(batches)
        weights = [_weight(part, self._shifts) for part in parts]
        while len(parts) < self._batch.microbatches:  # a last batch that is smaller: repeated, and not counted
            parts.append(parts[-1])
            weights.append(0)
        inputs = [part[self._input] for part in parts]
        names = [name for name in parts[0] if name != self._input]
        keywords = {name: pipeline.PerMicrobatch([part[name] for part in parts]) for name in names}
        targets = [torch.zeros(len(one)) for one in inputs]  # the model's loss reads its own labels
        return self._pipeline.step(inputs, targets, kwargs=keywords, weights=weights).loss

    def _microbatches(self, batches: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
        parts = []
        for inputs in batches:
            rows = len(inputs[self._input])
            for begin in range(0, rows, self._batch.microbatch):
                end = min(begin + self._batch.microbatch, rows)
                parts.append({name: value[begin:end] if torch.is_tensor(value) and value.dim() else value for name, value in inputs.items()})
        return parts

    def close(self) -> None:
        self._pipeline.close()
