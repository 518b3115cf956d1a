"""The settings of a stage for a step, and the values that a forward keeps for the backward."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .split_backward import SplitBackward
from .split_linear import WeightGradients


@dataclass(frozen=True)
class StepSetup:
    """The settings of a stage for one step, besides its inputs."""

    autocast: list[torch.autocast] = field(default_factory=list)  #: the contexts of forwards
    #: By chunk and microbatch, as `send` and `flatten` leave them; chunks without any have none.
    keywords: dict[tuple[int, int], Any] = field(default_factory=dict)
    keeps_outputs: bool = False  #: of the last piece, in an evaluation


class Forward:
    """The values that a microbatch keeps from F to B or W."""

    def __init__(self, inputs: tuple, target: Any, keywords: dict[str, Any]):
        self.inputs = inputs
        self.target = target
        self.keywords = keywords
        self.outputs: tuple[Tensor, ...] = ()  # those with a graph
        self.sent_at: list[int] = []  # their indices in the value that was sent
        self.split: SplitBackward | None = None
        self.weight_gradients: WeightGradients | None = None  # of split linears, from I to W

    def differentiable_inputs(self) -> list[Tensor]:
        return [one for one in self.inputs if isinstance(one, Tensor) and one.requires_grad]
