"""What a stage is given for a step, and what it keeps of a forward for the backward."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .split_backward import SplitBackward
from .split_linear import WeightGradients


@dataclass(frozen=True)
class StepSetup:
    """What a stage is given for one step besides its inputs."""

    autocast: list[torch.autocast] = field(default_factory=list)  #: what forwards run under
    #: By chunk and microbatch, as `send` and `flatten` leave them; chunks without any have none.
    keywords: dict[tuple[int, int], Any] = field(default_factory=dict)
    keeps_outputs: bool = False  #: of the last piece, in an evaluation


class Forward:
    """What a microbatch keeps from F to B or W."""

    def __init__(self, inputs: tuple, target: Any, keywords: dict[str, Any]):
        self.inputs = inputs
        self.target = target
        self.keywords = keywords
        self.outputs: tuple[Tensor, ...] = ()  # those with a graph
        self.sent_at: list[int] = []  # where they are in what was sent
        self.split: SplitBackward | None = None
        self.weight_gradients: WeightGradients | None = None  # of split linears, from I to W

    def differentiable_inputs(self) -> list[Tensor]:
        return [one for one in self.inputs if isinstance(one, Tensor) and one.requires_grad]
