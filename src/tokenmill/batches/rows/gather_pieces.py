"""Copy pieces of documents into rows, with begin tokens before them and padding after them.

All rows of several batches are put together as one list of slices: of the maps of shards, of a
begin token, of a run of padding; joining them is one copy. A slice costs a fixed time, so where
pieces are short, tokens are fetched by index instead, shard by shard. Files that are read rather
than mapped (`backend="pread"`), or more shards at once than may be open, are read piece by piece.
"""

from typing import Any, NamedTuple

import numpy as np

from tokenmill.batches.gather import IdCheck
from tokenmill.dataset import TokenDataset
from tokenmill.errors import FormatError
from tokenmill.order.row_order import RowPieces, runs

_BEGIN, _PADDING = -1, -2  # in the place of a shard
_SHORT = 40  # tokens; where slices are shorter on average, an index is faster


class _Slices(NamedTuple):
    """Where the tokens of some rows come from, in the order in which they are in the rows."""

    shards: np.ndarray
    offsets: np.ndarray
    lengths: np.ndarray


class PieceReader:
    """Rows of one length, made of pieces of one dataset."""

    def __init__(
        self,
        data: TokenDataset,
        length: int,
        dtype: np.dtype[Any],
        check_ids: bool,
        begin_token: int | None,
    ) -> None:
        self.data, self.length, self._begin_token = data, length, begin_token
        self._ids = IdCheck(data, dtype, check_ids)
        padding = np.full(length, data.end_of_text_id or 0, data.dtype)
        begin = np.full(1, begin_token or 0, data.dtype)
        self._made = {_BEGIN: begin, _PADDING: padding}
        self._maps: dict[int, memoryview] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_maps": {}}

    def take(self, pieces: RowPieces) -> np.ndarray:
        """The rows, (n, length) in the stored dtype: a new array, which the caller may change."""
        if not pieces.num_rows:
            return np.empty((0, self.length), self.data.dtype)
        slices = self._slices_of(pieces)
        wanted = set(np.unique(slices.shards).tolist()) - self._made.keys()
        if self.data.backend == "pread" or len(wanted) > self.data.max_open:
            flat = self._read(slices)
        elif len(slices.shards) * _SHORT > pieces.num_rows * self.length:
            flat = self._index(slices, wanted)
        else:
            flat = self._join(slices, wanted)
        rows = flat.reshape(pieces.num_rows, self.length)
        self._check(rows, pieces)
        return rows

    def _slices_of(self, pieces: RowPieces) -> _Slices:
        """Where the tokens of these rows come from; a piece across shards is several slices."""
        edges = self.data.shard_starts
        left = pieces.lengths - pieces.begins
        shards = np.searchsorted(edges, pieces.starts, side="right") - 1
        offsets = pieces.starts - edges[shards]
        firsts = np.arange(len(left) + 1)  # the first slice of each piece; then their number
        if (pieces.starts + left > edges[shards + 1]).any():
            firsts, shards, offsets, left = _cut_at_shards(edges, shards, offsets, left)

        # A begin token before its piece; padding before the first piece of the next row.
        padded = np.flatnonzero(pieces.filled < self.length)
        begins = np.flatnonzero(pieces.begins)
        at = firsts[np.concatenate([pieces.firsts[padded + 1], begins])]
        if not len(at):
            return _Slices(shards, offsets, left)
        kinds = np.repeat([_PADDING, _BEGIN], [len(padded), len(begins)])
        sizes = np.concatenate([self.length - pieces.filled[padded], np.ones(len(begins), int)])
        return _Slices(
            np.insert(shards, at, kinds), np.insert(offsets, at, 0), np.insert(left, at, sizes)
        )

    def _join(self, slices: _Slices, wanted: set[int]) -> np.ndarray:
        maps = self._maps
        if len(wanted | maps.keys()) > self.data.max_open:
            maps.clear()
        for shard in wanted - maps.keys():
            maps[shard] = self.data.array(shard).data
        for kind, array in self._made.items():
            maps[kind] = array.data
        stops = slices.offsets + slices.lengths
        parts = zip(slices.shards.tolist(), slices.offsets.tolist(), stops.tolist(), strict=True)
        joined = bytearray().join([maps[shard][start:stop] for shard, start, stop in parts])
        return np.frombuffer(joined, self.data.dtype)

    def _index(self, slices: _Slices, wanted: set[int]) -> np.ndarray:
        places = np.cumsum(slices.lengths) - slices.lengths
        flat = np.empty(int(slices.lengths.sum()), self.data.dtype)
        for shard in (*self._made, *wanted):
            (mine,) = (slices.shards == shard).nonzero()
            array = self._made[shard] if shard in self._made else self.data.array(shard)
            lengths = slices.lengths[mine]
            flat[runs(places[mine], lengths)[1]] = array[runs(slices.offsets[mine], lengths)[1]]
        return flat

    def _read(self, slices: _Slices) -> np.ndarray:
        """Shard by shard, so that each is opened once."""
        places = np.cumsum(slices.lengths) - slices.lengths
        flat = np.empty(int(slices.lengths.sum()), self.data.dtype)
        for i in np.argsort(slices.shards, kind="stable").tolist():
            shard, offset, place = (
                int(table[i]) for table in (slices.shards, slices.offsets, places)
            )
            part = flat[place : place + int(slices.lengths[i])]
            if shard in self._made:
                part[:] = self._made[shard][: len(part)]
            else:
                self.data.read_into(shard, offset, part)
        return flat

    def _check(self, rows: np.ndarray, pieces: RowPieces) -> None:
        """Refuse a wrong id, and a document that begins with the begin token by itself."""
        if (wrong := self._ids.first_wrong(rows)) is not None:
            row, column = wrong
            piece = (
                int(pieces.firsts[row])
                + np.searchsorted(
                    pieces.columns[pieces.firsts[row] : pieces.firsts[row + 1]],
                    column,
                    side="right",
                )
                - 1
            )
            inside = column - int(pieces.columns[piece]) - int(pieces.begins[piece])
            self._ids.refuse(int(rows[row, column]), int(pieces.starts[piece]) + inside)
        if self._begin_token is None:
            return
        begins = np.flatnonzero(pieces.begins)
        first = rows[pieces.rows[begins], pieces.columns[begins] + 1]
        doubled = begins[first == self._begin_token]
        if len(doubled):
            raise doubled_begin(self.data, int(pieces.starts[doubled[0]]))


def _cut_at_shards(
    edges: np.ndarray, shards: np.ndarray, offsets: np.ndarray, left: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Cut pieces where a shard ends: the first slice of each piece, then the slices."""
    pieces, found = np.arange(len(left)), []
    while len(pieces):
        size = np.minimum(left, edges[shards + 1] - edges[shards] - offsets)
        found.append((pieces, shards, offsets, size))
        more = left > size
        pieces, shards, left = pieces[more], shards[more] + 1, (left - size)[more]
        offsets = np.zeros(len(pieces), np.int64)
    owner, shards, offsets, sizes = (np.concatenate(table) for table in zip(*found, strict=True))
    order = np.argsort(owner, kind="stable")
    firsts = np.searchsorted(owner[order], np.arange(len(found[0][0]) + 1))
    return firsts, shards[order], offsets[order], sizes[order]


def doubled_begin(data: TokenDataset, position: int) -> FormatError:
    """The error for a document that begins with the begin token before one is put there."""
    return FormatError(
        f"document {data.document_at(position):,} of {data.path} begins with the begin token "
        f"{int(data[position])} already; one more would be put before it",
        hint="leave begin_token out: the files have it",
    )
