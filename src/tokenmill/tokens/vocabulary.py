"""The spelling of every id, and ids back to text without a loop over them."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

_RUN = 1 << 14  # ids spelled at a time; what this needs then stays in the processor's cache


class Vocabulary(Mapping[int, bytes]):
    """id -> bytes, kept as one run of bytes and two arrays. Ids may have gaps."""

    def __init__(self, spellings: Mapping[int, bytes], *, name: str) -> None:
        if not spellings:
            raise ValueError(f"tokenizer {name} has an empty vocabulary")
        self.name = name
        self.size = max(spellings) + 1
        self._bytes = dict(spellings)
        lengths = np.full(self.size, -1, np.int64)
        ids = np.fromiter(spellings, np.int64, len(spellings))
        lengths[ids] = np.fromiter(map(len, spellings.values()), np.int64, len(spellings))
        self._lengths = lengths
        ordered = b"".join(spellings[i] for i in sorted(spellings))
        self._text = np.frombuffer(ordered, np.uint8)
        self._starts = np.concatenate([[0], np.cumsum(np.maximum(lengths, 0))[:-1]])

    def decode(self, ids: npt.NDArray[np.integer[Any]]) -> bytes:
        """Join the spellings of these ids; an id without one is a ValueError."""
        where = np.asarray(ids).astype(np.int64, copy=False).ravel()
        if where.size == 0:
            return b""
        bad = (where < 0) | (where >= self.size)
        if not bad.any():
            bad = self._lengths[where] < 0
        if bad.any():
            at = int(bad.argmax())
            raise ValueError(
                f"id {int(where[at])} at position {at} is not in the vocabulary of {self.name} "
                f"({self.size:,} ids)"
            )
        runs = (where[i : i + _RUN] for i in range(0, where.size, _RUN))
        return b"".join(self._spell(run) for run in runs)

    def _spell(self, ids: npt.NDArray[np.int64]) -> bytes:
        lengths = self._lengths[ids]
        ends = np.cumsum(lengths)
        places = np.repeat(self._starts[ids] - (ends - lengths), lengths)
        places += np.arange(places.size)
        text: bytes = self._text[places].tobytes()
        return text

    def __getitem__(self, key: int) -> bytes:
        return self._bytes[key]

    def __iter__(self) -> Iterator[int]:
        return iter(self._bytes)

    def __len__(self) -> int:
        return len(self._bytes)
