"""Values between stages, and copies between the GPUs of one process on streams of their own.

A copy waits for what its sender computed, and what the receiver computes next waits for the copy: nothing else waits. On the stages' own
streams, as `Tensor.to` does it, a copy would also wait for all the work that the receiver has been given before, and the sender's next
work for the copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


def as_tuple(value: Any) -> tuple:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


@dataclass(frozen=True)
class Sent:
    """A value with tensors on GPUs, and when each of these GPUs has computed its tensors."""

    value: Any
    ready: dict[torch.device, torch.cuda.Event]


def _gpus_of(value: Any) -> Iterator[torch.device]:
    for one in as_tuple(value):
        if isinstance(one, Tensor) and one.is_cuda:
            yield one.device


def send(value: Any) -> Any:
    """A tensor, a tuple or list with tensors, or any other object, for `Receiver`: with the current state of the current streams
    of the GPUs it is on."""
    ready = {}
    for device in _gpus_of(value):
        if device not in ready:
            ready[device] = torch.cuda.current_stream(device).record_event()
    return Sent(value, ready) if ready else value


class Receiver:
    """Copies the values of other stages to the device of one stage. One thread at a time."""

    def __init__(self, device: torch.device):
        self._device = device
        self._streams: dict[torch.device, tuple[torch.cuda.Stream, torch.cuda.Stream]] = {}  # by source: there, here

    def receive(self, sent: Any) -> Any:
        """Returns the value that was given to `send`, with its tensors detached and on this device; a list as a tuple."""
        value, ready = (sent.value, sent.ready) if isinstance(sent, Sent) else (sent, {})
        brought = tuple(self._bring(one.detach(), ready) if isinstance(one, Tensor) else one for one in as_tuple(value))
        return brought if isinstance(value, (tuple, list)) else brought[0]

    def _bring(self, tensor: Tensor, ready: dict[torch.device, torch.cuda.Event]) -> Tensor:
        if tensor.device not in ready:
            return tensor.to(self._device, non_blocking=True)
        if tensor.device == self._device:
            torch.cuda.current_stream(self._device).wait_event(ready[tensor.device])
            return tensor
        if not self._device.type == "cuda":
            ready[tensor.device].synchronize()
            return tensor.to(self._device)
        return self._copy(tensor, ready[tensor.device])

    def _copy(self, tensor: Tensor, ready: torch.cuda.Event) -> Tensor:
        source = tensor.device
        if source not in self._streams:
            self._streams[source] = torch.cuda.Stream(source), torch.cuda.Stream(self._device)
        there, here = self._streams[source]
        there.wait_event(ready)
        with torch.cuda.stream(there), torch.cuda.stream(here):
            copy = tensor.to(self._device, non_blocking=True)
        tensor.record_stream(there)  # neither's memory is reused before its last reader has ended
        compute = torch.cuda.current_stream(self._device)
        compute.wait_stream(here)
        copy.record_stream(compute)
        return copy
