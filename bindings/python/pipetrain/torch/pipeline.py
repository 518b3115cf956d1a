"""A PyTorch model in pieces, trained in the order of a schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .. import _engine, pipeline
from ..errors import Error, InputError
from ..world import World
from . import keywords
from . import microbatches as batches
from .evaluation import Evaluation, eval_mode
from .far import bytes_of
from .forward import StepSetup
from .pieces import gpus_of, list_of, plan_of, refuse_shared
from .stage import Loss, MakeOptimizer, TorchStage
from .structure import flatten
from .transfer import send


@dataclass(frozen=True)
class Step:
    """loss: the mean over the whole batch; grad_norm: of all stages together, before clipping."""

    step: int
    loss: float
    grad_norm: float
    grad_scale: float


def _totals(results: list[list[float]]) -> tuple[float, float]:
    """Returns loss and gradient norm from the results of each stage's norm()."""
    return sum(one[1] for one in results), math.sqrt(sum(one[0] for one in results))


def _autocast_of_caller() -> list[torch.autocast]:
    """Returns the autocast contexts around the step, which other threads do not see."""
    cached = torch.is_autocast_cache_enabled()
    kinds = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    return [torch.autocast(kind, dtype=torch.get_autocast_dtype(kind), cache_enabled=cached) for kind in kinds]


class Pipeline:
    """pieces: the model's modules in order, one for each chunk of each stage; or a function that makes the piece of a number. A piece takes
    the previous one's output: a tensor, or a tuple. A model's pieces keep their own code and parameters.

    world: the processes that the stages run in, dealt to them in order; each makes the pipeline with the same arguments and calls step()
    and close() when the others do, but needs the pieces of its own stages only: others may be None, and a function is not called for
    them. All on CPUs, or all on GPUs. largest: the most that one microbatch passes from one piece to the next, where they are in different
    processes: bytes, or a tensor or tuple of that size (which may be on the device "meta"); or a list, one for each such boundary.

    loss: of the last piece's output and a target, a mean over the microbatch.
    schedule: a name, or a Plan. stages: where a schedule's chunks can vary.
    optimizer: makes one for a stage's parameters; without it a step leaves its gradients, clipped, in `.grad`, which the next one overwrites.
    clip_grad: the largest norm of all gradients together.
    devices: of each stage; else where its modules are. recompute: F again before B or I, for less memory.
    reduce: sums gradients over data-parallel replicas: reduce(parameters), called on each stage's thread per chunk.
    split_linear: the gradients of nn.Linear's weights are separate products until close(): left to W also in compiled pieces, and added
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
        pieces = list_of(pieces)
        plan = plan_of(schedule, pieces, stages, microbatches, world)
        if not plan.has_end:
            plan = plan.with_end(reduce=reduce is not None)
        self.clip_grad = clip_grad
        self._splits_linear, self._has_optimizer = split_linear, optimizer is not None
        self._steps = self._evaluations = 0
        arguments = {"loss": loss, "optimizer": optimizer, "recompute": recompute, "reduce": reduce, "split_linear": split_linear}
        several = world is not None and world.processes > 1
        here = world.stages(plan.stages) if several else range(plan.stages)
        self.stages: list[TorchStage | None] = [None] * plan.stages  #: None: of another process
        self._places = {plan.virtual_stage(stage, chunk): (stage, chunk) for stage in here for chunk in range(plan.chunks)}  # by piece here
        self._has_first, self._has_last = 0 in self._places, plan.stages * plan.chunks - 1 in self._places
        try:
            for stage in here:
                self.stages[stage] = self._make_stage(plan, stage, pieces, devices, arguments)
            refuse_shared([self.stages[stage] for stage in here])
            if several:
                engine.update(world=world, gpus=gpus_of(self.stages), largest=bytes_of(largest))
            note = keywords.note_of({piece: keywords.Accepted.of(self._module(piece)) for piece in self._places})
            self._pipeline = pipeline.Pipeline(plan, self.stages, activation_life="F", gradient_life="I", _note=note, **engine)
            self._accepted = keywords.read_notes(self._pipeline._notes)
        except BaseException:
            self._close_stages()  # restores the modules
            raise

    def _module(self, piece: int) -> nn.Module:
        stage, chunk = self._places[piece]
        return self.stages[stage].modules[chunk]

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
        self,
        inputs: Any,
        targets: Any,
        *,
        kwargs: Mapping[str, Any] | None = None,
        learning_rate: float = 0.0,
        weights: Sequence[float] | None = None,
    ) -> Step:
        """One step over a batch. inputs, targets: tensors, which are split along their first axis, evenly or nearly so; or lists of
        microbatches, of any sizes. In a process that does not run the first piece, inputs may be None, and targets in one that does
        not run the last.

        kwargs: keyword arguments of the pieces. Each goes to every piece whose forward has a parameter of that name, or **kwargs, but the
        first parameter. Tensors, also inside of tuples, lists and dicts, have as many samples along their first axis as the inputs, and
        are split like them; numbers, strings, booleans, None and functions are the same for all microbatches; Repeated(value) marks
        anything else as the same, and PerMicrobatch([...]) gives a value for each. They get no gradient. Over several processes, each
        gives its own pieces theirs.
        weights: how much each microbatch counts in the mean; else by the elements of its targets.
        learning_rate: of this step, where it is not 0; that of process 0 counts.

        Raises InputError before anything runs, MisuseError during another step; RunFailed: the exception of a module's code is its
        __cause__. A loss or norm that is not finite ends the run before a weight changes.
        """

        def decide(results: list[list[float]]) -> tuple[bool, float]:
            loss, norm = _totals(results)
            if not (math.isfinite(norm) and math.isfinite(loss)):
                raise Error(f"loss {loss}, gradient norm {norm}: not finite")
            if self.clip_grad is None:
                return True, 1.0
            return True, min(1.0, self.clip_grad / (norm + 1e-6))  # as torch.nn.utils.clip_grad_norm_

        if learning_rate and not self._has_optimizer:
            raise InputError(f"learning_rate: {learning_rate}, and the pipeline has no optimizer; give Pipeline(optimizer=...)")
        if self._has_last and targets is None:
            raise InputError("targets: None; this process needs them")
        setups = self._setups(inputs, kwargs)
        how = {"number": self._steps + 1, "evaluation": False, "learning_rate": float(learning_rate)}
        results, _, scale = self._pipeline._run(how, *self._batch(inputs, targets, weights), decide, self._set_up(setups))
        self._steps += 1
        return Step(self._steps, *_totals(results), scale)

    def evaluate(
        self,
        inputs: Any,
        targets: Any = None,
        *,
        kwargs: Mapping[str, Any] | None = None,
        weights: Sequence[float] | None = None,
        outputs: bool = False,
    ) -> Evaluation:
        """Runs only the forwards of a batch, in the order of the plan, and returns the loss; nothing changes. Modules are in eval mode and under
        no_grad meanwhile, and afterwards each in its previous mode. The arguments are those of step(); targets may be
        None, for no loss. outputs: keep the last piece's outputs.

        Between steps; a call of all processes, as step(). A loss that is not finite is returned unchanged. Raises as step(), and RunFailed ends
        the pipeline here too.
        """
        if self._has_last and targets is None and not outputs:
            raise InputError("targets: None, and no outputs; give targets for a loss, or outputs=True")
        setups = self._setups(inputs, kwargs, keeps_outputs=outputs)
        kept: dict[int, Any] = {}

        @contextmanager
        def around() -> Iterator[None]:
            with self._set_up(setups), eval_mode([self._module(piece) for piece in self._places]):
                yield
            for stage in self._stages_here():
                kept.update(stage.outputs)
                stage.outputs.clear()

        how = {"number": self._evaluations + 1, "evaluation": True, "learning_rate": 0.0}
        results, *_ = self._pipeline._run(how, *self._batch(inputs, targets, weights), lambda results: (False, 1.0), around())
        self._evaluations += 1
        loss = _totals(results)[0] if any(one[2] for one in results) else None
        return Evaluation(loss, [kept[number] for number in sorted(kept)] if outputs and self._has_last else None)

    def _batch(self, inputs: Any, targets: Any, weights: Sequence[float] | None) -> tuple[list | None, list | None]:
        """Returns them in the engine's form."""
        count = self.plan.microbatches
        sent = [send(flatten(one)) for one in batches.split("inputs", inputs, count)] if self._has_first else None
        wanted = batches.weighted(targets, weights, count) if self._has_last and targets is not None else None
        if self._has_first and self._has_last:
            batches.check_match(inputs, targets, count)
        return sent, wanted

    def _setups(self, inputs: Any, kwargs: Mapping[str, Any] | None, keeps_outputs: bool = False) -> dict[int, StepSetup]:
        """Of each stage of this process."""
        autocast = _autocast_of_caller()
        if autocast and self._splits_linear:
            raise InputError("split_linear: does not go with autocast; leave one of them out")
        setups = {stage: StepSetup(autocast, {}, keeps_outputs) for stage, _ in self._places.values()}
        if kwargs is None:
            return setups
        keywords.check_names(kwargs, self._accepted)
        parts = keywords.split_keywords(kwargs, batches.Division.of(inputs, self.plan.microbatches))
        for piece, (stage, chunk) in self._places.items():
            names = [name for name in kwargs if self._accepted[piece].takes(name)]
            for microbatch, part in enumerate(parts) if names else ():
                setups[stage].keywords[chunk, microbatch] = send(flatten({name: part[name] for name in names}))
        return setups

    @contextmanager
    def _set_up(self, setups: dict[int, StepSetup]) -> Iterator[None]:
        for number, setup in setups.items():
            self.stages[number].setup = setup
        try:
            yield
        finally:
            for number in setups:
                self.stages[number].setup = StepSetup()  # releases the arguments

    def _stages_here(self) -> list[TorchStage]:
        return [stage for stage in self.stages if stage is not None]

    @property
    def plan(self) -> _engine.Plan:
        return self._pipeline.plan

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Of this process's stages, in their order; stages without weights have none. Schedulers of learning rates, and state_dict(), go
        with them between steps."""
        made = [stage.optimizer_object for stage in self._stages_here()]
        return [one for one in made if one is not None]

    def timeline(self) -> _engine.Timeline:
        """The times at which the actions of the latest step or evaluation ran: times of the host, which on GPUs are those of issuing work."""
        return self._pipeline.timeline()

    def waiting(self) -> list[str]:
        return self._pipeline.waiting()

    def abort(self, why: str) -> None:
        self._pipeline.abort(why)

    def close(self) -> None:
        self._pipeline.close()
        self._close_stages()

    def _close_stages(self) -> None:
        for stage in self._stages_here():
            stage.close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *raised) -> None:
        try:
            self._pipeline.__exit__(*raised)
        finally:
            self._close_stages()
