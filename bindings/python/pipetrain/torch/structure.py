"""Flattens values with structure (dicts, nested tuples and lists) into the tuples that stages exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils import _pytree

from .transfer import as_tuple


@dataclass(frozen=True)
class Structure:
    """The last of a tuple whose other values are the leaves of a structure."""

    spec: _pytree.TreeSpec


def _is_flat(value: Any) -> bool:
    return isinstance(value, Tensor) or isinstance(value, (tuple, list)) and not any(_has_leaves(one) for one in value)


def _has_leaves(value: Any) -> bool:
    return not isinstance(value, Tensor) and not _pytree.tree_flatten(value)[1].is_leaf()


def flatten(value: Any) -> Any:
    """value, if it is a tensor, a tuple or list of leaves, or a leaf itself; else a tuple of its leaves and a Structure."""
    if _is_flat(value) or not _has_leaves(value):
        return value
    leaves, spec = _pytree.tree_flatten(value)
    return (*leaves, Structure(spec))


def restore(value: Any) -> Any:
    """Returns the value that was flattened; a list as a tuple."""
    if isinstance(value, tuple) and value and isinstance(value[-1], Structure):
        return _pytree.tree_unflatten(list(value[:-1]), value[-1].spec)
    return value


def arguments(values: tuple) -> tuple:
    """Returns a piece's arguments, made of the previous piece's output."""
    return as_tuple(restore(values))
