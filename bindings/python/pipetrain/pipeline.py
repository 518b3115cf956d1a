"""Pipelines whose stages are Python objects, run by the actors of the engine."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from . import _engine
from .errors import InputError, MisuseError
from .stage import Stage
from .world import World


@dataclass(frozen=True)
class Step:
    """The outcome of a step: the result of each stage's N, replica by replica, and the verdict."""

    step: int
    results: list[list[float]]
    applied: bool
    grad_scale: float


_open: weakref.WeakSet[Pipeline] = weakref.WeakSet()


class Pipeline:
    """Runs a plan around your stages.

    stages: one object per stage, as Stage; replica by replica where there are several.
    activation_life, gradient_life: the last action of a microbatch that reads a received value: "F" (activations
    only), "I" (I or B) or "W" (W or B). The default is "I" for activations and targets, "W" for gradients.
    stall_timeout: a step in which no action completes for so many seconds fails, and names the stage that hangs.
    world: the processes that the stages run in, dealt to them in order, replica by replica. All of them make the pipeline with the
    same arguments, except that `stages` has None for those of other processes (or is a function that makes those of this process from
    replica and stage), and call step(), evaluate() and close() together.
    largest: over several processes, the most bytes that one microbatch passes from one part of the model to the next; or a list with
    a value for each such boundary. gpus: the GPU of each stage of this process, by its index in `stages`.

    One step or evaluation at a time. Use it as a context manager, or call close(). Raises InputError, PlanError.
    """

    def __init__(
        self,
        plan: _engine.Plan,
        stages: Sequence[Stage | None] | Callable[[int, int], Stage],
        *,
        world: World | None = None,
        largest: int | Sequence[int] | None = None,
        gpus: dict[int, int] | None = None,
        order: str = "planned",
        replicas: int = 1,
        activation_life: str = "",
        gradient_life: str = "",
        stall_timeout: float = 600.0,
        grace: float = 10.0,
        _note: str = "",
    ):
        how = {
            "order": order,
            "replicas": replicas,
            "activation_life": activation_life,
            "gradient_life": gradient_life,
            "stall_timeout": float(stall_timeout),
            "grace": float(grace),
            "note": _note,
            **_places(plan, replicas, world, largest, gpus),
        }
        here = range(plan.stages * replicas) if world is None else world.stages(plan.stages * replicas)
        self._world, self._first, self._last = world, *_ends(plan, here)
        self._engine = _engine.Pipeline(plan, _stages_here(stages, plan, replicas, here), how)
        self._replicas = replicas
        self._steps = self._evaluations = 0
        _open.add(self)

    @property
    def _notes(self) -> list[str]:
        """The `_note` of each process, by process."""
        return self._engine.notes

    @property
    def plan(self) -> _engine.Plan:
        """The plan, including its end of step."""
        return self._engine.plan

    def step(
        self,
        inputs: Sequence[Any] | None,
        targets: Sequence[Any] | None = None,
        *,
        decide: Callable[[list[list[float]]], bool | float] | None = None,
        step: int | None = None,
        learning_rate: float = 0.0,
    ) -> Step:
        """Runs one step to its end.

        inputs, targets: a value per microbatch, of any shapes; with several replicas, such a list for each. None in a process that does
        not run the model's first part (inputs) or its last (targets).
        decide: gets the results of every stage's N and returns whether the optimizers run (a bool), or the scale of the gradients. Over
        several processes, the decide and the learning_rate of process 0 count.

        Raises RunFailed, whose `waiting` says what each stage waited for; no further step is possible then.
        """
        number = self._steps + 1 if step is None else step

        def judge(results: list[list[float]]) -> tuple[bool, float]:
            answer = True if decide is None else decide(results)
            return (answer, 1.0) if isinstance(answer, bool) else (True, float(answer))

        how = {"number": number, "evaluation": False, "learning_rate": float(learning_rate)}
        done = self._run(how, inputs, targets, judge)
        self._steps = number
        return Step(number, *done)

    def evaluate(self, inputs: Sequence[Any] | None, targets: Sequence[Any] | None = None) -> list[list[float]]:
        """Runs only the forwards of the plan, in its order, and returns the results of each stage's N. Stages get begin_evaluation() in place
        of begin_step(), and neither a backward nor the optimizer. inputs, targets, errors: as step()."""
        how = {"number": self._evaluations + 1, "evaluation": True, "learning_rate": 0.0}
        results, *_ = self._run(how, inputs, targets, lambda results: (False, 1.0))
        self._evaluations += 1
        return results

    def _run(
        self,
        how: dict[str, Any],
        inputs: Sequence[Any] | None,
        targets: Sequence[Any] | None,
        judge: Callable[[list[list[float]]], tuple[bool, float]],
        around: AbstractContextManager | None = None,
    ) -> tuple[list[list[float]], bool, float]:
        """around: a context that is entered when the step is accepted, and left before another one can begin."""
        nothing = [[None] * self.plan.microbatches] * self._replicas
        if inputs is None and self._first:
            raise InputError("inputs: the model's first piece runs in this process; give its microbatches")
        inputs = nothing if inputs is None else self._by_replica("inputs", inputs)
        targets = nothing if targets is None else self._by_replica("targets", targets)
        how = {**how, "tokens": float(self._replicas * self.plan.microbatches)}
        begin, end = (None, None) if around is None else (around.__enter__, lambda: around.__exit__(None, None, None))
        return self._engine.step(how, inputs, targets, judge, begin, end)

    def _by_replica(self, name: str, values: Sequence[Any]) -> list[list[Any]]:
        lists = [list(values)] if self._replicas == 1 else [list(one) for one in values]
        if len(lists) != self._replicas or any(len(one) != self.plan.microbatches for one in lists):
            raise InputError(
                f"{name}: must have {self.plan.microbatches} microbatches"
                + (f" for each of {self._replicas} replicas" if self._replicas > 1 else f", not {len(lists[0])}")
            )
        return lists

    def abort(self, why: str) -> None:
        """Ends the running step or evaluation, or the next one, with this line. From any thread."""
        self._engine.abort(why)

    def waiting(self) -> list[str]:
        """Returns what each stage waits for now. From any thread."""
        return self._engine.waiting()

    def timeline(self) -> _engine.Timeline:
        """The times at which the actions of the latest step or evaluation ran."""
        return self._engine.timeline()

    def close(self) -> None:
        """Ends the threads. MisuseError during a step or evaluation, and while a stage's code has not returned. Over several processes all
        but process 0 wait until process 0 has closed it too."""
        self._engine.close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, kind, raised, _) -> None:
        if self._world is not None and raised is not None:
            self.leave(f"{kind.__name__}: {raised}")
        self.close()

    def leave(self, why: str) -> None:
        """For a process that cannot continue, before close(): the step of the other processes fails with this reason."""
        try:
            self._engine.abort(f"process {self._world.process} has left the pipeline: {why}")
        except MisuseError:  # it is closed
            pass


def _places(plan: _engine.Plan, replicas: int, world: World | None, largest: Any, gpus: dict[int, int] | None) -> dict[str, Any]:
    """The extension's arguments about the processes."""
    if world is None or world.processes == 1:
        return {"world": None}
    boundaries = plan.stages * plan.chunks - 1
    if largest is None:
        raise InputError("largest: is missing; over several processes give the bytes that one microbatch brings from a piece to the next at most")
    sizes = [int(one) for one in ([largest] * boundaries if isinstance(largest, int) else largest)]
    if len(sizes) != boundaries or not all(0 < one < 1 << 40 for one in sizes):
        raise InputError(f"largest: {largest}; give bytes, or a list for the {boundaries} boundaries between the model's pieces")
    return {"world": world.joined(), "bytes": sizes, "gpus": dict(gpus or {}), "on_gpus": bool(gpus)}


def _ends(plan: _engine.Plan, here: Sequence[int]) -> tuple[bool, bool]:
    """Returns whether the model's first and its last part run here."""
    pieces = {plan.virtual_stage(number % plan.stages, chunk) for number in here for chunk in range(plan.chunks)}
    return 0 in pieces, plan.stages * plan.chunks - 1 in pieces


def _stages_here(stages: Any, plan: _engine.Plan, replicas: int, here: Sequence[int]) -> list[Any]:
    if callable(stages):
        return [stages(*divmod(number, plan.stages)) if number in here else None for number in range(plan.stages * replicas)]
    stages = list(stages)
    for number in here:
        if number < len(stages) and stages[number] is None:
            raise InputError(f"stages: number {number} runs in this process, and is None")
    return stages


def _forget_all() -> None:
    """For a forked process, which has none of the threads: it never frees what they hold."""
    _open.clear()
    _engine.keep_silent_about_leaks()


os.register_at_fork(after_in_child=_forget_all)


@atexit.register
def _close_all() -> None:
    """Ends the threads that call Python before the interpreter ends."""
    for pipeline in list(_open):
        try:
            if pipeline._world is not None:
                pipeline.leave("its program has ended without close()")
            pipeline.close()
        except Exception as error:  # a stage's code hangs, but the process ends
            print(f"pipetrain: {error}")
