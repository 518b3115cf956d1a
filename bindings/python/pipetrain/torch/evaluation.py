"""Evaluation: what it gives, and modules in eval mode meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass(frozen=True, eq=False)
class Evaluation:
    """loss: the mean over the whole batch; None without targets. outputs: what the last piece returned, by microbatch, where they were
    asked for and it runs in this process; else None."""

    loss: float | None
    outputs: list[Any] | None = None


@contextmanager
def eval_mode(modules: Sequence[nn.Module]) -> Iterator[None]:
    """As after eval() of each; afterwards each of their modules is in the mode that it was in before."""
    before = {one: one.training for module in modules for one in module.modules()}  # outer modules first
    try:
        for module in modules:
            module.eval()
        yield
    finally:
        # By train(), because a module may do more there than note it; from the outside to the inside, as train() goes.
        for one, training in before.items():
            if one.training != training:
                one.train(training)
