"""What one stage of a pipeline computes, in Python."""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _engine
from .errors import InputError


class Launch(NamedTuple):
    """An action to do, with its inputs. Objects come as the stage before returned them: any that has `__dlpack__` can be read
    by another library with that library's `from_dlpack`, without a copy."""

    kind: str  #: "F", "B", "I", "W"; at the end of the step "R", "S", "T", "N", "O"; "X" of a plan's custom actions
    chunk: int  #: of the stage, in model order
    microbatch: int  #: -1 at the end of the step; of "X" its number in the plan
    virtual_stage: int  #: which piece of the model the chunk is
    activation: Any  #: None where the action has none; after F as long as the pipeline's activation_life says
    gradient: Any
    target: Any  #: of the model's last piece
    custom: str | None = None  #: the name of a custom action


class Stage:
    """What one stage computes. Override what the plan asks for; `run`, and so every action, is called on a thread of this stage's own
    (see `any_thread`), the others on threads of the engine; one at a time but for abort(), with the GIL held. What a method raises ends
    the run."""

    any_thread: bool = False
    """Whether actions may run on whichever thread is free, of as many as there are such stages, in place of always the same one: which
    saves waking a thread for most of them. Read when the pipeline is made."""

    def run(self, launch: Launch) -> Any:
        """Does the action; gives what the next stage (F) or the previous one (B, I) receives. N gives a list of floats."""
        return self._methods[launch.kind](self, launch)

    def forward(self, launch: Launch) -> Any:
        raise NotImplementedError("forward")

    def backward(self, launch: Launch) -> Any:
        """The gradient of the input, and those of the weights."""
        output = self.input_grad(launch)
        self.weight_grad(launch)
        return output

    def input_grad(self, launch: Launch) -> Any:
        raise NotImplementedError("input_grad")

    def weight_grad(self, launch: Launch) -> None:
        raise NotImplementedError("weight_grad")

    def reduce(self, launch: Launch) -> None:
        """R, S and T, in plans that have them."""
        raise NotImplementedError("reduce")

    def custom(self, launch: Launch) -> None:
        """A custom action of the plan, `launch.custom` by name."""
        raise NotImplementedError(f"custom, for {launch.custom}")

    def norm(self) -> list[float]:
        """What `decide` is told of this stage."""
        return []

    def optimizer(self) -> None:
        """After the verdict, unless the step is skipped."""

    def begin_step(self, step: int, learning_rate: float) -> None: ...

    def begin_evaluation(self) -> None:
        """In the place of begin_step(): forwards and norm() follow, and no backward, so that nothing need be kept for one. Without it
        an evaluation begins as a step does."""
        self.begin_step(0, 0.0)

    def verdict(self, apply: bool, grad_scale: float) -> None: ...

    def abort(self, why: str) -> None:
        """The run has failed: make what runs end soon. Called while another method may run."""

    def store(self, value: Any, slot: _engine.Slot) -> None:
        """Over several processes: puts what goes to a stage of another one into memory that it will read. By pickling, where
        arrays of numpy are copied once. InputError for more than `largest`."""
        parts: list[pickle.PickleBuffer] = []
        head = pickle.dumps(value, protocol=5, buffer_callback=parts.append)
        views = [memoryview(head), *(part.raw() for part in parts)]
        check_room(sum(view.nbytes for view in views), slot)
        memory, at = _bytes_of(slot), 0
        for view in views:
            memory[at : at + view.nbytes] = view.cast("B")
            at += view.nbytes
        slot.fill(at, ",".join(str(view.nbytes) for view in views).encode())

    def load(self, slot: _engine.Slot) -> Any:
        """The value that a stage of another process has put there, as copies of its own."""
        memory, at, parts = _bytes_of(slot), 0, []
        for size in map(int, slot.note.split(b",")):
            parts.append(bytearray(memory[at : at + size]))
            at += size
        return pickle.loads(parts[0], buffers=parts[1:])

    _methods: dict[str, Callable] = {
        "F": lambda self, launch: self.forward(launch),
        "B": lambda self, launch: self.backward(launch),
        "I": lambda self, launch: self.input_grad(launch),
        "W": lambda self, launch: self.weight_grad(launch),
        "R": lambda self, launch: self.reduce(launch),
        "S": lambda self, launch: self.reduce(launch),
        "T": lambda self, launch: self.reduce(launch),
        "X": lambda self, launch: self.custom(launch),
        "N": lambda self, launch: self.norm(),
        "O": lambda self, launch: self.optimizer(),
    }


def _bytes_of(slot: _engine.Slot) -> memoryview:
    return memoryview((ctypes.c_ubyte * slot.capacity).from_address(slot.address)).cast("B")


def check_room(size: int, slot: _engine.Slot) -> None:
    if size > slot.capacity:
        raise InputError(
            f"a value for a stage of another process takes {size} bytes, and `largest` leaves room for {slot.capacity}: give a larger one"
        )
