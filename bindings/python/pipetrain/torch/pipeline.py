"""A PyTorch model in pieces, trained in the order of a schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .. import _engine, pipeline
from ..errors import Error, InputError
from .stage import Loss, MakeOptimizer, TorchStage
from .transfer import as_tuple, send


@dataclass(frozen=True)
class Step:
    """loss: the mean over the whole batch; grad_norm: of all stages together, before clipping."""

    step: int
    loss: float
    grad_norm: float
    grad_scale: float


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


def _refuse_shared(stages: Sequence[TorchStage]) -> None:
    owner: dict[int, int] = {}
    for number, stage in enumerate(stages):
        for parameter in stage.parameters:
            if owner.setdefault(id(parameter), number) != number:
                raise InputError(
                    f"pieces: a parameter of shape {list(parameter.shape)} is in stages {owner[id(parameter)]} and {number}; "
                    "weights cannot be shared between stages here: untie them, or keep both in one stage"
                )


def _rows(value: Any) -> int:
    tensors = [one for one in as_tuple(value) if isinstance(one, Tensor)]
    return tensors[0].numel() if tensors else 1


def _split(name: str, batch: Any, microbatches: int) -> list[Any]:
    if not isinstance(batch, Tensor):
        return list(batch)
    if len(batch) < microbatches:
        raise InputError(f"{name}: {len(batch)} samples cannot be split into {microbatches} microbatches")
    return list(batch.tensor_split(microbatches))


class Pipeline:
    """pieces: the model's modules in order, one for each chunk of each stage. A piece takes what the one before returns: a tensor,
    or a tuple. A model's pieces keep their own code and parameters.

    loss: of the last piece's output and a target, a mean over the microbatch.
    schedule: a name, or a Plan. stages: where a schedule's chunks can vary.
    optimizer: makes one for a stage's parameters. clip_grad: the largest norm of all gradients together.
    devices: of each stage; else where its modules are. recompute: F again before B or I, for less memory.
    reduce: sums gradients over data-parallel replicas: reduce(parameters), called on each stage's thread per chunk.
    split_linear: the gradients of nn.Linear's weights are products of their own until close(): left to W also in compiled pieces, and added
    to `.grad` in the product. Not for autocast, nor for a weight that the piece's own code reads too.
    Further arguments are those of pipetrain.Pipeline. The CPU's stages share torch's threads: torch.set_num_threads().

    Raises InputError, PlanError.
    """

    def __init__(
        self,
        pieces: Sequence[nn.Module],
        *,
        loss: Loss,
        microbatches: int = 8,
        schedule: str | _engine.Plan = "1f1b",
        stages: int | None = None,
        optimizer: MakeOptimizer | None = None,
        clip_grad: float | None = None,
        devices: Sequence[torch.device | str] | None = None,
        recompute: bool = False,
        reduce: Callable[[list[nn.Parameter]], None] | None = None,
        split_linear: bool = False,
        **engine: Any,
    ):
        if isinstance(schedule, str):
            count, chunks = _chunks_of(schedule, len(pieces), stages)
            plan = _engine.Plan.build(schedule, count, microbatches, chunks)
        else:
            plan = schedule
        if plan.stages * plan.chunks != len(pieces):
            raise InputError(f"pieces: {len(pieces)} modules; the plan has {plan.stages} stages of {plan.chunks} chunks")
        if not plan.has_end:
            plan = plan.with_end(reduce=reduce is not None)
        self.clip_grad = clip_grad
        arguments = {"loss": loss, "optimizer": optimizer, "recompute": recompute, "reduce": reduce, "split_linear": split_linear}
        self.stages: list[TorchStage] = []
        try:
            for stage in range(plan.stages):
                self.stages.append(self._make_stage(plan, stage, pieces, devices, arguments))
            _refuse_shared(self.stages)
            self._pipeline = pipeline.Pipeline(plan, self.stages, activation_life="F", gradient_life="I", **engine)
        except BaseException:
            self._close_stages()  # which leaves the modules as they were
            raise

    @staticmethod
    def _make_stage(plan, stage: int, pieces: Sequence[nn.Module], devices, arguments: dict) -> TorchStage:
        modules = [pieces[plan.virtual_stage(stage, chunk)] for chunk in range(plan.chunks)]
        places = {parameter.device for module in modules for parameter in module.parameters()}
        if devices is not None:
            device = torch.device(devices[stage])
            modules = [module.to(device) for module in modules]
        elif len(places) > 1:
            raise InputError(f"devices: the modules of stage {stage} are on {', '.join(map(str, places))}; give devices")
        else:
            device = places.pop() if places else torch.device("cpu")
        return TorchStage(modules, len(pieces), device=device, **arguments)

    def step(
        self, inputs: Any, targets: Any, *, learning_rate: float = 0.0, weights: Sequence[float] | None = None
    ) -> Step:
        """One step over a batch. inputs, targets: tensors, which are split along their first axis, evenly or nearly so; or lists of
        microbatches, of any sizes. weights: how much each microbatch counts in the mean; else by the elements of its targets.
        learning_rate: of this step, where it is not 0.

        Raises RunFailed: the exception of a module's code is its __cause__. A loss or norm that is not finite ends the run before a
        weight changes.
        """
        count = self._pipeline.plan.microbatches
        inputs, targets = _split("inputs", inputs, count), _split("targets", targets, count)
        weights = [float(_rows(one)) for one in targets] if weights is None else [float(one) for one in weights]
        if len(targets) != count or len(weights) != count or not sum(weights) > 0:
            raise InputError(f"targets, weights: must be of {count} microbatches, and weights more than 0 together")
        inputs = [send(one) for one in inputs]
        weighted = [(send(target), weight / sum(weights)) for target, weight in zip(targets, weights)]
        kept: dict[str, float] = {}

        def decide(results: list[list[float]]) -> float:
            kept["norm"] = math.sqrt(sum(result[0] for result in results))
            kept["loss"] = sum(result[1] for result in results)
            if not (math.isfinite(kept["norm"]) and math.isfinite(kept["loss"])):
                raise Error(f"loss {kept['loss']}, gradient norm {kept['norm']}: not finite")
            if self.clip_grad is None:
                return 1.0
            return min(1.0, self.clip_grad / (kept["norm"] + 1e-6))  # as torch.nn.utils.clip_grad_norm_

        done = self._pipeline.step(inputs, weighted, decide=decide, learning_rate=learning_rate)
        return Step(done.step, kept["loss"], kept["norm"], done.grad_scale)

    @property
    def plan(self) -> _engine.Plan:
        return self._pipeline.plan

    def timeline(self) -> _engine.Timeline:
        """When the actions of the latest step ran: times of the host, which on GPUs are those of issuing work."""
        return self._pipeline.timeline()

    def waiting(self) -> list[str]:
        return self._pipeline.waiting()

    def abort(self, why: str) -> None:
        self._pipeline.abort(why)

    def close(self) -> None:
        self._pipeline.close()
        self._close_stages()

    def _close_stages(self) -> None:
        for stage in self.stages:
            stage.close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_) -> None:
        self.close()
