"""The stages of a pipeline, in Python."""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _engine
from .errors import InputError


class Launch(NamedTuple):
    """An action to run, with its inputs. Objects arrive as the previous stage returned them: any that has `__dlpack__` can be read
    by another library with that library's `from_dlpack`, without a copy."""

    kind: str  #: "F", "B", "I", "W"; at the end of the step "R", "S", "T", "N", "O"; "X" of a plan's custom actions
    chunk: int  #: of the stage, in model order
    microbatch: int  #: -1 at the end of the step; for "X" its number in the plan
    virtual_stage: int  #: the chunk's number among the parts of the model
    activation: Any  #: None where the action has none; kept after F as activation_life says
    gradient: Any
    target: Any  #: for the model's last part
    custom: str | None = None  #: the name of a custom action


class Stage:
    """The code of one stage. Override the methods that the plan needs; `run`, and so every action, is called on a thread of this stage's own
    (see `any_thread`), the others on threads of the engine; one at a time but for abort(), with the GIL held. What a method raises ends
    the run."""

    any_thread: bool = False
    """Whether actions may run on whichever thread is free, of as many as there are such stages, in place of always the same one: which
    saves waking a thread for most of them. Read when the pipeline is made."""

    def run(self, launch: Launch) -> Any:
        """Runs the action and returns the value for the next stage (F) or the previous one (B, I). N returns a list of floats."""
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
        """Returns this stage's numbers for `decide`."""
        return []

    def optimizer(self) -> None:
        """After the verdict, unless the step is skipped."""

    def begin_step(self, step: int, learning_rate: float) -> None: ...

    def begin_evaluation(self) -> None:
        """Called in place of begin_step(): forwards and norm() follow, but no backward, so nothing need be kept for one. The default calls
        begin_step()."""
        self.begin_step(0, 0.0)

    def verdict(self, apply: bool, grad_scale: float) -> None: ...

    def abort(self, why: str) -> None:
        """The run has failed: make running work end soon. Called while another method may run."""

    def store(self, value: Any, slot: _engine.Slot) -> None:
        """Over several processes: puts a value for a stage of another process into memory that it will read. Uses pickle, in which
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
        """Returns a copy of the value that a stage of another process has put there."""
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
