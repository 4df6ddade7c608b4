"""A selection: chosen documents of a dataset as an axis of their own, which no file holds.

The axis is cut into runs: documents that are neighbours in the dataset and all chosen. A span of it
becomes spans of the dataset by a search over the first tokens of the runs, so that every order and
kind of row works as on a dataset prepared from these documents alone, with the same batches.

Of many documents it is a file in the user's cache folder, named by a hash of the data, its facts
and what was asked for. It is mapped, and compared with its hash when it is opened. All is int64:

    header        b"TMILPICK", key (2), xxh3-128 of what follows (2), number of chosen documents
    ends          where each chosen document ends on the new axis
    runs          for each: first token on the new axis, and in the dataset; number of its first
                  document among the chosen ones, and in the dataset: four tables
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import xxhash

from tokenmill.base.atomic import new_file, user_cache
from tokenmill.base.descriptors import reserve
from tokenmill.base.lock import wait_for_others
from tokenmill.errors import CorruptShardError
from tokenmill.order.spans import Spans, runs
from tokenmill.reading.token_axis import TokenAxis

VERSION = 2
IN_MEMORY = 1 << 20  # documents of the dataset; choosing among so few takes a moment
DOCUMENTS_AT_ONCE = 1 << 17
_MAGIC = b"TMILPICK"
_HASHED, _HEADER = 5, 6  # numbers before those that are hashed; before the ends
_TABLES = 4

Masks = Iterable[np.ndarray]
"""For some documents at a time, in order: which of them are chosen, bool."""
MakeArray = Callable[[int], np.ndarray]
"""Makes an array of so many int64."""


@dataclass(frozen=True, eq=False)
class Selection:
    """Which documents are chosen, in memory or mapped from the file at `path`."""

    ends: np.ndarray
    """(documents,) int64: where each chosen document ends on the new axis."""
    tables: np.ndarray
    """(4, runs) int64: place, start, nth and document, as in the file."""
    digest: str
    path: Path | None = None

    def __reduce__(self) -> tuple[object, ...]:
        if self.path is not None:  # the other process maps the file
            return _open, (self.path, self.digest)
        return Selection, (self.ends, self.tables, self.digest)

    @property
    def num_tokens(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def spans_in_data(self, spans: Spans) -> Spans:
        """Return spans of the new axis as spans of the dataset, one for each run they touch."""
        place, start = self.tables[:2]
        stop = spans.start + spans.length
        first = place.searchsorted(spans.start, side="right") - 1
        counts = place.searchsorted(stop, side="left") - first
        which = np.arange(len(first)).repeat(counts)
        run = runs(first, counts)
        low = np.maximum(place[run], spans.start[which])
        last = len(place) - 1
        ends = np.where(run < last, place[np.minimum(run + 1, last)], self.num_tokens)
        length = np.minimum(ends, stop[which]) - low
        column = spans.column[which] + low - spans.start[which]
        tables = (spans.row[which], column, spans.source[which], start[run] + low - place[run])
        found = Spans(spans.num_rows, *tables, length)
        return found if length.all() else found.chosen(length > 0)

    def num_chosen_before(self, document: int) -> int:
        """Return how many of the chosen documents come before this one of the dataset."""
        run = int(self.tables[3].searchsorted(document))
        after = len(self.ends) if run == self.tables.shape[1] else int(self.tables[2, run])
        if run == 0:
            return 0
        return min(int(self.tables[2, run - 1]) + document - int(self.tables[3, run - 1]), after)

    def token_at(self, position: int) -> int:
        """Return where a token of the dataset is on the new axis."""
        run = int(self.tables[1].searchsorted(position, side="right")) - 1
        return int(self.tables[0, run]) + position - int(self.tables[1, run])

    def document_in_data(self, document: int) -> int:
        """Return the number that a chosen document has in the dataset."""
        run = int(self.tables[2].searchsorted(document, side="right")) - 1
        return int(self.tables[3, run]) + document - int(self.tables[2, run])

    def mask(self, first: int, stop: int) -> np.ndarray:
        """Return which of the documents first .. stop-1 of the dataset are chosen: bool."""
        _, _, nth, document = self.tables
        low = max(0, int(document.searchsorted(first, side="right")) - 1)
        high = int(document.searchsorted(stop, side="left"))
        begins = document[low:high]
        counts = np.diff(np.append(nth[low : high + 1], len(self.ends))[: high - low + 1])
        edges = np.zeros(stop - first + 1, np.int64)
        np.add.at(edges, np.clip(begins - first, 0, stop - first), 1)
        np.add.at(edges, np.clip(begins + counts - first, 0, stop - first), -1)
        chosen: np.ndarray = edges.cumsum()[:-1] > 0
        return chosen


def select(data: TokenAxis, identity: Sequence[object], masks: Callable[[], Masks]) -> Selection:
    """Return the chosen documents of `data`, from the cache or found now.

    `identity` is what, besides the data, says which they are.
    """
    if (data.num_documents or 0) <= IN_MEMORY:
        values = _find(data, masks(), lambda size: np.empty(size, "<i8"))
        return _selection(values, _hash_of(values), None)
    key = hashlib.blake2b(repr([VERSION, *identity]).encode(), digest_size=16)
    path = user_cache("selections") / f"{key.hexdigest()}.selection"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with wait_for_others(path):
            if not path.exists():
                with new_file(path) as file:
                    _write(file, key.digest(), data, masks())
    return _open(path)


def _write(file: IO[bytes], key: bytes, data: TokenAxis, masks: Masks) -> None:
    def make(size: int) -> np.ndarray:
        reserve(file.fileno(), 8 * size)  # where a mapped page finds no room, a process dies
        return np.memmap(file, "<i8", "r+", shape=(size,))

    values = _find(data, masks, make)
    values[1:_HASHED] = np.frombuffer(key + bytes.fromhex(_hash_of(values)), "<i8")


def _find(data: TokenAxis, masks: Masks, make: MakeArray) -> np.ndarray:
    """Return the numbers of the file, without key and hash, in an array that `make` makes."""
    chosen = np.concatenate([np.empty(0, bool), *masks])
    if len(chosen) != data.num_documents:
        raise ValueError(f"where: {len(chosen):,} values for {data.num_documents:,} documents")
    num_chosen = int(chosen.sum())
    num_runs = int((chosen[1:] > chosen[:-1]).sum() + chosen[:1].sum())
    values = make(_HEADER + num_chosen + _TABLES * num_runs)
    values[0] = np.frombuffer(_MAGIC, "<i8")[0]
    values[_HASHED] = num_chosen
    all_ends, tables = _parts(values)
    num_tokens, document, run = 0, 0, 0  # so far
    for first in range(0, len(chosen), DOCUMENTS_AT_ONCE):
        mask = chosen[first : first + DOCUMENTS_AT_ONCE]
        edges = data.edges_of_documents(first, first + len(mask))
        lengths = np.diff(edges)[mask]
        ends = num_tokens + np.cumsum(lengths)
        before = chosen[max(0, first - 1) : first + len(mask) - 1]
        (begins,) = (mask > (before if first else np.append(False, before))).nonzero()
        nth = np.cumsum(mask)[begins] - 1  # of the documents here
        all_ends[document : document + len(ends)] = ends
        tables[:, run : run + len(begins)] = (
            *(ends[nth] - lengths[nth], edges[begins]),
            *(document + nth, first + begins),
        )
        num_tokens = int(ends[-1]) if len(ends) else num_tokens
        document += len(ends)
        run += len(begins)
    return values


def _parts(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends and the tables."""
    begin = _HEADER + int(values[_HASHED])
    return values[_HEADER:begin], values[begin:].reshape(_TABLES, -1)


def _hash_of(values: np.ndarray) -> str:
    return xxhash.xxh3_128_hexdigest(values[_HASHED:].data)


def _selection(values: np.ndarray, digest: str, path: Path | None) -> Selection:
    ends, tables = _parts(np.asarray(values))
    return Selection(ends, tables, digest, path)


def _open(path: Path, digest: str | None = None) -> Selection:
    """Map a file. The check reads all of it, at 10 GB/s; `digest`: another process has checked."""
    try:
        values: np.ndarray = np.memmap(path, "<i8", "r")
        stored = values[3:_HASHED].tobytes().hex()
        is_whole = values[:3].tobytes() == _MAGIC + bytes.fromhex(path.stem)
        is_whole = is_whole and (len(values) - _HEADER - values[_HASHED]) % _TABLES == 0
    except (ValueError, IndexError):  # empty, or not of whole numbers
        is_whole = False
    hint = "remove it; it is made again when it is needed"
    if not is_whole:
        raise CorruptShardError(f"{path} is not a whole selection", hint=hint)
    if (digest or _hash_of(values)) != stored:
        raise CorruptShardError(f"{path} was changed after it was written", hint=hint)
    return _selection(values, stored, path)
