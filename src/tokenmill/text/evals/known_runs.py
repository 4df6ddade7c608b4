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
from tokenmill.text.near.word_runs import hash_words, join_words, words_of

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
        """Number the runs of `width` words of all passages, and short passages as a whole."""
        words = [passage.words for passage in passages]
        sizes = np.fromiter(map(len, words), np.int64, len(words))
        owners = np.repeat(np.arange(len(words)), sizes)
        positions = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        all_words = hash_words([word for some in words for word in some])
        found = []
        for size in range(min(LEAST_WORDS, width), width + 1):
            fits = positions + size <= sizes[owners]
            if size < width:
                fits &= sizes[owners] == size
            (at,) = np.nonzero(fits)
            if len(at):
                found.append((join_words(all_words, size)[at], owners[at], positions[at]))
        empty = (np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))
        hashes, owners, positions = map(np.concatenate, zip(empty, *found, strict=True))
        order = np.lexsort((positions, owners, hashes))
        different, first = np.unique(hashes[order], return_index=True)
        starts = np.append(first, len(hashes))
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
            arrays = {name: file[name] for name in ("hashes", "starts", "passages", "positions")}
            return cls(width=int(file["width"]), words=words, **arrays)

    def find(self, texts: list[bytes]) -> np.ndarray:
        """Return hits, (n, 3) int64: the text, the number of its first word, and the run."""
        if kernel.compiled is not None:
            filter_, runs, heads, sizes, head = self._tables
            found = kernel.compiled.find_runs(texts, self.width, head, filter_, runs, heads, sizes)
            hits = np.frombuffer(found, np.uint64).reshape(-1, 3).copy()
            hits[:, 2] = self.hashes.searchsorted(hits[:, 2])
            hits = hits.astype(np.int64)
        else:
            hits = self._find_slowly(texts)
        found_hits: np.ndarray = hits[self._are_same(texts, hits)]
        return found_hits

    def size_of(self, run: int) -> int:
        """Words of a run."""
        return min(self.width, len(self.words[self.passages[self.starts[run]]]))

    def _find_slowly(self, texts: list[bytes]) -> np.ndarray:
        found = [np.empty((0, 3), np.int64)]
        sizes = {self.width, *map(len, self._short)}
        for number, text in enumerate(texts):
            words = hash_words(words_of(text))
            for size in sorted(size for size in sizes if size <= len(words)):
                runs = join_words(words, size)
                (at,) = np.nonzero(np.isin(runs, self.hashes))
                run = self.hashes.searchsorted(runs[at])
                found.append(np.stack([np.full(len(at), number), at, run], axis=1))
        return np.concatenate(found)

    def _are_same(self, texts: list[bytes], hits: np.ndarray) -> np.ndarray:
        """Return a mask of the hits whose words are those of the run, compared one by one."""
        owners = self.starts[hits[:, 2]]
        places = zip(self.passages[owners].tolist(), self.positions[owners].tolist(), strict=True)
        is_same = []
        last, words = -1, list[bytes]()
        for (number, first, _), (passage, begin) in zip(hits.tolist(), places, strict=True):
            if number != last:
                last, words = number, words_of(texts[number])
            wanted = self.words[passage][begin : begin + self.width]
            is_same.append(words[first : first + len(wanted)] == wanted)
        return np.array(is_same, np.bool_)

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
            (begin,) = join_words(hash_words(words[:LEAST_WORDS]), LEAST_WORDS).tolist()
            beginnings[begin] = beginnings.get(begin, 0) | 1 << len(words)
        heads = np.fromiter(beginnings, np.uint64, len(beginnings))
        head_table, places = _as_table(heads)
        sizes = np.zeros(len(head_table), np.uint32)
        sizes[places] = np.fromiter(beginnings.values(), np.uint32, len(beginnings))
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


def _as_table(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a table of open addressing, at most half full, and the place of each number."""
    table = np.zeros(1 << (2 * len(numbers) + 1).bit_length(), np.uint64)
    numbers = np.maximum(numbers, np.uint64(1))  # 0 marks what is free
    mask = np.uint64(len(table) - 1)
    places = (numbers & mask).astype(np.intp)
    waiting = np.arange(len(numbers))
    while len(waiting):
        free = waiting[table[places[waiting]] == 0]
        table[places[free]] = numbers[free]  # of several at one place, the last stays
        waiting = waiting[table[places[waiting]] != numbers[waiting]]
        places[waiting] = (places[waiting] + 1) & (len(table) - 1)
    return table, places
