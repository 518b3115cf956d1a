"""The result of an evaluation, and a context that puts modules into eval mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass(frozen=True, eq=False)
class Evaluation:
    """loss: the mean over the whole batch; None without targets. outputs: the last piece's outputs, by microbatch, where they
    were requested and the piece runs in this process; else None."""

    loss: float | None
    outputs: list[Any] | None = None


def _switch(module: nn.Module, training: bool) -> None:
    if module.training != training:
        module.train(training)  # which may do more than note it


@contextmanager
def eval_mode(modules: Sequence[nn.Module]) -> Iterator[None]:
    """A context as after eval() of each module; afterwards each of their modules is in its previous mode."""
    before = {one: one.training for module in modules for one in module.modules()}  # outer modules first
    with ExitStack() as afterwards:  # runs what was added last first, and all of it whatever one raises
        for one, training in before.items():  # a module in two places, which the later one has switched again
            afterwards.callback(setattr, one, "training", training)
        for one, training in reversed(before.items()):  # from the outside to the inside, as train() goes
            afterwards.callback(_switch, one, training)
        for module in modules:
            module.eval()
        yield
