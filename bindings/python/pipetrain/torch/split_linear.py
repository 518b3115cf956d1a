"""nn.Linear whose weight's gradient is a product of its own: left to W, also inside torch.compile, or added to `.grad` in the product.

Autograd, and the backward that torch.compile makes of a module, compute gradients of inputs and weights together. Here a layer's
backward computes the input's, and hands the two factors of the weight's to the stage: "gradient accumulation fusion" and
"delayed weight gradients" in Megatron-LM's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import Error, InputError, MisuseError


class WeightGradients:
    """The remaining products of one microbatch's backward, in the order of the backward.

    checked: of a stage: the weights and shapes whose factors have once been seen to outlive the backward unchanged, which compiled code
    must be told to let them (keep_intermediate_values)."""

    def __init__(self, checked: set) -> None:
        self._factors: list[tuple[nn.Parameter, Tensor, Tensor]] = []
        self._copies: list[tuple[Tensor, Tensor]] = []
        self._checked = checked

    def keep(self, weight: nn.Parameter, inputs: Tensor, gradient: Tensor) -> None:
        self._factors.append((weight, inputs, gradient))
        key = weight.data_ptr(), inputs.shape
        if key not in self._checked:
            self._checked.add(key)
            self._copies += [(inputs, inputs.clone()), (gradient, gradient.clone())]

    def add(self) -> None:
        """Adds them to the weights' `.grad`. Once."""
        if not all(torch.allclose(one, copy, rtol=0, atol=0, equal_nan=True) for one, copy in self._copies):
            raise Error("split_linear: compiled code has used the memory of a weight gradient's factors anew; compile these pieces without it")
        self._copies.clear()
        for factors in self._factors:
            _add_product(*factors)
        self._factors.clear()


def _add_product(weight: nn.Parameter, inputs: Tensor, gradient: Tensor) -> None:
    """inputs [..., in], gradient [..., out]."""
    inputs, gradient = inputs.reshape(-1, inputs.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
    with torch.no_grad():
        if weight.grad is None:
            weight.grad = gradient.t() @ inputs
        else:
            weight.grad.addmm_(gradient.t(), inputs)


# Which backward runs now, by the address of a weight: its parameter, and where to keep the factors (None: add at once). A weight
# belongs to one stage, which runs one backward at a time.
_running: dict[int, tuple[nn.Parameter, WeightGradients | None]] = {}


@contextmanager
def backward_of(weights: Sequence[nn.Parameter], keep: WeightGradients | None) -> Iterator[None]:
    """A context in which a backward leaves these weights' products to `keep`, or adds them at once where that is None."""
    addresses = [weight.data_ptr() for weight in weights]
    for address, weight in zip(addresses, weights):
        _running[address] = weight, keep
    try:
        yield
    finally:
        for address in addresses:
            del _running[address]


def _stand_in(weight: Tensor) -> Tensor:
    """Returns a tensor of a gradient's shape with one element of memory; nobody reads it."""
    return weight.new_empty_strided(weight.shape, (0,) * weight.dim())


@torch.library.custom_op("pipetrain::leave_weight_gradient", mutates_args=())
def _leave(inputs: Tensor, gradient: Tensor, weight: Tensor) -> Tensor:
    running = _running.get(weight.data_ptr())
    if running is None:
        raise MisuseError("split_linear: a backward outside the pipeline; close it first")
    parameter, keep = running
    if keep is None:
        _add_product(parameter, inputs, gradient)
    else:
        keep.keep(parameter, inputs, gradient)
    return _stand_in(weight)


@_leave.register_fake
def _(inputs: Tensor, gradient: Tensor, weight: Tensor) -> Tensor:
    return _stand_in(weight)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inputs: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return F.linear(inputs, weight)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        inputs, weight = ctx.saved_tensors
        return gradient @ weight if ctx.needs_input_grad[0] else None, _leave(inputs, gradient, weight)


class SplitLinear(nn.Linear):
    """Takes the place of the class of an nn.Linear that exists."""

    def forward(self, inputs: Tensor) -> Tensor:
        if torch.is_autocast_enabled(inputs.device.type):
            raise InputError("split_linear: does not work under autocast; cast the module")
        output = _Product.apply(inputs, self.weight)
        return output if self.bias is None else output + self.bias


def split_linears(modules: Sequence[nn.Module]) -> list[list[nn.Linear]]:
    """Makes each nn.Linear in these modules a SplitLinear, where nothing else in them has its weight; returns those of each module."""
    owners: dict[int, int] = {}
    for _, parameter in nn.ModuleList(modules).named_parameters(remove_duplicate=False):
        owners[id(parameter)] = owners.get(id(parameter), 0) + 1

    def can_be_split(one: nn.Module) -> bool:
        return type(one) is nn.Linear and one.weight.requires_grad and owners[id(one.weight)] == 1

    split = [[one for one in module.modules() if can_be_split(one)] for module in modules]
    for linears in split:
        for one in linears:
            one.__class__ = SplitLinear
    return split


def join_linears(linears: Sequence[nn.Linear]) -> None:
    """Makes them nn.Linear again."""
    for one in linears:
        one.__class__ = nn.Linear


def keep_intermediate_values() -> None:
    """From now on, code that torch.compile makes on this thread (where PyTorch has no settings per thread: on any) keeps the memory of a value
    until its last reader is gone, because factors outlive the backward that the compiler sees. It compiles that backward with the
    forward, because another thread with other settings may run it."""
    import torch._functorch.config
    import torch._inductor.config

    torch._inductor.config.allow_buffer_reuse = False
    torch._inductor.config.inplace_buffers = False
    torch._functorch.config.donated_buffer = False
    torch._functorch.config.force_non_lazy_backward_lowering = True
