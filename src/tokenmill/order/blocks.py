"""Shuffle whole blocks of neighbouring windows, then the windows inside a group of blocks.

For cold disks and remote storage: while one group is read, only its blocks are touched, and each
block is one run of bytes. Larger groups, and more blocks in them, shuffle better. order.md has
the steps; all are bijections for any number of windows, and are undone by arithmetic.

`ShardBlocks`, the order `blocks`: a block is a shard, or an equal part of a large one, so that each
byte is read once in an epoch. Blocks differ in size: a table has one number for each.

`Blocks(256, 512)`: blocks of one size, wherever the shards end. It came out about as good as a full
shuffle in marin's measurements (marin issue 2917), but such a group touches up to 513 shards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tokenmill.base.suggest import check_at_least_one
from tokenmill.order.order import Locality
from tokenmill.order.permutation import permute, round_keys
from tokenmill.order.spans import groups_of
from tokenmill.order.window_order import Windows

MOST_TOKENS = 1 << 24
GROUP_TOKENS = 1 << 27
LEAST_BLOCKS = 16
_KEYS_OF_BLOCKS = 2
_KEYS_OF_GROUP = 3  # unlike each other and those of the other orders


@dataclass(frozen=True)
class Blocks:
    """The order `blocks` with sizes of your own: pass an instance as `order=`."""

    windows_per_block: int = 256
    blocks_per_group: int = 512

    def __post_init__(self) -> None:
        check_at_least_one(**vars(self))

    @property
    def name(self) -> str:
        return f"blocks({self.windows_per_block}, {self.blocks_per_group})"

    def window_at(self, position: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        place = self._within_groups(position, count, seed, epoch, inverse=False)
        keys = round_keys(seed, epoch, _KEYS_OF_BLOCKS)
        num_blocks, short, slot_of_short = self._shape(count, keys)
        # After the short block all places move up, as if it were a full one.
        place += (place >= slot_of_short * self.windows_per_block + short) * (
            self.windows_per_block - short
        )
        slot, inside = np.divmod(place, self.windows_per_block)
        window: np.ndarray = permute(slot, num_blocks, keys) * self.windows_per_block + inside
        return window

    def position_of(self, window: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        keys = round_keys(seed, epoch, _KEYS_OF_BLOCKS)
        num_blocks, short, slot_of_short = self._shape(count, keys)
        block, inside = np.divmod(window, self.windows_per_block)
        slot = permute(block, num_blocks, keys, inverse=True)
        place = slot * self.windows_per_block + inside
        place -= (slot > slot_of_short) * (self.windows_per_block - short)
        return self._within_groups(place, count, seed, epoch, inverse=True)

    def locality(self, block_size: int) -> Locality:
        return Locality(self.blocks_per_group, self.windows_per_block * block_size)

    def _shape(self, count: int, keys: np.ndarray) -> tuple[int, int, int]:
        """How many blocks, how many windows the last one has, and which slot it has."""
        num_blocks = -(-count // self.windows_per_block)
        short = count - (num_blocks - 1) * self.windows_per_block
        last = np.array([num_blocks - 1])
        return num_blocks, short, int(permute(last, num_blocks, keys, inverse=True)[0])

    def _within_groups(
        self, place: np.ndarray, count: int, seed: int, epoch: int, *, inverse: bool
    ) -> np.ndarray:
        size = self.windows_per_block * self.blocks_per_group

        def edge(group: int) -> int:
            return min(group * size, count)

        return _shuffle_groups(place, place // size, edge, seed, epoch, inverse)


class ShardBlocks:
    """Blocks of windows between `edges`, the first window of each block and the number of all."""

    name = "blocks"

    def __init__(self, edges: np.ndarray, blocks_per_group: int) -> None:
        self.edges = edges
        self.blocks_per_group = blocks_per_group
        self._of_epoch: tuple[tuple[int, int], np.ndarray, np.ndarray] | None = None

    @classmethod
    def of(cls, shards: Sequence[int] | np.ndarray, windows: Windows) -> "ShardBlocks":
        """Build the blocks for shards of the given sizes, in tokens."""
        sizes = np.asarray(shards, np.int64)
        parts = np.maximum(1, -(-sizes // MOST_TOKENS))
        shard = np.arange(len(sizes)).repeat(parts)
        part = np.arange(len(shard)) - (parts.cumsum() - parts)[shard]
        starts = (sizes.cumsum() - sizes)[shard] + part * sizes[shard] // parts[shard]
        first_windows = np.minimum(-(-starts // windows.block_size), windows.count)
        edges = np.unique(np.append(first_windows, windows.count))
        largest = int((-(-sizes // parts)).max(initial=1))
        return cls(edges, max(LEAST_BLOCKS, -(-GROUP_TOKENS // largest)))

    def locality(self, block_size: int) -> Locality:
        return Locality(self.blocks_per_group, int(np.diff(self.edges).max()) * block_size)

    def window_at(self, position: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        blocks, places = self._slots(seed, epoch)
        place = self._within_groups(position, places, seed, epoch, inverse=False)
        slot = np.searchsorted(places, place, side="right") - 1
        window: np.ndarray = self.edges[blocks[slot]] + (place - places[slot])
        return window

    def position_of(self, window: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        _, places = self._slots(seed, epoch)
        block = np.searchsorted(self.edges, window, side="right") - 1
        keys = round_keys(seed, epoch, _KEYS_OF_BLOCKS)
        slot = permute(block, len(self.edges) - 1, keys, inverse=True)
        place = places[slot] + (window - self.edges[block])
        return self._within_groups(place, places, seed, epoch, inverse=True)

    def _slots(self, seed: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The blocks in the order of an epoch; the first place of each, and the number of all."""
        if self._of_epoch is None or self._of_epoch[0] != (seed, epoch):
            count = len(self.edges) - 1
            blocks = permute(np.arange(count), count, round_keys(seed, epoch, _KEYS_OF_BLOCKS))
            places = np.append(0, np.diff(self.edges)[blocks].cumsum())
            self._of_epoch = (seed, epoch), blocks, places
        return self._of_epoch[1:]

    def _within_groups(
        self, place: np.ndarray, places: np.ndarray, seed: int, epoch: int, *, inverse: bool
    ) -> np.ndarray:
        edges = np.append(places[: -1 : self.blocks_per_group], places[-1])
        group = np.searchsorted(edges, place, side="right") - 1
        return _shuffle_groups(place, group, edges.item, seed, epoch, inverse)


def _shuffle_groups(
    place: np.ndarray,
    group: np.ndarray,
    edge: Callable[[int], int],
    seed: int,
    epoch: int,
    inverse: bool,
) -> np.ndarray:
    """Shuffle (or restore) each group of places, edge(g) .. edge(g + 1) - 1, with its own keys."""
    moved = np.empty(place.shape, np.int64)
    for g, here in groups_of(group):
        first = edge(g)
        size = edge(g + 1) - first
        keys = round_keys(seed, epoch, _KEYS_OF_GROUP, g + 1)
        moved[here] = permute(place[here] - first, size, keys, inverse=inverse) + first
    return moved
