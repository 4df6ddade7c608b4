"""Where documents end on the axis of a dataset: from an index, or by looking for an id.

A position e is an end when token e - 1 is the last of a document. Without an index, ends are found
by scanning for the end-of-text id, which comes `after` each document (ours, nanoGPT, datatrove) or
`before` it (llm.c); how many each block of tokens has is remembered. Tokens after the last end (a
document that a split cut) are one more document: every token belongs to exactly one.
"""

import itertools
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable

import numpy as np
import xxhash

from tokenmill.errors import CorruptShardError
from tokenmill.order.spans import groups_of, runs
from tokenmill.reading.shard_reader import MAX_OPEN, RecentlyUsed, ShardReader
from tokenmill.reading.token_file import check_hash

BLOCK = 1 << 22  # tokens a scan looks at in one go: 8 MB of uint16
OTHER_BUILD = "index and tokens are of different builds; fetch or write both again"


class Documents(ABC):
    """Where documents end: a table of ends for each stretch of the axis, loaded when needed."""

    def __init__(self, edges: np.ndarray) -> None:
        """`edges`: where the stretches begin, and where the last one ends."""
        self._starts = edges
        self._tables = RecentlyUsed(self._load, MAX_OPEN)
        self._before = np.zeros(len(edges), np.int64)  # ends in all tables before each, and in all
        self._num_counted = 0  # tables, so far

    @abstractmethod
    def _load(self, i: int) -> np.ndarray:
        """Return the ends in stretch i, counted from its first token: sorted int64."""

    def _num_ends(self, i: int) -> int:
        return len(self._tables[i])

    def ranges(self, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first token, and the one after the last, of each document."""
        return self._ends(documents - 1), self._ends(documents)

    def edges(self, first: int, stop: int) -> np.ndarray:
        """Return where the documents first .. stop-1 begin, and where the last of them ends."""
        while self._before[self._num_counted] < stop and self._count_next():
            pass
        before = self._before[: self._num_counted + 1].tolist()
        low = max(0, first - 1)  # ends of documents low .. stop-1
        found = [np.zeros(int(first == 0), np.int64)]
        for i in range(
            bisect_right(before, low) - 1, min(bisect_left(before, stop), len(before) - 1)
        ):
            table = self._tables[i][max(0, low - before[i]) : max(0, stop - before[i])]
            found.append(table + self._starts[i])
        edges = np.concatenate(found)
        is_whole = len(edges) == stop - first + 1
        return edges if is_whole else np.append(edges, self._starts[-1])

    def at(self, position: int) -> int:
        """Return the document that holds the token at this position."""
        i = int(np.searchsorted(self._starts, position, side="right")) - 1
        while self._num_counted < i:
            self._count_next()
        inside = position - int(self._starts[i])
        return int(self._before[i]) + int(np.searchsorted(self._tables[i], inside, side="right"))

    def _end(self, document: int) -> int:
        return int(self._ends(np.array([document]))[0])

    def _ends(self, documents: np.ndarray) -> np.ndarray:
        """Return where each document ends; 0 for the one before the first."""
        last = int(documents.max(initial=-1))
        while self._before[self._num_counted] <= last and self._count_next():
            pass
        before = self._before[: self._num_counted + 1]
        ends = np.where(documents < 0, 0, self._starts[-1])
        listed = np.flatnonzero((documents >= 0) & (documents < before[-1]))
        tables = np.searchsorted(before, documents[listed], side="right") - 1
        for i, which in groups_of(tables):
            here = listed[which]
            ends[here] = self._starts[i] + self._tables[i][documents[here] - before[i]]
        return ends

    def _count_next(self) -> bool:
        """Count the ends in one more table; return False when all have been counted."""
        i = self._num_counted
        if i == len(self._starts) - 1:
            return False
        self._before[i + 1] = self._before[i] + self._num_ends(i)
        self._num_counted = i + 1
        return True


class IndexedDocuments(Documents):
    """Ends from the index of each file."""

    def __init__(self, reader: ShardReader, shard_starts: np.ndarray) -> None:
        super().__init__(shard_starts)
        self._files = reader.files
        self._checked = np.zeros(len(self._files), bool)

    @property
    def count(self) -> int:
        while self._count_next():
            pass
        ends = int(self._before[-1])
        return ends + (self._end(ends - 1) < int(self._starts[-1]))

    def ends(self, start: int, stop: int) -> np.ndarray:
        """Positions e with start < e <= stop where a document ends, each once."""
        found = []
        first = max(0, int(np.searchsorted(self._starts, start, side="right")) - 1)
        for i in range(first, len(self._files)):
            origin = int(self._starts[i])
            if origin >= stop:
                break
            table = self._tables[i]
            low, high = np.searchsorted(table, [start - origin, stop - origin], side="right")
            found.append(table[low:high] + origin)
        positions = np.concatenate(found) if found else np.empty(0, np.int64)
        # Empty documents end where the one before them ends.
        return positions[np.diff(positions, prepend=start) > 0]

    def ends_in_rows(self, starts: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Ends e with start < e < start + length, for many starts at once: numbers of rows, and e.

        Row after row, ends ascending; empty documents end where the one before them ends.
        """
        # By their 16 highest bits, in a tenth of the time of a whole sort: neighbouring searches
        # then touch the same cache lines.
        shift = max(0, int(starts.max(initial=0)).bit_length() - 16)
        rows = (starts >> shift).astype(np.uint16).argsort(kind="stable")
        starts = starts[rows]
        stops = starts + (length - 1)
        files = np.searchsorted(self._starts, starts, side="right") - 1
        num_ends = np.zeros(len(rows), np.int64)
        found = []
        while len(rows):
            # Each turn handles one file of every row that is left, its rows together.
            cuts = np.flatnonzero(files[1:] != files[:-1]) + 1
            for low, high in itertools.pairwise([0, *cuts.tolist(), len(files)]):
                table, origin = self._tables[int(files[low])], self._starts[files[low]]
                edges = np.stack([starts[low:high], stops[low:high]], axis=1) - origin
                firsts, lasts = table.searchsorted(edges, side="right").T
                counts = lasts - firsts
                ends = table[runs(firsts, counts)] + origin
                found.append((rows[low:high], counts, ends))
                num_ends[rows[low:high]] += counts
            (left,) = (stops > self._starts[files + 1]).nonzero()
            rows, starts, stops, files = rows[left], starts[left], stops[left], files[left] + 1
        places = num_ends.cumsum() - num_ends  # of the next end of each row
        in_order = np.empty(num_ends.sum(), np.int64)
        for rows, counts, ends in found:
            in_order[runs(places[rows], counts)] = ends
            places[rows] += counts
        return np.arange(len(num_ends)).repeat(num_ends), in_order

    def num_empty(self) -> int:
        """Documents without a token."""
        empty, before = 0, 0
        for i, file in enumerate(self._files):
            table = self._tables[i]
            empty += int((np.diff(table, prepend=before) == 0).sum())
            # The first of the next file is empty only where a document ended at its edge too.
            before = 0 if len(table) and table[-1] == file.num_tokens else -1
        return empty

    def _num_ends(self, i: int) -> int:
        # A part of a file (the last tenth, say) holds only some of its documents.
        file = self._files[i]
        stated = None if file.partial or file.ends is None else file.ends.count
        return len(self._tables[i]) if stated is None else stated

    def _load(self, i: int) -> np.ndarray:
        file = self._files[i]
        assert file.ends is not None
        table: np.ndarray = file.ends()
        is_new = not self._checked[i]
        if is_new and len(table) and (table[0] < 0 or (table[1:] < table[:-1]).any()):
            where = int(np.argmax(np.diff(table, prepend=0) < 0))
            raise CorruptShardError(
                f"the document index of {file.path} goes back at entry {where}: {table[where]}",
                hint=OTHER_BUILD,
            )
        low = 0 if file.first == 0 else int(np.searchsorted(table, file.first, side="right"))
        high = int(np.searchsorted(table, file.first + file.num_tokens, side="right"))
        if high < len(table) and not file.partial:
            raise CorruptShardError(
                f"the document index of {file.path} ends at token {int(table[-1]):,}, but the file "
                f"has {file.first + file.num_tokens:,}",
                hint=OTHER_BUILD,
            )
        if is_new and file.hashes is not None:
            # Ends that were changed may still be sorted: only the hash in the manifest detects it.
            found = xxhash.xxh3_128_hexdigest(table.data)
            check_hash(file.ends.file or file.path, file.hashes.ends, found)
        self._checked[i] = True
        return table[low:high] - file.first if file.first else table[low:high]


class ScannedDocuments(Documents):
    """Ends found by looking for the end-of-text id."""

    def __init__(
        self,
        read: Callable[[int, int], np.ndarray],
        num_tokens: int,
        end_of_text_id: int,
        comes: str | None,
    ) -> None:
        super().__init__(np.append(np.arange(0, num_tokens, BLOCK), num_tokens))
        self._read = read
        self._num_tokens = num_tokens
        self._id = end_of_text_id
        # `after`: token e - 1 is the id. `before`: token e is the id, the first of the next.
        self._ahead = 1 if comes == "before" else 0

    count = None

    def ends(self, start: int, stop: int) -> np.ndarray:
        found = [np.empty(0, np.int64)]
        for low in range(start, stop, BLOCK):
            high = min(stop, low + BLOCK)
            tokens = self._read(low + self._ahead, min(high + self._ahead, self._num_tokens))
            found.append(np.flatnonzero(tokens == self._id) + (low + 1))
        if self._ahead and start < stop == self._num_tokens:
            found.append(np.array([stop]))
        return np.concatenate(found)

    def _load(self, i: int) -> np.ndarray:
        low, high = self._starts[i : i + 2].tolist()
        table: np.ndarray = self.ends(low, high) - low
        return table

    def _ends(self, documents: np.ndarray) -> np.ndarray:
        ends = super()._ends(documents)
        last = int(documents.max(initial=-1))
        total = int(self._before[self._num_counted])
        if last >= total:
            tail = self._num_tokens > 0 and self._end(total - 1) < self._num_tokens
            if last >= total + tail:
                raise IndexError(f"document {last} of a dataset of {total + tail} documents")
        return ends
