"""Gradients of parameters: added, and their norm."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def add_gradients(parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> None:
    """Adds to `.grad`, in the order of calls."""
    for parameter, gradient in zip(parameters, gradients):
        if gradient is None:
            continue
        if parameter.grad is None:
            parameter.grad = gradient.detach()
        else:
            parameter.grad += gradient


def squared_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Returns a double, summed in at least single precision, without copying a gradient to another precision."""
    by_dtype: dict[torch.dtype, list[Tensor]] = {}
    for one in gradients:
        by_dtype.setdefault(one.dtype, []).append(one)
    norms: list[Tensor] = []
    for dtype, same in by_dtype.items():
        half = dtype in (torch.float16, torch.bfloat16)
        norms += torch._foreach_norm(same, dtype=torch.float32 if half else None)
    return torch.stack([one.double() for one in norms]).square().sum()
