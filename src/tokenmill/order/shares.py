"""Dividing samples among weighted sources so that every prefix is right, by arithmetic.

How many of the first n samples belong to each source? Drawing at random drifts by sqrt(n); a table
must be stored. Here the sources are the leaves of a Huffman tree of their weights. A node whose
left side has a of b parts sends (n * a + b // 2) // b of its first n samples to the left, the rest
to the right. Both counts never fall and rise by at most one a sample, so each sample has one source
and one number within it, and climbing the tree inverts it exactly.

Each node rounds by at most one half, and a branch of a Huffman tree holds at most two thirds of
the one above, so a source is never further than 2 samples from n * weight, for every n, however
small its weight and however many sources there are. After each full period it is exact.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

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


class _Climb(NamedTuple):
    """A step up to a node, whose first n samples have (n * a + rounding) // b of this side."""

    a: int
    b: int
    rounding: int


def _climbs(node: "_Node | int", above: tuple[_Climb, ...] = ()) -> Iterator[Any]:
    """Yield (source, steps from its leaf to the root) for each source below a node."""
    if isinstance(node, int):
        yield node, above
        return
    a, b, left, right = node
    yield from _climbs(left, (_Climb(a, b, b // 2), *above))
    # n - (n * a + b // 2) // b, as a share of its own
    yield from _climbs(right, (_Climb(b - a, b, b - 1 - b // 2), *above))


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
