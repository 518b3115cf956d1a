"""The pieces of a model and their plan, as a caller gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from .. import _engine
from ..errors import InputError
from ..world import World
from .stage import TorchStage


def list_of(pieces: Any) -> Any:
    """pieces, if they are a function; else a list of modules, and None for those of other processes."""
    if isinstance(pieces, nn.Module) and not isinstance(pieces, nn.ModuleList):
        raise InputError(f"pieces: one {type(pieces).__name__}; give a list of modules, such as cut_sequential() makes")
    if callable(pieces) and not isinstance(pieces, nn.ModuleList):
        return pieces
    return list(pieces)


def _chunks_of(schedule: str, pieces: int, stages: int | None) -> tuple[int, int]:
    """Stages, and chunks of each."""
    known = {name: (chunks, can_vary) for name, chunks, can_vary, _ in _engine.all_schedules()}
    if schedule not in known:
        raise InputError(f"schedule: there is none called {schedule}; there are {', '.join(known)}, or give a Plan")
    chunks, can_vary = known[schedule]
    if stages is None:
        stages = pieces // chunks
    elif can_vary and pieces % stages == 0:
        chunks = pieces // stages
    if stages < 1 or stages * chunks != pieces:
        raise InputError(f"pieces: {pieces} modules are not {stages} stages of {chunks} chunks, which {schedule} has")
    return stages, chunks


def plan_of(
    schedule: str | _engine.Plan, pieces: Any, stages: int | None, microbatches: int, world: World | None
) -> _engine.Plan:
    """A plan for this number of pieces."""
    if isinstance(schedule, str):
        if callable(pieces):
            stages = (world.processes if world else 1) if stages is None else stages
            count = stages * _chunks_of(schedule, 1 << 20, None)[1]
        else:
            count = len(pieces)
        stages, chunks = _chunks_of(schedule, count, stages)
        return _engine.Plan.build(schedule, stages, microbatches, chunks)
    if not callable(pieces) and schedule.stages * schedule.chunks != len(pieces):
        raise InputError(f"pieces: {len(pieces)} modules; the plan has {schedule.stages} stages of {schedule.chunks} chunks")
    return schedule


def refuse_shared(stages: Sequence[TorchStage]) -> None:
    owner: dict[int, int] = {}
    for number, stage in enumerate(stages):
        for parameter in stage.parameters:
            if owner.setdefault(id(parameter), number) != number:
                raise InputError(
                    f"pieces: a parameter of shape {list(parameter.shape)} is in stages {owner[id(parameter)]} and {number}; "
                    "weights cannot be shared between stages here: untie them, or keep both in one stage"
                )


def gpus_of(stages: Sequence[TorchStage | None]) -> dict[int, int]:
    """Of a pipeline over several processes."""
    devices = {number: stage.device for number, stage in enumerate(stages) if stage is not None}
    gpus = {number: device.index or 0 for number, device in devices.items() if device.type == "cuda"}
    if gpus and len(gpus) < len(devices) or any(one.type not in ("cpu", "cuda") for one in devices.values()):
        raise InputError(
            f"devices: stages on {', '.join(map(str, devices.values()))}; over several processes all are on CPUs, or all on GPUs"
        )
    return gpus
