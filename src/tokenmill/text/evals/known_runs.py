"""Find the words of test items in texts: every run of 13 words, and shorter passages as a whole.

Runs are looked up by hashes of 64 bits; each hit is then compared word by word. A text costs one
pass: two rolling hashes, of 13 words and of the 5 that a short passage begins with, and a filter of
some bits a run that fits the processor's cache.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tokenmill import kernel
from tokenmill.text.evals.items import LEAST_WORDS, Passage
from tokenmill.text.near.words import OF_WORD, hash_words, mix, words_of

_FILTER_BITS = 16  # for each run


@dataclass(frozen=True)
class KnownRuns:
    """All runs of the passages of some test sets, as arrays."""

    width: int
    hashes: np.ndarray
    """(runs,) uint64, sorted: every different run once."""
    starts: np.ndarray
    """(runs + 1,) where the owners of each run begin."""
    passages: np.ndarray
    """(owners,) the passage that a run is in."""
    positions: np.ndarray
    """(owners,) the word of the passage that it begins with."""
    words: list[list[bytes]]
    """The words of each passage."""

    @classmethod
    def of(cls, passages: Sequence[Passage], width: int) -> "KnownRuns":
        found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for number, passage in enumerate(passages):
            if len(passage.words) < min(LEAST_WORDS, width):
                continue
            runs = _hash_runs(hash_words(passage.words), min(width, len(passage.words)))
            owner = np.full(len(runs), number, np.int64)
            found.append((runs, owner, np.arange(len(runs), dtype=np.int64)))
        hashes, owners, positions = (
            (np.concatenate(arrays) for arrays in zip(*found, strict=True))
            if found
            else (np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))
        )
        order = np.lexsort((positions, owners, hashes))
        different, first = np.unique(hashes[order], return_index=True)
        starts = np.append(first, len(hashes))
        words = [passage.words for passage in passages]
        return cls(width, different, starts, owners[order], positions[order], words)

    def to_bytes(self) -> bytes:
        """Return the arrays as a file of NumPy."""
        file = io.BytesIO()
        joined = [b" ".join(words) for words in self.words]
        np.savez(
            file,
            width=self.width,
            hashes=self.hashes,
            starts=self.starts,
            passages=self.passages,
            positions=self.positions,
            words=np.frombuffer(b"\n".join(joined), np.uint8),
        )
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "KnownRuns":
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            words = [line.split() for line in file["words"].tobytes().split(b"\n")]
            names = ("hashes", "starts", "passages", "positions")
            return cls(int(file["width"]), *(file[name] for name in names), words)

    def find(self, texts: list[bytes]) -> np.ndarray:
        """Return hits, (n, 3) int64: the text, the number of its first word, and the run."""
        if kernel.compiled is not None:
            filter_, runs, heads, sizes, head = self._tables
            found = kernel.compiled.find_runs(texts, self.width, head, filter_, runs, heads, sizes)
            hits = np.frombuffer(found, np.uint64).reshape(-1, 3)
            runs_hit = self.hashes.searchsorted(hits[:, 2])
            hits = np.stack([hits[:, 0], hits[:, 1], runs_hit.astype(np.uint64)], axis=1)
            hits = hits.astype(np.int64)
        else:
            hits = self._find_slowly(texts)
        return self._verified(texts, hits)

    def size_of(self, run: int) -> int:
        """Words of a run."""
        return min(self.width, len(self.words[self.passages[self.starts[run]]]))

    def _find_slowly(self, texts: list[bytes]) -> np.ndarray:
        found = [np.empty((0, 3), np.int64)]
        sizes = {self.width, *map(len, self._short)}
        for number, text in enumerate(texts):
            words = hash_words(words_of(text))
            for size in sorted(size for size in sizes if size <= len(words)):
                runs = _hash_runs(words, size)
                (at,) = np.nonzero(np.isin(runs, self.hashes))
                run = self.hashes.searchsorted(runs[at])
                found.append(np.stack([np.full(len(at), number), at, run], axis=1))
        return np.concatenate(found)

    def _verified(self, texts: list[bytes], hits: np.ndarray) -> np.ndarray:
        """Return the hits whose words are those of the run."""
        is_same = np.zeros(len(hits), np.bool_)
        words_at: dict[int, list[bytes]] = {}
        for at, (text, word, run) in enumerate(hits.tolist()):
            if text not in words_at:
                words_at = {text: words_of(texts[text])}
            owner = self.starts[run]
            begin = int(self.positions[owner])
            size = self.size_of(run)
            wanted = self.words[self.passages[owner]][begin : begin + size]
            is_same[at] = words_at[text][word : word + size] == wanted
        return hits[is_same]

    @cached_property
    def _short(self) -> list[list[bytes]]:
        """Passages that are looked for as a whole."""
        least = min(LEAST_WORDS, self.width)
        return [words for words in self.words if least <= len(words) < self.width]

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
        """The tables of the kernel."""
        beginnings: dict[int, int] = {}
        for words in self._short:
            (begin,) = _hash_runs(hash_words(words[:LEAST_WORDS]), LEAST_WORDS).tolist()
            beginnings[begin] = beginnings.get(begin, 0) | 1 << len(words)
        heads = np.fromiter(beginnings, np.uint64, len(beginnings))
        head_table, places = _as_table(heads)
        sizes = np.zeros(len(head_table), np.uint32)
        sizes[places] = list(beginnings.values())
        run_table, _ = _as_table(self.hashes)
        both = np.concatenate((self.hashes, heads))
        num_words = 1 << (len(both) * _FILTER_BITS // 64).bit_length()
        bits = (both >> np.uint64(20)) & np.uint64(64 * num_words - 1)
        filter_ = np.zeros(num_words, np.uint64)
        np.bitwise_or.at(filter_, (bits >> np.uint64(6)).astype(np.intp), _bit(bits))
        return filter_, run_table, head_table, sizes, LEAST_WORDS if len(heads) else 0


def _bit(bits: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.uint64(1) << (bits & np.uint64(63))
    return found


def _hash_runs(words: np.ndarray, width: int) -> np.ndarray:
    """Return the hash of each run of `width` words, of which there is one at least."""
    sums = np.zeros(len(words) - width + 1, np.uint64)
    for at in range(width):
        sums = sums * np.uint64(OF_WORD) + words[at : at + len(sums)]
    return mix(sums)


def _as_table(numbers: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Return a table of open addressing, at most half full, and the place of each number."""
    room = 1 << (2 * len(numbers) + 1).bit_length()
    table = [0] * room
    places = []
    for number in numbers.tolist():
        number = number or 1
        place = number & (room - 1)
        while table[place]:
            place = (place + 1) & (room - 1)
        table[place] = number
        places.append(place)
    return np.array(table, np.uint64), places
