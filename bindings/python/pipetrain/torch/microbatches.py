"""A batch in microbatches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..errors import InputError
from .structure import flatten
from .transfer import as_tuple, send


def split(name: str, batch: Any, microbatches: int) -> list[Any]:
    """Splits a tensor along its first axis; returns a list of microbatches unchanged."""
    if batch is None:
        raise InputError(f"{name}: None; this process needs them")
    if not isinstance(batch, Tensor):
        if isinstance(batch, Mapping) or hasattr(batch, "__array__"):
            raise InputError(f"{name}: a {type(batch).__name__}; give a tensor, or a list of {microbatches} microbatches")
        batch = list(batch)
        if len(batch) != microbatches:
            raise InputError(f"{name}: a list of {len(batch)}; the pipeline has {microbatches} microbatches")
        return batch
    if batch.dim() == 0 or len(batch) < microbatches:
        samples = len(batch) if batch.dim() else 0
        raise InputError(f"{name}: {samples} samples cannot be split into {microbatches} microbatches")
    return list(batch.tensor_split(microbatches))


def _tensors(value: Any) -> list[Tensor]:
    return [one for one in as_tuple(flatten(value)) if isinstance(one, Tensor)]


@dataclass(frozen=True)
class Division:
    """The division of a batch into microbatches, as its inputs define it. samples: of each microbatch; None where no inputs are given, or
    (has_inputs) where they have no tensors to count by."""

    microbatches: int
    samples: list[int] | None
    has_inputs: bool

    @staticmethod
    def of(inputs: Any, microbatches: int) -> Division:
        if inputs is None:
            return Division(microbatches, None, False)
        counts = [_samples(one) for one in split("inputs", inputs, microbatches)]
        return Division(microbatches, None if None in counts else counts, True)


def _samples(value: Any) -> int | None:
    """Along the first axis of its first tensor."""
    return next((len(one) for one in _tensors(value) if one.dim()), None)


def check_match(inputs: Any, targets: Any, microbatches: int) -> None:
    """Checks that tensors which split() divides separately have corresponding parts."""
    if not (isinstance(inputs, Tensor) and isinstance(targets, Tensor)):
        return
    samples, rows = len(inputs), len(targets)
    if rows != samples and (rows % samples or samples % microbatches):
        raise InputError(
            f"targets: {rows} along the first axis, where inputs have {samples}: their microbatches would not match; give as many, or lists"
        )


def _weight(target: Any) -> float:
    tensors = _tensors(target)
    return float(tensors[0].numel()) if tensors else 1.0


def weighted(targets: Any, weights: Sequence[float] | None, microbatches: int) -> list[tuple]:
    """Returns the target of each microbatch, ready to be received, and the weight of its loss in the mean."""
    targets = split("targets", targets, microbatches)
    weights = [_weight(one) for one in targets] if weights is None else [float(one) for one in weights]
    if len(weights) != microbatches or not sum(weights) > 0:
        raise InputError(f"weights: must be of {microbatches} microbatches, and more than 0 together")
    return [(send(flatten(target)), weight / sum(weights)) for target, weight in zip(targets, weights)]
