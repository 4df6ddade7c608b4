"""Which source each sample of a mixture comes from, and which of its samples it is.

Drawing at random drifts by sqrt(n); a table must be stored. Here the sources are the leaves of a
Huffman tree of their weights (order.md, "Mixtures"). The counts of both sides of a node never
fall and rise by at most one a sample, so climbing the tree inverts it exactly. Each node rounds by
at most one half, and a branch holds at most two thirds of the one above, so a source is never
further than 2 samples from n * weight, for every n.

Samples are shuffled in blocks of 64; otherwise a rank with a fixed place in every step could meet
the same source for ever. Where an edit ends a stage that was to be longer, its last block stays
dealt as it was: part of it may have been served.
"""

import functools
import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tokenmill.order.order import Order, SourceOrder
from tokenmill.order.permutation import mix, round_keys
from tokenmill.order.spans import groups_of

SAMPLES_PER_BLOCK = 64
ENDLESS = 1 << 62
_KEYS_OF_MIXTURE = 5
_SLOT_BITS = np.uint64(SAMPLES_PER_BLOCK - 1)
_MOST_PARTS = (1 << 31) - 1  # products of two numbers of parts stay within int64


def whole_parts(weights: Sequence[float | int | Fraction]) -> tuple[int, ...]:
    """The weights as whole numbers in the same proportions, as they are written in decimal.

    Proportions finer than one part in 2^31 are rounded to that; a weight that would round to
    nothing is refused.

    >>> whole_parts([0.7, 0.2, 0.1])
    (7, 2, 1)
    """
    try:
        exact = [w if isinstance(w, Fraction) else Fraction(str(w)) for w in weights]
    except ValueError:
        raise ValueError(f"weights are {list(weights)}; each must be a finite number") from None
    if not exact or any(w < 0 for w in exact) or not sum(exact):
        raise ValueError(f"weights are {list(weights)}; none may be negative and one must be more")
    common = math.lcm(*(w.denominator for w in exact))
    parts = [int(w * common) for w in exact]
    divisor = math.gcd(*parts)
    parts = [p // divisor for p in parts]
    if sum(parts) > _MOST_PARTS:
        scale = Fraction(_MOST_PARTS - len(parts), sum(parts))
        rounded = [round(p * scale) for p in parts]
        for weight, was, now in zip(weights, parts, rounded, strict=True):
            if was and not now:
                raise ValueError(f"weight {weight} is less than one part in 2^31 of the sum")
        parts = rounded
    return tuple(parts)


class _Node(NamedTuple):
    """An inner node of the tree: `left` has `a` of its `b` parts."""

    a: int
    b: int
    left: "_Node | int"
    right: "_Node | int"


def _climbs(node: "_Node | int", above: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Yield (source, steps from its leaf to the root) for each source below a node.

    A step is (a, b, rounding): of the first n samples of a node this side has
    (n * a + rounding) // b.
    """
    if isinstance(node, int):
        yield node, above
        return
    a, b, left, right = node
    yield from _climbs(left, ((a, b, b // 2), *above))
    # n - (n * a + b // 2) // b, as a share of its own
    yield from _climbs(right, ((b - a, b, b - 1 - b // 2), *above))


class Shares:
    """An endless division of sample numbers 0, 1, 2, ... among sources."""

    def __init__(self, parts: Sequence[int]) -> None:
        self.parts = tuple(parts)
        # Ties go to the source named first, so that equal weights always give the same tree.
        heap: list[tuple[int, int, _Node | int]] = [
            (part, source, source) for source, part in enumerate(parts) if part
        ]
        heapq.heapify(heap)
        while len(heap) > 1:
            small, first, right = heapq.heappop(heap)
            large, second, left = heapq.heappop(heap)
            common = math.gcd(small, large)
            node = _Node(large // common, (small + large) // common, left, right)
            heapq.heappush(heap, (small + large, min(first, second), node))
        self._root = heap[0][2]
        self._climbs = dict(_climbs(self._root))

    def locate(self, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The source of each sample number, and which number it is within that source."""
        source = np.empty(n.shape, np.int64)
        index = np.empty(n.shape, np.int64)
        # Walk down the tree with whole groups: (node, which of n, their numbers at this node).
        todo = [(self._root, np.arange(n.size), n.astype(np.int64))]
        while todo:
            node, where, number = todo.pop()
            if isinstance(node, int):
                source[where] = node
                index[where] = number
                continue
            before = _share_of_left(number, node)
            goes_left = _share_of_left(number + 1, node) > before
            todo.append((node.left, where[goes_left], before[goes_left]))
            todo.append((node.right, where[~goes_left], (number - before)[~goes_left]))
        return source, index

    def number_of(self, source: int, index: np.ndarray) -> np.ndarray:
        """The sample number that is the index-th of a source: the inverse of `locate`."""
        number = index.astype(np.int64)
        for a, b, rounding in self._climbs[source]:
            # The smallest number with share(number + 1) > index; the share repeats every b.
            whole, rest = np.divmod(number, a)
            number = whole * b - (-((rest + 1) * b - rounding) // a) - 1
        return number

    def counts(self, n: int) -> list[int]:
        """How many of the first n samples each source has."""
        counts = [0] * len(self.parts)
        for source, climb in self._climbs.items():
            count = n
            for a, b, rounding in reversed(climb):
                count = (count * a + rounding) // b
            counts[source] = count
        return counts


def _share_of_left(n: np.ndarray, node: _Node) -> np.ndarray:
    """(n * a + b // 2) // b without overflow."""
    whole, rest = np.divmod(n, node.b)
    share: np.ndarray = whole * node.a + (rest * node.a + node.b // 2) // node.b
    return share


class MixtureStage(NamedTuple):
    """Weights (as whole parts, one a source) that hold from a sample number on."""

    start: int
    parts: tuple[int, ...]


@dataclass(frozen=True)
class DealtStage:
    """A stage whose samples are dealt to its sources, in blocks that end where it was to end."""

    start: int
    parts: tuple[int, ...]
    end: int
    """Where it was to end; an edit may end it earlier."""
    number: int
    """How many stages are before it."""
    before: tuple[int, ...]
    """Samples of each source before this stage."""
    seed: int

    @functools.cached_property
    def _shares(self) -> Shares:
        return Shares(self.parts)

    def deal(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The source of each sample, and which sample of that source it is."""
        block, slot = np.divmod(samples - self.start, SAMPLES_PER_BLOCK)
        blocks, row = np.unique(block, return_inverse=True)
        sources, indices = self._deal_blocks(blocks)
        return sources[row, slot], indices[row, slot]

    def samples_of(self, source: int, index: np.ndarray) -> np.ndarray:
        """The sample number that is the index-th of a source, or -1 if none ever is."""
        if not self.parts[source]:
            return np.full(index.shape, -1, np.int64)
        block = self._shares.number_of(source, index - self.before[source]) // SAMPLES_PER_BLOCK
        blocks, row = np.unique(block, return_inverse=True)
        sources, indices = self._deal_blocks(blocks)
        # Which of the 64 slots of its block holds it.
        hit = (sources[row] == source) & (indices[row] == index[:, None])
        samples: np.ndarray = self.start + block * SAMPLES_PER_BLOCK + hit.argmax(axis=1)
        return samples

    def counts_before(self, sample: int) -> tuple[int, ...]:
        """How many samples of each source come before this sample number."""
        whole, rest = divmod(sample - self.start, SAMPLES_PER_BLOCK)
        counts = np.array(self.before) + self._shares.counts(whole * SAMPLES_PER_BLOCK)
        if rest:
            sources, _ = self._deal_blocks(np.array([whole]))
            counts += np.bincount(sources[0, :rest], minlength=len(counts))
        return tuple(counts.tolist())

    def _deal_blocks(self, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sources and their sample numbers in whole blocks: two (blocks, 64) arrays."""
        number = blocks[:, None] * SAMPLES_PER_BLOCK + np.arange(SAMPLES_PER_BLOCK)
        numbered = number.astype(np.uint64)
        # Sort by a hash with the slot in its lowest bits; slots past the stage's end stay last.
        keys = round_keys(self.seed, self.number, _KEYS_OF_MIXTURE)
        ticket = mix(mix(numbered + keys[0]) ^ keys[1]) >> np.uint64(1)
        ticket[number >= self.end - self.start] = ~np.uint64(0)
        ticket = np.sort((ticket & ~_SLOT_BITS) | (numbered & _SLOT_BITS), axis=1)
        dealt = blocks[:, None] * SAMPLES_PER_BLOCK + (ticket & _SLOT_BITS).astype(np.int64)

        source, index = self._shares.locate(dealt.reshape(-1))
        source = source.reshape(number.shape)
        index = index.reshape(number.shape)
        # Shuffled in the block, the samples of a source still count up: n-th seen, n-th number.
        for s in np.unique(source).tolist():
            mine = source == s
            first = np.where(mine, index, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
            index = np.where(mine, first + mine.cumsum(axis=1) - 1, index)
        return source, index + np.array(self.before)[source]


def deal_stages(stages: Sequence[MixtureStage], seed: int) -> list[DealtStage]:
    """Deal the stages of a schedule, each up to the next one."""
    dealt: list[DealtStage] = []
    ends = [*(stage.start for stage in stages[1:]), ENDLESS]
    for number, ((start, parts), end) in enumerate(zip(stages, ends, strict=True)):
        before = dealt[-1].counts_before(start) if dealt else (0,) * len(parts)
        dealt.append(DealtStage(start, parts, end, number, before, seed))
    return dealt


class MixtureOrder(Order):
    """An order that deals its samples to the orders of several sources, in stages from 0 on."""

    def __init__(self, sources: Sequence[SourceOrder], stages: Sequence[DealtStage]) -> None:
        self._sources = tuple(sources)
        self.block_size = sources[0].block_size
        self.spans_per_row = max(source.spans_per_row for source in sources)
        self._stages = stages
        self._starts = np.array([stage.start for stage in stages], np.int64)

    @property
    def sources(self) -> Sequence[SourceOrder]:
        return self._sources

    def deal(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        flat = samples.reshape(-1)
        source = np.empty(flat.shape, np.int64)
        index = np.empty(flat.shape, np.int64)
        stages = np.searchsorted(self._starts, flat, side="right") - 1
        for stage, here in groups_of(stages):
            source[here], index[here] = self._stages[stage].deal(flat[here])
        return source.reshape(samples.shape), index.reshape(samples.shape)

    def samples_of(self, source: int, index: np.ndarray) -> np.ndarray:
        samples = np.empty(index.shape, np.int64)
        before = [stage.before[source] for stage in self._stages]
        stages = np.searchsorted(before, index, side="right") - 1
        for stage, here in groups_of(stages):
            samples[here] = self._stages[stage].samples_of(source, index[here])
        return samples

    def counts_before(self, sample: int) -> list[int]:
        stage = int(np.searchsorted(self._starts, sample, side="right")) - 1
        return list(self._stages[stage].counts_before(sample))
