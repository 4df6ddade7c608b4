"""StatefulTokenLoader as a subclass of torch's DataLoader, for code that accepts nothing else.

`fabric.setup_dataloaders` (Fabric, LitGPT) is such code. A framework that sees a DataLoader may
replace its sampler by one that shares out by rank. It leaves iterable datasets alone, so this is a
DataLoader around one: an iterable that hands on the batches of the loader inside, which has the
workers, takes this rank's share and keeps the position.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.torch.stateful_loader import StatefulTokenLoader
from tokenmill.torch.windows_iterable import refuse_inside_accelerate


class TokenDataLoader(DataLoader[Any]):
    """A DataLoader of whole batches, resumable exactly; arguments as for `StatefulTokenLoader`.

    For LitGPT use `items="window"`: one (batch_size, block_size + 1) tensor, which it cuts itself.
    `fabric.save` and `fabric.load` store and restore the position with the rest of a state.
    """

    @takes_keywords_of(StatefulTokenLoader)
    def __init__(self, data: Any, **options: Any) -> None:
        self.loader = StatefulTokenLoader(data, **options)
        # Its own generator: an iterator would otherwise draw from the global one, and move it.
        batches = _Batches(self.loader)
        super().__init__(batches, batch_size=None, generator=torch.Generator(), collate_fn=_same)

    def state_dict(self) -> dict[str, Any]:
        return self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loader.load_state_dict(state)

    def set_epoch(self, epoch: int) -> None:
        self.loader.set_epoch(epoch)


class _Batches(IterableDataset[Any]):
    def __init__(self, loader: StatefulTokenLoader) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        refuse_inside_accelerate(self.loader.ranks.world_size)
        return iter(self.loader)


def _same(item: Any) -> Any:
    return item
