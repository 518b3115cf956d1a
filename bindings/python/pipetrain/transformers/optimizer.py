"""Stands in for the engine's optimizer where transformers expects one of PyTorch's."""

from __future__ import annotations

from typing import Any

import torch


class EngineOptimizer(torch.optim.Optimizer):
    """Holds the learning rate that a scheduler sets. The engine updates the weights, so step() does nothing, and there is no state."""

    def __init__(self, groups: list[dict[str, Any]], lr: float):
        super().__init__(groups, {"lr": lr})

    def step(self, closure: Any = None) -> None:
        """The engine's step has already applied it."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """The modules have no gradients."""
