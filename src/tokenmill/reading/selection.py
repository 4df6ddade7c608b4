"""A selection: chosen documents of a dataset as an axis of their own, which no file holds.

The axis is cut into runs: documents that are neighbours in the dataset and all chosen. A span of it
becomes spans of the dataset by a search over the first tokens of the runs, so that every order and
kind of row works as on a dataset prepared from these documents alone, with the same batches.

Of many documents it is a file in the user's cache folder, named by a hash of the data, its facts
and what was asked for. It is mapped, and compared with its hash when it is opened (`_open`).

    8 bytes       TMILPICK
    4088 bytes    JSON: version, key, num_documents, num_runs, xxh3_128; then spaces
    ends          where each chosen document ends on the new axis: int64
    runs          for each: first token on the new axis, and in the dataset; number of its first
                  document among the chosen ones, and in the dataset: four tables of int64
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np
import orjson
import xxhash

from tokenmill.base.atomic import new_file, user_cache
from tokenmill.base.hashing import BLOCK_BYTES
from tokenmill.base.lock import wait_for_others
from tokenmill.errors import CorruptShardError
from tokenmill.order.spans import Spans, runs
from tokenmill.reading.token_axis import TokenAxis

VERSION = 1
IN_MEMORY = 1 << 20  # documents of the dataset; choosing among so few takes a moment
DOCUMENTS_AT_ONCE = 1 << 17
_MAGIC = b"TMILPICK"
_ALIGN = 4096
_TABLES = 4
_REBUILD = "remove it; it is made again when it is needed"

Masks = Iterable[np.ndarray]
"""For some documents at a time, in order: which of them are chosen, bool."""


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
            return _reopen, (self.path, self.digest)
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
    num_documents = data.num_documents or 0
    if num_documents <= IN_MEMORY:
        with TemporaryFile() as file, TemporaryFile() as tables:
            digest, num_chosen, num_runs = _write(file, tables, data, masks())
            return _read_selection(file, num_chosen, num_runs, digest, None)
    key = hashlib.blake2b(repr([VERSION, *identity]).encode(), digest_size=16).hexdigest()
    path = user_cache("selections") / f"{key}.selection"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with wait_for_others(path):
            if not path.exists():
                with new_file(path) as file, TemporaryFile(dir=path.parent) as tables:
                    digest, num_chosen, num_runs = _write(file, tables, data, masks())
                    header = {
                        "version": VERSION,
                        "key": key,
                        "num_documents": num_chosen,
                        "num_runs": num_runs,
                        "xxh3_128": digest,
                    }
                    file.seek(0)
                    file.write((_MAGIC + orjson.dumps(header)).ljust(_ALIGN))
    return _open(path, key)


def _write(
    file: IO[bytes], tables: IO[bytes], data: TokenAxis, masks: Masks
) -> tuple[str, int, int]:
    """Write all but the header; return its hash, and how many documents and runs there are."""
    file.write(bytes(_ALIGN))
    num_tokens, num_chosen, num_runs, first = 0, 0, 0, 0
    goes_on = False  # the document before is chosen
    for mask in masks:
        if first + len(mask) > (data.num_documents or 0):
            first += len(mask)
            break
        edges = data.edges_of_documents(first, first + len(mask))
        lengths = np.diff(edges)[mask]
        ends = num_tokens + np.cumsum(lengths)
        file.write(ends.astype("<i8").data)
        (begins,) = (mask & ~np.concatenate([[goes_on], mask[:-1]])).nonzero()
        nth = np.cumsum(mask)[begins] - 1  # of the documents here
        new = np.stack([ends[nth] - lengths[nth], edges[begins], num_chosen + nth, first + begins])
        tables.write(np.ascontiguousarray(new.T, "<i8").data)
        num_tokens = int(ends[-1]) if len(ends) else num_tokens
        num_chosen += len(ends)
        num_runs += len(begins)
        first += len(mask)
        goes_on = bool(mask[-1]) if len(mask) else goes_on
    if first != data.num_documents:
        raise ValueError(f"where: {first:,} values for the {data.num_documents:,} documents")
    tables.flush()
    if num_runs:
        in_rows = np.memmap(tables, "<i8", "r", shape=(num_runs, _TABLES))
        for k in range(_TABLES):
            for low in range(0, num_runs, DOCUMENTS_AT_ONCE):
                file.write(np.ascontiguousarray(in_rows[low : low + DOCUMENTS_AT_ONCE, k]).data)
    file.flush()
    return _hash_of(file), num_chosen, num_runs


def _hash_of(file: IO[bytes]) -> str:
    """Return the hash of all after the header; read, not mapped, so that it takes no memory."""
    digest = xxhash.xxh3_128()
    file.seek(_ALIGN)
    while block := file.read(BLOCK_BYTES):
        digest.update(block)
    return digest.hexdigest()


def _read_selection(
    file: IO[bytes], num_chosen: int, num_runs: int, digest: str, path: Path | None
) -> Selection:
    size = num_chosen + _TABLES * num_runs
    values = np.empty(0, np.int64)
    if size and path is not None:
        values = np.asarray(np.memmap(file, "<i8", "r", _ALIGN, (size,)))
    elif size:
        file.seek(_ALIGN)
        values = np.frombuffer(file.read(), "<i8")
    return Selection(values[:num_chosen], values[num_chosen:].reshape(_TABLES, -1), digest, path)


def _open(path: Path, key: str | None) -> Selection:
    """Map a file; `key` is what it must be named by. The check reads all of it, at 10 GB/s."""
    with open(path, "rb", buffering=0) as file:
        try:
            first = file.read(_ALIGN)
            header = orjson.loads(first[len(_MAGIC) :])
            counts = header["num_documents"], header["num_runs"]
            size = _ALIGN + 8 * (counts[0] + _TABLES * counts[1])
            is_whole = first.startswith(_MAGIC) and os.fstat(file.fileno()).st_size == size
            is_whole &= header["version"] == VERSION and key in (None, header["key"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            is_whole = False
        if not is_whole:
            raise CorruptShardError(f"{path} is not a whole selection", hint=_REBUILD)
        if key is not None and _hash_of(file) != header["xxh3_128"]:
            raise CorruptShardError(f"{path} was changed after it was written", hint=_REBUILD)
        return _read_selection(file, *counts, header["xxh3_128"], path)


def _reopen(path: Path, digest: str) -> Selection:
    found = _open(path, None)
    if found.digest != digest:
        raise CorruptShardError(f"{path} was replaced while it was in use", hint=_REBUILD)
    return found
