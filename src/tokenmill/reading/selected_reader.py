"""The tokens, columns and facts of chosen documents (selection.py), read from their dataset."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, NoReturn

import numpy as np

from tokenmill.base.histogram import Histogram
from tokenmill.errors import FormatError
from tokenmill.order.order import Locality
from tokenmill.order.spans import Spans
from tokenmill.reading.facts import Facts
from tokenmill.reading.selection import DOCUMENTS_AT_ONCE, Masks, Selection, select
from tokenmill.reading.shard_reader import ShardReader
from tokenmill.reading.span_reader import Cells, Flags, IdLimit, SpanReader
from tokenmill.reading.token_file import Lazy, TokenFile, index_state
from tokenmill.reading.where import Where

NAME = "(selection)"


def masks_of(data: Any, where: Any) -> Masks:
    """Yield which documents are chosen: by SQL, by a mask of booleans, or by their numbers."""
    if isinstance(where, str):
        facts: Facts = data.all_facts
        chosen = Where(where, facts.schema)
        yield from chosen.masks(facts.batches(chosen.columns or ["id"]))
        return
    mask = _mask_of(np.asarray(where), data.num_documents)
    for first in range(0, len(mask), DOCUMENTS_AT_ONCE):
        yield mask[first : first + DOCUMENTS_AT_ONCE]


def _mask_of(given: np.ndarray, num_documents: int) -> np.ndarray:
    """Return a mask of all documents, from one or from the numbers of documents."""
    if given.dtype == bool and given.ndim == 1:
        if len(given) != num_documents:
            raise ValueError(
                f"where has {len(given):,} booleans, and the dataset {num_documents:,} documents"
            )
        return given
    if given.dtype.kind not in "ui" or given.ndim != 1:
        raise ValueError(
            f"where is an array of {given.dtype} of shape {given.shape}; expected SQL, a boolean "
            f"for each of the {num_documents:,} documents, or numbers of documents"
        )
    mask = np.zeros(num_documents, bool)
    wrong = given[(given < 0) | (given >= num_documents)]
    if len(wrong):
        raise ValueError(f"where: document {wrong[0]} of a dataset of {num_documents:,} documents")
    mask[given] = True
    if np.count_nonzero(mask) < len(given):
        twice = np.sort(given)
        again = twice[1:][twice[1:] == twice[:-1]][0]
        raise ValueError(f"where: document {again} is named twice; a selection has it once")
    return mask


def budget_masks(data: Any, num_tokens: float) -> Masks:
    """Yield which documents are chosen by a hash of their content, with at most so many tokens."""
    highest = _last_id(data, num_tokens)
    for ids, _ in _ids_and_lengths(data):
        yield (ids[:, 0] < highest[0]) | ((ids[:, 0] == highest[0]) & (ids[:, 1] <= highest[1]))


def _last_id(data: Any, num_tokens: float) -> tuple[int, int]:
    """Return the largest id that is chosen: all up to it have at most `num_tokens` tokens.

    Ids are counted by their first 16 bits; those of one such group alone are sorted.
    """
    per_group = np.zeros(1 << 16, np.int64)
    for ids, lengths in _ids_and_lengths(data):
        groups = (ids[:, 0] >> 48).astype(np.int64)
        per_group += np.bincount(groups, lengths, 1 << 16).astype(np.int64)
    total = np.cumsum(per_group)
    group = int(np.searchsorted(total, num_tokens, side="right"))
    if group == 1 << 16:
        return (1 << 64) - 1, (1 << 64) - 1
    kept = [(ids[here], n[here]) for ids, n in _ids_and_lengths(data)
            for here in [ids[:, 0] >> 48 == group]]  # fmt: skip
    ids, lengths = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    order = np.lexsort((ids[:, 1], ids[:, 0]))
    ids = ids[order]
    before = int(total[group] - per_group[group])
    fits = before + np.cumsum(lengths[order]) <= num_tokens
    is_last = np.append((ids[1:] != ids[:-1]).any(axis=1), True)  # of those with one content
    (found,) = (fits & is_last).nonzero()
    if len(found):
        return int(ids[found[-1], 0]), int(ids[found[-1], 1])
    return (group << 48) - 1 if group else -1, (1 << 64) - 1


def _ids_and_lengths(data: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield ids, (documents, 2) uint64, and tokens of all documents, some at a time."""
    first = 0
    for batch in data.all_facts.batches(["id"]):
        column = batch["id"]
        ids = np.frombuffer(column.buffers()[1], ">u8").reshape(-1, 2)[column.offset :][
            : len(column)
        ]
        edges = data.edges_of_documents(first, first + len(ids))
        first += len(ids)
        yield ids.astype("<u8"), np.diff(edges)


def choose(data: Any, asked: object, masks: Callable[[], Masks]) -> "SelectedReader":
    """Return the reader of the documents of `data` that the masks choose; `asked` names these."""
    if not data.has_index:
        raise FormatError(
            f"only data with an index of its documents can be chosen from; {data.path} has none",
            hint=f"write one: tokenmill convert {data.path} DATASET --to tokenmill",
        )
    facts = data.all_facts.identity if data.has_facts else []
    asked = hashlib.blake2b(asked.tobytes()).hexdigest() if isinstance(asked, np.ndarray) else asked
    identity = [data.fingerprint, *map(index_state, data.files), facts, asked]
    selection = select(data, identity, masks)
    if not selection.num_tokens:
        raise FormatError(
            f"no document of {data.path} ({data.split or 'all'}) is chosen by {asked!r:.200}",
            hint="a selection holds one at least; data.facts() shows what there is",
        )
    digest = hashlib.blake2b(f"{data.fingerprint} {selection.digest}".encode(), digest_size=16)
    file = TokenFile("", NAME, data.dtype, 0, 0, stated_hash=digest.hexdigest())
    file = replace(file, columns=data.files[0].columns)
    return SelectedReader(list(_files(data, selection, file)), data, selection)


def _files(data: Any, selection: Selection, file: TokenFile) -> Iterator[TokenFile]:
    """Yield a file for the chosen documents of each split: its `offset` is where it begins."""
    groups = [(split, list(group)) for split, group in groupby(data.files, lambda f: f.split)]
    sizes = [sum(part.num_tokens for part in group) for _, group in groups]
    edges = np.cumsum([0, *sizes]).tolist()
    first, begin = 0, 0
    for (split, _), stop in zip(groups, edges[1:], strict=True):
        last = len(selection.ends)
        if stop < data.num_tokens:
            last = selection.num_chosen_before(data.document_at(stop))
        end = int(selection.ends[last - 1]) if last else 0
        itemsize = data.dtype.itemsize
        ends = Lazy(_ends, (selection, first, last, begin), last - first, NAME)
        size = (end - begin) * itemsize
        yield replace(file, num_tokens=end - begin, file_bytes=size, offset=begin * itemsize,
                      ends=ends, split=split)  # fmt: skip
        first, begin = last, end


def _ends(selection: Selection, first: int, last: int, begin: int) -> np.ndarray:
    ends = selection.ends[first:last]
    return ends - begin if begin else ends


class SelectedReader(ShardReader):
    """The tokens of chosen documents; a part of them is a file with `first`."""

    def __init__(self, files: Sequence[TokenFile], data: Any, selection: Selection) -> None:
        super().__init__(files, backend="memory")
        self._data = data
        self._selection = selection

    def _maker(self) -> Callable[[Sequence[TokenFile]], ShardReader]:
        return partial(SelectedReader, data=self._data, selection=self._selection)

    def _position(self, i: int) -> int:
        """Return where file i begins on the axis of all chosen documents."""
        file = self.files[i]
        return file.offset // file.dtype.itemsize + file.first

    def span_reader(self, edges: np.ndarray, locality: Locality, ids: IdLimit) -> SpanReader:
        ids = _LimitInData(ids, self._selection, self._position(0))
        data = self._data
        inner = data._reader.span_reader(data.shard_starts, locality, ids)
        return SelectedSpans(inner, data, self._selection, self._position(0))

    def _read(self, i: int, offset: int, count: int) -> np.ndarray:
        start = self._position(i) + offset
        pieces = _in_data(self._selection, start, start + count)
        return np.concatenate([self._data.tokens(*piece) for piece in pieces])

    def columns_of(self, edges: np.ndarray) -> Any:
        return SelectedColumns(self._data, self._selection, self._position(0))

    @property
    def facts(self) -> Facts:
        edges = [self._position(0), self._position(len(self.files) - 1) + self.files[-1].num_tokens]
        first, last = self._selection.ends.searchsorted(edges, side="right").tolist()
        first = first if edges[0] else 0  # also where the first documents have no token
        return SelectedFacts(self._data, self._selection, first, last)


class SelectedSpans(SpanReader):
    """Spans of chosen documents; `position` is where the axis begins that they are counted on."""

    def __init__(self, inner: SpanReader, data: Any, selection: Selection, position: int) -> None:
        self._inner = inner
        self._data = data
        self._selection = selection
        self._position = position

    def with_columns(self, columns: Any) -> SpanReader:
        inner = self._inner.with_columns(self._data._column_values)
        return SelectedSpans(inner, self._data, self._selection, self._position)

    def _in_data(self, spans: Spans) -> Spans:
        if self._position:
            spans = replace(spans, start=spans.start + self._position)
        return self._selection.spans_in_data(spans)

    def read(
        self, spans: Spans, out: np.ndarray, continues: Flags = None, cells: Cells = None
    ) -> None:
        self._inner.read(self._in_data(spans), out, continues, cells)

    def follow(self, coming: Callable[[], Spans], fetches: Histogram) -> None:
        self._inner.follow(lambda: self._in_data(coming()), fetches)


class SelectedColumns:
    """The columns of chosen documents: values of neighbouring tokens."""

    def __init__(self, data: Any, selection: Selection, position: int) -> None:
        self._data = data
        self._selection = selection
        self._position = position
        self.all: Mapping[str, Any] = data._column_values.all

    def values(self, name: str, start: int, stop: int) -> np.ndarray:
        """Return the stored values of tokens start .. stop-1."""
        values = self._data._column_values.values
        pieces = _in_data(self._selection, start + self._position, stop + self._position)
        return np.concatenate([values(name, *piece) for piece in pieces] or [values(name, 0, 0)])


def _in_data(selection: Selection, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield where tokens start .. stop-1 of all chosen documents are in the dataset."""
    zero = np.zeros(1, np.int64)
    spans = selection.spans_in_data(Spans(1, zero, zero, zero, zero + start, zero + stop - start))
    yield from zip(spans.start.tolist(), (spans.start + spans.length).tolist(), strict=True)


class SelectedFacts(Facts):
    """The facts of chosen documents first .. last-1."""

    def __init__(self, data: Any, selection: Selection, first: int, last: int) -> None:
        self._facts: Facts = data.all_facts
        super().__init__(self._facts.files)
        self._selection = selection
        self._first, self._last = first, last
        self.num_documents = last - first

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        import pyarrow as pa

        at, done = 0, -self._first  # chosen documents so far
        for batch in self._facts.batches(columns):
            mask = self._selection.mask(at, at + len(batch))
            at += len(batch)
            chosen = batch.filter(pa.array(mask))
            low, high = max(0, -done), min(len(chosen), self.num_documents - done)
            done += len(chosen)
            if low < high:
                yield chosen.slice(low, high - low)

    def row(self, document: int) -> dict[str, Any]:
        return self._facts.row(self._selection.document_in_data(self._first + document))


class _LimitInData:
    """The limit of a selection, asked with positions in the dataset."""

    def __init__(self, ids: IdLimit, selection: Selection, position: int) -> None:
        self.largest = ids.largest
        self.end_of_text = ids.end_of_text
        self.comes_before = ids.comes_before
        self._ids = ids
        self._selection = selection
        self._position = position

    def refuse(self, start: int, length: int) -> NoReturn:
        self._ids.refuse(self._selection.token_at(start) - self._position, length)
