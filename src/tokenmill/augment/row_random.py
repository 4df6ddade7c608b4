"""Random numbers of a row: a function of (seed, sample, column), whoever asks and whenever.

Each row has its own stream of 64-bit numbers (splitmix64), which begins at a hash of the seed, of
the place of the augmentation in its list, and of the sample number (augmentation.md). The
number at a column is computed, not reached. tests/promises/test_augmentation_is_frozen.py has them.
"""

import numpy as np

from tokenmill.order.permutation import mix, round_keys

_KEYS_OF_AUGMENTATION = 8  # unlike those of the orders
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the step of splitmix64
_DRAWS = 8  # numbers that a column may ask for
_DRAW_OF_CHOICE = 7  # of these, the one that `chosen` uses
_HALF = np.uint64(32)


class RowRandom:
    """The streams of some rows, for one augmentation of a list."""

    def __init__(self, seed: int, place: int, samples: np.ndarray) -> None:
        first, second = keys_of(seed, place)
        # (rows,) uint64: where the stream of each row begins.
        self._begins = mix(mix(samples.astype(np.uint64) + first) ^ second)

    def bits(self, rows: np.ndarray, columns: np.ndarray, draw: int = 0) -> np.ndarray:
        """64 bits for each of these tokens; `draw`, below 7, tells apart what is drawn for one."""
        count = columns.astype(np.uint64) * np.uint64(_DRAWS) + np.uint64(draw + 1)
        return mix(self._begins[rows] + count * _GOLDEN)

    def uniform(self, length: int, draw: int = 0) -> np.ndarray:
        """(rows, length) floats in [0, 1), for the first columns of every row."""
        rows = np.arange(len(self._begins))[:, None]
        return (self.bits(rows, np.arange(length), draw) >> np.uint64(11)) * 2.0**-53

    def chosen(self, rate: float, length: int) -> np.ndarray:
        """(rows, length) bool: each True with this chance, to within 2^-32.

        One number serves two neighbours, 32 bits each.
        """
        rows = np.arange(len(self._begins))[:, None]
        pairs = np.arange((length + 1) // 2)
        bits = self.bits(rows, pairs, _DRAW_OF_CHOICE).astype("<u8", copy=False)
        return is_below(bits.view("<u4")[:, :length], rate)


def keys_of(seed: int, place: int) -> np.ndarray:
    """The two keys, uint64, of the augmentation at this place of the list."""
    return round_keys(seed, 0, _KEYS_OF_AUGMENTATION, place + 1)[:2]


def chance_of(rate: float) -> int:
    """A rate as a whole number of 2^-32."""
    return round(rate * 2.0**32)


def is_below(bits: np.ndarray, rate: float) -> np.ndarray:
    """True where 32 random bits, as a fraction of 2^32, are below the rate."""
    below: np.ndarray = bits < np.uint64(chance_of(rate))
    return below


def high(bits: np.ndarray) -> np.ndarray:
    """The upper 32 of 64 bits."""
    return (bits >> _HALF).astype(np.uint32)


def below(bits: np.ndarray, limits: np.ndarray | int) -> np.ndarray:
    """A whole number in range(limit) from the lower 32 of 64 bits.

    None is favoured by more than limit / 2^32 of its share: one in 80,000 for 50,000 ids.
    """
    low = bits & np.uint64(0xFFFFFFFF)
    numbers: np.ndarray = (low * np.asarray(limits).astype(np.uint64)) >> _HALF
    return numbers.astype(np.int64)
