"""Shuffle whole blocks of neighbouring windows, then the windows inside a group of blocks.

For cold disks and remote storage: while one group is read, only its blocks are touched, and each
block is one run of bytes. With the defaults and 1024 uint16 tokens a window, a block is 512 KiB and
a group 256 MiB. Larger groups shuffle better; 256 windows a block and 512 blocks a group came out
about as good as a full shuffle in marin's measurements (marin issue 2917).

1. The K windows are cut into blocks of `windows_per_block`, the last one shorter. The blocks are
   put in a shuffled order, one after the other; the short one comes anywhere among them.
2. These K places are cut into groups of `windows_per_block * blocks_per_group` places, the
   last one shorter, and each group is shuffled with keys of its own.

Both steps are bijections for every K, and both are undone by arithmetic.
"""

from dataclasses import dataclass

import numpy as np

from tokenmill.order.permutation import permute, round_keys
from tokenmill.order.windows import check_at_least_one

_KEYS_OF_BLOCKS, _KEYS_OF_GROUP = 2, 3  # unlike each other and those of the other orders


@dataclass(frozen=True)
class Blocks:
    """The order `blocks`; pass an instance as `order=` to choose the two sizes."""

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

    def _shape(self, count: int, keys: np.ndarray) -> tuple[int, int, int]:
        """How many blocks, how many windows the last one has, and which slot it has."""
        num_blocks = -(-count // self.windows_per_block)
        short = count - (num_blocks - 1) * self.windows_per_block
        last = np.array([num_blocks - 1])
        return num_blocks, short, int(permute(last, num_blocks, keys, inverse=True)[0])

    def _within_groups(
        self, place: np.ndarray, count: int, seed: int, epoch: int, *, inverse: bool
    ) -> np.ndarray:
        """Shuffle (or restore) each group of places with keys of its own."""
        size = self.windows_per_block * self.blocks_per_group
        group = place // size
        moved = np.empty(place.shape, np.int64)
        for g in np.unique(group).tolist():
            here = group == g
            first = g * size
            keys = round_keys(seed, epoch, _KEYS_OF_GROUP, g + 1)
            length = min(size, count - first)
            moved[here] = permute(place[here] - first, length, keys, inverse=inverse) + first
        return moved
