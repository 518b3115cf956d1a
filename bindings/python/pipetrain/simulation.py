"""Schedules in virtual time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import _engine
from .errors import InputError
from .records import Table

Times = float | Sequence[float]

_costs_names = {
    "forward", "input_grad", "weight_grad", "p2p",
    "reduce_grads", "sum_replicated", "sum_tied", "norm", "optimizer_time", "verdict", "custom",
}  # fmt: skip
_ends = {"reduce_grads", "sum_replicated", "sum_tied", "norm", "optimizer_time", "verdict"}


@dataclass(frozen=True, repr=False)
class Simulation:
    """One step of one schedule in virtual time. Times are in the unit of the costs; lists have a value per stage."""

    schedule: str
    stages: int
    chunks: int
    microbatches: int
    makespan: float
    ideal: float  #: of a step that is never idle
    bubble_fraction: float  #: 1 - busy / (stages x makespan)
    span_bubble: float  #: the most that one stage idles between its own first start and last end
    span: list[float]
    idle: list[float]
    peak_activations: list[float]  #: most microbatches held at once; each chunk counts 1 / chunks
    actions: int
    plan: _engine.Plan
    timeline: _engine.Timeline

    def table(self) -> Table:
        """A row a stage."""
        rows = [
            {"stage": stage, "span": self.span[stage], "idle": self.idle[stage], "held": self.peak_activations[stage]}
            for stage in range(self.stages)
        ]
        return Table(rows)

    def __repr__(self) -> str:
        return (
            f"{self.schedule}: {self.stages} stages, {self.microbatches} microbatches: makespan {self.makespan:.6g}, "
            f"ideal {self.ideal:.6g}, bubble {100 * self.bubble_fraction:.1f} %\n{self.table()!r}\n{self.timeline.terminal()}"
        )

    def _repr_svg_(self) -> str:
        return self.timeline.svg()


class Simulations(Table):
    """Simulations of several schedules, the fastest first. `simulations.runs[0]` is the fastest."""

    def __init__(self, runs: Sequence[Simulation]):
        self.runs = sorted(runs, key=lambda run: run.makespan)
        names = ["schedule", "chunks", "makespan", "bubble_fraction", "span_bubble"]
        rows = [{name: getattr(run, name) for name in names} | {"held": max(run.peak_activations)} for run in self.runs]
        super().__init__(rows, [*names, "held"])

    def _repr_svg_(self) -> str:
        return self.runs[0]._repr_svg_()


def _list(value: Times) -> list[float]:
    return [float(one) for one in value] if isinstance(value, Sequence) else [float(value)]


def _cost(name: str, value):
    if name == "verdict":
        return float(value)
    if name == "custom":
        return {str(action): float(time) for action, time in value.items()}
    return _list(value)


def _is_file(schedule: str) -> bool:
    return schedule.endswith((".txt", ".csv")) or os.path.isfile(schedule)


def _plan(schedule: str, stages: int, microbatches: int, chunks: int, costs: dict, memory_slots: Times | None):
    if _is_file(schedule):
        return _engine.Plan.read(schedule)
    if schedule == "auto":
        slots = [] if memory_slots is None else _list(memory_slots)
        return _engine.build_auto(stages, microbatches, costs, slots)
    return _engine.Plan.build(schedule, stages, microbatches, chunks)


def _simulate_plan(plan: _engine.Plan, costs: dict, how: dict) -> Simulation:
    if not plan.has_end and _ends & costs.keys():
        plan = plan.with_end("reduce_grads" in costs, "sum_replicated" in costs, "sum_tied" in costs)
    timeline, summary, ideal = _engine.simulate(plan, costs, how)
    return Simulation(
        schedule=plan.schedule,
        stages=plan.stages,
        chunks=plan.chunks,
        microbatches=plan.microbatches,
        ideal=ideal,
        actions=sum(len(plan.actions(stage)) for stage in range(plan.stages)),
        plan=plan,
        timeline=timeline,
        **{name: summary[name] for name in ("makespan", "bubble_fraction", "span_bubble", "span", "idle", "peak_activations")},
    )


def simulate(
    stages: int = 4,
    microbatches: int = 16,
    schedule: str | _engine.Plan = "1f1b",
    *,
    chunks: int = 0,
    order: str = "planned",
    memory_slots: Times | None = None,
    jitter: float = 0.0,
    seed: int = 0,
    **costs: Times | Mapping[str, float],
) -> Simulation | Simulations:
    """Simulates one step.

    schedule: a name, a plan's file, a Plan, or "all" for every schedule that goes with the other arguments.
    chunks: per stage; 0 for the schedule's own.
    order: "planned", or "ready": what the schedule's rule picks among all that could run.
    memory_slots: the most microbatches that a stage may hold, for "auto"; one for all stages or one for each.
    costs: forward, input_grad, weight_grad (1 each), p2p (0), reduce_grads, sum_replicated, sum_tied, norm, optimizer_time,
    verdict: times of a whole stage and one microbatch, for all stages or one for each; p2p per edge between stages. custom: the
    times of a plan's custom actions, by name (0).

    Raises InputError, PlanError.
    """
    for name in costs.keys() - _costs_names:
        raise InputError(f"{name}: no time of that name; there are {', '.join(sorted(_costs_names))}")
    given = {name: _cost(name, value) for name, value in costs.items()}
    how = {"order": order, "jitter": float(jitter), "seed": seed, "wide_queues": order == "planned"}
    if isinstance(schedule, _engine.Plan):
        return _simulate_plan(schedule, given, how)
    if schedule != "all":
        return _simulate_plan(_plan(schedule, stages, microbatches, chunks, given, memory_slots), given, how)
    runs = []
    for name, own_chunks, chunks_can_vary, has_ready_rule in _engine.all_schedules():
        if order == "ready" and not has_ready_rule:
            continue
        its_chunks = chunks if chunks_can_vary and chunks else own_chunks
        runs.append(_simulate_plan(_plan(name, stages, microbatches, its_chunks, given, memory_slots), given, how))
    return Simulations(runs)
