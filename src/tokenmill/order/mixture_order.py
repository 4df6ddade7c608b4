"""Which source each sample of a mixture comes from, and which of its samples it is.

Samples are dealt in blocks of 64. How many of a block each source gets follows from the running
shares (shares.py): at every edge of a block each source is within 2 samples of its weight times the
samples so far, for ever, so tiny weights come out right over longer stretches. Where in a block the
samples of a source are is shuffled by a key and the number of the block; otherwise a rank with a
fixed place in every step could meet the same source for ever. Within a block the samples of a
source keep their order, so every source runs through its own epochs exactly, one after the other.

A schedule is a list of stages, each with weights of its own from a sample number on. Blocks and
shares begin again with a stage; the counts of the sources continue. Nothing is stored but one row
of counts a stage.

The last block of a stage is dealt to the end of the stage. Where an edit ends a stage that was to
be longer, its last block stays dealt as it was: part of it may have been served.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tokenmill.order.order import Order, SourceOrder
from tokenmill.order.permutation import mix, round_keys
from tokenmill.order.shares import Shares

SAMPLES_PER_BLOCK = 64
ENDLESS = 1 << 62
_KEYS_OF_MIXTURE = 5
_SLOT_BITS = np.uint64(SAMPLES_PER_BLOCK - 1)


class MixtureStage(NamedTuple):
    """Weights (as whole parts, one a source) that hold from a sample number on."""

    start: int
    parts: tuple[int, ...]
    dealt_to: int | None = None
    """Where the stage was to end, if an edit ended it earlier; None: where the next one begins."""


class Deal:
    """Sample number <-> (source, number within the source); stages start at 0 and rise."""

    def __init__(self, stages: Sequence[MixtureStage], *, seed: int) -> None:
        starts = [stage.start for stage in stages]
        self.num_sources = len(stages[0].parts)
        self._keys = [round_keys(seed, stage, _KEYS_OF_MIXTURE) for stage in range(len(stages))]
        self._starts = np.array(starts, np.int64)
        self._shares = [Shares(stage.parts) for stage in stages]
        ends = [
            (end if stage.dealt_to is None else stage.dealt_to)
            for stage, end in zip(stages, [*starts[1:], ENDLESS], strict=True)
        ]
        self._lengths = [end - start for start, end in zip(starts, ends, strict=True)]
        self._before = np.zeros((len(stages), self.num_sources), np.int64)  # before each stage
        for stage, (start, end) in enumerate(pairwise(starts)):
            counts = self._counts_in(stage, end - start)
            self._before[stage + 1] = self._before[stage] + counts

    def deal(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The source of each sample, and which sample of that source it is."""
        flat = samples.reshape(-1)
        source = np.empty(flat.shape, np.int64)
        index = np.empty(flat.shape, np.int64)
        stages = np.searchsorted(self._starts, flat, side="right") - 1
        for stage in np.unique(stages).tolist():
            here = np.flatnonzero(stages == stage)
            block, slot = np.divmod(flat[here] - self._starts[stage], SAMPLES_PER_BLOCK)
            blocks, row = np.unique(block, return_inverse=True)
            sources, indices = self._deal_blocks(stage, blocks)
            source[here] = sources[row, slot]
            index[here] = indices[row, slot]
        return source.reshape(samples.shape), index.reshape(samples.shape)

    def samples_of(self, source: int, index: np.ndarray) -> np.ndarray:
        """The sample number that is the index-th of a source, or -1 if none ever is."""
        found = np.full(index.shape, -1, np.int64)
        stages = np.searchsorted(self._before[:, source], index, side="right") - 1
        for stage in np.unique(stages).tolist():
            if not self._shares[stage].parts[source]:
                continue
            here = np.flatnonzero(stages == stage)
            within = index[here] - self._before[stage, source]
            block = self._shares[stage].number_of(source, within) // SAMPLES_PER_BLOCK
            blocks, row = np.unique(block, return_inverse=True)
            sources, indices = self._deal_blocks(stage, blocks)
            # Which of the 64 slots of its block holds it.
            hit = (sources[row] == source) & (indices[row] == index[here][:, None])
            found[here] = self._starts[stage] + block * SAMPLES_PER_BLOCK + hit.argmax(axis=1)
        return found

    def counts_before(self, sample: int) -> list[int]:
        """How many samples of each source come before this sample number."""
        stage = int(np.searchsorted(self._starts, sample, side="right")) - 1
        counts = self._before[stage] + self._counts_in(stage, sample - int(self._starts[stage]))
        return [int(count) for count in counts]

    def _counts_in(self, stage: int, number: int) -> np.ndarray:
        """How many samples each source has among the first ones of a stage."""
        whole, rest = divmod(number, SAMPLES_PER_BLOCK)
        counts = np.array(self._shares[stage].counts(whole * SAMPLES_PER_BLOCK), np.int64)
        if rest:
            sources, _ = self._deal_blocks(stage, np.array([whole]))
            counts += np.bincount(sources[0, :rest], minlength=self.num_sources)
        return counts

    def _deal_blocks(self, stage: int, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sources and their sample numbers in whole blocks of a stage: two (blocks, 64) arrays."""
        number = blocks[:, None] * SAMPLES_PER_BLOCK + np.arange(SAMPLES_PER_BLOCK)
        numbered = number.astype(np.uint64)
        # Sort by a hash with the slot in its lowest bits; slots past the stage's end stay last.
        keys = self._keys[stage]
        ticket = mix(mix(numbered + keys[0]) ^ keys[1]) >> np.uint64(1)
        ticket[number >= self._lengths[stage]] = ~np.uint64(0)
        ticket = np.sort((ticket & ~_SLOT_BITS) | (numbered & _SLOT_BITS), axis=1)
        dealt = blocks[:, None] * SAMPLES_PER_BLOCK + (ticket & _SLOT_BITS).astype(np.int64)

        source, index = self._shares[stage].locate(dealt.reshape(-1))
        source = source.reshape(number.shape)
        index = index.reshape(number.shape)
        # Shuffled in the block, the samples of a source still count up: n-th seen, n-th number.
        for s in np.unique(source).tolist():
            mine = source == s
            first = np.where(mine, index, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
            index = np.where(mine, first + mine.cumsum(axis=1) - 1, index)
        return source, index + self._before[stage][source]


class MixtureOrder(Deal, Order):
    """An order that deals its samples to the orders of several sources."""

    def __init__(
        self, sources: Sequence[SourceOrder], stages: Sequence[MixtureStage], *, seed: int
    ) -> None:
        super().__init__(stages, seed=seed)
        self._sources = tuple(sources)
        self.block_size = sources[0].block_size
        self.spans_per_row = max(source.spans_per_row for source in sources)

    @property
    def sources(self) -> Sequence[SourceOrder]:
        return self._sources
