"""Token blocks to the GPU: pinned, on a stream of their own, in the width of the file.

A block of uint16 ids is a quarter of the bytes of int64, and the bus is the bottleneck: so the
bits travel as they are (as int16, since torch computes on few unsigned types) and are widened on
the device. Two pinned buffers take turns; one is written again only after the event of its last
copy has passed. The stream that uses the tensors waits for that event and not the CPU.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

# ids of this dtype travel as -> and are masked, after widening, with
_BITS: dict[str, tuple[Any, int]] = {
    "uint8": (np.uint8, 0xFF),
    "int8": (np.int8, 0xFF),
    "uint16": (np.int16, 0xFFFF),
    "int16": (np.int16, 0xFFFF),
    "uint32": (np.int32, 0xFFFFFFFF),
    "int32": (np.int32, 0xFFFFFFFF),
    "int64": (np.int64, -1),
}
NUM_BUFFERS = 2


def widen(bits: Tensor, dtype: str) -> Tensor:
    """Signed bits of ids, on any device, as int64 ids."""
    return bits.to(torch.int64) & _BITS[dtype][1]


def bits_of(block: np.ndarray) -> Tensor:
    """The ids of a block as a tensor of signed integers of the same width, without a copy."""
    return torch.from_numpy(block.view(_BITS[block.dtype.name][0]))


class CudaCopier:
    """Copies blocks of one shape to one device, ahead of their use."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pinned: list[Tensor | None] = [None] * NUM_BUFFERS
        self._done: list[torch.cuda.Event | None] = [None] * NUM_BUFFERS
        self._next = 0

    def start(self, block: np.ndarray) -> tuple[Tensor, torch.cuda.Event]:
        """Begin the copy of a block; the tensor is whole once the event has passed."""
        slot = self._next
        self._next = (self._next + 1) % NUM_BUFFERS
        bits = bits_of(block)
        pinned = self._pinned[slot]
        done = self._done[slot]
        if done is not None:
            done.synchronize()  # the copy before last: long past
        if pinned is None or pinned.shape != bits.shape or pinned.dtype != bits.dtype:
            pinned = self._pinned[slot] = torch.empty_like(bits).pin_memory()
        pinned.copy_(bits)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._stream):
            ids = widen(pinned.to(self.device, non_blocking=True), block.dtype.name)
            event.record(self._stream)
        self._done[slot] = event
        return ids, event

    def finish(self, ids: Tensor, event: torch.cuda.Event) -> Tensor:
        """Make the stream in use wait for the copy, and keep its memory until it is used."""
        current = torch.cuda.current_stream(self.device)
        current.wait_event(event)
        ids.record_stream(current)
        return ids
