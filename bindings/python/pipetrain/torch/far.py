"""Values between stages of different processes, through memory that both reach.

On a GPU the sender copies into the receiver's memory on a stream of its own, beside its work, and the receiver's stream waits for
that copy: no host waits for a GPU.
"""

from __future__ import annotations

import pickle
from typing import Any

import torch
from torch import Tensor

from .. import _engine
from ..stage import check_room
from .transfer import Sent, as_tuple

_ALIGNED = 256  # bytes


def _layout(values: tuple) -> tuple[list, int]:
    """Describes each value: a tensor's dtype, shape and offset, or a value that is no tensor; and returns the bytes of all."""
    entries, at = [], 0
    for one in values:
        if not isinstance(one, Tensor):
            entries.append((None, one))
            continue
        entries.append((str(one.dtype).removeprefix("torch."), tuple(one.shape), at))
        at += -(-one.numel() * one.element_size() // _ALIGNED) * _ALIGNED
    return entries, at


def bytes_of(largest: Any) -> int | list[int] | None:
    """Returns the bytes of example values."""
    if isinstance(largest, list):
        return [bytes_of(one) for one in largest]
    return _layout(as_tuple(largest))[1] if isinstance(largest, (Tensor, tuple)) else largest


class FarMemory:
    """Writes and reads the slots of one stage. One thread at a time."""

    def __init__(self, device: torch.device):
        self._device = device
        self._gpu = device.index if device.type == "cuda" else None
        self._out: torch.cuda.Stream | None = None
        self._bytes: dict[int, Tensor] = {}  # by the slot's address

    def _memory(self, slot: _engine.Slot) -> Tensor:
        if not self._bytes and self._gpu is not None:
            torch.cuda.set_device(self._device)  # of the stage's thread: else it would make a context on the first GPU too
        if slot.address not in self._bytes:
            self._bytes[slot.address] = torch.from_dlpack(slot.memory(self._gpu))
        return self._bytes[slot.address]

    def _tensor(self, memory: Tensor, entry: tuple) -> Tensor:
        dtype, shape, at = getattr(torch, entry[0]), entry[1], entry[2]
        size = torch.Size(shape).numel() * dtype.itemsize
        return memory[at : at + size].view(dtype).view(shape)

    def store(self, sent: Any, slot: _engine.Slot) -> None:
        value, ready = (sent.value, sent.ready) if isinstance(sent, Sent) else (sent, {})
        values = as_tuple(value)
        entries, size = _layout(values)
        check_room(size, slot)
        memory = self._memory(slot)
        if self._gpu is None:
            self._copy(values, entries, memory)
        else:
            self._copy_beside(values, entries, memory, ready, slot)
        slot.fill(size, pickle.dumps((isinstance(value, (tuple, list)), entries)))

    def _copy(self, values: tuple, entries: list, memory: Tensor) -> None:
        for one, entry in zip(values, entries):
            if isinstance(one, Tensor):
                self._tensor(memory, entry).copy_(one.detach(), non_blocking=True)

    def _copy_beside(self, values: tuple, entries: list, memory: Tensor, ready: dict, slot: _engine.Slot) -> None:
        if self._out is None:
            self._out = torch.cuda.Stream(self._device)
        for event in ready.values():
            self._out.wait_event(event)
        slot.wait_until_free(self._out.cuda_stream, self._gpu)
        with torch.cuda.stream(self._out):
            self._copy(values, entries, memory)
        slot.mark_ready(self._out.cuda_stream, self._gpu)
        for one in values:
            if isinstance(one, Tensor) and one.is_cuda:
                one.record_stream(self._out)

    def load(self, slot: _engine.Slot) -> Any:
        """Copies the value, because a stage keeps it longer than it holds the slot."""
        several, entries = pickle.loads(slot.note)
        stream = torch.cuda.current_stream(self._device).cuda_stream if self._gpu is not None else 0
        if self._gpu is not None:
            slot.wait_until_ready(stream, self._gpu)
        memory = self._memory(slot)
        values = tuple(one[1] if one[0] is None else self._tensor(memory, one).clone() for one in entries)
        if self._gpu is not None:
            slot.mark_free(stream, self._gpu)
        return values if several else values[0]
