"""A PyTorch model in pieces, trained in the order of a schedule."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .. import _engine, pipeline
from ..errors import Error, InputError
from ..world import World
from .far import bytes_of
from .stage import Loss, MakeOptimizer, TorchStage
from .structure import flatten
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


def _plan_of(
    schedule: str | _engine.Plan, pieces: Any, stages: int | None, microbatches: int, world: World | None
) -> tuple[_engine.Plan, int]:
    """And the number of pieces."""
    if not isinstance(schedule, str):
        count = schedule.stages * schedule.chunks if callable(pieces) else len(pieces)
        return schedule, count
    if callable(pieces):
        stages = (world.processes if world else 1) if stages is None else stages
        count = stages * _chunks_of(schedule, 1 << 20, None)[1]
    else:
        count = len(pieces)
    stages, chunks = _chunks_of(schedule, count, stages)
    return _engine.Plan.build(schedule, stages, microbatches, chunks), count


def _refuse_shared(stages: Sequence[TorchStage]) -> None:
    owner: dict[int, int] = {}
    for number, stage in enumerate(stages):
        for parameter in stage.parameters:
            if owner.setdefault(id(parameter), number) != number:
                raise InputError(
                    f"pieces: a parameter of shape {list(parameter.shape)} is in stages {owner[id(parameter)]} and {number}; "
                    "weights cannot be shared between stages here: untie them, or keep both in one stage"
                )


def _gpus_of(stages: Sequence[TorchStage | None]) -> dict[int, int]:
    """Of a pipeline over several processes."""
    devices = {number: stage.device for number, stage in enumerate(stages) if stage is not None}
    gpus = {number: device.index or 0 for number, device in devices.items() if device.type == "cuda"}
    if gpus and len(gpus) < len(devices) or any(one.type not in ("cpu", "cuda") for one in devices.values()):
        raise InputError(
            f"devices: stages on {', '.join(map(str, devices.values()))}; over several processes all are on CPUs, or all on GPUs"
        )
    return gpus


def _totals(results: list[list[float]]) -> tuple[float, float]:
    """Loss and gradient norm, of what each stage's norm() gave."""
    return sum(one[1] for one in results), math.sqrt(sum(one[0] for one in results))


def _rows(value: Any) -> int:
    tensors = [one for one in as_tuple(flatten(value)) if isinstance(one, Tensor)]
    return tensors[0].numel() if tensors else 1


def _split(name: str, batch: Any, microbatches: int) -> list[Any]:
    if batch is None:
        raise InputError(f"{name}: None; this process needs them")
    if not isinstance(batch, Tensor):
        if isinstance(batch, Mapping) or hasattr(batch, "__array__"):
            raise InputError(f"{name}: a {type(batch).__name__}; give a tensor, or a list of {microbatches} microbatches")
        batch = list(batch)
        if len(batch) != microbatches:
            raise InputError(f"{name}: a list of {len(batch)}; the pipeline has {microbatches} microbatches")
        return batch
    if len(batch) < microbatches:
        raise InputError(f"{name}: {len(batch)} samples cannot be split into {microbatches} microbatches")
    return list(batch.tensor_split(microbatches))


def _check_match(inputs: Any, targets: Any, microbatches: int) -> None:
    """Tensors are split apart from each other: their parts must belong together."""
    if not (isinstance(inputs, Tensor) and isinstance(targets, Tensor)):
        return
    samples, rows = len(inputs), len(targets)
    if rows != samples and (rows % samples or samples % microbatches):
        raise InputError(
            f"targets: {rows} along the first axis, where inputs have {samples}: their microbatches would not match; give as many, or lists"
        )


def _list_of(pieces: Any) -> Any:
    """pieces, if they are a function; else a list of modules, and None for those of other processes."""
    if isinstance(pieces, nn.Module) and not isinstance(pieces, nn.ModuleList):
        raise InputError(f"pieces: one {type(pieces).__name__}; give a list of modules, such as cut_sequential() makes")
    if callable(pieces) and not isinstance(pieces, nn.ModuleList):
        return pieces
    return list(pieces)


def _autocast_of_caller() -> list[torch.autocast]:
    """What `with torch.autocast(...)` around the step says, which other threads do not see."""
    cached = torch.is_autocast_cache_enabled()
    kinds = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    return [torch.autocast(kind, dtype=torch.get_autocast_dtype(kind), cache_enabled=cached) for kind in kinds]


class Pipeline:
    """pieces: the model's modules in order, one for each chunk of each stage; or a function that makes the one of a number. A piece takes
    what the one before returns: a tensor, or a tuple. A model's pieces keep their own code and parameters.

    world: the processes that the stages run in, dealt to them in order; each makes the pipeline with the same arguments and calls step()
    and close() when the others do, but needs the pieces of its own stages only: others may be None, and a function is not called for
    them. All on CPUs, or all on GPUs. largest: what one microbatch brings from one piece to the next at most, where they are in different
    processes: bytes, or a tensor or tuple of that size (which may be on the device "meta"); or a list, one for each such boundary.

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
        pieces: Sequence[nn.Module | None] | Callable[[int], nn.Module],
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
        world: World | None = None,
        largest: Any = None,
        **engine: Any,
    ):
        if not callable(loss):
            raise InputError(f"loss: {loss!r}; give a function of the last piece's output and a target")
        if optimizer is not None and not callable(optimizer):
            raise InputError(f"optimizer: a {type(optimizer).__name__}; give a function that makes one for a stage's parameters")
        pieces = _list_of(pieces)
        plan, count = _plan_of(schedule, pieces, stages, microbatches, world)
        if plan.stages * plan.chunks != count:
            raise InputError(f"pieces: {count} modules; the plan has {plan.stages} stages of {plan.chunks} chunks")
        if not plan.has_end:
            plan = plan.with_end(reduce=reduce is not None)
        self.clip_grad = clip_grad
        self._splits_linear, self._stepping = split_linear, threading.Lock()
        arguments = {"loss": loss, "optimizer": optimizer, "recompute": recompute, "reduce": reduce, "split_linear": split_linear}
        several = world is not None and world.processes > 1
        here = world.stages(plan.stages) if several else range(plan.stages)
        self.stages: list[TorchStage | None] = [None] * plan.stages  #: None: of another process
        self._pieces_here = {plan.virtual_stage(stage, chunk) for stage in here for chunk in range(plan.chunks)}
        try:
            for stage in here:
                self.stages[stage] = self._make_stage(plan, stage, pieces, devices, arguments)
            _refuse_shared([self.stages[stage] for stage in here])
            if several:
                engine.update(world=world, gpus=_gpus_of(self.stages), largest=bytes_of(largest))
            self._pipeline = pipeline.Pipeline(plan, self.stages, activation_life="F", gradient_life="I", **engine)
        except BaseException:
            self._close_stages()  # which leaves the modules as they were
            raise

    @staticmethod
    def _make_stage(plan, stage: int, pieces: Any, devices, arguments: dict) -> TorchStage:
        numbers = [plan.virtual_stage(stage, chunk) for chunk in range(plan.chunks)]
        modules = [pieces(number) if callable(pieces) else pieces[number] for number in numbers]
        if None in modules:
            raise InputError(f"pieces: number {numbers[modules.index(None)]} is None, and its stage {stage} runs in this process")
        for number, module in zip(numbers, modules):
            if not isinstance(module, nn.Module):
                raise InputError(f"pieces: number {number} is a {type(module).__name__}; give an nn.Module")
        places = {parameter.device for module in modules for parameter in module.parameters()}
        if devices is not None:
            device = torch.device(devices[stage])
            modules = [module.to(device) for module in modules]
        elif len(places) > 1:
            raise InputError(f"devices: the modules of stage {stage} are on {', '.join(map(str, places))}; give devices")
        else:
            device = places.pop() if places else torch.device("cpu")
        return TorchStage(modules, plan.stages * plan.chunks, device=device, **arguments)

    def step(
        self, inputs: Any, targets: Any, *, learning_rate: float = 0.0, weights: Sequence[float] | None = None
    ) -> Step:
        """One step over a batch. inputs, targets: tensors, which are split along their first axis, evenly or nearly so; or lists of
        microbatches, of any sizes. weights: how much each microbatch counts in the mean; else by the elements of its targets.
        learning_rate: of this step, where it is not 0; that of process 0 counts. In a process that does not run the first piece, inputs
        may be None, and targets in one that does not run the last.

        Raises RunFailed: the exception of a module's code is its __cause__. A loss or norm that is not finite ends the run before a
        weight changes.
        """
        count = self._pipeline.plan.microbatches
        first, last = 0 in self._pieces_here, self.plan.stages * self.plan.chunks - 1 in self._pieces_here
        if first and last:
            _check_match(inputs, targets, count)
        sent = [send(flatten(one)) for one in _split("inputs", inputs, count)] if first else None
        weighted = self._weighted(targets, weights, count) if last else None

        def decide(results: list[list[float]]) -> float:
            loss, norm = _totals(results)
            if not (math.isfinite(norm) and math.isfinite(loss)):
                raise Error(f"loss {loss}, gradient norm {norm}: not finite")
            if self.clip_grad is None:
                return 1.0
            return min(1.0, self.clip_grad / (norm + 1e-6))  # as torch.nn.utils.clip_grad_norm_

        if _autocast_of_caller() and self._splits_linear:
            raise InputError("split_linear: does not go with autocast; leave one of them out")
        alone = self._stepping.acquire(blocking=False)  # else step() says why it is refused
        try:
            for stage in self.stages if alone else []:
                if stage is not None:
                    stage.autocast = _autocast_of_caller()
            done = self._pipeline.step(sent, weighted, decide=decide, learning_rate=learning_rate)
        finally:
            if alone:
                self._stepping.release()
        return Step(done.step, *_totals(done.results), done.grad_scale)

    @staticmethod
    def _weighted(targets: Any, weights: Sequence[float] | None, count: int) -> list[tuple]:
        targets = _split("targets", targets, count)
        weights = [float(_rows(one)) for one in targets] if weights is None else [float(one) for one in weights]
        if len(weights) != count or not sum(weights) > 0:
            raise InputError(f"weights: must be of {count} microbatches, and more than 0 together")
        return [(send(flatten(target)), weight / sum(weights)) for target, weight in zip(targets, weights)]

    @property
    def plan(self) -> _engine.Plan:
        return self._pipeline.plan

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Of this process's stages, in their order; stages without weights have none. Schedulers of learning rates, and state_dict(), go
        with them between steps."""
        made = [stage.optimizer_object for stage in self.stages if stage is not None]
        return [one for one in made if one is not None]

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
            if stage is not None:
                stage.close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *raised) -> None:
        try:
            self._pipeline.__exit__(*raised)
        finally:
            self._close_stages()
