"""Evaluation: what it gives, and modules in eval mode meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass(frozen=True, eq=False)
class Evaluation:
    """loss: the mean over the whole batch; None without targets. outputs: what the last piece returned, by microbatch, where they were
    asked for and it runs in this process; else None."""

    loss: float | None
    outputs: list[Any] | None = None


def _switch(module: nn.Module, training: bool) -> None:
    if module.training != training:
        module.train(training)  # which may do more than note it


@contextmanager
def eval_mode(modules: Sequence[nn.Module]) -> Iterator[None]:
    """As after eval() of each; afterwards each of their modules is in the mode that it was in before."""
    before = {one: one.training for module in modules for one in module.modules()}  # outer modules first
    with ExitStack() as afterwards:  # runs what was added last first, and all of it whatever one raises
        for one, training in before.items():  # a module in two places, which the later one has switched again
            afterwards.callback(setattr, one, "training", training)
        for one, training in reversed(before.items()):  # from the outside to the inside, as train() goes
            afterwards.callback(_switch, one, training)
        for module in modules:
            module.eval()
        yield
