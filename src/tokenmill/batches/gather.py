"""Copy many windows of a dataset into one array: the only place where tokens are moved.

Rows are taken by one fancy index of the sliding windows of a map, then widened in one more pass;
that is the fastest NumPy has (twice as fast as a slice assignment for each row). The maps of
several shards are indexed as one (rows/joint_maps.py). Where a row crosses the edge of a shard, or
frames of compressed shards are in use, rows are joined as slices, one across an edge being two or
more slices: no NumPy call per row. Files that are read rather than mapped (`backend="pread"`) are
read row by row.

Finding the shard of a row is vectorised and apart (`find_shards`), so that it is done for
thousands of rows at a time, off the path of a batch.
"""

import functools
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tokenmill.batches.lookup import place_of
from tokenmill.batches.rows.joint_maps import JointMaps, take_windows
from tokenmill.dataset import TokenDataset
from tokenmill.errors import FormatError
from tokenmill.reading.packed_reader import FrameRuns


class IdCheck:
    """Whether ids are in the vocabulary of their data and fit into the dtype of batches."""

    def __init__(self, data: TokenDataset, dtype: np.dtype[Any], check_ids: bool) -> None:
        self._data, self._dtype = data, dtype
        # Seen as unsigned, an id below 0 is huge: one look for the largest finds it as well.
        self._unsigned = np.dtype(f"u{data.dtype.itemsize}")
        self._largest = min(int(np.iinfo(kind).max) for kind in (data.dtype, dtype))
        # To look at each id takes up to a tenth of the time that bare loading does, so ids that
        # were compared when they were written are taken as they are.
        if check_ids and not data.ids_were_checked and (largest := data.largest_id) is not None:
            self._largest = min(self._largest, largest)
        must_fit = check_ids or not np.can_cast(data.dtype, dtype)
        self._may_exceed = must_fit and self._largest < np.iinfo(self._unsigned).max

    def first_wrong(self, rows: np.ndarray) -> tuple[int, int] | None:
        """The row and column of the first wrong id, if there is one."""
        if not self._may_exceed or int(rows.view(self._unsigned).max()) <= self._largest:
            return None
        row, column = np.argwhere(rows.view(self._unsigned) > self._largest)[0].tolist()
        return row, column

    def refuse(self, found: int, position: int) -> NoReturn:
        """Name an id that is below 0, beyond the vocabulary or too wide."""
        data = self._data
        place, vocab_size = place_of(data, position), data.stated_vocab_size
        why = "which is below 0" if found < 0 else "which is not in its vocabulary"
        if found > np.iinfo(self._dtype).max:
            why = f"which {self._dtype} cannot hold"
        raise FormatError(
            f"{place.file} holds the id {found:,}, {why} (its token {place.offset:,}; vocabulary: "
            f"{'unknown' if vocab_size is None else f'{vocab_size:,} ids'})",
            hint="it is read with the wrong dtype, is of another tokenizer, or marks padding so: "
            "`tokenmill verify` looks at all three",
        )


class RowReader:
    """Rows of one length from one dataset, for batches of a dtype that their ids must fit into."""

    def __init__(
        self,
        data: TokenDataset,
        length: int,
        dtype: np.dtype[Any],
        check_ids: bool,
        frames: FrameRuns | None = None,
    ) -> None:
        self.data, self.length = data, length
        # What rows are cut from: the shards, or in their place the frames of compressed ones.
        self._runs: TokenDataset | FrameRuns = frames or data
        self._ids = IdCheck(data, dtype, check_ids)
        self._maps: dict[int, memoryview] = {}
        self._joint: JointMaps | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_maps": {}, "_joint": None}

    def find_shards(self, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The shard of each start, and the token within it; in the shape of `starts`."""
        edges = self._runs.shard_starts
        if len(edges) == 2:
            return np.zeros(starts.shape, np.int64), starts
        if self._shard_size is not None:
            shards = starts // self._shard_size
            return shards, starts - shards * self._shard_size
        shards = np.searchsorted(edges, starts, side="right") - 1
        return shards, starts - edges[shards]

    @functools.cached_property
    def _shard_size(self) -> int | None:
        """The size of every shard but the last, which may be smaller; None if they differ."""
        sizes = np.diff(self._runs.shard_starts)
        is_one = (sizes[:-1] == sizes[0]).all() and 0 < sizes[-1] <= sizes[0]
        return int(sizes[0]) if is_one else None

    def take(self, shards: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The rows that begin there, (n, length) in the stored dtype; all must end within the data.

        A new array, which the caller may change.
        """
        if not len(offsets):
            return np.empty((0, self.length), self.data.dtype)
        if self._runs.backend == "pread" or not self.data.are_here(shards, offsets, self.length):
            rows = self._read(shards.tolist(), offsets.tolist())
        elif len(self._runs.shard_starts) == 2:
            rows = take_windows(self._runs.array(0), offsets, self.length)
        else:
            rows = self._take_from_many(shards, offsets)
        if (wrong := self._ids.first_wrong(rows)) is not None:
            row, column = wrong
            position = int(self._runs.shard_starts[shards[row]]) + int(offsets[row]) + column
            self._ids.refuse(int(rows[row, column]), position)
        return rows

    def _take_from_many(self, shards: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        if self._runs is self.data and len(self.data.shards) <= self.data.max_open:
            if self._joint is None:
                self._joint = JointMaps(self.data, self.length)
            rows = self._joint.take(shards, offsets)
            if rows is not None:
                return rows
        return self._join(shards.tolist(), offsets.tolist())

    def _join(self, shards: list[int], offsets: list[int]) -> np.ndarray:
        length, maps = self.length, self._maps
        wanted = set(shards)
        if len(wanted | maps.keys()) > self._runs.max_open:
            self._make_room(wanted)
            if len(wanted) > self._runs.max_open:
                half = len(shards) // 2
                first = self._join(shards[:half], offsets[:half])
                return np.concatenate([first, self._join(shards[half:], offsets[half:])])
        for shard in wanted - maps.keys():
            maps[shard] = self._runs.array(shard).data
        pieces = [
            maps[shard][offset : offset + length]
            for shard, offset in zip(shards, offsets, strict=True)
        ]
        joined = bytearray().join(pieces)
        if len(joined) < len(pieces) * length * self.data.dtype.itemsize:
            joined = bytearray().join(self._completed(shards, pieces))
        rows: np.ndarray = np.frombuffer(joined, self.data.dtype)
        return rows.reshape(len(pieces), length)

    def _make_room(self, wanted: set[int]) -> None:
        maps = self._maps
        if self._runs is self.data:
            maps.clear()  # a map is had again for little
            return
        surplus = len(wanted | maps.keys()) - self._runs.max_open
        for shard in [shard for shard in maps if shard not in wanted][:surplus]:
            del maps[shard]  # the frame that was unpacked first

    def _completed(self, shards: list[int], pieces: list[memoryview]) -> list[memoryview | bytes]:
        """The pieces of a join, each that a shard cut short followed by its rest.

        Rests are copied: a row over many tiny shards does not hold a map of each.
        """
        whole: list[memoryview | bytes] = []
        for shard, piece in zip(shards, pieces, strict=True):
            whole.append(piece)
            missing = self.length - len(piece)
            while missing:
                shard += 1
                found = self._maps.get(shard)
                rest = (self._runs.array(shard).data if found is None else found)[:missing]
                whole.append(rest.tobytes())
                missing -= len(rest)
        return whole

    def _read(self, shards: list[int], offsets: list[int]) -> np.ndarray:
        rows = np.empty((len(offsets), self.length), self.data.dtype)
        for row, shard, offset in zip(rows, shards, offsets, strict=True):
            done = 0
            while done < self.length:
                take = min(self.length - done, self.data.shards[shard].num_tokens - offset)
                if take:
                    self.data.read_into(shard, offset, row[done : done + take])
                done += take
                shard, offset = shard + 1, 0
        return rows


def check_dtype(data: TokenDataset, dtype: npt.DTypeLike) -> None:
    """Refuse a dtype of batches that an id of this data might not fit into."""
    wanted = np.dtype(dtype)
    if wanted.kind not in "iu":
        raise ValueError(f"dtype is {wanted}; token ids are whole numbers, for example int64")
    if np.can_cast(data.dtype, wanted, "safe"):
        return
    largest = int(np.iinfo(wanted).max)
    if data.vocab_size is None or data.vocab_size - 1 > largest:
        known = "unknown" if data.vocab_size is None else f"{data.vocab_size:,}"
        raise ValueError(
            f"dtype {wanted} holds ids up to {largest:,}, but {data.path} is stored as "
            f"{data.dtype} and its vocabulary size is {known}; use int64"
        )
