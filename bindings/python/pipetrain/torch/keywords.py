"""Keyword arguments of pieces: which piece takes which, and their values for each microbatch."""

from __future__ import annotations

import difflib
import enum
import inspect
import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from ..errors import InputError
from .microbatches import Division


@dataclass(frozen=True, eq=False)
class Repeated:
    """A keyword argument with the same value for every microbatch, such as a table that has no axis of samples."""

    value: Any


@dataclass(frozen=True, eq=False)
class PerMicrobatch:
    """A keyword argument with a value for each microbatch, in their order."""

    values: Sequence[Any]


_PLAIN = (
    type(None), bool, int, float, complex, str, bytes, enum.Enum, type, types.FunctionType, types.BuiltinFunctionType,
    torch.dtype, torch.device, torch.layout, torch.memory_format,
)  # fmt: skip


@dataclass(frozen=True)
class Accepted:
    """names: the keyword arguments of a piece's forward. any: it has **kwargs too. first: the parameter for the previous piece's output, which
    cannot be one."""

    names: tuple[str, ...]
    any: bool
    first: str = ""

    @staticmethod
    def of(module: nn.Module) -> Accepted:
        forward = getattr(module, "_orig_mod", module).forward  # of the module that torch.compile wraps
        try:
            parameters = list(inspect.signature(forward).parameters.values())
        except (TypeError, ValueError):  # not Python code: it refuses unknown arguments itself
            return Accepted((), True)
        positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        first = positional[0].name if positional else ""
        named = (one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY))
        return Accepted(
            tuple(one.name for one in named if one.name != first), any(one.kind == one.VAR_KEYWORD for one in parameters), first
        )

    def takes(self, name: str) -> bool:
        return name in self.names or self.any and name != self.first


def note_of(accepted: Mapping[int, Accepted]) -> str:
    """For the other processes, by piece."""
    return json.dumps({number: [one.names, one.any, one.first] for number, one in accepted.items()})


def read_notes(notes: Sequence[str]) -> dict[int, Accepted]:
    """Of the pieces of all processes."""
    return {
        int(number): Accepted(tuple(names), takes_any, first)
        for note in notes
        for number, (names, takes_any, first) in json.loads(note).items()
    }


def check_names(kwargs: Any, accepted: Mapping[int, Accepted]) -> None:
    """kwargs: as given. Each must be a name that some piece of any process takes."""
    if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        raise InputError(f"kwargs: a {type(kwargs).__name__}; give a dict from names of arguments to their values")
    known = sorted({name for one in accepted.values() for name in one.names})
    for name in kwargs:
        if any(one.takes(name) for one in accepted.values()):
            continue
        firsts = [number for number, one in accepted.items() if one.first == name]
        if firsts:
            raise InputError(f"kwargs: {name} is what piece {firsts[0]} is called with: its input, or what the piece before returns")
        close = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {close[0]}?" if close else f"; the pieces take {', '.join(known)}" if known else ", and none takes any"
        raise InputError(f"kwargs: no piece's forward takes {name}{hint}")


def split_keywords(kwargs: Mapping[str, Any], division: Division) -> list[dict[str, Any]]:
    """Returns those of each microbatch. Tensors, also inside of tuples, lists and dicts, are split along their first axis as the inputs are, or
    nearly evenly where none are given; numbers, words and the like are the same for all."""
    microbatches: list[dict[str, Any]] = [{} for _ in range(division.microbatches)]
    for name, value in kwargs.items():
        found, spec = _pytree.tree_flatten_with_path(value)
        leaves = [_parts(name + _pytree.keystr(path), leaf, division) for path, leaf in found]
        for number, one in enumerate(microbatches):
            one[name] = _pytree.tree_unflatten([parts[number] for parts in leaves], spec)
    return microbatches


_INSTEAD = "pipetrain.torch.Repeated(value) for the same in every microbatch, or PerMicrobatch([...])"


def _parts(where: str, leaf: Any, division: Division) -> list[Any]:
    """By microbatch."""
    count = division.microbatches
    if isinstance(leaf, Repeated):
        return [leaf.value] * count
    if isinstance(leaf, PerMicrobatch):
        values = list(leaf.values)
        if len(values) != count:
            raise InputError(f"kwargs: {where}: PerMicrobatch of {len(values)} values; the pipeline has {count} microbatches")
        return values
    if isinstance(leaf, Tensor):
        return _parts_of_tensor(where, leaf, division)
    if isinstance(leaf, _PLAIN):
        return [leaf] * count
    raise InputError(f"kwargs: {where}: a {type(leaf).__name__} cannot be split into microbatches; give tensors, {_INSTEAD}")


def _parts_of_tensor(where: str, tensor: Tensor, division: Division) -> list[Tensor]:
    def refuse(what: str) -> InputError:
        return InputError(f"kwargs: {where}: {what}; give {_INSTEAD}")

    if tensor.is_nested or tensor.layout != torch.strided:
        raise refuse("a sparse or nested tensor cannot be split into microbatches")
    if tensor.dim() == 0:
        raise refuse("a tensor without axes cannot be split into microbatches")
    rows, samples = len(tensor), division.samples
    if samples is not None:
        if rows != sum(samples):
            raise refuse(f"{rows} along the first axis, where inputs have {sum(samples)}, so it cannot be split as they are")
        return list(tensor.split(samples))
    if division.has_inputs:
        raise refuse("inputs have no tensors that say how to split one")
    if rows < division.microbatches:
        raise refuse(f"{rows} along the first axis cannot be split into {division.microbatches} microbatches")
    return list(tensor.tensor_split(division.microbatches))
