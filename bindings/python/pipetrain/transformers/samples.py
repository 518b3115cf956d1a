"""Batches of transformers' collators as samples of the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import torch

from ..errors import InputError

NOT_COUNTED = -100

_KNOWN = {"input_ids", "labels", "attention_mask"}


class Samples:
    """Ids and labels of several samples, each after the other; a label stands at the position that predicts it."""

    def __init__(self) -> None:
        self._ids: list[numpy.ndarray] = []
        self._labels: list[numpy.ndarray] = []

    def add(self, ids: numpy.ndarray, labels: numpy.ndarray) -> None:
        self._ids.append(ids)
        self._labels.append(labels)

    def fill_up(self, count: int) -> None:
        """Appends empty samples, which count in no loss, until there are `count`."""
        nothing = numpy.empty(0, numpy.int32)
        while len(self._ids) < count:
            self.add(nothing, nothing)

    def __len__(self) -> int:
        return len(self._ids)

    def longest(self) -> int:
        return max((len(ids) for ids in self._ids), default=0)

    def arrays(self) -> tuple[numpy.ndarray, numpy.ndarray, list[int]]:
        """Returns ids, labels and lengths as the engine takes them."""
        empty = [numpy.empty(0, numpy.int32)]
        lengths = [len(ids) for ids in self._ids]
        return numpy.concatenate(self._ids or empty), numpy.concatenate(self._labels or empty), lengths


def _array(inputs: Mapping[str, Any], name: str) -> numpy.ndarray:
    value = inputs[name]
    return (value.detach().cpu().numpy() if torch.is_tensor(value) else numpy.asarray(value)).astype(numpy.int32)


def _lengths(inputs: Mapping[str, Any], shape: Sequence[int]) -> numpy.ndarray:
    """Returns the length of each row without its padding, which must be on the right."""
    if inputs.get("attention_mask") is None:
        return numpy.full(shape[0], shape[1])
    mask = _array(inputs, "attention_mask") != 0
    if mask.shape != tuple(shape):
        raise InputError(f"attention_mask: its shape is {list(mask.shape)}, and input_ids has {list(shape)}; give a row for each sample")
    lengths = mask.sum(1)
    if (mask != (numpy.arange(shape[1]) < lengths[:, None])).any():
        raise InputError("attention_mask: a row has padding before or among its tokens; pad on the right (tokenizer.padding_side = 'right')")
    return lengths


def read_batch(inputs: Mapping[str, Any], head: str, samples: Samples) -> None:
    """Appends the rows of a batch. head: "CausalLM" (labels are shifted here, as the model shifts them), "SequenceClassification" (a class
    a row, predicted at its last token) or "TokenClassification" (a class a token). Raises InputError."""
    unknown = [name for name, value in inputs.items() if name not in _KNOWN and value is not None]
    if unknown:
        raise InputError(f"the batch has {unknown[0]!r}, which the engine does not take; give {', '.join(sorted(_KNOWN))} only")
    for name in ("input_ids", "labels"):
        if inputs.get(name) is None:
            raise InputError(f"the batch has no {name!r}; let the data or the collator give them")
    ids, labels = _array(inputs, "input_ids"), _array(inputs, "labels")
    if ids.ndim != 2:
        raise InputError(f"input_ids: has {ids.ndim} axes; give rows of token ids")
    lengths = _lengths(inputs, ids.shape)
    if head == "SequenceClassification":
        labels = labels.reshape(-1)
        if len(labels) != len(ids):
            raise InputError(f"labels: {len(labels)} classes for {len(ids)} rows; give one for each")
        for row, length, label in zip(ids, lengths, labels):
            own = numpy.full(length, NOT_COUNTED, numpy.int32)
            own[-1:] = label
            samples.add(row[:length], own)
        return
    if labels.shape != ids.shape:
        raise InputError(f"labels: the shape is {list(labels.shape)}, and input_ids has {list(ids.shape)}; give a label for each token")
    if (labels[numpy.arange(ids.shape[1]) >= lengths[:, None]] >= 0).any():
        raise InputError("labels: some count at padding, which attention_mask leaves out; set them to -100")
    shift = 1 if head == "CausalLM" else 0
    for row, own, length in zip(ids, labels, lengths):
        samples.add(row[: max(length - shift, 0)], own[shift:length])


def longest_row(dataset: Any) -> int | None:
    """Returns the length of the longest `input_ids` of a dataset with known rows, None where that is unknown."""
    names = getattr(dataset, "column_names", None)
    if names is not None and not isinstance(names, dict):
        return max(map(len, dataset["input_ids"]), default=None) if "input_ids" in names else None
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        return None
    try:
        return max((len(dataset[row]["input_ids"]) for row in range(len(dataset))), default=None)
    except (KeyError, TypeError, IndexError):
        return None
