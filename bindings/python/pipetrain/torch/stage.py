"""One stage of a pipeline: a PyTorch module for each of its chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from .. import _engine
from ..errors import InputError
from ..stage import Launch, Stage
from .far import FarMemory
from .forward import Forward, StepSetup
from .gradients import add_gradients, squared_norm
from .split_backward import SplitBackward
from .split_linear import WeightGradients, backward_of, join_linears, keep_intermediate_values, split_linears
from .structure import arguments, flatten, restore
from .transfer import Receiver, as_tuple, send

Loss = Callable[[Any, Any], Tensor]
MakeOptimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


def _differentiable(value: Any) -> Any:
    """Returns value, made a leaf of the graph if it can have a gradient."""
    if isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex()):
        return value.requires_grad_()
    return value


class TorchStage(Stage):
    """modules: one per chunk, in model order, on this stage's device. pieces: of the whole model. loss: of the last piece's
    output and the target, a mean over the microbatch. recompute: keep each chunk's input only, and run F again before B or I.
    reduce: sums the gradients of these parameters over data-parallel replicas, for plans with R. split_linear: as SplitLinear,
    until close()."""

    def __init__(
        self,
        modules: Sequence[nn.Module],
        pieces: int,
        *,
        loss: Loss,
        device: torch.device,
        optimizer: MakeOptimizer | None = None,
        recompute: bool = False,
        reduce: Callable[[list[nn.Parameter]], None] | None = None,
        split_linear: bool = False,
    ):
        self.modules = list(modules)
        self._pieces, self._loss, self._recompute, self._reduce = pieces, loss, recompute, reduce
        self.device = device
        self._receiver, self._far = Receiver(device), FarMemory(device)
        every = [one for module in self.modules for one in module.parameters() if one.requires_grad]
        self.parameters = list(dict.fromkeys(every))  # each once, also where chunks share it
        if reduce is not None and len(self.parameters) < len(every):
            raise InputError("reduce: chunks of a stage share a parameter, whose gradient would be summed once for each; untie it")
        self.optimizer_object = optimizer(self.parameters) if optimizer is not None and self.parameters else None
        self._checked: set = set()
        self._kept: dict[tuple[int, int], Forward] = {}
        self._losses: list[Tensor] = []
        self._grad_scale = 1.0
        self._learning_rate = 0.0
        self._evaluates = False
        self.setup = StepSetup()  #: of the coming step, or the running one
        self.outputs: dict[int, Any] = {}  #: of the last piece, by microbatch, of an evaluation that keeps them
        if recompute:
            self._refuse_what_changes()
        self._linears = split_linears(self.modules) if split_linear else [[] for _ in self.modules]
        self._weights = self._find_weights()

    def _refuse_what_changes(self) -> None:
        for module in self.modules:
            for name, layer in module.named_modules():
                if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0:
                    raise InputError(f"recompute: {name or 'a piece'} has dropout, which a second forward would draw anew; set it to 0")
                if isinstance(layer, nn.modules.batchnorm._NormBase) and layer.track_running_stats:
                    raise InputError(f"recompute: {name or 'a piece'} has running statistics, which a second forward would count twice")

    def store(self, value: Any, slot: _engine.Slot) -> None:
        self._far.store(value, slot)

    def load(self, slot: _engine.Slot) -> Any:
        return self._far.load(slot)

    def close(self) -> None:
        for linears in self._linears:
            join_linears(linears)

    def _find_weights(self) -> list[tuple[list[nn.Parameter], list[nn.Parameter]]]:
        """Returns for each chunk the parameters whose gradients autograd computes, and those of split linears."""
        found = []
        for module, linears in zip(self.modules, self._linears):
            left = [one.weight for one in linears]
            known = {id(one) for one in left}
            found.append(([one for one in module.parameters() if one.requires_grad and id(one) not in known], left))
        return found

    def begin_step(self, step: int, learning_rate: float) -> None:
        self._forget(evaluates=False)
        self._learning_rate = learning_rate
        for parameter in self.parameters:
            parameter.grad = None
        self._weights = self._find_weights()  # anew, because some may have been frozen meanwhile

    def begin_evaluation(self) -> None:
        self._forget(evaluates=True)

    def _forget(self, *, evaluates: bool) -> None:
        self._evaluates = evaluates
        self._kept.clear()
        self._losses.clear()
        self.outputs.clear()

    def forward(self, launch: Launch) -> Any:
        inputs = as_tuple(self._receiver.receive(launch.activation))
        keywords = self.setup.keywords.pop((launch.chunk, launch.microbatch), None)
        kept = Forward(inputs, self._target(launch), {} if keywords is None else restore(self._receiver.receive(keywords)))
        if self._evaluates:
            return self._evaluated(launch, kept)
        if launch.virtual_stage > 0:
            kept.inputs = tuple(_differentiable(one) for one in inputs)
        self._kept[launch.chunk, launch.microbatch] = kept
        with torch.set_grad_enabled(not self._recompute):
            output = self._compute(launch, kept)
        if launch.virtual_stage == self._pieces - 1:
            self._losses.append(kept.outputs[0].detach())
        if self._recompute:
            kept.outputs = ()
        return send(output)

    def _target(self, launch: Launch) -> Any:
        if launch.target is None:
            return None
        target, weight = launch.target
        return restore(self._receiver.receive(target)), weight

    def _evaluated(self, launch: Launch, kept: Forward) -> Any:
        """Runs a forward without a backward; returns the value for the next stage."""
        with torch.no_grad():
            output, loss = self._call(launch, kept)
        if launch.virtual_stage < self._pieces - 1:
            return send(flatten(output))
        if loss is not None:
            self._losses.append(loss)
        if self.setup.keeps_outputs:
            self.outputs[launch.microbatch] = output
        return None

    def _call(self, launch: Launch, kept: Forward) -> tuple[Any, Tensor | None]:
        """Returns the piece's output or, for the last one with a target, the weighted loss."""
        if self._linears[launch.chunk]:
            keep_intermediate_values()
        with ExitStack() as contexts:
            for one in self.setup.autocast:
                contexts.enter_context(one)
            output = self.modules[launch.chunk](*arguments(kept.inputs), **kept.keywords)
            if kept.target is None:
                return output, None
            target, weight = kept.target
            return output, self._checked_loss(self._loss(output, target)) * weight

    def _compute(self, launch: Launch, kept: Forward) -> Any:
        """Sets the outputs that have gradients; returns the value for the next stage."""
        output, loss = self._call(launch, kept)
        if launch.virtual_stage == self._pieces - 1:
            kept.outputs = (loss,)
            return None
        flat = flatten(output)
        values = as_tuple(flat)
        kept.sent_at = [i for i, one in enumerate(values) if isinstance(one, Tensor) and one.requires_grad]
        kept.outputs = tuple(values[i] for i in kept.sent_at)
        if not any(isinstance(one, Tensor) for one in values):
            self._check_hides_no_tensor(launch, kept, output)
        sent = tuple(one.detach() if isinstance(one, Tensor) else one for one in values)
        return sent if isinstance(flat, (tuple, list)) else sent[0]

    @staticmethod
    def _checked_loss(value: Any) -> Tensor:
        if isinstance(value, Tensor) and value.numel() == 1:
            return value
        what = f"a tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise InputError(f"loss: it gave {what}; give a tensor of one number, the mean over the microbatch")

    def _check_hides_no_tensor(self, launch: Launch, kept: Forward, output: Any) -> None:
        """Otherwise the layers before such an output would silently not be trained."""
        if kept.differentiable_inputs() or self._weights[launch.chunk][0]:
            raise InputError(
                f"piece {launch.virtual_stage} returned a {type(output).__name__}, in which gradients are not found: return tensors, or tuples, "
                "lists and dicts of them"
            )

    def _computed(self, launch: Launch, last: bool) -> Forward:
        key = launch.chunk, launch.microbatch
        kept = self._kept.pop(key) if last else self._kept[key]
        if self._recompute and not kept.outputs:
            with torch.enable_grad():
                self._compute(launch, kept)
        return kept

    def _gradients(self, launch: Launch, kept: Forward) -> list[Tensor | None]:
        """Of the outputs that have a graph, in their order."""
        if launch.virtual_stage == self._pieces - 1:
            return [None]
        gradients = self._receiver.receive(launch.gradient)
        return [gradients[i] for i in kept.sent_at]

    def _sent_back(self, launch: Launch, gradients: Sequence[Tensor | None], kept: Forward) -> Any:
        """Returns the value for the previous stage: a gradient for each value that it sent, None for those that cannot have one."""
        if launch.virtual_stage == 0:
            return None
        found = iter(gradients)
        sent = []
        for one in kept.inputs:
            if not (isinstance(one, Tensor) and one.requires_grad):
                sent.append(None)
            else:
                gradient = next(found)
                sent.append(torch.zeros_like(one) if gradient is None else gradient)
        return send(sent)

    def backward(self, launch: Launch) -> Any:
        kept = self._computed(launch, last=True)
        inputs = kept.differentiable_inputs()
        parameters, left = self._weights[launch.chunk]
        wanted = [*inputs, *parameters, *left]
        if not wanted or not kept.outputs:
            return self._sent_back(launch, [None] * len(inputs), kept)
        gradients = self._gradients(launch, kept)
        if not left:  # each is added to `.grad` as soon as it is computed
            torch.autograd.backward(kept.outputs, gradients, inputs=wanted)
            return self._sent_back(launch, [one.grad for one in inputs], kept)
        with backward_of(left, None):  # autograd returns placeholders for the gradients of `left`
            found = torch.autograd.grad(kept.outputs, wanted, gradients, allow_unused=True)
        add_gradients(parameters, found[len(inputs) : len(inputs) + len(parameters)])
        return self._sent_back(launch, found[: len(inputs)], kept)

    def input_grad(self, launch: Launch) -> Any:
        kept = self._computed(launch, last=False)
        parameters, left = self._weights[launch.chunk]
        kept.split = SplitBackward(kept.outputs, kept.differentiable_inputs(), parameters, left)
        kept.weight_gradients = WeightGradients(self._checked)
        with backward_of(left, kept.weight_gradients):
            found = kept.split.input_grad(self._gradients(launch, kept))
        return self._sent_back(launch, found, kept)

    def weight_grad(self, launch: Launch) -> None:
        kept = self._kept.pop((launch.chunk, launch.microbatch))
        with backward_of(self._weights[launch.chunk][1], None):
            kept.split.weight_grad()
        kept.weight_gradients.add()

    def reduce(self, launch: Launch) -> None:
        if launch.kind != "R" or self._reduce is None:
            raise InputError(f"{launch.kind}: this stage has no function for it; give `reduce` for R")
        self._reduce([one for one in self.modules[launch.chunk].parameters() if one.requires_grad])

    def norm(self) -> list[float]:
        """Returns the sum of the squares of this stage's gradients, its part of the loss, and the number of losses in it."""
        gradients = [one.grad for one in self.parameters if one.grad is not None] if not self._evaluates else []
        nothing = torch.zeros((), dtype=torch.float64, device=self.device)
        squares = squared_norm(gradients) if gradients else nothing
        loss = torch.stack(self._losses).double().sum().to(self.device) if self._losses else nothing
        found = torch.stack([squares, loss]).tolist()  # at once, because the host waits for the GPU here
        return [*found, float(len(self._losses))]

    def verdict(self, apply: bool, grad_scale: float) -> None:
        self._grad_scale = grad_scale

    def optimizer(self) -> None:
        if self._grad_scale != 1.0:  # also for an optimizer of the caller's, which comes after the step
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter.grad *= self._grad_scale
        if self.optimizer_object is None:
            return
        if self._learning_rate:
            for group in self.optimizer_object.param_groups:
                group["lr"] = self._learning_rate
        self.optimizer_object.step()
