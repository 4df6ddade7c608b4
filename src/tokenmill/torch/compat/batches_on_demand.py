"""Batches on demand: a loader whose batch size and device may differ from call to call."""

from typing import Any

import torch
from torch import Tensor

from tokenmill.torch.torch_loader import TorchLoader


def pick_device(device: str | torch.device) -> torch.device:
    """`auto` is the GPU if there is one, else the CPU; anything else is taken as said."""
    if str(device) == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


class Drawn:
    """Gives the next rows of the order; no row comes twice in an epoch, none is missed."""

    def __init__(self, data: Any, *, block_size: int, **options: Any) -> None:
        self.data = data
        self._options = {"block_size": block_size, **options}
        self._loader: TorchLoader | None = None
        self._state: dict[str, Any] | None = None

    def next(self, batch_size: int, device: str | torch.device) -> tuple[Tensor, Tensor]:
        """The next `batch_size` rows of this rank as (inputs, targets)."""
        place = pick_device(device)
        loader = self._loader
        if loader is None or (loader.loader.batch_size, loader.device) != (batch_size, place):
            state = self.state_dict() if loader is not None else self._state
            self.close()
            loader = TorchLoader(self.data, batch_size=batch_size, device=place, **self._options)
            if state is not None:
                loader.load_state_dict(state)
            self._loader = loader
        inputs, targets = next(loader)
        return inputs, targets

    def state_dict(self) -> dict[str, Any]:
        """Where the order stands; the state of a BatchLoader."""
        if self._loader is not None:
            return self._loader.state_dict()
        if self._state is None:
            fresh = TorchLoader(self.data, batch_size=1, **self._options, prefetch=0)
            self._state = fresh.state_dict()
        return self._state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state, at once refused if it belongs to other data."""
        self.close()
        self._loader = None
        TorchLoader(self.data, batch_size=1, **self._options, prefetch=0).load_state_dict(state)
        self._state = dict(state)

    def close(self) -> None:
        """End the prefetching thread."""
        if self._loader is not None:
            self._loader.close()
